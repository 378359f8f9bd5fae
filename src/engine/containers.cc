#include <algorithm>

#include "parts.h"
#include "ros2s/object/validate.h"

namespace ros2s::engine {

using object::ContainerRecord;

Task<Result<ContainerRecord>> EngineStore::create_container(
    const Call& call, const object::ContainerProperties& properties) {
    Parts& parts = *parts_;
    const Gate::Hold hold(parts.gate);
    ROS2S_CO_TRY(object::validate(properties));
    ROS2S_CO_TRY(call.check(parts.env.reactor.now()));
    if (!parts.read_only_reason().empty()) co_return fail(Code::read_only);
    // Labels are unique: creations go one by one.
    co_await parts.container_turn.acquire();
    const SemaphoreHold turn(parts.container_turn);
    for (const auto& [id, container] : parts.state.containers) {
        if (parts.state.has_container(id) && container.value.properties.label == properties.label) {
            co_return fail(Code::exists);
        }
    }
    const object::ContainerId id{Uuid::make(parts.env.reactor.random())};
    Change change{.kind = Change::Kind::create_container};
    change.value = encode(ContainerValue{.properties = properties});
    ROS2S_CO_TRY_ASSIGN(const object::Commit commit,
                        co_await parts.commit_change(id, std::move(change)));
    co_return ContainerRecord{.id = id, .properties = properties, .created = commit.time};
}

Task<Result<>> EngineStore::destroy_container(const Call& call, object::ContainerId container) {
    Parts& parts = *parts_;
    const Gate::Hold hold(parts.gate);
    ROS2S_CO_TRY(call.check(parts.env.reactor.now()));
    if (!parts.read_only_reason().empty()) co_return fail(Code::read_only);
    co_await parts.container_turn.acquire();
    const SemaphoreHold turn(parts.container_turn);
    if (!parts.state.has_container(container)) co_return fail(Code::not_found);
    // From now on nothing joins a group for this container.
    parts.state.containers[container].retiring = true;
    Change change{.kind = Change::Kind::retire_container};
    const auto retired = co_await parts.commit_change(container, std::move(change));
    if (!retired) {
        parts.state.containers[container].retiring = false;
        co_return fail(retired.error());
    }
    // It is gone for everybody; its space comes back step by step. A crash in between leaves a
    // retired container, which the next opening goes on to purge.
    co_return co_await parts.purge(container);
}

// Removes the objects of a retired container, then its record.
Task<Result<>> EngineStore::Parts::purge(object::ContainerId container) {
    KeyBuilder prefix(Table::summaries);
    prefix.container(container);
    const std::string to = prefix_end(prefix.view());
    std::string from = prefix.take();
    for (bool more = true; more;) {
        ROS2S_CO_TRY_ASSIGN(const Loader::Page page, co_await loader.scan(from, to, 64));
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
            Pins pins(state.cache);
            ROS2S_CO_TRY(co_await loader.prepare(container, change, pins, SIZE_MAX));
            ROS2S_CO_TRY(co_await committer->admit(record.encoded_bytes_max(), 0));
            ROS2S_CO_TRY(co_await commit(std::move(record), pins.take()));
            trim();
        }
    }
    Change change{.kind = Change::Kind::remove_container};
    ROS2S_CO_TRY(co_await commit_change(container, std::move(change)));
    co_return Result<>();
}

Task<Result<std::vector<ContainerRecord>>> EngineStore::list_containers(const Call& call) {
    const Parts& parts = *parts_;
    ROS2S_CO_TRY(call.check(parts.env.reactor.now()));
    std::vector<ContainerRecord> records;
    for (const auto& [id, container] : parts.state.containers) {
        if (!parts.state.has_container(id)) continue;
        records.push_back({id, container.value.properties, container.value.created});
    }
    std::ranges::sort(records, {}, [](const ContainerRecord& r) { return r.properties.label; });
    co_return records;
}

Task<Result<object::PoolSpace>> EngineStore::space(const Call& call) {
    const Parts& parts = *parts_;
    ROS2S_CO_TRY(call.check(parts.env.reactor.now()));
    const uint64_t total = parts.state.space.total_blocks();
    const uint64_t used = parts.state.space.used_blocks();
    co_return object::PoolSpace{.total_bytes = total * block_bytes,
                                .free_bytes = (total - used) * block_bytes};
}

}  // namespace ros2s::engine
