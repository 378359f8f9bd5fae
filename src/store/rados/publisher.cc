#include "publisher.h"

#include <algorithm>
#include <ranges>

namespace ros2s::rados {
namespace {

using namespace object;

constexpr size_t applying_max = 64;

// What a change of one object may have in all; Ceph refuses more than 90 MB.
constexpr size_t change_bytes_max = size_t{64} << 20;
size_t size_of(const Pending& pending) {
    size_t bytes = 0;
    for (const auto& [key, value] : pending.set) bytes += key.size() + value.size();
    for (const auto& [key] : pending.remove) bytes += key.size();
    return bytes;
}

// The head that the change gives its object.
auto& head_of(auto& pending) {
    const auto head = std::ranges::find(pending.set, head_key, &Pending::Set::key);
    ROS2S_CHECK(head != pending.set.end());
    return head->value;
}

}  // namespace

Publisher::Publisher(const Env& env, Coordinator& coordinator, Heads& heads, Replies& replies,
                     Tidier& tidier)
    : env_(env),
      coordinator_(coordinator),
      heads_(heads),
      replies_(replies),
      tidier_(tidier),
      applying_(env.reactor, applying_max) {}

Pending Publisher::changes_of(const View& view, std::span<Update* const> members) {
    Pending pending;
    for (const auto& [key, value] : view.changes()) {
        if (value.empty()) {
            pending.remove.push_back({key});
        } else {
            pending.set.push_back({key, value});
        }
    }
    Head head = view.head();
    head.change = env_.reactor.secrets().next();
    const auto add_garbage = [&](const std::map<ObjectId, std::vector<DataId>>& all) {
        const auto garbage = all.find(view.object());
        if (garbage == all.end()) return;
        for (const DataId& id : garbage->second) {
            pending.set.push_back({garbage_tag + data_name(view.object(), id), "1"});
        }
    };
    for (const Update* each : members) {
        add_garbage(each->rewrite == nullptr ? each->plan.garbage() : each->rewrite->garbage);
        const auto more = each->plan.more_entries().find(view.object());
        if (more != each->plan.more_entries().end()) {
            head.entries += static_cast<uint64_t>(more->second);
        }
        if (!view.changes().empty()) head.epoch = each->commit.epoch.value;
    }
    pending.set.push_back({head_key, encode(head)});
    return pending;
}

Task<Result<>> Publisher::publish(const Call& call, std::string space, RecordLocation location,
                                  Views& views, std::span<Update* const> members, bool is_guess) {
    const Transaction& transaction = members[0]->transaction;
    // Removals and renames need records, also in a full pool.
    const bool even_if_full = std::ranges::none_of(members, [](const Update* each) {
        return each->rewrite != nullptr || each->plan.adds_data();
    });
    std::vector<Participant> participants;
    for (const View& view : views | std::views::values) {
        participants.push_back({&view, changes_of(view, members), {}});
        if (size_of(participants.back().pending) > change_bytes_max) {
            co_return fail(Code::too_large, change_bytes_max);
        }
    }
    ROS2S_CO_TRY(call.check(env_.reactor));
    const bool is_named = replies_.keeps(transaction) && !members[0]->notes_reply;
    const bool is_one = !is_named && participants.size() <= 1;
    // Without a change, the state of one object was read at one instant.
    if (is_one && (participants.empty() || participants[0].view->changes().empty())) {
        co_return is_guess && !participants.empty() ? Result<>(fail(Code::busy)) : Result<>();
    }
    for (Update* each : members) each->payload.may_be_seen = each->was_tried = true;
    if (is_one) {
        const auto changed = co_await change_one(space, participants[0], even_if_full);
        co_return changed ? changed : co_await outcome_of(changed.error(), space, members);
    }
    Coordinator::Attempt attempt{.call = call,
                                 .space = space,
                                 .location = location,
                                 .record = {.transaction = Uuid::make(env_.reactor.secrets()),
                                            .sequence = is_named ? transaction.id.sequence : 0,
                                            .digest = is_named ? digest_of(transaction) : 0,
                                            .epoch = members[0]->commit.epoch.value,
                                            .time = members[0]->commit.time,
                                            .participants = {},
                                            .before = location.bytes},
                                 .participants = participants,
                                 .even_if_full = even_if_full};
    for (const Participant& each : participants) {
        attempt.record.participants.push_back({object_name(each.view->object())});
    }
    const auto changed = is_named ? co_await change_by_slot(attempt)
                                  : co_await change_by_decider(attempt, *members[0]->hold);
    co_return changed ? changed : co_await outcome_of(changed.error(), space, members);
}

// A change of one object is atomic.
Task<Result<>> Publisher::change_one(std::string space, const Participant& only,
                                     bool even_if_full) {
    Change change = conditional_change({space, object_name(only.view->object())}, *only.view);
    change.even_if_full = even_if_full;
    add(change, only.pending);
    auto changed = co_await env_.metadata.apply(change);
    if (!changed && changed.error().code == Code::condition_failed) {
        // It may be the change itself that has made another head.
        ROS2S_CO_TRY_ASSIGN(const std::string now, co_await coordinator_.read_head(change.object));
        changed = now == head_of(only.pending) ? Result<>() : fail(Code::busy);
    }
    if (!changed) co_return changed;
    replies_.forget_dropped_notes(space, *only.view);
    tidier_.start(change.object, only.pending);
    note_changed(space, only);
    co_return changed;
}

void Publisher::note_changed(const std::string& space, const Participant& changed) {
    heads_.note_room({space, object_name(changed.view->object())}, changed.pending);
    heads_.remember(space, *changed.view, changed.pending, changed.locked_head);
}

Task<Result<>> Publisher::change_by_slot(const Coordinator::Attempt& attempt) {
    const Replies::SlotName slot{attempt.location.object, attempt.location.key};
    const auto executed = co_await coordinator_.execute(attempt);
    const bool is_finished = executed && *executed;
    replies_.note_executed(slot,
                           is_finished ? std::optional(attempt.record.transaction) : std::nullopt);
    if (!executed) co_return fail(executed.error());
    for (Participant& each : attempt.participants) {
        tidier_.start({attempt.space, object_name(each.view->object())}, each.pending);
        // Otherwise the object may still be locked.
        if (*executed) each.locked_head.clear();
        note_changed(attempt.space, each);
    }
    co_return Result<>{};
}

// The object that decides is never locked. So it is the one with the most entries, such as a
// directory, which others probably use. One of them exists.
Participant& Publisher::decider_of(std::vector<Participant>& participants) {
    const auto rank = [](const Participant& each) {
        Head head;
        ROS2S_CHECK(decode(head_of(each.pending), head));
        return std::pair(each.view->exists(), head.entries);
    };
    Participant& most = *std::ranges::max_element(participants, {}, rank);
    ROS2S_CHECK(most.view->exists());
    return most;
}

// Done when one object is changed. The others are changed afterwards; until then, later
// transactions of this store on them wait, and those of others see the decision.
Task<Result<>> Publisher::change_by_decider(Coordinator::Attempt& attempt, KeyMutexes::Hold& hold) {
    Participant& deciding = decider_of(attempt.participants);
    attempt.decider = &deciding;
    attempt.record.state = Coordination::State::committed;
    // An object without epoch and entries would be removed as if conditions alone had made it.
    Head head;
    ROS2S_CO_TRY(decode(head_of(deciding.pending), head));
    head.epoch = attempt.record.epoch;
    head_of(deciding.pending) = encode(head);
    const ObjectName object{attempt.space, object_name(deciding.view->object())};
    const std::string key = decision_key(deciding.view->head().change, attempt.record.transaction);
    attempt.location = {.object = object, .key = key, .bytes = {}};
    // Its decisions that are not needed any more go with the change.
    std::vector<std::string> ended = tidier_.take_ended(object);
    for (const std::string& each : ended) deciding.pending.remove.push_back({each});
    deciding.pending.set.push_back({key, encode(attempt.record)});
    const auto decided = co_await coordinator_.decide(attempt);
    if (!decided) {
        tidier_.note_ended(object, std::move(ended));
        co_return decided;
    }
    std::vector<Coordinator::Unapplied> rest;
    std::vector<std::string> names;
    for (const Participant& each : attempt.participants) {
        note_changed(attempt.space, each);
        if (&each == &deciding) continue;
        rest.push_back(Coordinator::unapplied(each));
        names.push_back(attempt.space + rest.back().name);
    }
    co_await applying_.spawn(apply_rest(attempt.space, std::move(rest), object.name,
                                        deciding.pending, key, hold.split(names)));
    co_return Result<>{};
}

Task<> Publisher::apply_rest(std::string space, std::vector<Coordinator::Unapplied> objects,
                             std::string decider, Pending decided, std::string key,
                             KeyMutexes::Hold) {
    // If not all are, whoever meets their locks needs the decision, until a sweep ends it.
    if (!co_await coordinator_.apply_all(space, objects)) co_return;
    for (const Coordinator::Unapplied& each : objects) {
        tidier_.start({space, each.name}, each.pending);
        heads_.note_applied({space, each.name}, each.locked_head);
    }
    // It is needed until here, also if the object that decided has no entries any more.
    tidier_.note_ended({space, decider}, {key});
    tidier_.start({space, decider}, decided);
}

// ---- what a refusal says --------------------------------------------------------------------

// What its own effect has refused stands, though nothing else shows it: another client has changed
// the object since, or has ended the decision.
Task<Result<>> Publisher::outcome_of(Error error, std::string space,
                                     std::span<Update* const> members) {
    if (error.code == Code::busy) {
        ROS2S_CO_TRY_ASSIGN(const bool is_made, co_await has_published(space, members));
        if (is_made) co_return Result<>{};
    }
    for (Update* each : members) each->payload.may_be_seen = may_be_done(error);
    co_return fail(error);
}

// All data is published by one commit, so one object of it tells. It is named by its segment, then
// by a garbage record, which goes after the data.
Task<Result<bool>> Publisher::has_published(std::string space, std::span<Update* const> members) {
    const auto with_data = std::ranges::find_if(
        members, [](const Update* each) { return !each->payload.all.empty(); });
    if (with_data == members.end()) co_return false;
    const Update& member = **with_data;
    const auto& [object, written] = *member.payload.all.begin();
    const DataId data = written.front();
    std::string segment_at;
    if (member.rewrite != nullptr) {
        segment_at = member.rewrite->key;
    } else {
        const auto at = std::ranges::find_if(
            member.payload.runs, [&](const WrittenRun& each) { return each.run.data == data; });
        const Operation& operation = member.transaction.operations[at->operation];
        segment_at =
            segment_key(entry_key(operation.dkey, operation.akey), at->run.offset / segment_bytes);
    }
    const std::string name = data_name(object, data), garbage_at = garbage_tag + name;
    const Read read{.object = {space, object_name(object)}, .keys = {segment_at, garbage_at}};
    ROS2S_CO_TRY_ASSIGN(const ReadReply found, absent_as_empty(co_await env_.metadata.read(read)));
    if (found.values.contains(garbage_at)) co_return true;
    if (const std::string value = found.value(segment_at); !value.empty()) {
        Segment segment;
        ROS2S_CO_TRY(decode(value, segment));
        if (std::ranges::find(segment.runs, data, &Run::data) != segment.runs.end()) {
            co_return true;
        }
    }
    std::byte first{};
    const auto bytes = co_await env_.data.read_data({space, name}, 0, {&first, 1});
    if (bytes) co_return false;
    // Or a sweep whose clock is wrong took it for old.
    const bool is_gone = bytes.error().code == Code::not_found;
    co_return fail(is_gone ? Error{Code::deadline} : bytes.error());
}

}  // namespace ros2s::rados
