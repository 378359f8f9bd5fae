// ControlServer: the control plane of a daemon: gRPC over mutual TLS 1.3, on TCP and Unix sockets.
// Sessions and their tickets, pools and containers, and, where there are mounts,
// names and open files. Its services are thin: they check what came, and call the tables and file
// systems that the data plane works with too.
//
// The caller is the subject of its certificate. Beside our services it offers grpc.health.v1 and
// reflection, to the same callers.
//
// Owned by the program; what it is made of outlives it. Thread rule: everything here on the core of
// the reactor. gRPC's threads never touch a table, and the core never waits for gRPC: what blocks
// runs on the blocking pool.
// Fork rule: a forked child must not use it, nor destroy it; gRPC does not survive fork().
//
// Invariants
// - Every request runs on the core, under its caller's deadline; a cancelled one is stopped.
// - Bounded: connections in all and per subject, messages, requests on their way in and calls in
// all
//   and per subject, streams per connection, the time that a connection may take for its handshake
//   and a request until it is whole.
// - It accepts connections as long as it lives, whatever ran out meanwhile (connections.h).
// - One line in the log for each connection that was refused (audit), bounded per second.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ros2s/base/latency_histogram.h"
#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/base/result.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/object/object_store.h"
#include "ros2s/pki/certificate.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/session/access_table.h"
#include "ros2s/session/mounts.h"
#include "ros2s/session/sessions.h"

namespace ros2s::control {

// A pool whose engine, behind this server, cannot be reached now.
struct AbsentPool {
    std::string name;
    WallTime since{};
};

// The pools of this server. The composer's.
class PoolCatalog {
  public:
    virtual ~PoolCatalog() = default;
    [[nodiscard]] virtual std::vector<std::string> names() const = 0;
    // Null where there is none of that name, and where its containers are directories.
    [[nodiscard]] virtual object::ObjectStore* find(std::string_view pool) = 0;
    // The containers of a pool that no store keeps: directories of the server, which come and go
    // with its settings alone. Empty: it is no such pool.
    [[nodiscard]] virtual std::vector<std::string> directories(std::string_view /*pool*/) const {
        return {};
    }
    [[nodiscard]] virtual std::vector<AbsentPool> absent() const { return {}; }
    // What carries the I/O of a pool that find() knows, as clients may know it.
    [[nodiscard]] virtual std::string path(const std::string& pool) const = 0;
    // A container with an empty file system in it, in a pool that find() knows. Errors come with a
    // sentence: exists, invalid, no_space, read_only.
    virtual Task<Result<object::ContainerRecord>> create_container(
        const Call& call, std::string pool, object::ContainerProperties properties, fs::Owner owner,
        Report& report) = 0;
};

// Where the data plane listens, by provider.
struct DataAddress {
    std::string provider;  // "shm", "ucx+tcp"
    std::string address;   // as its clients name it
};

// Where sessions enter the data plane, for servers where each tenant has a place of its own. The
// composer's.
class TenantListeners {
  public:
    virtual ~TenantListeners() = default;
    // The session's, opened if it is the tenant's first; it stays while the tenant has sessions
    // that asked. Errors come with a sentence: busy, no_memory, io.
    virtual Task<Result<std::string>> open(const session::Session& session, std::string provider,
                                           Report& report) = 0;
};

struct ControlParts {
    Reactor& reactor;
    BlockingPool& blocking;
    session::SessionTable& sessions;
    session::TicketTable& tickets;
    PoolCatalog& pools;
    const session::AccessTable& access;           // who may do what
    session::Mounts* mounts = nullptr;            // null: no file services (an engine)
    TenantListeners* tenant_listeners = nullptr;  // null: all enter where ControlOptions::data says
    Log log{};
};

struct ControlOptions {
    // "127.0.0.1:7400", "[::1]:0" (any port), "unix:/run/ros2store/control.sock".
    std::vector<std::string> listen;
    pki::Identity identity;
    session::Purpose purpose = session::Purpose::store;  // what sessions here are for
    std::vector<DataAddress> data;
    std::string program{};                   // for people: "ros2store-engine 0.1.0"
    uint32_t message_bytes_max = 128 << 10;  // of a request; the largest is an attribute of 64 KiB
    uint32_t requests_max = 2048;            // on their way in, of all; a subject: as its calls
    Duration request_max = std::chrono::seconds(10);  // until one is whole
    // In all; where the process may have fewer than eight times as many descriptors, an eighth of
    // those.
    uint32_t connections_max = 4096;
    uint32_t connections_per_subject_max = 256;
    uint32_t calls_max = 4096;  // in progress, of all
    uint32_t calls_per_subject_max = 256;
    uint32_t streams_per_connection_max = 256;
    Duration handshake_max = std::chrono::seconds(10);
};

struct ControlCounters {
    uint64_t served = 0, failed = 0, cancelled = 0;
    uint64_t refused_busy = 0;         // calls over a bound
    uint64_t refused_late = 0;         // requests that were not whole in time
    uint64_t refused_connections = 0;  // see audit
    uint64_t connections = 0;          // now
    uint64_t unproven_connections = 0;
    uint64_t ended_for_room = 0;       // connections that had shown no certificate
    uint64_t without_descriptors = 0;  // times that one could not be accepted
};

class ControlServer {
  public:
    // What start() would refuse of its options, now: for who has long work to do before it. Errors:
    // those of start().
    [[nodiscard]] static Task<Result<>> check(Reactor& reactor, BlockingPool& blocking,
                                              ControlOptions options, Report& report);
    // Listens on every address. Also ends sessions that nobody uses (SessionTable::reap), until
    // stop(). Errors, each with a sentence: those of check_identity(), invalid (nothing to listen
    // on, no such address), busy (an address is taken, or not this machine's), denied, not_found.
    [[nodiscard]] static Task<Result<std::unique_ptr<ControlServer>>> start(ControlParts parts,
                                                                            ControlOptions options,
                                                                            Report& report);
    ~ControlServer();  // after stop()
    ControlServer(const ControlServer&) = delete;
    ControlServer& operator=(const ControlServer&) = delete;

    // As `listen`, with the ports that were taken for 0.
    [[nodiscard]] const std::vector<std::string>& addresses() const;
    // What health says of the service "pool/NAME": SERVING at first, for each pool that there is.
    // Nothing changes once the server drains.
    void set_pool_serving(const std::string& pool, bool serving);
    // Health says NOT_SERVING and no session is opened any more; what there is goes on.
    void drain();
    // Drains, takes no calls any more, lets those in progress end for `grace`, then cancels them,
    // and returns when none is left. Sessions are not ended: that is SessionTable::close_all().
    Task<> stop(Duration grace);

    // Moves on at least once a second while connections are accepted.
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
