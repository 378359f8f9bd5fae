// PoolService: gives the pool of this process to other processes of its user, over shared memory
// and a private socket in the pool's directory. It has the store server of ros2store-engine; the
// kernel's credentials of a peer are its ticket.
//
//     other process ~ RemoteStore ~> DIR/owner.sock: rpc::Server → StoreServer → the pool's store
//
// Owned by the EmbeddedPool; the store outlives it. Used on its core; close() before destruction.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ros2s/fabric/domain.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/object/object_store.h"
#include "ros2s/pool/owner.h"
#include "ros2s/remote/store_server.h"
#include "ros2s/rpc/server.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::pool {

// The socket of a pool's owner. The path of a socket has at most 107 bytes: that of a longer one
// leads through a descriptor of the directory.
struct ServiceAddress {
    // Errors, with a sentence: those of the file system.
    [[nodiscard]] static Result<ServiceAddress> in(const std::string& directory, Report& report);
    fabric::Descriptor directory{};
    std::string path;
};

class PoolService final : private rpc::Gate {
  public:
    using OnChange = std::function<void(const std::vector<PoolUser>&)>;
    // Errors, with a sentence: those of rpc::Server::listen().
    [[nodiscard]] static Task<Result<std::unique_ptr<PoolService>>> listen(
        Environment environment, std::string directory, object::ObjectStore& store,
        OnChange on_change, Report& report);
    ~PoolService() override;
    // Answers the requests in progress. Users then look for another owner.
    Task<> close();
    // Returns when there is no user any more; if none comes, after `within`.
    Task<> until_unused(Duration within);
    void visit_metrics(const MetricVisitor& visit) const { service_.metrics().visit(visit); }

  private:
    PoolService(Environment environment, object::ObjectStore& store, OnChange on_change,
                ServiceAddress address);
    // Processes of the owner's user only.
    Result<rpc::Guest> admit(const rpc::HelloBody& hello, const fabric::Peer& peer) override;
    void left(const rpc::Guest& guest) override;
    void say() const;

    Environment environment_;
    const OnChange on_change_;
    ServiceAddress address_;
    remote::StoreServer service_;
    std::map<uint64_t, PoolUser> users_;  // by the session of their connection
    Event left_;
    std::unique_ptr<fabric::Domain> domain_;
    std::unique_ptr<rpc::Server> server_;
};

}  // namespace ros2s::pool
