// CachedPages: copies of pages in the kernel's page cache. They belong to files that programs may
// change through shared mappings. The mount's reads and writes bypass that cache.
//
// The kernel writes a page of a mapping back whole, although a program stored only a few bytes of
// it. The other bytes may be old: they may lack a write(2) that was in progress when the page was
// read, or a write of another mount. This class keeps a copy of each page that the kernel was
// given. Programs have stored the bytes in which the page differs from its copy. Only these bytes
// are written.
//
// Copies are kept while the file is open for writing. Together they have a limit; beyond it the
// oldest are dropped. A page without a copy is written whole.
//
// Reads into the page cache and write-backs (paged) do not overlap in time with direct writes of
// the same bytes. They begin in the order of their arrival. Therefore it is known for each copy
// whether a direct write came after it.
//
// Invariants
// - A copy is what the kernel's page held when it was last clean.
// - Operations wait only for operations that arrived before them.
#pragma once
#include <array>
#include <list>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ros2s/base/bytes.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/sync.h"
#include "ros2s/runtime/task.h"

namespace ros2s::fuse {

class CachedPages {
  public:
    enum class Kind : uint8_t { paged, direct };
    struct Range {
        uint64_t offset = 0, length = 0;
        [[nodiscard]] uint64_t end() const noexcept { return offset + length; }
        friend bool operator==(const Range&, const Range&) = default;
    };

  private:
    struct Operation {
        Kind kind = Kind::paged;
        Range range;
    };
    struct Copy {
        fs::NodeId node;
        uint64_t block = 0;
        bool is_overtaken = false;  // by a direct write, which the kernel's page may lack
        std::array<std::byte, block_bytes> bytes;
    };
    using Copies = std::list<Copy>;  // oldest first
    struct File {
        explicit File(Reactor& reactor) : ended(reactor) {}
        size_t writers = 0;                           // handles that are open for writing
        std::list<Operation> operations;              // in order of arrival
        Event ended;                                  // woken whenever one of them ends
        std::map<uint64_t, Copies::iterator> copies;  // by block
    };

  public:
    // One operation of a file, from its beginning to its end. Empty if the file needs none.
    class [[nodiscard]] RunningOperation {
      public:
        RunningOperation() = default;
        RunningOperation(RunningOperation&& other) noexcept
            : pages_(std::exchange(other.pages_, nullptr)),
              node_(other.node_),
              operation_(other.operation_) {}
        RunningOperation& operator=(RunningOperation&& other) noexcept {
            std::swap(pages_, other.pages_);
            std::swap(node_, other.node_);
            std::swap(operation_, other.operation_);
            return *this;
        }
        ~RunningOperation() {
            if (pages_ != nullptr) pages_->end(node_, operation_);
        }
        explicit operator bool() const noexcept { return pages_ != nullptr; }

      private:
        friend CachedPages;
        RunningOperation(CachedPages& pages, fs::NodeId node,
                         std::list<Operation>::iterator operation)
            : pages_(&pages), node_(node), operation_(operation) {}
        CachedPages* pages_ = nullptr;
        fs::NodeId node_{};
        std::list<Operation>::iterator operation_{};
    };

    CachedPages(Reactor& reactor, uint64_t bytes_max)
        : reactor_(reactor), copies_max_(bytes_max / block_bytes) {}

    // One more handle of the file is open for writing, or one less.
    void opened(fs::NodeId node);
    void closed(fs::NodeId node);

    // Waits for the operations of the other kind that arrived before and overlap. The result is
    // empty if the file is not open for writing.
    Task<RunningOperation> begin(fs::NodeId node, Kind kind, Range range);

    // The rest is for a paged operation that runs.

    // The kernel's pages from `offset` on hold `bytes` now, and zeros up to `length`. `offset` and
    // `length` are those of pages.
    void filled(fs::NodeId node, uint64_t offset, ConstBytes bytes, uint64_t length);
    // The ranges of the pages `bytes`, from `offset` on, that programs have stored. Where no direct
    // write of this mount came after the copy, short gaps of equal bytes are included.
    [[nodiscard]] std::vector<Range> stored(fs::NodeId node, uint64_t offset,
                                            ConstBytes bytes) const;
    // The file holds these bytes of the kernel's page now.
    void written(fs::NodeId node, uint64_t offset, ConstBytes bytes);

    [[nodiscard]] size_t copies() const noexcept { return copies_.size(); }

  private:
    void end(fs::NodeId node, std::list<Operation>::iterator operation);
    void drop_if_unused(fs::NodeId node);
    void drop_copy(File& file, std::map<uint64_t, Copies::iterator>::iterator copy);

    Reactor& reactor_;
    size_t copies_max_;
    Copies copies_;
    std::unordered_map<uint64_t, File> files_;  // by node
};

}  // namespace ros2s::fuse
