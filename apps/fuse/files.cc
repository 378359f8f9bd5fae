// create, open, read, write, release, fsync, fallocate. There is no flush: every write is durable
// when it is acknowledged, so close() has nothing to wait for (ENOSYS tells the kernel).
#include <fcntl.h>
#include <linux/falloc.h>

#include <cerrno>
#include <string>

#include "request.h"

namespace ros2s::fuse {
namespace {

// If the kernel caches, the file's size changes only through this mount. The kernel then appends
// itself, and passes offsets under its inode lock. Otherwise the file system appends.
bool appends(const Server& server, int flags) noexcept {
    return !server.caches() && (flags & O_APPEND) != 0 && (flags & O_ACCMODE) != O_RDONLY;
}

fs::OpenFlags to_flags(const Server& server, int flags) noexcept {
    const int access = flags & O_ACCMODE;
    return {.read = access != O_WRONLY,
            .write = access != O_RDONLY,
            .append = appends(server, flags),
            .truncate = (flags & O_TRUNC) != 0,
            .exclusive = (flags & O_EXCL) != 0};
}

void fill_opened(Server& server, const fs::Caller& user, fs::FileHandle handle,
                 fuse_file_info& file) {
    if (!server.caches() && (file.flags & O_ACCMODE) != O_RDONLY) {
        server.write_handles().opened(handle, user, appends(server, file.flags));
    }
    file.fh = handle.value;
    file.keep_cache = server.caches();
    file.direct_io = !server.caches();
}

Task<> create_task(Server& server, fuse_req_t request, fs::NodeId parent, std::string name,
                   mode_t mode, fuse_file_info file) {
    const UserCall user(server, request);
    auto& file_system = server.file_system();
    const auto opened = co_await file_system.create(
        user.call, parent, name, mode, to_flags(server, file.flags), owner_of(request, parent));
    if (!opened) {
        reply_error(request, opened.error());
        co_return;
    }
    fill_opened(server, user.caller, opened->handle, file);
    const fuse_entry_param entry = to_entry(server, opened->attributes);
    if (fuse_reply_create(request, &entry, &file) != 0) {
        // The caller was killed: it has neither the reference nor the handle.
        std::ignore = co_await server.write_handles().close(user.call, opened->handle);
        file_system.forget(opened->attributes.node, 1);
    }
}
void create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
            fuse_file_info* file) {
    run(request, create_task, node_of(parent), name, mode, *file);
}

Task<> open_task(Server& server, fuse_req_t request, fs::NodeId node, fuse_file_info file) {
    const UserCall user(server, request);
    auto& file_system = server.file_system();
    const auto opened = co_await file_system.open(user.call, node, to_flags(server, file.flags));
    if (!opened) {
        reply_error(request, opened.error());
        co_return;
    }
    fill_opened(server, user.caller, opened->handle, file);
    if (fuse_reply_open(request, &file) != 0) {
        std::ignore = co_await server.write_handles().close(user.call, opened->handle);
    }
}
void open(fuse_req_t request, fuse_ino_t node, fuse_file_info* file) {
    file->flags &= ~O_EXCL;  // only meaningful for create
    run(request, open_task, node_of(node), *file);
}

Task<> release_task(Server& server, fuse_req_t request, fs::FileHandle handle) {
    const Call call;
    reply(request, co_await server.write_handles().close(call, handle));
}
void release(fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
    run(request, release_task, handle_of(*file));
}

Task<> read_task(Server& server, fuse_req_t request, fs::NodeId node, fs::FileHandle handle,
                 size_t bytes, uint64_t offset) {
    const Call call;
    AlignedBuffer buffer = server.read_buffers().take(bytes);
    const auto got = co_await server.file_system().pread(
        call, handle, fs::Window::local(buffer.bytes().first(bytes)), offset);
    if (got) {
        fuse_reply_buf(request, reinterpret_cast<const char*>(buffer.data()), *got);
    } else {
        server.note_failure(node, got.error());
        reply_error(request, got.error());
    }
    server.read_buffers().give(std::move(buffer));
}
void read(fuse_req_t request, fuse_ino_t node, size_t bytes, off_t offset, fuse_file_info* file) {
    run(request, read_task, node_of(node), handle_of(*file), bytes, static_cast<uint64_t>(offset));
}

Task<Result<uint64_t>> write_bytes(Server& server, fs::NodeId node, fuse_file_info file,
                                   ConstBytes data, uint64_t offset) {
    const Call call;
    fs::FileHandle handle = handle_of(file);
    if (!server.caches()) {
        const bool to_end = appends(server, file.flags) && file.writepage == 0;
        ROS2S_CO_TRY_ASSIGN(handle, co_await server.write_handles().find(node, handle, to_end));
    }
    co_return co_await server.file_system().pwrite(call, handle, fs::Window::local(data), offset);
}

// `received` is the request's own memory, which contains `data`.
Task<> write_task(Server& server, fuse_req_t request, fs::NodeId node, fuse_file_info file,
                  ReceiveBuffer received, ConstBytes data, uint64_t offset) {
    const auto written = co_await write_bytes(server, node, file, data, offset);
    if (written) {
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
    server.run(write_task(server, request, node_of(node), *file, server.take_receive_buffer(),
                          as_bytes({data, bytes}), static_cast<uint64_t>(offset)));
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
                     uint64_t size) {
    ROS2S_CO_TRY_ASSIGN(const auto now, co_await server.file_system().get_attributes(call, node));
    if (now.size >= size) co_return Result<>();
    static constexpr std::byte zero{};
    file.flags &= ~O_APPEND;
    ROS2S_CO_TRY(co_await write_bytes(server, node, file, {&zero, 1}, size - 1));
    co_return Result<>();
}

Task<> punch_task(Server& server, fuse_req_t request, fs::NodeId node, fuse_file_info file,
                  uint64_t offset, uint64_t length, bool keep_size) {
    const UserCall user(server, request);
    // The size first: the byte that this overwrites is in the range. Afterwards, it could be one of
    // a block that another client has written since the range was punched.
    Result<> done;
    if (!keep_size) done = co_await reach(server, user.call, node, file, offset + length);
    if (done) {
        done = co_await server.file_system().punch_hole(user.call, handle_of(file), offset, length);
    }
    reply(request, done);
}
void fallocate(fuse_req_t request, fuse_ino_t node, int mode, off_t offset, off_t length,
               fuse_file_info* file) {
    const bool keep_size = (mode & FALLOC_FL_KEEP_SIZE) != 0;
    const int kind = mode & ~FALLOC_FL_KEEP_SIZE;
    // Reserving space is not offered. The C library then writes zeros, which reserves it.
    if (kind != FALLOC_FL_PUNCH_HOLE && kind != FALLOC_FL_ZERO_RANGE) {
        fuse_reply_err(request, EOPNOTSUPP);
        return;
    }
    run(request, punch_task, node_of(node), *file, static_cast<uint64_t>(offset),
        static_cast<uint64_t>(length), keep_size);
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
}

}  // namespace ros2s::fuse
