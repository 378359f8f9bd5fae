// StoreStack: from a pool's files to the ObjectStore that file systems stand on:
//
//     ClientStore (verifies, counts) → EngineStore → FileDevice (io_uring) and the RocksDB index
//
// Used on the environment's core; close() before destruction. Who may open it, and that nobody
// else has, is the business of who composes (EmbeddedPool, create_pool).
#pragma once
#include <memory>
#include <string>

#include "ros2s/api/environment.h"
#include "ros2s/api/pool_directory.h"
#include "ros2s/base/metrics.h"
#include "ros2s/object/object_store.h"

namespace ros2s::api {

class StoreStack {
  public:
    // Makes an empty pool on device files that exist. Errors: those of EngineStore::create.
    [[nodiscard]] static Task<Result<>> format(Environment environment, PoolDirectory directory,
                                               Report& report);
    // Errors: those of FileDevice::open and EngineStore::open.
    [[nodiscard]] static Task<Result<std::unique_ptr<StoreStack>>> open(Environment environment,
                                                                        PoolDirectory directory,
                                                                        Report& report);
    ~StoreStack();
    // Errors: what could not be written out; it is closed anyway, and recovery does the rest.
    Task<Result<>> close();

    [[nodiscard]] object::ObjectStore& store() { return *store_; }
    [[nodiscard]] std::string path() const { return store_->path(); }
    void visit_metrics(const MetricVisitor& visit) const;

  private:
    StoreStack() = default;
    std::unique_ptr<object::ObjectStore> store_;
};

}  // namespace ros2s::api
