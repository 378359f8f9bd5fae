// ControlServer: the control plane of a daemon: gRPC over mutual TLS 1.3, on TCP and Unix sockets.
// It serves sessions and their tickets, pools and containers, and, if there are mounts, names and
// open files. Its services only check requests, and call the tables and file systems that the data
// plane also uses.
//
// The caller is the subject of its certificate. The server also offers grpc.health.v1 and
// reflection, to the same callers.
//
// Owned by the program; its parts outlive it. Thread rule: everything here runs on the reactor's
// core. gRPC's threads never use a table, and the core never waits for gRPC: blocking calls run on
// the blocking pool. Fork rule: a forked child must neither use nor destroy it; gRPC does not
// survive fork().
//
// Invariants
// - Every request runs on the core, with its caller's deadline. A cancelled one is stopped.
// - Bounded, in all, per tenant and per subject (tenant_shares.h): connections, requests being
//   received, and calls until their reply is taken. Also messages, streams per connection, and the
//   time for a handshake, for receiving a request and until its reply is taken.
// - It accepts connections as long as it lives, whatever resource runs out (connections.h).
// - The log has one line for each refused connection (audit), bounded per second.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ros2s/admission/admission.h"
#include "ros2s/base/latency_histogram.h"
#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/base/result.h"
#include "ros2s/control/capabilities.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/object/leases.h"
#include "ros2s/object/object_store.h"
#include "ros2s/pki/certificate.h"
#include "ros2s/rights/grants/grant.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/session/mounts.h"
#include "ros2s/session/sessions.h"
#include "ros2s/tenancy/registry.h"

namespace ros2s::control {

// A pool whose engine this server cannot reach now.
struct AbsentPool {
    std::string name;
    WallTime since{};
};

// The pools of this server. Implemented by the composing code.
class PoolCatalog {
  public:
    virtual ~PoolCatalog() = default;
    [[nodiscard]] virtual std::vector<std::string> names() const = 0;
    // Null if no pool has that name, and for a pool whose containers are directories, or that is
    // used with capabilities.
    [[nodiscard]] virtual object::ObjectStore* find(std::string_view pool) = 0;
    [[nodiscard]] bool has(std::string_view pool) const {
        const std::vector<std::string> all = names();
        return std::find(all.begin(), all.end(), pool) != all.end();
    }
    // What the containers of a pool without a store are, and who makes them: the end of a sentence.
    // Empty: it is not such a pool.
    [[nodiscard]] virtual std::string kept_elsewhere(std::string_view /*pool*/) const { return {}; }
    // The labels of the containers of such a pool. Errors: those of asking for them.
    virtual Task<Result<std::vector<std::string>>> labels(const Call& /*call*/,
                                                          std::string /*pool*/) {
        co_return std::vector<std::string>{};
    }
    [[nodiscard]] virtual std::vector<AbsentPool> absent() const { return {}; }
    // The tenants of a pool that find() returns. Null: another server keeps them.
    [[nodiscard]] virtual tenancy::TenantRegistry* tenants(std::string_view /*pool*/) {
        return nullptr;
    }
    // The leases of a pool that find() returns. Null: another server gives them.
    [[nodiscard]] virtual object::LeaseTable* leases(std::string_view /*pool*/) { return nullptr; }
    // The store of a pool for one use by the subject. Default: the one of find(). Errors, with a
    // sentence: not_found; those of reaching the pool.
    virtual Task<Result<std::shared_ptr<object::ObjectStore>>> store_for(const Call& /*call*/,
                                                                         std::string /*subject*/,
                                                                         std::string pool,
                                                                         capability::Use /*use*/,
                                                                         Report& report) {
        object::ObjectStore* const store = find(pool);
        if (store == nullptr) {
            co_return report.fail(Code::not_found, "there is no pool '" + pool + "' here");
        }
        co_return std::shared_ptr<object::ObjectStore>(std::shared_ptr<void>(), store);
    }
    // The transport of the I/O of a pool that find() returns, in a form that clients may see.
    [[nodiscard]] virtual std::string path(const std::string& pool) const = 0;
    // The grants of the capabilities that the subject's tenant has handed over. An engine issues
    // them also for what the tenant owns, which its own grants do not say.
    [[nodiscard]] virtual std::vector<rights::Grant> handed_over(
        std::string_view /*pool*/, std::string_view /*subject*/) const {
        return {};
    }
    // Sets owner and caps of a container of a pool that find() returns. Errors, with a sentence:
    // unsupported (another server has the pool); those of the store.
    virtual Task<Result<object::ContainerRecord>> set_container(const Call& /*call*/,
                                                                std::string /*pool*/,
                                                                object::ContainerId /*container*/,
                                                                object::ContainerChange /*change*/,
                                                                Report& report) {
        co_return report.fail(Code::unsupported,
                              "the engine that has the pool keeps caps and owners: name the "
                              "engine, as in ros2s://HOST:PORT/POOL/CONTAINER");
    }
    // Creates a container with an empty file system in a pool that find() returns. Errors come with
    // a sentence: exists, invalid, no_space, read_only.
    virtual Task<Result<object::ContainerRecord>> create_container(
        const Call& call, std::string subject, std::string pool,
        object::ContainerProperties properties, fs::Owner owner, Report& report) = 0;
};

// An address of the data plane, by provider.
struct DataAddress {
    std::string provider;  // "shm", "ucx+tcp"
    std::string address;   // in the form that clients use
};

// Addresses of the data plane, for servers with one listener per tenant. Implemented by the
// composing code.
class TenantListeners {
  public:
    virtual ~TenantListeners() = default;
    // The address for the session. Opens the listener for the tenant's first session. It stays open
    // while the tenant has sessions that called this. Errors come with a sentence: busy, no_memory,
    // io.
    virtual Task<Result<std::string>> open(const session::Session& session, std::string provider,
                                           Report& report) = 0;
};

struct ControlParts {
    Reactor& reactor;
    BlockingPool& blocking;
    session::SessionTable& sessions;  // also has the rights of subjects
    session::TicketTable& tickets;
    PoolCatalog& pools;
    session::Mounts* mounts = nullptr;            // null: no file services (an engine)
    admission::Admission* admission = nullptr;    // of the data plane: calls on names, files and
                                                  // containers take turns with its requests. Null:
                                                  // they do not
    TenantListeners* tenant_listeners = nullptr;  // null: all sessions use the addresses in
                                                  // ControlOptions::data
    Capabilities* capabilities = nullptr;         // null: it has none
    Log log{};
};

struct ControlOptions {
    // "127.0.0.1:7400", "[::1]:0" (any port), "unix:/run/ros2store/control.sock".
    std::vector<std::string> listen;
    pki::Identity identity;
    session::Purpose purpose = session::Purpose::store;  // the purpose of sessions here
    std::vector<DataAddress> data;
    std::string program{};                      // for people: "ros2store-engine 0.1.0"
    std::vector<std::string> administrators{};  // subjects that may change tenants
    uint32_t message_bytes_max = 128 << 10;  // of a request; the largest is an attribute of 64 KiB
    uint32_t requests_max = 2048;            // being received, of all subjects; for one subject:
                                             // the same limit as for calls
    Duration request_max = std::chrono::seconds(10);  // for receiving a request completely, and
                                                      // again until the client has its reply
    // In all. If the process may have fewer than eight times as many descriptors: an eighth of
    // them.
    uint32_t connections_max = 4096;
    uint32_t connections_per_subject_max = 256;
    uint32_t calls_max = 4096;  // until the client has the reply; of all subjects
    uint32_t calls_per_subject_max = 256;
    Duration handshake_max = std::chrono::seconds(10);
};

struct ControlCounters {
    uint64_t served = 0, failed = 0, cancelled = 0;
    uint64_t refused_busy = 0;         // calls over a limit
    uint64_t refused_late = 0;         // requests that were not complete in time
    uint64_t refused_connections = 0;  // see the audit lines
    uint64_t connections = 0;          // now
    uint64_t unproven_connections = 0;
    uint64_t ended_for_room = 0;       // connections closed to make room, which had presented no
                                       // certificate
    uint64_t without_descriptors = 0;  // times that a connection could not be accepted
};

class ControlServer {
  public:
    // Checks what start() would refuse in the options. For callers that have long work to do before
    // start(). Errors: those of start().
    [[nodiscard]] static Task<Result<>> check(Reactor& reactor, BlockingPool& blocking,
                                              ControlOptions options, Report& report);
    // Listens on every address. Until stop() it also ends unused sessions (SessionTable::reap).
    // Errors, each with a sentence: those of check_identity(), invalid (nothing to listen on, no
    // such address), busy (an address is taken, or not this machine's), denied, not_found.
    [[nodiscard]] static Task<Result<std::unique_ptr<ControlServer>>> start(ControlParts parts,
                                                                            ControlOptions options,
                                                                            Report& report);
    ~ControlServer();  // call stop() first
    ControlServer& operator=(ControlServer&&) = delete;

    // As `listen`, with the actual ports in place of 0.
    [[nodiscard]] const std::vector<std::string>& addresses() const;
    // The health status of the service "pool/NAME". Initially SERVING for each existing pool. It
    // does not change once the server drains.
    void set_pool_serving(const std::string& pool, bool serving);
    // Health becomes NOT_SERVING and no session is opened any more. Existing sessions continue.
    void drain();
    // Drains, refuses calls, lets calls in progress end for `grace`, then cancels them, and returns
    // when none is left. It does not end sessions: SessionTable::close_all() does.
    Task<> stop(Duration grace);

    // Increases at least once a second while connections are accepted.
    [[nodiscard]] uint64_t rounds() const;
    [[nodiscard]] ControlCounters counters() const;
    void visit_metrics(const MetricVisitor& visit) const;
    void visit_times(const HistogramVisitor& visit) const;

  private:
    struct Parts;
    explicit ControlServer(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

}  // namespace ros2s::control
