// SimDisk: a simulated disk, the part that survives a crash: an image, and a volatile cache above
// it. A SimDevice is one opening of it, as a file descriptor is of a file.
//
// Fault model
// - A write takes effect when it completes. It is then volatile: reads see it, but only a flush
//   that is issued after its completion makes it durable. Operations complete in random order.
// - Power loss: each 4 KiB block of a write that no flush covered, completed or in flight, survives
//   or not. A surviving block may be torn: each of its 512 B sectors is new or old. The share of
//   survivors is drawn per crash and may be all or none. If one block has two unflushed writes, it
//   has any of the three contents.
// - Process crash (kill -9): completed writes stay readable and volatile. Writes in flight are done
//   completely, in part or not at all. A flush in flight is done or not. All of this happens before
//   the next opening, because the lock is on the descriptor that carries the I/O.
// - Both kinds of crash freeze the existing openings: all their operations, in flight or later,
//   fail with EIO and change nothing. The code above then unwinds by its normal error paths.
// - While a write is in flight, a read of its blocks sees a mix of old and new sectors.
// - The memory of a write must not change while it is in flight; this is checked.
// - The hook draws a fault for each operation:
//   lost         a write that reports success and does nothing
//   misdirected  a write or read that goes to another place of the same length
//   rotten       one bit flips, in the written data or on the medium under a read
//   slow         a hundred times the longest latency
//   error        EIO. A failed write may have written any of its sectors. After a failed flush any
// unflushed block may never reach the medium, whatever later flushes return. A failed
//                discard is done later, between other operations
//   declined     unsupported, for a discard
//   For flush and discard, lost, misdirected and rotten mean no fault.
// - Persistent memory (SimDiskOptions::memory): a write is durable when it completes. If a crash
//   interrupts it, any of its 64-byte lines, and of a line any of its 8-byte words, are written.
// - A discarded block has its old content, zeros, or garbage, even if a crash interrupted the
//   discard.
// - Not modelled: a flush that lies, blocks that change without an operation (use rot()), and
//   space: the disk has its full size from the start and initially reads zeros.
//
// All random decisions use the given Random, so one seed gives one run. One core.
#pragma once
#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ros2s/base/bytes.h"
#include "ros2s/base/random.h"
#include "ros2s/base/result.h"
#include "ros2s/device/identity.h"
#include "ros2s/runtime/time.h"

namespace ros2s::device {

class SimDevice;

enum class SimKind : uint8_t { read, write, flush, discard };
enum class SimFault : uint8_t { none, lost, misdirected, rotten, slow, error, declined };

struct SimDiskOptions {
    uint64_t size = uint64_t{64} << 20;
    // Latencies are uniform between half of these values and these values.
    Duration read_latency = std::chrono::microseconds(100);
    Duration write_latency = std::chrono::microseconds(60);
    Duration flush_latency = std::chrono::milliseconds(1);
    bool torn_sectors = true;
    bool memory = false;               // persistent memory
    uint64_t discard_bytes_least = 0;  // reported minimum for a discard; 0: discards are useless
};

// An operation as the hook sees it: submitted and already in flight.
struct SimOperation {
    SimKind kind;
    uint64_t offset;
    uint64_t length;
    uint64_t index;            // counts this disk's operations from 0, over all openings
    size_t unflushed_writes;   // completed, and not covered by a completed flush
    size_t writes_in_flight;   // including this one
    size_t flushes_in_flight;  // likewise
};

class SimDisk {
  public:
    // Called for each operation of an opening that is not frozen. It may crash this and other
    // disks; its return value is then ignored.
    using Hook = std::function<SimFault(const SimOperation&)>;

    SimDisk(Random& random, SimDiskOptions options, std::string name = "sim 0");
    SimDisk& operator=(SimDisk&&) = delete;
    ~SimDisk();

    void set_hook(Hook hook) { hook_ = std::move(hook); }
    void power_loss();
    void process_crash();

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] uint64_t size() const { return options_.size; }
    [[nodiscard]] bool is_memory() const { return options_.memory; }
    [[nodiscard]] uint64_t discard_bytes_least() const { return options_.discard_bytes_least; }
    // None, unless a test sets one.
    DeviceIdentity identity;
    bool one_handle = false;  // handle_on() of its devices fails
    [[nodiscard]] uint64_t operations() const { return operations_; }
    [[nodiscard]] size_t unflushed_writes() const { return unflushed_.size(); }
    [[nodiscard]] size_t writes_in_flight() const { return in_flight(SimKind::write); }

    // Bypass the model, for tests: what a read would return, and changes to both cache and medium.
    // Any offset and length within the disk.
    void peek(uint64_t offset, Bytes into) const;
    void poke(uint64_t offset, ConstBytes from);
    void rot(uint64_t offset);  // flips one random bit of the byte

  private:
    friend class SimDevice;
    using Block = std::array<std::byte, block_bytes>;
    // Content of a block that has not reached the medium.
    struct Version {
        uint64_t sequence;  // of the write
        bool doomed;        // a failed flush gave it up
        std::unique_ptr<Block> bytes;
    };
    // One operation in flight. It is part of its coroutine's frame.
    struct InFlight {
        SimDisk& disk;
        SimKind kind;
        uint64_t offset = 0;
        uint64_t length = 0;
        Bytes into{};
        ConstBytes from{};
        SimFault fault = SimFault::none;
        bool frozen = false;
        uint32_t crc = 0;           // of `from` at submission
        uint64_t flushed_upto = 0;  // flush: the writes that it covers, by sequence
        ~InFlight();
    };

    [[nodiscard]] size_t in_flight(SimKind kind) const;
    void begin(InFlight& operation);
    [[nodiscard]] Duration latency(const InFlight& operation);
    [[nodiscard]] Result<> finish(InFlight& operation);

    void finish_read(InFlight& operation);
    void finish_write(InFlight& operation);
    void fail_operation(InFlight& operation);
    void flush_upto(uint64_t sequence);
    void discard(uint64_t offset, uint64_t length);
    void discard_late();
    void freeze();
    void add_version(uint64_t block, const std::byte* bytes, uint64_t sequence);
    void store(uint64_t offset, ConstBytes from);
    // Stores a random part of the data, as an interrupted or failed write does.
    void store_part(uint64_t offset, ConstBytes from);
    void tear(std::byte* old_and_result, const std::byte* fresh);
    void tear_lines(std::byte* old_and_result, const std::byte* fresh);
    [[nodiscard]] const std::byte* content(uint64_t block) const;
    [[nodiscard]] uint64_t elsewhere(uint64_t offset, uint64_t length);

    struct Free {
        void operator()(std::byte* memory) const noexcept { std::free(memory); }
    };

    Random& random_;
    SimDiskOptions options_;
    std::string name_;
    Hook hook_;
    std::unique_ptr<std::byte[], Free> image_;
    std::map<uint64_t, std::vector<Version>> cache_;  // by block; oldest version first
    std::vector<uint64_t> unflushed_;                 // sequences of completed writes, ascending
    std::vector<InFlight*> in_flight_;
    struct Range {
        uint64_t offset, length;
    };
    std::vector<Range> failed_discards_;  // of this opening, and not done yet
    uint64_t sequence_ = 0;
    uint64_t operations_ = 0;
    uint64_t generation_ = 0;  // counts crashes: openings of an older generation are frozen
    bool open_ = false;
};

}  // namespace ros2s::device
