#include "ros2s/device/sim/sim_device.h"

#include <cerrno>

#include "ros2s/base/check.h"

namespace ros2s::device {

Task<Result<std::unique_ptr<BlockDevice>>> SimDevice::open(Reactor& reactor, SimDisk& disk,
                                                           Report& report) {
    co_await yield(reactor);
    if (disk.open_) {
        co_return report.fail(Code::busy, disk.name() + " is open already: close it first");
    }
    co_return std::make_unique<SimDevice>(reactor, disk);
}

Result<std::unique_ptr<BlockDevice>> SimDevice::handle_on(Reactor& reactor) {
    if (disk_.one_handle) return fail(Code::unsupported);
    auto handle = std::make_unique<SimDevice>(reactor, disk_, false);
    handle->generation_ = generation_;  // crashed together
    return handle;
}

SimDevice::SimDevice(Reactor& reactor, SimDisk& disk, bool is_first)
    : CountedDevice(reactor),
      reactor_(reactor),
      disk_(disk),
      is_first_(is_first),
      generation_(disk.generation_) {
    disk_.open_ = true;
}

SimDevice::~SimDevice() { ROS2S_CHECK(closed_); }

const std::string& SimDevice::name() const noexcept { return disk_.name(); }
DeviceIdentity SimDevice::identity() const { return disk_.identity; }
std::string SimDevice::path() const { return "simulated disk"; }
uint64_t SimDevice::size() const noexcept { return disk_.size(); }
bool SimDevice::is_memory() const noexcept { return disk_.is_memory(); }
bool SimDevice::frozen() const { return generation_ != disk_.generation_; }

Task<Result<>> SimDevice::perform(SimKind kind, uint64_t offset, uint64_t length, Bytes into,
                                  ConstBytes from) {
    began();
    Result<> result = fail_errno(EIO);
    if (frozen()) {
        co_await yield(reactor_);
    } else {
        SimDisk::InFlight operation{.disk = disk_,
                                    .kind = kind,
                                    .offset = offset,
                                    .length = length,
                                    .into = into,
                                    .from = from};
        disk_.begin(operation);
        co_await sleep_for(reactor_, disk_.latency(operation));
        result = disk_.finish(operation);
    }
    co_return ended(result);
}

Task<Result<>> SimDevice::read(uint64_t offset, Bytes into) {
    count_read(offset, into.size());
    return perform(SimKind::read, offset, into.size(), into, {});
}

Task<Result<>> SimDevice::write(uint64_t offset, ConstBytes from) {
    count_write(offset, from.size());
    return perform(SimKind::write, offset, from.size(), {}, from);
}

Task<Result<>> SimDevice::flush() {
    count_flush();
    return perform(SimKind::flush, 0, 0, {}, {});
}

Task<Result<>> SimDevice::discard(uint64_t offset, uint64_t length) {
    count_discard(offset, length);
    return perform(SimKind::discard, offset, length, {}, {});
}

Task<> SimDevice::close() {
    co_await all_ended();
    closed_ = true;
    if (!is_first_ || frozen()) co_return;
    disk_.open_ = false;
    disk_.failed_discards_.clear();
}

}  // namespace ros2s::device
