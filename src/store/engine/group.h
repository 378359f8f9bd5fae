// Group: the transactions that one journal record commits, and their payload. The payload is copied
// once into the engine's own memory and checksummed there, so that no other code can change the
// bytes between checksum and media.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "cache.h"
#include "ros2s/base/bytes.h"
#include "ros2s/base/staging_memory.h"
#include "ros2s/engine/extent/space.h"
#include "ros2s/engine/format/change.h"
#include "ros2s/engine/format/record.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::engine {

// Memory for staged payload, recycled in chunks of one size.
class ChunkPool {
  public:
    // Keeps at most `spare_bytes_max` of unused memory.
    ChunkPool(size_t chunk_bytes, size_t spare_bytes_max)
        : chunk_bytes_(chunk_bytes), spare_max_(spare_bytes_max / chunk_bytes) {}
    [[nodiscard]] size_t chunk_bytes() const { return chunk_bytes_; }
    // In use and unused.
    [[nodiscard]] size_t memory_bytes() const { return chunks_ * chunk_bytes_; }
    [[nodiscard]] StagingMemory take() {
        if (spare_.empty()) {
            ++chunks_;
            return StagingMemory(chunk_bytes_);
        }
        StagingMemory chunk = std::move(spare_.back());
        spare_.pop_back();
        return chunk;
    }
    void give(StagingMemory chunk) {
        if (spare_.size() < spare_max_) {
            spare_.push_back(std::move(chunk));
        } else {
            --chunks_;
        }
    }

    // Returns unused memory to the kernel.
    void drop_spare() {
        chunks_ -= spare_.size();
        spare_.clear();
    }

  private:
    size_t chunk_bytes_, spare_max_;
    size_t chunks_ = 0;
    std::vector<StagingMemory> spare_;
};

// A block's name in a group before its transaction joins: a device and a running number there.
// Until then a BlockRef of the transaction's changes has it in its address.
struct StagedBlock {
    uint32_t device = 0;
    uint64_t ordinal = 0;
};

struct Group {
    // Capacity that an empty group keeps.
    static constexpr size_t transactions_kept_max = 1024;
    static constexpr size_t pins_kept_max = 4096;

    Group(Reactor& reactor, ChunkPool& chunks, size_t device_count)
        : pool(chunks), devices(device_count), writes_ended(reactor), done(reactor) {}
    ~Group() { release(); }
    Group& operator=(Group&&) = delete;

    struct PerDevice {
        // A position in the runs.
        struct Progress {
            uint64_t ordinal = 0;  // of the next block
            size_t run = 0;        // its run, and the block in it
            uint64_t in_run = 0;
        };
        std::vector<StagingMemory> chunks;
        uint64_t blocks = 0;         // staged
        std::vector<BlockRun> runs;  // their addresses, in the order of staging
        Progress placed;             // blocks with addresses: their transaction has joined
        Progress sent;               // of these, those that are being written

        // The number of contiguous blocks on the device, from there on.
        [[nodiscard]] uint64_t contiguous(Progress& from) const {
            if (from.run < runs.size() && from.in_run == runs[from.run].blocks &&
                from.run + 1 < runs.size()) {
                ++from.run;
                from.in_run = 0;
            }
            return from.run < runs.size() ? runs[from.run].blocks - from.in_run : 0;
        }
        [[nodiscard]] BlockAddress address(const Progress& at) const {
            return runs[at.run].first + at.in_run;
        }
        static void advance(Progress& from, uint64_t blocks) {
            from.ordinal += blocks;
            from.in_run += blocks;
        }
    };
    ChunkPool& pool;
    std::vector<PerDevice> devices;
    std::vector<TransactionRecord> transactions;
    std::vector<Node*> pins;  // nodes that must be in memory to apply it
    RecordBuilder record;
    uint64_t blocks = 0;           // staged on all devices
    bool waits_for_flush = false;  // one of its transactions is acknowledged only when durable

    // Set when sealed.
    RecordHeader header;
    uint64_t end_position = 0;    // of its record in the journal
    Result<> io;                  // of its writes and its flush
    uint64_t flush_covers = 0;    // its flush also makes groups up to this one durable
    size_t writes_under_way = 0;  // those begun before it was sealed
    Event writes_ended;           // signalled when all of these have ended

    // The steps of its I/O, if a transaction in it is traced.
    bool traced = false;
    struct Step {
        std::string_view name;  // a literal
        Time begin;
        Time end;
    };
    std::vector<Step> steps;  // in the order of their beginnings

    Event done;        // committed or failed
    Result<> outcome;  // valid once done

    [[nodiscard]] bool is_empty() const { return transactions.empty(); }
    // Visible when it is written. An empty group is only there to be durable.
    [[nodiscard]] bool is_deferred() const { return !is_empty() && !waits_for_flush; }
    // Nodes that must be in memory for the transaction that joins next. Its caller keeps them
    // pinned until `done`.
    void hold(std::span<Node* const> nodes) { pins.insert(pins.end(), nodes.begin(), nodes.end()); }
    // Room for one more block; the caller fills it.
    [[nodiscard]] std::byte* stage(uint32_t device, StagedBlock& where) {
        PerDevice& on = devices[device];
        const size_t per_chunk = pool.chunk_bytes() / block_bytes;
        if (on.blocks / per_chunk >= on.chunks.size()) on.chunks.push_back(pool.take());
        where = {device, on.blocks++};
        ++blocks;
        return memory(where);
    }
    // Frees payload, transactions and a large record: no write is under way, and the group is
    // applied or failed.
    void release() {
        for (PerDevice& device : devices) {
            for (StagingMemory& chunk : device.chunks) pool.give(std::move(chunk));
            device.chunks.clear();
        }
        transactions.clear();
        if (transactions.capacity() > transactions_kept_max) transactions.shrink_to_fit();
        pins.clear();
        if (pins.capacity() > pins_kept_max) pins.shrink_to_fit();
        record.clear();
    }
    // Empties the group and keeps its memory. Nothing else refers to it.
    void reset(size_t device_count) {
        release();
        devices.resize(device_count);
        for (PerDevice& device : devices) {
            device.runs.clear();
            device.blocks = 0;
            device.placed = device.sent = {};
        }
        blocks = 0;
        waits_for_flush = false;
        flush_covers = 0;
        io = outcome = {};
        traced = false;
        steps.clear();
        done.reset();
    }
    // Removes the newest block of a device.
    void unstage(uint32_t device) {
        --devices[device].blocks;
        --blocks;
    }
    [[nodiscard]] std::byte* memory(StagedBlock at) const {
        const size_t per_chunk = pool.chunk_bytes() / block_bytes;
        return devices[at.device].chunks[at.ordinal / per_chunk].data() +
               at.ordinal % per_chunk * block_bytes;
    }
};

// One step of a group's I/O, from construction to destruction. Does nothing if the group has no
// trace at its construction: a traced transaction may join during the step.
class GroupStep {
  public:
    GroupStep(Group& group, const Reactor& reactor, std::string_view name)
        : group_(group), reactor_(reactor) {
        if (!group.traced) [[likely]]
            return;
        index_ = group.steps.size();
        group.steps.push_back({name, reactor.now(), {}});
    }
    GroupStep& operator=(GroupStep&&) = delete;
    ~GroupStep() {
        if (index_ != none) [[unlikely]]
            group_.steps[index_].end = reactor_.now();
    }

  private:
    static constexpr size_t none = SIZE_MAX;
    Group& group_;
    const Reactor& reactor_;
    size_t index_ = none;
};

}  // namespace ros2s::engine
