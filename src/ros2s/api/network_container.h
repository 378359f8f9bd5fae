// NetworkContainer: a container behind a network, opened:
//
//     ros2s://       Dfs → DirectPool ─ fabric ─ ros2store-engine
//     ros2s+dpu://   HostFiles ─ host link ─ ros2store-dpu
//
// How a URI names the server: `dir` is a directory in which `ros2store up` started the daemons
// (service_places.h says where their sockets and certificates are); otherwise `socket` is the Unix
// socket of a control plane, or host[:port] its address. The certificates (ca.crt, client.crt,
// client.key) of the latter two are in the directory that the environment names by ROS2STORE_CERTS,
// else in /etc/ros2store/certs. `provider` is the one that the data shall take, and opening fails
// where it is not to be had; without it the best that both sides have is taken.
// ROS2STORE_UCX_DEVICE names the network devices of the ucx and ofi providers.
//
// Owned by who opened it; used on the environment's core; close() before destruction. Fork rule: a
// forked child must not use it, nor destroy it.
#pragma once
#include <memory>
#include <string>

#include "ros2s/api/uri.h"
#include "ros2s/base/metrics.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/environment.h"

namespace ros2s::api {

struct NetworkOptions {
    std::string program;     // who asks, for the server's people; empty: this process's name
    bool read_only = false;  // a DPU refuses changes; otherwise it is the caller who makes none
};

class NetworkContainer {
  public:
    // Errors, with a sentence: invalid (the URI names no server), unsupported (the provider),
    // those of DirectPool::open() and HostFiles::open().
    [[nodiscard]] static Task<Result<std::unique_ptr<NetworkContainer>>> open(
        const Call& call, Environment environment, Uri uri, NetworkOptions options, Report& report);
    ~NetworkContainer();
    NetworkContainer(const NetworkContainer&) = delete;
    NetworkContainer& operator=(const NetworkContainer&) = delete;
    // Closes its files, too.
    Task<> close();

    [[nodiscard]] fs::FileSystem& file_system();
    // "direct over ucx+tcp to 127.0.0.1:7401, …", "offload over shm to the DPU at …".
    [[nodiscard]] std::string path() const;
    void visit_metrics(const MetricVisitor& visit) const;

  private:
    struct Parts;
    explicit NetworkContainer(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

}  // namespace ros2s::api
