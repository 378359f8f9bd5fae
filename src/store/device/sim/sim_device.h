// SimDevice: a BlockDevice on a SimDisk. sim_disk.h has the fault model. It works with any Reactor;
// in a sim::World its time is virtual.
#pragma once
#include <memory>

#include "ros2s/device/counted_device.h"
#include "ros2s/device/sim/sim_disk.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::device {

class SimDevice final : public CountedDevice {
  public:
    // `disk` outlives the device. Errors: busy (already open, and not by a crashed process).
    [[nodiscard]] static Task<Result<std::unique_ptr<BlockDevice>>> open(Reactor& reactor,
                                                                         SimDisk& disk,
                                                                         Report& report);
    SimDevice(Reactor& reactor, SimDisk& disk, bool is_first = true);
    ~SimDevice() override;
    SimDevice& operator=(SimDevice&&) = delete;

    [[nodiscard]] const std::string& name() const noexcept override;
    [[nodiscard]] std::string path() const override;
    [[nodiscard]] uint64_t size() const noexcept override;
    [[nodiscard]] bool is_memory() const noexcept override;
    [[nodiscard]] DeviceIdentity identity() const override;
    Task<Result<>> read(uint64_t offset, Bytes into) override;
    Task<Result<>> write(uint64_t offset, ConstBytes from) override;
    Task<Result<>> flush() override;
    Task<Result<>> discard(uint64_t offset, uint64_t length) override;
    [[nodiscard]] uint64_t discard_bytes_least() const noexcept override {
        return disk_.discard_bytes_least();
    }
    [[nodiscard]] Result<std::unique_ptr<BlockDevice>> handle_on(Reactor& reactor) override;
    Task<> close() override;

  private:
    [[nodiscard]] bool is_open() const noexcept override { return !closed_; }
    [[nodiscard]] bool frozen() const;
    Task<Result<>> perform(SimKind kind, uint64_t offset, uint64_t length, Bytes into,
                           ConstBytes from);

    Reactor& reactor_;
    SimDisk& disk_;
    bool is_first_;  // the handle that opened the disk
    uint64_t generation_;
    bool closed_ = false;
};

}  // namespace ros2s::device
