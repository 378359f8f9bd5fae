// What a false server can send to a client in the set-up: a layout, and descriptors with any seals
// and sizes. An accepted segment can be accessed from end to end, for ever.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "layout.h"
#include "ros2s/base/check.h"
#include "segment.h"

using namespace ros2s;
using namespace ros2s::fabric;
using namespace ros2s::fabric::shm;

namespace {

struct Sent {
    ShmHello layout;
    uint8_t seals = 0;
    uint8_t kind = 0;
    uint16_t pages = 0;
    uint16_t bytes = 0;  // beyond the pages
    uint16_t announced_off = 0;
};

// Every accepted layout is consistent, without an overflow.
void look_at(const ShmHello& layout) {
    if (!makes_sense(layout)) return;
    ROS2S_CHECK(uses_offset(layout) + layout.slots * sizeof(uint32_t) <= layout.control_bytes);
    ROS2S_CHECK(grants_offset(layout) < uses_offset(layout));
    ROS2S_CHECK(layout.control_bytes <=
                control_page_bytes + 2 * ring_bytes_most +
                    slots_most * (sizeof(SharedRegionEntry) + sizeof(uint32_t)) +
                    control_page_bytes);
}

ShmHello made_right(ShmHello layout) {
    layout.to_server_bytes = ring_bytes_least << layout.to_server_bytes % 7;
    layout.to_client_bytes = ring_bytes_least << layout.to_client_bytes % 7;
    layout.slots = 1 + layout.slots % slots_most;
    layout.control_bytes = control_bytes(layout);
    layout.payload_bytes = block_bytes * (1 + layout.payload_bytes % 1024);
    ROS2S_CHECK(makes_sense(layout));
    return layout;
}

Descriptor make(const Sent& sent, uint64_t size) {
    if (sent.kind % 8 == 0) {
        int ends[2] = {-1, -1};
        ROS2S_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
        ::close(ends[1]);
        return Descriptor(ends[0]);
    }
    Descriptor made(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ROS2S_CHECK(made.open());
    ROS2S_CHECK(::ftruncate(made.get(), static_cast<off_t>(size)) == 0);
    (void)::fcntl(made.get(), F_ADD_SEALS, sent.seals & 0x1f);
    return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Sent sent;
    std::memcpy(static_cast<void*>(&sent), data, std::min(size, sizeof sent));
    look_at(sent.layout);
    look_at(made_right(sent.layout));
    const uint64_t real = uint64_t{sent.pages} % 64 * block_bytes + sent.bytes % 3;
    const uint64_t announced = real + sent.announced_off % 3;
    Report report;
    const auto taken = Segment::take_in(make(sent, real), announced, report);
    ROS2S_CHECK(taken.has_value() || !report.empty() || real == 0 ||
                (sent.seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0);
    if (!taken) return 0;
    const int needed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    ROS2S_CHECK((::fcntl(taken->descriptor(), F_GET_SEALS) & needed) == needed);
    ROS2S_CHECK(taken->bytes().size() == announced && announced == real);
    std::ranges::fill(taken->bytes(), std::byte{1});
    return 0;
}
