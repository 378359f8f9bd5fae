// create, open, read, write, release, fsync, fallocate, lseek, copy_file_range. There is no flush:
// an acknowledged write needs nothing more of close() (ENOSYS tells the kernel).
#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "request.h"
#include "ros2s/runtime/backoff.h"

namespace ros2s::fuse {
namespace {

// If the kernel caches, the file's size changes only through this mount. The kernel then appends
// itself, and passes offsets under its inode lock. Otherwise the file system appends.
bool appends(const Server& server, int flags) noexcept {
    return !server.caches() && (flags & O_APPEND) != 0 && (flags & O_ACCMODE) != O_RDONLY;
}

// The kernel's own flag for execve(2) (__FMODE_EXEC).
constexpr int opened_to_execute = 0x20;

// For the request that is being dispatched. Root may write for other programs, later: the kernel
// then says so.
fs::OpenFlags to_flags(const Server& server, int flags) noexcept {
    const int access = flags & O_ACCMODE;
    // A kernel that keeps writes reads the rest of a page that is written in part.
    return {.read = access != O_WRONLY || server.is_exclusive(),
            .write = access != O_RDONLY,
            .append = appends(server, flags),
            .truncate = (flags & O_TRUNC) != 0,
            .exclusive = (flags & O_EXCL) != 0,
            .execute = (flags & opened_to_execute) != 0,
            .keeps_set_ids = !server.clears_set_ids()};
}

// A handle that the kernel's pages do not belong to: reads and writes bypass them.
bool writes_directly(const Server& server, const fuse_file_info& file) noexcept {
    return !server.caches() && (file.flags & O_ACCMODE) != O_RDONLY;
}

Server::HandleKind kind_of(const fuse_file_info& file) noexcept {
    const int access = file.flags & O_ACCMODE;
    return {.writes = access != O_RDONLY, .mappable = access == O_RDWR};
}

// Reads through the page cache if its pages can be kept. The kernel drops what it has of the file
// unless keep_cache is set.
void fill_opened(Server& server, const fs::Caller& user, fs::OpenFlags flags,
                 const fs::Opened& opened, fuse_file_info& file) {
    const fs::NodeId node = opened.attributes.node;
    if (writes_directly(server, file)) {
        server.write_handles().opened(
            opened.handle, user, {.appends = flags.append, .keeps_set_ids = flags.keeps_set_ids});
        server.cached_pages().opened(node);
    }
    Server::HandleKind kind = kind_of(file);
    const uint64_t lease = kind.writes ? 0 : server.page_lease(node);
    kind.paged = lease != 0;
    server.note_handle(node, kind, 1);
    const bool keeps = server.caches() || server.page_reads().are_leased(node, lease);
    if (!keeps) std::ignore = server.page_reads().take_leased(node);
    file.fh = opened.handle.value;
    file.keep_cache = keeps;
    // A page that is written back would not get to the end.
    const bool must_append = server.is_exclusive() && server.is_append_only(opened.handle);
    file.direct_io = must_append || (!server.caches() && lease == 0);
}

Task<Result<>> close(Server& server, fs::NodeId node, fuse_file_info file) {
    const Call call;
    server.forget_append_only(handle_of(file));
    const auto closed = co_await server.write_handles().close(call, handle_of(file));
    if (writes_directly(server, file)) server.cached_pages().closed(node);
    server.note_handle(node, kind_of(file), -1);
    co_return closed;
}

// Nobody looks a name up again after its second CREATE (second_creates.h). While the name is
// something else than a file, that one is tried again for this time and this number of attempts:
// the replies may be slow.
constexpr Duration second_create_max = std::chrono::seconds(2);
constexpr int second_create_attempts = 32;
// Something was there, and is gone; or the file system cannot have such a name.
constexpr int invalid_attempts_max = 4;

Task<bool> exists(fs::FileSystem& file_system, const Call& call, fs::NodeId parent,
                  std::string name) {
    const auto found = co_await file_system.lookup(call, parent, name);
    if (found) file_system.forget(found->node, 1);
    co_return found.has_value();
}

Task<> reply_created(Server& server, fuse_req_t request, const UserCall& user, fs::NodeId parent,
                     fs::OpenFlags flags, fs::Opened opened, fuse_file_info file) {
    fill_opened(server, user.caller, flags, opened, file);
    const fuse_entry_param entry = to_entry(server, user, parent, {}, opened.attributes);
    if (fuse_reply_create(request, &entry, &file) != 0) {
        // The caller was killed: it has neither the reference nor the handle.
        std::ignore = co_await close(server, opened.attributes.node, file);
        server.file_system().forget(opened.attributes.node, 1);
    }
}

Task<> create_nameless_task(Server& server, fuse_req_t request, fs::NodeId parent, mode_t mode,
                            fs::OpenFlags flags, fuse_file_info file) {
    const UserCall user(server, request);
    const auto opened = co_await server.file_system().create(user.call, parent, {}, mode, flags,
                                                             owner_of(request, parent));
    if (!opened) {
        reply_error(request, co_await error_in(server, user.call, parent, opened.error()));
        co_return;
    }
    co_await reply_created(server, request, user, parent, flags, *opened, file);
}

Task<> create_task(Server& server, fuse_req_t request, fs::NodeId parent, std::string name,
                   mode_t mode, fs::OpenFlags flags, fuse_file_info file) {
    const UserCall user(server, request);
    const NamesChange change(server, parent);
    auto& file_system = server.file_system();
    const pid_t thread = fuse_req_ctx(request)->pid;
    const bool is_second = server.second_creates().take(thread, parent, name);
    const Time until = server.reactor().now() + second_create_max;
    Result<fs::Opened> opened;
    Backoff pauses{.first = std::chrono::milliseconds(1), .longest = std::chrono::milliseconds(8)};
    int invalid_attempts = 0;
    for (int attempt = 1;; ++attempt) {
        opened = co_await file_system.create(user.call, parent, name, mode, flags,
                                             owner_of(request, parent));
        if (opened) break;
        const Code code = opened.error().code;
        const bool is_other_kind =
            code == Code::loop ||
            (code == Code::invalid && co_await exists(file_system, user.call, parent, name));
        if (is_other_kind) {
            opened = fail(Code::stale);
            if (!is_second) {
                server.second_creates().add(thread, parent, name);
                break;
            }
            if (attempt >= second_create_attempts && server.reactor().now() >= until) break;
        } else if (code != Code::invalid || ++invalid_attempts == invalid_attempts_max) {
            break;
        }
        co_await sleep_for(server.reactor(), pauses.next());
    }
    if (!opened) {
        reply_error(request, co_await error_in(server, user.call, parent, opened.error()));
        co_return;
    }
    co_await reply_created(server, request, user, parent, flags, *opened, file);
}
void create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
            fuse_file_info* file) {
    fs::OpenFlags flags = to_flags(server_of(request), file->flags);
    flags.nameless = server_of(request).creates_nameless();
    if (flags.nameless) {
        run(request, create_nameless_task, node_of(parent), mode, flags, *file);
    } else {
        run(request, create_task, node_of(parent), name, mode, flags, *file);
    }
}

Task<> open_task(Server& server, fuse_req_t request, fs::NodeId node, fs::OpenFlags flags,
                 fuse_file_info file) {
    const auto changes = flags.write ? std::optional(node) : std::nullopt;
    const UserCall user(server, request, changes);
    auto& file_system = server.file_system();
    auto opened = co_await file_system.open(user.call, node, flags);
    // Of a file that is append-only, only a handle that appends can be had. See appends().
    const bool may_append = !opened && to_errno(opened.error()) == EPERM && server.caches() &&
                            (file.flags & O_APPEND) != 0 && !flags.truncate;
    if (may_append) {
        flags.append = true;
        opened = co_await file_system.open(user.call, node, flags);
        if (opened) server.note_append_only(opened->handle);
    }
    if (!opened) {
        reply_error(request, opened.error());
        co_return;
    }
    fill_opened(server, user.caller, flags, *opened, file);
    if (flags.truncate) server.borrowed_files().kernel().sets_size(node);
    // The reply has no attributes.
    if (flags.truncate && !flags.keeps_set_ids) server.set_ids_may_be_gone(node);
    if (fuse_reply_open(request, &file) != 0) std::ignore = co_await close(server, node, file);
}
void open(fuse_req_t request, fuse_ino_t node, fuse_file_info* file) {
    file->flags &= ~O_EXCL;  // only meaningful for create
    run(request, open_task, node_of(node), to_flags(server_of(request), file->flags), *file);
}

Task<> release_task(Server& server, fuse_req_t request, fs::NodeId node, fuse_file_info file) {
    co_await server.borrowed_files().end(handle_of(file));
    reply(request, co_await close(server, node, file));
}
void release(fuse_req_t request, fuse_ino_t node, fuse_file_info* file) {
    Server& server = server_of(request);
    const bool waits = server.borrowed_files().has(handle_of(*file)) && server.has_room_to_wait();
    if (!waits) return run(request, release_task, node_of(node), *file);
    // For drops of pages, which may wait for reads that need a slot.
    server.wait(release_task(server, request, node_of(node), *file));
}

// A read for the page cache. It names no lock owner, which a read for a program does.
bool fills_pages(const Server& server, const fuse_file_info& file) noexcept {
    return !server.caches() && file.lock_owner == 0;
}

// Pages that this read puts into the page cache.
class FilledPages {
  public:
    FilledPages(Server& server, fs::NodeId node)
        : server_(server), node_(node), lease_(server.page_lease(node)) {
        if (lease_ != 0 && !server.page_reads().note_leased(node, lease_)) lease_ = 0;
        is_unleased_ = lease_ == 0 && are_dropped();
        server_.kernel_caches().begin_read(node_, is_unleased_);
    }
    FilledPages& operator=(FilledPages&&) = delete;
    ~FilledPages() { server_.kernel_caches().end_read(node_, is_unleased_); }
    // Just before the reply.
    void filled(pid_t program, uint64_t offset, uint64_t bytes) {
        if (lease_ != 0 && lease_ == server_.page_lease(node_)) return;
        if (are_dropped() && server_.has_room_to_wait()) {
            return server_.wait(server_.kernel_caches().drop_unleased(node_, offset, bytes));
        }
        server_.page_reads().note(server_.reactor().now(), node_, program, offset, bytes);
    }

  private:
    // Without a lease.
    [[nodiscard]] bool are_dropped() const {
        return server_.is_paged(node_) && !server_.is_mappable(node_);
    }

    Server& server_;
    const fs::NodeId node_;
    uint64_t lease_;
    bool is_unleased_ = false;
};

Task<> read_task(Server& server, fuse_req_t request, fs::NodeId node, fuse_file_info file,
                 size_t bytes, uint64_t offset) {
    const Call call;
    std::optional<FilledPages> pages;
    CachedPages::RunningOperation running;
    if (fills_pages(server, file)) {
        pages.emplace(server, node);
        running =
            co_await server.cached_pages().begin(node, CachedPages::Kind::paged, {offset, bytes});
    }
    const bool fills = server.caches() || pages;
    if (fills) server.borrowed_files().kernel().gets_pages(node);
    AlignedBuffer buffer = server.read_buffers().take(bytes);
    const auto got = co_await server.file_system().pread(
        call, handle_of(file), fs::Window::local(buffer.bytes().first(bytes)), offset);
    if (fills) server.borrowed_files().kernel().gets_pages(node);
    if (got) {
        if (running) server.cached_pages().filled(node, offset, buffer.bytes().first(*got), bytes);
        if (pages) pages->filled(fuse_req_ctx(request)->pid, offset, bytes);
        fuse_reply_buf(request, reinterpret_cast<const char*>(buffer.data()), *got);
    } else {
        server.note_failure(node, got.error());
        reply_error(request, got.error());
    }
    server.read_buffers().give(std::move(buffer));
}
void read(fuse_req_t request, fuse_ino_t node, size_t bytes, off_t offset, fuse_file_info* file) {
    run(request, read_task, node_of(node), *file, bytes, static_cast<uint64_t>(offset));
}

Task<Result<>> write_all(Server& server, fs::FileHandle handle, ConstBytes data, uint64_t offset) {
    const Call call;
    while (!data.empty()) {
        ROS2S_CO_TRY_ASSIGN(
            const uint64_t written,
            co_await server.file_system().pwrite(call, handle, fs::Window::local(data), offset));
        data = data.subspan(written);
        offset += written;
    }
    co_return Result<>();
}

// Puts the ranges of `data` that programs have stored over what the file has there, and writes the
// whole.
Task<Result<>> merge(Server& server, fuse_file_info file, fs::FileHandle writable, ConstBytes data,
                     uint64_t offset, std::vector<CachedPages::Range> stored) {
    const Call call;
    const uint64_t begin = stored.front().offset;
    AlignedBuffer buffer = server.read_buffers().take(stored.back().end() - begin);
    const Bytes merged = buffer.bytes().first(stored.back().end() - begin);
    const auto got = co_await server.file_system().pread(call, handle_of(file),
                                                         fs::Window::local(merged), begin);
    Result<> done;
    if (got) {
        std::ranges::fill(merged.subspan(*got), std::byte{});
        for (const CachedPages::Range& each : stored) {
            std::ranges::copy(data.subspan(each.offset - offset, each.length),
                              merged.begin() + static_cast<ptrdiff_t>(each.offset - begin));
        }
        done = co_await write_all(server, writable, merged, begin);
    } else {
        done = fail(got.error());
    }
    server.read_buffers().give(std::move(buffer));
    co_return done;
}

// Each write is a durable commit. Of more pieces than this, one write is made.
constexpr size_t pieces_written_max = 4;

// `data` are pages of a mapping. Writes what programs have stored in them.
Task<Result<>> write_pages_back(Server& server, fs::NodeId node, fuse_file_info file,
                                fs::FileHandle writable, ConstBytes data, uint64_t offset) {
    CachedPages& pages = server.cached_pages();
    const auto stored = pages.stored(node, offset, data);
    if (stored.size() > pieces_written_max) {
        ROS2S_CO_TRY(co_await merge(server, file, writable, data, offset, stored));
        pages.written(node, offset, data);
        co_return Result<>();
    }
    for (const CachedPages::Range& each : stored) {
        const ConstBytes piece = data.subspan(each.offset - offset, each.length);
        ROS2S_CO_TRY(co_await write_all(server, writable, piece, each.offset));
        pages.written(node, each.offset, piece);
    }
    co_return Result<>();
}

// Where the kernel caches, it has set-id bits cleared before it writes (see setattr).
Task<Result<uint64_t>> write_bytes(Server& server, fs::NodeId node, fuse_file_info file,
                                   ConstBytes data, uint64_t offset, bool keeps_set_ids) {
    const Call call;
    fs::FileHandle handle = handle_of(file);
    if (server.caches()) {
        server.borrowed_files().kernel().gets_pages(node);
        // A page of a mapping, or of a descriptor that lost O_APPEND, would get to the end.
        const bool has_place = file.writepage != 0 || (file.flags & O_APPEND) == 0;
        if (has_place && server.is_append_only(handle)) co_return fs::fail_permission();
        co_return co_await server.file_system().pwrite(call, handle, fs::Window::local(data),
                                                       offset);
    }
    const bool is_paged = file.writepage != 0;
    const bool to_end = appends(server, file.flags) && !is_paged;
    // The kernel does not know where the file ends.
    const auto range =
        to_end ? CachedPages::Range{0, UINT64_MAX} : CachedPages::Range{offset, data.size()};
    const auto running = co_await server.cached_pages().begin(
        node, is_paged ? CachedPages::Kind::paged : CachedPages::Kind::direct, range);
    ROS2S_CO_TRY_ASSIGN(handle,
                        co_await server.write_handles().find(
                            node, handle, {.appends = to_end, .keeps_set_ids = keeps_set_ids}));
    if (is_paged && running) {
        ROS2S_CO_TRY(co_await write_pages_back(server, node, file, handle, data, offset));
        co_return data.size();
    }
    co_return co_await server.file_system().pwrite(call, handle, fs::Window::local(data), offset);
}

// `received` is the request's own memory, which contains `data`.
Task<> write_task(Server& server, fuse_req_t request, fs::NodeId node, fuse_file_info file,
                  bool keeps_set_ids, ReceiveBuffer received, ConstBytes data, uint64_t offset) {
    auto written = co_await write_bytes(server, node, file, data, offset, keeps_set_ids);
    // O_SYNC, O_DSYNC, and RWF_DSYNC of this write alone. For pages the kernel requests it.
    const bool is_synchronous = (file.flags & O_DSYNC) != 0 && file.writepage == 0;
    if (written && is_synchronous && server.file_system().is_deferred()) {
        const Call call;
        const auto durable = co_await server.file_system().fsync(call, handle_of(file));
        if (!durable) written = fail(durable.error());
    }
    if (written) {
        if (!keeps_set_ids) server.set_ids_may_be_gone(node);
        fuse_reply_write(request, *written);
    } else {
        server.note_failure(node, written.error());
        reply_error(request, written.error());
    }
    server.give_receive_buffer(std::move(received));
}
void write(fuse_req_t request, fuse_ino_t node, const char* data, size_t bytes, off_t offset,
           fuse_file_info* file) {
    Server& server = server_of(request);
    // For pages of a mapping the kernel does not say whose they are.
    const bool keeps_set_ids = file->writepage != 0 || !server.clears_set_ids();
    server.run(write_task(server, request, node_of(node), *file, keeps_set_ids,
                          server.take_receive_buffer(), as_bytes({data, bytes}),
                          static_cast<uint64_t>(offset)));
}

Task<> fsync_task(Server& server, fuse_req_t request, fs::FileHandle handle) {
    const Call call;
    reply(request, co_await server.file_system().fsync(call, handle));
}
void fsync(fuse_req_t request, fuse_ino_t, int, fuse_file_info* file) {
    run(request, fsync_task, handle_of(*file));
}

// Makes the file at least as long. The last byte is overwritten with zero, because setting the size
// would cut off what another client has written behind it meanwhile.
Task<Result<>> reach(Server& server, const Call& call, fs::NodeId node, fuse_file_info file,
                     uint64_t size, bool keeps_set_ids) {
    ROS2S_CO_TRY_ASSIGN(const auto now, co_await server.file_system().get_attributes(call, node));
    if (now.size >= size) co_return Result<>();
    static constexpr std::byte zero{};
    file.flags &= ~O_APPEND;
    ROS2S_CO_TRY(co_await write_bytes(server, node, file, {&zero, 1}, size - 1, keeps_set_ids));
    co_return Result<>();
}

enum class RangeChange : uint8_t { punch, allocate, allocate_inside };

Task<Result<>> change_range(Server& server, const Call& call, fs::NodeId node, fuse_file_info file,
                            CachedPages::Range range, RangeChange change, bool keeps_set_ids) {
    fs::FileHandle handle = handle_of(file);
    CachedPages::RunningOperation running;
    if (!server.caches()) {
        running = co_await server.cached_pages().begin(node, CachedPages::Kind::direct, range);
        ROS2S_CO_TRY_ASSIGN(
            handle, co_await server.write_handles().find(
                        node, handle,
                        {.appends = appends(server, file.flags), .keeps_set_ids = keeps_set_ids}));
    }
    fs::FileSystem& file_system = server.file_system();
    if (change == RangeChange::punch) {
        co_return co_await file_system.punch_hole(call, handle, range.offset, range.length);
    }
    co_return co_await file_system.allocate(call, handle, range.offset, range.length,
                                            change == RangeChange::allocate_inside);
}

Task<> punch_task(Server& server, fuse_req_t request, fs::NodeId node, fuse_file_info file,
                  uint64_t offset, uint64_t length, bool keep_size) {
    const UserCall user(server, request);
    const bool is_root = fuse_req_ctx(request)->uid == 0;
    // The size first: the byte that this overwrites is in the range. Afterwards, it could be one of
    // a block that another client has written since the range was punched.
    Result<> done;
    if (!keep_size) {
        done = co_await reach(server, user.call, node, file, offset + length, is_root);
    }
    if (done) {
        done = co_await change_range(server, user.call, node, file, {offset, length},
                                     RangeChange::punch, is_root);
    }
    reply(request, done);
}

// A program that is killed ends the rest.
Task<Result<>> allocate(Server& server, fuse_req_t request, const Call& call, fs::NodeId node,
                        fuse_file_info file, CachedPages::Range range, bool keep_size) {
    // Too large a range takes no space from others.
    ROS2S_CO_TRY_ASSIGN(const auto now, co_await server.file_system().get_attributes(call, node));
    ROS2S_CO_TRY_ASSIGN(const auto space, co_await server.file_system().space(call));
    if (range.length > now.bytes_used + space.free_bytes) co_return fail(Code::no_space);
    const bool keeps_set_ids = fuse_req_ctx(request)->uid == 0;
    for (uint64_t done = 0; done < range.length;) {
        if (fuse_req_interrupted(request) != 0) co_return fail_errno(EINTR);
        const uint64_t count = std::min(fs::allocated_bytes_max, range.length - done);
        // Only the last part may be behind the end of the file. If that is refused, none is done.
        const uint64_t at = keep_size ? range.end() - done - count : range.offset + done;
        ROS2S_CO_TRY(co_await change_range(
            server, call, node, file, {at, count},
            keep_size ? RangeChange::allocate_inside : RangeChange::allocate, keeps_set_ids));
        done += count;
    }
    co_return Result<>();
}

Task<> allocate_task(Server& server, fuse_req_t request, fs::NodeId node, fuse_file_info file,
                     uint64_t offset, uint64_t length, bool keep_size) {
    const UserCall user(server, request);
    reply(request,
          co_await allocate(server, request, user.call, node, file, {offset, length}, keep_size));
}
void fallocate(fuse_req_t request, fuse_ino_t node, int mode, off_t offset, off_t length,
               fuse_file_info* file) {
    const bool keep_size = (mode & FALLOC_FL_KEEP_SIZE) != 0;
    const int kind = mode & ~FALLOC_FL_KEEP_SIZE;
    const auto begin = static_cast<uint64_t>(offset);
    const auto bytes = static_cast<uint64_t>(length);
    if (kind == 0) {
        run(request, allocate_task, node_of(node), *file, begin, bytes, keep_size);
    } else if (kind == FALLOC_FL_PUNCH_HOLE || kind == FALLOC_FL_ZERO_RANGE) {
        run(request, punch_task, node_of(node), *file, begin, bytes, keep_size);
    } else {
        fuse_reply_err(request, EOPNOTSUPP);
    }
}

// The kernel may hold stores to a mapping that it has not written back. As long as the file can
// have a mapping for stores, all of it counts as data.
Task<Result<uint64_t>> find_data(Server& server, const Call& call, fs::NodeId node,
                                 fs::FileHandle handle, uint64_t offset, fs::SeekFor what) {
    if (!server.is_mappable(node)) {
        co_return co_await server.file_system().seek(call, handle, offset, what);
    }
    ROS2S_CO_TRY_ASSIGN(const auto now, co_await server.file_system().get_attributes(call, node));
    if (offset >= now.size) co_return fail_errno(ENXIO);
    co_return what == fs::SeekFor::data ? offset : now.size;
}

Task<> lseek_task(Server& server, fuse_req_t request, fs::NodeId node, fs::FileHandle handle,
                  uint64_t offset, fs::SeekFor what) {
    const UserCall user(server, request);
    const auto found = co_await find_data(server, user.call, node, handle, offset, what);
    if (found) {
        fuse_reply_lseek(request, static_cast<off_t>(*found));
    } else if (found.error().code == Code::unsupported) {
        fuse_reply_err(request, ENOSYS);  // the kernel then finds no holes
    } else {
        reply_error(request, found.error());
    }
}
void lseek(fuse_req_t request, fuse_ino_t node, off_t offset, int whence, fuse_file_info* file) {
    // The file system does not know the writes that the kernel keeps. The kernel finds no holes.
    if (server_of(request).is_exclusive()) return void(fuse_reply_err(request, ENOSYS));
    run(request, lseek_task, node_of(node), handle_of(*file), static_cast<uint64_t>(offset),
        whence == SEEK_DATA ? fs::SeekFor::data : fs::SeekFor::hole);
}

// The place of a copy in one of its files.
struct CopyEnd {
    fs::NodeId node;
    fuse_file_info file;
    uint64_t offset;
};

// The longest part of a copy that one request makes. The kernel locks the target meanwhile.
// Programs repeat the call for the rest.
constexpr uint64_t copy_bytes_max = 64 << 20;

Task<Result<uint64_t>> copy(Server& server, CopyEnd from, CopyEnd to, uint64_t bytes,
                            bool keeps_set_ids) {
    const Call call;
    AlignedBuffer buffer = server.read_buffers().take(std::min(bytes, transfer_bytes_max));
    uint64_t copied = 0;
    Result<> done;
    while (done && copied < bytes) {
        const Bytes part =
            buffer.bytes().first(std::min<uint64_t>(bytes - copied, transfer_bytes_max));
        const auto got = co_await server.file_system().pread(
            call, handle_of(from.file), fs::Window::local(part), from.offset + copied);
        const auto written = !got || *got == 0
                                 ? got
                                 : co_await write_bytes(server, to.node, to.file, part.first(*got),
                                                        to.offset + copied, keeps_set_ids);
        if (!written) {
            server.note_failure(got ? to.node : from.node, written.error());
            done = fail(written.error());
        } else if (*written == 0) {
            break;  // the end of the source
        } else {
            copied += *written;
        }
    }
    server.read_buffers().give(std::move(buffer));
    if (!done && copied == 0) co_return fail(done.error());
    co_return copied;
}

Task<> copy_task(Server& server, fuse_req_t request, CopyEnd from, CopyEnd to, uint64_t bytes) {
    const bool is_root = fuse_req_ctx(request)->uid == 0;
    const fs::NodeId to_node = to.node;
    const auto copied = co_await copy(server, from, to, std::min(bytes, copy_bytes_max), is_root);
    if (copied) {
        if (!is_root) server.set_ids_may_be_gone(to_node);
        fuse_reply_write(request, *copied);
    } else {
        reply_error(request, copied.error());
    }
}
// Without this, the kernel would copy from its page cache, which may hold old bytes.
void copy_file_range(fuse_req_t request, fuse_ino_t from, off_t from_offset,
                     fuse_file_info* from_file, fuse_ino_t to, off_t to_offset,
                     fuse_file_info* to_file, size_t bytes, int) {
    run(request, copy_task, CopyEnd{node_of(from), *from_file, static_cast<uint64_t>(from_offset)},
        CopyEnd{node_of(to), *to_file, static_cast<uint64_t>(to_offset)}, uint64_t{bytes});
}

}  // namespace

void add_file_operations(fuse_lowlevel_ops& table) noexcept {
    table.create = create;
    table.open = open;
    table.release = release;
    table.read = read;
    table.write = write;
    table.fsync = fsync;
    table.fallocate = fallocate;
    table.lseek = lseek;
    table.copy_file_range = copy_file_range;
}

}  // namespace ros2s::fuse
