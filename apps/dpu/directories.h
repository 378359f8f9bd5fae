// Directories: directories of this machine that hosts use as containers: Lustre, NFS, a disk. Their
// guarantees are the ones of the file system below (docs/decisions/0532).
//
// Owned by the catalogue; used on the reactor's core.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/log.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/turns.h"

namespace ros2s::dpud {

// The settings: the path by "POOL/CONTAINER", as in URIs.
using DirectorySettings = std::map<std::string, std::string>;

// Errors: invalid, with a sentence that begins with `where`: an invalid name, a pool that `pools`
// has too, a path that is not absolute.
[[nodiscard]] Result<> check(const DirectorySettings& directories,
                             const std::vector<std::string>& pools, std::string_view where,
                             Report& report);

// For calls of file systems that block, of all tenants.
struct FileThreads {
    BlockingPool& pool;
    ThreadTurns& turns;
};

class Directories {
  public:
    Directories(Reactor& reactor, FileThreads threads) : reactor_(reactor), threads_(threads) {}

    // Adds a directory of checked settings. Errors, with a sentence: not_found, not_directory,
    // denied.
    Task<Result<>> add(std::string name, std::string path, const Log& log, Report& report);

    [[nodiscard]] std::vector<std::string> pools() const;
    // Empty: no such pool.
    [[nodiscard]] std::vector<std::string> containers(std::string_view pool) const;
    // Errors, with a sentence: not_found, and those of add().
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(Call call, std::string pool,
                                                       std::string container, Report& report);
    // For people; empty: no such container.
    [[nodiscard]] std::string storage(const std::string& pool, const std::string& container) const;

  private:
    struct Directory {
        std::string path;
        std::string kind;  // of file system: "ext4"
    };
    Reactor& reactor_;
    const FileThreads threads_;
    std::map<std::pair<std::string, std::string>, Directory> directories_;
};

}  // namespace ros2s::dpud
