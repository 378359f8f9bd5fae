// PmemDevice: a BlockDevice in persistent memory (SCM), by libpmem. It is a file of a DAX file
// system, or a devdax character device, mapped once. A write is a copy without a system call. So is
// a read of devdax. A file is read by pread(2), which copies in the kernel and never waits.
//
// Durability: a write has left the processor's caches when it completes (non-temporal stores and a
// fence, on the writing core). flush() therefore does nothing. If a power loss interrupts a write,
// each aligned 8 bytes are old or new, in no known order. Data that one write makes valid must
// therefore show by itself whether it is complete.
//
// A read of a file returns an error for memory that has lost its contents (an uncorrectable error),
// and for a file that was truncated: the kernel's copy survives what would otherwise end the
// process with SIGBUS. For the same reason, if the kernel listed bad memory when the file was
// opened, writes use pwrite(2) and fdatasync(2); path() reports it. Three cases still end the
// process: bad memory of devdax, a write beyond the end of a truncated file, and a write to memory
// that became bad while the file was open.
//
// One process at a time, by a lock on the descriptor. handle_on() shares the mapping. The first
// handle's close() drops the lock and comes last. A forked child has no copy of the mapping.
//
// Used on the core on which it was opened, or for which handle_on() made it.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "ros2s/device/counted_device.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::device {

// Bytes of the persistent memory at `path`, or at the target of the link `path`: a devdax device,
// or a file whose file system maps it without a page cache. Empty if it is neither. Does not open
// it.
[[nodiscard]] std::optional<uint64_t> pmem_bytes(const std::string& path);

struct PmemDeviceOptions {
    // Also accept a file that is not persistent memory: each write then ends with msync(2). For
    // tests on machines without persistent memory; path() reports it.
    bool ordinary_file = false;
};

class PmemDevice final : public CountedDevice {
  public:
    // Errors: not_found, denied, busy (the report names the owner), invalid (no such device),
    // corrupt (its size is not a multiple of block_bytes), unsupported (not persistent memory, or
    // libpmem cannot be loaded), io.
    [[nodiscard]] static Task<Result<std::unique_ptr<BlockDevice>>> open(Reactor& reactor,
                                                                         std::string path,
                                                                         PmemDeviceOptions options,
                                                                         Report& report);
    ~PmemDevice() override;
    PmemDevice& operator=(PmemDevice&&) = delete;

    [[nodiscard]] const std::string& name() const noexcept override;
    [[nodiscard]] std::string path() const override;
    [[nodiscard]] uint64_t size() const noexcept override;
    [[nodiscard]] bool is_memory() const noexcept override { return true; }
    Task<Result<>> read(uint64_t offset, Bytes into) override;
    Task<Result<>> write(uint64_t offset, ConstBytes from) override;
    Task<Result<>> flush() override;
    // Does nothing: memory does not benefit from it.
    Task<Result<>> discard(uint64_t offset, uint64_t length) override;
    [[nodiscard]] Result<std::unique_ptr<BlockDevice>> handle_on(Reactor& reactor) override;
    Task<> close() override;

  private:
    struct Mapping;
    PmemDevice(Reactor& reactor, std::shared_ptr<Mapping> mapping)
        : CountedDevice(reactor), reactor_(reactor), mapping_(std::move(mapping)) {}
    [[nodiscard]] bool is_open() const noexcept override { return mapping_ != nullptr; }

    Reactor& reactor_;
    std::shared_ptr<Mapping> mapping_;  // null: closed
};

}  // namespace ros2s::device
