// How `ros2store why` asks the process that has a container mounted: it reads an extended attribute
// of the file, which that process answers itself and names in no list. The value is text. Whoever
// may read the file may ask. `ros2store status` reads one of the mount's root in the same way: the
// pool's number of targets, a space, and why the pool takes no updates ("": it takes them).
#pragma once
#include <string_view>

#include "ros2s/api/file_trace.h"

namespace ros2s::api {

inline constexpr const char* mount_status_attribute = "user.ros2store.status";
// Names that a mount answers itself. It lists none of them and lets nobody set one.
inline constexpr std::string_view reserved_attributes = "user.ros2store.";
inline constexpr size_t mount_answer_bytes_max = 64 << 10;

struct MountQuestion {
    uint64_t offset = 0;
    TraceKinds kinds = TraceKinds::read;  // with a write: at 0, of a file of the caller's, unlinked
};
[[nodiscard]] std::string to_attribute(MountQuestion question);
// Nothing where it is the name of another attribute.
[[nodiscard]] std::optional<MountQuestion> parse_question(std::string_view attribute);

struct MountTrace {
    FileTrace trace;
    Duration handled{};  // from the arrival of the question to the answer
};
[[nodiscard]] std::string to_text(const MountTrace& answer);
// Takes any text, of which no control character comes back; nothing where it is no answer.
[[nodiscard]] std::optional<MountTrace> parse_answer(const std::string& text);

}  // namespace ros2s::api
