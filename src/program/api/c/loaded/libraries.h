// The libraries that libros2store.so loads. Each has our code for one foreign library, and hands
// over its functions by one entry, an extern "C" function that returns the struct.
#pragma once
#include "ros2s/cipher/container_keys.h"
#include "ros2s/control/control_client.h"
#include "ros2s/engine/index/rocksdb/rocksdb_index.h"
#include "ros2s/fabric/tls/secure_socket.h"

namespace ros2s::api::c {

// Of ros2store_rocksdb(), in libros2store-rocksdb-VERSION.so.
struct RocksDbLibrary {
    decltype(&engine::create_rocksdb_index) create_index;
    decltype(&engine::open_rocksdb_index) open_index;
};

// Of ros2store_grpc(), in libros2store-grpc-VERSION.so.
struct GrpcLibrary {
    decltype(&control::ControlClient::create) create_client;
    // gRPC has brought OpenSSL.
    decltype(&fabric::tls::open_secure_sockets) open_secure_sockets;
};

// Of ros2store_cipher(), in libros2store-cipher-VERSION.so.
struct CipherLibrary {
    decltype(&cipher::decrypt_with) decrypt_with;
};

}  // namespace ros2s::api::c
