// Deployment: what a URI stands for, opened: the container's FileSystem and all that carries it.
// For programs that run their own reactor (the CLI, the mount); libros2store wraps it in a thread.
//
// ros2s+local opens the pool directory itself or, where a mount of the same container owns it,
// works through that mount point, and says so in path().
//
// Owned by who opened it; used on the environment's core; close() before destruction.
#pragma once
#include <memory>
#include <string>

#include "ros2s/api/embedded_pool.h"
#include "ros2s/api/environment.h"
#include "ros2s/api/uri.h"

namespace ros2s::api {

struct DeploymentOptions {
    EmbeddedOptions embedded;
    // Whether a mount that owns the pool may stand in for it.
    bool through_mount = true;
};

class Deployment {
  public:
    // Errors: those of EmbeddedPool::open, not_found also for the container; invalid (the pool has
    // another name); unsupported (a transport that this version lacks).
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
    [[nodiscard]] fs::FileSystem& file_system() { return *file_system_; }
    // "embedded: engine in this process" or "through the mount at /mnt/x of process 4711 …".
    [[nodiscard]] const std::string& path() const { return path_; }
    // Where it works through a mount: its mount point; otherwise "".
    [[nodiscard]] const std::string& mount_point() const { return mount_point_; }
    // Null when it works through a mount.
    [[nodiscard]] EmbeddedPool* pool() { return pool_.get(); }

  private:
    Deployment() = default;
    Uri uri_;
    std::string path_;
    std::string mount_point_;
    std::unique_ptr<EmbeddedPool> pool_;
    std::unique_ptr<fs::FileSystem> file_system_;
};

// The parts of open(), for libros2store, which shares pools within a process.

// Errors: unsupported.
[[nodiscard]] Result<> check_transport(const Uri& uri, Report& report);
// Errors: not_found (the sentence has the right URI).
[[nodiscard]] Result<> check_pool_name(const Uri& uri, const EmbeddedPool& pool, Report& report);

struct ThroughMount {
    std::unique_ptr<fs::FileSystem> file_system;
    std::string path;
};
// Whether the owner is a mount of that container.
[[nodiscard]] bool stands_in(const OwnerRecord& owner, const std::string& container);
// Works on the owner's mount point. Errors: those of opening the directory.
[[nodiscard]] Task<Result<ThroughMount>> open_through_mount(const Call& call,
                                                            Environment environment, Uri uri,
                                                            OwnerRecord owner, Report& report);

}  // namespace ros2s::api
