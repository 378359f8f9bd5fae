// The superblock of a container's file system as it was found, and the change that replaces it
// unless somebody else has.
#pragma once
#include "records.h"
#include "ros2s/object/object_store.h"

namespace ros2s::fs {

struct FoundSuperblock {
    Superblock record;
    object::Epoch epoch{};

    [[nodiscard]] object::Condition unchanged() const {
        return {.kind = object::Condition::Kind::epoch_equals,
                .object = object_of(root_node),
                .dkey = record_dkey(),
                .akey = superblock_akey(),
                .value = epoch.value};
    }
    // `record` must exist until the change is made.
    [[nodiscard]] object::Operation put() const {
        return {.kind = object::Operation::Kind::put,
                .object = object_of(root_node),
                .dkey = record_dkey(),
                .akey = superblock_akey(),
                .window = object::Window::local(object_bytes(record))};
    }
};

// Errors: those of fetch; corrupt, bad_version.
inline Task<Result<FoundSuperblock>> find_superblock(const Call& call, object::ObjectStore& store,
                                                     object::ContainerId container) {
    FoundSuperblock found;
    FetchItem item =
        record_item(object_of(root_node), record_dkey(), superblock_akey(), found.record);
    ROS2S_CO_TRY(co_await store.fetch(call, container, {&item, 1}));
    ROS2S_CO_TRY(record_of(item, found.record));
    found.epoch = item.epoch;
    co_return found;
}

[[nodiscard]] inline object::Transaction replace_superblock(const FoundSuperblock& found) {
    object::Transaction transaction;
    transaction.conditions.push_back(found.unchanged());
    transaction.operations.push_back(found.put());
    return transaction;
}

}  // namespace ros2s::fs
