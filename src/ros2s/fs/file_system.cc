#include "file_system.h"

namespace ros2s::fs {

Result<> check_name(std::string_view name) {
    if (name.size() > name_bytes_max) return fail(Code::name_too_long, name_bytes_max);
    if (name.empty() || name == "." || name == "..") return fail(Code::invalid);
    if (name.find('/') != name.npos || name.find('\0') != name.npos) return fail(Code::invalid);
    return {};
}

}  // namespace ros2s::fs
