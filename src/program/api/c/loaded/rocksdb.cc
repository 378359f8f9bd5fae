// The entry of libros2store-rocksdb.
#include "libraries.h"

extern "C" [[gnu::visibility("default")]] const ros2s::api::c::RocksDbLibrary* ros2store_rocksdb() {
    static constexpr ros2s::api::c::RocksDbLibrary library{
        .create_index = ros2s::engine::create_rocksdb_index,
        .open_index = ros2s::engine::open_rocksdb_index};
    return &library;
}
