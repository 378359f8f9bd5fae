#include "listen_text.h"

#include "ros2s/base/text_parts.h"
#include "ros2s/fabric/providers/providers.h"

namespace ros2s::daemon {

std::vector<std::string> parts_of(std::string_view text) {
    std::vector<std::string> parts;
    while (!text.empty()) {
        const size_t end = std::min(text.find(','), text.size());
        if (const auto part = without_spaces(text.substr(0, end)); !part.empty())
            parts.emplace_back(part);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

Result<std::vector<Listen>> parse_listen(std::string_view text, std::string_view where,
                                         Report& report) {
    constexpr std::string_view example = "write it like 'ucx+tcp 192.0.2.1:7401'";
    std::vector<Listen> found;
    for (const std::string& part : parts_of(text)) {
        const size_t space = part.find(' ');
        const std::string provider = part.substr(0, space);
        if (!fabric::is_provider(provider)) {
            return report.fail(Code::invalid,
                               "{}: '{}' is not a provider; the providers are {}: {}", where, part,
                               fabric::provider_names(), example);
        }
        if (space == part.npos) {
            return report.fail(Code::invalid, "{}: the provider '{}' has no address: {}", where,
                               provider, example);
        }
        found.push_back(
            {.provider = provider, .address = std::string(without_spaces(part.substr(space)))});
    }
    if (found.empty()) {
        return report.fail(Code::invalid, "{} names no provider: {}", where, example);
    }
    return found;
}

}  // namespace ros2s::daemon
