#include <algorithm>

#include "parts.h"
#include "ros2s/object/validate.h"

namespace ros2s::engine {

using object::ContainerRecord;

Task<Result<ContainerRecord>> EngineStore::create_container(
    const Call& call, const object::ContainerProperties& properties) {
    if (parts_->is_afar()) return parts_->from_afar(&Parts::create_container, call, properties);
    return parts_->create_container(call, properties);
}
Task<Result<>> EngineStore::destroy_container(const Call& call, object::ContainerId container) {
    if (parts_->is_afar()) return parts_->from_afar(&Parts::destroy_container, call, container);
    return parts_->destroy_container(call, container);
}
Task<Result<std::vector<ContainerRecord>>> EngineStore::list_containers(const Call& call) {
    if (parts_->is_afar()) return parts_->from_afar(&Parts::list_containers, call);
    return parts_->list_containers(call);
}
Task<Result<object::PoolSpace>> EngineStore::space(const Call& call) {
    if (parts_->is_afar()) return parts_->from_afar(&Parts::space, call);
    return parts_->space(call);
}

namespace {

// The name that a creation or destruction has, so that it is done once; nil: none.
object::OperationId name_of(const Call& call) {
    if (call.update == nullptr) return {};
    return {.client = call.update->client,
            .slot = call.update->slot,
            .sequence = call.update->sequence};
}

// The stored answer, in the call's turn. Errors: stale.
Result<std::optional<ReplyValue>> stored_answer(const Replies& replies, const Call& call) {
    const object::OperationId id = name_of(call);
    if (id.client.is_nil()) return std::nullopt;
    return replies.look_up(id, !call.update->repeated);
}

}  // namespace

Task<Result<ContainerRecord>> EngineStore::Parts::create_container(
    const Call& call, const object::ContainerProperties& properties) {
    const Gate::Hold hold(cores.home().gate);
    ROS2S_CO_TRY(object::validate(properties));
    ROS2S_CO_TRY(call.check(env.reactor.now()));
    // Labels are unique: creations go one by one.
    co_await container_turn.acquire();
    const SemaphoreHold turn(container_turn);
    ROS2S_CO_TRY_ASSIGN(const auto reply, stored_answer(state.replies, call));
    if (reply) {
        cores.home().metrics.replays.add();
        for (const auto& [id, container] : state.containers) {
            if (state.has_container(id) && container.value.created == reply->time &&
                container.value.properties.label == properties.label) {
                co_return ContainerRecord{id, container.value.properties, reply->time};
            }
        }
        // It was made, and has been destroyed since.
        co_return fail(Code::stale);
    }
    if (!read_only_reason().empty()) co_return fail(Code::read_only);
    for (const auto& [id, container] : state.containers) {
        if (state.has_container(id) && container.value.properties.label == properties.label) {
            co_return fail(Code::exists);
        }
    }
    const object::ContainerId id{Uuid::make(env.reactor.random())};
    Change change{.kind = Change::Kind::create_container};
    change.value = encode(ContainerValue{.properties = properties});
    ROS2S_CO_TRY_ASSIGN(const object::Commit commit,
                        co_await commit_change(id, std::move(change), name_of(call)));
    co_return ContainerRecord{.id = id, .properties = properties, .created = commit.time};
}

Task<Result<>> EngineStore::Parts::destroy_container(const Call& call,
                                                     object::ContainerId container) {
    const Gate::Hold hold(cores.home().gate);
    ROS2S_CO_TRY(call.check(env.reactor.now()));
    co_await container_turn.acquire();
    const SemaphoreHold turn(container_turn);
    ROS2S_CO_TRY_ASSIGN(const auto reply, stored_answer(state.replies, call));
    if (reply) {
        cores.home().metrics.replays.add();
        co_return Result<>();
    }
    if (!read_only_reason().empty()) co_return fail(Code::read_only);
    if (!state.has_container(container)) co_return fail(Code::not_found);
    // From now on nothing joins a group for this container.
    state.containers[container].retiring = true;
    co_await cores.share_containers(state.visible_containers());
    Change change{.kind = Change::Kind::retire_container};
    const auto retired = co_await commit_change(container, std::move(change), name_of(call));
    if (!retired) {
        state.containers[container].retiring = false;
        co_await cores.share_containers(state.visible_containers());
        co_return fail(retired.error());
    }
    // It is gone for everybody; its space comes back step by step. A crash in between leaves a
    // retired container, which the next opening goes on to purge.
    co_return co_await purge(container);
}

// Removes the objects of a retired container, then its record.
Task<Result<>> EngineStore::Parts::purge(object::ContainerId container) {
    KeyBuilder prefix(Table::summaries);
    prefix.container(container);
    const std::string to = prefix_end(prefix.view());
    std::string from = prefix.take();
    for (bool more = true; more;) {
        ROS2S_CO_TRY_ASSIGN(const Loader::Page page,
                            co_await cores.home().loader.scan(from, to, 64));
        more = page.more;
        from = page.next;
        std::vector<object::ObjectId> objects;
        for (const Loader::Item& item : page.items) {
            const auto key = parse_summary_key(item.key);
            if (!key) co_return fail(Code::corrupt);
            if (objects.empty() || objects.back() != key->object) objects.push_back(key->object);
        }
        for (const object::ObjectId object : objects) {
            TransactionRecord record;
            record.container = container;
            Change& change = record.changes.emplace_back();
            change.kind = Change::Kind::punch_object;
            change.object = object;
            std::vector<Node*> pins;
            ROS2S_CO_TRY(co_await cores.prepare(container, change, pins));
            Result<> done = co_await committer->admit(record.encoded_bytes_max(), 0);
            const bool joins = done.has_value();
            if (joins) {
                const auto punched = co_await commit(std::move(record), pins);
                if (!punched) done = fail(punched.error());
            }
            // On one core the group has done that.
            if (!joins || !cores.is_one()) co_await cores.unpin(std::move(pins));
            ROS2S_CO_TRY(done);
            trim(cores.home());
            limit_dirty();
        }
    }
    Change change{.kind = Change::Kind::remove_container};
    ROS2S_CO_TRY(co_await commit_change(container, std::move(change)));
    co_return Result<>();
}

Task<Result<std::vector<ContainerRecord>>> EngineStore::Parts::list_containers(const Call& call) {
    ROS2S_CO_TRY(call.check(env.reactor.now()));
    std::vector<ContainerRecord> records;
    for (const auto& [id, container] : state.containers) {
        if (!state.has_container(id)) continue;
        records.push_back({id, container.value.properties, container.value.created});
    }
    std::ranges::sort(records, {}, [](const ContainerRecord& r) { return r.properties.label; });
    co_return records;
}

Task<Result<object::PoolSpace>> EngineStore::Parts::space(const Call& call) {
    ROS2S_CO_TRY(call.check(env.reactor.now()));
    const uint64_t total = state.space.total_blocks();
    const uint64_t used = state.space.used_blocks();
    co_return object::PoolSpace{.total_bytes = total * block_bytes,
                                .free_bytes = (total - used) * block_bytes};
}

}  // namespace ros2s::engine
