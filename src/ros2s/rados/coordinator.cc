#include "coordinator.h"

#include <algorithm>

#include "ros2s/runtime/nursery.h"

namespace ros2s::rados {
namespace {

constexpr size_t participants_at_once = 32;

bool is_of(const Coordination& record, const Uuid& transaction) {
    return record.transaction == transaction;
}

}  // namespace

Task<Result<>> Coordinator::look(RecordLocation& location) {
    const Read read{.object = location.object, .keys = {location.key, made_key}};
    const auto reply = co_await pool_.read(read);
    if (!reply && reply.error().code != Code::not_found) co_return fail(reply.error());
    location.object_exists = reply.has_value();
    const auto value = [&](const std::string& key) {
        return reply && reply->values.contains(key) ? reply->values.at(key) : std::string();
    };
    location.bytes = value(location.key);
    location.made = value(made_key);
    co_return Result<>{};
}

Task<Result<bool>> Coordinator::execute(const Call& call, std::string space,
                                        RecordLocation location, Coordination record,
                                        std::vector<Participant> participants, bool even_if_full) {
    const std::string pending = encode(record);
    Coordination committed = record;
    committed.state = Coordination::State::committed;
    committed.before.clear();
    Change begin{.object = location.object,
                 .set = {{location.key, participants.empty() ? encode(committed) : pending}},
                 .even_if_full = even_if_full};
    if (location.object_exists) {
        begin.equal = {{location.key, location.bytes}};
        // Replies that were removed and made again are others.
        if (!location.made.empty()) begin.equal.emplace_back(made_key, location.made);
    } else {
        begin.expect = Change::Expect::absent;
    }
    begin.set.emplace_back(mark_key, Uuid::make(reactor_.secrets()).to_string());
    if (const auto begun = co_await pool_.apply(begin); !begun) {
        if (begun.error().code == Code::condition_failed) co_return fail(Code::busy);
        co_return fail(begun.error());
    }
    if (participants.empty()) co_return true;
    std::vector<Result<>> prepared(participants.size());
    {
        Nursery nursery(reactor_, participants_at_once);
        for (size_t i = 0; i < participants.size(); ++i) {
            co_await nursery.spawn(prepare(space, location, record.transaction, even_if_full,
                                           participants[i], prepared[i]));
        }
        co_await nursery.join();
    }
    const auto failed = std::ranges::find_if(prepared, [](const auto& each) { return !each; });
    const auto in_time = call.check(reactor_.now());
    Result<> decided = failed == prepared.end() ? in_time : Result<>(*failed);
    if (decided) {
        const Change commit{.object = location.object,
                            .equal = {{location.key, pending}},
                            .set = {{location.key, encode(committed)}}};
        decided = co_await pool_.apply(commit);
        // Without an answer it may be committed: then whoever meets the locks sees which.
        if (!decided && decided.error().code != Code::condition_failed) {
            co_return fail(decided.error());
        }
    } else {
        // The objects must not be unlocked before nobody can commit any more.
        ROS2S_CO_TRY(co_await abort(location.object, location.key, pending, record));
    }
    std::vector<Result<>> done(participants.size());
    Nursery nursery(reactor_, participants_at_once);
    for (size_t i = 0; i < participants.size(); ++i) {
        const Participant& each = participants[i];
        const std::string name = object_name(each.view->object());
        if (decided) {
            co_await nursery.spawn(apply(space, name, each.locked_head, each.pending, done[i]));
        } else if (prepared[i]) {
            Head locked;
            done[i] = decode(each.locked_head, locked);
            co_await nursery.spawn(unlock(space, name, locked, each.locked_head, done[i]));
        }
    }
    co_await nursery.join();
    if (decided) {
        co_return std::ranges::all_of(done, [](const auto& each) { return each.has_value(); });
    }
    const bool is_conflict = decided.error().code == Code::condition_failed;
    co_return fail(is_conflict ? Error{Code::busy} : decided.error());
}

Task<> Coordinator::prepare(std::string space, RecordLocation location, Uuid transaction,
                            bool even_if_full, Participant& participant, Result<>& result) {
    const View& view = *participant.view;
    Head head = view.head();
    head.change = reactor_.secrets().next();
    head.lock = {.transaction = transaction,
                 .coordinator = location.object.name,
                 .key = location.key,
                 .created = !view.exists()};
    participant.locked_head = encode(head);
    Change change{
        .object = {space, object_name(view.object())},
        .set = {{head_key, participant.locked_head}, {pending_key, encode(participant.pending)}},
        .even_if_full = even_if_full};
    if (view.exists()) {
        change.equal = {{head_key, view.head_bytes()}};
    } else {
        change.expect = Change::Expect::absent;
    }
    result = co_await pool_.apply(change);
}

Task<> Coordinator::apply(std::string space, std::string name, std::string head_bytes,
                          std::optional<Pending> known, Result<>& result) {
    const ObjectName object{std::move(space), std::move(name)};
    Pending pending;
    if (known) {
        pending = std::move(*known);
    } else if (result = co_await read_pending(object, head_bytes, pending);
               !result || pending.set.empty()) {
        co_return;
    }
    Change change{.object = object, .equal = {{head_key, head_bytes}}};
    for (auto& [key, bytes] : pending.set) change.set.emplace_back(key, std::move(bytes));
    for (auto& each : pending.remove) change.remove.push_back(std::move(each.key));
    change.remove.push_back(pending_key);
    result = co_await pool_.apply(change);
    if (!result && result.error().code == Code::condition_failed) result = {};
}

// Nothing, if the head is another one.
Task<Result<>> Coordinator::read_pending(ObjectName object, std::string head_bytes,
                                         Pending& pending) {
    const Read read{.object = std::move(object), .keys = {head_key, pending_key}};
    const auto reply = co_await pool_.read(read);
    if (!reply && reply.error().code == Code::not_found) co_return Result<>{};
    if (!reply) co_return fail(reply.error());
    const auto head = reply->values.find(head_key);
    if (head == reply->values.end() || head->second != head_bytes) co_return Result<>{};
    const auto value = reply->values.find(pending_key);
    if (value == reply->values.end()) co_return fail(Code::corrupt);
    co_return decode(value->second, pending);
}

Task<> Coordinator::unlock(std::string space, std::string name, Head head, std::string head_bytes,
                           Result<>& result) {
    Change change{.object = {std::move(space), std::move(name)}, .equal = {{head_key, head_bytes}}};
    if (head.lock.created) {
        change.remove_object = true;
    } else {
        head.lock = {};
        head.change = reactor_.secrets().next();
        change.set = {{head_key, encode(head)}};
        change.remove = {pending_key};
    }
    result = co_await pool_.apply(change);
    if (!result && result.error().code == Code::condition_failed) result = {};
}

Task<Result<>> Coordinator::abort(const ObjectName& object, const std::string& key,
                                  const std::string& bytes, const Coordination& record) {
    Change change{.object = object, .equal = {{key, bytes}}};
    if (record.before.empty()) {
        change.remove = {key};
    } else {
        change.set = {{key, record.before}};
    }
    const auto aborted = co_await pool_.apply(change);
    if (!aborted && aborted.error().code != Code::condition_failed) co_return aborted;
    co_return Result<>{};
}

Task<Result<bool>> Coordinator::apply_if_committed(std::string space, std::string name, Head head,
                                                   std::string head_bytes) {
    RecordLocation location{
        .object = {space, head.lock.coordinator}, .key = head.lock.key, .bytes = {}};
    ROS2S_CO_TRY(co_await look(location));
    Coordination record;
    if (!location.bytes.empty()) ROS2S_CO_TRY(decode(location.bytes, record));
    const bool is_its = !location.bytes.empty() && is_of(record, head.lock.transaction);
    if (is_its && record.state == Coordination::State::pending) co_return false;
    if (is_its) {
        Result<> result;
        co_await apply(space, name, head_bytes, std::nullopt, result);
        if (!result) co_return fail(result.error());
        co_return true;
    }
    // It is over. If it was committed, the object was unlocked before its record went.
    const Read read{.object = {space, name}, .keys = {head_key}};
    const auto reply = co_await pool_.read(read);
    if (!reply && reply.error().code != Code::not_found) co_return fail(reply.error());
    const bool is_same =
        reply && reply->values.contains(head_key) && reply->values.at(head_key) == head_bytes;
    co_return !is_same;
}

Task<Result<>> Coordinator::settle(const Call& call, std::string space, std::string name, Head head,
                                   std::string head_bytes) {
    const Time until = reactor_.now() + patience_;
    Result<> result;
    while (true) {
        ROS2S_CO_TRY(call.check(reactor_.now()));
        RecordLocation location{
            .object = {space, head.lock.coordinator}, .key = head.lock.key, .bytes = {}};
        ROS2S_CO_TRY(co_await look(location));
        Coordination record;
        if (!location.bytes.empty()) ROS2S_CO_TRY(decode(location.bytes, record));
        const bool is_its = !location.bytes.empty() && is_of(record, head.lock.transaction);
        if (is_its && record.state == Coordination::State::committed) {
            co_await apply(space, name, head_bytes, std::nullopt, result);
            co_return result;
        }
        if (!is_its) {
            // Aborted, or over: then the head is another one, and nothing happens.
            co_await unlock(space, name, head, head_bytes, result);
            co_return result;
        }
        if (reactor_.now() >= until) {
            ROS2S_CO_TRY(co_await abort(location.object, location.key, location.bytes, record));
            continue;
        }
        co_await sleep_for(reactor_, std::chrono::milliseconds(2 + reactor_.random().below(8)));
        // It may be over meanwhile.
        const Read read{.object = {space, name}, .keys = {head_key}};
        const auto reply = co_await pool_.read(read);
        if (!reply && reply.error().code != Code::not_found) co_return fail(reply.error());
        const bool is_same =
            reply && reply->values.contains(head_key) && reply->values.at(head_key) == head_bytes;
        if (!is_same) co_return Result<>{};
    }
}

Task<Result<>> Coordinator::finish(std::string space, const Coordination& record) {
    for (const auto& [name] : record.participants) {
        const Read read{.object = {space, name}, .keys = {head_key}};
        const auto reply = co_await pool_.read(read);
        if (!reply && reply.error().code == Code::not_found) continue;
        if (!reply) co_return fail(reply.error());
        const auto value = reply->values.find(head_key);
        if (value == reply->values.end()) continue;
        Head head;
        ROS2S_CO_TRY(decode(value->second, head));
        if (!is_of(record, head.lock.transaction)) continue;
        Result<> result;
        co_await apply(space, name, value->second, std::nullopt, result);
        ROS2S_CO_TRY(std::move(result));
    }
    co_return Result<>{};
}

}  // namespace ros2s::rados
