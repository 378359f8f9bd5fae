// TreeCopy: copies a file or a whole tree from one file system to another, with modes, times, links
// (hard and symbolic), holes and user xattrs. A container also gets owners, set-id bits and access
// lists. A local path gets them only on request, because a container's tenants must not gain rights
// on this machine.
//
// Five passes: (1) scan the source, which also gives the total for the progress line; (2) make
// directories from the top down; (3) copy files concurrently, because each step on the target is
// durable when it returns and a group of them shares one flush; (4) make the other names of hard
// links; (5) set the attributes of directories, because the earlier passes change their times.
//
// Invariants
// - A file's first name is copied, its others become links to that copy.
// - A regular file gets its name when its copy is complete; until then the earlier file stays.
// - A failure inside a tree is reported, and the rest is copied; the result is then an error. A
//   failure that affects the rest (the root's own, no space, an interruption) ends the copy: the
//   running steps are finished, and no new ones begin.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "locations.h"
#include "output/progress.h"
#include "ros2s/base/bytes.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::cli {

struct CopyCounts {
    uint64_t files = 0, directories = 0, symbolic_links = 0, hard_links = 0, others = 0;
    uint64_t bytes = 0;
    CopyCounts& operator+=(const CopyCounts& other) {
        files += other.files;
        directories += other.directories;
        symbolic_links += other.symbolic_links;
        hard_links += other.hard_links;
        others += other.others;
        bytes += other.bytes;
        return *this;
    }
};

class TreeCopy {
  public:
    // `preserve`: keep owners (as root), set-id bits and access lists also at a local path.
    TreeCopy(CommandContext context, const Location& from, const Location& to, bool preserve);

    // Copies the node `source`, found as `from_slot`, to the name `to_slot`. If both are
    // directories they are merged; files are overwritten.
    Task<Result<>> copy(Entry from_slot, fs::Attributes source, Entry to_slot);
    // Copies the contents of the directory `source` into the directory `into`.
    Task<Result<>> copy_content(fs::Attributes source, fs::NodeId into);
    [[nodiscard]] const CopyCounts& counts() const { return counts_; }

  private:
    static constexpr size_t none = SIZE_MAX;
    struct Item {
        size_t parent = none;  // the item of its directory
        std::string name;      // in the source and, except for the first item, in the target
        fs::Attributes source;
        fs::NodeId made{};  // the copy; 0 if there is none
        Error failure{};    // the reason
    };

    class BufferHold;

    Task<Result<>> run();
    Task<Result<>> scan();
    Task<> scan_directory(size_t index);
    Task<Result<>> make_directories();
    Task<> make_directory(size_t index);
    Task<Result<>> finish_directories();
    Task<> finish_directory(size_t index);

    Task<Result<>> copy_files();
    Task<> copy_item(size_t index);
    Task<Result<>> copy_file(size_t index, fs::NodeId source);
    Task<Result<>> write_file(size_t index, const fs::Opened& from, const std::string& name);
    Task<Result<>> copy_data(const fs::Opened& from, fs::NodeId to, fs::FileHandle handle);
    Task<uint64_t> skip_hole(fs::FileHandle from, uint64_t offset, uint64_t size);
    Task<> copy_piece(fs::FileHandle from, fs::FileHandle to, uint64_t offset, bool sparse,
                      uint64_t& end, Result<>& failure);
    Task<Result<>> copy_symbolic_link(size_t index, fs::NodeId source);
    Task<Result<>> copy_special(size_t index);
    Task<Result<>> clear_name(size_t index);
    Task<Result<>> link_names();
    Task<> link_name(size_t index, fs::NodeId first);

    Task<Result<>> copy_xattrs(fs::NodeId from, fs::NodeId to);
    Task<Result<>> set_attributes(const fs::Attributes& source, fs::NodeId to);
    Task<Result<>> set(fs::NodeId to, fs::SetAttributes changes);
    [[nodiscard]] mode_t mode_of(const fs::Attributes& source) const;
    [[nodiscard]] bool keeps_owners() const;
    [[nodiscard]] fs::Owner owner_of(const fs::Attributes& source) const;

    [[nodiscard]] static bool keeps_node(const fs::Attributes& attributes);
    void release_nodes();
    [[nodiscard]] fs::NodeId source_directory(const Item& item) const;
    [[nodiscard]] fs::NodeId target_directory(const Item& item) const;
    [[nodiscard]] std::string target_name(size_t index) const;
    [[nodiscard]] std::string path_of(size_t index) const;
    [[nodiscard]] bool go_on();
    void note(size_t index, const Error& error);

    CommandContext context_;
    const Location& from_;
    const Location& to_;
    const bool keeps_power_;  // owners, set-id bits and access lists
    Progress progress_;
    std::vector<Item> items_;  // directories before their contents
    Entry from_slot_, to_slot_;
    bool merge_root_ = false;  // the first item's target is to_slot_.directory itself
    std::map<fs::NodeId, size_t> first_names_;  // of files with several names
    uint64_t total_bytes_ = 0;
    CopyCounts counts_;
    uint64_t failures_ = 0;  // reported so far
    Error first_failure_{};
    Result<> stopped_;
    const uint64_t mark_;  // in the names of files that are not complete yet
    const size_t files_side_by_side_;

    Semaphore buffer_slots_;
    std::vector<AlignedBuffer> free_buffers_;
};

}  // namespace ros2s::cli
