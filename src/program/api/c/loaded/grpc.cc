// The entry of libros2store-grpc.
#include "libraries.h"

extern "C" [[gnu::visibility("default")]] const ros2s::api::c::GrpcLibrary* ros2store_grpc() {
    static constexpr ros2s::api::c::GrpcLibrary library{
        .create_client = ros2s::control::ControlClient::create,
        .open_secure_sockets = ros2s::fabric::tls::open_secure_sockets};
    return &library;
}
