// Dfs: POSIX over any ObjectStore that has transactions over several objects, and conditions. What
// it keeps there is in docs/formats/dfs.md.
//
// Ownership: the store and the reactor outlive the file system. Thread rule: as FileSystem.
//
// What differs from a local file system, and why, is in docs/decisions/0501-dfs-posix.md: access
// times change only when they are set; directories have one link; a write clears set-id bits
// whoever writes.
//
// Several mounts of a container work on the same names, also in other processes. What one has open
// none of the others punches: the store keeps its pins (docs/decisions/0505-pins.md).
#pragma once
#include <memory>

#include "ros2s/base/metrics.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/object/object_store.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::fs {

struct DfsOptions {
    uint32_t slots = 256;   // updates in flight at once; more wait
    uint32_t fan_out = 32;  // parts of one large request in flight at once
    // Of a write over several chunks, what one transaction takes.
    uint64_t write_bytes_max = 4 << 20;
    uint32_t node_ids_per_lease = 4096;
    // Chunks punched by one transaction, when a large file goes.
    uint32_t punch_chunks_max = 1024;
    // For so long after the mount no file goes, whether an earlier mount left it without a name or
    // it loses it now: who had it open there will open it again. 0: they go when it is mounted.
    Duration orphan_grace{};
    // While it is there and says true, a file without a name stays when its last handle is closed,
    // for the next mount: this one ends, and those who have it open will open it again there.
    const bool* leaves_orphans = nullptr;
    // False: a mount that only looks; it punches nothing, at no time.
    bool reaps = true;
    // Files without a name that other mounts have open are looked at again after so long.
    Duration orphan_sweep = std::chrono::seconds(30);
};

// Objects that no inode and no orphan's record belongs to: space that nobody can reach.
struct Leaks {
    uint64_t objects = 0;
    uint64_t bytes = 0;
};

class Dfs : public FileSystem {
  public:
    // Makes an empty file system, with a root of mode 0755 that belongs to `owner`, in an empty
    // container. Errors (each with a sentence): exists, unsupported (by the store), not_found (the
    // container).
    [[nodiscard]] static Task<Result<>> format(const Call& call, object::ObjectStore& store,
                                               object::ContainerId container, Reactor& reactor,
                                               Owner owner, Report& report);
    // Opens it, and punches what files without a name an earlier mount left and no other one has
    // open (but orphan_grace).
    // Errors: not_found (no file system there), bad_version, unsupported, corrupt.
    [[nodiscard]] static Task<Result<std::unique_ptr<Dfs>>> mount(
        const Call& call, object::ObjectStore& store, object::ContainerId container,
        Reactor& reactor, DfsOptions options, Report& report);

    // Looks at every object of the container; others may use it meanwhile. `free`: punches what it
    // finds.
    virtual Task<Result<Leaks>> check(const Call& call, bool free) = 0;

    virtual void visit_metrics(const MetricVisitor& visit) const = 0;
};

}  // namespace ros2s::fs
