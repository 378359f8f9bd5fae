// The commands: their options, and the coroutines that run them. arguments.cc fills the options
// from the command line. A command reports its results through the workplace's session, and its one
// sentence of failure through the workplace's report.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "output/session.h"
#include "ros2s/base/result.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/task.h"

namespace ros2s::cli {

// What a command works with. Everything here outlives the command.
struct Workplace {
    const Session& session;
    Environment environment;
    const Call& call;
    Report& report;
};
[[nodiscard]] inline std::chrono::sys_seconds now_by(const Workplace& work) {
    return std::chrono::floor<std::chrono::seconds>(work.environment.reactor.wall_time());
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
Task<Result<>> up(Workplace work, UpOptions options);

struct DownOptions {
    std::string place;  // a pool directory or a URI
    bool kill = false;  // kill the daemons instead of draining them
};
Task<Result<>> down(Workplace work, DownOptions options);

struct StatusOptions {
    std::string place = ".";
};
Task<Result<>> status(Workplace work, StatusOptions options);

struct TopOptions {
    std::vector<std::string> places{"."};  // directories of `up`, and http://HOST:PORT
    std::string password_file;             // empty: of a directory, the usual one
    double interval = 2;                   // seconds
    bool once = false;
};
Task<Result<>> top(Workplace work, TopOptions options);

struct PoolOptions {
    std::string directory = ".";
    bool yes = false;  // destroy
};
Task<Result<>> pool_create(Workplace work, UpOptions options);
Task<Result<>> pool_list(Workplace work, PoolOptions options);
Task<Result<>> pool_query(Workplace work, PoolOptions options);
Task<Result<>> pool_destroy(Workplace work, PoolOptions options);

struct GrowOptions {
    std::string place;  // a pool directory or a URI
    std::string size;
    std::string device_directory;
};
Task<Result<>> pool_grow(Workplace work, GrowOptions options);

struct ContainerOptions {
    std::string place;  // list: a pool directory or URI; otherwise the container's URI
    std::string chunk = "1M";
    bool yes = false;
    bool free = false;  // check
    std::string encryption = "none";
    std::string key;  // its name among those of ROS2STORE_KEYS
    // create, set: caps, as a tenant's; set: the owner. What is not given stays as it is.
    std::optional<std::string> space, files, owner;
};
Task<Result<>> container_create(Workplace work, ContainerOptions options);
Task<Result<>> container_list(Workplace work, ContainerOptions options);
Task<Result<>> container_query(Workplace work, ContainerOptions options);
Task<Result<>> container_destroy(Workplace work, ContainerOptions options);
Task<Result<>> container_set(Workplace work, ContainerOptions options);
Task<Result<>> container_rekey(Workplace work, ContainerOptions options);
Task<Result<>> container_check(Workplace work, ContainerOptions options);

struct TenantOptions {
    std::string place;         // an engine's URI, or the pool directory of `up`
    std::string name;          // not list
    std::string certificates;  // a directory of them; empty: the usual one
    // create, set: by the names in tenancy/tenant.h. An empty text removes a setting.
    std::map<std::string, std::string> settings;
    std::string capability;  // revoke: only this one; empty: the tenant
};
Task<Result<>> tenant_create(Workplace work, TenantOptions options);
Task<Result<>> tenant_set(Workplace work, TenantOptions options);
Task<Result<>> tenant_revoke(Workplace work, TenantOptions options);
Task<Result<>> tenant_list(Workplace work, TenantOptions options);
Task<Result<>> tenant_rotate_key(Workplace work, TenantOptions options);
Task<Result<>> tenant_show(Workplace work, TenantOptions options);

struct FileOptions {
    std::vector<std::string> places;
    bool all = false;        // ls: also names that begin with a dot
    bool long_form = false;  // ls
    bool recursive = false;  // cp, rm, ls
    bool parents = false;    // mkdir
    bool force = false;      // rm: a missing file is no error
};
Task<Result<>> ls(Workplace work, FileOptions options);
Task<Result<>> cat(Workplace work, FileOptions options);
Task<Result<>> stat(Workplace work, FileOptions options);
Task<Result<>> mkdir(Workplace work, FileOptions options);
Task<Result<>> rm(Workplace work, FileOptions options);
Task<Result<>> mv(Workplace work, FileOptions options);
Task<Result<>> cp(Workplace work, FileOptions options);

struct WhyOptions {
    std::string place;
    uint64_t offset = 0;
    bool write = false;        // also write the same bytes back to the block that was read
    std::string trace_file{};  // gets the steps, too
};
Task<Result<>> why(Workplace work, WhyOptions options);

struct DoctorOptions {
    std::string place = ".";   // a directory or a URI
    std::string certificates;  // a directory of them; empty: the usual one
};
Task<Result<>> doctor(Workplace work, DoctorOptions options);

struct PlanOptions {
    std::string gpus, rate, sample;  // as they were written
    std::string hardware;            // a file; empty: the defaults
    std::string costs;               // a file; empty: the one of this build
    std::string backend = "engine";
    std::string provider = "ucx+tcp";
};
Task<Result<>> plan(Workplace work, PlanOptions options);

struct CertificateOptions {
    std::string directory;           // the authority's; show: a file
    std::string name;                // issue
    std::vector<std::string> names;  // names by which clients reach the server
    bool server = false;
    bool replace = false;
    uint32_t days = 365;
};
Task<Result<>> certs_init(Workplace work, CertificateOptions options);
Task<Result<>> certs_issue(Workplace work, CertificateOptions options);
Task<Result<>> certs_show(Workplace work, CertificateOptions options);

struct MountOptions {
    std::string uri;
    std::string mount_point;
    std::vector<std::string> further;  // for ros2store-fuse
};
// Becomes ros2store-fuse, and returns only on failure. With --json it starts one, and returns when
// the mount answers.
Task<Result<>> mount(Workplace work, MountOptions options);

}  // namespace ros2s::cli
