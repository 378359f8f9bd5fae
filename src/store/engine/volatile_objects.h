// VolatileObjects: which objects have changes that are visible and not durable yet, and who made
// them. A client sees its own. Before another one learns of them, they are made durable: it must
// not depend on what a loss of power can still take back.
//
// Part of the committer, which owns it. Used on core 0; any() on every core.
//
// Invariants
// - An object is noted before the group that changes it is visible, until that group is durable.
// - At most objects_max. A transaction that finds no room is not deferred.
#pragma once
#include <deque>
#include <map>
#include <unordered_map>

#include "hash.h"
#include "ros2s/base/metrics.h"
#include "ros2s/object/object_store.h"
#include "ros2s/runtime/time.h"

namespace ros2s::engine {

class VolatileObjects {
  public:
    static constexpr size_t objects_max = 65536;
    static constexpr size_t object_bytes_each = 96;  // approximate memory of one

    explicit VolatileObjects(uint64_t hash_key) : objects_(0, Hash{hash_key}) {}

    // The transaction joins this group. False: there is no room.
    [[nodiscard]] bool note(object::ContainerId container, const object::Transaction& transaction,
                            uint64_t group, Time now);
    // All groups up to this one are durable.
    void durable_upto(uint64_t group);

    [[nodiscard]] size_t memory_bytes() const { return objects_.size() * object_bytes_each; }
    [[nodiscard]] bool any() const { return count_.value() > 0; }
    // The transactions of a client; nil: of all.
    struct Amount {
        uint64_t changes = 0, bytes = 0;  // of payload
        Time since{};                     // of the first
    };
    [[nodiscard]] Amount of_client(const Uuid& client) const;
    // The last group in which a client other than this one has changed the object; 0: none. The nil
    // object stands for all of the container. A nil client is other than every one.
    [[nodiscard]] uint64_t changed_by_others(object::ContainerId container, object::ObjectId object,
                                             const Uuid& client) const;

  private:
    struct Key {
        object::ContainerId container;
        object::ObjectId object;
        friend bool operator==(const Key&, const Key&) = default;
    };
    struct Hash {
        uint64_t secret;
        size_t operator()(const Key& key) const {
            return hash_text(as_text(object_bytes(key)), secret);
        }
    };
    struct Change {
        Uuid client;  // nil: several, or unknown
        uint64_t group = 0;
    };
    // Transactions up to this group.
    struct Part {
        uint64_t group = 0;
        Amount amount;
    };
    static constexpr size_t parts_max = 64;
    void count(const object::Transaction& transaction, uint64_t group, Time now);

    std::unordered_map<Key, Change, Hash> objects_;
    std::map<Uuid, std::deque<Part>> clients_;  // with objects, so not more than these
    uint64_t durable_ = 0;
    Counter count_;  // of the objects, for other cores
};

}  // namespace ros2s::engine
