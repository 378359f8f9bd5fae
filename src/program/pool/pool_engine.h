// open_engine() composes the engine on a pool's files:
//
//     EngineStore → FileDevice, NvmeDevice or PmemDevice, and the RocksDB index
//
// The caller ensures that no other process has the pool open. The devices have locks as well.
#pragma once
#include <memory>
#include <string>

#include "ros2s/engine/engine_store.h"
#include "ros2s/pool/owner.h"
#include "ros2s/pool/pool_directory.h"

namespace ros2s::pool {

// A pool directory that this process owns, and its contents.
struct TakenPool {
    std::unique_ptr<Ownership> ownership;
    PoolDirectory directory;
};
// `self` is this process; an empty program is its name. Errors: those of read_pool_directory() and
// of Ownership::take_patiently(), which fills `present`.
enum class PoolUse : uint8_t {
    usual,
    reading  // as on a read-only medium: others may read, too, and nothing is written
};
[[nodiscard]] Task<Result<TakenPool>> take_pool(Reactor& reactor, std::string directory,
                                                OwnerRecord self, OwnerRecord& present,
                                                Report& report, PoolUse use = PoolUse::usual);
// The same if another process has locked the file of the owner for this one.
[[nodiscard]] Result<TakenPool> adopt_pool(const std::string& directory, int owner_file,
                                           const OwnerRecord& self, Report& report);

// Makes an empty pool on device files that exist. Errors: those of EngineStore::create.
[[nodiscard]] Task<Result<>> format_engine(Environment environment, PoolDirectory directory,
                                           Report& report);

// Finishes or undoes an interrupted growth (pool_growth.h) and updates `directory`. A read-only
// pool is opened as the growth has left it. The pool's settings replace those of `options`. Errors:
// those of open_device() and EngineStore::open, and of removing files.
[[nodiscard]] Task<Result<std::unique_ptr<engine::EngineStore>>> open_engine(
    Environment environment, PoolDirectory& directory, Report& report,
    engine::EngineOptions options = {});

// Ends a growth: removes DIR/growing durably. Errors: those of the file system.
[[nodiscard]] Result<> end_growth(const PoolDirectory& directory, Report& report);

}  // namespace ros2s::pool
