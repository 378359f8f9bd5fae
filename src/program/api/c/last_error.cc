#include "last_error.h"

#include <fmt/format.h>

#include <cerrno>

#include "ros2s/api/queue/sentence.h"

namespace ros2s::api::c {
namespace {

// The C ABI needs a global for it, as for errno.
thread_local std::string sentence_of_thread;

}  // namespace

const char* last_error() noexcept { return sentence_of_thread.c_str(); }

int refuse(int os_errno, std::string sentence) noexcept {
    sentence_of_thread = std::move(sentence);
    return -os_errno;
}

int refuse(const Error& error, std::string_view what, std::string_view path) noexcept {
    return refuse(to_errno(error), sentence_of(error, what, path));
}

int refuse_after_fork(std::string_view what) noexcept {
    return refuse(EBADF, fmt::format("{}: the handle was opened before fork() and is the parent's: "
                                     "start this process as a new program and open it there",
                                     what));
}

}  // namespace ros2s::api::c
