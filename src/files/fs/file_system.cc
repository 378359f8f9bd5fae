#include "file_system.h"

namespace ros2s::fs {

Result<> check_name(std::string_view name) {
    if (name.size() > name_bytes_max) return fail(Code::name_too_long, name_bytes_max);
    if (name.empty() || name == "." || name == "..") return fail(Code::invalid);
    if (name.find('/') != name.npos || name.find('\0') != name.npos) return fail(Code::invalid);
    return {};
}

Result<> check_first(const Call& call) {
    if (call.update != nullptr && call.update->repeated) return fail(Code::stale);
    return {};
}

bool begin_read(ReadManyItem& item) {
    item.status = {};
    item.bytes = item.size = 0;
    std::string_view rest = item.name;
    for (;;) {
        const size_t slash = rest.find('/');
        item.status = check_name(rest.substr(0, slash));
        if (!item.status || slash == rest.npos) break;
        rest.remove_prefix(slash + 1);
    }
    if (item.status && !item.window.is_local()) item.status = fail(Code::unsupported);
    return item.status.has_value();
}

}  // namespace ros2s::fs
