#include "ros2s/api/deployment.h"

#include <errno.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "ros2s/api/server_address.h"
#include "ros2s/api/service_paths.h"
#include "ros2s/cache/cached_file_system.h"
#include "ros2s/cipher/container_keys.h"
#include "ros2s/config/units.h"
#include "ros2s/connection/direct_pool.h"
#include "ros2s/connection/host_files.h"
#include "ros2s/connection/rados_pool.h"
#include "ros2s/foreign/open_local_directory.h"
#include "ros2s/fs/container.h"
#include "ros2s/pki/certificate.h"
#include "ros2s/pool/owners_pool.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/pool/pool_process.h"
#include "ros2s/runtime/process_limits.h"

namespace ros2s::api {
namespace {

// The owner names its mount point before it has mounted, and a killed one leaves a dead mount.
Result<> check_mounted(const std::string& mount_point, const std::string& refusal, Report& report) {
    struct statfs status{};
    struct stat root{};
    const bool found =
        ::statfs(mount_point.c_str(), &status) == 0 && ::stat(mount_point.c_str(), &root) == 0;
    if (found && status.f_type == FUSE_SUPER_MAGIC && root.st_ino == fs::root_node.value) return {};
    return report.fail(Code::busy, "{} (nothing is mounted there now: {})", refusal,
                       found ? "not the root of a FUSE file system" : std::strerror(errno));
}

bool is_mount_of(const pool::OwnerRecord& owner, const Uri& uri) {
    return !owner.mount_point.empty() && owner.container == uri.container;
}

// A name for the server's operators.
std::string name_of(const DeploymentOptions& options) {
    return fmt::format("{}, process {}",
                       options.embedded.program.empty() ? ::program_invocation_short_name
                                                        : options.embedded.program,
                       ::getpid());
}

Result<connection::ServerAccess> server_access(const Uri& uri, const DeploymentOptions& options,
                                               Report& report) {
    ROS2S_TRY_ASSIGN(const ServerAddress server, server_address(uri, report));
    ROS2S_TRY(check_named_socket(uri, report));
    ROS2S_TRY_ASSIGN(const DataWay way, data_way(server, uri, report));
    return connection::ServerAccess{.control = server.control,
                                    .server_name = server.name,
                                    .identity = pki::identity_in(server.certificates, "client"),
                                    .pool = uri.pool,
                                    .program = name_of(options),
                                    .providers = way.providers,
                                    .ucx_device = way.ucx_device,
                                    .call_within = uri.timeout};
}

connection::RadosAddress rados_address(const Uri& uri) {
    connection::RadosAddress address{.conf = uri.rados};
    if (!uri.user.empty()) address.user = uri.user;
    address.metadata = uri.metadata.empty() ? uri.pool : uri.metadata;
    address.data = uri.data.empty() ? address.metadata : uri.data;
    return address;
}

}  // namespace

std::unexpected<Error> refuse_in_forked_child(Report& report) {
    return report.fail(
        Code::unsupported,
        "this process was forked from one that had opened a pool, and can open none itself: start "
        "it as a new program (exec; in Python, multiprocessing's start method 'spawn')");
}

Task<Result<std::unique_ptr<Deployment>>> Deployment::open(const Call& call,
                                                           Environment environment, Uri uri,
                                                           DeploymentOptions options,
                                                           Report& report) {
    std::unique_ptr<Deployment> deployment(
        new Deployment(std::move(environment), std::move(uri), std::move(options)));
    const auto composed = co_await deployment->compose(call, report);
    if (composed) co_return std::move(deployment);
    co_await deployment->close();
    co_return fail(composed.error());
}

Task<> Deployment::close() {
    co_await stack_.close();
    store_layers_.reset();  // on this core
}

Task<Result<>> Deployment::compose(const Call& call, Report& report) {
    if (const std::string keys = key_place(); !keys.empty() && store_layers_ == nullptr) {
        ROS2S_CO_TRY_ASSIGN(store_layers_,
                            cipher::decrypt_with(keys, cipher::keep_keys, environment_, report));
    }
    if (uri_.transport == Uri::Transport::rados) {
        if (options_.in_forked_child) co_return refuse_in_forked_child(report);
        co_return co_await in_cluster(call, report);
    }
    if (uri_.transport == Uri::Transport::local) co_return co_await local(call, report);
    co_return co_await network(call, uri_, report);
}

// An owner that shares the pool may be starting or ending. Then it does not listen, and soon there
// is another owner, or none.
Task<Result<>> Deployment::local(const Call& call, Report& report) {
    constexpr Duration patience = std::chrono::seconds(20);
    constexpr Duration pause = std::chrono::milliseconds(2);
    Reactor& reactor = environment_.reactor;
    const Time until = std::min(reactor.now() + patience, call.deadline);
    for (;;) {
        Report ignored, refusal;
        auto owner = pool::find_owner(uri_.dir, ignored).value_or(pool::OwnerRecord{});
        Result<> opened;
        const bool shared = owner.shares && options_.through_owner;
        if (shared) {
            opened = co_await through_process(call, owner, refusal);
        } else if (options_.in_forked_child) {
            opened = co_await find_owner_elsewhere(call, owner, refusal);
        } else {
            opened = co_await embedded(call, owner, refusal);
        }
        const bool is_open = opened && (shared || !options_.in_forked_child);
        if (is_open) co_return opened;
        const Code code = opened ? Code::busy : opened.error().code;
        if (code == Code::busy && options_.through_owner) {
            if (is_mount_of(owner, uri_)) co_return co_await through_mount(owner, report);
            if (is_served(uri_.dir, owner)) co_return co_await through_engine(call, owner, report);
        }
        const bool changes = opened || (owner.shares && options_.through_owner &&
                                        (code == Code::disconnected || code == Code::busy));
        if (!changes || reactor.now() >= until) {
            // Another user's process does not share the pool with this one.
            if (shared && code == Code::denied) {
                co_return report.fail(Code::busy, pool::describe_owner(uri_.dir, owner));
            }
            co_return report.fail(opened ? Error{.code = Code::busy} : opened.error(),
                                  opened ? pool::describe_owner(uri_.dir, owner) : refusal.text());
        }
        co_await stack_.close();
        if (!co_await sleep_for(reactor, pause, call.stop)) co_return fail(Code::cancelled);
    }
}

// Waits for an owner that ends soon. If there is none, starts one.
Task<Result<>> Deployment::find_owner_elsewhere(const Call& call, pool::OwnerRecord& owner,
                                                Report& report) {
    if (options_.pool_process.empty()) co_return refuse_in_forked_child(report);
    if (owner.pid == 0) {
        co_return co_await pool::start_pool_process(environment_.reactor, options_.pool_process,
                                                    uri_.dir, call.stop, report);
    }
    const pool::OwnerRecord self{.pid = ::getpid(), .shares = true};
    ROS2S_CO_TRY(co_await pool::Ownership::take_patiently(environment_.reactor, uri_.dir, self,
                                                          owner, report));
    co_return Result<>{};
}

// Dfs → CountedStore → EngineStore
Task<Result<>> Deployment::embedded(const Call& call, pool::OwnerRecord& owner, Report& report) {
    ROS2S_CO_TRY_ASSIGN(pool_, stack_.push("EmbeddedPool", co_await pool::EmbeddedPool::open(
                                                               environment_, uri_.dir,
                                                               options_.embedded, owner, report)));
    path_ = pool_->path();
    store_ = &pool_->store();
    ROS2S_CO_TRY(check_pool_name(uri_, pool_->name(), report));
    if (uri_.container.empty()) co_return Result<>{};
    ROS2S_CO_TRY_ASSIGN(file_system_,
                        co_await mount(call, uri_.container, uri_.is_durable, report));
    say_durability();
    co_return Result<>{};
}

// LocalDirectory ~> the owner's mount
Task<Result<>> Deployment::through_mount(pool::OwnerRecord owner, Report& report) {
    ROS2S_CO_TRY(check_mounted(owner.mount_point, pool::describe_owner(uri_.dir, owner), report));
    constexpr size_t descriptors_most = 1024;
    ROS2S_CO_TRY_ASSIGN(
        file_system_,
        stack_.push("LocalDirectory",
                    co_await foreign::open_local_directory(
                        owner.mount_point, environment_.reactor, environment_.blocking, report,
                        {.descriptors_max = descriptor_share(4, descriptors_most),
                         .syncs_writes = uri_.is_durable})));
    path_ = fmt::format("through the mount at {} (FUSE) of process {} ({})", owner.mount_point,
                        owner.pid, owner.program);
    mount_point_ = owner.mount_point;
    through_owner_ = true;
    co_return Result<>{};
}

Task<Result<>> Deployment::through_engine(const Call& call, pool::OwnerRecord owner,
                                          Report& report) {
    Uri served = uri_;
    served.transport = Uri::Transport::direct;
    served.provider = "shm";
    ROS2S_CO_TRY(co_await network(call, std::move(served), report));
    path_ = fmt::format("through process {} ({}), which has the pool open: {}", owner.pid,
                        owner.program, path_);
    through_owner_ = true;
    co_return Result<>{};
}

// CachedFileSystem → Dfs → VerifyingStore → RemoteStore ~> the owner of the pool
Task<Result<>> Deployment::through_process(const Call& call, pool::OwnerRecord owner,
                                           Report& report) {
    ROS2S_CO_TRY_ASSIGN(const auto found, pool::read_pool_directory(uri_.dir, report));
    ROS2S_CO_TRY(check_pool_name(uri_, found.config.pool, report));
    ROS2S_CO_TRY_ASSIGN(auto* const pool,
                        stack_.push("OwnersPool", co_await pool::OwnersPool::open(
                                                      call, environment_.reactor, environment_.log,
                                                      uri_.dir, options_.pool_process, report)));
    store_ = &pool->store();
    path_ = fmt::format("through process {} ({}), which has the pool open: {}", owner.pid,
                        owner.program, pool->path());
    ROS2S_CO_TRY(co_await open_container(call, fmt::format("the pool '{}'", uri_.pool), report));
    through_owner_ = true;
    co_return Result<>{};
}

Task<Result<>> Deployment::network(const Call& call, Uri uri, Report& report) {
    const bool dpu = uri.transport == Uri::Transport::dpu;
    const bool has_limit = uri.timeout.count() > 0;
    Call within = call;
    if (has_limit) {
        within.deadline = std::min(call.deadline, environment_.reactor.now() + uri.timeout);
    }
    auto opening = dpu ? offload(within, uri, report) : direct(within, uri, report);
    const auto opened = co_await std::move(opening);
    is_on_network_ = opened.has_value();
    if (opened) co_return opened;
    say_what_helps(uri, opened.error(), report);
    if (has_limit && opened.error().code == Code::deadline) {
        report.say("opening is bounded by the URI's timeout, {} s", uri.timeout.count());
    }
    co_return opened;
}

// CachedFileSystem → Dfs → VerifyingStore → RemoteStore ~> ros2store-engine
Task<Result<>> Deployment::direct(const Call& call, Uri uri, Report& report) {
    ROS2S_CO_TRY_ASSIGN(connection::ServerAccess engine, server_access(uri, options_, report));
    ROS2S_CO_TRY_ASSIGN(
        auto* const pool,
        stack_.push("DirectPool",
                    co_await connection::DirectPool::open(
                        environment_.reactor, {.server = std::move(engine), .opening = call},
                        environment_.log, report)));
    store_ = &pool->store();
    path_ = pool->path();
    co_return co_await open_container(call, fmt::format("the pool '{}'", uri.pool), report);
}

// Dfs → CountedStore → RadosStore ~> a Ceph cluster
Task<Result<>> Deployment::in_cluster(const Call& call, Report& report) {
    ROS2S_CO_TRY_ASSIGN(rados_, stack_.push("RadosPool", co_await connection::RadosPool::open(
                                                             environment_,
                                                             {.address = rados_address(uri_),
                                                              .formats = options_.formats,
                                                              .keeps_replies = false},
                                                             report)));
    store_ = &rados_->store();
    path_ = rados_->path();
    co_return co_await open_container(call, path_, report);
}

Task<Result<>> Deployment::open_container(const Call& call, std::string where, Report& report) {
    if (uri_.container.empty()) co_return Result<>{};
    const bool takes_leases = options_.caches && options_.exclusive_as.empty();
    ROS2S_CO_TRY_ASSIGN(file_system_, stack_.push("Dfs", co_await fs::open_container(
                                                             call, environment_.reactor, *store_,
                                                             std::move(where), uri_.container,
                                                             {.takes_leases = takes_leases,
                                                              .reaps = !options_.read_only,
                                                              .defers = !uri_.is_durable,
                                                              .exclusive_as = options_.exclusive_as,
                                                              .layers = store_layers_.get(),
                                                              .log = environment_.log,
                                                              .mounted_as = mounted_as()},
                                                             report)));
    use_leases({}, false);
    say_durability();
    co_return Result<>{};
}

void Deployment::say_durability() {
    if (file_system_->is_deferred()) path_ += ", durable at fsync";
}

void Deployment::use_leases(std::optional<fs::UserClaim> user, bool squashes_root) {
    if (file_system_->leases() == nullptr) return;
    cache::CachedFileSystem::Options options{.squashes_root = squashes_root};
    // A DPU soon bans a tenant whose hosts let others wait (session/mount_leases.h).
    if (user) options.opens_within = std::chrono::milliseconds(200);
    options.user = std::move(user);
    file_system_ = stack_.push(
        "CachedFileSystem",
        std::make_unique<cache::CachedFileSystem>(environment_.reactor, *file_system_, options));
}

// CachedFileSystem → LinkClient ~> ros2store-dpu
Task<Result<>> Deployment::offload(const Call& call, Uri uri, Report& report) {
    if (uri.container.empty()) {
        co_return report.fail(Code::unsupported,
                              "the pool '{}' is behind a DPU, which serves single containers; use "
                              "a URI of the engine (ros2s://)",
                              uri.pool);
    }
    ROS2S_CO_TRY_ASSIGN(connection::ServerAccess dpu, server_access(uri, options_, report));
    ROS2S_CO_TRY_ASSIGN(
        auto* const host,
        stack_.push("HostFiles",
                    co_await connection::HostFiles::open(
                        environment_.reactor,
                        {.dpu = std::move(dpu),
                         .container = uri.container,
                         .how = {.read_only = options_.read_only,
                                 .durable = uri.is_durable,
                                 .exclusive_as = options_.exclusive_as},
                         .takes_leases = options_.caches && options_.exclusive_as.empty(),
                         .opening = call,
                         .log = environment_.log},
                        report)));
    file_system_ = &host->file_system();
    path_ = host->path();
    if (!options_.exclusive_as.empty() && host->squashes_root()) {
        co_return report.fail(Code::unsupported,
                              "the DPU takes root of this machine for nobody (root_squash), and "
                              "the kernel writes back as root: leave `exclusive` out");
    }
    say_durability();
    use_leases(connection::user_of_process(), host->squashes_root());
    co_return Result<>{};
}

Task<Result<fs::FileSystem*>> Deployment::mount(const Call& call, std::string container,
                                                bool is_durable, Report& report) {
    co_return stack_.push("Dfs",
                          co_await pool_->open_container(call, std::move(container),
                                                         {.reaps = !options_.read_only,
                                                          .defers = !is_durable,
                                                          .exclusive_as = options_.exclusive_as,
                                                          .layers = store_layers_.get(),
                                                          .log = environment_.log,
                                                          .mounted_as = mounted_as()},
                                                         report));
}

// For lines of the log.
std::string Deployment::mounted_as() const {
    const std::string& on = options_.embedded.mount_point;
    return on.empty() ? "" : "mounted on " + on;
}

Task<> Deployment::unmount(fs::FileSystem& file_system) {
    ROS2S_CHECK(pool_ != nullptr);  // otherwise file_system() is part of another layer
    co_await stack_.close(&file_system);
}

std::string Deployment::limits() const {
    if (store_ == nullptr) return {};
    const object::Features features = store_->features();
    std::string text;
    const auto add = [&text](bool applies, std::string_view sentence) {
        if (applies) text += (text.empty() ? "" : "; ") + std::string(sentence);
    };
    add(features.own_pins, "a file that is open here can be removed by another client");
    add(features.late_space, "free space is reported late, and a full pool is noticed late");
    add(!features.caps, "containers and tenants have no caps");
    add(features.own_epochs,
        "changes of different files by different clients have no common order");
    return text;
}

Task<Result<>> Deployment::sweep(const Call& call, std::string container, Report& report) {
    if (rados_ == nullptr) co_return Result<>{};
    ROS2S_CO_TRY_ASSIGN(const auto record, co_await fs::find_container(
                                               call, *store_, path_, std::move(container), report));
    Report why;
    const auto swept = co_await rados_->sweep(call, record.id, why);
    if (swept) co_return swept;
    co_return report.fail(swept.error(), "cannot remove the remains of crashed clients in {}: {}",
                          path_, why.text());
}

namespace {

// The time that a thread that waits for a server polls: ROS2STORE_POLL.
Result<Duration> poll_of_process(Report& report) {
    constexpr Duration most = std::chrono::milliseconds(10);
    const char* const text = std::getenv("ROS2STORE_POLL");
    if (text == nullptr || *text == '\0') return OsReactorOptions::poll_for_default;
    const auto parsed = config::parse_duration(text);
    if (parsed && *parsed <= most) return *parsed;
    return report.fail(Code::invalid, "ROS2STORE_POLL is '{}', not a duration from 0 to 10ms",
                       text);
}

}  // namespace

Result<std::unique_ptr<OsReactor>> create_reactor(const Uri& uri, Report& report,
                                                  OsReactorOptions options) {
    if (uri.transport == Uri::Transport::local) {
        ROS2S_TRY_ASSIGN(const auto pool, pool::read_pool_directory(uri.dir, report));
        return create_reactor(pool, report, std::move(options));
    }
    if (uri.transport == Uri::Transport::dpu) options.ring = RingChoice::threads;
    ROS2S_TRY_ASSIGN(options.poll_for, poll_of_process(report));
    return OsReactor::create(std::move(options), report);
}

Result<> check_pool_name(const Uri& uri, const std::string& name, Report& report) {
    if (uri.pool == name) return {};
    Uri right = uri;
    right.pool = name;
    return report.fail(Code::not_found, "the pool in {} is named '{}', not '{}'; its URI is {}",
                       uri.dir, name, uri.pool, right.to_string());
}

bool is_opened_here(const Uri& uri) {
    return uri.transport == Uri::Transport::local || uri.transport == Uri::Transport::rados;
}

bool is_served(const std::string& directory, const pool::OwnerRecord& owner) {
    std::error_code ignored;
    return owner.program == pool::engine_program &&
           std::filesystem::exists(ServicePaths(directory).engine_control, ignored);
}

}  // namespace ros2s::api
