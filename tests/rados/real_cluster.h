// The cluster that cluster.py has started, and a reactor whose thread uses it. One for all tests of
// the program.
#pragma once
#include <memory>
#include <string>

#include "ros2s/rados/librados/cluster.h"
#include "ros2s/rados/rados_store.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::rados {

class RealCluster {
  public:
    RealCluster();
    ~RealCluster();
    [[nodiscard]] static RealCluster& instance();
    [[nodiscard]] static std::string conf();  // its ceph.conf

    [[nodiscard]] OsReactor& reactor() { return *reactor_; }
    [[nodiscard]] Environment environment() { return {*reactor_, *blocking_}; }
    [[nodiscard]] Cluster& cluster() { return *cluster_; }
    [[nodiscard]] Pool& metadata() { return *metadata_; }
    [[nodiscard]] Pool& data() { return *data_; }
    // Destroys all containers.
    Task<> empty(RadosStore& store);

  private:
    std::unique_ptr<OsReactor> reactor_;
    std::unique_ptr<ThreadPool> blocking_;
    std::unique_ptr<Cluster> cluster_;
    std::unique_ptr<Pool> metadata_, data_;
};

}  // namespace ros2s::rados
