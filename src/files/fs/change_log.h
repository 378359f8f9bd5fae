// ChangeLog: the changes that a mount deferred and its store acknowledged, until they are durable.
// The mount repeats them if a loss of power takes them back.
//
//     acknowledged: add ──┬─► durable: remove_upto
//                         └─► lost: each is repeated, in the order of the epochs ─► as before
//
// Part of a DeferredStore, which owns it. The memory of all logs of a process is a quota, which
// outlives them. Used on the mount's core.
#pragma once
#include <map>
#include <string>

#include "ros2s/base/quota.h"
#include "ros2s/object/object_store.h"

namespace ros2s::fs {

// Bytes. Each mount is a subject.
using ChangeLogMemory = Quota;

// Of its writes and puts.
[[nodiscard]] uint64_t payload_bytes(const object::Transaction& transaction);

class ChangeLog {
  public:
    static constexpr uint64_t bytes_max = 64 << 20;
    static constexpr size_t changes_max = 8192;
    // The payload of one change. A larger one is made durable at once: it takes long anyway.
    static constexpr uint64_t payload_max = 256 << 10;

    // `memory`: null: its own.
    ChangeLog(ChangeLogMemory* memory, uint64_t tenant, const Uuid& client);

    struct Change {
        object::Transaction transaction;  // its windows are of `payload`
        std::string payload;
        object::Epoch epoch{};     // as it was acknowledged last,
        uint64_t incarnation = 0;  // by this one of the store
    };
    using Changes = std::map<object::Epoch, Change>;  // by their first epochs

    [[nodiscard]] bool has_room(const object::Transaction& transaction) const;
    void add(const object::Transaction& transaction, object::Epoch epoch, uint64_t incarnation);
    // Those whose epochs are not greater are durable.
    void remove_upto(object::Epoch epoch);
    // The change, and those after it, cannot be repeated.
    void remove_from(Changes::iterator first);
    [[nodiscard]] Changes& changes() { return changes_; }
    [[nodiscard]] bool has(object::Epoch epoch) const { return changes_.contains(epoch); }
    void repeated(Changes::iterator change, object::Epoch epoch, uint64_t incarnation);
    // The transaction's conditions may name epochs that changes had before they were repeated.
    [[nodiscard]] bool may_name_old_epochs() const { return repeated_ > 0 || !old_epochs_.empty(); }
    // So may inodes. `inodes`: memory for the records that are sent instead; it must not move.
    void replace_old_epochs(object::Transaction& transaction, std::string& inodes) const;
    // A copy to be sent, with current epochs. It must not move.
    void copy_to_repeat(const Change& change, Change& copy) const;

  private:
    [[nodiscard]] uint64_t current(uint64_t epoch) const;
    void replace_old_epochs(std::span<object::Condition> conditions) const;
    void replace_old_epochs(object::Operation& inode) const;
    void forget(const Changes::value_type& change);

    ChangeLogMemory own_{{.per_subject = bytes_max}};
    ChangeLogMemory::Share share_;
    Changes changes_;
    size_t repeated_ = 0;                           // of these, which have another epoch now
    std::map<uint64_t, object::Epoch> old_epochs_;  // of those that are durable
};

}  // namespace ros2s::fs
