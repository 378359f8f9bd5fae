// StoreServer: the rpc::Service that serves the requests of RemoteStores from an ObjectStore.
//
// Owned by the code that composes it. It outlives the servers that use it, and the store outlives
// it. Used on the store's core.
//
// Invariants
// - A request is decoded, and its fields are consistent, before the store gets it. The store checks
//   whether it is valid.
// - Payload is received into memory that no client can access, and sent from such memory. Only the
//   bytes of arrays may stay in the client's memory until the store copies them (Window::shared).
#pragma once
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ros2s/base/metrics.h"
#include "ros2s/object/object_store.h"
#include "ros2s/pki/signature.h"
#include "ros2s/remote/wire.h"
#include "ros2s/rpc/request.h"

namespace ros2s::remote {

// ContainerPolicy: what the clients of a StoreServer may do with containers. A StoreServer without
// one serves every client everything.
//
// Owned by the composing code; outlives the server. Used on its core.
class ContainerPolicy {
  public:
    // `read` includes pins, which keep a file that is open.
    enum class Use : uint8_t { read, write, destroy };

    virtual ~ContainerPolicy() = default;

    // True: the client may. False: it may not, or a look-up is needed; decide() has the answer.
    // Called for each request.
    [[nodiscard]] virtual bool permits(const rpc::Request& request, object::ContainerId container,
                                       Use use) const = 0;
    // Errors: denied, with an audit line; those of ObjectStore::list_containers(). No error for a
    // container that does not exist: the store has the answer to that. Charges the request for what
    // it looks at.
    virtual Task<Result<>> decide(rpc::Request& request, object::ContainerId container,
                                  Use use) = 0;
    // Errors: denied, with an audit line.
    virtual Result<> permit_creation(const rpc::Request& request, const std::string& label) = 0;
    // Sets the owner of what the client creates. A client that claims one may have to be refused.
    // Errors: denied, with an audit line.
    virtual Result<> own(const rpc::Request& request, object::ContainerProperties& properties) = 0;
    // Returns true if the client may see that it exists.
    [[nodiscard]] virtual bool shows(const rpc::Request& request,
                                     const object::ContainerRecord& container) const = 0;

    // The client made or destroyed it.
    virtual void made(const rpc::Request& request, const object::ContainerRecord& container) = 0;
    virtual void destroyed(const rpc::Request& request, object::ContainerId container) = 0;
};

struct StoreServerMetrics {
    Counter fetches, updates, lists, others;
    Counter malformed;  // bodies that could not be decoded
    Counter replayed;   // updates that were done before: the stored reply was returned
    void visit(const MetricVisitor& visit) const;
};

// The kind of work of a request to a store.
[[nodiscard]] admission::Work work_of(const rpc::Request& request);
// Others wait for the leases that it gives back.
[[nodiscard]] inline bool is_awaited(const rpc::Request& request) {
    return request.method() == static_cast<uint16_t>(Method::listen);
}
// The memory that a request holds until its reply is read, beside its own payload.
[[nodiscard]] uint64_t reply_memory_bytes_of(const rpc::Request& request);

class StoreServer final : public rpc::Service {
  public:
    // The policy, if there is one, outlives it.
    // `fingerprint`: for clients that serve others, as DPUs do. Null: there are none, and no need
    // of OpenSSL.
    using Fingerprint = Uuid (*)(std::string_view);
    explicit StoreServer(object::ObjectStore& store, ContainerPolicy* policy = nullptr,
                         Fingerprint fingerprint = &pki::fingerprint);
    ~StoreServer() override;

    [[nodiscard]] const StoreServerMetrics& metrics() const { return metrics_; }
    // Bytes of memory that it keeps for decoding later requests.
    [[nodiscard]] size_t kept_bytes() const;
    [[nodiscard]] uint32_t number() const override { return object_service; }
    Task<> serve(rpc::Request& request) override;
    [[nodiscard]] admission::Work work(const rpc::Request& request) const override {
        return work_of(request);
    }
    [[nodiscard]] bool is_awaited(const rpc::Request& request) const override {
        return remote::is_awaited(request);
    }
    [[nodiscard]] uint64_t reply_memory_bytes(const rpc::Request& request) const override {
        return reply_memory_bytes_of(request);
    }
    // `session` as in rpc::Guest.
    void session_ended(uint64_t session) { store_.session_ended(session); }
    void client_ended(uint64_t session) { store_.client_ended(session); }
    [[nodiscard]] std::string_view name() const override { return "engine.serve"; }

  private:
    // Memory into which a request is decoded; reused for later requests, unless it became large.
    struct Workspace;
    class Borrowed;

    // The owner of a request's update names: the client, or a client that it serves (a DPU's host).
    [[nodiscard]] Uuid owner_of(const rpc::Request& request, const Uuid& served);
    // The name of a change of containers. `served`: as for owner_of().
    [[nodiscard]] UpdateName name_of(const rpc::Request& request, const Uuid& served,
                                     uint64_t digest);
    // True without a policy. False: call policy_->decide().
    [[nodiscard]] bool permits(const rpc::Request& request, object::ContainerId container,
                               ContainerPolicy::Use use) const {
        return policy_ == nullptr || policy_->permits(request, container, use);
    }
    // Each method's part replies, or returns the error with which `serve` replies.
    Task<Result<>> answer(rpc::Request& request, Workspace& work);
    Task<Result<>> describe_store(rpc::Request& request, Workspace& work);
    Task<Result<>> space(rpc::Request& request, Workspace& work);
    Task<Result<>> create_container(rpc::Request& request, Workspace& work);
    Task<Result<>> destroy_container(rpc::Request& request);
    Task<Result<>> list_containers(rpc::Request& request, Workspace& work);
    Task<Result<>> query(rpc::Request& request, Workspace& work);
    Task<Result<>> unpin(rpc::Request& request, Workspace& work);
    Task<Result<>> pinned_again(rpc::Request& request, Workspace& work);
    Task<Result<>> lock(rpc::Request& request, Workspace& work);
    Task<Result<>> listen(rpc::Request& request, Workspace& work);
    Task<Result<>> sync(rpc::Request& request, Workspace& work);
    Task<Result<>> fetch(rpc::Request& request, Workspace& work);
    Task<Result<>> pin(rpc::Request& request, Workspace& work);
    Task<Result<>> fetch_chain(rpc::Request& request, Workspace& work);
    // Memory for the items' bytes. Errors: invalid (the request has no such sink).
    static Result<rpc::PayloadMemory> give_windows(rpc::Request& request, Workspace& work);
    // `body`: of the reply, encoded in the workspace.
    static Task<Result<>> send_fetched(rpc::Request& request, Workspace& work, ConstBytes body,
                                       Bytes memory);
    Task<Result<>> update(rpc::Request& request, Workspace& work);
    Task<Result<>> list(rpc::Request& request, Workspace& work);
    // Counts bodies that could not be decoded.
    template <class T>
    Result<T> read(Result<T> decoded) {
        if (!decoded) metrics_.malformed.add();
        return decoded;
    }

    object::ObjectStore& store_;
    ContainerPolicy* const policy_;
    const Fingerprint fingerprint_;
    StoreServerMetrics metrics_;
    std::vector<std::unique_ptr<Workspace>> idle_;
    std::map<std::pair<Uuid, Uuid>, Uuid> owners_;  // a bounded cache of computed owners
};

}  // namespace ros2s::remote
