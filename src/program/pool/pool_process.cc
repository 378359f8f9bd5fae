#include "ros2s/pool/pool_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "ros2s/fabric/deadline.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/pool/owner.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/runtime/kept_errno.h"
#include "ros2s/runtime/ring.h"

namespace ros2s::pool {
namespace {

constexpr size_t stack_bytes = 64 << 10;

struct Start {
    std::array<char*, 3> arguments;
    int owner, answer;
    std::byte* inner_stack_top;
    int error = 0;  // of exec; the memory is shared until then
};

// In the new process, on a stack of its own in the memory of the old one.
int become_program(void* of) {
    auto& start = *static_cast<Start*>(of);
    ::setsid();  // the terminal's signals are for the program
    const int owner = ::fcntl(start.owner, F_DUPFD, answer_descriptor + 1);
    const int answer = ::fcntl(start.answer, F_DUPFD, answer_descriptor + 1);
    const int null = ::open("/dev/null", O_RDWR);
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, standard);
    if (::dup2(owner, owner_descriptor) == owner_descriptor &&
        ::dup2(answer, answer_descriptor) == answer_descriptor) {
        ::close_range(answer_descriptor + 1, ~0U, 0);
        ::execv(start.arguments[0], start.arguments.data());
    }
    start.error = errno;
    ::_exit(127);
}

// The process between: it ends at once, so that init adopts the program. It has no exit signal.
int start_and_end(void* of) {
    auto& start = *static_cast<Start*>(of);
    if (::clone(become_program, start.inner_stack_top, CLONE_VM | CLONE_VFORK | SIGCHLD, of) < 0) {
        start.error = errno;
    }
    return 0;
}

// fork() would copy the page tables of a large program, and run the fork handlers of all libraries.
// Returns 0 or an errno.
int start(const std::string& program, const std::string& directory, int owner, int answer) {
    const KeptErrno kept;
    void* const stacks = ::mmap(nullptr, 2 * stack_bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stacks == MAP_FAILED) return errno;
    auto* const base = static_cast<std::byte*>(stacks);
    Start start{.arguments = {const_cast<char*>(program.c_str()),
                              const_cast<char*>(directory.c_str()), nullptr},
                .owner = owner,
                .answer = answer,
                .inner_stack_top = base + stack_bytes};
    // The program's handlers must not run in its memory from another process.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t between =
        ::clone(start_and_end, base + 2 * stack_bytes, CLONE_VM | CLONE_VFORK, &start);
    if (between < 0) {
        start.error = errno;
    } else {
        while (::waitpid(between, nullptr, __WCLONE) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::munmap(stacks, 2 * stack_bytes);
    return start.error;
}

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
        error = start(program, directory, lock.get(), theirs.get());
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
