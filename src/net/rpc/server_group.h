// ServerGroup: what the servers of one process share. The core and the payload memory are divided
// among the tenants of all these servers; what pending peers may cost, among their listeners.
//
// Owned by the code that composes it; outlives its servers. Used on their core.
#pragma once
#include <cstdint>
#include <vector>

#include "ros2s/admission/admission.h"
#include "ros2s/base/quota.h"
#include "ros2s/fabric/pending_peers.h"
#include "ros2s/rpc/sampled_traces.h"

namespace ros2s {
class Ring;
}

namespace ros2s::rpc {

class PayloadPool;

inline constexpr Quota::Bounds connections_default{
    .per_subject = 1024, .per_tenant = 2048, .in_all = 4096, .sure = 1, .subjects_share = true};

struct ServerGroup {
    explicit ServerGroup(Reactor& reactor, admission::Limits limits = {},
                         const admission::Accounts* accounts = nullptr,
                         Quota::Bounds connections_of = connections_default)
        : connections(connections_of),
          admission(reactor, limits, accounts),
          pending_peers(reactor) {}

    // Connections with a ticket. Within a tenant they count for a user of this machine or, if they
    // come over a network, for the subject of the certificate.
    Quota connections;

    // The bytes of a request are its payload, its sink, a body that is in windows, and what
    // Service::reply_memory_bytes() returns.
    admission::Admission admission;
    fabric::PendingPeers pending_peers;
    // The bytes that all PayloadPools together keep for later requests, and their pages.
    uint64_t kept_bytes = 0;
    static constexpr uint64_t kept_bytes_max = uint64_t{256} << 20;
    std::vector<PayloadPool*> pools;  // they add and remove themselves
    // The ring that reads devices into small pieces of payload memory. Null: there is none.
    Ring* payload_ring = nullptr;
    // 1 MiB: a small part of the usual limit of locked memory.
    static constexpr size_t registered_pages_max = 16;
    size_t registered_pages = 0;
    // Frees what the pools keep and do not use: the process has become idle.
    void drop_spare() noexcept;
    SampledTraces traces;
};

}  // namespace ros2s::rpc
