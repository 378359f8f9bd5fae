// Handles in a forked child (handles.h).

#include "handles.h"

using namespace ros2s;

namespace ros2s::api::c {
namespace {

// The new client instance of this process. The caller has lock_of_renewals().
int renew_fs(ros2s_fs& fs, std::string_view what) {
    if (!fs.mark.in_forked_child()) return 0;
    if (!fs.is_renewable()) return refuse_after_fork(what);
    Report report;
    auto attachment = attach(fs.uri, fs.program, report);
    if (!attachment) {
        return refuse(to_errno(attachment.error()),
                      std::string(what) + ": this process was forked, and cannot open " +
                          fs.uri.to_string() + " itself: " + report.text());
    }
    keep_for_parent(std::make_shared<Attachment>(std::move(fs.attachment)));
    fs.attachment = std::move(*attachment);
    fs.mark.renew();
    return 0;
}

// Runs `again` once in this process, after its ros2s_fs was renewed.
template <class Handle, class Again>
int renew_in(Handle& handle, std::string_view what, Again again) noexcept {
    const std::scoped_lock lock(lock_of_renewals());
    if (const int rc = renew_fs(handle.fs, what); rc < 0) return rc;
    if (!handle.mark.in_forked_child()) return 0;
    if (const int rc = again(); rc < 0) return rc;
    handle.mark.renew();
    return 0;
}

Task<Result<>> open_again(ros2s_file& file) {
    fs::OpenFlags flags = file.flags;
    flags.truncate = flags.exclusive = false;
    ROS2S_CO_TRY_ASSIGN(const auto opened,
                        co_await file.fs.file_system().open(file.fs.call, file.node, flags));
    file.core = {.handle = opened.handle, .requests = 0, .path = file.path};
    co_return {};
}

// The cookie of the entry that the parent returned last. If its name was removed, the directory's
// listing must be in the order of names. Errors: stale (it is not).
Task<Result<uint64_t>> find_place(ros2s_dir& directory, std::string last) {
    constexpr size_t entries_at_once = 256;
    uint64_t before = 0, cookie = 0;
    std::string previous;
    bool is_sorted = true, is_behind = false;
    for (;;) {
        ROS2S_CO_TRY_ASSIGN(const auto entries,
                            co_await directory.fs.file_system().readdir(
                                directory.fs.call, directory.handle, cookie, entries_at_once));
        if (entries.empty()) break;
        for (const fs::DirectoryEntry& entry : entries) {
            if (entry.name == last) co_return entry.cookie;
            is_sorted = is_sorted && entry.name > previous;
            is_behind = is_behind || entry.name > last;
            if (!is_behind) before = entry.cookie;
            previous = entry.name;
        }
        cookie = entries.back().cookie;
    }
    if (!is_sorted) co_return fail(Code::stale);
    co_return before;
}

Task<Result<>> open_again(ros2s_dir& directory) {
    const std::string last =
        directory.next > 0 ? directory.batch[directory.next - 1].name : directory.last;
    ROS2S_CO_TRY_ASSIGN(const auto opened, co_await directory.fs.file_system().open(
                                               directory.fs.call, directory.node, {}));
    directory.handle = opened.handle;
    if (!last.empty() && !directory.at_end) {
        ROS2S_CO_TRY_ASSIGN(directory.cookie, co_await find_place(directory, last));
    }
    directory.last = last;
    directory.batch.clear();
    directory.next = 0;
    co_return {};
}

}  // namespace

int renew(ros2s_fs& fs, std::string_view what) noexcept {
    const std::scoped_lock lock(lock_of_renewals());
    return renew_fs(fs, what);
}

int renew(ros2s_file& file, std::string_view what) noexcept {
    return renew_in(file, what, [&] {
        const auto opened = file.fs.run([&] { return open_again(file); });
        if (!opened) {
            return refuse(opened.error(), std::string(what) + ", opening again after fork()",
                          file.path);
        }
        file.has_reference = false;
        file.is_from_parent = true;
        return 0;
    });
}

int renew(ros2s_dir& directory, std::string_view what) noexcept {
    return renew_in(directory, what, [&] {
        const auto opened = directory.fs.run([&] { return open_again(directory); });
        if (!opened) {
            return refuse(opened.error(), std::string(what) + ", opening again after fork()",
                          directory.path);
        }
        directory.has_reference = false;
        return 0;
    });
}

int renew(ros2s_queue& queue, std::string_view what) noexcept {
    return renew_in(queue, what, [&] {
        auto& instance = queue.fs.instance();
        auto made = Queue::cancelled_copy(*queue.queue, instance.reactor(), queue.fs.file_system(),
                                          instance.environment().log);
        if (!made) return refuse(made.error(), what);
        keep_for_parent(std::shared_ptr<Queue>(std::move(queue.queue)));
        queue.queue = std::move(*made);
        queue.fs.run([&] { return add_queue(queue); });
        return 0;
    });
}

// Requests on the memory work without registration.
int renew(ros2s_buffer& buffer, std::string_view what) noexcept {
    return renew_in(buffer, what, [&] {
        buffer.pinned = false;
        return 0;
    });
}

}  // namespace ros2s::api::c
