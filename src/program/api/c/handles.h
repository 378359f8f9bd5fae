// The objects to which handles of the C ABI point, and the steps of a call: check the handle, run
// on the core, convert the result.
//
// In a forked child the first call on a handle renews it: the container is opened as a new client
// instance, one of a pool in the parent through that owner, and the file, directory or queue is
// opened again in it. What the parent had is kept untouched.
#pragma once
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "instance.h"
#include "last_error.h"
#include "ros2s/fs/path_walk.h"
#include "ros2s/runtime/fork.h"
#include "ros2store/ros2store.h"

namespace ros2s::api::c {

// Stores the process in which a handle was opened or renewed. Renewals hold lock_of_renewals().
class ProcessMark {
  public:
    ProcessMark() = default;
    ProcessMark(const ProcessMark& other) noexcept : generation_(other.generation_.load()) {}
    ProcessMark& operator=(const ProcessMark&) = delete;
    [[nodiscard]] bool in_forked_child() const noexcept {
        return generation_.load(std::memory_order_acquire) != fork_generation();
    }
    void renew() noexcept { generation_.store(fork_generation(), std::memory_order_release); }

  private:
    std::atomic<uint32_t> generation_ = fork_generation();
};

}  // namespace ros2s::api::c

struct ros2s_fs {
    ros2s::api::c::ProcessMark mark;
    ros2s::api::c::Attachment attachment;
    ros2s::api::Uri uri;
    std::string program;  // as it was given
    std::string base;     // the URI's path: where relative paths start
    ros2s::Call call;
    // Files, directories, queues and buffers that are open, so that ros2s_close can refuse.
    std::atomic<uint32_t> users = 0;

    [[nodiscard]] ros2s::fs::FileSystem& file_system() { return *attachment.mounted->file_system; }
    [[nodiscard]] ros2s::api::c::Instance& instance() { return *attachment.instance; }
    // Whether a forked child can renew it.
    [[nodiscard]] bool is_renewable() const {
        return attachment.instance->deployment().is_renewable();
    }
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
    ros2s::api::c::ProcessMark mark{};
    ros2s::fs::NodeId node{};
    ros2s::api::CoreFile core{};
    ros2s::fs::OpenFlags flags{};
    // A reference to the node belongs to this file; forget() gives it back.
    bool has_reference = true;
    bool is_from_parent = false;  // opened before fork(), and renewed
    std::string path;             // as it was opened, for reports
};

struct ros2s_buffer {
    ros2s_fs& fs;
    ros2s::api::c::ProcessMark mark{};
    ros2s::Bytes memory;
    bool pinned = false;
};

struct ros2s_queue {
    ros2s_fs& fs;
    ros2s::api::c::ProcessMark mark{};
    std::unique_ptr<ros2s::api::Queue> queue;
};

struct ros2s_dir {
    ros2s_fs& fs;
    ros2s::api::c::ProcessMark mark{};
    ros2s::fs::FileHandle handle{};
    ros2s::fs::NodeId node{};
    bool has_reference = false;  // as ros2s_file
    std::string path;
    std::vector<ros2s::fs::DirectoryEntry> batch;  // the result of the last readdir
    size_t next = 0;                               // in it
    uint64_t cookie = 0;
    std::string last;  // the name before the batch, where a forked child continues
    bool at_end = false;
};

namespace ros2s::api::c {

[[nodiscard]] inline ros2s_fs& fs_of(ros2s_fs& handle) { return handle; }
template <class Handle>
[[nodiscard]] ros2s_fs& fs_of(Handle& handle) {
    return handle.fs;
}

// In a forked child: opens again what the handle stands for. Returns 0 or the refusal.
[[nodiscard]] int renew(ros2s_fs& fs, std::string_view what) noexcept;
[[nodiscard]] int renew(ros2s_file& file, std::string_view what) noexcept;
[[nodiscard]] int renew(ros2s_dir& directory, std::string_view what) noexcept;
[[nodiscard]] int renew(ros2s_queue& queue, std::string_view what) noexcept;
[[nodiscard]] int renew(ros2s_buffer& buffer, std::string_view what) noexcept;

[[nodiscard]] inline int refuse_null(std::string_view what) noexcept {
    return refuse(EINVAL, std::string(what) + ": the handle is NULL");
}

// 0, or the refusal of a handle that is NULL, or is from before fork() and cannot be renewed.
template <class Handle>
[[nodiscard]] int check(Handle* handle, std::string_view what) noexcept {
    if (handle == nullptr) return refuse_null(what);
    if (handle->mark.in_forked_child()) [[unlikely]]
        return renew(*handle, what);
    return 0;
}

// For a call that closes the handle: what the parent has open is not closed. 0: it is this
// process's; 1: it is the parent's, and the caller only frees its own copy; or the refusal.
template <class Handle>
[[nodiscard]] int check_closing(Handle* handle, std::string_view what) noexcept {
    if (handle == nullptr) return refuse_null(what);
    if (!handle->mark.in_forked_child()) [[likely]]
        return 0;
    return fs_of(*handle).is_renewable() ? 1 : refuse_after_fork(what);
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

// Gives the queue to its instance's core.
Task<Result<>> add_queue(ros2s_queue& queue);

}  // namespace ros2s::api::c
