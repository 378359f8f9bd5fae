// A device for the engine's benchmark and allocation test: memory that answers at once, so that
// only the engine itself is measured. It models no fault; device/sim does.
#pragma once
#include <cstring>
#include <string>

#include "ros2s/base/bytes.h"
#include "ros2s/device/block_device.h"

namespace ros2s::engine {

class NullDevice final : public device::BlockDevice {
  public:
    explicit NullDevice(uint64_t size) : memory_(size) { std::memset(memory_.data(), 0, size); }
    const std::string& name() const noexcept override { return name_; }
    std::string path() const override { return "memory"; }
    uint64_t size() const noexcept override { return memory_.size(); }
    const device::DeviceCounters& counters() const noexcept override { return counters_; }
    Task<Result<>> read(uint64_t offset, Bytes into) override {
        std::memcpy(into.data(), memory_.data() + offset, into.size());
        co_return Result<>();
    }
    Task<Result<>> write(uint64_t offset, ConstBytes from) override {
        std::memcpy(memory_.data() + offset, from.data(), from.size());
        co_return Result<>();
    }
    Task<Result<>> flush() override { co_return Result<>(); }
    Task<Result<>> discard(uint64_t, uint64_t) override { co_return Result<>(); }
    Task<> close() override { co_return; }

  private:
    AlignedBuffer memory_;
    std::string name_ = "null";
    device::DeviceCounters counters_;
};

}  // namespace ros2s::engine
