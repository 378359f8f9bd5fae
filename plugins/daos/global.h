// Global handles: one process of a job sends them to the others, so that these open the same pool
// or container. They are texts, each with its zero byte. Each receiver checks them, because another
// program may have sent them.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "daos_types.h"

namespace ros2s::daos {

// With iov_buf NULL, sets iov_buf_len to the size that is needed. Returns -DER_TRUNC if it does not
// fit.
int write_global(d_iov_t* global, std::initializer_list<std::string> parts);
// Empty if it does not have `count` parts.
[[nodiscard]] std::vector<std::string> read_global(const d_iov_t& global, size_t count);
// Returns 0 for text that is not a number.
[[nodiscard]] uint64_t parse_number(const std::string& text);

}  // namespace ros2s::daos
