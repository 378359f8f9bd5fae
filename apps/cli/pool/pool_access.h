// PoolAccess: how commands use a pool and its containers. Either this process opens the pool, in a
// directory or a Ceph cluster, or a server has it open and is reached over its control plane: the
// engine that `ros2store up` started, or the engine or DPU that a URI names. A server checks the
// rights of this program's certificate; nothing is checked here.
//
// Owned by the command; used on its core; close() before destruction.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "ros2s/api/uri.h"
#include "ros2s/control/control_client.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/object/object_store.h"
#include "ros2s/pool/owner.h"

namespace ros2s::cli {

class PoolAccess {
  public:
    virtual ~PoolAccess() = default;
    virtual Task<> close() = 0;

    // All errors come with a sentence in the command's report: those of ObjectStore and, for a
    // server, those of control::ControlClient.
    [[nodiscard]] virtual Task<Result<object::PoolSpace>> space(const Call& call) = 0;
    [[nodiscard]] virtual Task<Result<std::vector<object::ContainerRecord>>> containers(
        const Call& call) = 0;
    // Errors: not_found.
    [[nodiscard]] virtual Task<Result<object::ContainerRecord>> find(const Call& call,
                                                                     std::string label) = 0;
    [[nodiscard]] virtual Task<Result<object::ContainerRecord>> create(
        const Call& call, object::ContainerProperties properties, fs::Owner owner) = 0;
    // Errors: not_found, denied.
    [[nodiscard]] virtual Task<Result<object::ContainerRecord>> set(
        const Call& call, std::string label, object::ContainerChange change) = 0;
    // Errors: not_found.
    [[nodiscard]] virtual Task<Result<>> destroy(const Call& call, std::string label) = 0;

    // Valid until close(). Through an engine: over a data connection, opened by the first call.
    // Errors: those of api::data_way() and connection::DirectPool::open(); unsupported (a DPU).
    [[nodiscard]] virtual Task<Result<object::ObjectStore*>> store() = 0;
    // Those that the caller may see, at the engine, or of hosts at a DPU. `label`: empty for all.
    // Errors: unsupported (no server has the pool).
    [[nodiscard]] virtual Task<Result<control::SeenLeases>> leases(const Call& call,
                                                                   std::string label) = 0;
    [[nodiscard]] virtual Task<Result<>> evict(const Call& call, std::string label,
                                               std::string holder) = 0;
    // Known only to the process that has the pool open.
    [[nodiscard]] virtual std::optional<uint32_t> targets() const { return std::nullopt; }
    [[nodiscard]] virtual std::optional<std::string> read_only_reason() const {
        return std::nullopt;
    }
};

// Errors: those of EmbeddedPool::open(), api::server_address() and ControlClient::create().
[[nodiscard]] Task<Result<std::unique_ptr<PoolAccess>>> access_pool(CommandContext context,
                                                                    std::string directory);
// The same. Checks that a pool in a directory has the name in the URI. `formats`:
// api::DeploymentOptions.
[[nodiscard]] Task<Result<std::unique_ptr<PoolAccess>>> access_pool_of(CommandContext context,
                                                                       api::Uri uri,
                                                                       bool formats = false);

}  // namespace ros2s::cli
