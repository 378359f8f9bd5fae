#include "containers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ros2s/engine/rules/commit_rules.h"
#include "ros2s/object/validate.h"

namespace ros2s::engine {

using object::ContainerRecord;

namespace {

// At a time: each has a page of entries in memory.
constexpr size_t purges_max = 4;

// The name of a creation or destruction, so that it is done once; nil: none.
UpdateName name_of(const Call& call) {
    return call.update != nullptr ? *call.update : UpdateName();
}

// The stored reply, in the call's turn. Errors: those of Replies::look_up().
Result<std::optional<ReplyValue>> stored_answer(const Replies& replies, const Call& call,
                                                WallTime now) {
    const UpdateName id = name_of(call);
    if (id.client.is_nil()) return std::nullopt;
    return replies.look_up(id, {}, !call.repeated, now);
}

ContainerRecord record_of(object::ContainerId id, const State::Container& container) {
    const ContainerValue& value = container.value;
    return {.id = id, .properties = value.properties, .created = value.created, .used = value.used};
}

}  // namespace

Containers::Containers(Cores& cores, State& state, Committer& committer, Checkpointer& checkpointer,
                       const Journal& journal, object::LeaseTable& leases)
    : turn(cores.home().env.reactor, 1),
      purges_(cores.home().env.reactor, purges_max),
      cores_(cores),
      state_(state),
      committer_(committer),
      checkpointer_(checkpointer),
      journal_(journal),
      leases_(leases),
      home_(cores.home()),
      reactor_(home_.env.reactor) {}

Task<Result<ContainerRecord>> Containers::create(const Call& call,
                                                 const object::ContainerProperties& properties) {
    const RequestCount::Hold hold(home_.requests);
    ROS2S_CO_TRY(object::validate(properties));
    // Labels are unique: creations go one by one.
    co_await turn.acquire();
    const SemaphoreHold held(turn);
    ROS2S_CO_TRY(call.check(reactor_));
    ROS2S_CO_TRY_ASSIGN(const auto reply,
                        stored_answer(state_.replies, call, reactor_.wall_time()));
    if (reply) {
        home_.metrics.replays.add();
        for (const auto& [id, container] : state_.containers) {
            if (state_.has_container(id) && container.value.created == reply->time &&
                container.value.properties.label == properties.label) {
                co_return record_of(id, container);
            }
        }
        // It was created, and has been destroyed since.
        co_return fail(Code::stale);
    }
    if (!committer_.read_only_reason().empty()) co_return fail(Code::read_only);
    for (const auto& [id, container] : state_.containers) {
        if (state_.has_container(id) && container.value.properties.label == properties.label) {
            co_return fail(Code::exists);
        }
    }
    const auto owner = state_.owners.find(properties.owner);
    ROS2S_CO_TRY(object::check_room(state_.containers.size(), properties.owner,
                                    owner == state_.owners.end() ? 0 : owner->second.containers));
    const object::ContainerId id{Uuid::make(reactor_.secrets())};
    Change change{.kind = Change::Kind::create_container};
    change.value = encode(ContainerValue{.properties = properties});
    ROS2S_CO_TRY_ASSIGN(const object::Commit commit,
                        co_await commit_change(id, std::move(change), name_of(call)));
    co_return ContainerRecord{.id = id, .properties = properties, .created = commit.time};
}

Task<Result<ContainerRecord>> Containers::set(const Call& call, object::ContainerId container,
                                              const object::ContainerChange& change) {
    const RequestCount::Hold hold(home_.requests);
    co_await turn.acquire();
    const SemaphoreHold held(turn);
    ROS2S_CO_TRY(call.check(reactor_));
    if (!committer_.read_only_reason().empty()) co_return fail(Code::read_only);
    if (!state_.has_container(container)) co_return fail(Code::not_found);
    object::ContainerProperties properties = state_.containers[container].value.properties;
    properties.owner = change.owner.value_or(properties.owner);
    properties.caps.bytes = change.bytes.value_or(properties.caps.bytes);
    properties.caps.values = change.values.value_or(properties.caps.values);
    ROS2S_CO_TRY(object::validate(properties));
    if (change.bytes == 0 && is_cache && is_cache(container)) co_return fail(Code::invalid);
    Change record{.kind = Change::Kind::set_container};
    record.value = encode(ContainerValue{.properties = std::move(properties)});
    ROS2S_CO_TRY(co_await commit_change(container, std::move(record)));
    // It cannot have been removed meanwhile: a destruction waits for `turn`.
    co_return record_of(container, state_.containers[container]);
}

Task<Result<>> Containers::destroy(const Call& call, object::ContainerId container) {
    const RequestCount::Hold hold(home_.requests);
    ROS2S_CO_TRY(call.check(reactor_));
    if (state_.has_container(container)) co_await leases_.end_all(container);
    const auto is_done = co_await retire(call, container);
    leases_.reopen(container);
    ROS2S_CO_TRY(is_done);
    if (*is_done) co_return Result<>();
    if (retired) retired(container);
    // It is invisible to all; its space is freed step by step. A crash in between leaves a retired
    // container. The next opening continues to purge it.
    co_await purges_.acquire();
    const SemaphoreHold purging(purges_);
    co_return co_await purge(container);
}

Task<Result<bool>> Containers::retire(const Call& call, object::ContainerId container) {
    co_await turn.acquire();
    const SemaphoreHold held(turn);
    ROS2S_CO_TRY(call.check(reactor_));
    ROS2S_CO_TRY_ASSIGN(const auto reply,
                        stored_answer(state_.replies, call, reactor_.wall_time()));
    if (reply) {
        home_.metrics.replays.add();
        co_return true;
    }
    if (!committer_.read_only_reason().empty()) co_return fail(Code::read_only);
    if (!state_.has_container(container)) co_return fail(Code::not_found);
    // From now on no transaction of this container joins a group.
    state_.containers[container].retiring = true;
    co_await cores_.share_containers(state_.visible_containers());
    Change change{.kind = Change::Kind::retire_container};
    const auto retired = co_await commit_change(container, std::move(change), name_of(call));
    if (!retired) {
        state_.containers[container].retiring = false;
        co_await cores_.share_containers(state_.visible_containers());
        co_return fail(retired.error());
    }
    co_return false;
}

// ---- purging -------------------------------------------------------------------------------

namespace {

// Entries, including segments of arrays, that one step looks at.
constexpr size_t purge_entries_max = 128;

bool same_akey(const EntryKey& a, const EntryKey& b) {
    return a.object == b.object && a.dkey == b.dkey && a.akey == b.akey;
}

Change punch_of(EntryKey key) {
    return {.kind = Change::Kind::punch_akey,
            .object = key.object,
            .dkey = std::move(key.dkey),
            .akey = std::move(key.akey)};
}

// The changes that remove one page of a container's entries. An array that continues after the page
// loses its segments in the page. Its head is removed with its last segments.
class PurgeSteps {
  public:
    void take(EntryKey key) {
        if (open_ && !same_akey(*open_, key)) end_array();
        last_ = key.segment;
        if (!open_) {
            open_ = std::move(key);
            first_ = 1;
        }
    }
    // The page has ended.
    void cut() {
        if (!open_ || last_ < first_) return;
        Change hole{.kind = Change::Kind::array,
                    .object = open_->object,
                    .dkey = open_->dkey,
                    .akey = open_->akey,
                    .hole_first = uint64_t{first_} * segment_blocks,
                    .hole_count = uint64_t{last_ - first_ + 1} * segment_blocks};
        changes.push_back(std::move(hole));
        first_ = last_ + 1;
    }
    void end_array() {
        if (open_) changes.push_back(punch_of(std::move(*open_)));
        open_.reset();
    }
    std::vector<Change> changes;

  private:
    std::optional<EntryKey> open_;   // the head of its array
    uint32_t first_ = 1, last_ = 0;  // its segments that still exist
};

}  // namespace

// Removes the contents of a retired container, in steps that need little memory each, then its
// record. A crash in between leaves a retired container with fewer contents.
Task<Result<>> Containers::purge(object::ContainerId container) {
    KeyBuilder entries(Table::entries);
    entries.container(container);
    const std::string entries_end = prefix_end(entries.view());
    std::string from = entries.take();
    PurgeSteps steps;
    for (bool more = true; more;) {
        ROS2S_CO_TRY_ASSIGN(Loader::Page page,
                            co_await cores_.scan(std::move(from), entries_end, purge_entries_max));
        for (const Loader::Item& item : page.items) {
            auto key = parse_entry_key(item.key);
            if (!key) co_return fail(Code::corrupt);
            steps.take(std::move(*key));
        }
        more = page.more;
        from = std::move(page.next);
        page = {};
        if (more) {
            steps.cut();
        } else {
            steps.end_array();
        }
        ROS2S_CO_TRY(co_await commit_steps(container, std::exchange(steps.changes, {})));
    }
    // The entries are gone; only the objects' summaries are left.
    KeyBuilder summaries(Table::summaries);
    summaries.container(container);
    const std::string summaries_end = prefix_end(summaries.view());
    from = summaries.take();
    for (bool more = true; more;) {
        ROS2S_CO_TRY_ASSIGN(const Loader::Page page,
                            co_await home_.loader.scan(from, summaries_end, purge_entries_max));
        std::vector<Change> changes;
        for (const Loader::Item& item : page.items) {
            const auto key = parse_summary_key(item.key);
            if (!key) co_return fail(Code::corrupt);
            if (!changes.empty() && changes.back().object == key->object) continue;
            Change& change = changes.emplace_back();
            change.kind = Change::Kind::punch_object;
            change.object = key->object;
        }
        more = page.more;
        from = page.next;
        ROS2S_CO_TRY(co_await commit_steps(container, std::move(changes)));
    }
    Change change{.kind = Change::Kind::remove_container};
    ROS2S_CO_TRY(co_await commit_change(container, std::move(change)));
    co_return Result<>();
}

Task<Result<object::Commit>> Containers::commit_change(object::ContainerId container, Change change,
                                                       const UpdateName& id) {
    TransactionRecord record;
    record.container = container;
    record.id = id;
    record.changes.push_back(std::move(change));
    ROS2S_CO_TRY(co_await committer_.admit(record.encoded_bytes_max(), 0));
    co_return co_await committer_.commit(std::move(record));
}

// In as few transactions as their records allow.
Task<Result<>> Containers::commit_steps(object::ContainerId container,
                                        std::vector<Change> changes) {
    const uint64_t bytes_max = journal_.record_blocks_max() * block_bytes / 2;
    for (size_t at = 0; at < changes.size();) {
        if (checkpointer_.is_behind()) co_await checkpointer_.catch_up();
        TransactionRecord record;
        record.container = container;
        std::vector<Node*> pins;
        Result<> done;
        while (done && at < changes.size() &&
               (record.changes.empty() || record.encoded_bytes_max() < bytes_max)) {
            done = co_await cores_.prepare(container, changes[at], pins);
            if (done) record.changes.push_back(std::move(changes[at++]));
        }
        if (done) done = co_await committer_.admit(record.encoded_bytes_max(), 0);
        if (done) {
            committer_.open().hold(pins);
            const auto committed = co_await committer_.commit(std::move(record));
            if (!committed) done = fail(committed.error());
        }
        co_await cores_.unpin(std::move(pins));
        ROS2S_CO_TRY(done);
        co_await cores_.trim();
    }
    co_return Result<>();
}

Task<> Containers::resume_purges() {
    const RequestCount::Hold hold(home_.requests);
    std::vector<object::ContainerId> retired;
    for (const auto& [id, container] : state_.containers) {
        if (container.value.retired) retired.push_back(id);
    }
    if (!rules.resume_purges) retired.clear();
    for (const object::ContainerId id : retired) {
        const Result<> purged = co_await purge(id);
        if (!purged) {
            home_.env.log.warning(
                "removing what a destroyed container held failed: {}; it is tried again when the "
                "pool is opened next",
                describe(purged.error()));
        }
    }
}

Task<Result<std::vector<ContainerRecord>>> Containers::list(const Call& call) {
    ROS2S_CO_TRY(call.check(reactor_));
    std::vector<ContainerRecord> records;
    for (const auto& [id, container] : state_.containers) {
        if (!state_.has_container(id)) continue;
        records.push_back(record_of(id, container));
    }
    std::ranges::sort(records, {}, [](const ContainerRecord& r) { return r.properties.label; });
    co_return records;
}

Task<Result<object::PoolSpace>> Containers::space(const Call& call, object::ContainerId container) {
    ROS2S_CO_TRY(call.check(reactor_));
    const bool of_pool = container == object::ContainerId{};
    if (!of_pool && !state_.has_container(container)) co_return fail(Code::not_found);
    const uint64_t total = state_.space.total_blocks();
    const uint64_t used = state_.space.used_blocks();
    object::PoolSpace space{.total_bytes = total * block_bytes,
                            .free_bytes = (total - std::min(used, total)) * block_bytes};
    if (!of_pool) state_.narrow(state_.containers.find(container)->second, space);
    co_return space;
}

}  // namespace ros2s::engine
