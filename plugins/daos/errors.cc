#include "errors.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

namespace ros2s::daos {
namespace {

struct Pair {
    int os_errno;
    int der;
};
// If several errnos map to one DER_ number, or the reverse, the first line is used.
constexpr Pair pairs[] = {
    {EPERM, DER_NO_PERM},
    {EACCES, DER_NO_PERM},
    {EROFS, DER_NO_PERM},
    {ENOENT, DER_NONEXIST},
    {ENOENT, DER_ENOENT},
    {ENOMEM, DER_NOMEM},
    {ENOSPC, DER_NOSPACE},
    {EDQUOT, DER_NOSPACE},
    {EEXIST, DER_EXIST},
    {ECANCELED, DER_CANCELED},
    {EBUSY, DER_BUSY},
    {EBUSY, DER_EQ_BUSY},
    {EOVERFLOW, DER_OVERFLOW},
    {EBADF, DER_NO_HDL},
    {EINVAL, DER_INVAL},
    {EINVAL, DER_IO_INVAL},
    {EINVAL, DER_NOTYPE},
    {EINVAL, DER_NOSCHEMA},
    {ENOSYS, DER_NOSYS},
    {ETIMEDOUT, DER_TIMEDOUT},
    {EAGAIN, DER_AGAIN},
    {EPROTO, DER_PROTO},
    {ENOTDIR, DER_NOTDIR},
    {ENOTDIR, DER_BADPATH},
    {EIO, DER_IO},
    {EIO, DER_CSUM},
    {ENOTSUP, DER_NOTSUPPORTED},
    {EHOSTUNREACH, DER_UNREACH},
    {ENOTCONN, DER_UNREACH},
    {ECONNREFUSED, DER_UNREACH},
    {ECONNRESET, DER_UNREACH},
    {EALREADY, DER_ALREADY},
    {ESTALE, DER_STALE},
    {E2BIG, DER_REC2BIG},
    {E2BIG, DER_KEY2BIG},
    {ERESTART, DER_TX_RESTART},
};

struct Name {
    int number;
    const char* name;
    const char* description;
};
#define ROS2S_DAOS_NAME(name, description) {name, #name, description},
constexpr Name names[] = {{DER_SUCCESS, "DER_SUCCESS", "success"},
                          ROS2S_DAOS_ERRORS_1000(ROS2S_DAOS_NAME)
                              ROS2S_DAOS_ERRORS_2000(ROS2S_DAOS_NAME)};
#undef ROS2S_DAOS_NAME

// Callers pass -DER_X and DER_X.
const Name* find_name(int number) {
    for (const auto& name : names) {
        if (name.number == number || name.number == -number) return &name;
    }
    return nullptr;
}

}  // namespace

int der_of_errno(int os_errno) noexcept {
    if (os_errno == 0) return 0;
    for (const auto& pair : pairs) {
        if (pair.os_errno == os_errno) return -pair.der;
    }
    return -DER_MISC;
}

int errno_of_der(int der) noexcept {
    if (der == 0) return 0;
    for (const auto& pair : pairs) {
        if (-pair.der == der) return pair.os_errno;
    }
    return EIO;
}

void say_once(std::string_view sentence) {
    static std::mutex lock;
    static std::set<std::string, std::less<>> said;
    const std::lock_guard locked(lock);
    if (!said.emplace(sentence).second) return;
    const std::string line = fmt::format("libros2store-daos: {}\n", sentence);
    std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace ros2s::daos

const char* d_errstr(int number) {
    const auto* const found = ros2s::daos::find_name(number);
    return found == nullptr ? "DER_UNKNOWN" : found->name;
}

const char* d_errdesc(int number) {
    const auto* const found = ros2s::daos::find_name(number);
    return found == nullptr ? "unknown error number" : found->description;
}
