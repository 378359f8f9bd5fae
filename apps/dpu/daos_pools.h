// DaosPools: pools of DAOS that hosts use as pools (docs/daos.md). Their guarantees are the
// ones of DAOS.
//
// Owned by the catalogue; used on the reactor's core. close() before destruction, after all file
// systems were closed.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "directories.h"
#include "ros2s/base/log.h"
#include "ros2s/config/config.h"
#include "ros2s/daos/daos_pool.h"

namespace ros2s::dpud {

// The settings, by the name that hosts use: `pool`, `system`.
using DaosSettings = std::map<std::string, config::Entries>;

// Errors: invalid, with a sentence that begins with `where`: an invalid or duplicate name, or no
// label.
[[nodiscard]] Result<> check(const DaosSettings& daos, const std::vector<std::string>& pools,
                             const DirectorySettings& directories, std::string_view where,
                             Report& report);

class DaosPools {
  public:
    DaosPools(Reactor& reactor, FileThreads threads) : reactor_(reactor), threads_(threads) {}

    // Connects to a pool of checked settings. Errors, with a sentence: those of
    // DaosPool::connect().
    Task<Result<>> add(std::string name, config::Entries settings, const Log& log, Report& report);
    Task<> close();

    [[nodiscard]] std::vector<std::string> pools() const;
    [[nodiscard]] bool has(std::string_view pool) const { return pools_.contains(pool); }
    // The containers of a known pool (has()), as DAOS lists them now. Errors: those of
    // DaosPool::containers().
    Task<Result<std::vector<std::string>>> labels(Call call, std::string pool);
    // Errors, with a sentence: not_found, and those of DaosPool::open().
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(Call call, std::string pool,
                                                       std::string container, Report& report);
    // For people; empty: no such pool.
    [[nodiscard]] std::string storage(const std::string& pool, const std::string& container) const;

  private:
    Reactor& reactor_;
    const FileThreads threads_;
    std::map<std::string, std::unique_ptr<daos::DaosPool>, std::less<>> pools_;
};

}  // namespace ros2s::dpud
