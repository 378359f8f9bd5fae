// The state of a MemoryStore and the effects of transactions on it, without tasks or time.
#pragma once
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "memory_array.h"
#include "ros2s/object/locks.h"
#include "ros2s/object/object_store.h"
#include "ros2s/object/pins.h"

namespace ros2s::object {

class MemoryState {
  public:
    explicit MemoryState(uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

    [[nodiscard]] bool has(ContainerId container) const { return containers_.contains(container); }
    [[nodiscard]] Result<ContainerRecord> create(ContainerId id,
                                                 const ContainerProperties& properties,
                                                 WallTime now);
    [[nodiscard]] Result<> destroy(ContainerId id);
    [[nodiscard]] std::vector<ContainerRecord> containers() const;
    [[nodiscard]] PoolSpace space() const;

    // The container must exist, in all of these.
    void fetch(ContainerId container, FetchItem& item) const;
    [[nodiscard]] Result<Commit> update(ContainerId container, const Transaction& transaction,
                                        Time now, WallTime wall_now);
    [[nodiscard]] ListReply list(ContainerId container, const ListRequest& request) const;
    [[nodiscard]] QueryReply query(ContainerId container, ObjectId object, const Akey& akey) const;
    [[nodiscard]] PinTable& pins() { return pins_; }
    [[nodiscard]] LockTable& locks() { return locks_; }

  private:
    // One akey name of an object, over all its dkeys. It outlives its entries, because query
    // reports when the last one was punched.
    struct Column {
        std::map<Dkey, MemoryEntry> entries;
        uint64_t blocks = 0;  // of all entries
        Epoch last_epoch{};
        WallTime last_time{};
    };
    using Object = std::map<Akey, Column>;
    struct Container {
        ContainerRecord record;
        std::map<ObjectId, Object> objects;
    };
    using SlotKey =
        std::tuple<Uuid, ContainerId, Uuid, uint32_t>;  // owner, container, client, slot
    struct Reply {
        uint64_t sequence = 0;
        uint64_t digest = 0;
        Commit commit;
    };
    // A transaction being applied: the steps to undo its effects, latest first.
    struct Change {
        Container& container;
        Commit commit;
        std::vector<std::move_only_function<void()>> undo;
    };

    [[nodiscard]] static const Column* find(const Container& container, ObjectId object,
                                            const Akey& akey);
    [[nodiscard]] static const MemoryEntry* find(const Container& container, ObjectId object,
                                                 const Dkey& dkey, const Akey& akey);
    [[nodiscard]] static bool holds(const Container& container, const Condition& condition);
    [[nodiscard]] static ListReply list_objects(const Container& container,
                                                const ListRequest& request);
    [[nodiscard]] static ListReply list_dkeys(const Object& object, const ListRequest& request);
    [[nodiscard]] static ListReply list_akeys(const Object& object, const ListRequest& request);

    [[nodiscard]] Result<> apply(Change& change, const Operation& operation);
    [[nodiscard]] Result<> modify(Change& change, const Operation& operation);
    void punch_range(Change& change, const Operation& operation);
    void punch_object(Change& change, ObjectId object);
    // The only way an entry changes. An absent `now` removes it.
    void replace(Change& change, ObjectId object, const Dkey& dkey, const Akey& akey,
                 std::optional<MemoryEntry> now);
    void set(Column& column, const Dkey& dkey, std::optional<MemoryEntry> now);

    uint64_t capacity_bytes_;
    uint64_t blocks_used_ = 0;
    Epoch last_epoch_{};
    std::map<ContainerId, Container> containers_;
    std::map<SlotKey, Reply> replies_;
    PinTable pins_;
    LockTable locks_{pins_};
};

}  // namespace ros2s::object
