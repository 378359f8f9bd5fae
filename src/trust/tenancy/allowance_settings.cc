#include "allowance_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ros2s::tenancy {

std::vector<config::Field> fields_of(admission::Allowance& a) {
    using namespace std::chrono_literals;
    constexpr uint64_t most = 1'000'000'000;
    constexpr uint32_t at_once = 1'000'000;
    return {
        config::count("weight", a.weight, 1, 1000,
                      "of its share of this server's time while others are active, 1 to 1000."),
        config::count("requests", a.requests, 0, most,
                      "reads and writes per second; 0: no limit, as for all rates."),
        config::size("bytes", a.bytes, 0, uint64_t{1} << 40,
                     "bytes read and written per second: 500MiB."),
        config::count("names", a.names, 0, most,
                      "names and attributes per second; each name of a batch or path counts."),
        config::duration("burst", a.burst, 1ms, 60s,
                         "how long it may exceed a rate after a pause: 100ms."),
        config::count("sessions", a.sessions, 0, at_once,
                      "open sessions; 0: no limit except the server's own, as for the next three."),
        config::count("handles", a.handles, 0, at_once, "open files and directories."),
        config::count("requests_in_flight", a.requests_in_flight, 0, at_once,
                      "requests in progress; further requests wait."),
        config::size("bytes_in_flight", a.bytes_in_flight, 0, uint64_t{1} << 40,
                     "payload of requests in progress: 16MiB.")};
}

std::vector<std::string_view> limit_names() {
    admission::Allowance allowance;
    std::vector<std::string_view> names;
    for (const config::Field& each : fields_of(allowance)) names.push_back(each.name());
    return names;
}

bool is_limit(std::string_view name) {
    const auto names = limit_names();
    return std::ranges::find(names, name) != names.end();
}

Result<admission::Allowance> parse_allowance(const config::Entries& entries,
                                             const SettingPlace& where, Report& report) {
    admission::Allowance allowance;
    const std::vector<config::Field> fields = fields_of(allowance);
    for (const auto& [name, text] : entries) {
        const auto field = std::ranges::find(fields, name, &config::Field::name);
        if (field == fields.end()) {
            return report.fail(Code::invalid, "{}: there is no limit '{}'; the limits are {}",
                               where.of(), name, fmt::join(limit_names(), ", "));
        }
        Report problem;
        const auto value = field->read(text, problem);
        if (!value) {
            return report.fail(value.error(), "{}: {}", where.of(name), problem.text());
        }
        field->store(*value);
    }
    return allowance;
}

}  // namespace ros2s::tenancy
