// SimDisk: a simulated disk, the thing that survives a crash: an image, and a volatile cache above
// it. SimDevice is one opening of it, as a file descriptor is of a file.
//
// Fault model
// - A write takes effect when it completes, and is then volatile: it is read back, but only a flush
//   issued after its completion makes it durable. Operations complete in random order.
// - Power loss: of the writes that no flush covered, completed or in flight, each 4 KiB block
//   survives or not on its own; a surviving block may be torn: each of its 512 B sectors is the new
//   or the old one. The share of survivors is drawn per crash, all and none included. Two unflushed
//   writes of one block: any of the three contents may be found.
// - Process crash (kill -9): completed writes stay readable and stay volatile. Writes in flight
//   land in whole, in part or not at all, a flush in flight is carried out or not; all before the
//   next opening, because the lock is on the descriptor that carries the I/O.
// - Either crash freezes the openings there are: what they have in flight and all they do later
//   fails with EIO and changes nothing, so that the code above unwinds by its ordinary error paths.
// - While a write is in flight, a read of its blocks sees old and new sectors mixed.
// - A write's memory must not change while it is in flight: checked.
// - Faults, drawn by the hook for each operation:
//   lost         a write that reports success and does nothing
//   misdirected  a write or read that goes to another place of the same length
//   rotten       one bit of what is written, or of what lies on the medium under a read, flips
//   slow         a hundred times the longest latency
//   error        EIO. A failed write may have written any of its sectors. After a failed flush any
//                unflushed block may never reach the medium, whatever later flushes say. A failed
//                discard is carried out later, in the midst of others' operations
//   declined     unsupported, of a discard
//   On flush and discard, lost, misdirected and rotten mean none.
// - Persistent memory (SimDiskOptions::memory): a write is durable when it completes. One that a
//   crash interrupts leaves any of its 64-byte lines, and of a line any of its 8-byte words.
// - A discarded block holds its old content, zeros, or garbage; also where a crash interrupted it.
// - Not modelled: a flush that lies, blocks that change without being touched (use rot()), and
//   space: the disk has its size from the start and reads zeros at first.
//
// Everything random comes from the Random given, so one seed gives one run. One core.
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
    // Latencies are uniform between half of these and these.
    Duration read_latency = std::chrono::microseconds(100);
    Duration write_latency = std::chrono::microseconds(60);
    Duration flush_latency = std::chrono::milliseconds(1);
    bool torn_sectors = true;
    bool memory = false;               // persistent memory
    uint64_t discard_bytes_least = 0;  // what it says to be worth a discard; 0: nothing
};

// An operation as the hook sees it: submitted, and in flight already.
struct SimOperation {
    SimKind kind;
    uint64_t offset;
    uint64_t length;
    uint64_t index;            // counts this disk's operations from 0, over all openings
    size_t unflushed_writes;   // completed, and covered by no completed flush
    size_t writes_in_flight;   // this one included
    size_t flushes_in_flight;  // as well
};

class SimDisk {
  public:
    // Called for each operation of an opening that is not frozen. It may crash this and other
    // disks: then what it returns does not matter.
    using Hook = std::function<SimFault(const SimOperation&)>;

    SimDisk(Random& random, SimDiskOptions options, std::string name = "sim 0");
    SimDisk(const SimDisk&) = delete;
    SimDisk& operator=(const SimDisk&) = delete;
    ~SimDisk();

    void set_hook(Hook hook) { hook_ = std::move(hook); }
    void power_loss();
    void process_crash();

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] uint64_t size() const { return options_.size; }
    [[nodiscard]] bool is_memory() const { return options_.memory; }
    [[nodiscard]] uint64_t discard_bytes_least() const { return options_.discard_bytes_least; }
    // None, until a test gives it one.
    DeviceIdentity identity;
    [[nodiscard]] uint64_t operations() const { return operations_; }
    [[nodiscard]] size_t unflushed_writes() const { return unflushed_.size(); }
    [[nodiscard]] size_t writes_in_flight() const { return in_flight(SimKind::write); }

    // Past the model, for tests: what a read would return, and changes to cache and medium alike.
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
    // One operation in flight; lives in its coroutine's frame.
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
        uint64_t flushed_upto = 0;  // flush: the writes that it covers
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
    // Stores a random part of it, as an interrupted or failed write does.
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
    std::vector<Range> failed_discards_;  // of this opening, and not carried out yet
    uint64_t sequence_ = 0;
    uint64_t operations_ = 0;
    uint64_t generation_ = 0;  // counts crashes: an opening of an older one is frozen
    bool open_ = false;
};

}  // namespace ros2s::device
