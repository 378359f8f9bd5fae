// getlk, setlk, flock, and flush, which ends the locks of a process. The file system has the locks,
// because others share it: the kernel would grant them among the users of this mount only. Without
// others the kernel keeps them.
//
// A lock has no slot, because it may wait: as many others as the kernel sends are served meanwhile,
// also the interrupt that ends the wait. Calls that wait for other programs are counted, so that
// they never prevent an unlock.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include <cerrno>
#include <fstream>

#include "request.h"
#include "ros2s/fs/flock.h"
#include "ros2s/fs/lock_wait.h"

namespace ros2s::fuse {
namespace {

using object::Lock;
using object::LockMode;
using object::LockSpace;

void reply_failure(fuse_req_t request, const Error& error) {
    switch (error.code) {
        case Code::cancelled: fuse_reply_err(request, EINTR); return;
        case Code::unsupported:
        case Code::no_memory: fuse_reply_err(request, ENOLCK); return;
        default: reply_error(request, error);
    }
}

// The thread waits for a lock of its process. To a file system, a lock of an open file description
// looks the same. False also if the mount may not know.
bool waits_for_process(pid_t thread) {
    std::ifstream file(fmt::format("/proc/{}/syscall", thread));
    long number = -1;
    std::string descriptor, command;
    file >> number >> descriptor >> command;
    return number == SYS_fcntl && command == fmt::format("{:#x}", F_SETLKW);
}

// Waits also while the store has just been opened and awaits other mounts.
Task<Result<std::optional<Lock>>> ask(Server& server, fuse_req_t request, fs::FileHandle handle,
                                      Lock lock, fs::LockHow how) {
    StopSource interrupted;
    const ForwardedStop ended(server.waits_end(), interrupted);
    fuse_req_interrupt_func(
        request, [](fuse_req_t, void* stop) { static_cast<StopSource*>(stop)->request_stop(); },
        &interrupted);
    const Call call{.stop = interrupted.token()};
    const auto ask_as = [&](fs::LockHow as) {
        return fs::wait_for_lock(server.reactor(), call, as, [&, as] {
            return server.file_system().lock(call, handle, lock, as);
        });
    };
    const bool may_deadlock = fs::waits(how) && lock.space == LockSpace::range;
    auto done = co_await ask_as(may_deadlock ? fs::LockHow::now : how);
    if (may_deadlock && done && *done) {
        if (waits_for_process(fuse_req_ctx(request)->pid)) how = fs::LockHow::wait_or_deadlock;
        done = co_await ask_as(how);
    }
    fuse_req_interrupt_func(request, nullptr, nullptr);
    co_return done;
}

Task<> getlk_task(Server& server, fuse_req_t request, fs::FileHandle handle, Lock lock) {
    const auto found = co_await ask(server, request, handle, lock, fs::LockHow::test);
    if (!found) co_return reply_failure(request, found.error());
    struct flock reply = fs::to_flock(*found);
    fuse_reply_lock(request, &reply);
}

Task<> lock_task(Server& server, fuse_req_t request, fs::FileHandle handle, Lock lock,
                 fs::LockHow how, Quota::Share /*of endless waits*/) {
    const auto done = co_await ask(server, request, handle, lock, how);
    if (!done) co_return reply_failure(request, done.error());
    fuse_reply_err(request, done->has_value() ? EAGAIN : 0);
}

// It ends soon.
void run_unslotted(Server& server, Task<> task) {
    if (server.has_room_to_wait()) return server.wait(std::move(task));
    server.run(std::move(task));
}

void getlk(fuse_req_t request, fuse_ino_t, fuse_file_info* file, struct flock* lock) {
    Server& server = server_of(request);
    run_unslotted(server, getlk_task(server, request, handle_of(*file),
                                     fs::to_lock(*lock, file->lock_owner)));
}

void set(fuse_req_t request, fs::FileHandle handle, const Lock& lock, bool waits) {
    Server& server = server_of(request);
    if (lock.mode != LockMode::none) server.write_handles().may_be_locked(handle);
    if (!waits || lock.mode == LockMode::none) {
        return run_unslotted(server,
                             lock_task(server, request, handle, lock, fs::LockHow::now, {}));
    }
    auto share = server.take_endless_wait(fuse_req_ctx(request)->uid);
    if (!share || !server.has_room_to_wait()) {
        fuse_reply_err(request, ENOLCK);
        return;
    }
    server.wait(lock_task(server, request, handle, lock, fs::LockHow::wait, std::move(*share)));
}

void setlk(fuse_req_t request, fuse_ino_t, fuse_file_info* file, struct flock* lock, int waits) {
    set(request, handle_of(*file), fs::to_lock(*lock, file->lock_owner), waits != 0);
}

void flock(fuse_req_t request, fuse_ino_t, fuse_file_info* file, int operation) {
    const Lock lock{.space = LockSpace::flock,
                    .mode = (operation & LOCK_UN) != 0   ? LockMode::none
                            : (operation & LOCK_EX) != 0 ? LockMode::exclusive
                                                         : LockMode::shared,
                    .owner = file->lock_owner};
    set(request, handle_of(*file), lock, (operation & LOCK_NB) == 0);
}

// A process that closes any of its descriptors of a file loses its locks of bytes there.
Task<> flush_task(Server& server, fuse_req_t request, fs::FileHandle handle, uint64_t owner) {
    const Lock all{.space = LockSpace::range, .mode = LockMode::none, .owner = owner};
    const auto done = co_await server.file_system().lock(Call{}, handle, all, fs::LockHow::now);
    if (!done && done.error().code == Code::unsupported) {
        fuse_reply_err(request, ENOSYS);
        co_return;
    }
    reply(request, done ? Result<>{} : Result<>(fail(done.error())));
}
void flush(fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
    run(request, flush_task, handle_of(*file), uint64_t{file->lock_owner});
}

}  // namespace

void add_lock_operations(fuse_lowlevel_ops& table) noexcept {
    table.getlk = getlk;
    table.setlk = setlk;
    table.flock = flock;
    table.flush = flush;
}

}  // namespace ros2s::fuse
