// SimulatedFiles: a file system in memory that loses what a power failure may lose, for RocksDB to
// run on. Mount it, give the Env to RocksDbOptions, crash, mount again: what survived is there.
//
// Fault model of crash()
// - Appended bytes that were not synced: a random length of them survives, from none to all; in
//   some crashes, pages of the surviving tail read as zeros (the length reached the disk, the data
//   did not). Synced bytes always survive. Stale contents of other files never appear.
// - Files created, renamed or deleted in a directory that was not synced since: all of these
//   changes, none, the first few, or any subset in their order survives; a rename is one change.
//   Syncing a file does not make its name durable.
// - Freeze: every call through an Env of before the crash fails with an I/O error and changes
//   nothing, so that the dying database can be destroyed at leisure.
// crash_after() does the same from inside, right after a given change. Besides, syncs can fail
// (what they were to make durable stays unsynced) and the disk can be full.
// Death of the process alone is not modelled apart: it loses less than a power failure does.
//
// What reproduces from a seed, and what does not. All decisions come from the seed and the state of
// the tree, in the order of names. The order of changes is RocksDB's: with compaction off and
// flush() awaited its table and manifest writes follow each other, but obsolete files are deleted
// by a background thread that may run beside the next call, so that the number of a change, and
// whether a deletion came before a crash, can differ by a few from run to run. Contents differ in
// the random identifiers that RocksDB puts into its files. A failing seed therefore fails again
// nearly always, not always; the contract must hold in every order.
//
// Thread rule: any thread; one lock.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

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
    SimulatedFiles(const SimulatedFiles&) = delete;
    SimulatedFiles& operator=(const SimulatedFiles&) = delete;

    // The file system as it is now, with the directory "/" and what was made in it. The Env may
    // outlive a crash, and this object.
    [[nodiscard]] std::shared_ptr<rocksdb::Env> mount();

    void crash(Random& random);
    // Crashes when that many more changes (appends, syncs, creations, renames, deletions) are done.
    void crash_after(uint64_t changes, uint64_t seed);
    // Takes a planned crash back. True if it has happened since it was planned.
    bool cancel_crash();

    // From now on syncs of files and directories fail, until set back or a crash.
    void fail_syncs(bool fail);
    // Bytes that all files together may have; more is refused as a full disk. Default: no limit.
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
