// Deployment: an opened URI: the container's FileSystem and all layers below it. For programs that
// run their own reactor (the CLI, the mount). libros2store runs it on a thread.
//
//     ros2s+local://  Dfs → CountedStore → EngineStore
//                     If another process owns the pool, through that owner: LocalDirectory on its
//                     mount of the same container; ros2s:// over shm, if the owner is the engine
//                     that `ros2store up` started; or, if the owner shares the pool, the layers of
//                     ros2s:// over the owner's socket (OwnersPool). path() reports it
//                     With `rados`: Dfs → CountedStore → RadosStore ~> a Ceph cluster
//     ros2s://        CachedFileSystem → Dfs → VerifyingStore → RemoteStore ~> ros2store-engine
//     ros2s+dpu://    LinkClient ~> ros2store-dpu
//
// The server of a URI: `dir` is a directory in which `ros2store up` started the daemons
// (service_paths.h has the paths of their sockets and certificates); otherwise `socket` is the Unix
// socket of a control plane, or host[:port] its address. The certificates (ca.crt, client.crt,
// client.key) of the latter two are in the directory that the environment names by ROS2STORE_CERTS,
// else in /etc/ros2store/certs. `provider` selects the provider for data; if it is not available,
// opening fails. Without it the best provider that both sides have is used. `timeout` limits each
// request to the server (rpc::ChannelOptions::call_within). `rados` is the configuration of a Ceph
// cluster. `metadata` is its pool for metadata, by default the one with the name of the URI's pool,
// and `data` the one for data, by default the same. Encrypted containers are opened with the keys
// at the place that ROS2STORE_KEYS names, a directory or a token (cipher::open_keys()), unless a
// DPU has them. ROS2STORE_UCX_DEVICE names the network devices of the ucx and ofi providers.
//
// Owned by its opener; used on the environment's core; close() before destruction. Fork rule: a
// forked child must not use it, nor destroy it.
#pragma once
#include <memory>
#include <string>

#include "ros2s/api/uri.h"
#include "ros2s/base/metrics.h"
#include "ros2s/fs/caller.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/object/store_layer.h"
#include "ros2s/pool/embedded_pool.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/stack.h"

namespace ros2s::connection {
class RadosPool;
}

namespace ros2s::api {

struct DeploymentOptions {
    // The owner's record of an opened pool. A server gets only the program's name.
    pool::EmbeddedOptions embedded;
    // True: the pool may be used through its owner.
    bool through_owner = true;
    // The parent of this process has opened a pool: RocksDB and librados keep threads for the whole
    // process, which a child lacks. It can use a pool only through its owner.
    bool in_forked_child = false;
    // The path of ros2store-pool, which is started for a pool without an owner that this process
    // cannot open itself. Empty: none is started.
    std::string pool_process;
    bool read_only = false;    // nothing is changed; a DPU enforces it
    bool caches = true;        // names and attributes are kept under leases
    std::string exclusive_as;  // fs::DfsOptions
    // Empty RADOS pools are made a pool of ros2store. Otherwise they are not_found.
    bool formats = false;
};

class Deployment {
  public:
    // A URI without a container (no text is one) opens the pool alone: there is no file system.
    // Errors, with a sentence: those of EmbeddedPool::open, DirectPool::open, HostFiles::open
    // and RadosPool::open;
    // not_found also for the container and for a pool of another name; invalid (the URI names no
    // server); unsupported also for a pool in a forked child, and for the pool of a DPU or a mount.
    [[nodiscard]] static Task<Result<std::unique_ptr<Deployment>>> open(const Call& call,
                                                                        Environment environment,
                                                                        Uri uri,
                                                                        DeploymentOptions options,
                                                                        Report& report);
    Deployment& operator=(Deployment&&) = delete;
    Task<> close();

    [[nodiscard]] const Uri& uri() const { return uri_; }
    [[nodiscard]] fs::FileSystem& file_system() { return *file_system_; }
    // "embedded engine, io_uring, …" or "through the mount at /mnt/x of process 4711 …".
    [[nodiscard]] const std::string& path() const { return path_; }
    // The limits of the store below, compared with a ros2store-engine, for people: "free space is
    // reported late; …". Empty: nothing.
    [[nodiscard]] std::string limits() const;
    // True if the pool is used through its owner, another process.
    [[nodiscard]] bool is_through_owner() const { return through_owner_; }
    // True if it is a client of a daemon.
    [[nodiscard]] bool is_on_network() const { return is_on_network_; }
    // True if a forked child can open the same again, and the nodes have the same numbers there.
    [[nodiscard]] bool is_renewable() const {
        return mount_point_.empty() && uri_.transport != Uri::Transport::rados;
    }
    // The mount point, if it works through a mount; otherwise "".
    [[nodiscard]] const std::string& mount_point() const { return mount_point_; }
    // Null unless the pool is open in this process.
    [[nodiscard]] pool::EmbeddedPool* pool() { return pool_; }
    // The pool's objects and containers. Null if a DPU or a mount keeps them from this process.
    [[nodiscard]] object::ObjectStore* store() { return store_; }
    // Opens encrypted containers, with the keys at the location in the environment's
    // ROS2STORE_KEYS. Null: it is not set.
    [[nodiscard]] object::StoreLayers* store_layers() const { return store_layers_.get(); }
    // The counters below the file system; none if it works through a mount.
    void visit_metrics(const MetricVisitor& visit) const { stack_.visit_metrics(visit); }
    // From the top down: "Dfs → CountedStore → EngineStore → Ownership".
    [[nodiscard]] std::string layers() const { return stack_.names(); }

    // Another container of the pool that is open in this process; unmount() before close(), or
    // close() does it. Errors: those of EmbeddedPool::open_container().
    Task<Result<fs::FileSystem*>> mount(const Call& call, std::string container, bool is_durable,
                                        Report& report);
    // Of a pool that is open in this process. Also for file_system(), which must not be used
    // afterwards.
    Task<> unmount(fs::FileSystem& file_system);
    // Removes the remains of crashed clients in a Ceph cluster, for the container of this name.
    // Does nothing elsewhere. Errors: not_found, those of RadosPool::sweep(); each with a sentence.
    Task<Result<>> sweep(const Call& call, std::string container, Report& report);

  private:
    Deployment(Environment environment, Uri uri, DeploymentOptions options)
        : environment_(std::move(environment)),
          uri_(std::move(uri)),
          options_(std::move(options)) {}
    Task<Result<>> compose(const Call& call, Report& report);
    Task<Result<>> local(const Call& call, Report& report);
    Task<Result<>> embedded(const Call& call, pool::OwnerRecord& owner, Report& report);
    Task<Result<>> find_owner_elsewhere(const Call& call, pool::OwnerRecord& owner, Report& report);
    Task<Result<>> through_process(const Call& call, pool::OwnerRecord owner, Report& report);
    Task<Result<>> through_mount(pool::OwnerRecord owner, Report& report);
    Task<Result<>> through_engine(const Call& call, pool::OwnerRecord owner, Report& report);
    Task<Result<>> network(const Call& call, Uri uri, Report& report);
    Task<Result<>> direct(const Call& call, Uri uri, Report& report);
    Task<Result<>> offload(const Call& call, Uri uri, Report& report);
    Task<Result<>> in_cluster(const Call& call, Report& report);
    Task<Result<>> open_container(const Call& call, std::string where, Report& report);
    void say_durability();
    [[nodiscard]] std::string mounted_as() const;
    // `user`: of this program, if the file system checks rights.
    void use_leases(std::optional<fs::UserClaim> user, bool squashes_root);

    const Environment environment_;
    const Uri uri_;
    const DeploymentOptions options_;
    std::unique_ptr<object::StoreLayers> store_layers_;
    Stack stack_;
    std::string path_;
    std::string mount_point_;
    bool through_owner_ = false;
    bool is_on_network_ = false;
    pool::EmbeddedPool* pool_ = nullptr;
    connection::RadosPool* rados_ = nullptr;
    object::ObjectStore* store_ = nullptr;
    fs::FileSystem* file_system_ = nullptr;
};

// The reactor for a URI. An embedded pool's settings come before `options`. On a host of a DPU it
// does not use the kernel's block layer. ROS2STORE_POLL sets how clients of servers poll. Errors:
// those of read_pool_directory() and of OsReactor::create(); invalid (ROS2STORE_POLL).
[[nodiscard]] Result<std::unique_ptr<OsReactor>> create_reactor(const Uri& uri, Report& report,
                                                                OsReactorOptions options = {});

// Errors: not_found (the sentence has the right URI).
[[nodiscard]] Result<> check_pool_name(const Uri& uri, const std::string& name, Report& report);

// True if the URI's pool is opened by this process, and not by a daemon.
[[nodiscard]] bool is_opened_here(const Uri& uri);

// The refusal of what a forked child of a process that had opened a pool cannot open: unsupported.
[[nodiscard]] std::unexpected<Error> refuse_in_forked_child(Report& report);

// Returns true if the owner is an engine whose socket is in the pool's directory.
[[nodiscard]] bool is_served(const std::string& directory, const pool::OwnerRecord& owner);

}  // namespace ros2s::api
