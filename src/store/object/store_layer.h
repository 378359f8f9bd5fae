// StoreLayers: adds a layer to the store of a container that needs one, for example decryption. The
// program chooses it; the file system does not depend on what the layer does.
//
// Owned by the composing code; outlives the file systems that use it.
#pragma once
#include <memory>
#include <string>

#include "ros2s/object/object_store.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::object {

struct StoreLayer {
    // For one container, over the store below, which outlives it. Null: the container needs none.
    std::shared_ptr<ObjectStore> store;
    // The limits of one transaction.
    size_t operations_max = transaction_operations_max;
    uint64_t transaction_bytes_max = object::transaction_bytes_max;
};

class StoreLayers {
  public:
    virtual ~StoreLayers() = default;
    // `shown` names the container for people. Errors, each with a sentence: the layer's own, and
    // those of fetch.
    virtual Task<Result<StoreLayer>> find(const Call& call, Reactor& reactor, ObjectStore& store,
                                          const ContainerRecord& record, std::string shown,
                                          Report& report) = 0;
};

}  // namespace ros2s::object
