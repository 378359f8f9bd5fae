// A file system for RocksDB in which a rename becomes durable only after the names that it relies
// on.
//
// RocksDB makes a new manifest durable by syncing it, renaming a file that names it to CURRENT, and
// syncing the directory once, after the rename. POSIX allows the rename to reach the disk before
// the manifest's own name. Then CURRENT names a file that does not exist and the database is lost.
// File systems that journal a directory's changes in order (ext4, XFS) do not do this; the
// simulated one does. Here a rename first syncs its directory. Renames are rare (opening, a full
// manifest), so the extra sync has no measurable cost.
#pragma once
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <memory>

namespace ros2s::engine {

// `base` null: the machine's own. The result keeps a reference to it.
[[nodiscard]] std::shared_ptr<rocksdb::Env> env_with_rename_order(
    std::shared_ptr<rocksdb::Env> base);

[[nodiscard]] rocksdb::Status sync_directory(rocksdb::FileSystem& files,
                                             const std::string& directory);

}  // namespace ros2s::engine
