// PageReads: the pages that programs have put into the kernel's page cache, on a mount whose files
// others change, too.
//
// Leased pages were read while the mount held a lease of the file (fs/leases.h). They stay as long
// as it holds that lease, and are dropped before another mount changes the file.
//
// Others were read without a lease, or of a file that is open for writing here. Mappings, sendfile
// and splice put them there: the kernel uses the page cache for them on each file. Nobody tells
// the kernel when another mount changes the file. The kernel drops these pages a second later,
// unless the program that read them has the file mapped. The kernel's request does not say whether
// a read is for a mapping, but /proc/PID/maps shows it. Pages of a mapping stay until the file has
// changed, because a program touches them again and again. So they are dropped once, when the time
// of the file's last change gets known, and then whenever that is another.
//
// Invariants: at most reads_max entries; pages of further reads stay until their file is opened or
// mapped. At most leased_max files with leased pages; others have none.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/time.h"

namespace ros2s::fuse {

class PageReads {
  public:
    // Pages that one program has read: the smallest range that has them all.
    struct Read {
        fs::NodeId node;
        pid_t program = 0;
        uint64_t begin = 0, end = 0;
        // When the file had changed last, as was known before these pages were read.
        std::optional<WallTime> changed{};
    };
    // Together with the time of one look they are at most a second.
    static constexpr Duration lifetime = std::chrono::milliseconds(500);
    static constexpr Duration look_interval = std::chrono::milliseconds(400);
    static constexpr size_t reads_max = 65'536;
    static constexpr size_t leased_max = size_t{1} << 18;

    // ---- leased pages
    // Pages of the file are about to be read under this lease. False: there is no room.
    bool note_leased(fs::NodeId node, uint64_t lease);
    // All pages of the file that the kernel has were read under this lease.
    [[nodiscard]] bool are_leased(fs::NodeId node, uint64_t lease) const;
    // From now on they are not. True: they were, and may have to be dropped.
    bool take_leased(fs::NodeId node) { return leased_.erase(node.value) > 0; }
    [[nodiscard]] std::vector<fs::NodeId> take_all_leased();

    // ---- others
    // `program` has read these bytes. 0: it is not known, because it is in another PID namespace.
    void note(Time now, fs::NodeId node, pid_t program, uint64_t offset, uint64_t length);
    // The kernel has dropped a reference to the file, and its pages with the last one.
    void forget(fs::NodeId node);
    // Removes and returns what is old enough.
    [[nodiscard]] std::vector<Read> take_due(Time now);
    // The program has the file mapped: it is looked at again after `lifetime`.
    void keep(Time now, const Read& read);

  private:
    struct Pages {
        Time due;
        uint64_t begin = 0, end = 0;
        std::optional<WallTime> changed{};
    };
    [[nodiscard]] bool has_others(fs::NodeId node) const {
        const auto found = reads_.lower_bound({node.value, 0});
        return found != reads_.end() && found->first.first == node.value;
    }

    std::map<std::pair<uint64_t, pid_t>, Pages> reads_;  // by node and program
    std::unordered_map<uint64_t, uint64_t> leased_;      // leases, by node
};

// Divides `reads` into those whose program has the file mapped, or may have, and the others.
// `device` is the one of the mount, as in mountinfo. Reads files in /proc, so it may block.
struct MappedReads {
    std::vector<PageReads::Read> mapped, others;
};
[[nodiscard]] MappedReads find_mapped(const std::vector<PageReads::Read>& reads,
                                      const std::string& device);

}  // namespace ros2s::fuse
