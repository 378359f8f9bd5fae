// DaosPool: a connection to a pool of DAOS, for the file systems in its containers. It has one
// event queue, for reads and writes of all of them.
//
// DAOS has no descriptor that signals the end of a request: the queue must be polled. While
// requests are in flight the reactor polls it in each of its turns, and wakes from its sleep for it
// every poll_interval. All other functions of libdfs block, and run on the helper threads.
//
// Ownership: the file systems are closed first, then the pool. The reactor and the blocking pool
// outlive it. Thread rule: used on the reactor's core.
#pragma once
#include <memory>
#include <string>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/turns.h"

namespace ros2s::daos {

struct PoolOptions {
    std::string pool;                    // label or UUID
    std::string system = "daos_server";  // the name of the DAOS system
    // A library name that the loader finds, or a path.
    std::string library = "libdfs.so";
    // As foreign::LocalDirectoryOptions::turns.
    ThreadTurns* turns = nullptr;
};

class DaosPool {
  public:
    // Errors, each with a sentence: unsupported (no libraries, or other ones than those of 2.6),
    // not_found (the label), denied, disconnected (no agent, no server), io.
    [[nodiscard]] static Task<Result<std::unique_ptr<DaosPool>>> connect(Reactor& reactor,
                                                                         BlockingPool& blocking,
                                                                         PoolOptions options,
                                                                         Report& report);
    virtual ~DaosPool() = default;
    // The file system in a POSIX container. Errors, each with a sentence: not_found, denied,
    // invalid (no POSIX container), cancelled, deadline, and those of connect(). The call's tenant
    // is the one of opening and of close_all().
    virtual Task<Result<std::unique_ptr<fs::FileSystem>>> open(Call call, std::string container,
                                                               Report& report) = 0;
    // Labels of its containers; one without a label is omitted.
    virtual Task<Result<std::vector<std::string>>> containers(Call call) = 0;
    // Must be called after all file systems were closed.
    virtual Task<> close() = 0;
};

}  // namespace ros2s::daos
