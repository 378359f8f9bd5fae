#include "ros2s/fabric/grants.h"

#include <limits>

namespace ros2s::fabric {

std::expected<void, Refusal> check_claim(const RemoteKey& key, uint64_t domain,
                                         uint64_t session) noexcept {
    if (!key.check()) return std::unexpected(Refusal::malformed);
    if (key.domain != domain) return std::unexpected(Refusal::domain);
    if (key.session != session) return std::unexpected(Refusal::session);
    return {};
}

std::expected<void, Refusal> check_grant(const Grant& grant, const RemoteKey& key, uint64_t offset,
                                         uint64_t count, Rights right, Time now) noexcept {
    if (!grant.live || grant.generation != key.generation || grant.lease != key.lease) {
        return std::unexpected(Refusal::stale);
    }
    if (now >= grant.expires) return std::unexpected(Refusal::expired);
    if (!allows(grant.rights, right)) return std::unexpected(Refusal::right);
    if (offset > grant.length || count > grant.length - offset) {
        return std::unexpected(Refusal::range);
    }
    return {};
}

Result<RemoteKey> GrantTable::grant(Bytes memory, Rights rights, uint64_t lease, Time expires) {
    if (free_.empty() && slots_.size() >= slots_max_) return fail(Code::no_memory, slots_max_);
    if (free_.empty()) {
        free_.push_back(static_cast<uint32_t>(slots_.size()));
        slots_.emplace_back();
    }
    const uint32_t slot = free_.back();
    free_.pop_back();
    Grant& grant = slots_[slot];
    grant.address = reinterpret_cast<uint64_t>(memory.data());
    grant.length = memory.size();
    grant.lease = lease;
    grant.expires = expires;
    grant.rights = rights;
    grant.live = true;
    ++grant.generation;
    ++live_;
    RemoteKey key{.rights = rights,
                  .domain = domain_,
                  .session = session_,
                  .lease = lease,
                  .slot = slot,
                  .generation = grant.generation,
                  .length = memory.size()};
    key.seal();
    return key;
}

void GrantTable::revoke(uint32_t slot, uint32_t generation) noexcept {
    Grant& grant = slots_[slot];
    if (!grant.live || grant.generation != generation) return;  // revoke_all() came first
    grant.live = false;
    --live_;
    if (grant.generation != std::numeric_limits<uint32_t>::max()) free_.push_back(slot);
}

void GrantTable::revoke_all() noexcept {
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) revoke(slot, slots_[slot].generation);
}

std::expected<std::byte*, Refusal> GrantTable::check(const RemoteKey& key, uint64_t offset,
                                                     uint64_t count, Rights right,
                                                     Time now) const noexcept {
    if (auto claim = check_claim(key, domain_, session_); !claim) {
        return std::unexpected(claim.error());
    }
    if (key.slot >= slots_.size()) return std::unexpected(Refusal::stale);
    const Grant& grant = slots_[key.slot];
    if (auto allowed = check_grant(grant, key, offset, count, right, now); !allowed) {
        return std::unexpected(allowed.error());
    }
    return reinterpret_cast<std::byte*>(grant.address) + offset;
}

}  // namespace ros2s::fabric
