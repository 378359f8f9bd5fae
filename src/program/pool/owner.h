// Owner: the one process that has a pool directory open. DIR/owner is a small text file that names
// it. The process holds a lock of the open file description on the file, and the kernel drops the
// lock when the process dies. The file stays when the pool has no owner. If it were unlinked, one
// process could lock the old file and another one a new file.
//
// The system calls here block for a short time. They are made when a pool is opened, not per
// request.
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/runtime/fork.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::pool {

// A process that uses the pool through its owner.
struct PoolUser {
    pid_t pid = 0;
    std::string program;
    friend bool operator==(const PoolUser&, const PoolUser&) = default;
};

struct OwnerRecord {
    pid_t pid = 0;
    std::string program;            // "ros2store-fuse", "python3"
    std::string mount_point;        // "" unless the owner is a mount
    std::string container;          // the mounted one
    bool shares = false;            // it gives the pool to processes of its user (pool_service.h)
    bool awaits = false;            // users of an earlier owner, whom it does not know
    std::vector<PoolUser> users{};  // which have it now; the first of many
    friend bool operator==(const OwnerRecord&, const OwnerRecord&) = default;
};

// The program name that the command line records. Its commands own a pool for a short time only.
inline constexpr std::string_view command_program = "ros2store";
// The program name of the storage server.
inline constexpr std::string_view engine_program = "ros2store-engine";
// That of the process that opens a pool for others (pool_process.h).
inline constexpr std::string_view pool_program = "ros2store-pool";

class Ownership {
  public:
    // Takes the directory for this process. Errors: busy (the report names the owner and what to
    // do; `present` gets its record), those of open_trusted(), io.
    [[nodiscard]] static Result<std::unique_ptr<Ownership>> take(const std::string& directory,
                                                                 const OwnerRecord& self,
                                                                 OwnerRecord& present,
                                                                 Report& report);
    // The same, but waits for an owner that will probably release the pool soon, a minute at most:
    // - 5 s for one that has the lock and no record: it is starting or ending;
    // - 20 s for a command (command_program), which usually takes a fraction of a second;
    // - 20 s for a ros2store-pool without users, which ends;
    // - 20 s for one that has ended, and whose lock the kernel or a child process still has;
    // - 20 s for a mount that is not mounted yet, or not any more.
    [[nodiscard]] static Task<Result<std::unique_ptr<Ownership>>> take_patiently(
        Reactor& reactor, std::string directory, OwnerRecord self, OwnerRecord& present,
        Report& report);
    // For reading: several processes can have the pool open, and nothing is written. It waits as
    // take_patiently() does. Errors: those of take().
    [[nodiscard]] static Task<Result<std::unique_ptr<Ownership>>> share_patiently(
        Reactor& reactor, std::string directory, OwnerRecord& present, Report& report);
    // Takes over the file of the owner that another process has locked for this one. Errors: io.
    [[nodiscard]] static Result<std::unique_ptr<Ownership>> adopt(int descriptor,
                                                                  const OwnerRecord& self,
                                                                  Report& report);
    // The owner before was killed, as were all that used the pool through it.
    [[nodiscard]] bool all_before_ended() const { return all_before_ended_; }
    // Writes another record of this process. The lock decides, so an error is no matter.
    void update(const OwnerRecord& self);
    // Releases the directory. Does nothing in a forked child, which does not have the lock.
    ~Ownership();
    Ownership& operator=(Ownership&&) = delete;

  private:
    [[nodiscard]] static Result<std::unique_ptr<Ownership>> share(const std::string& directory,
                                                                  OwnerRecord& present,
                                                                  Report& report);
    explicit Ownership(int descriptor) : descriptor_(descriptor) {}
    [[nodiscard]] static Result<std::unique_ptr<Ownership>> record(std::unique_ptr<Ownership> taken,
                                                                   const OwnerRecord& self,
                                                                   Report& report);
    // False: errno says why.
    [[nodiscard]] bool write(const OwnerRecord& self) const;
    int descriptor_;
    bool all_before_ended_ = false;
    ForkMark mark_;
};

// The current owner of the directory. pid 0: none; -1: the owner has not written its record.
// Errors, with a sentence: not_found (no such directory, or no pool in it), those of
// open_trusted().
[[nodiscard]] Result<OwnerRecord> find_owner(const std::string& directory, Report& report);

// Locks the file of the owner for a process that will adopt() it. Returns its descriptor, or -1 if
// the pool has an owner. Errors, with a sentence: those of open_trusted().
[[nodiscard]] Result<int> lock_for_another(const std::string& directory, Report& report);

// "process 4711 (ros2store-fuse) has it mounted at /mnt/x; …": the error of a second opener.
[[nodiscard]] std::string describe_owner(const std::string& directory, const OwnerRecord& owner);

// True if nothing is mounted on `mount_point` in the process's mount namespace (proc(5),
// /proc/PID/mountinfo): umount(2) returns before the process is informed. False if that is unknown.
[[nodiscard]] bool is_unmounted(pid_t pid, const std::string& mount_point);

}  // namespace ros2s::pool
