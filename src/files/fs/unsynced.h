// Unsynced: how many changes a mount has acknowledged that may not be durable yet, and since when.
// A mount answers the extended attribute of its root with it.
//
// Used on the mount's core.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ros2s/runtime/time.h"

namespace ros2s::fs {

class Unsynced {
  public:
    struct Amount {
        uint64_t changes = 0, bytes = 0;  // of payload
    };
    void add(uint64_t bytes, Time now) {
        if (amount().changes == 0) since_ = now;
        ++all_.changes;
        all_.bytes += bytes;
    }
    // Everything that was ever added.
    [[nodiscard]] Amount all() const { return all_; }
    // So much of it, which was all at this time, is durable.
    void durable_upto(Amount all, Time then) {
        if (all.changes <= durable_.changes) return;
        durable_ = all;
        since_ = then;
    }
    [[nodiscard]] Amount amount() const {
        return {all_.changes - durable_.changes, all_.bytes - durable_.bytes};
    }
    // The oldest of these may be so old.
    [[nodiscard]] Duration age(Time now) const {
        return amount().changes == 0 ? Duration{} : now - since_;
    }

  private:
    Amount all_, durable_;
    Time since_{};
};

// The answer: "12 49152 320 917505", of changes, bytes, ms, and which start of its store the mount
// knows: another one may have lost what was not durable. A mount with a pool of its own has no
// fourth number.
inline constexpr std::string_view unsynced_attribute = "user.ros2store.unsynced";
struct UnsyncedAnswer {
    Unsynced::Amount amount;
    uint64_t milliseconds = 0;
    uint64_t store_start = 0;  // 0: none
};
[[nodiscard]] std::string to_text(const Unsynced& unsynced, Time now, uint64_t store_start);
// Empty: it is no answer.
[[nodiscard]] std::optional<UnsyncedAnswer> parse_unsynced(std::string_view text);

}  // namespace ros2s::fs
