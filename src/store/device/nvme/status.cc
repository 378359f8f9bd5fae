#include "status.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace ros2s::device {
namespace {

constexpr int32_t do_not_retry = 0x4000;
constexpr int32_t code_mask = 0x7ff;

struct Status {
    int32_t code;
    int os_errno;
    const char* text;
};
constexpr Status statuses[] = {
    {0x002, EINVAL, "a field of the command is invalid"},
    {0x004, EIO, "the data could not be transferred"},
    {0x005, EIO, "the controller lost power"},
    {0x006, EIO, "an error inside the controller"},
    {0x007, EINTR, "the command was aborted"},
    {0x008, EINTR, "the command was aborted with its queue"},
    {0x00b, ENODEV, "there is no such namespace any more"},
    {0x020, EROFS, "the namespace is write-protected"},
    {0x080, EINVAL, "beyond the end of the namespace: it has become smaller"},
    {0x081, ENOSPC, "the namespace's capacity is exceeded"},
    {0x082, EAGAIN, "the namespace is not ready"},
    {0x083, EBUSY, "another host has reserved the namespace"},
    {0x280, EIO, "the medium could not be written"},
    {0x281, EIO, "the medium could not be read"},
    {0x286, EACCES, "the controller denies access"},
    {0x370, EIO, "the controller could not be reached, or was reset"},
    {0x371, ENODEV, "the controller is gone, or was reset"},
};

const Status* find(int32_t result) noexcept {
    for (const Status& status : statuses) {
        if (status.code == (result & code_mask)) return &status;
    }
    return nullptr;
}

}  // namespace

Error command_error(int32_t result) noexcept {
    if (result < 0) return {Code::io, -result, 0};
    const Status* status = find(result);
    return {Code::io, status != nullptr ? status->os_errno : EIO,
            static_cast<uint64_t>(result & code_mask)};
}

std::string describe_failure(int32_t result) {
    if (result < 0) {
        const bool gone = result == -ENODEV || result == -ENXIO;
        return fmt::format("{}{}", std::strerror(-result),
                           gone               ? ": the namespace is gone"
                           : result == -EINTR ? ": the controller was reset under the command"
                                              : "");
    }
    const Status* status = find(result);
    return fmt::format("NVMe status {:#x}: {}", result & code_mask,
                       status != nullptr ? status->text : "see the NVMe specification");
}

bool may_repeat(int32_t result) noexcept {
    return was_cancelled(result) || (result > 0 && (result & do_not_retry) == 0);
}

bool was_cancelled(int32_t result) noexcept {
    if (result < 0) return result == -EINTR;
    const int32_t code = result & code_mask;
    return code == 0x005 || code == 0x007 || code == 0x008 || code == 0x370 || code == 0x371;
}

}  // namespace ros2s::device
