// RadosPool: a pool in a Ceph cluster, for the DPU and for trusted hosts without daemons.
//
//     CountedStore → RadosStore → Pool, one or two → Cluster ─── Ceph
//
// Owned by its opener; used on the environment's core; close() before destruction. Fork rule: a
// forked child must not use it, nor destroy it.
#pragma once
#include <memory>
#include <string>

#include "ros2s/base/metrics.h"
#include "ros2s/object/object_store.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/stack.h"

namespace ros2s::rados {
class RadosStore;
}

namespace ros2s::connection {

struct RadosAddress {
    std::string conf = "/etc/ceph/ceph.conf";
    std::string user = "client.admin";
    std::string metadata;  // the RADOS pool
    std::string data;      // the same or another RADOS pool
};

struct RadosOptions {
    RadosAddress address;
    // An empty RADOS pool is made a pool of ros2store; otherwise it is an error (not_found).
    bool formats = false;
    // The users of this process repeat what was not answered (hosts of a DPU).
    bool keeps_replies = true;
    // The interval at which leftovers of crashes are removed (0: never), and the number of objects
    // a second that are examined for that (0: no limit).
    Duration sweep_every{};
    uint64_t sweep_rate = 0;
};

class RadosPool {
  public:
    // Errors, with a sentence: those of rados::Cluster and of RadosStore::open().
    [[nodiscard]] static Task<Result<std::unique_ptr<RadosPool>>> open(Environment environment,
                                                                       RadosOptions options,
                                                                       Report& report);
    Task<Result<>> close() { return stack_.close(); }

    [[nodiscard]] object::ObjectStore& store();
    // "pool 'main' of the RADOS cluster of /etc/ceph/ceph.conf".
    [[nodiscard]] std::string path();
    // Removes the remains of crashed clients in a container, now. Errors: those of
    // RadosStore::sweep().
    [[nodiscard]] Task<Result<>> sweep(const Call& call, object::ContainerId container,
                                       Report& report);
    void visit_metrics(const MetricVisitor& visit) const { stack_.visit_metrics(visit); }
    [[nodiscard]] std::string layers() const { return stack_.names(); }

  private:
    RadosPool() = default;
    Task<Result<>> begin(Environment environment, const RadosOptions& options, Report& report);

    Stack stack_;
    rados::RadosStore* rados_ = nullptr;
    object::ObjectStore* client_ = nullptr;
};

}  // namespace ros2s::connection
