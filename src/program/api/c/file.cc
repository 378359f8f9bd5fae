// Calls on open files.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "handles.h"
#include "owner_of_new.h"
#include "ros2s/fs/flock.h"
#include "ros2s/fs/large_read.h"
#include "ros2s/fs/lock_wait.h"
#include "walk.h"

using namespace ros2s;
using namespace ros2s::api::c;

namespace ros2s::api::c {
namespace {

constexpr int flags_used =
    O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_NOFOLLOW | O_SYNC | O_DSYNC;
constexpr int flags_without_meaning =
    O_CLOEXEC | O_DIRECT | O_NOCTTY | O_LARGEFILE | O_NOATIME | O_NONBLOCK;

Result<fs::OpenFlags> to_open_flags(int flags) {
    const int access = flags & O_ACCMODE;
    if ((flags & ~(flags_used | flags_without_meaning)) != 0 || access == O_ACCMODE) {
        return fail(Code::invalid);
    }
    return fs::OpenFlags{.read = access != O_WRONLY,
                         .write = access != O_RDONLY,
                         .append = (flags & O_APPEND) != 0,
                         .truncate = (flags & O_TRUNC) != 0,
                         .sync = (flags & O_DSYNC) != 0,  // O_SYNC includes it
                         .exclusive = (flags & O_EXCL) != 0};
}

Task<Result<>> open_file(ros2s_fs& owner, std::string_view path, int flags, mode_t mode,
                         ros2s_file& file) {
    ROS2S_CO_TRY_ASSIGN(const auto open_flags, to_open_flags(flags));
    const fs::PathOpen how{.flags = open_flags,
                           .creates = (flags & O_CREAT) != 0,
                           .follows = (flags & O_NOFOLLOW) == 0,
                           .mode = mode & fs::permission_bits,
                           .owner = owner_of_new()};
    ROS2S_CO_TRY_ASSIGN(const auto opened, co_await owner.file_system().open_path(
                                               owner.call, join(owner.base, path), how));
    file.core.handle = opened.handle;
    file.node = opened.attributes.node;
    file.flags = open_flags;
    co_return {};
}

// Requests that the caller's threads submitted before close count as in progress.
Task<Result<>> close_file(ros2s_file& file) {
    file.fs.instance().take_submitted();
    if (file.core.requests > 0) co_return fail(Code::busy);
    const auto closed = co_await file.fs.file_system().close(file.fs.call, file.core.handle);
    if (file.has_reference) file.fs.file_system().forget(file.node, 1);
    // The caller takes EBUSY to mean that the file is still open.
    if (!closed && closed.error().code == Code::busy) co_return fail(Code::io);
    co_return closed;
}

uint64_t lock_owner(const ros2s_file& file) { return file.core.handle.value; }

Task<Result<std::optional<object::Lock>>> wait_for(ros2s_file& file, const object::Lock& lock,
                                                   fs::LockHow how) {
    co_return co_await fs::wait_for_lock(file.fs.instance().reactor(), file.fs.call, how, [&] {
        return file.fs.file_system().lock(file.fs.call, file.core.handle, lock, how);
    });
}

Result<std::optional<object::Lock>> ask_for_lock(ros2s_file& file, object::Lock lock,
                                                 fs::LockHow how) {
    lock.pid = static_cast<uint32_t>(::getpid());
    return file.fs.run([&] { return wait_for(file, lock, how); });
}

// Linux shares such locks between parent and child. Here the parent's stay the parent's.
int refuse_lock_of_parent(const ros2s_file& file) {
    return refuse(ENOLCK, "lock '" + file.path +
                              "': the file was opened before fork(), and its locks are the "
                              "parent's: open it again in this process to lock it");
}

int refuse_lock(const ros2s_file& file, const Error& error) {
    if (error.code == Code::unsupported || error.code == Code::no_memory) {
        return refuse(ENOLCK,
                      "lock '" + file.path + "': " +
                          (error.code == Code::unsupported ? "the store behind it has no locks"
                                                           : "a limit of locks is reached"));
    }
    return refuse(error, "lock", file.path);
}

}  // namespace
}  // namespace ros2s::api::c

int ros2s_file_open(ros2s_fs* fs, const char* path, int flags, mode_t mode, ros2s_file** out) {
    if (const int rc = check(fs, "open"); rc < 0) return rc;
    if (path == nullptr || out == nullptr) return refuse(EINVAL, "open: an argument is NULL");
    *out = nullptr;
    if (!to_open_flags(flags)) {
        return refuse(EINVAL, std::string("open '") + path +
                                  "': unknown flags; ros2store.h lists the valid ones");
    }
    auto file = std::make_unique<ros2s_file>(ros2s_file{.fs = *fs, .path = path});
    file->core.path = file->path;
    const auto opened = fs->run([&] { return open_file(*fs, path, flags, mode, *file); });
    if (!opened) return refuse(opened.error(), "open", path);
    ++fs->users;
    *out = file.release();
    return 0;
}

int ros2s_file_close(ros2s_file* file) {
    const int whose = check_closing(file, "close");
    if (whose < 0) return whose;
    int rc = 0;
    if (whose == 0) {
        const auto closed = file->fs.run([&] { return close_file(*file); });
        if (!closed && closed.error().code == Code::busy) {
            return refuse(EBUSY, "close '" + file->path +
                                     "': requests of a queue are under way on it; reap them first");
        }
        rc = static_cast<int>(answer(closed, "close", file->path));
    }
    --file->fs.users;
    delete file;
    return rc;
}

ssize_t ros2s_pread(ros2s_file* file, void* buffer, size_t bytes, uint64_t offset) {
    if (const int rc = check(file, "read"); rc < 0) return rc;
    if (buffer == nullptr && bytes > 0) return refuse(EINVAL, "read: the buffer is NULL");
    const auto window = fs::Window::local(Bytes(static_cast<std::byte*>(buffer), bytes));
    return answer(file->fs.run([&] {
        return fs::pread_in_parts(file->fs.instance().reactor(), file->fs.file_system(),
                                  file->fs.call, file->core.handle, window, offset);
    }),
                  "read", file->path);
}

ssize_t ros2s_pwrite(ros2s_file* file, const void* buffer, size_t bytes, uint64_t offset) {
    if (const int rc = check(file, "write"); rc < 0) return rc;
    if (buffer == nullptr && bytes > 0) return refuse(EINVAL, "write: the buffer is NULL");
    const auto window = fs::Window::local(ConstBytes(static_cast<const std::byte*>(buffer), bytes));
    return answer(file->fs.run([&] {
        return file->fs.file_system().pwrite(file->fs.call, file->core.handle, window, offset);
    }),
                  "write", file->path);
}

int ros2s_fsync(ros2s_file* file) {
    if (const int rc = check(file, "fsync"); rc < 0) return rc;
    return run_and_answer(file->fs, "fsync", file->path, [&] {
        return file->fs.file_system().fsync(file->fs.call, file->core.handle);
    });
}

int ros2s_fstat(ros2s_file* file, struct stat* out) {
    if (const int rc = check(file, "stat"); rc < 0) return rc;
    if (out == nullptr) return refuse(EINVAL, "stat: the pointer for the result is NULL");
    const auto got = file->fs.run(
        [&] { return file->fs.file_system().get_attributes(file->fs.call, file->node); });
    if (!got) return refuse(got.error(), "stat", file->path);
    to_stat(*got, *out);
    return 0;
}

int ros2s_ftruncate(ros2s_file* file, uint64_t bytes) {
    if (const int rc = check(file, "truncate"); rc < 0) return rc;
    if (!file->flags.write) {
        return refuse(EINVAL, "truncate '" + file->path + "': it is not open for writing");
    }
    const fs::SetAttributes changes{.size = bytes};
    const auto done = file->fs.run(
        [&] { return file->fs.file_system().set_attributes(file->fs.call, file->node, changes); });
    return done ? 0 : refuse(done.error(), "truncate", file->path);
}

int ros2s_punch_hole(ros2s_file* file, uint64_t offset, uint64_t bytes) {
    if (const int rc = check(file, "punch a hole"); rc < 0) return rc;
    return run_and_answer(file->fs, "punch a hole into", file->path, [&] {
        return file->fs.file_system().punch_hole(file->fs.call, file->core.handle, offset, bytes);
    });
}

int ros2s_flock(ros2s_file* file, int operation) {
    if (const int rc = check(file, "lock"); rc < 0) return rc;
    if (file->is_from_parent) return refuse_lock_of_parent(*file);
    const int kind = operation & ~LOCK_NB;
    if (kind != LOCK_SH && kind != LOCK_EX && kind != LOCK_UN) {
        return refuse(EINVAL,
                      "lock '" + file->path +
                          "': the operation is LOCK_SH, LOCK_EX or LOCK_UN, and may have LOCK_NB");
    }
    const object::Lock lock{.space = object::LockSpace::flock,
                            .mode = kind == LOCK_UN   ? object::LockMode::none
                                    : kind == LOCK_EX ? object::LockMode::exclusive
                                                      : object::LockMode::shared,
                            .owner = lock_owner(*file)};
    const bool waits = (operation & LOCK_NB) == 0;
    const auto found = ask_for_lock(*file, lock, waits ? fs::LockHow::wait : fs::LockHow::now);
    if (!found) return refuse_lock(*file, found.error());
    return *found ? refuse(EWOULDBLOCK, "lock '" + file->path + "': another lock is in the way")
                  : 0;
}

int ros2s_lock(ros2s_file* file, int command, struct flock* range) {
    if (const int rc = check(file, "lock"); rc < 0) return rc;
    if (file->is_from_parent) return refuse_lock_of_parent(*file);
    if (range == nullptr) return refuse(EINVAL, "lock: the range is NULL");
    const bool tests = command == F_OFD_GETLK, waits = command == F_OFD_SETLKW;
    if ((!tests && !waits && command != F_OFD_SETLK) || range->l_whence != SEEK_SET ||
        range->l_start < 0 || range->l_len < 0 ||
        (range->l_type != F_RDLCK && range->l_type != F_WRLCK && range->l_type != F_UNLCK)) {
        return refuse(EINVAL, "lock '" + file->path +
                                  "': the command is F_OFD_GETLK, F_OFD_SETLK or F_OFD_SETLKW, and "
                                  "the range starts at l_start with SEEK_SET");
    }
    const object::Lock lock = fs::to_lock(*range, lock_owner(*file));
    const auto found = ask_for_lock(*file, lock,
                                    tests   ? fs::LockHow::test
                                    : waits ? fs::LockHow::wait
                                            : fs::LockHow::now);
    if (!found) return refuse_lock(*file, found.error());
    if (tests) {
        *range = fs::to_flock(*found);
        return 0;
    }
    return *found ? refuse(EAGAIN, "lock '" + file->path + "': another lock is in the way") : 0;
}

int64_t ros2s_seek(ros2s_file* file, uint64_t offset, int whence) {
    if (const int rc = check(file, "seek"); rc < 0) return rc;
    if (whence != SEEK_DATA && whence != SEEK_HOLE) {
        return refuse(EINVAL, "seek in '" + file->path + "': it finds SEEK_DATA or SEEK_HOLE");
    }
    const auto what = whence == SEEK_DATA ? fs::SeekFor::data : fs::SeekFor::hole;
    const auto found = file->fs.run([&] {
        return file->fs.file_system().seek(file->fs.call, file->core.handle, offset, what);
    });
    return found ? static_cast<int64_t>(*found) : refuse(found.error(), "seek in", file->path);
}
