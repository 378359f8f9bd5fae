#include "status.h"

#include <cerrno>
#include <cstring>

namespace ros2s::engine {

Error error_of(const rocksdb::Status& status) {
    using rocksdb::Status;
    switch (status.subcode()) {
        case Status::kNoSpace:
        case Status::kSpaceLimit: return {Code::no_space, ENOSPC, 0};
        case Status::kMemoryLimit: return {Code::no_memory, 0, 0};
        case Status::kPathNotFound: return {Code::not_found, ENOENT, 0};
        case Status::kStaleFile: return {Code::stale, ESTALE, 0};
        default: break;
    }
    switch (status.code()) {
        case Status::kNotFound: return {Code::not_found, 0, 0};
        case Status::kCorruption: return {Code::corrupt, 0, 0};
        case Status::kNotSupported: return {Code::unsupported, 0, 0};
        case Status::kInvalidArgument: return {Code::invalid, 0, 0};
        case Status::kShutdownInProgress: return {Code::closed, 0, 0};
        case Status::kBusy: return {Code::busy, 0, 0};
        // RocksDB keeps the errno of a system call only as text.
        default: break;
    }
    const std::string text = status.ToString();
    for (const int each : {EACCES, EPERM, EROFS, ENFILE, EMFILE, EAGAIN, ENOMEM, EFBIG}) {
        if (text.find(std::strerror(each)) != std::string::npos) return fail_errno(each).error();
    }
    return {Code::io, EIO, 0};
}

bool is_locked(const rocksdb::Status& status) {
    // "While lock file: …" is another process, "lock hold by current process" is this one.
    const std::string text = status.ToString();
    return status.IsIOError() &&
           (text.find("lock file") != std::string::npos ||
            text.find("lock hold") != std::string::npos) &&
           text.find("Permission denied") == std::string::npos;
}

}  // namespace ros2s::engine
