#include "ros2s/device/pmem/pmem_device.h"

#include <algorithm>

#include "mapping.h"
#include "ros2s/base/check.h"

namespace ros2s::device {
namespace {

// Bytes copied before others on the core run: some ten microseconds.
constexpr uint64_t turn_bytes = 128 * 1024;

}  // namespace

Task<Result<std::unique_ptr<BlockDevice>>> PmemDevice::open(Reactor& reactor, std::string path,
                                                            PmemDeviceOptions options,
                                                            Report& report) {
    ROS2S_CO_TRY_ASSIGN(auto mapping,
                        co_await Mapping::make(reactor, std::move(path), options, report));
    co_return std::unique_ptr<BlockDevice>(new PmemDevice(reactor, std::move(mapping)));
}

Result<std::unique_ptr<BlockDevice>> PmemDevice::handle_on(Reactor& reactor) {
    return std::unique_ptr<BlockDevice>(new PmemDevice(reactor, mapping_));
}

PmemDevice::~PmemDevice() { ROS2S_CHECK(mapping_ == nullptr); }

const std::string& PmemDevice::name() const noexcept { return mapping_->path; }
uint64_t PmemDevice::size() const noexcept { return mapping_->size; }

std::string PmemDevice::path() const {
    if (!mapping_->is_memory) return "libpmem, ordinary file, msync";
    return mapping_->is_damaged ? "persistent memory with bad blocks, by pwrite"
                                : "libpmem, persistent memory";
}

Task<Result<>> PmemDevice::read(uint64_t offset, Bytes into) {
    count_read(offset, into.size());
    began();
    while (true) {
        const uint64_t part = std::min<uint64_t>(into.size(), turn_bytes);
        if (const Result<> loaded = mapping_->load(offset, into.first(part)); !loaded) {
            co_return ended(loaded);
        }
        into = into.subspan(part);
        offset += part;
        if (into.empty()) break;
        co_await yield(reactor_);
    }
    co_return ended({});
}

Task<Result<>> PmemDevice::write(uint64_t offset, ConstBytes from) {
    count_write(offset, from.size());
    began();
    while (true) {
        const auto part = from.first(std::min<uint64_t>(from.size(), turn_bytes));
        if (const Result<> stored = mapping_->store(offset, part); !stored) {
            co_return ended(stored);
        }
        from = from.subspan(part.size());
        offset += part.size();
        if (from.empty()) break;
        co_await yield(reactor_);
    }
    co_return ended({});
}

Task<Result<>> PmemDevice::flush() {
    count_flush();
    co_return Result<>{};
}

Task<Result<>> PmemDevice::discard(uint64_t offset, uint64_t length) {
    count_discard(offset, length);
    co_return Result<>{};
}

Task<> PmemDevice::close() {
    co_await all_ended();
    mapping_.reset();
}

}  // namespace ros2s::device
