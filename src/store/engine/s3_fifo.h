// S3Fifo: the keys of a cache, and the choice of the next one to remove. After "FIFO queues are all
// you need for cache eviction" (SOSP 2023).
//
//   insert ──► small: a tenth of the weight ──► main: what was used since it was inserted
//                 │ not used                      │ not used since its last turn
//                 ▼                               ▼
//              removed; the ghost keeps the hash of what was removed last
//
// A key that the ghost still knows is inserted into main. So keys that are used once, as in a scan,
// pass through `small` and leave main as it is. A key that is pinned is in neither queue.
//
// A key has at most key_bytes_max bytes, and takes at most bytes_per_key of memory, with its part
// of the tables; a little more after many were removed. Memory is charged as if there were
// `keys_least` more, unless there is none.
//
// Entries are numbered without gaps: the last one moves into the place of one that is removed. So
// memory that is not needed any more is free for other caches.
//
// Used on one core. Does not suspend.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ros2s::engine {

class S3Fifo {
  public:
    static constexpr size_t key_bytes_max = 64;
    static constexpr size_t bytes_per_key = 100;
    static constexpr size_t keys_least = 64;

    // The secret is for hashes (hash.h).
    explicit S3Fifo(uint64_t secret) : secret_(secret) { resize(slots_min); }

    [[nodiscard]] size_t size() const { return size_; }
    // Of all keys in the queues, and how many.
    [[nodiscard]] uint64_t weight() const { return small_.weight + main_.weight; }
    [[nodiscard]] size_t queued() const { return small_.keys + main_.keys; }
    [[nodiscard]] uint64_t pinned_weight() const { return pinned_.weight; }
    [[nodiscard]] size_t pinned() const { return pinned_.keys; }
    [[nodiscard]] uint64_t memory_bytes() const;
    // The same with so many keys more, and with room for tables that grow.
    [[nodiscard]] uint64_t charged_bytes(size_t more) const {
        const size_t keys = size_ + more;
        if (keys == 0) return memory_bytes();
        return std::max(memory_bytes(), (keys + keys_least) * bytes_per_key);
    }

    [[nodiscard]] bool contains(std::string_view key) const { return find(key) != none; }
    // Adds a key, or replaces the weight and time of one. `at`: a number that the caller chooses.
    void insert(std::string_view key, uint32_t weight, uint32_t at);
    // A use. Returns the `at` of insert(); nothing: there is no such key.
    std::optional<uint32_t> touch(std::string_view key);
    // The same without a use.
    [[nodiscard]] std::optional<uint32_t> at(std::string_view key) const;
    // What pin() would add to pinned_weight(). Nothing: no queue has the key, and it is not pinned.
    [[nodiscard]] std::optional<uint32_t> weight_to_pin(std::string_view key) const;
    void pin(std::string_view key);
    // It is in main from now on.
    void unpin(std::string_view key);
    // True: it was not being removed.
    bool erase(std::string_view key);

    struct Victim {
        std::string key;
        uint32_t weight = 0;
        uint32_t at = 0;
    };
    // Takes the next victim out of its queue. It stays a key until erase(). Nothing: no queue has a
    // key.
    [[nodiscard]] std::optional<Victim> evict();
    // The same for one key, also if it is pinned. Nothing: it is in no queue.
    [[nodiscard]] std::optional<Victim> take(std::string_view key);
    // Takes keys out of their queues, also pinned ones, that were inserted at `last` or before.
    // Looks at `count` places from `place` on, and moves it. At the end it begins again.
    [[nodiscard]] std::vector<Victim> take_old(uint32_t last, size_t count, size_t& place);
    [[nodiscard]] size_t places() const { return slots_.size(); }
    // A victim stays after all: puts it back as the newest key.
    void restore(std::string_view key);

  private:
    enum class In : uint8_t { none, small, main, pinned, leaving };
    static constexpr uint32_t none = UINT32_MAX;
    static constexpr size_t slab_entries = keys_least;
    static constexpr size_t slots_min = 16;  // a power of two
    static constexpr uint8_t uses_max = 3;

    struct Entry {
        char key[key_bytes_max];
        uint8_t key_bytes;
        In in;
        uint8_t uses;
        uint8_t reserved;
        uint32_t weight;
        uint32_t at;
        uint32_t newer, older;  // in its queue
        [[nodiscard]] std::string_view name() const { return {key, key_bytes}; }
    };
    static_assert(sizeof(Entry) == 84);
    struct Queue {
        uint32_t newest = none, oldest = none;
        uint64_t weight = 0;
        size_t keys = 0;
    };

    [[nodiscard]] static bool is_in_queue(In in) { return in != In::none && in != In::leaving; }
    [[nodiscard]] Entry& entry(uint32_t number) const {
        return slabs_[number / slab_entries][number % slab_entries];
    }
    [[nodiscard]] uint64_t hash(std::string_view key) const;
    [[nodiscard]] uint32_t find(std::string_view key) const;
    [[nodiscard]] size_t slot_of(uint32_t number) const;
    void resize(size_t slots);
    // Frees the entry, which is in no queue and no slot.
    void free_entry(uint32_t number);
    void place(uint32_t number);
    void vacate(size_t slot);
    [[nodiscard]] Queue& queue_of(In in) {
        return in == In::small ? small_ : in == In::main ? main_ : pinned_;
    }
    void push(In in, uint32_t number);
    void unlink(uint32_t number);
    [[nodiscard]] uint16_t& ghost_of(uint64_t hash) { return ghost_[hash & (ghost_.size() - 1)]; }
    [[nodiscard]] Victim leave(uint32_t number);
    [[nodiscard]] std::optional<Victim> evict_small();
    [[nodiscard]] std::optional<Victim> evict_main();

    uint64_t secret_;
    std::vector<std::unique_ptr<Entry[]>> slabs_;
    std::vector<uint32_t> slots_;  // open addressing: the number of an entry, or `none`
    // Parts of the hashes of removed keys, each at its place: a newer one replaces an older one.
    std::vector<uint16_t> ghost_;
    size_t size_ = 0;
    Queue small_, main_, pinned_;
};

}  // namespace ros2s::engine
