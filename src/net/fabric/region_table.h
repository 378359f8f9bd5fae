// RegionTable: the ranges that one side of a connection lets the other access. It decides about
// every put and get. Where the grantor's own code copies (sim, ucx over tcp), the table is checked
// for each chunk, so that a revocation takes effect in the middle of a transfer.
//
// Owned by an endpoint; used on its core.
//
// Invariants
// - A slot's generation rises with each revocation and is never used again. A slot without
//   generations left is retired.
// - check() is overflow-safe. It compares the key's fields with the table and trusts none of them.
#pragma once
#include <cstdint>
#include <expected>
#include <vector>

#include "ros2s/fabric/counters.h"
#include "ros2s/fabric/key.h"
#include "ros2s/runtime/time.h"

namespace ros2s::fabric {

// One entry: what was granted. It has plain numbers only, so that a provider may keep it elsewhere.
struct RegionEntry {
    uint64_t address = 0;  // in the provider's terms; here of the first byte in memory
    uint64_t length = 0;
    uint64_t lease = 0;
    Time expires = Time::max();
    uint32_t generation = 0;
    Rights rights = Rights::read;
    bool live = false;
};

// The one rule, for every provider: may `count` bytes at `offset` be accessed with `right`?
// check_claim() checks the key's own integrity, domain and session first.
[[nodiscard]] std::expected<void, Refusal> check_entry(const RegionEntry& entry,
                                                       const RemoteKey& key, uint64_t offset,
                                                       uint64_t count, Rights right,
                                                       Time now) noexcept;
[[nodiscard]] std::expected<void, Refusal> check_claim(const RemoteKey& key, uint64_t domain,
                                                       uint64_t session) noexcept;

class RegionTable {
  public:
    RegionTable(uint64_t domain, uint64_t session, uint32_t slots_max)
        : domain_(domain), session_(session), slots_max_(slots_max) {}

    // Errors: no_memory (slots_max are in use; detail = slots_max).
    [[nodiscard]] Result<RemoteKey> grant(Bytes memory, Rights rights, uint64_t lease,
                                          Time expires);
    // From now on no new access to the region begins. The key must be one of grant()'s.
    void revoke(uint32_t slot, uint32_t generation) noexcept;
    void revoke_all() noexcept;
    // Returns the address of the bytes, or the reason for the refusal.
    [[nodiscard]] std::expected<std::byte*, Refusal> check(const RemoteKey& key, uint64_t offset,
                                                           uint64_t count, Rights right,
                                                           Time now) const noexcept;
    [[nodiscard]] size_t live() const noexcept { return live_; }

  private:
    uint64_t domain_;
    uint64_t session_;
    uint32_t slots_max_;
    size_t live_ = 0;
    std::vector<RegionEntry> slots_;
    std::vector<uint32_t> free_;
};

}  // namespace ros2s::fabric
