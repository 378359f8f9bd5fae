// PageReads: the pages that programs have put into the kernel's page cache, on a mount whose reads
// bypass that cache. Mappings, sendfile and splice put them there: the kernel uses the page cache
// for them on such files as well. Nobody tells the kernel when another mount changes the file.
//
// The kernel drops the pages a second later, unless the program that read them has the file mapped.
// The kernel's request does not say whether a read is for a mapping, but /proc/PID/maps shows it.
// Pages of a mapping stay, because a program touches them again and again. They are looked at again
// after a while.
//
// Invariant: at most reads_max entries. Pages of further reads stay until their file is mapped.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
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
    };
    // Together with the time of one look they are at most a second.
    static constexpr Duration lifetime = std::chrono::milliseconds(500);
    static constexpr Duration look_interval = std::chrono::milliseconds(400);
    static constexpr Duration mapped_lifetime = std::chrono::seconds(10);
    static constexpr size_t reads_max = 65'536;

    // `program` has read these bytes. 0: it is not known, because it is in another PID namespace.
    void note(Time now, fs::NodeId node, pid_t program, uint64_t offset, uint64_t length);
    // The kernel has dropped the file, and its pages with it.
    void forget(fs::NodeId node);
    // Removes and returns what is old enough.
    [[nodiscard]] std::vector<Read> take_due(Time now);
    // The program has the file mapped.
    void keep(Time now, const Read& read);

  private:
    struct Pages {
        Time due;
        uint64_t begin = 0, end = 0;
    };
    std::map<std::pair<uint64_t, pid_t>, Pages> reads_;  // by node and program
};

// Divides `reads` into those whose program has the file mapped, or may have, and the others.
// `device` is the one of the mount, as in mountinfo. Reads files in /proc, so it may block.
struct MappedReads {
    std::vector<PageReads::Read> mapped, others;
};
[[nodiscard]] MappedReads find_mapped(const std::vector<PageReads::Read>& reads,
                                      const std::string& device);

// Makes the kernel drop the pages. Waits for pages that are being read by other requests, so it is
// called on a thread that answers none.
void drop_pages(int fuse_descriptor, const PageReads::Read& read) noexcept;

}  // namespace ros2s::fuse
