#include "ros2s/fabric/region_table.h"

#include <limits>

namespace ros2s::fabric {

std::expected<void, Refusal> check_claim(const RemoteKey& key, uint64_t domain,
                                         uint64_t session) noexcept {
    if (!key.check()) return std::unexpected(Refusal::malformed);
    if (key.domain != domain) return std::unexpected(Refusal::domain);
    if (key.session != session) return std::unexpected(Refusal::session);
    return {};
}

std::expected<void, Refusal> check_entry(const RegionEntry& entry, const RemoteKey& key,
                                         uint64_t offset, uint64_t count, Rights right,
                                         Time now) noexcept {
    if (!entry.live || entry.generation != key.generation || entry.lease != key.lease) {
        return std::unexpected(Refusal::stale);
    }
    if (now >= entry.expires) return std::unexpected(Refusal::expired);
    if (!allows(entry.rights, right)) return std::unexpected(Refusal::right);
    if (offset > entry.length || count > entry.length - offset) {
        return std::unexpected(Refusal::range);
    }
    return {};
}

Result<RemoteKey> RegionTable::grant(Bytes memory, Rights rights, uint64_t lease, Time expires) {
    if (free_.empty() && slots_.size() >= slots_max_) return fail(Code::no_memory, slots_max_);
    if (free_.empty()) {
        free_.push_back(static_cast<uint32_t>(slots_.size()));
        slots_.emplace_back();
    }
    const uint32_t slot = free_.back();
    free_.pop_back();
    RegionEntry& entry = slots_[slot];
    entry.address = reinterpret_cast<uint64_t>(memory.data());
    entry.length = memory.size();
    entry.lease = lease;
    entry.expires = expires;
    entry.rights = rights;
    entry.live = true;
    ++entry.generation;
    ++live_;
    RemoteKey key{.rights = rights,
                  .domain = domain_,
                  .session = session_,
                  .lease = lease,
                  .slot = slot,
                  .generation = entry.generation,
                  .length = memory.size()};
    key.seal();
    return key;
}

void RegionTable::revoke(uint32_t slot, uint32_t generation) noexcept {
    RegionEntry& entry = slots_[slot];
    if (!entry.live || entry.generation != generation) return;  // revoke_all() came first
    entry.live = false;
    --live_;
    if (entry.generation != std::numeric_limits<uint32_t>::max()) free_.push_back(slot);
}

void RegionTable::revoke_all() noexcept {
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) revoke(slot, slots_[slot].generation);
}

std::expected<std::byte*, Refusal> RegionTable::check(const RemoteKey& key, uint64_t offset,
                                                      uint64_t count, Rights right,
                                                      Time now) const noexcept {
    if (auto claim = check_claim(key, domain_, session_); !claim) {
        return std::unexpected(claim.error());
    }
    if (key.slot >= slots_.size()) return std::unexpected(Refusal::stale);
    const RegionEntry& entry = slots_[key.slot];
    if (auto allowed = check_entry(entry, key, offset, count, right, now); !allowed) {
        return std::unexpected(allowed.error());
    }
    return reinterpret_cast<std::byte*>(entry.address) + offset;
}

}  // namespace ros2s::fabric
