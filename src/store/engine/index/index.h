// Index: the ordered key-value map with a pool's metadata between checkpoints. Implementations:
// sim/OrderedMapIndex (simulation), rocksdb/RocksDbIndex. Both pass one contract suite
// (contract.h).
//
// Calls except get_cached() and scan_cached() block (a miss reads the disk), so a core makes them
// through BlockingPool. They may be made from any thread and concurrently, except close(), which is
// the last call.
//
// Crash contract. After a crash of the process or the machine the index has exactly the batches
// applied up to some point: whole batches, in the order of apply(). That point is at or after the
// last flush() that returned without an error. A caller that keeps a position in every batch
// therefore finds its progress in the index itself. Batches that were never flushed may survive.
//
// Invariants
// - A get() or one scan() sees each batch completely or not at all; two calls may see different
//   states.
// - Keys are ordered as unsigned bytes (memcmp, the shorter first).
// - After apply() or flush() has failed the caller stops writing: it is unknown what is durable
//   until the index is opened again. Reads remain allowed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ros2s/base/check.h"
#include "ros2s/base/result.h"

namespace ros2s::engine {

// Maximum length of keys; of values: index_value_bytes_max. Longer ones are our bug.
inline constexpr size_t index_key_bytes_max = 16 * 1024;
inline constexpr size_t index_value_bytes_max = 16 * 1024 * 1024;

// Puts and erasures in order: the unit that apply() makes visible and durable as a whole. A later
// operation on a key wins. The bytes are copied, into chunks of about 1 MiB. The index can release
// the chunks one by one while it reads them: a large checkpoint is not held twice.
class IndexBatch {
  public:
    IndexBatch() = default;
    // A moved-from batch is empty and can be filled again.
    IndexBatch(IndexBatch&& other) noexcept { *this = std::move(other); }
    IndexBatch& operator=(IndexBatch&& other) noexcept {
        chunks_ = std::exchange(other.chunks_, {});
        count_ = std::exchange(other.count_, 0);
        bytes_ = std::exchange(other.bytes_, 0);
        return *this;
    }

    void put(std::string_view key, std::string_view value);
    void erase(std::string_view key);
    // Appends all of `other`.
    void append(IndexBatch&& other);

    [[nodiscard]] bool empty() const { return count_ == 0; }
    [[nodiscard]] size_t count() const { return count_; }
    // Memory held.
    [[nodiscard]] size_t bytes() const { return bytes_; }

    // Calls visit(key, value) for each operation in order. `value` is a const std::string_view*;
    // null for an erasure. Frees the memory on the way. Leaves the batch empty.
    template <class Visit>
    void consume(Visit visit) {
        for (auto& chunk : chunks_) {
            const char* at = chunk.bytes.get();
            const char* const end = at + chunk.used;
            while (at != end) at = visit_one(at, visit);
            chunk.bytes.reset();
        }
        chunks_.clear();
        count_ = bytes_ = 0;
    }

  private:
    struct Header {
        uint32_t key_bytes;
        uint32_t value_bytes;  // erased, or the value's length
    };
    static constexpr uint32_t erased = UINT32_MAX;
    struct Chunk {
        std::unique_ptr<char[]> bytes;
        size_t size = 0, used = 0;
    };
    void add(std::string_view key, std::string_view value, uint32_t value_bytes);
    template <class Visit>
    static const char* visit_one(const char* at, Visit& visit) {
        Header header;
        std::char_traits<char>::copy(reinterpret_cast<char*>(&header), at, sizeof header);
        at += sizeof header;
        const std::string_view key(at, header.key_bytes);
        at += key.size();
        if (header.value_bytes == erased) {
            visit(key, static_cast<const std::string_view*>(nullptr));
            return at;
        }
        const std::string_view value(at, header.value_bytes);
        visit(key, &value);
        return at + value.size();
    }

    std::vector<Chunk> chunks_;
    size_t count_ = 0, bytes_ = 0;
};

struct IndexEntry {
    std::string key, value;
    friend bool operator==(const IndexEntry&, const IndexEntry&) = default;
};

// The keys k with from <= k < to; an empty `to` means no upper end.
struct IndexScan {
    // A scan of at most so many entries may keep in the cache what it read.
    static constexpr size_t few = 16;

    std::string from, to;
    size_t limit = 1000;             // entries in a page; at least 1
    size_t bytes_max = 1024 * 1024;  // keys and values in a page; one entry always fits
    bool reverse = false;            // greatest key first
    bool keys_only = false;          // leaves the values empty
};
struct IndexPage {
    std::vector<IndexEntry> entries;
    // More keys of the range follow: continue after the last entry (forward: `from` = its key and a
    // zero byte; reverse: `to` = its key). False only at the end of the range.
    bool more = false;
};

class Index {
  public:
    virtual ~Index() = default;
    Index& operator=(Index&&) = delete;

    // Errors of get and scan: io, corrupt, no_memory (the cache's budget), closed.
    [[nodiscard]] virtual Result<std::optional<std::string>> get(std::string_view key) = 0;
    // The result of get(), if memory has it. Reads no disk. Empty: call get(), which may also fail.
    [[nodiscard]] virtual std::optional<std::optional<std::string>> get_cached(
        std::string_view key) = 0;
    [[nodiscard]] virtual Result<IndexPage> scan(const IndexScan& scan) = 0;
    // The same for scan(); its limit should be few. Empty also if erased keys would make it long.
    [[nodiscard]] virtual std::optional<IndexPage> scan_cached(const IndexScan& scan) = 0;
    // Visible when it returns; durable after a later flush(). The caller orders its calls: two
    // concurrent calls are each atomic, in an unknown order. Errors: io, no_space, read_only,
    // closed.
    [[nodiscard]] virtual Result<> apply(IndexBatch batch) = 0;
    // Everything applied before the call is durable on return. Errors as apply. Never repeat it.
    [[nodiscard]] virtual Result<> flush() = 0;

    // Memory that the index holds now: caches, unflushed batches, open tables.
    [[nodiscard]] virtual uint64_t memory_bytes() const = 0;
    // Bytes on the disk now, including those that compaction will free.
    [[nodiscard]] virtual uint64_t disk_bytes() const = 0;
    // Stops background work and releases the files and the lock. Does not flush: unflushed batches
    // may be lost. No call may be running; later calls fail with closed.
    [[nodiscard]] virtual Result<> close() = 0;
};

}  // namespace ros2s::engine
