// These structs are the options for making and opening a pool.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ros2s/engine/index/index.h"
#include "ros2s/runtime/environment.h"

namespace ros2s::engine {

// Opens the index in `directory`, a name relative to the pool's directory. With `create`, makes an
// empty one. Called on a helper thread. The sentence in the report names the cause.
using IndexFactory = std::function<Result<std::unique_ptr<Index>>(std::string_view directory,
                                                                  bool create, Report& report)>;

struct CreateOptions {
    // Size of the journal; 0: a sixteenth of the first device, 16 MiB at least, 256 MiB at most.
    uint64_t journal_bytes = 0;
    // Called after each step with the bytes done and in all; may be empty.
    std::function<void(uint64_t done, uint64_t total)> progress;
};

struct EngineOptions {
    // The beginning of path().
    std::string_view name = "embedded engine";
    // The limit for everything that grows with load or with the pool: cached entries, staged
    // payload, bounce buffers, checkpoints being written. The opener of the index gives it
    // `index_share()`.
    uint64_t memory_bytes = 512 << 20;
    // Groups that are written concurrently if they are not large. One batches best on every disk
    // measured.
    uint32_t groups_in_flight = 1;
    // A group with this much payload does not wait to become larger. Up to large_groups_in_flight
    // are written concurrently. Their data take the device longer than their flushes.
    uint64_t large_group_bytes = 1 << 20;
    static constexpr uint32_t large_groups_in_flight = 4;
    // Request slots whose last reply is kept for retries: the limit for one owner of clients, and
    // the least time after a client's last update. For all owners: as many as memory has room for.
    uint32_t replies_per_owner = 65536;
    Duration reply_lease = std::chrono::minutes(2);
    // The time for which pins outlive their session. Its client may reconnect and pin again.
    Duration pin_grace{};
    // Where the list of the holders of pins is kept (pin_holders.h). The store awaits those that it
    // names for `pin_grace` after opening.
    struct PinList {
        // As it was written last. Empty: nobody had pins. A text that is no list: all are awaited.
        std::optional<std::string> text;
        // Replaces it durably. Called on a helper thread. After an error the text is no list. Null:
        // there is no list, and nobody is awaited.
        std::function<Result<>(std::string_view text)> write;
        // The processes of this machine that had the pool have ended. Holders without an owner's
        // name are such, and are not awaited.
        bool processes_ended = false;
    };
    PinList pin_list{};
    bool read_only = false;
    // Accepts a device with the same content on another medium than the recorded one.
    bool accept_copies = false;
    std::string_view read_only_reason = "the pool was opened read-only, as requested";
    // Discards unused blocks, on devices that benefit from it.
    bool discard = true;
    // For 100 blocks that updates write, the cleaner may write this many to make free blocks
    // contiguous; 0: there is no cleaner.
    uint32_t cleaner_percent = 100;
    // With more updates per second than this, the cleaner works less.
    uint32_t cleaner_yields_at = 2000;
    // The size of a section, in blocks: the unit that the cleaner makes free. Tests make it
    // smaller. Pools have 1 MiB.
    uint32_t section_blocks = 256;
    // After almost no updates for this time, spare memory for payload is returned. After no updates
    // for this time, the last group is proven. 0: never.
    Duration rest_after{};

    [[nodiscard]] uint64_t index_share() const { return memory_bytes / 4; }
    [[nodiscard]] uint64_t staging_share() const { return memory_bytes / 4; }
    [[nodiscard]] uint64_t bounce_share() const { return memory_bytes / 16; }
    // For nodes, including dirty ones and the checkpoint being written.
    [[nodiscard]] uint64_t cache_share() const { return memory_bytes / 4; }
    // For the keys of blocks of caches.
    [[nodiscard]] uint64_t caches_share() const { return memory_bytes / 16; }
    [[nodiscard]] uint64_t replies_share() const { return memory_bytes / 16; }
    // Beyond this many bytes of dirty nodes a checkpoint starts; beyond twice this, updates wait
    // for it.
    [[nodiscard]] uint64_t dirty_share() const { return memory_bytes / 16; }
};

}  // namespace ros2s::engine
