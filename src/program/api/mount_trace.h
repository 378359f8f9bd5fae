// The request of `ros2store why` to the process that has a container mounted: it reads an extended
// attribute of the file. The process answers it itself and does not list it. The value is text. Any
// user that may read the file may request it. `ros2store status` reads another attribute of the
// mount's root in the same way: the pool's number of targets, a space, and why the pool takes no
// updates ("": it takes them).
#pragma once
#include <string_view>

#include "ros2s/api/file_trace.h"

namespace ros2s::api {

inline constexpr const char* mount_status_attribute = "user.ros2store.status";
// Names that a mount answers itself. It does not list them, and they cannot be set.
inline constexpr std::string_view reserved_attributes = "user.ros2store.";
inline constexpr size_t mount_answer_bytes_max = 64 << 10;

// Requests one read at `offset`.
[[nodiscard]] std::string to_attribute(uint64_t offset);
// The offset; empty if it is the name of another attribute.
[[nodiscard]] std::optional<uint64_t> parse_question(std::string_view attribute);

// Of a trace without a write. `handled`: from the arrival of the question to the answer.
[[nodiscard]] std::string to_text(const FileTrace& trace, Duration handled);
// `took`: from the question to the answer, as the program that asked measured it. Accepts any text,
// and returns no control characters. Empty if it is not an answer.
[[nodiscard]] std::optional<FileTrace> parse_answer(const std::string& text, Duration took);

}  // namespace ros2s::api
