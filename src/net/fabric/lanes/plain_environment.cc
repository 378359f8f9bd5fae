#include "plain_environment.h"

#include <unistd.h>

namespace ros2s::fabric::lanes {

std::mutex& PlainEnvironment::one_at_a_time() {
    static std::mutex mutex;
    return mutex;
}

PlainEnvironment::PlainEnvironment(std::string_view prefix, std::vector<char*>& plain,
                                   std::span<std::string> settings)
    : lock_(one_at_a_time()), before_(environ), plain_(plain) {
    for (char** each = before_; each != nullptr && *each != nullptr; ++each) {
        if (!std::string_view(*each).starts_with(prefix)) plain_.push_back(*each);
    }
    for (std::string& each : settings) plain_.push_back(each.data());
    plain_.push_back(nullptr);
    environ = plain_.data();
}

PlainEnvironment::~PlainEnvironment() {
    if (environ == plain_.data()) environ = before_;
}

}  // namespace ros2s::fabric::lanes
