#include "file_system.h"

#include "payload_checksums.h"

namespace ros2s::fs {

Result<> check_name(std::string_view name) {
    if (name.size() > name_bytes_max) return fail(Code::name_too_long, name_bytes_max);
    if (name.empty() || name == "." || name == "..") return fail(Code::invalid);
    if (name.find('/') != name.npos || name.find('\0') != name.npos) return fail(Code::invalid);
    return {};
}

Result<> check_first(const Call& call) {
    if (call.repeated) return fail(Code::stale);
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

Task<Result<>> compare_checksums(const Call& call, ConstBytes bytes, uint64_t offset) {
    PayloadChecksums& sums = *call.checksums;
    // The pieces depend on nothing else of an offset, which may be any number here.
    const uint64_t within = offset % block_bytes;
    ROS2S_CO_TRY(
        co_await object::array_checksums_in_slices(sums.turns, call, within, bytes, sums.pieces));
    if (object::combined_checksum(within, bytes.size(), sums.pieces) == sums.whole) {
        co_return Result<>{};
    }
    sums.differed = true;
    co_return fail(Code::corrupt);
}

}  // namespace ros2s::fs
