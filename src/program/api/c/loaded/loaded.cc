// Functions of RocksDB's, gRPC's and OpenSSL's modules as libros2store.so has them: each loads the
// library that has the function, and calls it. The linker takes them instead of those in the
// modules' archives, because it reads this object first, and so links none of the three.
//
// Loading takes milliseconds. An index is opened on a blocking thread, and a client before anything
// else runs on its core. From any thread. A library is never unloaded.
#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>

#include "libraries.h"
#include "ros2s/api/own_directory.h"
#include "ros2s/base/check.h"
#include "ros2s/base/loaded_library.h"
#include "ros2s/control/grpc_needs.h"
#include "ros2s/control/process/helper_client.h"
#include "ros2s/runtime/fork.h"
#include "ros2s/runtime/process_limits.h"

namespace ros2s::api::c {
namespace {

// The foreign libraries of each take less address space than this.
constexpr uint64_t loaded_bytes = uint64_t{64} << 20;

// A library of another version has another name: the structs may differ.
std::string file_of(const char* name) {
    return fmt::format("{}/ros2store/libros2store-{}-{}.so", own_directory(), name,
                       ROS2STORE_VERSION);
}

bool is_loaded(const char* name) {
    void* const there = ::dlopen(file_of(name).c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (there != nullptr) ::dlclose(there);
    return there != nullptr;
}

// Errors: unsupported; those of check_address_space().
template <class Library>
Result<const Library*> load(const char* name, const char* users, Report& report) {
    const std::string file = file_of(name);
    if (!is_loaded(name)) {
        ROS2S_TRY(check_address_space(0, loaded_bytes, fmt::format("loading {}", file), report));
    }
    const std::string named = fmt::format("{} need {}, which", users, file);
    constexpr const char* remedy =
        ". It belongs to libros2store: install the package ros2store " ROS2STORE_VERSION
        " again, and restart this program";
    LoadedLibrary library;
    ROS2S_TRY(open_library(file.c_str(), {named, remedy}, library, report));
    void* const entry = library.find(fmt::format("ros2store_{}", name).c_str());
    if (entry == nullptr) return fail_to_load({named, remedy}, report);
    return reinterpret_cast<const Library* (*)()>(entry)();
}

Result<const RocksDbLibrary*> rocksdb(Report& report) {
    return load<RocksDbLibrary>("rocksdb", "pools in this process", report);
}

// Nothing is loaded for a client that cannot be.
Result<const GrpcLibrary*> grpc(Report& report) {
    if (!is_loaded("grpc")) ROS2S_TRY(control::check_grpc_space(loaded_bytes, report));
    return load<GrpcLibrary>("grpc", "servers in URIs", report);
}

// gRPC works only in the first process that uses it. In forked children its threads are missing.
// From the call on, this is that process, if it returns true.
bool may_use_grpc() {
    static std::atomic<uint64_t> users_generation = 0;  // and one more; 0: nobody used it
    const uint64_t here = uint64_t{fork_generation()} + 1;
    uint64_t found = 0;
    return users_generation.compare_exchange_strong(found, here) || found == here;
}

control::ControlHelper& control_helper() {
    // Lives as long as the process: a fork may happen while it exits.
    static auto& helper = *new control::ControlHelper(
        fmt::format("{}/ros2store/ros2store-control-{}", own_directory(), ROS2STORE_VERSION));
    return helper;
}

}  // namespace
}  // namespace ros2s::api::c

namespace ros2s::engine {

Result<std::unique_ptr<Index>> create_rocksdb_index(const std::string& directory,
                                                    const RocksDbOptions& options, Report& report) {
    ROS2S_TRY_ASSIGN(const auto* const library, api::c::rocksdb(report));
    return library->create_index(directory, options, report);
}

Result<std::unique_ptr<Index>> open_rocksdb_index(const std::string& directory,
                                                  const RocksDbOptions& options, Report& report) {
    ROS2S_TRY_ASSIGN(const auto* const library, api::c::rocksdb(report));
    return library->open_index(directory, options, report);
}

}  // namespace ros2s::engine

namespace ros2s::control {

Result<std::unique_ptr<SessionClient>> SessionClient::create(Reactor& reactor,
                                                             ClientOptions options,
                                                             Report& report) {
    auto& helper = api::c::control_helper();
    if (!api::c::may_use_grpc()) {
        return std::make_unique<HelperClient>(reactor, std::move(options), helper);
    }
    helper.start_at_forks();
    ROS2S_TRY_ASSIGN(const auto* const library, api::c::grpc(report));
    ROS2S_TRY_ASSIGN(auto client, library->create_client(reactor, std::move(options), report));
    return client;
}

}  // namespace ros2s::control

namespace ros2s::cipher {

Result<std::unique_ptr<object::StoreLayers>> decrypt_with(std::string keys, Duration keep,
                                                          Environment environment, Report& report) {
    ROS2S_TRY_ASSIGN(const auto* const library,
                     api::c::load<api::c::CipherLibrary>("cipher", "encrypted containers", report));
    return library->decrypt_with(std::move(keys), keep, std::move(environment), report);
}

}  // namespace ros2s::cipher

namespace ros2s::fabric::tls {

Result<std::unique_ptr<SecureSockets>> open_secure_sockets(pki::Identity identity, Log log,
                                                           Report& report) {
    ROS2S_TRY_ASSIGN(const auto* const library, api::c::grpc(report));
    return library->open_secure_sockets(std::move(identity), std::move(log), report);
}

}  // namespace ros2s::fabric::tls
