// Pools, containers and leases of a ControlClient.
#include "client_call.h"
#include "client_replies.h"
#include "ros2s/control/leases.pb.h"
#include "ros2s/control/server.pb.h"
#include "ros2s/control/store.pb.h"

namespace ros2s::control {
namespace {

Result<object::ContainerRecord> decode(const v1::Container& container, Report& report) {
    object::ContainerRecord record;
    if (!read_bytes(container.uuid(), record.id.uuid.bytes) ||
        !object::is_valid_label(container.label())) {
        return malformed("container", report);
    }
    record.properties = {
        .label = container.label(),
        .chunk_bytes = container.chunk_bytes(),
        .owner = container.owner(),
        .caps = {.bytes = container.cap_bytes(), .values = container.cap_values()}};
    record.used = {.bytes = container.used_bytes(), .values = container.used_values()};
    record.created = WallTime(Duration(container.created_ns()));
    return record;
}

// The time that a change of a container waits for a server that existed when it was sent.
constexpr Duration patience = std::chrono::seconds(30);
constexpr Duration pause_between = std::chrono::milliseconds(20);

// A creation or destruction of a container.
struct Change {
    std::string pool;
    capability::Use use;  // what a delegated DPU needs for it
    const Message& request;
    v1::ContainerChange& name;  // of the request
    Message& reply;
};

// Hands a delegated DPU what it needs for the change. A restarted one has another key, and nothing
// of what was handed to the earlier one.
Task<Result<>> delegate_for(ControlClient& client, const Call& call, const Change& change,
                            Report& report) {
    Report said;
    const auto done = co_await client.delegate(call, change.pool, change.use, said);
    if (done) co_return Result<>{};
    const bool may_be_gone = done.error().code == Code::denied && change.name.repeated() &&
                             change.use.rights.has(rights::Right::destroy);
    if (!may_be_gone) co_return report.fail(done.error(), said.text());
    // The owner of a container that is gone has no right to destroy it any more. Whoever may see
    // the pool's containers finds the reply that was stored for it.
    capability::Use seeing = change.use;
    seeing.rights = {};
    ROS2S_CO_TRY(co_await client.delegate(call, change.pool, std::move(seeing), report));
    co_return Result<>{};
}

// Sends it under that name until it is answered.
Task<Result<>> send_change(ControlClient& client, const Call& call, const Change& change,
                           UpdateName as, Report& report) {
    ControlClient::Parts& parts = client.parts();
    // If there was never a server, fails at once.
    if (!parts.has_found_server) {
        ROS2S_CO_TRY(
            co_await ask<v1::QueryServerReply>(parts, call, v1::QueryServerRequest(), report));
        parts.has_found_server = true;
    }
    change.name.set_client(bytes_of(as.client));
    change.name.set_slot(as.slot);
    change.name.set_sequence(as.sequence);
    change.name.set_repeated(call.repeated);
    for (const Time until = parts.reactor.now() + patience;;) {
        Report attempt;
        Result<> done = co_await delegate_for(client, call, change, attempt);
        if (done) {
            done = co_await exchange(parts, call, change.request, change.reply, attempt);
            change.name.set_repeated(true);
        }
        // A server that stops cancels its unfinished calls.
        const bool lost = !done && (done.error().code == Code::disconnected ||
                                    done.error().code == Code::cancelled);
        const bool again = lost && call.check(parts.reactor) && parts.reactor.now() < until &&
                           co_await sleep_for(parts.reactor, pause_between, call.stop);
        if (again) continue;
        if (!done) co_return report.fail(done.error(), attempt.text());
        co_return done;
    }
}

// Creates or destroys a container once, under the call's name or, without one, under a name of this
// client. The name is the same however often it is sent.
Task<Result<>> change_container(ControlClient& client, const Call& call, Change change,
                                Report& report) {
    if (call.update != nullptr) {
        co_return co_await send_change(client, call, change, *call.update, report);
    }
    UpdateSlots& names = client.parts().changes;
    co_await names.wait();
    const auto slot = names.take();
    co_return co_await send_change(client, call, change, slot.id(), report);
}

}  // namespace

Task<Result<std::vector<std::string>>> ControlClient::list_pools(const Call& call, Report& report) {
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::ListPoolsReply>(
                                              *parts_, call, v1::ListPoolsRequest(), report));
    co_return std::vector<std::string>(reply.pools().begin(), reply.pools().end());
}

Task<Result<PoolFacts>> ControlClient::query_pool(const Call& call, std::string pool,
                                                  Report& report) {
    ROS2S_CO_TRY(co_await delegate(call, pool, seeing_only(), report));
    auto request = of_pool<v1::QueryPoolRequest>(std::move(pool));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::QueryPoolReply>(
                                              *parts_, call, std::move(request), report));
    co_return PoolFacts{
        .space = {.total_bytes = reply.total_bytes(), .free_bytes = reply.free_bytes()},
        .containers = reply.containers(),
        .path = reply.path()};
}

Task<Result<object::ContainerRecord>> ControlClient::create_container(
    const Call& call, std::string pool, object::ContainerProperties properties, fs::Owner owner,
    Report& report) {
    capability::Use use{
        .rights = rights::Right::create, .directories = false, .container = {properties.label}};
    v1::CreateContainerRequest request;
    request.set_pool(pool);
    request.set_label(std::move(properties.label));
    request.set_chunk_bytes(properties.chunk_bytes);
    request.set_cap_bytes(properties.caps.bytes);
    request.set_cap_values(properties.caps.values);
    request.set_uid(owner.uid);
    request.set_gid(owner.gid);
    v1::CreateContainerReply reply;
    ROS2S_CO_TRY(co_await change_container(*this, call,
                                           {.pool = std::move(pool),
                                            .use = std::move(use),
                                            .request = request,
                                            .name = *request.mutable_change(),
                                            .reply = reply},
                                           report));
    co_return decode(reply.container(), report);
}

Task<Result<std::vector<object::ContainerRecord>>> ControlClient::list_containers(const Call& call,
                                                                                  std::string pool,
                                                                                  Report& report) {
    ROS2S_CO_TRY(co_await delegate(call, pool, seeing_only(), report));
    auto request = of_pool<v1::ListContainersRequest>(std::move(pool));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::ListContainersReply>(
                                              *parts_, call, std::move(request), report));
    std::vector<object::ContainerRecord> records;
    for (const v1::Container& each : reply.containers()) {
        if (each.uuid().empty() && object::is_valid_label(each.label())) {
            records.emplace_back().properties.label = each.label();
            continue;
        }
        ROS2S_CO_TRY_ASSIGN(auto record, decode(each, report));
        records.push_back(std::move(record));
    }
    co_return records;
}

Task<Result<object::ContainerRecord>> ControlClient::query_container(const Call& call,
                                                                     std::string pool,
                                                                     std::string label,
                                                                     Report& report) {
    ROS2S_CO_TRY(co_await delegate(call, pool, seeing_only(), report));
    auto request = of_pool<v1::QueryContainerRequest>(std::move(pool));
    request.set_label(std::move(label));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::QueryContainerReply>(
                                              *parts_, call, std::move(request), report));
    co_return decode(reply.container(), report);
}

Task<Result<object::ContainerRecord>> ControlClient::set_container(const Call& call,
                                                                   std::string pool,
                                                                   std::string label,
                                                                   object::ContainerChange change,
                                                                   Report& report) {
    auto request = of_pool<v1::SetContainerRequest>(std::move(pool));
    request.set_label(std::move(label));
    if (change.owner) request.set_owner(*change.owner);
    if (change.bytes) request.set_cap_bytes(*change.bytes);
    if (change.values) request.set_cap_values(*change.values);
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::SetContainerReply>(
                                              *parts_, call, std::move(request), report));
    co_return decode(reply.container(), report);
}

Task<Result<SeenLeases>> ControlClient::list_leases(const Call& call, std::string pool,
                                                    std::string container, Report& report) {
    auto request = of_pool<v1::ListLeasesRequest>(std::move(pool));
    request.set_container(std::move(container));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::ListLeasesReply>(
                                              *parts_, call, std::move(request), report));
    const auto time = [](uint64_t ns) { return Duration(static_cast<int64_t>(ns & INT64_MAX)); };
    SeenLeases seen;
    for (const auto& each : reply.holders()) {
        seen.holders.push_back({.name = each.holder(),
                                .container = each.container(),
                                .tenant = each.tenant(),
                                .from = each.from(),
                                .program = each.program(),
                                .session = each.session(),
                                .held = time(each.for_ns()),
                                .nodes = each.nodes(),
                                .recalls = each.recalls(),
                                .recalled = time(each.recalled_for_ns()),
                                .ends = each.ends()});
    }
    for (const auto& each : reply.barred()) {
        seen.barred.emplace_back(each.tenant(), time(each.remaining_ns()));
    }
    co_return seen;
}

Task<Result<>> ControlClient::evict_holder(const Call& call, std::string pool,
                                           std::string container, std::string holder,
                                           Report& report) {
    auto request = of_pool<v1::EvictHolderRequest>(std::move(pool));
    request.set_container(std::move(container));
    request.set_holder(std::move(holder));
    ROS2S_CO_TRY(co_await ask<v1::EvictHolderReply>(*parts_, call, std::move(request), report));
    co_return Result<>{};
}

Task<Result<>> ControlClient::destroy_container(const Call& call, std::string pool,
                                                std::string label, Report& report) {
    v1::DestroyContainerRequest request;
    request.set_pool(pool);
    request.set_label(label);
    v1::DestroyContainerReply reply;
    ROS2S_CO_TRY(co_await change_container(*this, call,
                                           {.pool = std::move(pool),
                                            .use = {.rights = rights::Right::destroy,
                                                    .directories = false,
                                                    .container = {std::move(label)}},
                                            .request = request,
                                            .name = *request.mutable_change(),
                                            .reply = reply},
                                           report));
    co_return Result<>{};
}

}  // namespace ros2s::control
