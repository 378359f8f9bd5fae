// ros2store-pool: opens a pool for other processes (ros2s/pool/pool_process.h). libros2store starts
// it.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "ros2s/base/log.h"
#include "ros2s/pool/embedded_pool.h"
#include "ros2s/pool/pool_process.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/process_limits.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::pool {
namespace {

// The one that started it connects as soon as it can.
constexpr Duration first_user_within = std::chrono::seconds(10);
constexpr size_t blocking_threads_max = 8;

Task<Result<>> serve(Environment environment, std::string directory, Report& report) {
    OwnerRecord nobody;
    ROS2S_CO_TRY_ASSIGN(
        const auto pool,
        co_await EmbeddedPool::open(
            environment, directory,
            {.program = std::string(pool_program), .shares = true, .owner_file = owner_descriptor},
            nobody, report));
    ::close(answer_descriptor);
    co_await pool->until_unused(first_user_within);
    co_await pool->close();
    co_return Result<>{};
}

Result<> run(const std::string& directory, Report& report) {
    ROS2S_TRY_ASSIGN(const PoolDirectory found, read_pool_directory(directory, report));
    ROS2S_TRY_ASSIGN(const auto reactor, create_reactor(found, report));
    ThreadPool blocking(blocking_threads_max);
    ROS2S_TRY(blocking.start(report));
    return reactor->run(serve({.reactor = *reactor, .blocking = blocking}, directory, report));
}

}  // namespace
}  // namespace ros2s::pool

int main(int count, char** arguments) {
    if (count != 2 || ::fcntl(ros2s::pool::owner_descriptor, F_GETFD) < 0 ||
        ::fcntl(ros2s::pool::answer_descriptor, F_GETFD) < 0) {
        std::fputs("ros2store-pool: libros2store starts this program; it is not for people\n",
                   stderr);
        return 2;
    }
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);  // its starter had all signals blocked
    ::signal(SIGPIPE, SIG_IGN);
    // Its starter may be a program with few descriptors. The users of this one need more.
    rlimit descriptors{};
    if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
        descriptors.rlim_cur = descriptors.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &descriptors);
    }
    ros2s::prepare_for_limits();
    // A file system on which its starter was can be unmounted.
    [[maybe_unused]] const int moved = ::chdir("/");
    ros2s::Report report;
    if (ros2s::pool::run(arguments[1], report)) return 0;
    [[maybe_unused]] const auto said =
        ::write(ros2s::pool::answer_descriptor, report.text().data(), report.text().size());
    return 1;
}
