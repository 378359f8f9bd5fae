// HomeDevices: the device for the blocks of a transaction, while it has room. If a pool has
// persistent memory and other devices, small transactions go to the memory: their group then waits
// for no device's flush. All others go to the other devices, each segment to one of them.
//
// Written blocks stay where they are; nothing on the media depends on this. Immutable: a pool that
// grows gets another HomeDevices, and a transaction keeps the one with which its space was
// reserved.
//
// Used on core 0. Does not suspend.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "hash.h"
#include "ros2s/object/vocabulary.h"

namespace ros2s::engine {

class HomeDevices {
  public:
    // A transaction with at most this much payload is small.
    static constexpr uint64_t small_bytes_max = 64 * 1024;

    // A copy with one more device, which has the next number.
    [[nodiscard]] std::shared_ptr<const HomeDevices> with_device(bool is_memory) const {
        auto grown = std::make_shared<HomeDevices>(*this);
        (is_memory ? grown->memory_ : grown->others_).push_back(grown->devices_++);
        return grown;
    }
    [[nodiscard]] uint32_t devices() const { return devices_; }
    // The device of a segment under a dkey, in a transaction with this much payload. Depends on the
    // object: small files have only a first chunk, with the same dkey.
    [[nodiscard]] uint32_t home(uint64_t payload_bytes, const object::ObjectId& object,
                                std::string_view dkey, uint64_t segment) const {
        const bool is_small = payload_bytes <= small_bytes_max;
        const auto& chosen = others_.empty() || (is_small && !memory_.empty()) ? memory_ : others_;
        if (chosen.size() == 1) return chosen.front();
        // Without a secret: this is for an even use of the devices.
        const uint64_t seed = hash_mix(object.high ^ 0x9fb21c651e98df25, ~object.low);
        return chosen[(hash_text(dkey, seed) + segment) % chosen.size()];
    }

  private:
    uint32_t devices_ = 0;
    std::vector<uint32_t> memory_, others_;
};

}  // namespace ros2s::engine
