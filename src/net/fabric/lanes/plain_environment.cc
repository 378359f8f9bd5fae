#include "plain_environment.h"

#include <unistd.h>

#include <atomic>
#include <string>

#include "ros2s/runtime/fork.h"

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

namespace {

bool is_of_ucx(std::string_view provider) { return provider.starts_with("ucx"); }

// The process that the users are in, and how many there are: one number, because another thread may
// open or close a domain during a fork.
struct Users {
    uint32_t generation = 0;
    uint32_t count = 0;
};

std::atomic<Users>& users_of(bool ucx) {
    static std::atomic<Users> of_ucx, of_ofi;
    return ucx ? of_ucx : of_ofi;
}

void add(bool ucx, uint32_t difference) noexcept {
    const uint32_t here = fork_generation();
    Users found = users_of(ucx).load(), wanted;
    do {
        wanted = {here, (found.generation == here ? found.count : 0) + difference};
    } while (!users_of(ucx).compare_exchange_weak(found, wanted));
}

}  // namespace

Result<> ForkedUse::check(std::string_view provider, Report& report) {
    const bool ucx = is_of_ucx(provider);
    const Users found = users_of(ucx).load();
    if (found.count == 0 || found.generation == fork_generation()) return {};
    return report.fail(Code::unsupported,
                       "this process was forked while its parent used {}, which works in one of "
                       "the two only: use provider=shm or provider=tls, or close the parent's "
                       "containers before the fork",
                       ucx ? "UCX" : "libfabric");
}

ForkedUse::ForkedUse(std::string_view provider) noexcept : is_ucx_(is_of_ucx(provider)) {
    add(is_ucx_, 1);
}

ForkedUse::~ForkedUse() { add(is_ucx_, UINT32_MAX); }

}  // namespace ros2s::fabric::lanes
