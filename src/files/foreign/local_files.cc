// Open files and directories of LocalDirectory.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "local_directory.h"
#include "ros2s/fs/file_use.h"
#include "ros2s/fs/payload_checksums.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/process_limits.h"

namespace ros2s::foreign {
namespace {
// Bytes of a directory that are read at once, and files of read_many at once.
constexpr size_t listing_bytes = 32 * 1024;
constexpr size_t read_many_at_once = 16;

bool writes(OpenFlags flags) { return flags.write || flags.append || flags.truncate; }
int bits_of(OpenFlags flags) {
    int bits = O_CLOEXEC | (!writes(flags) ? O_RDONLY : flags.read ? O_RDWR : O_WRONLY);
    if (flags.append) bits |= O_APPEND;
    if (flags.truncate) bits |= O_TRUNC;
    if (flags.sync) bits |= O_DSYNC;
    return bits;
}
}  // namespace

Result<Descriptor> LocalDirectory::open_node(int path, mode_t type, OpenFlags flags) const {
    if (S_ISLNK(type)) return fail(Code::loop);
    if (S_ISDIR(type) && writes(flags)) return fail(Code::is_directory);
    if (!S_ISDIR(type) && !S_ISREG(type)) return fail(Code::invalid);
    int bits = bits_of(flags);
    if (S_ISDIR(type)) bits |= O_DIRECTORY;
    if (writes(flags)) ROS2S_TRY(drop_set_id(path));
    return opened(::open(proc_path(path).c_str(), bits));
}

Result<FoundNode> LocalDirectory::make_file(int parent, const std::string& name, mode_t mode,
                                            OpenFlags flags, Owner owner) const {
    constexpr int if_new = O_CREAT | O_EXCL | O_NOFOLLOW;
    FoundNode made;
    ROS2S_TRY_ASSIGN(made.path, opened(::openat(parent, name.c_str(), bits_of(flags) | if_new,
                                                mode & fs::permission_bits)));
    ROS2S_TRY(checked(::fstat(made.path.get(), &made.status)));
    return adopt(parent, name, std::move(made), mode, owner);
}

Result<Descriptor> LocalDirectory::make_nameless(int parent, mode_t mode, OpenFlags flags,
                                                 Owner owner, FoundNode& made) const {
    const int kind = O_TMPFILE | (flags.exclusive ? O_EXCL : 0);
    ROS2S_TRY_ASSIGN(Descriptor file, opened(::openat(parent, ".", bits_of(flags) | kind,
                                                      mode & fs::permission_bits)));
    ROS2S_TRY_ASSIGN(made, found_by_descriptor(file.get()));
    ROS2S_TRY(give_owner_and_mode(parent, made, mode, owner));
    return file;
}

Result<fs::Opened> LocalDirectory::add_handle(LocalNode& node, Descriptor descriptor,
                                              const struct stat& status, OpenFlags flags) {
    nodes_.begin_use(node);
    const FileHandle handle{next_handle_++};
    files_[handle.value] = std::make_unique<OpenFile>(reactor_, node, std::move(descriptor), flags);
    return fs::Opened{.handle = handle, .attributes = attributes_of(node.id, status)};
}

LocalDirectory::OpenFile* LocalDirectory::find_file(FileHandle handle) const {
    const auto found = files_.find(handle.value);
    return found == files_.end() ? nullptr : found->second.get();
}

Task<Result<fs::Opened>> LocalDirectory::open(const Call& call, NodeId id, OpenFlags flags) {
    flags.sync |= options_.syncs_writes;
    ROS2S_CO_TRY_ASSIGN(const NodeUse node, co_await use(call, id));
    struct stat status{};
    ROS2S_CO_TRY_ASSIGN(Descriptor file, co_await on_thread(call, [&]() -> Result<Descriptor> {
                            ROS2S_TRY_ASSIGN(Descriptor descriptor,
                                             open_node(node->fd(), node->type, flags));
                            ROS2S_TRY(checked(::fstat(descriptor.get(), &status)));
                            return descriptor;
                        }));
    co_return add_handle(*node, std::move(file), status, flags);
}

Task<Result<fs::Opened>> LocalDirectory::create(const Call& call, NodeId parent,
                                                std::string_view name, mode_t mode, OpenFlags flags,
                                                Owner owner) {
    ROS2S_CO_TRY(check_first(call));
    flags.sync |= options_.syncs_writes;
    if (flags.nameless) co_return co_await create_nameless(call, parent, name, mode, flags, owner);
    ROS2S_CO_TRY(fs::check_name(name));
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, co_await use_to_add(call, parent));
    // Without room a file is not made, but one that has a node is opened.
    const Result<> room = nodes_.check_room();
    if (!room && flags.exclusive) co_return fail(room.error());
    const std::string owned(name);
    mode = allowed(S_IFREG, mode);
    constexpr int attempts_max = 100;  // the name may appear and disappear meanwhile
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        Descriptor file;
        Result<FoundNode> found = fail(Code::exists);
        if (room)
            found = co_await on_thread(call, [&]() -> Result<FoundNode> {
                ROS2S_TRY_ASSIGN(FoundNode made,
                                 make_file(directory->fd(), owned, mode, flags, owner));
                file = std::move(made.path);
                return found_by_descriptor(file.get());
            });
        if (found) {
            const struct stat status = found->status;
            co_return add_handle(nodes_.add(std::move(*found), &*directory, owned), std::move(file),
                                 status, flags);
        }
        if (found.error().code != Code::exists || flags.exclusive) co_return fail(found.error());
        found = co_await find_name(call, directory, owned);
        if (!found && found.error().code == Code::not_found) {
            if (!room) co_return fail(room.error());
            continue;
        }
        if (!found) co_return fail(found.error());
        ROS2S_CO_TRY_ASSIGN(const Attributes there,
                            add_found(std::move(*found), *directory, owned));
        const NodeId node = there.node;
        auto result = co_await open(without_end(call), node, flags);
        if (!result) nodes_.forget(node, 1);
        co_return result;
    }
    co_return fail(Code::busy);
}

// It cannot be found again, so its node ends with the handle and the references.
Task<Result<fs::Opened>> LocalDirectory::create_nameless(const Call& call, NodeId parent,
                                                         std::string_view name, mode_t mode,
                                                         OpenFlags flags, Owner owner) {
    if (!name.empty() || !flags.write) co_return fail(Code::invalid);
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, co_await use_to_add(call, parent));
    ROS2S_CO_TRY(nodes_.check_room());
    FoundNode made;
    ROS2S_CO_TRY_ASSIGN(Descriptor file, co_await on_thread(call, [&]() -> Result<Descriptor> {
                            return make_nameless(directory->fd(), allowed(S_IFREG, mode), flags,
                                                 owner, made);
                        }));
    const struct stat status = made.status;
    co_return add_handle(nodes_.add(std::move(made), nullptr, {}), std::move(file), status, flags);
}

Task<Result<>> LocalDirectory::close(const Call& call, FileHandle handle) {
    const auto found = files_.find(handle.value);
    if (found == files_.end()) co_return fail(Code::stale);
    std::unique_ptr<OpenFile> file = std::move(found->second);
    files_.erase(found);
    while (file->in_flight > 0) co_await file->idle;
    kept_names_ -= file->listed.size();
    LocalNode& node = file->node;
    // Network file systems may be slow here, and may report lost writes only here.
    const auto flushed = co_await on_thread(
        without_end(call), [&] { return checked(::close(file->descriptor.release())); });
    file.reset();
    nodes_.end_use(node);
    co_return flushed;
}

Task<Result<size_t>> LocalDirectory::read_some(const Call& call, OpenFile& file, Bytes into,
                                               uint64_t offset) {
    if (Ring* ring = reactor_.ring(); ring != nullptr) {
        co_return co_await ring->read(file.descriptor.get(), into, offset);
    }
    co_return co_await on_thread(call, [&]() -> Result<size_t> {
        const ssize_t bytes =
            ::pread(file.descriptor.get(), into.data(), into.size(), static_cast<off_t>(offset));
        ROS2S_TRY(checked(bytes));
        return static_cast<size_t>(bytes);
    });
}

Task<Result<size_t>> LocalDirectory::write_some(const Call& call, OpenFile& file, ConstBytes from,
                                                uint64_t offset) {
    // On an application's thread the kernel would send a signal that ends the process.
    if (const uint64_t most = file_bytes_max(); most != UINT64_MAX && !from.empty()) {
        struct stat status{};
        if (file.flags.append) ROS2S_CO_TRY(checked(::fstat(file.descriptor.get(), &status)));
        const uint64_t at = file.flags.append ? static_cast<uint64_t>(status.st_size) : offset;
        if (at >= most) co_return fail_errno(EFBIG);
        from = from.first(std::min<uint64_t>(from.size(), most - at));
    }
    if (Ring* ring = reactor_.ring(); ring != nullptr) {
        co_return co_await ring->write(file.descriptor.get(), from, offset);
    }
    co_return co_await on_thread(call, [&]() -> Result<size_t> {
        const ssize_t bytes =
            ::pwrite(file.descriptor.get(), from.data(), from.size(), static_cast<off_t>(offset));
        ROS2S_TRY(checked(bytes));
        return static_cast<size_t>(bytes);
    });
}

Task<Result<uint64_t>> LocalDirectory::pread(const Call& call, FileHandle handle, fs::Window into,
                                             uint64_t offset) {
    const fs::FileUse file(find_file(handle));
    if (!file) co_return fail(Code::stale);
    if (S_ISDIR(file->node.type)) co_return fail(Code::is_directory);
    if (!file->flags.read) co_return fail(Code::denied);
    if (!into.is_local()) co_return fail(Code::unsupported);
    // To io_uring, the largest offset is the file's position.
    if (offset > INT64_MAX) co_return fail(Code::invalid);
    into.length = std::min(into.length, INT64_MAX - offset);
    uint64_t done = 0;
    while (done < into.length) {
        const Bytes rest = into.bytes().subspan(done);
        ROS2S_CO_TRY_ASSIGN(const size_t bytes,
                            co_await read_some(call, *file, rest, offset + done));
        if (bytes == 0) break;
        done += bytes;
    }
    ++file->reads;
    file->read_bytes += done;
    co_return done;
}

Task<Result<uint64_t>> LocalDirectory::pwrite(const Call& call, FileHandle handle, fs::Window from,
                                              uint64_t offset) {
    const fs::FileUse file(find_file(handle));
    if (!file) co_return fail(Code::stale);
    if (S_ISDIR(file->node.type)) co_return fail(Code::is_directory);
    if (!file->flags.write && !file->flags.append) co_return fail(Code::denied);
    if (file->flags.append) ROS2S_CO_TRY(check_first(call));
    if (!from.is_local()) co_return fail(Code::unsupported);
    if (offset > INT64_MAX || from.length > INT64_MAX - offset) {
        co_return fail(Code::too_large, INT64_MAX);
    }
    if (call.checksums != nullptr) {
        ROS2S_CO_TRY(co_await fs::compare_checksums(call, from.bytes(), offset));
    }
    uint64_t done = 0;
    while (done < from.length) {
        const ConstBytes rest = ConstBytes(from.bytes()).subspan(done);
        const auto bytes = co_await write_some(call, *file, rest, offset + done);
        if (bytes && *bytes > 0) {
            done += *bytes;
            continue;
        }
        if (done > 0) break;  // a call with the rest gets the error
        co_return fail(bytes ? Error{Code::io} : bytes.error());
    }
    ++file->writes;
    file->written_bytes += done;
    co_return done;
}

Task<Result<>> LocalDirectory::fsync(const Call& call, FileHandle handle) {
    const fs::FileUse file(find_file(handle));
    if (!file) co_return fail(Code::stale);
    co_return co_await on_thread(call, [&] { return checked(::fsync(file->descriptor.get())); });
}

Task<Result<>> LocalDirectory::punch_hole(const Call& call, FileHandle handle, uint64_t offset,
                                          uint64_t length) {
    return change_range(call, handle, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length);
}

Task<Result<>> LocalDirectory::allocate(const Call& call, FileHandle handle, uint64_t offset,
                                        uint64_t length, bool keeps_size) {
    return change_range(call, handle, keeps_size ? FALLOC_FL_KEEP_SIZE : 0, offset, length);
}

Task<Result<>> LocalDirectory::change_range(const Call& call, FileHandle handle, int mode,
                                            uint64_t offset, uint64_t length) {
    const fs::FileUse file(find_file(handle));
    if (!file) co_return fail(Code::stale);
    if (S_ISDIR(file->node.type)) co_return fail(Code::is_directory);
    if (!file->flags.write && !file->flags.append) co_return fail(Code::denied);
    if (length == 0 || offset > INT64_MAX || length > INT64_MAX - offset) {
        co_return fail(Code::invalid);
    }
    co_return co_await on_thread(call, [&] {
        return checked(::fallocate(file->descriptor.get(), mode, static_cast<off_t>(offset),
                                   static_cast<off_t>(length)));
    });
}

Task<Result<uint64_t>> LocalDirectory::seek(const Call& call, FileHandle handle, uint64_t offset,
                                            fs::SeekFor what) {
    const fs::FileUse file(find_file(handle));
    if (!file) co_return fail(Code::stale);
    if (S_ISDIR(file->node.type)) co_return fail(Code::is_directory);
    if (offset > INT64_MAX) co_return fail_errno(ENXIO);
    co_return co_await on_thread(call, [&]() -> Result<uint64_t> {
        const int whence = what == fs::SeekFor::data ? SEEK_DATA : SEEK_HOLE;
        const off_t found = ::lseek(file->descriptor.get(), static_cast<off_t>(offset), whence);
        if (found < 0) return fail_errno(errno);
        return static_cast<uint64_t>(found);
    });
}

Result<std::vector<LocalDirectory::Listed>> LocalDirectory::list(int directory) {
    std::vector<Listed> listed;
    alignas(dirent64) char buffer[listing_bytes];
    const ssize_t bytes = ::getdents64(directory, buffer, sizeof buffer);
    ROS2S_TRY(checked(bytes));
    for (ssize_t at = 0; at < bytes;) {
        const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
        at += entry->d_reclen;
        Listed item{.name = entry->d_name,
                    .inode = entry->d_ino,
                    .type = static_cast<mode_t>(DTTOIF(entry->d_type)),
                    .cookie = static_cast<uint64_t>(entry->d_off)};
        if (entry->d_type == DT_UNKNOWN) {
            struct stat status{};
            // It was removed meanwhile: listed without a type, as the kernel might.
            if (::fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
                item.type = status.st_mode & S_IFMT;
            }
        }
        listed.push_back(std::move(item));
    }
    return listed;
}

// Reads so that `listed` begins after `cookie`, and is empty only at the end of the directory.
Task<Result<>> LocalDirectory::fill_names(const Call& call, OpenFile& file, uint64_t cookie) {
    const bool seeks = cookie != file.served_to || cookie == 0;
    if (seeks) file.listed.clear();
    if (!file.listed.empty()) co_return Result<>();
    auto more = co_await on_thread(call, [&]() -> Result<std::vector<Listed>> {
        // Seeking to the current position would make some file systems lose it.
        if (seeks || cookie != file.listed_to) {
            ROS2S_TRY(
                checked(::lseek(file.descriptor.get(), static_cast<off_t>(cookie), SEEK_SET)));
        }
        return list(file.descriptor.get());
    });
    if (!more) {
        // The kernel's answer for a removed directory.
        if (more.error().code == Code::not_found) co_return Result<>();
        co_return fail(more.error());
    }
    file.served_to = cookie;
    if (!more->empty()) file.listed_to = more->back().cookie;
    file.listed.assign(std::make_move_iterator(more->begin()),
                       std::make_move_iterator(more->end()));
    co_return Result<>();
}

Task<Result<std::vector<fs::DirectoryEntry>>> LocalDirectory::readdir(const Call& call,
                                                                      FileHandle handle,
                                                                      uint64_t cookie,
                                                                      size_t limit) {
    const fs::FileUse file(find_file(handle));
    if (!file) co_return fail(Code::stale);
    if (!S_ISDIR(file->node.type)) co_return fail(Code::not_directory);
    co_await file->reading_names.acquire();
    const SemaphoreHold hold(file->reading_names);
    const KeptNames kept(*this, *file);
    std::vector<fs::DirectoryEntry> entries;
    while (entries.size() < limit) {
        ROS2S_CO_TRY(co_await fill_names(call, *file, cookie));
        if (file->listed.empty()) break;
        while (!file->listed.empty() && entries.size() < limit) {
            Listed listed = std::move(file->listed.front());
            file->listed.pop_front();
            file->served_to = cookie = listed.cookie;
            if (listed.name == "." || listed.name == "..") continue;
            entries.push_back({.name = std::move(listed.name),
                               .node = nodes_.shown(file->node.inode.first, listed.inode),
                               .type = listed.type,
                               .cookie = cookie});
        }
    }
    co_return entries;
}

Result<fs::PathReport> LocalDirectory::path_report(FileHandle handle) const {
    const OpenFile* file = find_file(handle);
    if (file == nullptr) return fail(Code::stale);
    const Ring* ring = reactor_.ring();
    const std::string_view way = ring == nullptr ? "blocking calls" : to_string(ring->kind());
    return fs::PathReport{.path = "local directory " + path_ + ", " + std::string(way),
                          .reads = file->reads,
                          .read_bytes = file->read_bytes,
                          .writes = file->writes,
                          .written_bytes = file->written_bytes};
}

Result<> LocalDirectory::check_search(int directory, const std::string& path,
                                      const fs::Caller& caller) const {
    for (size_t slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1)) {
        ROS2S_TRY_ASSIGN(const Descriptor node,
                         open_beneath(directory, path.substr(0, slash), O_PATH));
        struct stat status{};
        ROS2S_TRY(checked(::fstat(node.get(), &status)));
        if (!fs::allows(caller, status.st_mode, status.st_uid, status.st_gid, fs::Wanted::search)) {
            return fs::fail_access();
        }
    }
    return {};
}

void LocalDirectory::read_one(int directory, const fs::Caller* caller,
                              fs::ReadManyItem& item) const {
    const auto read = [&]() -> Result<> {
        if (caller != nullptr) ROS2S_TRY(check_search(directory, item.name, *caller));
        // Opening a FIFO must not block.
        ROS2S_TRY_ASSIGN(const Descriptor file,
                         open_beneath(directory, item.name, O_RDONLY | O_NONBLOCK));
        struct stat status{};
        ROS2S_TRY(checked(::fstat(file.get(), &status)));
        if (S_ISDIR(status.st_mode)) return fail(Code::is_directory);
        if (!S_ISREG(status.st_mode)) return fail(Code::invalid);
        if (caller != nullptr &&
            !fs::allows(*caller, status.st_mode, status.st_uid, status.st_gid, fs::Wanted::read)) {
            return fs::fail_access();
        }
        uint64_t done = 0;
        while (done < item.window.length) {
            const Bytes rest = item.window.bytes().subspan(done);
            const ssize_t bytes =
                ::pread(file.get(), rest.data(), rest.size(), static_cast<off_t>(done));
            ROS2S_TRY(checked(bytes));
            if (bytes == 0) break;
            done += static_cast<uint64_t>(bytes);
        }
        item.bytes = done;
        // A file may be cut while it is read.
        const bool is_whole = done < item.window.length;
        item.size = is_whole ? done : std::max(done, static_cast<uint64_t>(status.st_size));
        return {};
    };
    item.status = read();
}

Task<> LocalDirectory::read_item(const Call& call, int directory, fs::ReadManyItem& item) {
    if (!fs::begin_read(item)) co_return;
    const auto ran = co_await on_thread(call, [&]() -> Result<> {
        read_one(directory, call.caller, item);
        return {};
    });
    if (!ran) item.status = ran;
}

Task<Result<>> LocalDirectory::read_many(const Call& call, NodeId directory,
                                         std::span<fs::ReadManyItem> items) {
    ROS2S_CO_TRY_ASSIGN(const NodeUse node, co_await use(call, directory));
    if (!S_ISDIR(node->type)) co_return fail(Code::not_directory);
    Nursery nursery(reactor_, read_many_at_once);
    for (fs::ReadManyItem& item : items) co_await nursery.spawn(read_item(call, node->fd(), item));
    co_await nursery.join();
    co_return Result<>();
}

}  // namespace ros2s::foreign
