#include "ros2s/admission/cost.h"

#include <utility>

namespace ros2s::admission {
namespace {

uint64_t fixed_ns(Work work) {
    switch (work) {
        case Work::look: return 16'000;
        case Work::change: return 40'000;
        case Work::read: return 16'000;
        case Work::write: return 20'000;
    }
    std::unreachable();
}
constexpr uint64_t bytes_per_ns = 4;
constexpr uint64_t entry_ns = 500;
constexpr uint64_t part_ns = 8'000;

}  // namespace

uint64_t cost_ns_of(Work work, uint64_t bytes) { return fixed_ns(work) + bytes / bytes_per_ns; }
uint64_t cost_ns_of_entries(size_t entries) { return entries * entry_ns; }
uint64_t cost_ns_of_parts(size_t parts) { return parts * part_ns; }

}  // namespace ros2s::admission
