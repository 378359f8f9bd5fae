// PeerRegions: the initiating side's copy of the peer's regions, as the peer announced them. It is
// used if an adapter moves the bytes. It is checked before each transfer, so that the adapter gets
// no transfer that it would refuse. If the peer announced false ones, its adapter refuses, and
// its connection ends.
//
// Owned by an endpoint; used on its core.
#pragma once
#include <cstdint>
#include <expected>
#include <map>

#include "ros2s/fabric/packet/wire.h"
#include "ros2s/fabric/region_table.h"

namespace ros2s::fabric {

class PeerRegions {
  public:
    // A transfer within one region, from its check to its end.
    class Use {
      public:
        [[nodiscard]] Exposed at() const noexcept { return at_; }
        // Becomes true when the peer revokes the region.
        [[nodiscard]] const bool& revoked() const noexcept { return *revoked_; }

      private:
        friend class PeerRegions;
        uint64_t id_ = 0;
        Exposed at_;
        const bool* revoked_ = nullptr;
    };

    // `domain` and `session` are the peer's.
    PeerRegions(uint64_t domain, uint64_t session, size_t regions_max)
        : domain_(domain), session_(session), regions_max_(regions_max) {}

    // False: the key is invalid, or there are too many.
    [[nodiscard]] bool add(const RemoteKey& key, Time expires);
    // end() must be called for the returned use.
    [[nodiscard]] std::expected<Use, Refusal> begin(const RemoteKey& key, uint64_t offset,
                                                    uint64_t count, Rights right, Time now);
    // True: this was the last transfer of a revoked region. The region has ended.
    [[nodiscard]] bool end(const Use& use) noexcept;
    // No transfer of it begins any more. True: none was in progress, and the region has ended.
    [[nodiscard]] bool revoke(uint32_t slot, uint32_t generation) noexcept;
    [[nodiscard]] size_t size() const noexcept { return regions_.size(); }
    [[nodiscard]] static uint32_t slot_of(const Use& use) noexcept {
        return static_cast<uint32_t>(use.id_ >> 32);
    }
    [[nodiscard]] static uint32_t generation_of(const Use& use) noexcept {
        return static_cast<uint32_t>(use.id_);
    }

  private:
    struct Entry {
        RegionEntry region;
        uint64_t key = 0;
        size_t uses = 0;
        bool revoked = false;
    };
    [[nodiscard]] static uint64_t id_of(uint32_t slot, uint32_t generation) noexcept {
        return uint64_t{slot} << 32 | generation;
    }

    const uint64_t domain_;
    const uint64_t session_;
    const size_t regions_max_;
    // In order: the peer chooses slots and generations, and could choose those of one hash.
    std::map<uint64_t, Entry> regions_;
};

}  // namespace ros2s::fabric
