// Cluster: a connection to a Ceph cluster by librados, and its pools as rados::Pool.
//
// Requests are asynchronous operations. Their callback runs on a thread of librados, which only
// posts the waiting coroutine back to its core. Connecting and listing block, on the helper
// threads. Each request ends within the time limit (Pool's `deadline`): librados is set so.
//
// Ownership: close() before destruction, after all requests of its pools have returned. Thread
// rule: used on the environment's core. A forked child must not use it.
#pragma once
#include <memory>
#include <string>

#include "ros2s/rados/pool.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/time.h"

namespace ros2s::rados {

struct ClusterOptions {
    std::string conf = "/etc/ceph/ceph.conf";
    std::string user = "client.admin";
    // Of a request, and of connecting, if the configuration has no `rados_osd_op_timeout`.
    Duration time_limit = std::chrono::seconds(30);
};

class Cluster {
  public:
    // Errors, with a sentence: unsupported (no librados), not_found (the configuration), denied
    // (the key ring), deadline (nobody answers), io.
    [[nodiscard]] static Task<Result<std::unique_ptr<Cluster>>> connect(Environment environment,
                                                                        ClusterOptions options,
                                                                        Report& report);
    virtual ~Cluster() = default;
    // Errors, with a sentence: not_found, denied, deadline.
    virtual Task<Result<std::unique_ptr<Pool>>> open_pool(std::string name, Report& report) = 0;
    virtual Task<> close() = 0;
};

}  // namespace ros2s::rados
