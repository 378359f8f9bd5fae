#include "ros2s/fabric/packet/peer_regions.h"

#include <cstring>

namespace ros2s::fabric {

bool PeerRegions::add(const RemoteKey& key, Time expires) {
    uint64_t native = 0;
    if (!check_claim(key, domain_, session_) || key.native_bytes != sizeof native ||
        regions_.size() >= regions_max_) {
        return false;
    }
    std::memcpy(&native, key.native.data(), sizeof native);
    const Entry entry{.region = {.address = key.address,
                                 .length = key.length,
                                 .lease = key.lease,
                                 .expires = expires,
                                 .generation = key.generation,
                                 .rights = key.rights,
                                 .live = true},
                      .key = native};
    return regions_.emplace(id_of(key.slot, key.generation), entry).second;
}

std::expected<PeerRegions::Use, Refusal> PeerRegions::begin(const RemoteKey& key, uint64_t offset,
                                                            uint64_t count, Rights right,
                                                            Time now) {
    if (auto claim = check_claim(key, domain_, session_); !claim) {
        return std::unexpected(claim.error());
    }
    const auto found = regions_.find(id_of(key.slot, key.generation));
    if (found == regions_.end() || found->second.revoked) return std::unexpected(Refusal::stale);
    Entry& entry = found->second;
    if (auto allowed = check_entry(entry.region, key, offset, count, right, now); !allowed) {
        return std::unexpected(allowed.error());
    }
    ++entry.uses;
    Use use;
    use.id_ = found->first;
    use.at_ = {.address = entry.region.address + offset, .key = entry.key};
    use.revoked_ = &entry.revoked;
    return use;
}

bool PeerRegions::end(const Use& use) noexcept {
    const auto found = regions_.find(use.id_);
    if (--found->second.uses > 0 || !found->second.revoked) return false;
    regions_.erase(found);
    return true;
}

bool PeerRegions::revoke(uint32_t slot, uint32_t generation) noexcept {
    const auto found = regions_.find(id_of(slot, generation));
    if (found == regions_.end()) return false;
    found->second.revoked = true;
    if (found->second.uses > 0) return false;
    regions_.erase(found);
    return true;
}

}  // namespace ros2s::fabric
