#include "starter.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace ros2s::fuse {
namespace {

[[noreturn]] void give_up(const char* what) {
    std::fprintf(stderr, "ros2store-fuse: cannot go into the background: %s: %s\n", what,
                 std::strerror(errno));
    std::exit(1);
}

}  // namespace

void Starter::go_into_background() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) give_up("pipe");
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) give_up("fork");
    if (child == 0) {
        ::close(ends[0]);
        pipe_ = ends[1];
        ::setsid();  // Ctrl-C in the terminal must not reach this process
        // But if it ends the parent, nobody wants this mount any more.
        ::prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (::getppid() != parent) ::_exit(1);
        ::signal(SIGPIPE, SIG_IGN);  // of ready() without a parent
        return;
    }
    ::close(ends[1]);
    char said = 0;
    ssize_t got = 0;
    do {
        got = ::read(ends[0], &said, 1);
    } while (got < 0 && errno == EINTR);
    if (got == 1) ::_exit(0);
    // It ended without ready(). It has printed the reason on the same terminal.
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status)) {
        std::fprintf(stderr, "ros2store-fuse: the background process was killed by signal %d\n",
                     WTERMSIG(status));
        ::_exit(1);
    }
    ::_exit(WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : 1);
}

void Starter::ready() noexcept {
    if (pipe_ < 0) return;
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        for (const int each : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, each);
        if (null > STDERR_FILENO) ::close(null);
    }
    ::prctl(PR_SET_PDEATHSIG, 0);
    const char word = 'R';
    ssize_t said = 0;
    do {
        said = ::write(pipe_, &word, 1);
    } while (said < 0 && errno == EINTR);
    if (said < 0) ::kill(::getpid(), SIGTERM);  // the parent ended just now
    ::close(pipe_);
    // The working directory must not keep another file system busy.
    if (::chdir("/") != 0) return;
}

}  // namespace ros2s::fuse
