// Directories, and many small files in one call.
#include <cerrno>
#include <cstring>

#include "handles.h"
#include "owner_of_new.h"
#include "walk.h"

using namespace ros2s;
using namespace ros2s::api::c;

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
    // The root was not looked up, so it is not forgotten.
    directory.has_reference = found.node != fs::root_node;
    directory.handle = opened.handle;
    directory.node = found.node;
    co_return {};
}

Task<Result<>> close_directory(ros2s_dir& directory) {
    auto& fs = directory.fs;
    const auto closed = co_await fs.file_system().close(fs.call, directory.handle);
    if (directory.has_reference) fs.file_system().forget(directory.node, 1);
    co_return closed;
}

void to_dirent(const fs::DirectoryEntry& from, ros2s_dirent& entry) {
    entry = {};
    entry.inode = from.node.value;
    entry.type = from.type;
    std::memcpy(entry.name, from.name.data(), std::min(from.name.size(), sizeof entry.name - 1));
}

Task<Result<>> read_items(ros2s_fs& fs, std::string_view directory,
                          std::span<fs::ReadManyItem> items) {
    Walk walk(fs.file_system(), fs.call);
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await walk.to(fs.base, directory, Walk::Last::follow));
    if (!S_ISDIR(found.mode)) co_return fail(Code::not_directory);
    co_return co_await fs.file_system().read_many(fs.call, found.node, items);
}

Task<Result<size_t>> read_with_attributes(ros2s_dir& directory, std::span<ros2s_dirent> entries,
                                          struct stat* stats) {
    auto& fs = directory.fs;
    ROS2S_CO_TRY_ASSIGN(const auto listed, co_await fs.file_system().readdir_many(
                                               fs.call, directory.node, directory.handle,
                                               directory.cookie, entries.size()));
    if (listed.size() > entries.size()) co_return fail(Code::corrupt);
    for (size_t i = 0; i < listed.size(); ++i) {
        to_dirent(listed[i].entry, entries[i]);
        stats[i] = {};
        if (!listed[i].attributes) continue;
        to_stat(*listed[i].attributes, stats[i]);
        fs.file_system().forget(listed[i].attributes->node, 1);
    }
    if (!listed.empty()) {
        directory.cookie = listed.back().entry.cookie;
        directory.last = listed.back().entry.name;
    }
    co_return listed.size();
}

using Names = std::span<const std::string_view>;
using Items = std::span<ros2s_name_item>;

int64_t result_of(const Result<>& done) { return done ? 0 : -to_errno(done.error()); }

Task<> stat_names(ros2s_dir& directory, Names names, Items items, std::span<struct stat> stats) {
    auto& fs = directory.fs;
    const auto found = co_await fs.file_system().lookup_many(fs.call, directory.node, names);
    for (size_t i = 0; i < found.size(); ++i) {
        items[i].result = found[i] ? 0 : -to_errno(found[i].error());
        if (!found[i]) continue;
        to_stat(*found[i], stats[i]);
        fs.file_system().forget(found[i]->node, 1);
    }
}

Task<> create_names(ros2s_dir& directory, Names names, Items items, mode_t mode) {
    auto& fs = directory.fs;
    const auto made = co_await fs.file_system().create_many(
        fs.call, directory.node, names, mode & fs::permission_bits, owner_of_new());
    for (size_t i = 0; i < made.size(); ++i) items[i].result = result_of(made[i]);
}

Task<> unlink_names(ros2s_dir& directory, Names names, Items items) {
    auto& fs = directory.fs;
    const auto gone = co_await fs.file_system().unlink_many(fs.call, directory.node, names);
    for (size_t i = 0; i < gone.size(); ++i) items[i].result = result_of(gone[i]);
}

// Runs `work(first item, names)` for as many names at a time as one call takes.
template <class Work>
int for_names(ros2s_dir* directory, const char* what, Items items, Work work) {
    if (const int rc = check(directory, what); rc < 0) return rc;
    if (items.data() == nullptr && !items.empty()) {
        return refuse(EINVAL, std::string(what) + ": an argument is NULL");
    }
    for (const ros2s_name_item& item : items) {
        if (item.name == nullptr) return refuse(EINVAL, std::string(what) + ": a name is NULL");
    }
    for (size_t begin = 0; begin < items.size(); begin += fs::names_together_max) {
        const size_t count = std::min(fs::names_together_max, items.size() - begin);
        std::vector<std::string_view> names;
        for (const auto& item : items.subspan(begin, count)) names.emplace_back(item.name);
        directory->fs.run([&] { return work(begin, Names(names)); });
    }
    return 0;
}

}  // namespace
}  // namespace ros2s::api::c

int ros2s_opendir(ros2s_fs* fs, const char* path, ros2s_dir** out) {
    if (const int rc = check(fs, "opendir"); rc < 0) return rc;
    if (path == nullptr || out == nullptr) return refuse(EINVAL, "opendir: an argument is NULL");
    *out = nullptr;
    auto directory = std::make_unique<ros2s_dir>(ros2s_dir{.fs = *fs, .path = path});
    const auto opened = fs->run_by_name([&] { return open_directory(*directory); });
    if (!opened) return refuse(opened.error(), "opendir", path);
    ++fs->users;
    *out = directory.release();
    return 0;
}

int ros2s_readdir(ros2s_dir* directory, ros2s_dirent* entry) {
    if (const int rc = check(directory, "readdir"); rc < 0) return rc;
    if (entry == nullptr) return refuse(EINVAL, "readdir: the pointer for the entry is NULL");
    if (directory->next == directory->batch.size() && !directory->at_end) {
        auto& fs = directory->fs;
        auto batch = fs.run([&] {
            return fs.file_system().readdir(fs.call, directory->handle, directory->cookie,
                                            entries_per_batch);
        });
        if (!batch) return refuse(batch.error(), "readdir", directory->path);
        if (directory->next > 0) directory->last = directory->batch.back().name;
        directory->batch = std::move(*batch);
        directory->next = 0;
        directory->at_end = directory->batch.empty();
    }
    if (directory->at_end) return 0;
    const auto& next = directory->batch[directory->next++];
    directory->cookie = next.cookie;
    to_dirent(next, *entry);
    return 1;
}

ssize_t ros2s_readdir_many(ros2s_dir* directory, ros2s_dirent* entries, struct stat* stats,
                           size_t count) {
    if (const int rc = check(directory, "readdir_many"); rc < 0) return rc;
    if (entries == nullptr || stats == nullptr || count == 0) {
        return refuse(EINVAL, "readdir_many: an argument is NULL or 0");
    }
    // Entries that ros2s_readdir has read and not returned are read again.
    if (directory->next > 0) directory->last = directory->batch[directory->next - 1].name;
    directory->batch.clear();
    directory->next = 0;
    const auto got = directory->fs.run(
        [&] { return read_with_attributes(*directory, {entries, count}, stats); });
    return answer(got, "readdir_many", directory->path);
}

int ros2s_closedir(ros2s_dir* directory) {
    const int whose = check_closing(directory, "closedir");
    if (whose < 0) return whose;
    int rc = 0;
    if (whose == 0) {
        const auto closed = directory->fs.run([&] { return close_directory(*directory); });
        rc = static_cast<int>(answer(closed, "closedir", directory->path));
    }
    --directory->fs.users;
    delete directory;
    return rc;
}

int ros2s_stat_many(ros2s_dir* directory, ros2s_name_item* items, struct stat* stats,
                    size_t count) {
    if (stats == nullptr && count > 0) return refuse(EINVAL, "stat_many: an argument is NULL");
    return for_names(directory, "stat_many", {items, count}, [&](size_t begin, Names names) {
        return stat_names(*directory, names, {items + begin, names.size()},
                          {stats + begin, names.size()});
    });
}

int ros2s_create_many(ros2s_dir* directory, ros2s_name_item* items, mode_t mode, size_t count) {
    return for_names(directory, "create_many", {items, count}, [&](size_t begin, Names names) {
        return create_names(*directory, names, {items + begin, names.size()}, mode);
    });
}

int ros2s_unlink_many(ros2s_dir* directory, ros2s_name_item* items, size_t count) {
    return for_names(directory, "unlink_many", {items, count}, [&](size_t begin, Names names) {
        return unlink_names(*directory, names, {items + begin, names.size()});
    });
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
