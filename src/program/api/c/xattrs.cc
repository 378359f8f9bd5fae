// Extended attributes.
#include <cerrno>
#include <cstring>

#include "handles.h"
#include "walk.h"

using namespace ros2s;
using namespace ros2s::api::c;

namespace ros2s::api::c {
namespace {

Task<Result<std::string>> get(ros2s_fs& fs, std::string_view path, std::string_view name) {
    Walk walk(fs.file_system(), fs.call);
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await walk.to(fs.base, path, Walk::Last::follow));
    co_return co_await fs.file_system().get_xattr(fs.call, found.node, name);
}

Task<Result<>> set(ros2s_fs& fs, std::string_view path, std::string_view name, ConstBytes value,
                   fs::SetXattr how) {
    Walk walk(fs.file_system(), fs.call);
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await walk.to(fs.base, path, Walk::Last::follow));
    co_return co_await fs.file_system().set_xattr(fs.call, found.node, name, value, how);
}

Task<Result<>> remove(ros2s_fs& fs, std::string_view path, std::string_view name) {
    Walk walk(fs.file_system(), fs.call);
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await walk.to(fs.base, path, Walk::Last::follow));
    co_return co_await fs.file_system().remove_xattr(fs.call, found.node, name);
}

// The names, each with its NUL.
Task<Result<std::string>> list(ros2s_fs& fs, std::string_view path) {
    Walk walk(fs.file_system(), fs.call);
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await walk.to(fs.base, path, Walk::Last::follow));
    ROS2S_CO_TRY_ASSIGN(const auto names,
                        co_await fs.file_system().list_xattrs(fs.call, found.node));
    std::string out;
    for (const auto& name : names) out.append(name).push_back('\0');
    co_return out;
}

ssize_t hand_out(const Result<std::string>& got, void* out, size_t bytes, const char* what,
                 const char* path) {
    if (!got) return refuse(got.error(), what, path);
    if (bytes == 0) return static_cast<ssize_t>(got->size());
    if (got->size() > bytes || out == nullptr) {
        return refuse(fail(Code::too_small, got->size()).error(), what, path);
    }
    std::memcpy(out, got->data(), got->size());
    return static_cast<ssize_t>(got->size());
}

template <class Work>
int answer(ros2s_fs& fs, const char* what, const char* path, Work work) {
    return static_cast<int>(c::answer(fs.run_by_name(work), what, path));
}

}  // namespace
}  // namespace ros2s::api::c

ssize_t ros2s_getxattr(ros2s_fs* fs, const char* path, const char* name, void* value,
                       size_t bytes) {
    if (const int rc = check_call(fs, "getxattr", path, name); rc < 0) return rc;
    return hand_out(fs->run_by_name([&] { return get(*fs, path, name); }), value, bytes, "getxattr",
                    path);
}

int ros2s_setxattr(ros2s_fs* fs, const char* path, const char* name, const void* value,
                   size_t bytes, uint32_t flags) {
    if (const int rc = check_call(fs, "setxattr", path, name); rc < 0) return rc;
    if ((value == nullptr && bytes > 0) || flags > ROS2S_XATTR_REPLACE) {
        return refuse(EINVAL,
                      "setxattr: the value is NULL, or the flags are not 0, "
                      "ROS2S_XATTR_CREATE or ROS2S_XATTR_REPLACE");
    }
    const ConstBytes from(static_cast<const std::byte*>(value), bytes);
    const auto how = flags == ROS2S_XATTR_CREATE    ? fs::SetXattr::create
                     : flags == ROS2S_XATTR_REPLACE ? fs::SetXattr::replace
                                                    : fs::SetXattr::any;
    return answer(*fs, "setxattr", path, [&] { return set(*fs, path, name, from, how); });
}

int ros2s_removexattr(ros2s_fs* fs, const char* path, const char* name) {
    if (const int rc = check_call(fs, "removexattr", path, name); rc < 0) return rc;
    return answer(*fs, "removexattr", path, [&] { return remove(*fs, path, name); });
}

ssize_t ros2s_listxattr(ros2s_fs* fs, const char* path, char* names, size_t bytes) {
    if (const int rc = check_call(fs, "listxattr", path, path); rc < 0) return rc;
    return hand_out(fs->run_by_name([&] { return list(*fs, path); }), names, bytes, "listxattr",
                    path);
}
