#include "last_error.h"

#include <fmt/format.h>

#include <cerrno>

namespace ros2s::api::c {
namespace {

// The C ABI has no other place for it: errno's twin.
thread_local std::string sentence_of_thread;

}  // namespace

const char* last_error() noexcept { return sentence_of_thread.c_str(); }

int refuse(int os_errno, std::string sentence) noexcept {
    sentence_of_thread = std::move(sentence);
    return -os_errno;
}

std::string sentence_of(const Error& error, std::string_view what, std::string_view path) {
    const std::string_view remedy =
        error.code == Code::corrupt
            ? "; the bytes on the media are not those that were written: restore the file from a "
              "copy, and look at the disk"
            : "";
    return path.data() == nullptr
               ? fmt::format("{}: {}{}", what, describe(error), remedy)
               : fmt::format("{} '{}': {}{}", what, path, describe(error), remedy);
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
