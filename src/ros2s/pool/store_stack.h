// StoreStack: from a pool's files to the ObjectStore that file systems stand on:
//
//     ClientStore (counts) → EngineStore → FileDevice or NvmeDevice, and the RocksDB index
//
// Used on the environment's core; close() before destruction. That nobody else has the pool open
// is the business of who composes (EmbeddedPool, create_pool); the devices' locks stand behind it.
#pragma once
#include <memory>
#include <string>

#include "ros2s/base/metrics.h"
#include "ros2s/client/client_store.h"
#include "ros2s/engine/engine_store.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/runtime/environment.h"

namespace ros2s::pool {

// EngineOptions' of that name.
struct StackOptions {
    std::string_view engine_name = "embedded engine";
    Duration pin_grace{};
    bool begins_with_grace = false;
};

class StoreStack {
  public:
    // Makes an empty pool on device files that exist. Errors: those of EngineStore::create.
    [[nodiscard]] static Task<Result<>> format(Environment environment, PoolDirectory directory,
                                               Report& report);
    // Errors: those of open_device() and EngineStore::open.
    [[nodiscard]] static Task<Result<std::unique_ptr<StoreStack>>> open(
        Environment environment, PoolDirectory directory, Report& report,
        StackOptions stack_options = {});
    ~StoreStack();
    // Errors: what could not be written out; it is closed anyway, and recovery does the rest.
    Task<Result<>> close();

    [[nodiscard]] object::ObjectStore& store() { return *client_; }
    [[nodiscard]] engine::EngineStore& engine() { return *engine_; }
    void visit_metrics(const MetricVisitor& visit) const;

  private:
    StoreStack() = default;
    std::unique_ptr<engine::EngineStore> engine_;
    std::unique_ptr<client::ClientStore> client_;
};

}  // namespace ros2s::pool
