// start_thread: a named thread with every signal blocked, because the process around us expects
// its signals on its own threads.
#pragma once
#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "ros2s/base/result.h"
#include "ros2s/runtime/process_limits.h"

namespace ros2s {

// "cannot start WHAT (REASON): raise …"
[[nodiscard]] inline std::string no_thread(const std::string& what, const Error& error) {
    const std::string failed = "cannot start " + what + " (" + describe(error) + "): ";
    if (address_space_left() < thread_stack_bytes()) {
        return failed +
               "no address space is left for its stack: raise this process's limit (ulimit -v)";
    }
    return failed + "raise the limit on processes (ulimit -u) or on tasks (TasksMax=, pids.max)";
}

template <class F>
[[nodiscard]] Result<std::thread> start_thread(const std::string& name, F body) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    Result<std::thread> started = fail(Code::no_memory);
    try {
        started = std::thread(std::move(body));
        // The kernel takes 15 characters.
        pthread_setname_np(started->native_handle(), name.substr(0, 15).c_str());
    } catch (const std::system_error& error) {
        started = fail_errno(error.code().value());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
}

}  // namespace ros2s
