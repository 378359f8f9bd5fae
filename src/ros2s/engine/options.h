// What a pool is made and opened with.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "ros2s/base/log.h"
#include "ros2s/engine/index/index.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::engine {

struct CommitRules;

// What the engine runs in; outlives it.
struct Env {
    Reactor& reactor;
    BlockingPool& blocking;
    Log log{};
};

// Opens the index in `directory`, a name relative to the pool's directory; makes an empty one
// where `create` is set. Called on a helper thread. The sentence in the report names the cause.
using IndexFactory = std::function<Result<std::unique_ptr<Index>>(std::string_view directory,
                                                                  bool create, Report& report)>;

struct CreateOptions {
    // Size of the journal; 0: a sixteenth of the first device, 16 MiB at least, 256 MiB at most.
    uint64_t journal_bytes = 0;
    // Called after each step with bytes done and to do; may be empty.
    std::function<void(uint64_t done, uint64_t total)> progress;
};

struct EngineOptions {
    // What path() begins with.
    std::string_view name = "embedded engine";
    // Everything that grows with load or with the pool: cached entries, staged payload, bounce
    // buffers, checkpoints being written. Whoever opens the index gives it `index_share()`.
    uint64_t memory_bytes = 512 << 20;
    // Groups written side by side, where they are not large. One batches best on every disk
    // measured.
    uint32_t groups_in_flight = 1;
    // A group with so much payload is not held back to become larger: up to so many are written
    // side by side. Their data take the device longer than their flushes.
    uint64_t large_group_bytes = 1 << 20;
    uint32_t large_groups_in_flight = 4;
    // Request slots whose last answer is kept for retries: of one owner of clients, and for how
    // long after a client's last update at least. Of all owners: as many as memory has room for.
    uint32_t replies_per_owner = 65536;
    Duration reply_lease = std::chrono::minutes(2);
    // So long pins outlive their session, whose client may come again, and pin anew.
    Duration pin_grace{};
    // There were sessions before the pool was opened: as long nothing is unpinned.
    bool begins_with_grace = false;
    bool read_only = false;
    // A device that is another medium than the one recorded, with the same content, takes its
    // place.
    bool accept_copies = false;
    // Tells devices that gain by it which blocks hold nothing any more.
    bool discard = true;
    // Memory for payload that is spare is given back when there have been next to no updates for so
    // long; 0: never.
    Duration rest_after{};
    // Reactors that the targets are spread over besides the one that the pool is opened on (which
    // has its share of them, and the committer). They run, and outlive the pool; requests are made
    // on any of these cores. Those that are left without a target are not used.
    std::vector<Reactor*> more_reactors{};
    // Tests alone: which rules of the commit protocol hold. Null: all.
    const CommitRules* rules = nullptr;

    [[nodiscard]] uint64_t index_share() const { return memory_bytes / 4; }
    [[nodiscard]] uint64_t staging_share() const { return memory_bytes / 4; }
    [[nodiscard]] uint64_t bounce_share() const { return memory_bytes / 16; }
    // Nodes, dirty ones and the checkpoint being written among them.
    [[nodiscard]] uint64_t cache_share() const { return memory_bytes / 4; }
    [[nodiscard]] uint64_t replies_share() const { return memory_bytes / 16; }
    // Dirty nodes beyond this start a checkpoint; beyond twice this updates wait for it.
    [[nodiscard]] uint64_t dirty_share() const { return memory_bytes / 16; }
};

}  // namespace ros2s::engine
