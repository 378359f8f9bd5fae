// ControlClient: a client of a control plane, for applications and the host library: one gRPC
// channel over mutual TLS 1.3 to one server. No thread waits: calls are coroutines on their
// reactor. Their Call cancels them and sets their deadline. Both reach the server.
//
// The certificate files are read at creation, and again when a call finds that they were renewed.
// That call and later ones then use a new connection. A call that finds no server fails at once.
// After `disconnected`, a call may or may not have been done. Only creating and destroying
// containers uses a name that the store keeps with the reply: these calls are sent again for 30 s
// and take effect once.
//
// Owned by its creator; outlives its users. Thread rule: used on the reactor's core; destroyed
// after every call is done. Fork rule: a forked child must neither use nor destroy it.
//
// Errors of all calls: those of the server, unchanged; disconnected, denied (the certificate),
// deadline, cancelled. Each comes with a sentence in the report.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/capability/chain.h"
#include "ros2s/control/capabilities.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/object/object_store.h"
#include "ros2s/pki/certificate.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/task.h"
#include "ros2s/session/mounts.h"
#include "ros2s/session/sessions.h"
#include "ros2s/tenancy/registry.h"
#include "ros2s/tenancy/seen_tenants.h"

namespace ros2s::control {

struct ClientOptions {
    std::string address;  // "dpu-1:7400", "unix:/run/ros2store/control.sock"
    pki::Identity identity;
    // The name that the server's certificate must have. Empty: the host of `address`, which a Unix
    // socket does not have.
    std::string server_name{};
    uint32_t message_bytes_max = 4 << 20;  // of a reply
};

// Shows a capability in sessions. Outlives them; used on their core.
class CapabilityHolder {
  public:
    virtual ~CapabilityHolder() = default;
    [[nodiscard]] virtual capability::Chain chain() const = 0;
    // The signature over capability::proof_message() for this chain.
    [[nodiscard]] virtual std::string prove(const capability::Chain& chain, std::string_view nonce,
                                            session::SessionId session,
                                            std::string_view provider) const = 0;
};

struct SessionOptions {
    Uuid client;  // the opened library
    session::Purpose purpose = session::Purpose::store;
    std::string pool;
    std::string program{};               // for people
    std::vector<std::string> providers;  // of the data plane, best first
    // Null: the session has the rights of this program's certificate.
    const CapabilityHolder* holder = nullptr;
};

struct GivenTicket {
    session::Ticket ticket;
    Duration lifetime{};  // from the reply on
};

struct OpenedSession {
    session::SessionId id{};
    GivenTicket ticket;  // none, if there is a nonce: show_capability() gives it
    std::string nonce;   // for the proof of a holder
    std::string provider;
    std::string address;  // of the data plane
    // A session without a connection and without a call ends after this time.
    Duration idle_max{};
};

struct ShownReply {
    std::optional<GivenTicket> ticket;  // with the first capability of the session
    std::string nonce;                  // for the next proof
};

struct MountedAt {
    session::MountId id{};
    std::string storage;  // the storage of its files, for people; empty: unknown
    bool lends_leases = false, squashes_root = false;
    bool is_deferred = false;  // as fs::FileSystem
    bool is_exclusive = false;
};
struct MountAs {
    bool read_only = false;
    bool durable = false;        // each change, also if the container has durability=fsync
    std::string exclusive_as{};  // as fs::DfsOptions
};

struct PoolFacts {
    object::PoolSpace space;
    uint64_t containers = 0;
    std::string path;  // the transport of its I/O on the server
};

struct ServerFacts {
    std::string program;  // "ros2store-engine 0.1.0"
    bool serving = false;
    uint64_t sessions = 0;                                  // open sessions of all clients
    std::vector<std::pair<std::string, std::string>> data;  // provider, address
    // Pools whose engine the server cannot reach, and since when.
    std::vector<std::pair<std::string, WallTime>> absent;
};

// A holder of leases at a server.
struct SeenHolder {
    std::string name, container;
    std::string tenant, from, program;  // of its session; empty: it is gone
    uint64_t session = 0;
    Duration held{};  // since it began
    uint64_t nodes = 0;
    uint64_t recalls = 0;  // without an answer
    Duration recalled{};   // since the oldest of these
    bool ends = false;
};
struct SeenLeases {
    std::vector<SeenHolder> holders;
    // Tenants that get no leases, and for how long.
    std::vector<std::pair<std::string, Duration>> barred;
};

struct ListedTenants {
    uint64_t version = 0;
    // None if the version is the one that the caller has.
    std::optional<tenancy::SeenTenants> tenants;
    // For capabilities of the pool; nil and empty if the engine has none.
    Uuid audience;
    std::vector<capability::PublicKey> issuers;
    WallTime now{};         // by the engine's clock
    bool own_only = false;  // the client is a tenant's, and sees no others
};

// What a client needs to have a session, and a mount in it.
class SessionClient {
  public:
    // A ControlClient. In libros2store.so, which loads the library that has it (api/c/loaded), a
    // HelperClient (control/process) if this process was forked from one that used gRPC. Errors:
    // those of ControlClient::create(); unsupported (the library cannot be loaded).
    [[nodiscard]] static Result<std::unique_ptr<SessionClient>> create(Reactor& reactor,
                                                                       ClientOptions options,
                                                                       Report& report);
    virtual ~SessionClient() = default;
    SessionClient& operator=(SessionClient&&) = delete;

    virtual Task<Result<OpenedSession>> open_session(const Call& call, SessionOptions wanted,
                                                     Report& report) = 0;
    // Returns how long the session lives from now on without being used.
    virtual Task<Result<Duration>> keep_alive(const Call& call, session::SessionId id,
                                              Report& report) = 0;
    virtual Task<Result<GivenTicket>> issue_ticket(const Call& call, session::SessionId id,
                                                   Report& report) = 0;
    virtual Task<Result<ShownReply>> show_capability(const Call& call, session::SessionId id,
                                                     capability::Chain chain, std::string proof,
                                                     Report& report) = 0;
    virtual Task<Result<>> close_session(const Call& call, session::SessionId id,
                                         Report& report) = 0;

    // If the server is a DPU that needs capabilities: gets one for this program and hands it to the
    // DPU. Returns after how long it should be done again; nothing: the server needs none. The
    // functions for containers of ControlClient do it themselves, also before they send a request
    // again: a DPU that was restarted has another key. Errors: denied, disconnected.
    virtual Task<Result<std::optional<Duration>>> delegate(const Call& call, std::string pool,
                                                           capability::Use use, Report& report) = 0;
    virtual Task<Result<MountedAt>> mount(const Call& call, session::SessionId id,
                                          std::string container, MountAs how, Report& report) = 0;
    virtual Task<Result<>> unmount(const Call& call, session::SessionId id, session::MountId mount,
                                   Report& report) = 0;
};

class ControlClient : public SessionClient {
  public:
    // Reads the files. The first call connects. Errors, with a sentence: those of
    // pki::check_identity(), invalid (the address).
    [[nodiscard]] static Result<std::unique_ptr<ControlClient>> create(Reactor& reactor,
                                                                       ClientOptions options,
                                                                       Report& report);

    ~ControlClient() override;

    Task<Result<OpenedSession>> open_session(const Call& call, SessionOptions wanted,
                                             Report& report) override;
    Task<Result<Duration>> keep_alive(const Call& call, session::SessionId id,
                                      Report& report) override;
    Task<Result<GivenTicket>> issue_ticket(const Call& call, session::SessionId id,
                                           Report& report) override;
    Task<Result<ShownReply>> show_capability(const Call& call, session::SessionId id,
                                             capability::Chain chain, std::string proof,
                                             Report& report) override;
    Task<Result<>> close_session(const Call& call, session::SessionId id, Report& report) override;
    Task<Result<std::optional<Duration>>> delegate(const Call& call, std::string pool,
                                                   capability::Use use, Report& report) override;
    Task<Result<MountedAt>> mount(const Call& call, session::SessionId id, std::string container,
                                  MountAs how, Report& report) override;
    Task<Result<>> unmount(const Call& call, session::SessionId id, session::MountId mount,
                           Report& report) override;

    // Errors: unsupported (the server is older than this call).
    Task<Result<ServerFacts>> query_server(const Call& call, Report& report);
    Task<Result<std::vector<std::string>>> list_pools(const Call& call, Report& report);
    Task<Result<PoolFacts>> query_pool(const Call& call, std::string pool, Report& report);
    Task<Result<object::ContainerRecord>> create_container(const Call& call, std::string pool,
                                                           object::ContainerProperties properties,
                                                           fs::Owner owner, Report& report);
    // A directory of a DPU has a label, and no id.
    Task<Result<std::vector<object::ContainerRecord>>> list_containers(const Call& call,
                                                                       std::string pool,
                                                                       Report& report);
    Task<Result<object::ContainerRecord>> query_container(const Call& call, std::string pool,
                                                          std::string label, Report& report);
    // Errors: denied, unsupported (a DPU).
    Task<Result<object::ContainerRecord>> set_container(const Call& call, std::string pool,
                                                        std::string label,
                                                        object::ContainerChange change,
                                                        Report& report);
    Task<Result<>> destroy_container(const Call& call, std::string pool, std::string label,
                                     Report& report);

    // Those that this client may see. `container`: empty for all. Errors: not_found, denied,
    // unsupported (the server is older than this call).
    Task<Result<SeenLeases>> list_leases(const Call& call, std::string pool, std::string container,
                                         Report& report);
    // Errors: the same.
    Task<Result<>> evict_holder(const Call& call, std::string pool, std::string container,
                                std::string holder, Report& report);

    // Errors: unsupported (a DPU, or a server that is older than this call), denied.
    Task<Result<tenancy::SeenTenant>> change_tenant(const Call& call, std::string pool,
                                                    tenancy::Change what, std::string name,
                                                    config::Entries settings, Report& report);
    // Revokes one capability of the tenant. Returns how many sessions used it. Errors: those of
    // Capabilities::revoke(), denied, unsupported.
    Task<Result<uint64_t>> revoke_capability(const Call& call, std::string pool, std::string tenant,
                                             Uuid capability, Report& report);
    // Those of a tenant that sessions of the engine use now. Errors: denied, unsupported.
    Task<Result<std::vector<CapabilityInUse>>> list_capabilities(const Call& call, std::string pool,
                                                                 std::string tenant,
                                                                 Report& report);
    // Another key signs the pool's capabilities from now on. Errors: denied, unsupported, busy.
    Task<Result<>> rotate_capability_key(const Call& call, std::string pool, Report& report);

    // The steps of delegate(). The name of the pool in capabilities, and the key of the program
    // that gets one. Errors: unsupported (the server has no capabilities of the pool).
    Task<Result<Capabilities::Description>> describe_capabilities(const Call& call,
                                                                  std::string pool, Report& report);
    // The rights are at most those requested, and fewer if the tenant has fewer.
    Task<Result<std::string>> issue_capability(const Call& call, std::string pool,
                                               capability::CapabilityRequest wanted,
                                               Report& report);
    // Hands a chain to a DPU. Errors: denied, unsupported, busy.
    Task<Result<>> hand_over(const Call& call, std::string pool, capability::Chain chain,
                             Report& report);
    // For programs that forward the requests of others.
    Task<Result<std::string>> relay_capability_request(const Call& call, std::string pool,
                                                       SignedCapabilityRequest wanted,
                                                       Report& report);

    // `known`: a version, 0 for none. Returns at once if it is not the current one, otherwise after
    // the next change or tenancy::TenantRegistry::heartbeat. Those that this client may see.
    // Errors: unsupported.
    Task<Result<ListedTenants>> list_tenants(const Call& call, std::string pool, uint64_t known,
                                             Report& report);

    struct Parts;  // for the implementation and tests
    [[nodiscard]] Parts& parts() { return *parts_; }

  private:
    explicit ControlClient(std::unique_ptr<Parts> parts);

    std::unique_ptr<Parts> parts_;
};

}  // namespace ros2s::control
