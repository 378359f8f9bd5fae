// The product's Index: a RocksDB database in a directory of its own (interface, thread rules and
// crash contract: ros2s/engine/index/index.h).
//
// Contract: RocksDB's write-ahead log is off, so a batch is in memory until its memory table
// becomes a file. There is one column family. Batches enter one memory table whole, in order.
// Tables become files in order. Each file is synced before the manifest names it, and the manifest
// is synced before flush() returns. A rename becomes durable after the names that it relies on
// (rename_order.h).
//
// Memory: half of `memory_bytes` is the block cache, which also holds index and filter blocks of
// the tables (partitioned, so that none is large). Half is for memory tables. Two things come on
// top. A batch larger than a quarter of the budget occupies memory for its own size until it is
// flushed. The cache also gives each reading thread and each running compaction the few blocks that
// it needs, even when the cache is full. RocksDB can also refuse instead (a strict cache), but then
// compactions would fail, and a failed compaction turns the database read-only.
//
// Background work: RocksDB's process-wide threads (at most two for us) run flushes and compactions.
// If it cannot start one, it throws, and then ends the process. So the caller makes sure of
// rocksdb_threads before it opens an index.
// Nothing else runs at intervals, and no log file is written: RocksDB's messages go to `log`.
//
// A directory holds RocksDB's files and FORMAT, which create writes last. A directory without
// FORMAT is not an index, or its creation was interrupted. This code deletes only files that
// RocksDB wrote. The directory has the mode 0700, as devices have 0600: create sets it, and open
// restores it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "ros2s/base/log.h"
#include "ros2s/base/result.h"
#include "ros2s/engine/index/index.h"

namespace rocksdb {
class Env;
}

namespace ros2s::engine {

// For flushes and for compactions. RocksDB starts them while it opens a database.
inline constexpr size_t rocksdb_threads = 2;

struct RocksDbOptions {
    uint64_t memory_bytes = 64 * 1024 * 1024;
    bool read_only = false;  // for a file system that is mounted read-only
    int open_files_max = 256;
    Log log;

    // For simulations and tests (sim/simulated_files.h). Null: the machine's file system.
    std::shared_ptr<rocksdb::Env> env;
    // False: tables are never merged, so that every file operation happens inside one of our calls.
    bool compaction = true;
};

// libros2store.so has the two functions in a library that it loads (api/c/loaded). They then also
// fail with unsupported.

// Makes an index in `directory`, which must be empty or not exist; its parent must exist. Errors:
// exists, not_found (the parent), denied, no_space, io.
[[nodiscard]] Result<std::unique_ptr<Index>> create_rocksdb_index(const std::string& directory,
                                                                  const RocksDbOptions& options,
                                                                  Report& report);

// Opens an index made by create_rocksdb_index(). Errors: not_found, busy (another process has it
// open), corrupt, bad_version (detail = the version found), denied, no_space, io.
[[nodiscard]] Result<std::unique_ptr<Index>> open_rocksdb_index(const std::string& directory,
                                                                const RocksDbOptions& options,
                                                                Report& report);

}  // namespace ros2s::engine
