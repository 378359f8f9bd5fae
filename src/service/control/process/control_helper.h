// ControlHelper: the process that calls control planes for forked children, which cannot use gRPC
// if their parent did: gRPC's threads are missing in them. It is started with the first fork, or by
// a child that needs it and has none. All descendants share it. It is nobody's child, so the
// program's wait() and SIGCHLD do not see it, and it ends when the last process that knows it ends.
//
//     child ── a socket of its own, with one request ─► helper ── gRPC ─► control plane
//           ◄───────────────────── one reply ──────────
//
// The program's descriptors are closed in the helper. It serves processes of its own user and group
// only: a child that has given up its privileges starts another one.
//
// One per process, which lives as long as the process. Thread rule: any thread. Fork rule: works in
// a forked child.
#pragma once
#include <sys/types.h>

#include <mutex>
#include <string>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/fabric/socket/socket.h"

namespace ros2s::control {

class ControlHelper {
  public:
    // `program`: the path of the helper's program.
    explicit ControlHelper(std::string program) : program_(std::move(program)) {}
    ControlHelper& operator=(ControlHelper&&) = delete;

    // From now on a fork of this process starts the helper, unless it runs.
    void start_at_forks();
    // Sends a request. The reply comes on the returned socket; without one, the helper has ended.
    // Starts a helper if there is none. Errors, with a sentence: those of starting a program,
    // no_memory, io.
    [[nodiscard]] Result<fabric::Descriptor> send(ConstBytes request, Report& report);
    [[nodiscard]] const std::string& program() const { return program_; }

  private:
    [[nodiscard]] bool has_helper() const;
    [[nodiscard]] Result<> start(Report& report);
    static void before_fork();
    static void after_fork();

    const std::string program_;
    std::mutex mutex_;
    bool starts_at_forks_ = false;
    // The socket to the helper, which children inherit. Programs that close all descriptors in a
    // child may have given its number to something else, so its identity is compared.
    int socket_ = -1;
    dev_t device_ = 0;
    ino_t inode_ = 0;
    uid_t uid_ = 0;
    gid_t gid_ = 0;
};

}  // namespace ros2s::control
