// Dfs: POSIX over any ObjectStore that has conditions and transactions over several objects.
// docs/formats/dfs.md describes what it stores.
//
// Ownership: the store and the reactor outlive the file system. Thread rule: as FileSystem.
//
// docs/decisions/0501-dfs-posix.md lists the differences from a local file system and their
// reasons: access times change only when they are set; directories have one link.
//
// Several mounts of a container, also in other processes, use the same names. No mount punches a
// file that another one has open: the store keeps pins (docs/decisions/0505-pins.md).
#pragma once
#include <memory>
#include <string>

#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/base/quota.h"
#include "ros2s/fs/change_log.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/fs/listing_memory.h"
#include "ros2s/fs/unsynced.h"
#include "ros2s/object/object_store.h"
#include "ros2s/object/store_layer.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::fs {

struct DfsOptions {
    uint32_t slots = 256;                    // updates in flight at once; further ones wait
    static constexpr uint32_t fan_out = 32;  // parts of one large request in flight at once
    // Payload of one transaction of a write over several chunks.
    uint64_t write_bytes_max = 4 << 20;
    // Limits of one transaction of the store. A store layer (object/store_layer.h) has lower limits
    // than the store below it.
    size_t operations_max = object::transaction_operations_max;
    uint64_t transaction_bytes_max = object::transaction_bytes_max;
    uint32_t node_ids_per_lease = 4096;
    // Limits of one transaction that removes part of a large file: the number of chunks, and their
    // bytes if they are full. A store holds the maps of all chunks of a transaction in memory.
    uint32_t punch_chunks_max = 1024;
    uint64_t punch_bytes_max = uint64_t{1} << 30;
    // Unlinked files that an earlier mount left are kept for this long, so that its clients can
    // reopen them. If the store forgets pins with its process (Features::own_pins), this covers
    // files that are unlinked meanwhile, too. 0: they are removed at the mount.
    Duration orphan_grace{};
    // If set and true, this mount is ending: it keeps an unlinked file at the last close, so that
    // clients can reopen the file in the next mount.
    const bool* leaves_orphans = nullptr;
    // Replies come with leases for callers that keep them (FileSystem::leases()), if the store has
    // leases. A store with one user needs none.
    bool takes_leases = false;
    // False: a mount for reading only. It never punches anything.
    bool reaps = true;
    // Changes of a container with durability=fsync are deferred, if the store can. Else each is
    // durable when it returns. Only for a mount whose users are one client: they see each other's
    // changes before they are durable.
    bool defers = false;
    // Not empty: an exclusive mount. Others are told by this name who has it.
    // Its users may then keep what they read, and changes. Errors of the mount also: busy (others
    // have it open), unsupported (its changes are not deferred, or the store has no locks).
    std::string exclusive_as{};
    // For the logs of deferred changes. Null: the mount's own.
    ChangeLogMemory* change_logs = nullptr;
    // Whose changes these are.
    uint64_t tenant = 0;
    // What is acknowledged and may not be durable yet, for others that show it. Null: the mount's
    // own.
    std::shared_ptr<Unsynced> unsynced{};
    // For the names that open directories keep. Null: the mount's own.
    ListingMemory* listings = nullptr;
    // For bytes that are written to files of a cache and not closed. Null: the mount's own.
    Quota* unfinished = nullptr;
    // Interval for checking files without names that other mounts have open.
    Duration orphan_sweep = std::chrono::seconds(30);
    // Finds the layer that a container needs on its store. Null: this program has none. Only
    // open_container() uses it.
    object::StoreLayers* layers = nullptr;
    // The layer that was found. The mount's store belongs to it.
    std::shared_ptr<object::ObjectStore> layer{};
    // Receives an error line if the mount stops updates of the container (DfsMount::commit).
    Log log{};
    std::string shown = "a container";  // in its lines; open_container() sets it
    std::string mounted_as{};           // a part of that: "mounted on /mnt"
};

struct Leaks {
    // Objects without an inode and without an orphan record: unreachable space.
    uint64_t objects = 0;
    uint64_t bytes = 0;
    // Keys in directories that are not entries. They prevent the removal of their directory.
    uint64_t keys = 0;
};

class Dfs : public FileSystem {
  public:
    // Creates an empty file system in an empty container, with a root of mode 0755 that belongs to
    // `owner`. With `keys` the file system is encrypted, as require_decryption() (container.h)
    // declares it. The same transaction stores the keys. Errors (each with a sentence): exists,
    // unsupported (by the store), too_large (the chunks), not_found (the container).
    [[nodiscard]] static Task<Result<>> format(const Call& call, object::ObjectStore& store,
                                               object::ContainerId container, Reactor& reactor,
                                               Owner owner, Report& report,
                                               const object::Operation* keys = nullptr);
    // Opens the file system. Punches files without names that an earlier mount left and no other
    // mount has open (after orphan_grace). Errors: not_found (no file system there), bad_version,
    // unsupported, corrupt.
    [[nodiscard]] static Task<Result<std::unique_ptr<Dfs>>> mount(
        const Call& call, object::ObjectStore& store, object::ContainerId container,
        Reactor& reactor, DfsOptions options, Report& report);

    // Checks every object of the container. Other clients may use it at the same time. `free`:
    // punches the objects and keys that it finds.
    virtual Task<Result<Leaks>> check(const Call& call, bool free) = 0;

    virtual void visit_metrics(const MetricVisitor& visit) const = 0;
};

}  // namespace ros2s::fs
