// PmemDevice: a BlockDevice in persistent memory (SCM), by libpmem: a file of a DAX file system, or
// a devdax character device, mapped once. A write is a copy, without a system call; so is a read of
// devdax. A file is read by pread(2), which is a copy in the kernel and never waits.
//
// Durability: a write has left the processor's caches when it completes (stores past them and a
// fence, on the core that wrote), so that flush() has nothing to do. A write that a power loss
// interrupts leaves, of each aligned 8 bytes, the old or the new ones, and nothing is known of the
// order: what becomes valid by one write must tell by itself whether it is whole.
//
// Memory that has lost its contents (an uncorrectable error), and a file that was cut off, are an
// error of a read of a file: the kernel's copy survives what would end the process with SIGBUS.
// Where the kernel knew of such memory when the file was opened, writes go by pwrite(2) and
// fdatasync(2), for the same reason; path() says so. What still ends the process: bad memory of
// devdax, a write beyond the end of a file that was cut off, or to memory that the kernel learns of
// while the file is open.
//
// One process at a time, by a lock on the descriptor. handle_on() shares the mapping; the first
// handle's close() drops the lock, and comes last. A forked child has no copy of the mapping.
//
// Used on the core it was opened on, or made for by handle_on().
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "ros2s/device/block_device.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::device {

// Bytes of the persistent memory that `path` is, or links to: a devdax device, or a file whose file
// system maps it without a page cache. Nothing where it is neither. Does not open it.
[[nodiscard]] std::optional<uint64_t> pmem_bytes(const std::string& path);

struct PmemDeviceOptions {
    // Also a file that is no persistent memory: each write then ends with msync(2). For tests on
    // machines without; path() says so.
    bool ordinary_file = false;
};

class PmemDevice final : public BlockDevice {
  public:
    // Errors: not_found, denied, busy (the report names the owner), invalid (no such device),
    // corrupt (its size is no multiple of block_bytes), unsupported (no persistent memory), io.
    [[nodiscard]] static Task<Result<std::unique_ptr<BlockDevice>>> open(Reactor& reactor,
                                                                         std::string path,
                                                                         PmemDeviceOptions options,
                                                                         Report& report);
    ~PmemDevice() override;
    PmemDevice(const PmemDevice&) = delete;
    PmemDevice& operator=(const PmemDevice&) = delete;

    [[nodiscard]] const std::string& name() const noexcept override;
    [[nodiscard]] std::string path() const override;
    [[nodiscard]] uint64_t size() const noexcept override;
    [[nodiscard]] const DeviceCounters& counters() const noexcept override { return counters_; }
    [[nodiscard]] bool is_memory() const noexcept override { return true; }
    Task<Result<>> read(uint64_t offset, Bytes into) override;
    Task<Result<>> write(uint64_t offset, ConstBytes from) override;
    Task<Result<>> flush() override;
    // Does nothing: memory gains nothing by it.
    Task<Result<>> discard(uint64_t offset, uint64_t length) override;
    [[nodiscard]] Result<std::unique_ptr<BlockDevice>> handle_on(Reactor& reactor) override;
    Task<> close() override;

  private:
    struct Mapping;
    PmemDevice(Reactor& reactor, std::shared_ptr<Mapping> mapping)
        : reactor_(reactor), mapping_(std::move(mapping)), idle_(reactor) {
        idle_.set();
    }
    void check_range(uint64_t offset, uint64_t length) const;
    void began() noexcept {
        if (in_flight_++ == 0) idle_.reset();
    }
    Result<> ended(Result<> result) noexcept;

    Reactor& reactor_;
    std::shared_ptr<Mapping> mapping_;  // null: closed
    size_t in_flight_ = 0;
    Event idle_;
    DeviceCounters counters_;
};

}  // namespace ros2s::device
