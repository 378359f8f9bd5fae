// Directories, and many small files in one call.
#include <cerrno>
#include <cstring>

#include "handles.h"
#include "walk.h"

using namespace ros2s;
using namespace ros2s::api::c;

struct ros2s_dir {
    ros2s_fs& fs;
    fs::FileHandle handle{};
    fs::NodeId node{};
    std::string path;
    std::vector<fs::DirectoryEntry> batch;  // the result of the last readdir
    size_t next = 0;                        // in it
    uint64_t cookie = 0;
    bool at_end = false;
};

namespace ros2s::api::c {
namespace {

constexpr size_t entries_per_batch = 256;

Task<Result<>> open_directory(ros2s_dir& directory) {
    auto& fs = directory.fs;
    Walk walk(fs.file_system(), fs.call);
    ROS2S_CO_TRY_ASSIGN(const auto found,
                        co_await walk.to(fs.base, directory.path, Walk::Last::follow));
    if (!S_ISDIR(found.mode)) co_return fail(Code::not_directory);
    ROS2S_CO_TRY_ASSIGN(const auto opened, co_await fs.file_system().open(fs.call, found.node, {}));
    walk.keep();
    directory.handle = opened.handle;
    directory.node = found.node;
    co_return {};
}

Task<Result<>> close_directory(ros2s_dir& directory) {
    auto& fs = directory.fs;
    const auto closed = co_await fs.file_system().close(fs.call, directory.handle);
    // The root was not looked up, so it is not forgotten.
    if (directory.node != fs::root_node) fs.file_system().forget(directory.node, 1);
    co_return closed;
}

Task<Result<>> read_items(ros2s_fs& fs, std::string_view directory,
                          std::span<fs::ReadManyItem> items) {
    Walk walk(fs.file_system(), fs.call);
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await walk.to(fs.base, directory, Walk::Last::follow));
    if (!S_ISDIR(found.mode)) co_return fail(Code::not_directory);
    co_return co_await fs.file_system().read_many(fs.call, found.node, items);
}

}  // namespace
}  // namespace ros2s::api::c

int ros2s_opendir(ros2s_fs* fs, const char* path, ros2s_dir** out) {
    if (const int rc = check(fs, "opendir"); rc < 0) return rc;
    if (path == nullptr || out == nullptr) return refuse(EINVAL, "opendir: an argument is NULL");
    *out = nullptr;
    auto directory = std::make_unique<ros2s_dir>(ros2s_dir{.fs = *fs, .path = path});
    const auto opened = fs->run([&] { return open_directory(*directory); });
    if (!opened) return refuse(opened.error(), "opendir", path);
    ++fs->users;
    *out = directory.release();
    return 0;
}

int ros2s_readdir(ros2s_dir* directory, ros2s_dirent* entry) {
    if (const int rc = check(directory, "readdir"); rc < 0) return rc;
    if (entry == nullptr) return refuse(EINVAL, "readdir: the place for the entry is NULL");
    if (directory->next == directory->batch.size() && !directory->at_end) {
        auto& fs = directory->fs;
        auto batch = fs.run([&] {
            return fs.file_system().readdir(fs.call, directory->handle, directory->cookie,
                                            entries_per_batch);
        });
        if (!batch) return refuse(batch.error(), "readdir", directory->path);
        directory->batch = std::move(*batch);
        directory->next = 0;
        directory->at_end = directory->batch.empty();
        if (!directory->at_end) directory->cookie = directory->batch.back().cookie;
    }
    if (directory->at_end) return 0;
    const auto& next = directory->batch[directory->next++];
    *entry = {};
    entry->inode = next.node.value;
    entry->type = next.type;
    std::memcpy(entry->name, next.name.data(), std::min(next.name.size(), sizeof entry->name - 1));
    return 1;
}

int ros2s_closedir(ros2s_dir* directory) {
    if (const int rc = check(directory, "closedir"); rc < 0) return rc;
    const auto closed = directory->fs.run([&] { return close_directory(*directory); });
    const int rc = static_cast<int>(answer(closed, "closedir", directory->path));
    --directory->fs.users;
    delete directory;
    return rc;
}

int ros2s_read_many(ros2s_fs* fs, const char* directory, ros2s_read_item* items, size_t count) {
    if (const int rc = check(fs, "read_many"); rc < 0) return rc;
    if (directory == nullptr || (items == nullptr && count > 0)) {
        return refuse(EINVAL, "read_many: an argument is NULL");
    }
    std::vector<fs::ReadManyItem> wanted(count);
    for (size_t i = 0; i < count; ++i) {
        if (items[i].path == nullptr || (items[i].buffer == nullptr && items[i].capacity > 0)) {
            return refuse(EINVAL,
                          "read_many: item " + std::to_string(i) + " has a NULL path or buffer");
        }
        wanted[i].name = items[i].path;
        wanted[i].window =
            fs::Window::local(Bytes(static_cast<std::byte*>(items[i].buffer), items[i].capacity));
    }
    const auto done = fs->run([&] { return read_items(*fs, directory, wanted); });
    if (!done) return refuse(done.error(), "read_many", directory);
    for (size_t i = 0; i < count; ++i) {
        items[i].result = wanted[i].status ? static_cast<int64_t>(wanted[i].bytes)
                                           : -to_errno(wanted[i].status.error());
        items[i].size = wanted[i].size;
    }
    return 0;
}
