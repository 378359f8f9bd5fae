// A file system for RocksDB whose renames never reach the disk before what they rely on.
//
// RocksDB makes a new manifest durable by syncing it, renaming a file that names it to CURRENT, and
// syncing the directory once, after the rename. Nothing in POSIX keeps the rename from reaching the
// disk without the manifest's own name; then CURRENT names a file that does not exist and the
// database is lost. File systems that journal a directory's changes in order (ext4, XFS) do not do
// this; the simulated one does. Here a rename first syncs its directory. Renames are rare (opening,
// a full manifest), so that the extra sync costs nothing that is measured.
#pragma once
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <memory>

namespace ros2s::engine {

// `base` null: the machine's own. The result keeps it.
[[nodiscard]] std::shared_ptr<rocksdb::Env> env_with_rename_order(
    std::shared_ptr<rocksdb::Env> base);

[[nodiscard]] rocksdb::Status sync_directory(rocksdb::FileSystem& files,
                                             const std::string& directory);

}  // namespace ros2s::engine
