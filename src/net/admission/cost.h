// The cost of a request to a server, in nanoseconds of its core (not of a device): a fixed part for
// its kind and a part for its bytes. The figures are calibrated: see docs/decisions/0512.
//
// A request with many parts (a list, a batch of files) has the cost of one part here. The service
// adds the rest once it is known (Permit::correct_cost). The line then expects the same of later
// requests.
//
// Plain values; any thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ros2s::admission {

enum class Work : uint8_t {
    look,    // at names, attributes and sizes; a list without its entries
    change,  // of names and attributes; a flush
    read,
    write,
};

[[nodiscard]] uint64_t cost_ns_of(Work work, uint64_t bytes);
// The cost of a list's entries, and of the further files or objects of a batch. It is added to the
// request's cost.
[[nodiscard]] uint64_t cost_ns_of_entries(size_t entries);
[[nodiscard]] uint64_t cost_ns_of_parts(size_t parts);

// The resources that a request uses.
struct Demand {
    uint64_t bytes = 0;             // of memory for payload
    uint64_t reply_bytes = 0;       // of memory for the body of the reply, at most
    uint64_t cost_ns = 0;           // as far as it is known before it begins
    uint64_t expected_more_ns = 0;  // the part of cost_ns that earlier requests suggest
    bool on_names = true;           // and attributes; otherwise a read or a write. For rates
    Demand() = default;
    // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions): a read, or a look.
    Demand(uint64_t payload) : Demand(payload > 0 ? Work::read : Work::look, payload) {}
    Demand(Work work, uint64_t payload)
        : bytes(payload),
          cost_ns(cost_ns_of(work, payload)),
          on_names(work == Work::look || work == Work::change) {}
    [[nodiscard]] uint64_t memory_bytes() const noexcept { return bytes + reply_bytes; }
};

}  // namespace ros2s::admission
