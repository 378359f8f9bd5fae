#include "listen_text.h"

#include "ros2s/base/text_parts.h"
#include "ros2s/fabric/providers/providers.h"

namespace ros2s::daemon {

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
        std::string address(without_spaces(part.substr(space)));
        if (address.starts_with('@')) {
            return report.fail(Code::invalid,
                               "{}: '{}': any user of this machine can take the address {} first: "
                               "give a path, such as 'shm /run/ros2store/data'",
                               where, part, address);
        }
        found.push_back({.provider = provider, .address = std::move(address)});
    }
    if (found.empty()) {
        return report.fail(Code::invalid, "{} names no provider: {}", where, example);
    }
    return found;
}

}  // namespace ros2s::daemon
