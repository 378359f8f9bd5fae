#include "remote_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "ask.h"
#include "fields.h"
#include "ros2s/object/validate.h"

namespace ros2s::remote {

using namespace object;

Task<Result<std::unique_ptr<RemoteStore>>> RemoteStore::open(const Call& call,
                                                             rpc::Channel& channel,
                                                             Report& report) {
    auto description = co_await ask<Description>(
        channel, call, {.method = number(Method::describe), .repeatable = true, .report = &report},
        description_fields);
    if (!description) {
        co_return report.fail(description.error(),
                              "the server at {} ({}) does not describe its store: {}",
                              channel.address(), channel.provider(), describe(description.error()));
    }
    co_return std::unique_ptr<RemoteStore>(new RemoteStore(channel, std::move(*description)));
}

std::string RemoteStore::path() const {
    return fmt::format("{} to {}, {}", channel_.provider(), channel_.address(), description_.path);
}

// ---- update ---------------------------------------------------------------------------------

Task<Result<Commit>> RemoteStore::update(const Call& call, ContainerId container,
                                         const Transaction& transaction) {
    ROS2S_CO_TRY(validate(transaction));
    InlineVector<ConstBytes, 4> payload;
    for (const Operation& operation : transaction.operations) {
        if (operation.window.length == 0) continue;
        if (operation.kind != Operation::Kind::write && operation.kind != Operation::Kind::put) {
            continue;
        }
        if (!operation.window.is_local()) co_return fail(Code::unsupported);
        payload.push_back(operation.window.bytes());
    }
    Buffer body;
    const uint64_t incarnation = call.client == nullptr ? 0 : call.client->incarnation;
    const bool is_by_client = transaction.deferred || incarnation != 0;
    const ConstBytes fields =
        is_by_client ? rpc::build(body, client_update_fields, incarnation, container, transaction)
                     : rpc::build(body, update_fields, container, transaction);
    const Method method = is_by_client ? Method::update_by_client : Method::update;
    const rpc::CallRequest request{.method = number(method),
                                   .id = {.client = transaction.id.client,
                                          .slot = transaction.id.slot,
                                          .sequence = transaction.id.sequence},
                                   .repeated = !transaction.is_new,
                                   .body = fields,
                                   .payload = payload};
    if (wants_lease(transaction)) {
        co_return co_await ask<Commit>(channel_, call, request, leased_commit_fields);
    }
    co_return co_await ask<Commit>(channel_, call, request, commit_fields);
}

Task<Result<uint64_t>> RemoteStore::sync(const Call& call, ContainerId container,
                                         const Holder& holder, const Acknowledged& known) {
    Buffer body;
    co_return co_await ask<uint64_t>(
        channel_, call,
        {.method = number(Method::sync),
         .repeatable = true,
         .body = rpc::build(body, sync_fields, container, holder.client, known)},
        synced_fields);
}

// ---- list, query ----------------------------------------------------------------------------

Task<Result<ListReply>> RemoteStore::list(const Call& call, ContainerId container,
                                          const ListRequest& request) {
    ROS2S_CO_TRY(validate(request));
    ListRequest page = request;
    ListReply all;
    Buffer body;
    ReadBody reader([&all](ConstBytes bytes) {
        return rpc::read(bytes, listed_fields, all.entries, all.more);
    });
    do {
        page.limit = request.limit - static_cast<uint32_t>(all.entries.size());
        if (!all.entries.empty()) page.after = all.entries.back().key;
        const size_t before = all.entries.size();
        const rpc::CallRequest wanted{.method = number(Method::list),
                                      .id = client_in(call),
                                      .repeatable = true,
                                      .body = rpc::build(body, list_fields, container, page)};
        ROS2S_CO_TRY(co_await channel_.call(call, wanted, reader));
        // A hostile server could promise more for ever, or send more than was requested.
        const size_t came = all.entries.size() - before;
        if (came > page.limit || (all.more && came == 0)) co_return fail(Code::corrupt);
        // Callers decode the keys of objects, so their length must be right.
        const auto sound = [&](const ListEntry& each) {
            return request.what != ListRequest::What::objects ||
                   each.key.size() == object_key_bytes;
        };
        if (!std::all_of(all.entries.begin() + static_cast<ptrdiff_t>(before), all.entries.end(),
                         sound)) {
            co_return fail(Code::corrupt);
        }
    } while (all.more && all.entries.size() < request.limit);
    co_return all;
}

Task<Result<QueryReply>> RemoteStore::query(const Call& call, ContainerId container,
                                            ObjectId object, const Akey& akey) {
    ROS2S_CO_TRY(validate(akey));
    Buffer body;
    co_return co_await ask<QueryReply>(
        channel_, call,
        {.method = number(Method::query),
         .id = client_in(call),
         .repeatable = true,
         .body = rpc::build(body, query_fields, container, object, akey)},
        queried_fields);
}

Task<Result<bool>> RemoteStore::unpin(const Call& call, ContainerId container, const Holder& holder,
                                      ObjectId object) {
    Buffer body;
    co_return co_await ask<bool>(
        channel_, call,
        {.method = number(Method::unpin),
         .repeatable = true,
         .body = rpc::build(body, unpin_fields, container, holder.client, object)},
        unpinned_fields);
}

Task<Result<bool>> RemoteStore::pinned_again(const Call& call, ContainerId container,
                                             const Holder& holder) {
    // Another connection may be to an engine that was started again, and has none of these pins.
    if (!channel_.is_connected()) co_return fail(Code::disconnected);
    Buffer body;
    co_return co_await ask<bool>(
        channel_, call,
        {.method = number(Method::pinned_again),
         .body = rpc::build(body, pinned_again_fields, container, holder.client)},
        refused_a_punch_fields);
}

// To set a lock twice is the same as once.
Task<Result<std::optional<Lock>>> RemoteStore::lock(const Call& call, ContainerId container,
                                                    const Holder& holder,
                                                    const LockRequest& request) {
    Buffer body;
    co_return co_await ask<std::optional<Lock>>(
        channel_, call,
        {.method = number(Method::lock),
         .id = client_in(call),
         .repeatable = true,
         .body = rpc::build(body, lock_request_fields, container, holder.client, request)},
        object::lock_reply_fields);
}

// A repetition at another connection would be of another session.
Task<Result<LeaseNews>> RemoteStore::listen(const Call& call, ContainerId container,
                                            const Holder& holder, const Listening& listening) {
    if (!channel_.is_connected()) co_return fail(Code::disconnected);
    Buffer body;
    co_return co_await ask<LeaseNews>(
        channel_, call,
        {.method = number(Method::listen),
         .is_awaited = true,
         .body = rpc::build(body, listen_fields, container, holder.client, listening)},
        news_fields);
}

// ---- containers, space ----------------------------------------------------------------------

namespace {

// A creation or destruction with a name is repeated until it is answered, and done once.
void name(rpc::CallRequest& request, const Call& call) {
    if (call.update == nullptr) return;
    request.id = *call.update;
    request.repeated = call.repeated;
}
Uuid owner_in(const Call& call) { return call.update == nullptr ? Uuid{} : call.update->owner; }
uint64_t digest_in(const Call& call) { return call.update == nullptr ? 0 : call.update->digest; }

}  // namespace

Task<Result<ContainerRecord>> RemoteStore::create_container(const Call& call,
                                                            const ContainerProperties& properties) {
    ROS2S_CO_TRY(validate(properties));
    Buffer body;
    rpc::CallRequest request{.method = number(Method::create_container),
                             .body = rpc::build(body, create_fields,
                                                Creation{.properties = properties,
                                                         .owner = owner_in(call),
                                                         .digest = digest_in(call)})};
    name(request, call);
    co_return co_await ask<ContainerRecord>(channel_, call, request, container_fields);
}

Task<Result<>> RemoteStore::destroy_container(const Call& call, ContainerId container) {
    Buffer body;
    ReadBody reader([](ConstBytes bytes) -> Result<> {
        if (!bytes.empty()) return fail(Code::corrupt);
        return {};
    });
    rpc::CallRequest request{.method = number(Method::destroy_container),
                             .body = rpc::build(body, destroy_fields,
                                                Destruction{.container = container,
                                                            .owner = owner_in(call),
                                                            .digest = digest_in(call)})};
    name(request, call);
    co_return co_await channel_.call(call, request, reader);
}

Task<Result<std::vector<ContainerRecord>>> RemoteStore::list_containers(const Call& call) {
    ContainerPage all;
    Buffer body;
    ReadBody reader([&all](ConstBytes bytes) {
        return rpc::read(bytes, containers_fields, all.records, all.more);
    });
    do {
        const std::string after = all.records.empty() ? "" : all.records.back().properties.label;
        const rpc::CallRequest request{.method = number(Method::list_containers),
                                       .repeatable = true,
                                       .body = rpc::build(body, list_containers_fields, after)};
        const size_t before = all.records.size();
        ROS2S_CO_TRY(co_await channel_.call(call, request, reader));
        if (all.more &&
            (all.records.size() == before || all.records.back().properties.label <= after)) {
            co_return fail(Code::corrupt);
        }
        // A hostile server could promise more for ever.
        if (all.records.size() > containers_max) co_return fail(Code::corrupt);
    } while (all.more);
    co_return std::move(all.records);
}

Task<Result<PoolSpace>> RemoteStore::space(const Call& call, ContainerId container) {
    Buffer body;
    const rpc::CallRequest request{.method = number(Method::space),
                                   .repeatable = true,
                                   .body = rpc::build(body, space_request_fields, container)};
    co_return co_await ask<PoolSpace>(channel_, call, request, space_fields);
}

}  // namespace ros2s::remote
