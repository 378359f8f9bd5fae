// The form of an error in the C ABI: a negative errno, and a sentence that stays with the calling
// thread until its next failure.
#pragma once
#include <string>
#include <string_view>

#include "ros2s/base/result.h"

namespace ros2s::api::c {

[[nodiscard]] const char* last_error() noexcept;

// Keeps the sentence and returns the negative errno.
int refuse(int os_errno, std::string sentence) noexcept;
// "open 'a/b': not found", and for corrupt data what to do.
int refuse(const Error& error, std::string_view what, std::string_view path = {}) noexcept;
// A handle that was opened before fork().
int refuse_after_fork(std::string_view what) noexcept;

}  // namespace ros2s::api::c
