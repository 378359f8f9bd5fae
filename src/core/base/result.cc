#include "result.h"

#include <strings.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "ros2s/base/bytes.h"

namespace ros2s {

std::string_view describe(Code code) noexcept {
    switch (code) {
        case Code::not_found: return "not found";
        case Code::exists: return "it exists already";
        case Code::invalid: return "invalid argument";
        case Code::not_directory: return "not a directory";
        case Code::is_directory: return "it is a directory";
        case Code::not_empty: return "the directory is not empty";
        case Code::loop: return "a loop of directories or symbolic links";
        case Code::name_too_long: return "the name is too long";
        case Code::no_space: return "the pool is full";
        case Code::no_memory: return "the memory budget is used up";
        case Code::read_only: return "read-only";
        case Code::denied: return "permission denied";
        case Code::busy: return "in use";
        case Code::condition_failed: return "a condition of the transaction does not hold";
        case Code::corrupt: return "corrupt: a checksum does not match";
        case Code::io: return "the device or kernel reported an error";
        case Code::no_attribute: return "no such attribute";
        case Code::too_small: return "the buffer is too small";
        case Code::too_large: return "over a limit";
        case Code::stale: return "stale";
        case Code::unsupported: return "not supported";
        case Code::bad_version: return "an unknown format version";
        case Code::cancelled: return "cancelled";
        case Code::deadline: return "the deadline passed";
        case Code::closed: return "closed";
        case Code::disconnected: return "the connection to the peer is lost";
        case Code::name_taken:
            return "another request was made under this request's name; this one was not done";
        case Code::expired:
            return "the stored reply has expired; it is unknown whether the request was done";
        case Code::over_cap: return "the container, or its tenant, has used all the space it may";
        case Code::leased: return "others keep what the request changes, and have not answered yet";
    }
    return "unknown error";
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
    switch (error.code) {
        case Code::not_found: return ENOENT;
        case Code::exists: return EEXIST;
        case Code::invalid: return EINVAL;
        case Code::not_directory: return ENOTDIR;
        case Code::is_directory: return EISDIR;
        case Code::not_empty: return ENOTEMPTY;
        case Code::loop: return ELOOP;
        case Code::name_too_long: return ENAMETOOLONG;
        case Code::no_space: return ENOSPC;
        case Code::over_cap: return EDQUOT;
        case Code::no_memory: return ENOMEM;
        case Code::read_only: return EROFS;
        case Code::denied: return EPERM;
        case Code::busy: return EBUSY;
        case Code::leased: return EBUSY;
        case Code::no_attribute: return ENODATA;
        case Code::too_small: return ERANGE;
        case Code::too_large: return EFBIG;
        case Code::stale: return ESTALE;
        case Code::unsupported: return EOPNOTSUPP;
        case Code::bad_version: return EPROTO;
        case Code::cancelled: return ECANCELED;
        case Code::deadline: return ETIMEDOUT;
        case Code::closed: return EBADF;
        case Code::disconnected: return ENOTCONN;
        case Code::condition_failed:
        case Code::corrupt:
        case Code::name_taken:
        case Code::expired:
        case Code::io: return EIO;
    }
    return EIO;
}

}  // namespace ros2s
