#include "ros2s/runtime/bounded_end.h"

#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace ros2s {
namespace {

// For the handler of a signal.
const char* program_name = "";

void say(const char* text) noexcept {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
}

}  // namespace

void prepare_bounded_end(const char* program) noexcept {
    program_name = program;
    struct sigaction late{};
    late.sa_handler = [](int) {
        say(program_name);
        say(": interrupted: cleaning up took longer than a second, and was ended\n");
        ::_exit(exit_interrupted);
    };
    sigaction(SIGALRM, &late, nullptr);
}

void begin_bounded_end() noexcept {
    constexpr itimerval within{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 800'000}};
    ::setitimer(ITIMER_REAL, &within, nullptr);
}

void cancel_bounded_end() noexcept {
    constexpr itimerval none{};
    ::setitimer(ITIMER_REAL, &none, nullptr);
}

}  // namespace ros2s
