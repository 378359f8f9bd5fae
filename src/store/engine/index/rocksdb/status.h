// This header turns RocksDB's failures into Errors. Every call into RocksDB goes through guarded(),
// so that none of its exceptions leaves this directory.
#pragma once
#include <rocksdb/status.h>

#include <new>

#include "ros2s/base/result.h"

namespace ros2s::engine {

// `status` must not be ok.
[[nodiscard]] Error error_of(const rocksdb::Status& status);
// Returns true if the cause is that this or another process holds the database's lock.
[[nodiscard]] bool is_locked(const rocksdb::Status& status);

// Runs call(), which returns a Status, and turns an exception into one.
template <class Call>
[[nodiscard]] rocksdb::Status guarded(Call call) noexcept {
    try {
        return call();
    } catch (const std::bad_alloc&) {
        return rocksdb::Status::MemoryLimit();
    } catch (const std::exception& exception) {
        return rocksdb::Status::IOError("exception", exception.what());
    } catch (...) {
        return rocksdb::Status::IOError("exception of an unknown type");
    }
}

}  // namespace ros2s::engine
