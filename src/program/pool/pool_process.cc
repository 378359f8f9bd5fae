#include "ros2s/pool/pool_process.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "ros2s/fabric/deadline.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/pool/owner.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/runtime/detached_program.h"
#include "ros2s/runtime/ring.h"

namespace ros2s::pool {
namespace {

// Longer than the recovery of a pool takes.
constexpr Duration answer_within = std::chrono::seconds(30);

// Until the pipe ends: the sentence of a process that cannot open the pool. Errors: deadline,
// cancelled.
Task<Result<std::string>> read_answer(Reactor& reactor, int pipe, StopToken stop) {
    Result<std::string> text;
    fabric::Deadline deadline(reactor, reactor.now() + answer_within, stop);
    for (;;) {
        std::array<char, 512> part{};
        const ssize_t got = ::read(pipe, part.data(), part.size());
        if (got > 0) text->append(part.data(), static_cast<size_t>(got));
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) break;
        if (got < 0 && !co_await reactor.ring()->poll(pipe, POLLIN, deadline.token())) {
            text = deadline.error();
            break;
        }
    }
    co_await deadline.finish();
    co_return text;
}

}  // namespace

Task<Result<>> start_pool_process(Reactor& reactor, std::string program, std::string directory,
                                  StopToken stop, Report& report) {
    // A file of an owner is not made where no pool is.
    ROS2S_CO_TRY_ASSIGN(const PoolDirectory found, read_pool_directory(directory, report));
    directory = found.directory;
    ROS2S_CO_TRY_ASSIGN(const int locked, lock_for_another(directory, report));
    if (locked < 0) co_return Result<>{};
    fabric::Descriptor lock(locked), answer, theirs;
    std::array<int, 2> ends{};
    int error = ::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : errno;
    if (error == 0) {
        answer = fabric::Descriptor(ends[0]);
        theirs = fabric::Descriptor(ends[1]);
        error =
            start_detached(std::array{program, directory}, std::array{lock.get(), theirs.get()});
    }
    if (error != 0) {
        co_return report.fail(
            fail_errno(error).error(),
            "the pool in {} has no owner, and {}, which would open it for this process, cannot be "
            "started: {}. It belongs to libros2store: install the package ros2store again",
            directory, program, std::strerror(error));
    }
    lock.reset();
    theirs.reset();
    const auto trouble = co_await read_answer(reactor, answer.get(), stop);
    if (!trouble) {
        co_return report.fail(trouble.error(),
                              "{} has not opened the pool in {} yet ({}): try again later",
                              pool_program, directory, describe(trouble.error()));
    }
    if (trouble->empty()) co_return Result<>{};
    co_return report.fail(Code::io, "{}", *trouble);
}

}  // namespace ros2s::pool
