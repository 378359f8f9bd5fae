// A library for LD_PRELOAD that sets the wall clock of a program while it runs, and no other
// program's. The file $ROS2STORE_TEST_CLOCKS/<the program's name> holds how far ahead the clock is,
// as 8 bytes, in ns; a test changes it. A program without such a file has the machine's clock.
//
// gRPC's timers wait for points in wall time (futexes of Abseil): those wait by the same clock.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>

namespace {

constexpr int64_t second = 1'000'000'000;
// How soon a wait notices that the clock was set.
constexpr int64_t glance = second / 50;

const volatile int64_t* ahead_ns = nullptr;

// Runs before main(), and before other threads.
[[gnu::constructor]] void share_the_offset() {
    const char* const directory = ::getenv("ROS2STORE_TEST_CLOCKS");
    if (directory == nullptr) return;
    const std::string file = std::string(directory) + "/" + ::program_invocation_short_name;
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    void* const memory = ::mmap(nullptr, sizeof *ahead_ns, PROT_READ, MAP_SHARED, descriptor, 0);
    ::close(descriptor);
    if (memory == MAP_FAILED) ::_exit(126);
    ahead_ns = static_cast<const int64_t*>(memory);
}

template <class Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

int64_t to_ns(const timespec& time) { return time.tv_sec * second + time.tv_nsec; }
timespec to_timespec(int64_t ns) { return {.tv_sec = ns / second, .tv_nsec = ns % second}; }

int64_t wall_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return to_ns(now);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
    static auto* const original = next<int(clockid_t, timespec*)>("clock_gettime");
    const int result = original(clock, now);
    const bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (result == 0 && is_wall && ahead_ns != nullptr) *now = to_timespec(to_ns(*now) + *ahead_ns);
    return result;
}

int gettimeofday(timeval* now, void*) noexcept {
    const int64_t ns = wall_ns();
    *now = {.tv_sec = ns / second, .tv_usec = ns % second / 1000};
    return 0;
}

time_t time(time_t* out) noexcept {
    const time_t now = wall_ns() / second;
    if (out != nullptr) *out = now;
    return now;
}

long syscall(long number, ...) noexcept {
    static auto* const original = next<long(long, ...)>("syscall");
    va_list list;
    va_start(list, number);
    long with[6];
    for (long& each : with) each = va_arg(list, long);
    va_end(list);
    const auto call = [&] {
        return original(number, with[0], with[1], with[2], with[3], with[4], with[5]);
    };
    const bool waits_for_wall_time = number == SYS_futex &&
                                     (with[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET &&
                                     (with[1] & FUTEX_CLOCK_REALTIME) != 0 && with[3] != 0;
    if (ahead_ns == nullptr || !waits_for_wall_time) return call();
    const int64_t until = to_ns(*reinterpret_cast<const timespec*>(with[3]));
    for (;;) {
        const int64_t now = wall_ns();
        const int64_t pause = std::clamp<int64_t>(until - now, 0, glance);
        const timespec look = to_timespec(now - *ahead_ns + pause);
        with[3] = reinterpret_cast<long>(&look);
        const long result = call();
        if (result != -1 || errno != ETIMEDOUT || wall_ns() >= until) return result;
    }
}

}  // extern "C"
#pragma GCC visibility pop
