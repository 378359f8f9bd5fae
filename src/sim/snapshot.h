// Snapshot: everything in a container, as its interface shows it: listed, fetched, queried. Two
// stores that got the same transactions give equal snapshots, except for their epochs.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ros2s/object/object_store.h"
#include "ros2s/object/test_support/batch.h"

namespace ros2s::sim {

using object::AkeyAddress;
// An object and the name of an akey: the subject of a query.
using Column = std::pair<object::ObjectId, std::string>;

struct SnapshotEntry {
    bool is_value = false;
    object::Epoch epoch{};
    std::string bytes;
};

struct Snapshot {
    std::map<AkeyAddress, SnapshotEntry> entries;
    std::map<Column, object::QueryReply> queries;
    // Contradictions: a listed key that cannot be fetched, a checksum that does not match the
    // bytes.
    std::vector<std::string> problems;
};

// Queries the columns that it finds, and also `columns`. Nothing may be written meanwhile.
[[nodiscard]] Task<Snapshot> take_snapshot(object::ObjectStore& store,
                                           object::ContainerId container,
                                           std::vector<Column> columns);

[[nodiscard]] std::string to_string(const AkeyAddress& place);

}  // namespace ros2s::sim
