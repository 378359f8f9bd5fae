// The objects to which handles of the C ABI point, and the steps of a call: check the handle, run
// on the core, convert the result.
#pragma once
#include <sys/stat.h>

#include <atomic>
#include <string>
#include <string_view>

#include "instance.h"
#include "last_error.h"
#include "ros2s/fs/path_walk.h"
#include "ros2s/runtime/fork.h"
#include "ros2store/ros2store.h"

struct ros2s_fs {
    ros2s::ForkMark mark;
    ros2s::api::c::Attachment attachment;
    std::string base;  // the URI's path: where relative paths start
    ros2s::Call call;
    // Files, directories, queues and buffers that are open, so that ros2s_close can refuse.
    std::atomic<uint32_t> users = 0;

    [[nodiscard]] ros2s::fs::FileSystem& file_system() { return *attachment.mounted->file_system; }
    [[nodiscard]] ros2s::api::c::Instance& instance() { return *attachment.instance; }
    template <class F>
    auto run(F&& make) {
        return instance().run(std::forward<F>(make));
    }
    // For a call on the node of a path.
    template <class F>
    auto run_by_name(const F& make) {
        return run([&] { return ros2s::fs::by_name(make); });
    }
};

struct ros2s_file {
    ros2s_fs& fs;
    ros2s::fs::NodeId node{};
    ros2s::api::CoreFile core{};
    bool writable = false;
    std::string path;  // as it was opened, for reports
};

struct ros2s_buffer {
    ros2s_fs& fs;
    ros2s::Bytes memory;
    bool pinned = false;
};

struct ros2s_queue {
    ros2s_fs& fs;
    std::unique_ptr<ros2s::api::Queue> queue;
};

namespace ros2s::api::c {

[[nodiscard]] inline ros2s_fs& fs_of(ros2s_fs& handle) { return handle; }
template <class Handle>
[[nodiscard]] ros2s_fs& fs_of(Handle& handle) {
    return handle.fs;
}

// 0, or the refusal of a handle that is NULL or from before fork().
template <class Handle>
[[nodiscard]] int check(Handle* handle, std::string_view what) noexcept {
    if (handle == nullptr) return refuse(EINVAL, std::string(what) + ": the handle is NULL");
    if (fs_of(*handle).mark.in_forked_child()) return refuse_after_fork(what);
    return 0;
}

// 0 or a count, or the negative errno with its sentence.
template <class T>
[[nodiscard]] int64_t answer(const Result<T>& result, std::string_view what,
                             std::string_view path = {}) noexcept {
    if (!result) return refuse(result.error(), what, path);
    if constexpr (std::is_void_v<T>) {
        return 0;
    } else {
        return static_cast<int64_t>(*result);
    }
}

// Runs a call's work on the core.
template <class Work>
[[nodiscard]] int run_and_answer(ros2s_fs& fs, std::string_view what, std::string_view path,
                                 Work work) {
    return static_cast<int>(answer(fs.run(work), what, path));
}

// Checks the handle, and that the arguments are not null.
[[nodiscard]] int check_call(ros2s_fs* fs, const char* what, const void* first, const void* second);

void to_stat(const fs::Attributes& attributes, struct stat& out);

}  // namespace ros2s::api::c
