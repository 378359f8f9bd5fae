#include "result.h"

#include <strings.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <iterator>

#include "ros2s/base/bytes.h"

namespace ros2s {

namespace {

struct CodeRow {
    Code code;
    std::string_view name, description;
    int os_errno;
};
constexpr CodeRow rows[] = {
    {Code::not_found, "not_found", "not found", ENOENT},
    {Code::exists, "exists", "it exists already", EEXIST},
    {Code::invalid, "invalid", "invalid argument", EINVAL},
    {Code::not_directory, "not_directory", "not a directory", ENOTDIR},
    {Code::is_directory, "is_directory", "it is a directory", EISDIR},
    {Code::not_empty, "not_empty", "the directory is not empty", ENOTEMPTY},
    {Code::loop, "loop", "a loop of directories or symbolic links", ELOOP},
    {Code::name_too_long, "name_too_long", "the name is too long", ENAMETOOLONG},
    {Code::no_space, "no_space", "the pool is full", ENOSPC},
    {Code::no_memory, "no_memory", "the memory budget is used up", ENOMEM},
    {Code::read_only, "read_only", "read-only", EROFS},
    {Code::denied, "denied", "permission denied", EPERM},
    {Code::busy, "busy", "in use", EBUSY},
    {Code::condition_failed, "condition_failed", "a condition of the transaction does not hold",
     EIO},
    {Code::corrupt, "corrupt", "corrupt: a checksum does not match", EIO},
    {Code::io, "io", "the device or kernel reported an error", EIO},
    {Code::no_attribute, "no_attribute", "no such attribute", ENODATA},
    {Code::too_small, "too_small", "the buffer is too small", ERANGE},
    {Code::too_large, "too_large", "over a limit", EFBIG},
    {Code::stale, "stale", "stale", ESTALE},
    {Code::unsupported, "unsupported", "not supported", EOPNOTSUPP},
    {Code::bad_version, "bad_version", "an unknown format version", EPROTO},
    {Code::cancelled, "cancelled", "cancelled", ECANCELED},
    {Code::deadline, "deadline", "the deadline passed", ETIMEDOUT},
    {Code::closed, "closed", "closed", EBADF},
    {Code::disconnected, "disconnected", "the connection to the peer is lost", ENOTCONN},
    {Code::name_taken, "name_taken",
     "another request was made under this request's name; this one was not done", EIO},
    {Code::expired, "expired",
     "the stored reply has expired; it is unknown whether the request was done", EIO},
    {Code::over_cap, "over_cap", "the container, or its tenant, has used all the space it may",
     EDQUOT},
    {Code::leased, "leased", "others keep what the request changes, and have not answered yet",
     EBUSY},
};
static_assert([] {
    size_t number = 0;
    for (const CodeRow& row : rows) {
        if (row.code != static_cast<Code>(number++)) return false;
    }
    return true;
}());

const CodeRow* row_of(Code code) noexcept {
    const auto number = static_cast<size_t>(code);
    return number < std::size(rows) ? &rows[number] : nullptr;
}

}  // namespace

std::string_view describe(Code code) noexcept {
    const CodeRow* const row = row_of(code);
    return row != nullptr ? row->description : "unknown error";
}

std::string_view name_of(Code code) noexcept {
    const CodeRow* const row = row_of(code);
    return row != nullptr ? row->name : "";
}

std::optional<Code> code_of(std::string_view name) noexcept {
    const auto* const row = std::ranges::find(rows, name, &CodeRow::name);
    return row != std::end(rows) ? std::optional(row->code) : std::nullopt;
}

namespace {

std::string in_utc(uint64_t seconds) {
    const auto count = static_cast<std::time_t>(seconds);
    std::tm parts{};
    ::gmtime_r(&count, &parts);
    char text[64];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

// For errors of rpc: os_errno tells which connection is lost, and detail since when.
std::string describe_absence(const Error& error) {
    const bool behind = error.os_errno == EREMOTEIO;
    std::string text{behind ? "the DPU answers, but cannot reach the engine behind it"
                            : describe(error.code)};
    if (error.detail != 0)
        text.append(behind ? " since " : ", since ").append(in_utc(error.detail));
    return text;
}

// True if a limit of the process is the cause, and not a device or a budget of ours.
bool is_limit_of_process(const Error& error) {
    switch (error.os_errno) {
        case EAGAIN:
        case EMFILE:
        case ENFILE: return error.code == Code::io;
        case ENOMEM: return error.code == Code::no_memory;
        case EFBIG: return error.code == Code::too_large;
        default: return false;
    }
}

}  // namespace

std::string describe(const Error& error) {
    if (error.code == Code::disconnected && (error.detail != 0 || error.os_errno == EREMOTEIO)) {
        return describe_absence(error);
    }
    if (is_limit_of_process(error)) return std::strerror(error.os_errno);
    std::string text{describe(error.code)};
    // For errors of rpc, `detail` is the time limit of the client's requests.
    if (error.code == Code::deadline && error.detail > 0) {
        text = "the server did not reply within " + std::to_string(error.detail) +
               " s, this program's limit; the request may have been done";
    }
    if (error.code == Code::corrupt && error.detail > 0) {
        text += ", in the 4 KiB at byte ";
        text += std::to_string(round_down(error.detail - 1, block_bytes));
    }
    if (error.os_errno != 0) {
        const char* const said = std::strerror(error.os_errno);
        if (::strcasecmp(said, text.c_str()) != 0) text.append(" (").append(said).append(")");
    }
    return text;
}

std::unexpected<Error> fail_errno(int os_errno) {
    const auto code = [os_errno] {
        switch (os_errno) {
            case ENOENT: return Code::not_found;
            case EEXIST: return Code::exists;
            case EINVAL: return Code::invalid;
            case ENOTDIR: return Code::not_directory;
            case EISDIR: return Code::is_directory;
            case ENOTEMPTY: return Code::not_empty;
            case ELOOP: return Code::loop;
            case ENAMETOOLONG: return Code::name_too_long;
            case ENOSPC: return Code::no_space;
            case EDQUOT: return Code::over_cap;
            case ENOMEM: return Code::no_memory;
            case EROFS: return Code::read_only;
            case EACCES:
            case EPERM: return Code::denied;
            case EBUSY:
            case ETXTBSY: return Code::busy;
            case ENODATA: return Code::no_attribute;
            case ERANGE: return Code::too_small;
            case EFBIG:
            case E2BIG: return Code::too_large;
            case EBADF:
            case ESTALE: return Code::stale;
            case EOPNOTSUPP:
            case ENOSYS: return Code::unsupported;
            case ECANCELED: return Code::cancelled;
            case EPIPE:
            case ECONNRESET:
            case ECONNREFUSED:
            case ENOTCONN: return Code::disconnected;
            default: return Code::io;
        }
    }();
    return std::unexpected(Error{code, os_errno, 0});
}

int to_errno(const Error& error) noexcept {
    // Callers negate it, and take a number that is not negative for a count. A server may have sent
    // it.
    constexpr int errno_max = 4095;  // as in Linux
    if (error.os_errno < 0 || error.os_errno > errno_max) return EIO;
    if (error.os_errno != 0) return error.os_errno;
    const CodeRow* const row = row_of(error.code);
    return row != nullptr ? row->os_errno : EIO;
}

}  // namespace ros2s
