// BlockDevice: a fixed range of 4 KiB blocks that can be read, written, flushed and discarded.
// Implementations: uring (a file, O_DIRECT), nvme (a namespace, passthrough), pmem (persistent
// memory), sim (a simulated disk that loses, tears, misdirects and corrupts data). All of them pass
// one contract suite.
//
// Owned by a Pool. Used on the core on which it was opened. Several operations may be in flight;
// they complete in any order.
//
// Invariants
// - Offsets, lengths and addresses are multiples of block_bytes (CHECK).
// - A completed write is visible to later reads. It is durable only after a flush that was *issued
//   after* the write completed has returned. After a failed flush the state of every unflushed
//   write is unknown: the caller must never repeat the flush.
// - Memory of an operation in flight belongs to the device until the operation completes.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "ros2s/base/bytes.h"
#include "ros2s/base/metrics.h"
#include "ros2s/base/result.h"
#include "ros2s/device/identity.h"
#include "ros2s/runtime/task.h"

namespace ros2s {
class Reactor;
}

namespace ros2s::device {

// Counted by every device. The path report and the benchmarks read them.
struct DeviceCounters {
    Counter reads, read_bytes, writes, written_bytes, flushes, discards, errors;
    Counter cached_writes;  // of `writes`: only copied into the machine's memory
};

class BlockDevice {
  public:
    virtual ~BlockDevice() = default;

    // For people and error messages: the path of a file, "sim 0" in a simulation.
    [[nodiscard]] virtual const std::string& name() const noexcept = 0;
    // The transport of the I/O: "io_uring, O_DIRECT". For the path report.
    [[nodiscard]] virtual std::string path() const = 0;
    // In bytes. Does not change while the device is open.
    [[nodiscard]] virtual uint64_t size() const noexcept = 0;
    [[nodiscard]] virtual const DeviceCounters& counters() const noexcept = 0;
    // True for persistent memory: a write is durable when it completes, and a flush costs nothing.
    [[nodiscard]] virtual bool is_memory() const noexcept { return false; }
    // Kind::none if the medium has no identity, for example a file.
    [[nodiscard]] virtual DeviceIdentity identity() const { return {}; }

    // Errors of each: io (os_errno has the cause). Reading or writing beyond size() is a bug
    // (CHECK).
    virtual Task<Result<>> read(uint64_t offset, Bytes into) = 0;
    virtual Task<Result<>> write(uint64_t offset, ConstBytes from) = 0;
    // write(), or a copy into the machine's memory, which outlives the process. For small writes
    // that nobody waits to be durable: the next flush takes longer.
    virtual Task<Result<>> write_cached(uint64_t offset, ConstBytes from) {
        return write(offset, from);
    }
    // Makes all writes durable that had completed when flush was called.
    virtual Task<Result<>> flush() = 0;
    // The contents of the range become undefined, at some time until this returns. After `io` they
    // may change at any time until the device is closed. Does nothing if the medium has no use for
    // it. Errors: unsupported (the device declined), io.
    virtual Task<Result<>> discard(uint64_t offset, uint64_t length) = 0;
    // The least number of bytes for which a discard is useful; 0: it never is.
    [[nodiscard]] virtual uint64_t discard_bytes_least() const noexcept { return 0; }
    // Another handle of the same medium, for use on `reactor`'s core. It is closed there, before
    // this one. Called on this handle's core. Errors: unsupported (the device supports one core
    // only), those of opening it.
    [[nodiscard]] virtual Result<std::unique_ptr<BlockDevice>> handle_on(Reactor& reactor) {
        (void)reactor;
        return fail(Code::unsupported);
    }
    // Waits for operations in flight, then releases the device and its lock. Must be called.
    virtual Task<> close() = 0;
};

}  // namespace ros2s::device
