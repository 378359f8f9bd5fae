// BlockDevice: where bytes live. A fixed range of 4 KiB blocks that can be read, written, flushed
// and discarded. Implementations: uring (a file, O_DIRECT), nvme (a namespace, passthrough), sim (a
// simulated disk that loses, tears, misdirects and rots); one contract suite runs on all.
//
// Owned by a Pool; used on the core it was opened on. Several operations may be in flight; they
// complete in any order.
//
// Invariants
// - Offsets, lengths and addresses are multiples of block_bytes. Breaking this is our bug (CHECK).
// - A completed write is visible to later reads, but durable only once a flush that was *issued
//   after* the write completed has returned. A failed flush leaves every unflushed write unknown:
//   the caller must never retry it.
// - Memory of an operation in flight belongs to the device until it completes.
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

// Counted by every device; what the path report (promise P8) and the benchmarks read.
struct DeviceCounters {
    Counter reads, read_bytes, writes, written_bytes, flushes, discards, errors;
};

class BlockDevice {
  public:
    virtual ~BlockDevice() = default;

    // For people and error messages: the path of a file, "sim 0" in a simulation.
    [[nodiscard]] virtual const std::string& name() const noexcept = 0;
    // What carries the I/O: "io_uring, O_DIRECT". For the path report.
    [[nodiscard]] virtual std::string path() const = 0;
    // Bytes; fixed while it is open.
    [[nodiscard]] virtual uint64_t size() const noexcept = 0;
    [[nodiscard]] virtual const DeviceCounters& counters() const noexcept = 0;
    // Persistent memory: a write is durable when it completes, and a flush costs nothing.
    [[nodiscard]] virtual bool is_memory() const noexcept { return false; }
    // Kind::none where the medium has none, as a file.
    [[nodiscard]] virtual DeviceIdentity identity() const { return {}; }

    // Errors of each: io (os_errno says which). Reading or writing beyond size() is our bug.
    virtual Task<Result<>> read(uint64_t offset, Bytes into) = 0;
    virtual Task<Result<>> write(uint64_t offset, ConstBytes from) = 0;
    // Makes every write durable that had completed when flush was called.
    virtual Task<Result<>> flush() = 0;
    // The range's contents become undefined, at any moment until it returns; after `io` at any
    // until the device is closed. A no-op where the medium gains nothing by it. Errors: unsupported
    // (the device declined), io.
    virtual Task<Result<>> discard(uint64_t offset, uint64_t length) = 0;
    // Bytes of a range that are worth one; 0: none is.
    [[nodiscard]] virtual uint64_t discard_bytes_least() const noexcept { return 0; }
    // Another handle of the same medium, to be used on another core, the one of `reactor`; closed
    // there, and before this one. Called on this one's core.
    // Errors: unsupported (it serves one core alone), those of opening it.
    [[nodiscard]] virtual Result<std::unique_ptr<BlockDevice>> handle_on(Reactor& reactor) {
        (void)reactor;
        return fail(Code::unsupported);
    }
    // Waits for what is in flight, then releases the device (and its lock). Must be called.
    virtual Task<> close() = 0;
};

}  // namespace ros2s::device
