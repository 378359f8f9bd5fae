// Snapshot: everything that a container holds, as its interface tells it: listed, fetched, queried.
// Two stores that went through the same transactions give equal snapshots, but for their epochs.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ros2s/object/contract/batch.h"
#include "ros2s/object/object_store.h"

namespace ros2s::sim {

using object::contract::Place;
// An object and the name of an akey: what a query is about.
using Column = std::pair<object::ObjectId, std::string>;

struct SnapshotEntry {
    bool is_value = false;
    object::Epoch epoch{};
    std::string bytes;
};

struct Snapshot {
    std::map<Place, SnapshotEntry> entries;
    std::map<Column, object::QueryReply> queries;
    // What contradicts itself: a listed key that cannot be fetched, a checksum that is not that of
    // the bytes.
    std::vector<std::string> problems;
};

// Queries the columns of what it finds, and `columns` besides. Nothing may be written meanwhile.
[[nodiscard]] Task<Snapshot> take_snapshot(object::ObjectStore& store,
                                           object::ContainerId container,
                                           std::vector<Column> columns);

[[nodiscard]] std::string to_string(const Place& place);

}  // namespace ros2s::sim
