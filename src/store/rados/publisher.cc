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
        if (!changed) co_return co_await outcome_of(changed.error(), space, members);
        note_changed(space, participants[0]);
        co_return Result<>{};
    }
    Coordination record{.transaction = Uuid::make(env_.reactor.secrets()),
                        .sequence = is_named ? transaction.id.sequence : 0,
                        .digest = is_named ? digest_of(transaction) : 0,
                        .epoch = members[0]->commit.epoch.value,
                        .time = members[0]->commit.time,
                        .participants = {},
                        .before = location.bytes};
    for (const Participant& each : participants) {
        record.participants.push_back({object_name(each.view->object())});
    }
    if (!is_named) {
        const size_t decider = decider_of(participants);
        const auto decided = co_await change_by_decider(
            call, space, std::move(record), participants, decider, *members[0]->hold, even_if_full);
        co_return decided ? decided : co_await outcome_of(decided.error(), space, members);
    }
    const auto executed = co_await change_by_slot(call, space, std::move(location), record,
                                                  participants, even_if_full);
    if (!executed) co_return co_await outcome_of(executed.error(), space, members);
    for (const Participant& each : participants) {
        if (*executed) {
            note_changed(space, each);
        } else {
            const ObjectName name{space, object_name(each.view->object())};
            tidier_.start(name, each.pending);
            heads_.note_room(name, each.pending);
        }
    }
    co_return Result<>{};
}

void Publisher::note_changed(const std::string& space, const Participant& changed) {
    const ObjectName name{space, object_name(changed.view->object())};
    tidier_.start(name, changed.pending);
    heads_.note_room(name, changed.pending);
    heads_.remember(space, *changed.view, changed.pending, {});
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
        ROS2S_CO_TRY_ASSIGN(const bool is_made,
                            co_await coordinator_.has_head(change.object, head_of(only.pending)));
        changed = is_made ? Result<>() : fail(Code::busy);
    }
    if (changed) replies_.forget_dropped_notes(space, *only.view);
    co_return changed;
}

Task<Result<bool>> Publisher::change_by_slot(const Call& call, std::string space,
                                             RecordLocation location, Coordination record,
                                             std::vector<Participant> participants,
                                             bool even_if_full) {
    const Replies::SlotName slot{location.object, location.key};
    const auto executed = co_await coordinator_.execute(call, space, std::move(location), record,
                                                        std::move(participants), even_if_full);
    replies_.distrust(slot);
    if (executed && *executed) replies_.note_finished(slot, record.transaction);
    co_return executed;
}

// The object that decides is never locked. So it is the one with the most entries, such as a
// directory, which others probably use.
size_t Publisher::decider_of(const std::vector<Participant>& participants) {
    const auto rank = [](const Participant& each) {
        Head head;
        ROS2S_CHECK(decode(head_of(each.pending), head));
        return std::pair(each.view->exists(), head.entries);
    };
    const auto most = std::ranges::max_element(participants, {}, rank);
    ROS2S_CHECK(most->view->exists());
    return static_cast<size_t>(most - participants.begin());
}

// Done when one object is changed. The others are changed afterwards; until then, later
// transactions of this store on them wait, and those of others see the decision.
Task<Result<>> Publisher::change_by_decider(const Call& call, std::string space,
                                            Coordination record,
                                            std::vector<Participant>& participants, size_t decider,
                                            KeyMutexes::Hold& hold, bool even_if_full) {
    record.state = Coordination::State::committed;
    Participant& deciding = participants[decider];
    // An object without epoch and entries would be removed as if conditions alone had made it.
    Head head;
    ROS2S_CO_TRY(decode(head_of(deciding.pending), head));
    head.epoch = record.epoch;
    head_of(deciding.pending) = encode(head);
    const ObjectName object{space, object_name(deciding.view->object())};
    const std::string key = decision_key(deciding.view->head().change, record.transaction);
    // Its decisions that are not needed any more go with the change.
    std::vector<std::string> ended = tidier_.take_ended(object);
    for (const std::string& each : ended) deciding.pending.remove.push_back({each});
    deciding.pending.set.push_back({key, encode(record)});
    const auto decided = co_await coordinator_.decide(call, space, key, std::move(record),
                                                      participants, decider, even_if_full);
    if (!decided) {
        tidier_.note_ended(object, std::move(ended));
        co_return decided;
    }
    std::vector<Coordinator::Unapplied> rest;
    std::vector<std::string> names;
    for (const Participant& each : participants) {
        heads_.note_room({space, object_name(each.view->object())}, each.pending);
        heads_.remember(space, *each.view, each.pending, each.locked_head);
        if (&each == &deciding) continue;
        rest.push_back(Coordinator::unapplied(each));
        names.push_back(space + rest.back().name);
    }
    co_await applying_.spawn(
        apply_rest(space, std::move(rest), object.name, deciding.pending, key, hold.split(names)));
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
