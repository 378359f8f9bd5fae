// RegionTable: the memory that a client of a session lets the trusted side reach, as it described
// it over the control plane: what a data plane checks each access against before it puts or gets,
// where regions outlive requests. None does so yet: requests carry the fabric's own keys.
//
// A descriptor is the client's word and nothing more: `key` is opaque to everybody but the
// provider, and what the provider's hardware or segment table does not grant, this table cannot
// give.
//
// Part of a session; used on its core.
//
// Invariants: a number names one region for ever (index and generation); no overflow in any check;
// at most `regions_max` at a time.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/object/vocabulary.h"

namespace ros2s::session {

inline constexpr size_t regions_max = 1024;
inline constexpr size_t region_key_bytes_max = 4096;

struct Region {
    std::string provider;   // "shm", "ucx+rc"
    uint64_t address = 0;   // as the provider counts: a virtual address, or an offset in a segment
    uint64_t length = 0;    // bytes, at least 1
    bool readable = false;  // the trusted side may get from it
    bool writable = false;  // and put into it
    object::MemoryKind memory = object::MemoryKind::host;
    uint32_t device = 0;  // which GPU, of memory that lies in one
    std::string key;      // the provider's packed remote key
    friend bool operator==(const Region&, const Region&) = default;
};

enum class Access : uint8_t { get, put };

class RegionTable {
  public:
    // Errors: invalid (an empty or wrapping range, no right, an overlong key), busy (too many).
    [[nodiscard]] Result<uint64_t> add(Region region);
    // Nothing new may use it from here on. Errors: stale.
    [[nodiscard]] Result<> remove(uint64_t number);
    // The region, where [offset, offset + length) lies in it and `access` is granted. Errors: stale
    // (no such region), denied (the right), invalid (the range).
    [[nodiscard]] Result<const Region*> check(uint64_t number, uint64_t offset, uint64_t length,
                                              Access access) const;
    [[nodiscard]] size_t size() const { return live_; }

  private:
    struct Slot {
        uint32_t generation = 1;
        bool live = false;
        Region region;
    };
    [[nodiscard]] const Slot* find(uint64_t number) const;
    std::vector<Slot> slots_;
    size_t live_ = 0;
};

}  // namespace ros2s::session
