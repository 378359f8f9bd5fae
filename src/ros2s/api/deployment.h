// Deployment: what a URI stands for, opened: the container's FileSystem and all that carries it.
// For programs that run their own reactor (the CLI, the mount); libros2store wraps it in a thread.
//
// ros2s+local opens the pool directory itself or, where a mount of the same container owns it,
// works through that mount point, and where an engine that `ros2store up` started owns it, through
// that engine, over shm; path() says so. ros2s and ros2s+dpu: network_container.h.
//
// Owned by who opened it; used on the environment's core; close() before destruction.
#pragma once
#include <memory>
#include <string>

#include "ros2s/api/network_container.h"
#include "ros2s/api/uri.h"
#include "ros2s/pool/embedded_pool.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::api {

struct DeploymentOptions {
    pool::EmbeddedOptions embedded;
    // Whether a mount or an engine that owns the pool may stand in for it.
    bool through_owner = true;
    bool read_only = false;  // nothing is changed; a DPU sees to it
};

class Deployment {
  public:
    // Errors: those of pool::EmbeddedPool::open and NetworkContainer::open, not_found also for the
    // container and for a pool of another name.
    [[nodiscard]] static Task<Result<std::unique_ptr<Deployment>>> open(const Call& call,
                                                                        Environment environment,
                                                                        Uri uri,
                                                                        DeploymentOptions options,
                                                                        Report& report);
    ~Deployment();
    Deployment(const Deployment&) = delete;
    Deployment& operator=(const Deployment&) = delete;
    Task<> close();

    [[nodiscard]] const Uri& uri() const { return uri_; }
    [[nodiscard]] fs::FileSystem& file_system() {
        return network_ ? network_->file_system() : *file_system_;
    }
    // "embedded: engine in this process" or "through the mount at /mnt/x of process 4711 …".
    [[nodiscard]] const std::string& path() const { return path_; }
    // Where it works through a mount: its mount point; otherwise "".
    [[nodiscard]] const std::string& mount_point() const { return mount_point_; }
    // Null unless the pool is open in this process.
    [[nodiscard]] pool::EmbeddedPool* pool() { return pool_.get(); }

  private:
    explicit Deployment(Uri uri) : uri_(std::move(uri)) {}
    Task<Result<>> open_pool(const Call& call, Environment environment, DeploymentOptions options,
                             Report& report);

    Uri uri_;
    std::string path_;
    std::string mount_point_;
    std::unique_ptr<pool::EmbeddedPool> pool_;
    std::unique_ptr<fs::FileSystem> file_system_;
    std::unique_ptr<NetworkContainer> network_;
};

// The reactor that a URI wants: as the settings of the pool in its directory say; on a host of a
// DPU one that asks nothing of the kernel's block layer. Errors: those of
// pool::read_pool_directory() and of OsReactor::create().
[[nodiscard]] Result<std::unique_ptr<OsReactor>> create_reactor(
    const Uri& uri, Report& report, std::string thread_name = "ros2store");

// The parts of open(), for libros2store, which shares pools within a process.

// Errors: not_found (the sentence has the right URI).
[[nodiscard]] Result<> check_pool_name(const Uri& uri, const std::string& name, Report& report);

// What stands in for a pool that another process owns.
struct ThroughOwner {
    std::unique_ptr<fs::FileSystem> file_system;  // on a mount point, or
    std::unique_ptr<NetworkContainer> network;    // by an engine
    std::string path;
};
// Whether the owner is an engine that clients find in the pool's directory.
[[nodiscard]] bool is_served(const std::string& directory, const pool::OwnerRecord& owner);
// Whether the owner can: it is a mount of that container, or such an engine.
[[nodiscard]] bool stands_in(const pool::OwnerRecord& owner, const Uri& uri);
// Errors: those of opening the mount point's directory, and of NetworkContainer::open().
[[nodiscard]] Task<Result<ThroughOwner>> open_through_owner(const Call& call,
                                                            Environment environment, Uri uri,
                                                            pool::OwnerRecord owner,
                                                            NetworkOptions how, Report& report);

}  // namespace ros2s::api
