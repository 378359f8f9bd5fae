// SimulatedFiles: a file system in memory that loses what a power failure may lose, for RocksDB.
// Mount it, give the Env to RocksDbOptions, crash, mount again: the files that survived are there.
//
// Fault model of crash()
// - Appended bytes that were not synced: a random length of them survives, from none to all. In
//   some crashes, pages of the surviving tail read as zeros (the length reached the disk, the data
//   did not). Synced bytes always survive. Stale contents of other files never appear.
// - Files created, renamed or deleted in a directory that was not synced since: all of these
//   changes, none, the first few, or any subset in their order survives. A rename is one change.
//   Syncing a file does not make its name durable.
// - Freeze: every call through an Env from before the crash fails with an I/O error and changes
//   nothing, so that the crashed database can be destroyed later.
// crash_after() does the same right after a given change. Also, syncs can fail (their data stay
// unsynced) and the disk can be full. Death of the process alone is not modelled: it loses less
// than a power failure does.
//
// Reproduction from a seed: all decisions come from the seed and the state of the tree, in the
// order of names. The order of changes is RocksDB's. With compaction off and flush() awaited, its
// table and manifest writes follow each other. But a background thread deletes obsolete files and
// may run beside the next call. So the number of a change, and whether a deletion came before a
// crash, can differ by a few from run to run. Contents differ in the random identifiers that
// RocksDB puts into its files. A failing seed therefore nearly always fails again. The contract
// must hold in every order.
//
// Thread rule: any thread; one lock.
#pragma once
#include <cstdint>
#include <memory>

#include "ros2s/base/random.h"
#include "ros2s/base/result.h"

namespace rocksdb {
class Env;
}

namespace ros2s::engine {

class Tree;

class SimulatedFiles {
  public:
    SimulatedFiles();
    ~SimulatedFiles();
    SimulatedFiles& operator=(SimulatedFiles&&) = delete;

    // The file system as it is now, with the directory "/" and everything in it. The Env may
    // outlive a crash, and this object.
    [[nodiscard]] std::shared_ptr<rocksdb::Env> mount();

    void crash(Random& random);
    // Crashes after that many more changes (appends, syncs, creations, renames, deletions).
    void crash_after(uint64_t changes, uint64_t seed);
    // Cancels a planned crash. True if it has happened since it was planned.
    bool cancel_crash();

    // From now on syncs of files and directories fail, until reset or a crash.
    void fail_syncs(bool fail);
    // The limit for all files together; beyond it the disk is full. Default: no limit.
    void set_capacity(uint64_t bytes);

    [[nodiscard]] uint64_t changes() const;
    // Bytes in all files that have a name.
    [[nodiscard]] uint64_t bytes() const;
    // Changes that a crash could lose now: unsynced appends and directory changes.
    [[nodiscard]] uint64_t unsynced() const;

  private:
    std::shared_ptr<Tree> tree_;
};

}  // namespace ros2s::engine
