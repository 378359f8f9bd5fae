// Open files and directories of DaosFileSystem.
#include <fmt/format.h>

#include <algorithm>

#include "file_system.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/fs/caller.h"
#include "ros2s/fs/file_use.h"
#include "ros2s/fs/payload_checksums.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::daos {
namespace {

// The number of files that read_many reads at once.
constexpr size_t read_many_at_once = 16;
constexpr uint32_t names_listed_at_once = 512;

// The list for one buffer. It lives as long as the request.
struct Buffer {
    d_iov_t range{};
    d_sg_list_t list{};
    explicit Buffer(Bytes bytes)
        : range{.iov_buf = bytes.data(), .iov_buf_len = bytes.size(), .iov_len = bytes.size()},
          list{.sg_nr = 1, .sg_nr_out = 0, .sg_iovs = &range} {}
    Buffer& operator=(Buffer&&) = delete;
};

// A number for an entry without a known node. No node has this number.
NodeId unknown_node(NodeId directory, std::string_view name) {
    const uint64_t crc = crc32c(std::as_bytes(std::span(name)));
    return {uint64_t{1} << 63 | (crc << 31 ^ directory.value)};
}

}  // namespace

Result<DaosFileSystem::OpenFile*> DaosFileSystem::find_file(FileHandle handle) const {
    const auto found = files_.find(handle.value);
    if (found == files_.end()) return fail(Code::stale);
    return found->second.get();
}

// A regular file that still has its name.
Result<DaosFileSystem::OpenFile*> DaosFileSystem::find_open(FileHandle handle, bool writes) const {
    ROS2S_TRY_ASSIGN(OpenFile* const file, find_file(handle));
    if (S_ISDIR(file->node.mode)) return fail(Code::is_directory);
    const bool may = writes ? file->flags.write || file->flags.append : file->flags.read;
    if (!may) return fail(Code::denied);
    if (file->node.is_removed) return fail(Code::stale);
    return file;
}

Task<Result<fs::Opened>> DaosFileSystem::open(const Call& call, NodeId id, OpenFlags flags) {
    Node* const node = nodes_.find(id);
    if (node == nullptr) co_return fail(Code::stale);
    const bool writes = flags.write || flags.append || flags.truncate;
    if (S_ISLNK(node->mode)) co_return fail(Code::loop);
    if (S_ISDIR(node->mode) && writes) co_return fail(Code::is_directory);
    if (!S_ISDIR(node->mode) && !S_ISREG(node->mode)) co_return fail(Code::invalid);
    NodeUse used(nodes_, node);
    Result<Attributes> attributes;
    if (flags.truncate) {
        attributes = co_await set_attributes(call, id, {.size = 0});
    } else {
        attributes = co_await get_attributes(call, id);
    }
    if (!attributes) co_return fail(attributes.error());
    const FileHandle handle{next_handle_++};
    nodes_.begin_use(*used);
    files_[handle.value] = std::make_unique<OpenFile>(connection_.reactor(), *used, flags);
    co_return fs::Opened{.handle = handle, .attributes = *attributes};
}

Task<Result<fs::Opened>> DaosFileSystem::create(const Call& call, NodeId parent,
                                                std::string_view name, mode_t mode, OpenFlags flags,
                                                Owner owner) {
    if (flags.nameless) co_return fail(Code::unsupported);
    constexpr int attempts_max = 100;  // the name may appear and disappear meanwhile
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        auto node =
            co_await add(call, parent, name, S_IFREG | (mode & fs::permission_bits), {}, owner);
        const bool taken = !node && node.error().code == Code::exists;
        if (taken && !flags.exclusive) {
            node = co_await lookup(call, parent, name);
            if (!node && node.error().code == Code::not_found) continue;
        }
        if (!node) co_return fail(node.error());
        auto opened = co_await open(without_end(call), node->node, flags);
        if (opened) co_return opened;
        forget(node->node, 1);
        // It was removed before it could be opened.
        const bool gone = opened.error().code == Code::stale;
        if (!gone || flags.exclusive) co_return fail(opened.error());
    }
    co_return fail(Code::busy);
}

Task<Result<>> DaosFileSystem::close(const Call&, FileHandle handle) {
    const auto found = files_.find(handle.value);
    if (found == files_.end()) co_return fail(Code::stale);
    const std::unique_ptr<OpenFile> file = std::move(found->second);
    files_.erase(found);
    while (file->in_flight > 0) co_await file->idle;
    drop_names(*file);
    nodes_.end_use(file->node);
    co_return Result<>{};
}

Task<Result<uint64_t>> DaosFileSystem::pread(const Call&, FileHandle handle, fs::Window into,
                                             uint64_t offset) {
    ROS2S_CO_TRY_ASSIGN(OpenFile* const file, find_open(handle, false));
    if (!into.is_local()) co_return fail(Code::unsupported);
    const fs::FileUse use(file);
    const ObjectRef object = file->node.object;
    Buffer buffer(into.bytes());
    daos_size_t bytes = 0;
    if (into.length > 0) {
        ROS2S_CO_TRY(co_await connection_.transfer([&](daos_event_t* event) {
            return dfs_.dfs_read(mount_, object->get(), &buffer.list, offset, &bytes, event);
        }));
    }
    if (bytes > into.length) co_return fail(Code::io);
    ++file->reads;
    file->read_bytes += bytes;
    co_return bytes;
}

Task<Result<>> DaosFileSystem::write(OpenFile& file, ConstBytes from, uint64_t offset) {
    const Change change(nodes_, file.node.id);
    const ObjectRef object = file.node.object;
    // libdfs does not change the memory of a write.
    Buffer buffer(Bytes(const_cast<std::byte*>(from.data()), from.size()));
    co_return co_await connection_.transfer([&](daos_event_t* event) {
        return dfs_.dfs_write(mount_, object->get(), &buffer.list, offset, event);
    });
}

Task<Result<uint64_t>> DaosFileSystem::pwrite(const Call& call, FileHandle handle, fs::Window from,
                                              uint64_t offset) {
    ROS2S_CO_TRY_ASSIGN(OpenFile* const file, find_open(handle, true));
    if (file->flags.append) ROS2S_CO_TRY(check_first(call));
    if (!from.is_local()) co_return fail(Code::unsupported);
    const fs::FileUse use(file);
    if (call.checksums != nullptr) {
        ROS2S_CO_TRY(co_await fs::compare_checksums(call, from.bytes(), offset));
    }
    Locks locks;
    if (file->flags.append) {
        ROS2S_CO_TRY_ASSIGN(const ThreadTurns::Permit thread, co_await connection_.enter(call));
        co_await lock_size(locks, file->node.id, true);
        const ObjectRef object = file->node.object;
        ROS2S_CO_TRY_ASSIGN(offset, co_await connection_.run(thread, [&]() -> Result<daos_size_t> {
            daos_size_t size = 0;
            ROS2S_TRY(checked(dfs_.dfs_get_size(mount_, object->get(), &size)));
            return size;
        }));
    } else {
        co_await lock_size(locks, file->node.id, false);
    }
    if (offset > INT64_MAX || from.length > INT64_MAX - offset) {
        co_return fail(Code::too_large, INT64_MAX);
    }
    if (from.length > 0) ROS2S_CO_TRY(co_await write(*file, from.bytes(), offset));
    ++file->writes;
    file->written_bytes += from.length;
    co_return from.length;
}

// A write is durable when it is done, as far as DAOS makes it so.
Task<Result<>> DaosFileSystem::fsync(const Call&, FileHandle handle) {
    ROS2S_CO_TRY(find_file(handle));
    co_return Result<>{};
}

// libdfs truncates a file if the hole is at its end. The last byte is therefore written as a zero.
Task<Result<>> DaosFileSystem::punch_hole(const Call& call, FileHandle handle, uint64_t offset,
                                          uint64_t length) {
    ROS2S_CO_TRY_ASSIGN(OpenFile* const file, find_open(handle, true));
    if (length == 0 || offset > INT64_MAX || length > INT64_MAX - offset) {
        co_return fail(Code::invalid);
    }
    const fs::FileUse use(file);
    ROS2S_CO_TRY_ASSIGN(const ThreadTurns::Permit thread, co_await connection_.enter(call));
    Locks locks;
    co_await lock_size(locks, file->node.id, true);
    const Change change(nodes_, file->node.id);
    const ObjectRef object = file->node.object;
    bool is_last = false;
    daos_size_t size = 0;
    ROS2S_CO_TRY(co_await connection_.run(thread, [&]() -> Result<> {
        ROS2S_TRY(checked(dfs_.dfs_get_size(mount_, object->get(), &size)));
        if (offset >= size) return {};
        is_last = offset + length >= size;
        const uint64_t end = is_last ? size - 1 : offset + length;
        if (end == offset) return {};
        return checked(dfs_.dfs_punch(mount_, object->get(), offset, end - offset));
    }));
    if (!is_last) co_return Result<>{};
    const std::byte zero{};
    co_return co_await write(*file, ConstBytes(&zero, 1), size - 1);
}

// libdfs does not say where a file has holes.
Task<Result<uint64_t>> DaosFileSystem::seek(const Call& call, FileHandle handle, uint64_t offset,
                                            fs::SeekFor what) {
    ROS2S_CO_TRY_ASSIGN(OpenFile* const file, find_file(handle));
    if (S_ISDIR(file->node.mode)) co_return fail(Code::is_directory);
    const fs::FileUse use(file);
    ROS2S_CO_TRY_ASSIGN(const ThreadTurns::Permit thread, co_await connection_.enter(call));
    const ObjectRef object = file->node.object;
    daos_size_t size = 0;
    ROS2S_CO_TRY(co_await connection_.run(thread, [&]() -> Result<> {
        return checked(dfs_.dfs_get_size(mount_, object->get(), &size));
    }));
    if (offset >= size) co_return fail_errno(ENXIO);
    co_return what == fs::SeekFor::data ? offset : size;
}

// ---- directories

Result<std::vector<std::string>> DaosFileSystem::list(const Object& directory,
                                                      size_t& bytes) const {
    const size_t most = std::exchange(bytes, 0);
    std::vector<std::string> names;
    std::vector<dirent> entries(names_listed_at_once);
    daos_anchor_t anchor{};
    while (!daos_anchor_is_eof(&anchor)) {
        uint32_t count = names_listed_at_once;
        ROS2S_TRY(
            checked(dfs_.dfs_readdir(mount_, directory.get(), &anchor, &count, entries.data())));
        for (uint32_t i = 0; i < count; ++i) {
            names.emplace_back(entries[i].d_name);
            bytes += sizeof(std::string) + names.back().capacity();
        }
        if (bytes > most) return fail(Code::no_memory);
    }
    return names;
}

void DaosFileSystem::drop_names(OpenFile& file) {
    file.names = {};
    if (file.share) connection_.names().give_back(*file.share, std::exchange(file.names_bytes, 0));
    file.share.reset();
}

Task<Result<>> DaosFileSystem::fill_names(const Call& call, OpenFile& file, uint64_t cookie) {
    if (file.has_names && cookie != 0) co_return Result<>{};
    drop_names(file);
    file.has_names = true;
    if (file.node.is_removed) co_return Result<>{};
    file.share = connection_.names().share_of(call.tenant);
    co_await file.share->turn.acquire();
    const SemaphoreHold hold(file.share->turn);
    const ObjectRef object = file.node.object;
    file.names_bytes = connection_.names().take_all(*file.share);
    size_t bytes = file.names_bytes;
    auto names = co_await connection_.run(call, [&] { return list(*object, bytes); });
    if (!names) {
        drop_names(file);
        co_return fail(names.error());
    }
    file.names = std::move(*names);
    connection_.names().give_back(*file.share, file.names_bytes - bytes);
    file.names_bytes = bytes;
    co_return Result<>{};
}

Task<Result<std::vector<fs::DirectoryEntry>>> DaosFileSystem::readdir(const Call& call,
                                                                      FileHandle handle,
                                                                      uint64_t cookie,
                                                                      size_t limit) {
    ROS2S_CO_TRY_ASSIGN(OpenFile* const file, find_file(handle));
    if (!S_ISDIR(file->node.mode)) co_return fail(Code::not_directory);
    const fs::FileUse use(file);
    co_await file->reading_names.acquire();
    const SemaphoreHold hold(file->reading_names);
    ROS2S_CO_TRY(co_await fill_names(call, *file, cookie));
    std::vector<fs::DirectoryEntry> entries;
    const ObjectRef object = file->node.object;
    while (entries.empty() && cookie < file->names.size()) {
        const size_t end =
            std::min(file->names.size(), cookie + std::min(limit, file->names.size()));
        if (end == cookie) break;
        const size_t first = cookie;
        // Fetches types, which a listing of libdfs does not have.
        std::vector<mode_t> types(end - first, 0);
        std::vector<NodeId> ids(end - first);
        for (size_t i = first; i < end; ++i) {
            const Node* const node = nodes_.find(file->node, file->names[i]);
            if (node == nullptr) continue;
            types[i - first] = node->mode & S_IFMT;
            ids[i - first] = node->id;
        }
        ROS2S_CO_TRY(co_await connection_.run(call, [&]() -> Result<> {
            for (size_t i = first; i < end; ++i) {
                if (types[i - first] != 0) continue;
                struct stat status{};
                const int rc =
                    dfs_.dfs_stat(mount_, object->get(), file->names[i].c_str(), &status);
                if (rc != 0 && rc != ENOENT) return checked(rc);
                if (rc == 0) types[i - first] = status.st_mode & S_IFMT;
            }
            return {};
        }));
        for (size_t i = first; i < end; ++i) {
            cookie = i + 1;
            const mode_t type = types[i - first];
            if (type == 0) continue;  // it was removed meanwhile
            const NodeId id = ids[i - first];
            entries.push_back(
                {.name = file->names[i],
                 .node = id != NodeId{} ? id : unknown_node(file->node.id, file->names[i]),
                 .type = type,
                 .cookie = cookie});
        }
    }
    co_return entries;
}

Result<fs::PathReport> DaosFileSystem::path_report(FileHandle handle) const {
    ROS2S_TRY_ASSIGN(const OpenFile* const file, find_file(handle));
    const auto& options = connection_.options();
    return fs::PathReport{.path = fmt::format("DAOS container {}/{} of {}, libdfs of DAOS 2.6 "
                                              "without hard links, FIFOs and times of access",
                                              options.pool, container_, options.system),
                          .reads = file->reads,
                          .read_bytes = file->read_bytes,
                          .writes = file->writes,
                          .written_bytes = file->written_bytes};
}

// ---- many files

Result<> DaosFileSystem::read_path(const Object& directory, const std::string& path,
                                   const fs::Caller* caller, fs::ReadManyItem& item) const {
    const Object* above = &directory;
    ObjectRef kept;
    for (size_t at = 0;;) {
        const size_t slash = path.find('/', at);
        ROS2S_TRY_ASSIGN(const FoundNode found, find(*above, path.substr(at, slash - at)));
        const struct stat& status = found.status;
        const bool is_last = slash == path.npos;
        if (S_ISLNK(status.st_mode)) return fail(Code::loop);
        if (!is_last && !S_ISDIR(status.st_mode)) return fail(Code::not_directory);
        if (is_last && S_ISDIR(status.st_mode)) return fail(Code::is_directory);
        const uint32_t wanted = is_last ? fs::Wanted::read : fs::Wanted::search;
        if (caller != nullptr &&
            !fs::allows(*caller, status.st_mode, status.st_uid, status.st_gid, wanted)) {
            return fs::fail_access();
        }
        kept = found.object;
        above = kept.get();
        if (is_last) {
            item.size = static_cast<uint64_t>(status.st_size);
            break;
        }
        at = slash + 1;
    }
    Buffer buffer(item.window.bytes());
    if (item.window.length > 0) {
        daos_size_t bytes = 0;
        ROS2S_TRY(checked(dfs_.dfs_read(mount_, above->get(), &buffer.list, 0, &bytes, nullptr)));
        item.bytes = std::min<uint64_t>(bytes, item.window.length);
    }
    item.size = std::max(item.size, item.bytes);
    return {};
}

Task<> DaosFileSystem::read_item(const Call& call, const Object& directory,
                                 fs::ReadManyItem& item) {
    if (!fs::begin_read(item)) co_return;
    item.status = co_await connection_.run(
        call, [&] { return read_path(directory, item.name, call.caller, item); });
}

Task<Result<>> DaosFileSystem::read_many(const Call& call, NodeId directory,
                                         std::span<fs::ReadManyItem> items) {
    ROS2S_CO_TRY_ASSIGN(const NodeUse used, use_directory(directory));
    const ObjectRef object = used->object;
    Nursery nursery(connection_.reactor(), read_many_at_once);
    for (fs::ReadManyItem& item : items) {
        co_await nursery.spawn(read_item(call, *object, item));
    }
    co_await nursery.join();
    co_return Result<>{};
}

}  // namespace ros2s::daos
