// ServerAccess: a pool of a ros2store-engine or ros2store-dpu, and how a client reaches it.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "ros2s/pki/certificate.h"

namespace ros2s::connection {

struct ServerAccess {
    std::string control;        // "engine-1:7400", "unix:/run/ros2store/control.sock"
    std::string server_name{};  // in its certificate; empty: the host of `control`
    pki::Identity identity;
    std::string pool;
    std::string program{};                // for people
    std::vector<std::string> providers;   // best first: "shm", "ucx+tcp"
    std::string ucx_device = "lo";        // for the ucx and ofi providers
    std::chrono::seconds call_within{0};  // rpc::ChannelOptions
};

}  // namespace ros2s::connection
