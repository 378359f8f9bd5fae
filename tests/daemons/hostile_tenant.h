// Tenants of a real ros2store-dpu that attack the DPU and each other, each in its own way, until
// they are told to stop. They have their own certificates and containers, and know all numbers and
// addresses of the others. They search everything that they receive for data that others planted
// (planted.h). An attack that succeeds fails the test. A refused attack does not.
#pragma once
#include <atomic>
#include <string>
#include <vector>

#include "dpu_tenant.h"
#include "planted.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::tests {

// The numbers of a tenant that its neighbours must not be able to use.
struct KnownTenant {
    session::MountLocation location;
    fs::FileHandle handle;  // of an open file, at the DPU
    std::string file;       // its name
    std::string listener;
    Uuid client;
};
[[nodiscard]] KnownTenant known(const DpuTenant& tenant, const std::string& file);

// Use it on the reactor's core.
struct HostileTenant {
    HostileTenant(OsReactor& on, Plant own, uint64_t seed, const std::atomic<bool>& when_to_stop)
        : reactor(on), plant(std::move(own)), random(seed), stop(when_to_stop) {}

    // Opens a file that is full of its marker. The marker is also the file's name.
    Task<> open(connection::Options options, std::string container);
    // Counts an attempt. Returns whether it was served.
    bool count(const auto& result) {
        ++attempts;
        if (!result) ++refused;
        return bool(result);
    }

    OsReactor& reactor;
    const Plant plant;
    Random random;
    const std::atomic<bool>& stop;
    std::vector<KnownTenant> others{};
    bool closes_sessions = true;  // those that it left, at the end
    DpuTenant tenant{};
    connection::ServerAccess certificate{};  // its own, and the DPU's name
    uint64_t attempts = 0, refused = 0;
};

using Attack = Task<> (*)(HostileTenant&);
// Writes of 1 MiB above its rate, many of them cancelled or past their deadline.
Task<> flood_with_writes(HostileTenant& self);
// Names of 240 bytes, 200 at once, giant listings, and the largest attributes and links.
Task<> flood_with_names(HostileTenant& self);
// False tickets, tickets at a foreign listener, and abandoned sessions.
Task<> spend_tickets(HostileTenant& self);
// Uses sessions, mounts, handles and cookies of others, over both planes.
Task<> use_others_numbers(HostileTenant& self);
// Connections that end during requests, some of them cancelled.
Task<> cut_connections(HostileTenant& self);
// Invalid frames, with and without a valid checksum.
Task<> send_garbage(HostileTenant& self);

}  // namespace ros2s::tests
