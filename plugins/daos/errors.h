// Error numbers of the DAOS interface, and the sentences that its functions cannot return.
#pragma once
#include <string_view>

#include "daos_errno.h"
#include "ros2s/base/result.h"

namespace ros2s::daos {

// -DER_NONEXIST for ENOENT (positive, as in errno). 0 for 0.
[[nodiscard]] int der_of_errno(int os_errno) noexcept;
[[nodiscard]] inline int der_of(const Error& error) noexcept {
    return der_of_errno(to_errno(error));
}
// ENOENT for -DER_NONEXIST. 0 for 0.
[[nodiscard]] int errno_of_der(int der) noexcept;

// Prints one line on standard error, once per process and sentence, because the interface can
// return numbers only.
void say_once(std::string_view sentence);

}  // namespace ros2s::daos
