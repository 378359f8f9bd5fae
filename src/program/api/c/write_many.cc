// Many small files written in one call: each is created, written and closed, concurrently, so that
// their updates share flushes. To publish a file, it is written under a hidden name, which is then
// renamed.
#include <fmt/format.h>

#include <cerrno>

#include "handles.h"
#include "owner_of_new.h"
#include "ros2s/runtime/nursery.h"

using namespace ros2s;
using namespace ros2s::api::c;

namespace ros2s::api::c {
namespace {

constexpr size_t files_together_max = 64;

struct HowToWrite {
    mode_t mode = 0;
    bool is_new = false;
    bool publishes = false;
};

Task<Result<>> write_all(ros2s_fs& fs, fs::FileHandle handle, ConstBytes data) {
    for (size_t done = 0; done < data.size();) {
        ROS2S_CO_TRY_ASSIGN(const auto written,
                            co_await fs.file_system().pwrite(
                                fs.call, handle, fs::Window::local(data.subspan(done)), done));
        if (written == 0) co_return fail(Code::io);
        done += written;
    }
    co_return {};
}

Task<Result<>> create_and_write(ros2s_dir& directory, std::string_view name, ConstBytes data,
                                mode_t mode, bool is_new) {
    auto& fs = directory.fs;
    const fs::OpenFlags flags{
        .read = false, .write = true, .truncate = !is_new, .exclusive = is_new};
    ROS2S_CO_TRY_ASSIGN(const auto opened,
                        co_await fs.file_system().create(fs.call, directory.node, name, mode, flags,
                                                         owner_of_new()));
    const auto written = co_await write_all(fs, opened.handle, data);
    const auto closed = co_await fs.file_system().close(fs.call, opened.handle);
    fs.file_system().forget(opened.attributes.node, 1);
    co_return written ? closed : written;
}

Task<Result<>> publish(ros2s_dir& directory, std::string_view name, ConstBytes data,
                       HowToWrite how) {
    auto& fs = directory.fs;
    const std::string hidden =
        fmt::format(".{:016x}.part", fs.instance().reactor().secrets().next());
    auto done = co_await create_and_write(directory, hidden, data, how.mode, true);
    if (done) {
        done = co_await fs.file_system().rename(fs.call, directory.node, hidden, directory.node,
                                                name, {.no_replace = how.is_new});
    }
    if (!done) (void)co_await fs.file_system().unlink(fs.call, directory.node, hidden);
    co_return done;
}

Task<> write_item(ros2s_dir& directory, ros2s_write_item& item, HowToWrite how) {
    const ConstBytes data(static_cast<const std::byte*>(item.data), item.bytes);
    const auto done =
        how.publishes ? co_await publish(directory, item.name, data, how)
                      : co_await create_and_write(directory, item.name, data, how.mode, how.is_new);
    item.result = done ? 0 : -to_errno(done.error());
}

Task<> write_items(ros2s_dir& directory, std::span<ros2s_write_item> items, HowToWrite how) {
    Nursery nursery(directory.fs.instance().reactor(), files_together_max);
    for (ros2s_write_item& item : items) {
        co_await nursery.spawn(write_item(directory, item, how));
    }
    co_await nursery.join();
    fs::FileSystem& files = directory.fs.file_system();
    if (!files.is_deferred()) co_return;
    const auto synced = co_await files.fsync(directory.fs.call, directory.handle);
    if (synced) co_return;
    for (ros2s_write_item& item : items) {
        if (item.result == 0) item.result = -to_errno(synced.error());
    }
}

}  // namespace
}  // namespace ros2s::api::c

int ros2s_write_many(ros2s_dir* directory, ros2s_write_item* items, mode_t mode, uint32_t flags,
                     size_t count) {
    if (const int rc = check(directory, "write_many"); rc < 0) return rc;
    if ((items == nullptr && count > 0) || flags > (ROS2S_WRITE_NEW | ROS2S_WRITE_PUBLISH)) {
        return refuse(EINVAL,
                      "write_many: the items are NULL, or the flags are not those of ros2store.h");
    }
    for (size_t i = 0; i < count; ++i) {
        if (items[i].name == nullptr || (items[i].data == nullptr && items[i].bytes > 0)) {
            return refuse(EINVAL,
                          "write_many: item " + std::to_string(i) + " has a NULL name or data");
        }
    }
    const HowToWrite how{.mode = mode & fs::permission_bits,
                         .is_new = (flags & ROS2S_WRITE_NEW) != 0,
                         .publishes = (flags & ROS2S_WRITE_PUBLISH) != 0};
    directory->fs.run([&] { return write_items(*directory, {items, count}, how); });
    return 0;
}
