#include "ros2s/admission/cost.h"

#include <utility>

namespace ros2s::admission {
namespace {

struct Costs {
    uint64_t fixed_ns, block_ns;  // of a request, of 4 KiB
};
// The proportions are those of processor time that `./dev bench costs` finds (decision 0512). The
// unit is about a nanosecond of one core.
Costs costs_of(Work work) {
    switch (work) {
        case Work::look: return {16'000, 1'400};
        case Work::change: return {40'000, 1'600};
        case Work::read: return {16'000, 1'400};
        case Work::write: return {28'000, 1'600};
    }
    std::unreachable();
}
constexpr uint64_t block_bytes = 4096;
constexpr uint64_t entry_ns = 500;
constexpr uint64_t part_ns = 8'000;

}  // namespace

uint64_t cost_ns_of(Work work, uint64_t bytes) {
    const Costs costs = costs_of(work);
    return costs.fixed_ns + bytes * costs.block_ns / block_bytes;
}
uint64_t cost_ns_of_entries(size_t entries) { return entries * entry_ns; }
uint64_t cost_ns_of_parts(size_t parts) { return parts * part_ns; }

}  // namespace ros2s::admission
