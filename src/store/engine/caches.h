// Caches: the keys of the blocks of the pool's caches (object/blocks.h), and the eviction of
// blocks. Part of an open pool, which owns it. Used on core 0.
//
//   a put ─ make_room(): victims are punched until it fits ─ Claim ─ staged: reserved in the caps
//         ─ committed: note() adds the key
//
// The budget of a cache is its container's caps, and its owner's. State counts what is used and
// reserved. A claim is what was made room for and is not reserved yet.
//
// Invariants
// - used + reserved + claimed <= budget. Room is made before a put is admitted.
// - The table has the keys of exactly the blocks that are visible, because note() is called under
//   the locks of their dkeys. load() reads the keys of the blocks that are there at the opening.
// - All tables together take at most their share of the engine's memory. Beyond that, blocks are
//   evicted, too: of the owner of the put, unless another one has more than an equal part.
// - One put at a time makes room in a cache. The others wait for their turn.
// - What is pinned is at most half of a cap. Pins are bounded, and have an eighth of the memory.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "block_pins.h"
#include "lister.h"
#include "reader.h"
#include "ros2s/base/latency_histogram.h"
#include "ros2s/object/blocks.h"
#include "s3_fifo.h"
#include "state.h"

namespace ros2s::engine {

// Of ages of blocks: 1 s to 30 days.
inline constexpr std::array<uint64_t, 9> age_bounds_ns{
    1'000'000'000,      10'000'000'000,      60'000'000'000,
    600'000'000'000,    3'600'000'000'000,   21'600'000'000'000,
    86'400'000'000'000, 604'800'000'000'000, 2'592'000'000'000'000};
using AgeHistogram = Histogram<age_bounds_ns>;

class Caches {
  public:
    struct Cache;
    // A put in progress, and room for it until that is reserved or given up.
    class Claim {
      public:
        Claim& operator=(Claim&&) = delete;
        ~Claim();
        void release();

      private:
        friend class Caches;
        void begin(Caches& caches, std::shared_ptr<Cache> cache, uint64_t bytes);
        Caches* caches_ = nullptr;
        std::shared_ptr<Cache> cache_;
        uint64_t bytes_ = 0;
        uint32_t weight_ = 0;  // of the block that is put
    };

    // `memory_bytes`: limit of all tables.
    Caches(Cores& cores, State& state, Reader& reader, Lister& lister, uint64_t memory_bytes);

    // Set by the pool: Writer::update().
    std::function<Task<Result<object::Commit>>(const Call&, object::ContainerId,
                                               const object::Transaction&)>
        update;

    // True if an operation, or the first item, is of blocks_object.
    [[nodiscard]] static bool concerns(const object::Transaction& transaction);
    [[nodiscard]] static bool concerns(std::span<const object::FetchItem> items);
    // It puts or punches blocks: it is deferred.
    [[nodiscard]] static bool has_blocks(const object::Transaction& transaction);
    // What blocks.h says about transactions. Errors: invalid; unsupported (other operations).
    [[nodiscard]] static Result<> validate(const object::Transaction& transaction);

    // At the opening, before there are requests. Errors: those of the index.
    Task<Result<>> load();
    // Removes old blocks, and blocks for which load() had no memory. Spawned by the pool.
    Task<> run();
    // Waits for the end of run().
    Task<> stop();

    // Before an update of blocks: room for what it adds. Errors: over_cap (it cannot fit; detail:
    // the cap), unsupported (the container is no cache), not_found, and those of the update that
    // removes others.
    Task<Result<>> make_room(const Call& call, object::ContainerId container,
                             const object::Transaction& transaction, Claim& claim);
    // Pins and unpins (object/blocks.h). Errors: over_cap (detail: the cap), no_memory (too many
    // pins; detail: the limit), unsupported, not_found.
    [[nodiscard]] static bool is_of_pins(const object::Transaction& transaction);
    [[nodiscard]] Result<> pin(object::ContainerId container,
                               const object::Transaction& transaction);
    // Its pins end.
    void session_ended(uint64_t session);

    // It was committed. `claim`: as make_room() left it.
    void note(object::ContainerId container, const object::Transaction& transaction,
              const Claim& claim);
    // ObjectStore::fetch(). Counts uses, hides old blocks, and answers cache_use_akey().
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items);
    // The container is destroyed.
    void forget(object::ContainerId container);
    [[nodiscard]] bool is_cache(object::ContainerId container) const {
        return caches_.contains(container);
    }

    [[nodiscard]] uint64_t memory_bytes() const;
    // The sums over all caches.
    [[nodiscard]] object::CacheUse use() const;
    // Of blocks when they were got, and when they were evicted; since they were put, or since the
    // pool was opened. An evicted block whose key had no memory counts as new.
    [[nodiscard]] const AgeHistogram& hit_ages() const { return hit_ages_; }
    [[nodiscard]] const AgeHistogram& evicted_ages() const { return evicted_ages_; }

  private:
    struct Excess {
        uint64_t bytes = 0, blocks = 0;
        uint64_t cap = 0;          // the one in the way
        uint64_t never_below = 0;  // it never fits into this cap
        bool comes_back = false;   // puts or removals in progress may free some
        [[nodiscard]] bool any() const { return bytes > 0 || blocks > 0; }
    };
    [[nodiscard]] std::shared_ptr<Cache> find(object::ContainerId container) const;
    [[nodiscard]] Excess excess(object::ContainerId container, const Cache& cache,
                                uint64_t more) const;
    // Of the tables of some caches, with the keys of puts in progress.
    struct TableUse {
        uint64_t bytes = 0;
        size_t pins = 0;
    };
    struct Owned {
        TableUse amount;
        std::set<object::ContainerId> caches;
    };
    using Owners = std::map<std::string, Owned, std::less<>>;
    // After each change of its keys, pins, puts or owner: keeps the sums.
    void recount(Cache& cache);
    void uncount(Cache& cache);
    // For one more key.
    [[nodiscard]] bool has_memory(const Cache& cache) const;
    // The cache that gives up keys for another one of `cache`: the largest of the owner with most
    // memory, if its own owner has less than an equal part. Else one of its owner.
    [[nodiscard]] object::ContainerId gives_memory(const Cache& cache) const;
    [[nodiscard]] std::string_view owner_of(object::ContainerId container) const;
    // Errors: those of pin().
    [[nodiscard]] Result<> may_pin(object::ContainerId container, const Cache& cache,
                                   const object::Transaction& transaction) const;
    [[nodiscard]] uint64_t pinned_weight(const Owned& owned) const;
    [[nodiscard]] uint64_t pin_bytes_max() const {
        return std::min<uint64_t>(memory_bytes_max_ / 8,
                                  BlockPins::pins_max * BlockPins::bytes_per_pin);
    }
    [[nodiscard]] uint32_t now_s() const;
    void begin(object::ContainerId container, const object::CacheRecord& record);
    Task<Result<>> load(object::ContainerId container, Cache& cache);
    Task<Result<object::ListReply>> list(object::ContainerId container,
                                         std::optional<std::string> after);
    Task<Result<>> evict(object::ContainerId container, Cache& cache, Excess excess);
    Task<Result<>> punch(object::ContainerId container, Cache& cache,
                         std::vector<S3Fifo::Victim> victims, uint64_t object::CacheUse::* cause);
    void count_ages(Cache& cache, std::span<const S3Fifo::Victim> evicted);
    Task<Result<>> punch_group(object::ContainerId container,
                               std::span<const S3Fifo::Victim> victims);
    // Removes the block if it is old: a hidden one is in the way of another one with its key.
    Task<Result<>> remove_if_old(const Call& call, object::ContainerId container, Cache& cache,
                                 const std::string& key);
    Task<Result<>> drop_unknown(object::ContainerId container, Cache& cache);
    Task<Result<>> remove_old(object::ContainerId container, Cache& cache);
    [[nodiscard]] static bool is_answered(const Cache& cache, object::FetchItem& item);
    void fetched(Cache& cache, std::span<object::FetchItem> items);
    void answer_use(const Cache& cache, object::FetchItem& item) const;

    Cores& cores_;
    State& state_;
    Reader& reader_;
    Lister& lister_;
    Reactor& reactor_;
    const uint64_t memory_bytes_max_;
    const uint64_t secret_;
    std::map<object::ContainerId, std::shared_ptr<Cache>> caches_;
    TableUse all_;
    Owners owners_;  // of caches
    AgeHistogram hit_ages_, evicted_ages_;
    StopSource stopping_;
    bool is_running_ = false;
    Event changed_;  // run() may have something to do
    Event ended_;    // it has ended
};

}  // namespace ros2s::engine
