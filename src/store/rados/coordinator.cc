#include "coordinator.h"

#include <algorithm>

#include "ros2s/runtime/nursery.h"

namespace ros2s::rados {
namespace {

constexpr size_t participants_at_once = 32;

bool is_of(const Coordination& record, const Uuid& transaction) {
    return record.transaction == transaction;
}

Lock lock_of(const RecordLocation& location, const Uuid& transaction, bool created) {
    return {.transaction = transaction,
            .coordinator = location.object.name,
            .key = location.key,
            .created = created};
}

// If a condition failed, nothing was done, and the caller starts again.
Error or_busy(Error error) {
    return error.code == Code::condition_failed ? Error{Code::busy} : error;
}

}  // namespace

Change conditional_change(ObjectName object, const View& view) {
    Change change{.object = std::move(object)};
    if (!view.exists()) {
        change.expect = Change::Expect::absent;
        return change;
    }
    change.equal = {{head_key, view.head_bytes()}};
    for (const std::string& key : view.guessed_keys()) change.equal.emplace_back(key, "");
    return change;
}

void add(Change& change, Pending pending) {
    for (auto& [key, value] : pending.set) {
        change.set.emplace_back(std::move(key), std::move(value));
    }
    for (auto& [key] : pending.remove) change.remove.push_back(std::move(key));
}

Coordinator::Unapplied Coordinator::unapplied(const Participant& participant) {
    return {.name = object_name(participant.view->object()),
            .locked_head = participant.locked_head,
            .pending = participant.pending};
}

Result<> take(RecordLocation& location, const Result<ReadReply>& reply) {
    if (!reply && reply.error().code != Code::not_found) return fail(reply.error());
    location.object_exists = reply.has_value();
    location.bytes = reply ? reply->value(location.key) : "";
    location.made = reply ? reply->value(made_key) : "";
    return {};
}

Task<Result<bool>> Coordinator::execute(const Attempt& attempt) {
    Attempt located = attempt;
    RecordLocation& location = located.location;
    const std::string pending = encode(attempt.record);
    Coordination committed = attempt.record;
    committed.state = Coordination::State::committed;
    committed.before.clear();
    const bool is_alone = attempt.participants.empty();  // the record is all
    Change begin{.object = location.object,
                 .set = {{location.key, is_alone ? encode(committed) : pending},
                         {mark_key, Uuid::make(reactor_.secrets()).to_string()}},
                 .even_if_full = attempt.even_if_full};
    if (location.object_exists) {
        // Replies that were removed and made again have another `c`.
        begin.equal = {{location.key, location.bytes}, {made_key, location.made}};
    } else {
        begin.expect = Change::Expect::absent;
    }
    const auto begun =
        is_alone ? co_await commit(begin, lock_of(location, attempt.record.transaction, false))
                 : co_await pool_.apply(begin);
    if (!begun) co_return fail(or_busy(begun.error()));
    if (is_alone) co_return true;
    location.bytes = pending;
    const Change change{.object = location.object,
                        .equal = {{location.key, pending}},
                        .set = {{location.key, encode(committed)}}};
    ROS2S_CO_TRY(co_await lock_and_commit(located, change));
    std::vector<Unapplied> objects;
    for (const Participant& each : attempt.participants) objects.push_back(unapplied(each));
    co_return co_await apply_all(attempt.space, std::move(objects));
}

Task<Result<>> Coordinator::decide(const Attempt& attempt) {
    Change change = conditional_change(attempt.location.object, *attempt.decider->view);
    add(change, attempt.decider->pending);
    change.even_if_full = attempt.even_if_full;
    return lock_and_commit(attempt, std::move(change));
}

Task<Result<>> Coordinator::lock_and_commit(const Attempt& attempt, Change change) {
    const RecordLocation& location = attempt.location;
    std::vector<Result<>> prepared(attempt.participants.size());
    {
        Nursery nursery(reactor_, participants_at_once);
        for (size_t i = 0; i < prepared.size(); ++i) {
            Participant& each = attempt.participants[i];
            if (&each == attempt.decider) continue;
            co_await nursery.spawn(prepare(attempt, each, prepared[i]));
        }
        co_await nursery.join();
    }
    const auto failed = std::ranges::find_if(prepared, [](const auto& each) { return !each; });
    Result<> decided = failed == prepared.end() ? attempt.call.check(reactor_) : *failed;
    if (decided) {
        decided = co_await commit(std::move(change),
                                  lock_of(location, attempt.record.transaction, false));
        // Whoever meets the locks sees whether it is.
        if (decided || may_be_done(decided.error())) co_return decided;
    }
    // The objects must not be unlocked before nobody can commit any more.
    if (attempt.decider == nullptr) {
        ROS2S_CO_TRY(co_await abort(location.object, location.key, location.bytes, attempt.record));
    }
    co_await unlock_prepared(attempt, prepared);
    co_return fail(or_busy(decided.error()));
}

Task<Result<>> Coordinator::commit(Change change, Lock lock) {
    const auto made = co_await pool_.apply(change);
    if (made || made.error().code != Code::condition_failed) co_return made;
    ROS2S_CO_TRY_ASSIGN(const Decision decision, co_await decision_of(change.object.space, lock));
    co_return decision.state == State::committed ? Result<>() : made;
}

Task<> Coordinator::unlock_prepared(const Attempt& attempt, const std::vector<Result<>>& prepared) {
    std::vector<Result<>> unlocked(prepared.size());
    Nursery nursery(reactor_, participants_at_once);
    for (size_t i = 0; i < prepared.size(); ++i) {
        const Participant& each = attempt.participants[i];
        Head locked;
        // One that cannot be unlocked now is unlocked by the client that meets it.
        if (&each == attempt.decider || !prepared[i] || !decode(each.locked_head, locked)) continue;
        co_await nursery.spawn(unlock({attempt.space, object_name(each.view->object())}, locked,
                                      each.locked_head, unlocked[i]));
    }
    co_await nursery.join();
}

Task<bool> Coordinator::apply_all(std::string space, std::vector<Unapplied> objects) {
    std::vector<Result<>> done(objects.size());
    Nursery nursery(reactor_, participants_at_once);
    for (size_t i = 0; i < objects.size(); ++i) {
        Unapplied& each = objects[i];
        co_await nursery.spawn(
            apply({space, each.name}, each.locked_head, std::move(each.pending), done[i]));
    }
    co_await nursery.join();
    co_return std::ranges::all_of(done, [](const auto& each) { return each.has_value(); });
}

Task<> Coordinator::prepare(const Attempt& attempt, Participant& participant, Result<>& result) {
    const View& view = *participant.view;
    Head head = view.head();
    head.change = reactor_.secrets().next();
    head.lock = lock_of(attempt.location, attempt.record.transaction, !view.exists());
    participant.locked_head = encode(head);
    Change change = conditional_change({attempt.space, object_name(view.object())}, view);
    change.set = {{head_key, participant.locked_head}, {pending_key, encode(participant.pending)}};
    change.even_if_full = attempt.even_if_full;
    result = co_await pool_.apply(change);
}

Task<> Coordinator::apply(ObjectName object, std::string head_bytes, std::optional<Pending> known,
                          Result<>& result) {
    if (!known) {
        const Read read{.object = object, .keys = {head_key, pending_key}};
        const auto found = absent_as_empty(co_await pool_.read(read));
        result = found ? Result<>() : fail(found.error());
        // Nothing is left to do if the head is another one.
        if (!found || found->value(head_key) != head_bytes) co_return;
        result = decode(found->value(pending_key), known.emplace());
        if (!result) co_return;
    }
    Change change{.object = std::move(object), .equal = {{head_key, head_bytes}}};
    add(change, std::move(*known));
    change.remove.push_back(pending_key);
    result = ignore_conflict(co_await pool_.apply(change));
}

Task<> Coordinator::unlock(ObjectName object, Head head, std::string head_bytes, Result<>& result) {
    Change change{.object = std::move(object), .equal = {{head_key, head_bytes}}};
    if (head.lock.created) {
        change.remove_object = true;
    } else {
        head.lock = {};
        head.change = reactor_.secrets().next();
        change.set = {{head_key, encode(head)}};
        change.remove = {pending_key};
    }
    result = ignore_conflict(co_await pool_.apply(change));
}

Task<Result<>> Coordinator::abort(const ObjectName& object, const std::string& key,
                                  const std::string& bytes, const Coordination& record) {
    Change change{.object = object, .equal = {{key, bytes}}};
    if (record.before.empty()) {
        change.remove = {key};
    } else {
        change.set = {{key, record.before}};
    }
    co_return ignore_conflict(co_await pool_.apply(change));
}

// A decider has another head than the one that the transaction depends on, and no record: it did
// not commit, and never will.
Task<Result<Coordinator::Decision>> Coordinator::decision_of(std::string space, Lock lock) {
    Decision decision{
        .location = {.object = {space, lock.coordinator}, .key = lock.key, .bytes = {}},
        .record = {}};
    const auto change = change_of_decision_key(lock.key);
    const Read read{.object = decision.location.object, .keys = {lock.key, head_key}};
    ROS2S_CO_TRY_ASSIGN(const ReadReply reply, absent_as_empty(co_await pool_.read(read)));
    if (const std::string value = reply.value(lock.key); !value.empty()) {
        ROS2S_CO_TRY(decode(value, decision.record));
        if (!is_of(decision.record, lock.transaction)) co_return decision;
        decision.location.bytes = value;
        const bool is_pending = decision.record.state == Coordination::State::pending;
        decision.state = is_pending ? State::pending : State::committed;
        co_return decision;
    }
    const std::string head_bytes = reply.value(head_key);
    if (!change || head_bytes.empty()) co_return decision;
    Head head;
    ROS2S_CO_TRY(decode(head_bytes, head));
    if (head.change == *change) {
        decision.state = State::pending;
        decision.location.bytes = head_bytes;
    }
    co_return decision;
}

Task<Result<>> Coordinator::end_pending(Decision decision) {
    const RecordLocation& location = decision.location;
    if (!change_of_decision_key(location.key)) {
        co_return co_await abort(location.object, location.key, location.bytes, decision.record);
    }
    // With another head, the decider cannot commit it.
    Head head;
    ROS2S_CO_TRY(decode(location.bytes, head));
    head.change = reactor_.secrets().next();
    const Change touch{.object = location.object,
                       .equal = {{head_key, location.bytes}},
                       .set = {{head_key, encode(head)}},
                       .even_if_full = true};
    co_return ignore_conflict(co_await pool_.apply(touch));
}

Task<Result<bool>> Coordinator::apply_if_committed(ObjectName object, Head head,
                                                   std::string head_bytes) {
    ROS2S_CO_TRY_ASSIGN(const Decision decision, co_await decision_of(object.space, head.lock));
    if (decision.state == State::pending) co_return false;
    if (decision.state == State::committed) {
        Result<> result;
        co_await apply(object, head_bytes, std::nullopt, result);
        if (!result) co_return fail(result.error());
        co_return true;
    }
    // It is over. If it was committed, the object was unlocked before its record went.
    ROS2S_CO_TRY_ASSIGN(const std::string now, co_await read_head(object));
    co_return now != head_bytes;
}

Task<Result<std::string>> Coordinator::read_head(ObjectName object) {
    const Read read{.object = std::move(object), .keys = {head_key}};
    ROS2S_CO_TRY_ASSIGN(const ReadReply reply, absent_as_empty(co_await pool_.read(read)));
    co_return reply.value(head_key);
}

Task<Result<>> Coordinator::resolve_lock(const Call& call, ObjectName object, Head head,
                                         std::string head_bytes) {
    const Time until = reactor_.now() + patience_;
    Result<> result;
    while (true) {
        ROS2S_CO_TRY(call.check(reactor_));
        ROS2S_CO_TRY_ASSIGN(Decision decision, co_await decision_of(object.space, head.lock));
        if (decision.state == State::committed) {
            co_await apply(object, head_bytes, std::nullopt, result);
            co_return result;
        }
        if (decision.state == State::over) {
            // Aborted, or over: then the head is another one, and nothing happens.
            co_await unlock(object, head, head_bytes, result);
            co_return result;
        }
        if (reactor_.now() >= until) {
            ROS2S_CO_TRY(co_await end_pending(std::move(decision)));
            continue;
        }
        co_await sleep_for(reactor_, std::chrono::milliseconds(2 + reactor_.random().below(8)));
        // It may be over meanwhile.
        ROS2S_CO_TRY_ASSIGN(const std::string now, co_await read_head(object));
        if (now != head_bytes) co_return Result<>{};
    }
}

Task<Result<>> Coordinator::finish(std::string space, const Coordination& record) {
    for (const auto& [name] : record.participants) {
        const ObjectName object{space, name};
        ROS2S_CO_TRY_ASSIGN(const std::string head_bytes, co_await read_head(object));
        if (head_bytes.empty()) continue;
        Head head;
        ROS2S_CO_TRY(decode(head_bytes, head));
        if (!is_of(record, head.lock.transaction)) continue;
        Result<> result;
        co_await apply(object, head_bytes, std::nullopt, result);
        ROS2S_CO_TRY(std::move(result));
    }
    co_return Result<>{};
}

}  // namespace ros2s::rados
