// The table behind daos_handle_t: pools, containers, objects, transactions, event queues. A cookie
// holds the kind, the slot and the slot's generation, so that a closed handle is refused and never
// finds a newer object.
//
// Thread rule: any thread. A found object stays alive as long as the caller holds its pointer.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "daos_types.h"

namespace ros2s::daos {

enum class Kind : uint8_t {
    queue = 1,
    pool = 3,
    container = 5,
    object = 7,
    array = 9,
    transaction = 11,
    kv = 13,
    object_table = 15
};

class Handles {
  public:
    // The table of the process.
    static Handles& table();

    template <class T>
    daos_handle_t add(std::shared_ptr<T> object) {
        return add(T::kind, std::move(object));
    }
    // Null if the handle does not belong to an open T.
    template <class T>
    [[nodiscard]] std::shared_ptr<T> find(daos_handle_t handle) {
        return std::static_pointer_cast<T>(find(T::kind, handle));
    }
    // Like find(). Afterwards the handle is no longer valid.
    template <class T>
    std::shared_ptr<T> remove(daos_handle_t handle) {
        return std::static_pointer_cast<T>(remove(T::kind, handle));
    }
    template <class T>
    [[nodiscard]] std::vector<std::shared_ptr<T>> all() {
        std::vector<std::shared_ptr<T>> objects;
        const std::lock_guard locked(lock_);
        for (auto& slot : slots_) {
            if (slot.object != nullptr && slot.kind == T::kind) {
                objects.push_back(std::static_pointer_cast<T>(slot.object));
            }
        }
        return objects;
    }

  private:
    struct Entry {
        std::shared_ptr<void> object;
        uint32_t generation = 1;
        Kind kind{};
    };
    daos_handle_t add(Kind kind, std::shared_ptr<void> object);
    std::shared_ptr<void> find(Kind kind, daos_handle_t handle);
    std::shared_ptr<void> remove(Kind kind, daos_handle_t handle);
    Entry* slot_of(Kind kind, daos_handle_t handle);

    std::mutex lock_;
    std::vector<Entry> slots_;
};

}  // namespace ros2s::daos
