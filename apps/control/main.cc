// ros2store-control: calls control planes for forked children (ros2s/control/process). libros2store
// starts it.
#include <signal.h>
#include <sys/stat.h>

#include <cstdio>

#include "ros2s/control/process/helper_server.h"
#include "ros2s/runtime/os_reactor.h"

int main() {
    struct stat socket{};
    if (fstat(ros2s::control::helper_socket, &socket) != 0 || !S_ISSOCK(socket.st_mode)) {
        std::fputs(
            "ros2store-control: libros2store starts this program for forked children; it is "
            "not for people\n",
            stderr);
        return 2;
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);  // its starter had all signals blocked
    ros2s::Report report;
    auto reactor = ros2s::OsReactor::create({.ring = ros2s::RingChoice::threads}, report);
    if (!reactor) return 1;
    (*reactor)->run(ros2s::control::serve_as_helper(**reactor, ros2s::control::helper_socket));
}
