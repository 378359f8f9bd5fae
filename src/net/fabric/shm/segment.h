// Segment: memory shared with one peer: a sealed memfd, mapped. The trusted side makes it for one
// session and never uses it for another. The other side accepts it only if all checks pass.
//
// The seals make it safe to access. With SHRINK and GROW a peer cannot remove pages (a hole punched
// into it reads as zeros; it does not fault). SEAL keeps the seals. Memory of huge pages is
// refused, because it faults when their pool is empty.
#pragma once
#include <cstdint>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/fabric/socket/socket.h"

namespace ros2s::fabric::shm {

class Segment {
  public:
    Segment() = default;
    Segment(Segment&& other) noexcept
        : descriptor_(std::move(other.descriptor_)), memory_(std::exchange(other.memory_, {})) {}
    Segment& operator=(Segment&& other) noexcept {
        if (this != &other) {
            unmap();
            descriptor_ = std::move(other.descriptor_);
            memory_ = std::exchange(other.memory_, {});
        }
        return *this;
    }
    ~Segment() { unmap(); }

    // A new one with zeros; pages are allocated at their first use. Errors: no_memory, io.
    [[nodiscard]] static Result<Segment> create(const char* name, uint64_t size);
    // A segment that a peer sent. Errors: denied with the reason in the report: not sealed, not
    // `size` bytes, not a memfd of ordinary pages.
    [[nodiscard]] static Result<Segment> take_in(Descriptor descriptor, uint64_t size,
                                                 Report& report);

    [[nodiscard]] Bytes bytes() const noexcept { return memory_; }
    [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }
    // After the peer has its copy. The mapping stays.
    void close_descriptor() noexcept { descriptor_.reset(); }

  private:
    Segment(Descriptor descriptor, Bytes memory) noexcept
        : descriptor_(std::move(descriptor)), memory_(memory) {}
    void unmap() noexcept;
    [[nodiscard]] static Result<Segment> map(Descriptor descriptor, uint64_t size);
    Descriptor descriptor_;
    Bytes memory_;
};

}  // namespace ros2s::fabric::shm
