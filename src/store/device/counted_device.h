// CountedDevice: what block devices share: checks of ranges, counters, and the number of operations
// in flight, for which close() waits.
#pragma once
#include "ros2s/base/check.h"
#include "ros2s/device/block_device.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::device {

class CountedDevice : public BlockDevice {
  public:
    [[nodiscard]] const DeviceCounters& counters() const noexcept final { return counters_; }

  protected:
    explicit CountedDevice(Reactor& reactor) : idle_(reactor) {}
    [[nodiscard]] virtual bool is_open() const noexcept = 0;

    void count_read(uint64_t offset, uint64_t bytes) {
        check_range(offset, bytes);
        counters_.reads.add();
        counters_.read_bytes.add(bytes);
    }
    void count_write(uint64_t offset, uint64_t bytes) {
        check_range(offset, bytes);
        counters_.writes.add();
        counters_.written_bytes.add(bytes);
    }
    void count_cached_write(uint64_t offset, uint64_t bytes) {
        count_write(offset, bytes);
        counters_.cached_writes.add();
    }
    void count_flush() {
        ROS2S_CHECK(is_open());
        counters_.flushes.add();
    }
    void count_discard(uint64_t offset, uint64_t bytes) {
        check_range(offset, bytes);
        counters_.discards.add();
    }

    // Around an operation that suspends. Returns its result.
    void began() noexcept { ++in_flight_; }
    Result<> ended(Result<> result) noexcept {
        if (!result) counters_.errors.add();
        if (--in_flight_ == 0) idle_.wake_all();
        return result;
    }
    Task<> all_ended() {
        while (in_flight_ > 0) co_await idle_;
    }

  private:
    void check_range(uint64_t offset, uint64_t bytes) const {
        ROS2S_CHECK(is_open());
        ROS2S_CHECK(bytes > 0 && offset % block_bytes == 0 && bytes % block_bytes == 0);
        ROS2S_CHECK(offset <= size() && bytes <= size() - offset);
    }

    size_t in_flight_ = 0;
    Event idle_;  // woken when in_flight_ becomes 0
    DeviceCounters counters_;
};

}  // namespace ros2s::device
