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

// The proportions are those of processor time that `./dev bench costs` finds (decision 0512). The
// unit is about a nanosecond of one core.
[[nodiscard]] constexpr uint64_t cost_ns_of(Work work, uint64_t bytes) {
    struct Costs {
        uint64_t fixed_ns, block_ns;  // of a request, of 4 KiB
    };
    constexpr Costs costs[] = {{16'000, 1'400}, {40'000, 1'600}, {16'000, 1'400}, {28'000, 1'600}};
    const Costs& its = costs[static_cast<size_t>(work)];
    return its.fixed_ns + bytes * its.block_ns / 4096;
}
// The cost of a list's entries, and of the further files or objects of a batch. It is added to the
// request's cost.
[[nodiscard]] constexpr uint64_t cost_ns_of_entries(size_t entries) { return entries * 500; }
[[nodiscard]] constexpr uint64_t cost_ns_of_parts(size_t parts) { return parts * 8'000; }

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
