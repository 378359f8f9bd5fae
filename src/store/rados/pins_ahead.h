// PinsAhead: the pins of transactions that are being published. A transaction takes its pins first,
// because others may take the remaining room meanwhile, and because its objects must be pinned
// before it is visible. The destructor removes the new pins, unless keep() was called. The table
// outlives this object.
#pragma once
#include <tuple>
#include <vector>

#include "ros2s/object/pins.h"

namespace ros2s::rados {

class PinsAhead {
  public:
    explicit PinsAhead(object::PinTable& table) : table_(table) {}
    PinsAhead(const PinsAhead&) = delete;
    PinsAhead& operator=(const PinsAhead&) = delete;
    ~PinsAhead() {
        for (const auto& [container, object, holder] : taken_) {
            table_.remove(container, object, holder);
        }
    }

    // Adds the pins that the transaction's conditions name. Errors: those of PinTable::judge() and
    // add().
    [[nodiscard]] Result<> take(object::ContainerId container,
                                const object::Transaction& transaction, Time now) {
        ROS2S_TRY(table_.judge(container, transaction, now));
        for (const object::Condition& condition : transaction.conditions) {
            if (condition.kind != object::Condition::Kind::pin) continue;
            const object::Holder& holder = transaction.holder;
            const bool had = table_.has(container, condition.object, holder);
            ROS2S_TRY(table_.add(container, condition.object, holder));
            if (!had) taken_.emplace_back(container, condition.object, holder);
        }
        return {};
    }
    // The transactions are done.
    void keep() { taken_.clear(); }

  private:
    object::PinTable& table_;
    std::vector<std::tuple<object::ContainerId, object::ObjectId, object::Holder>> taken_;
};

}  // namespace ros2s::rados
