// HandleTable: the open files. A handle is an index and a generation. A handle that was closed or
// never existed is therefore detected, and does not reach another file.
//
// Used on one core. An OpenFile exists while `in_flight` calls use it, even if it is closed
// meanwhile.
#pragma once
#include <memory>
#include <vector>

#include "caller.h"
#include "file_system.h"
#include "file_use.h"
#include "node_table.h"
#include "readdir_cookies.h"
#include "ros2s/base/metrics.h"

namespace ros2s::fs {

struct OpenFile {
    OpenFile(Reactor& reactor, NodeState& state, OpenFlags open_flags, mode_t type,
             ListingMemory& listings)
        : node(state),
          flags(open_flags),
          is_directory(S_ISDIR(type)),
          idle(reactor),
          cookies(listings) {}

    NodeState& node;  // pinned
    OpenFlags flags;
    bool is_directory;
    SetIds clears = SetIds::all;  // by each change of the contents
    uint32_t in_flight = 0;
    Event idle;  // woken when in_flight becomes 0
    ReaddirCookies cookies;
    // Those that have set locks through this handle.
    std::vector<LockOwner> lock_owners;
    // Reads up to here are likely to be whole: DfsMount::locate().
    uint64_t known_end = 0;
    uint64_t losses_told = 0;  // as DfsMount::loss_told_
    Counter reads, read_bytes, writes, written_bytes;
};

class HandleTable {
  public:
    static constexpr size_t handles_max = size_t{1} << 20;

    [[nodiscard]] bool full() const { return free_.empty() && slots_.size() == handles_max; }
    [[nodiscard]] FileHandle add(std::unique_ptr<OpenFile> file) {
        ROS2S_CHECK(!full());
        if (free_.empty()) {
            free_.push_back(static_cast<uint32_t>(slots_.size()));
            slots_.emplace_back();
        }
        const uint32_t index = free_.back();
        free_.pop_back();
        slots_[index].file = std::move(file);
        return handle_of(index);
    }
    // Null if the handle is not open.
    [[nodiscard]] OpenFile* find(FileHandle handle) const {
        const uint64_t index = handle.value & 0xffffffff;
        if (index >= slots_.size() || handle != handle_of(static_cast<uint32_t>(index))) {
            return nullptr;
        }
        return slots_[index].file.get();
    }
    // From here on the handle is stale. Null if it already was.
    [[nodiscard]] std::unique_ptr<OpenFile> remove(FileHandle handle) {
        if (find(handle) == nullptr) return nullptr;
        const auto index = static_cast<uint32_t>(handle.value & 0xffffffff);
        ++slots_[index].generation;
        free_.push_back(index);
        return std::move(slots_[index].file);
    }
    [[nodiscard]] std::vector<FileHandle> all() const {
        std::vector<FileHandle> handles;
        for (uint32_t i = 0; i < slots_.size(); ++i) {
            if (slots_[i].file != nullptr) handles.push_back(handle_of(i));
        }
        return handles;
    }

  private:
    struct Entry {
        uint32_t generation = 1;
        std::unique_ptr<OpenFile> file;
    };
    [[nodiscard]] FileHandle handle_of(uint32_t index) const {
        return {uint64_t{slots_[index].generation} << 32 | index};
    }
    std::vector<Entry> slots_;
    std::vector<uint32_t> free_;
};

}  // namespace ros2s::fs
