// The commands: their options, and the coroutines that run them. arguments.cc fills the options
// from the command line. A command reports its results through the workplace's console, and its one
// sentence of failure through the workplace's report.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "output/console.h"
#include "ros2s/base/result.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/task.h"

namespace ros2s::cli {

// The environment of a command. Everything here outlives the command.
struct CommandContext {
    const Console& console;
    Environment environment;
    const Call& call;
    Report& report;
    // The status of the process if the command fails. Null in a part of a command.
    int* failed_status = nullptr;
};
[[nodiscard]] inline std::chrono::sys_seconds now_by(const CommandContext& context) {
    return std::chrono::floor<std::chrono::seconds>(context.environment.reactor.wall_time());
}

struct UpOptions {
    std::string directory;
    // Not set: the default for a new pool, and the actual size of an existing one.
    std::optional<std::string> size;
    std::optional<uint32_t> devices;
    std::optional<std::string> pool;
    std::vector<std::string> device_directories;
    std::optional<std::string> container;  // created with a new pool; empty: none
    bool no_daemons = false;
    std::string providers;  // for the DPU daemon's connection to the engine
    bool trusted_network = false;
};
inline constexpr const char* default_size = "4G";
inline constexpr uint32_t default_devices = 1;
inline constexpr const char* default_pool = "pool";
inline constexpr const char* default_container = "main";
Task<Result<>> up(CommandContext context, UpOptions options);

struct DownOptions {
    std::string location;  // a pool directory or a URI
    bool kill = false;     // kill the daemons instead of draining them
};
Task<Result<>> down(CommandContext context, DownOptions options);

struct StatusOptions {
    std::string location = ".";
};
Task<Result<>> status(CommandContext context, StatusOptions options);

struct TopOptions {
    std::vector<std::string> locations{"."};  // directories of `up`, and http://HOST:PORT
    std::string password_file;                // empty: of a directory, the usual one
    double interval = 2;                      // seconds
    bool once = false;
    std::string by;  // top/rates.h; empty: tenants, with their latencies
};
Task<Result<>> top(CommandContext context, TopOptions options);

struct PoolOptions {
    std::string directory = ".";
    bool yes = false;  // destroy
};
Task<Result<>> pool_create(CommandContext context, UpOptions options);
Task<Result<>> pool_list(CommandContext context, PoolOptions options);
Task<Result<>> pool_query(CommandContext context, PoolOptions options);
Task<Result<>> pool_destroy(CommandContext context, PoolOptions options);

struct CheckOptions {
    std::string directory = ".";
    bool data = false;
};
// Fails with status 1 if the pool has problems, and with 2 if it cannot be checked.
Task<Result<>> pool_check(CommandContext context, CheckOptions options);

struct GrowOptions {
    std::string location;  // a pool directory or a URI
    std::string size;
    std::string device_directory;
};
Task<Result<>> pool_grow(CommandContext context, GrowOptions options);

struct ContainerOptions {
    std::string location;  // list: a pool directory or URI; otherwise the container's URI
    std::string chunk = "1M";
    bool yes = false;
    bool free = false;  // check
    std::string encryption = "none";
    std::string key;                        // its name among those of ROS2STORE_KEYS
    std::optional<std::string> durability;  // create, set
    // create, set: caps, as a tenant's; set: the owner. Options that are not given change nothing.
    std::optional<std::string> space, files, owner;
    bool is_cache = false;           // create
    std::optional<std::string> ttl;  // create, of a cache
};
Task<Result<>> container_create(CommandContext context, ContainerOptions options);
Task<Result<>> container_list(CommandContext context, ContainerOptions options);
Task<Result<>> container_query(CommandContext context, ContainerOptions options);
Task<Result<>> container_destroy(CommandContext context, ContainerOptions options);
Task<Result<>> container_set(CommandContext context, ContainerOptions options);
Task<Result<>> container_rekey(CommandContext context, ContainerOptions options);
Task<Result<>> container_check(CommandContext context, ContainerOptions options);

struct LeaseOptions {
    std::string location;  // leases: a pool directory or URI; evict: the container's URI
    std::string holder;    // leases: empty for all
};
Task<Result<>> leases(CommandContext context, LeaseOptions options);
Task<Result<>> evict(CommandContext context, LeaseOptions options);

struct TenantOptions {
    std::string location;      // an engine's URI, or the pool directory of `up`
    std::string name;          // not list
    std::string certificates;  // a directory of them; empty: the usual one
    // create, set: by the names in tenancy/tenant.h. An empty text removes a setting.
    std::map<std::string, std::string> settings;
    std::string capability;  // revoke: only this one; empty: the tenant
};
Task<Result<>> tenant_create(CommandContext context, TenantOptions options);
Task<Result<>> tenant_set(CommandContext context, TenantOptions options);
Task<Result<>> tenant_revoke(CommandContext context, TenantOptions options);
Task<Result<>> tenant_remove(CommandContext context, TenantOptions options);
Task<Result<>> tenant_list(CommandContext context, TenantOptions options);
Task<Result<>> tenant_rotate_key(CommandContext context, TenantOptions options);
Task<Result<>> tenant_show(CommandContext context, TenantOptions options);

struct FileOptions {
    std::vector<std::string> locations;
    bool all = false;        // ls: also names that begin with a dot
    bool long_form = false;  // ls
    bool recursive = false;  // cp, rm, ls
    bool preserve = false;   // cp: owners and set-id bits also in a local directory
    bool parents = false;    // mkdir
    bool force = false;      // rm: a missing file is not an error
};
Task<Result<>> ls(CommandContext context, FileOptions options);
Task<Result<>> cat(CommandContext context, FileOptions options);
Task<Result<>> stat(CommandContext context, FileOptions options);
Task<Result<>> mkdir(CommandContext context, FileOptions options);
Task<Result<>> rm(CommandContext context, FileOptions options);
Task<Result<>> mv(CommandContext context, FileOptions options);
Task<Result<>> cp(CommandContext context, FileOptions options);

struct WhyOptions {
    std::string location;
    uint64_t offset = 0;
    bool write = false;        // also write the same bytes back to the block that was read
    std::string trace_file{};  // gets the steps, too
};
Task<Result<>> why(CommandContext context, WhyOptions options);

struct DoctorOptions {
    std::string location = ".";  // a directory or a URI
    std::string certificates;    // a directory of them; empty: the usual one
};
Task<Result<>> doctor(CommandContext context, DoctorOptions options);

struct PlanOptions {
    std::string gpus, rate, sample;  // as they were written
    std::string hardware;            // a file; empty: the defaults
    std::string costs;               // a file; empty: the one of this build
    std::string backend = "engine";
    std::string provider;  // empty: the back end's default
};
Task<Result<>> plan(CommandContext context, PlanOptions options);

struct CertificateOptions {
    std::string directory;           // the authority's; show: a file
    std::string name;                // issue; revoke: a name or a file
    std::vector<std::string> names;  // names by which clients reach the server
    bool server = false;
    bool replace = false;
    uint32_t days = 365;
};
Task<Result<>> certs_init(CommandContext context, CertificateOptions options);
Task<Result<>> certs_issue(CommandContext context, CertificateOptions options);
Task<Result<>> certs_revoke(CommandContext context, CertificateOptions options);
Task<Result<>> certs_show(CommandContext context, CertificateOptions options);

struct MountOptions {
    std::string uri;
    std::string mount_point;
    std::string options;               // of mount(8); empty: none
    std::vector<std::string> further;  // for ros2store-fuse
};
// Becomes ros2store-fuse, and returns only on failure. With --json it starts one, and returns when
// the mount answers.
Task<Result<>> mount(CommandContext context, MountOptions options);

struct SyncOptions {
    std::string path;  // of a mount
};
Task<Result<>> sync(CommandContext context, SyncOptions options);

struct UmountOptions {
    std::string mount_point;
};
Task<Result<>> umount(CommandContext context, UmountOptions options);

}  // namespace ros2s::cli
