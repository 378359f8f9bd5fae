// OwnersPool: a pool that another process of this user has open, through that owner
// (pool_service.h). If the owner ends, requests wait for the next one and are sent again with their
// update names. The first of its users starts a process that opens the pool (pool_process.h).
//
//     VerifyingStore → RemoteStore → rpc::Channel → shm ─── DIR/owner.sock of the owner
//
// Owned by its opener; used on the reactor's core; close() before destruction. Fork rule: a forked
// child must not use it, nor destroy it.
#pragma once
#include <memory>
#include <string>

#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/object/object_store.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stack.h"
#include "ros2s/runtime/stop.h"

namespace ros2s::rpc {
class TicketSource;
}
namespace ros2s::client {
class VerifyingStore;
}

namespace ros2s::pool {

class OwnersPool {
  public:
    // `program`: the path of the process that opens the pool after its owner. Empty: only others
    // start it. Errors, with a sentence: those of rpc::Channel::open(); disconnected (no owner
    // listens), denied (it is another user's).
    [[nodiscard]] static Task<Result<std::unique_ptr<OwnersPool>>> open(const Call& call,
                                                                        Reactor& reactor, Log log,
                                                                        std::string directory,
                                                                        std::string program,
                                                                        Report& report);
    ~OwnersPool();
    Task<Result<>> close();
    [[nodiscard]] object::ObjectStore& store();
    // "shm to /srv/pool/owner.sock, embedded engine, io_uring O_DIRECT, 1 device".
    [[nodiscard]] std::string path() const;
    void visit_metrics(const MetricVisitor& visit) const { stack_.visit_metrics(visit); }
    [[nodiscard]] std::string layers() const { return stack_.names(); }

  private:
    OwnersPool() = default;
    Task<Result<>> begin(const Call& call, Reactor& reactor, Log log, std::string directory,
                         std::string program, Report& report);

    StopSource closing_;
    std::unique_ptr<rpc::TicketSource> successor_;
    Stack stack_;
    client::VerifyingStore* client_ = nullptr;
};

}  // namespace ros2s::pool
