#include "container_client.h"

#include <fmt/format.h>

#include <algorithm>

#include "no_call.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::sim {

using namespace object;

namespace {

constexpr size_t containers_max = 3;
constexpr uint64_t objects = 40;  // many, so that a destruction takes many steps
constexpr uint64_t array_blocks = 4;

std::string noise(Random& random, uint64_t length) {
    std::string bytes(length, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.below(256));
    return bytes;
}

bool same_content(const Snapshot& found, const Snapshot& expected) {
    const auto alike = [](const auto& left, const auto& right) {
        return left.first == right.first && left.second.is_value == right.second.is_value &&
               left.second.bytes == right.second.bytes;
    };
    const auto say_alike = [](const auto& left, const auto& right) {
        const QueryReply &one = left.second, &other = right.second;
        return left.first == right.first && one.exists == other.exists &&
               one.highest_dkey == other.highest_dkey && one.size == other.size &&
               one.bytes_used == other.bytes_used;
    };
    return std::ranges::equal(found.entries, expected.entries, alike) &&
           std::ranges::equal(found.queries, expected.queries, say_alike);
}

}  // namespace

ContainerClient::ContainerClient(Reactor& reactor, uint64_t seed, History& history)
    : random_(seed + 999),
      history_(history),
      oracle_(reactor, {.capacity_bytes = uint64_t{1} << 40}),
      id_(Uuid::make(Secrets(random_))) {}

Task<> ContainerClient::work(Run& run, uint64_t requests) {
    is_named_ = !run.reply_lease;
    co_await resolve_pending(run.store, run.container);
    for (uint64_t i = 0; i < requests && !run.crashed && !run.wind_down && !run.failing; ++i) {
        const uint64_t kind = random_.below(16);
        if (updating_) {
            co_await update(run);
        } else if (containers_.empty() || (kind < 2 && containers_.size() < containers_max)) {
            co_await create(run);
        } else if (kind == 2) {
            co_await destroy(run);
        } else if (kind == 3) {
            co_await create_again(run);
        } else if (kind < 6) {
            co_await read(run);
        } else {
            updating_ = Update{.container = any().record.id, .batch = make_batch()};
            co_await update(run);
        }
        co_await yield(run.reactor);
    }
}

// ---- what a crash left open ----------------------------------------------------------------

Task<> ContainerClient::resolve_pending(ObjectStore& store, ContainerId main) {
    const auto listed = co_await store.list_containers(no_call);
    if (!listed) {
        history_.problem(
            fmt::format("the containers cannot be listed: {}", describe(listed.error())));
        co_return;
    }
    const auto by_id = [&](ContainerId id) {
        return std::ranges::find(*listed, id, &ContainerRecord::id);
    };
    if (creating_) {
        const auto made = std::ranges::find(*listed, *creating_, &ContainerRecord::properties);
        if (made != listed->end()) co_await adopt(*made);
        creating_.reset();
    }
    if (destroying_) {
        if (by_id(*destroying_) == listed->end()) co_await forget(*destroying_);
        destroying_.reset();
    }
    if (by_id(main) == listed->end()) history_.problem("the first container is gone");
    for (const ContainerRecord& there : *listed) {
        if (there.id == main || find(there.id) != nullptr) continue;
        history_.problem(fmt::format("container {} should not be there", there.properties.label));
    }
    for (const Container& container : containers_) {
        const ContainerRecord& told = container.record;
        const auto there = by_id(told.id);
        if (there == listed->end()) {
            history_.problem(fmt::format("container {} is lost", told.properties.label));
        } else if (there->properties != told.properties || there->created != told.created) {
            history_.problem(
                fmt::format("container {} is not as it was made", told.properties.label));
        }
    }
}

Task<> ContainerClient::adopt(const ContainerRecord& record) {
    const auto made = co_await oracle_.create_container(no_call, record.properties);
    containers_.push_back({record, made->id});
}

Task<> ContainerClient::forget(ContainerId id) {
    (void)co_await oracle_.destroy_container(no_call, find(id)->oracle);
    std::erase_if(containers_, [&](const Container& each) { return each.record.id == id; });
    if (updating_ && updating_->container == id) updating_.reset();
}

ContainerClient::Container* ContainerClient::find(ContainerId id) {
    for (Container& container : containers_) {
        if (container.record.id == id) return &container;
    }
    return nullptr;
}

// ---- making and destroying -----------------------------------------------------------------

Task<> ContainerClient::create(Run& run) {
    creating_ = {.label = fmt::format("container-{}", labels_++),
                 .chunk_bytes = uint64_t{4096} << random_.below(8)};
    const auto made = co_await run.store.create_container(no_call, *creating_);
    if (!run.is_known(made)) co_return;
    if (!made) {
        history_.problem(
            fmt::format("a container was refused without a crash: {}", describe(made.error())));
    } else {
        co_await adopt(*made);
    }
    creating_.reset();
}

Task<> ContainerClient::create_again(Run& run) {
    const ContainerProperties properties{.label = any().record.properties.label};
    const auto made = co_await run.store.create_container(no_call, properties);
    if (run.crashed || run.failing) co_return;
    if (made || made.error().code != Code::exists) {
        history_.problem(fmt::format("container {} was made twice", properties.label));
    }
}

Task<> ContainerClient::destroy(Run& run) {
    const ContainerId id = any().record.id;
    destroying_ = id;
    Result<> destroyed;
    const auto destroy_it = [](Run& of, ContainerId which, Result<>& result) -> Task<> {
        result = co_await of.store.destroy_container(no_call, which);
    };
    Nursery nursery(run.reactor, 2);
    if (random_.one_in(3)) {
        updating_ = Update{.container = id, .batch = make_batch()};
        co_await nursery.spawn(update(run));
    }
    co_await nursery.spawn(destroy_it(run, id, destroyed));
    co_await nursery.join();
    if (!run.is_known(destroyed)) co_return;
    if (!destroyed) {
        history_.problem(
            fmt::format("a destruction failed without a crash: {}", describe(destroyed.error())));
    }
    co_await forget(id);
    destroying_.reset();
    co_await look_for_the_dead(run, id);
}

Task<> ContainerClient::look_for_the_dead(Run& run, ContainerId id) {
    const ListRequest request{.what = ListRequest::What::objects};
    const auto listed = co_await run.store.list(no_call, id, request);
    if (run.crashed || run.failing) co_return;
    if (listed || listed.error().code != Code::not_found) {
        history_.problem("a container that was destroyed still answers");
    }
}

// ---- writing and reading -------------------------------------------------------------------

AkeyAddress ContainerClient::place() {
    return {{2, random_.below(objects)},
            "d" + std::to_string(random_.below(2)),
            random_.one_in(3) ? "value" : "array"};
}

Batch ContainerClient::make_batch() {
    Batch batch;
    if (is_named_) batch.id({id_, 0, ++sequence_});
    for (uint64_t i = 0, count = 1 + random_.below(3); i < count; ++i) {
        const AkeyAddress at = place();
        if (at.akey == "value") {
            batch.put(at, noise(random_, 1 + random_.below(200)));
        } else {
            batch.write(at, random_.below(array_blocks) * block_bytes,
                        noise(random_, 1 + random_.below(2 * block_bytes)));
        }
    }
    return batch;
}

// Sends the open update: for the first time, or again after a crash.
Task<> ContainerClient::update(Run& run) {
    const ContainerId id = updating_->container;
    const bool known = updating_->happened;
    const Epoch before = history_.acknowledged();
    const bool dies = destroying_ == id;
    const auto commit = co_await run.store.update(no_call, id, updating_->batch.transaction());
    if (!updating_ || !run.is_known(commit)) co_return;
    if (commit) {
        if (known && is_named_ && !commit->replayed)
            history_.problem("an update of a container happened twice");
        if (!commit->replayed && commit->epoch <= before) {
            history_.problem(
                fmt::format("an update of a container got epoch {} although {} had "
                            "returned before it was called",
                            commit->epoch.value, before.value));
        }
        history_.passed(commit->epoch);
        co_await apply_update();
    } else if (const Code code = commit.error().code;
               (known && is_named_) || (code != Code::no_space && code != Code::no_memory &&
                                        !(dies && code == Code::not_found))) {
        history_.problem(fmt::format("an update of a container failed without a crash: {}",
                                     describe(commit.error())));
    }
    updating_.reset();
}

Task<> ContainerClient::apply_update() {
    if (updating_->happened) co_return;
    updating_->happened = true;
    Transaction transaction = updating_->batch.transaction();
    transaction.id = {};
    const Container* const container = find(updating_->container);
    const auto applied = co_await oracle_.update(no_call, container->oracle, transaction);
    if (!applied) history_.problem("the oracle refuses what happened in a container");
}

Task<> ContainerClient::read(Run& run) {
    const Container container = any();
    std::array<AlignedBuffer, 2> memory{AlignedBuffer(8 * block_bytes),
                                        AlignedBuffer(8 * block_bytes)};
    std::array<FetchItem, 2> items;
    const AkeyAddress at = place();
    for (size_t i = 0; i < items.size(); ++i) {
        items[i] = {.object = at.object,
                    .dkey = {at.dkey},
                    .akey = {at.akey},
                    .extent = {0, 8 * block_bytes},
                    .window = Window::local(memory[i].bytes())};
    }
    (void)co_await oracle_.fetch(no_call, container.oracle, {&items[0], 1});
    const auto fetched = co_await run.store.fetch(no_call, container.record.id, {&items[1], 1});
    if (run.crashed || run.failing) co_return;
    const bool there = items[0].status.has_value();
    const uint64_t bytes = items[0].is_value ? items[0].size : items[0].extent.length;
    if (!fetched || items[1].status.has_value() != there || items[1].size != items[0].size ||
        (there && std::memcmp(memory[0].data(), memory[1].data(), bytes) != 0)) {
        history_.problem(fmt::format("a read of {} in container {} is not what was written",
                                     to_string(at), container.record.properties.label));
    }
}

// ---- the check -----------------------------------------------------------------------------

Task<uint64_t> ContainerClient::check(ObjectStore& store, ContainerId main) {
    co_await resolve_pending(store, main);
    uint64_t used = 0;
    for (const Container& container : containers_) {
        bool same = co_await matches(store, container, used);
        if (!same && updating_ && updating_->container == container.record.id &&
            !updating_->happened) {
            co_await apply_update();
            same = co_await matches(store, container, used);
        }
        if (same) continue;
        history_.problem(fmt::format("container {} does not hold what was written",
                                     container.record.properties.label));
    }
    co_return used;
}

// Adds to `used` if they match.
Task<bool> ContainerClient::matches(ObjectStore& store, const Container& container,
                                    uint64_t& used) {
    const Snapshot found = co_await take_snapshot(store, container.record.id, {});
    const Snapshot expected = co_await take_snapshot(oracle_, container.oracle, {});
    for (const std::string& text : found.problems) history_.problem(text);
    if (!same_content(found, expected)) co_return false;
    for (const auto& [column, query] : expected.queries) used += query.bytes_used;
    co_return true;
}

}  // namespace ros2s::sim
