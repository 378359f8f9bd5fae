#include "ros2s/fabric/packet/peer_grants.h"

#include <cstring>

namespace ros2s::fabric {

bool PeerGrants::add(const RemoteKey& key, Time expires) {
    uint64_t native = 0;
    if (!check_claim(key, domain_, session_) || key.native_bytes != sizeof native ||
        grants_.size() >= grants_max_) {
        return false;
    }
    std::memcpy(&native, key.native.data(), sizeof native);
    const Entry entry{.grant = {.address = key.address,
                                .length = key.length,
                                .lease = key.lease,
                                .expires = expires,
                                .generation = key.generation,
                                .rights = key.rights,
                                .live = true},
                      .key = native};
    return grants_.emplace(id_of(key.slot, key.generation), entry).second;
}

std::expected<PeerGrants::Use, Refusal> PeerGrants::begin(const RemoteKey& key, uint64_t offset,
                                                          uint64_t count, Rights right, Time now) {
    if (auto claim = check_claim(key, domain_, session_); !claim) {
        return std::unexpected(claim.error());
    }
    const auto found = grants_.find(id_of(key.slot, key.generation));
    if (found == grants_.end() || found->second.revoked) return std::unexpected(Refusal::stale);
    Entry& entry = found->second;
    if (auto allowed = check_grant(entry.grant, key, offset, count, right, now); !allowed) {
        return std::unexpected(allowed.error());
    }
    ++entry.uses;
    Use use;
    use.id_ = found->first;
    use.at_ = {.address = entry.grant.address + offset, .key = entry.key};
    use.revoked_ = &entry.revoked;
    return use;
}

bool PeerGrants::end(const Use& use) noexcept {
    const auto found = grants_.find(use.id_);
    if (--found->second.uses > 0 || !found->second.revoked) return false;
    grants_.erase(found);
    return true;
}

bool PeerGrants::revoke(uint32_t slot, uint32_t generation) noexcept {
    const auto found = grants_.find(id_of(slot, generation));
    if (found == grants_.end()) return false;
    found->second.revoked = true;
    if (found->second.uses > 0) return false;
    grants_.erase(found);
    return true;
}

}  // namespace ros2s::fabric
