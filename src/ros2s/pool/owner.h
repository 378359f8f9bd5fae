// Owner: the one process that has a pool directory open. DIR/owner is a small text file that says
// who it is; a lock on it, which the kernel drops when the process dies, says that it
// lives (a lock of the open file description). The file stays when nobody owns the pool, because
// unlinking a file that others may be about to lock lets two in.
//
// The system calls here block for moments and are made when a pool is opened, not per request.
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "ros2s/base/result.h"
#include "ros2s/runtime/fork.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::pool {

struct OwnerRecord {
    pid_t pid = 0;
    std::string program;      // "ros2store-fuse", "python3"
    std::string mount_point;  // "" unless the owner is a mount
    std::string container;    // the mounted one
    friend bool operator==(const OwnerRecord&, const OwnerRecord&) = default;
};

// The program that commands record: the command line's. Others stay as long as they like.
inline constexpr std::string_view command_program = "ros2store";
// And the storage server.
inline constexpr std::string_view engine_program = "ros2store-engine";

class Ownership {
  public:
    // Takes the directory for this process. Errors: busy (the report names the owner and what to
    // do; `present` gets its record), not_found, denied, io.
    [[nodiscard]] static Result<std::unique_ptr<Ownership>> take(const std::string& directory,
                                                                 const OwnerRecord& self,
                                                                 OwnerRecord& present,
                                                                 Report& report);
    // The same, but an owner that will soon be gone is waited for: one that is just coming or
    // leaving, which has the lock and no record, 1 s at most; a command (command_program), which
    // mostly takes a fraction of a second, 2 s at most; one that was killed or has ended, whose
    // lock the kernel or a child that it started still has, and a mount that is not mounted any
    // more, or not yet, 10 s at most. 10 s in all, too.
    [[nodiscard]] static Task<Result<std::unique_ptr<Ownership>>> take_patiently(
        Reactor& reactor, std::string directory, OwnerRecord self, OwnerRecord& present,
        Report& report);
    // Releases it. In a forked child, where the lock was given up at once, does nothing.
    ~Ownership();
    Ownership(const Ownership&) = delete;
    Ownership& operator=(const Ownership&) = delete;

  private:
    explicit Ownership(int descriptor) : descriptor_(descriptor) {}
    int descriptor_;
    ForkMark mark_;
};

// Who owns the directory now; pid 0 when nobody does, -1 when the owner has not said who it is.
// Errors: not_found (no such directory, or no pool in it), denied, io.
[[nodiscard]] Result<OwnerRecord> find_owner(const std::string& directory);

// "process 4711 (ros2store-fuse) has it mounted at /mnt/x; …": what the second opener is told.
[[nodiscard]] std::string describe_owner(const std::string& directory, const OwnerRecord& owner);

}  // namespace ros2s::pool
