// Transactions of RadosStore.
#include <algorithm>
#include <ranges>

#include "pins_ahead.h"
#include "ros2s/object/validate.h"
#include "segment.h"
#include "updating.h"

namespace ros2s::rados {
namespace {

using namespace object;

constexpr int attempts_max = 1000;  // each time something else has changed the objects
constexpr size_t finished_max = 65536;
constexpr size_t known_bytes_max = size_t{16} << 20;
constexpr size_t group_operations_max = 256;

// What a change of one object may have in all; Ceph refuses more than 90 MB.
constexpr size_t change_bytes_max = size_t{64} << 20;
size_t size_of(const Pending& pending) {
    size_t bytes = 0;
    for (const auto& [key, value] : pending.set) bytes += key.size() + value.size();
    for (const auto& [key] : pending.remove) bytes += key.size();
    return bytes;
}

// A transaction that fails so has changed nothing in its views.
bool changes_nothing(const Error& failed) {
    return failed.code == Code::condition_failed || failed.code == Code::stale ||
           failed.code == Code::name_taken || failed.code == Code::expired;
}

}  // namespace

bool RadosStore::keeps_reply(const Transaction& transaction) const {
    return options_.keeps_replies && !transaction.id.client.is_nil();
}

Task<Result<Commit>> RadosStore::update(const Call& call, ContainerId container,
                                        const Transaction& transaction) {
    ROS2S_CO_TRY(validate(transaction));
    for (const Operation& operation : transaction.operations) {
        if (!operation.window.is_local() || !operation.seals.empty()) {
            co_return fail(Code::unsupported);
        }
    }
    ROS2S_CO_TRY(call.check(reactor_));
    ROS2S_CO_TRY(co_await check_container(call, container));
    const std::string space = space_of(container);
    Member member(call, container, transaction, reactor_);
    Payload& payload = member.payload;
    const auto sent = co_await send_payload(call, space, transaction, payload);
    Views views;
    member.plan.add_to(views);
    if (!sent) {
        member.result = fail(sent.error());
    } else if (views.size() == 1 && can_share(transaction)) {
        member.notes_reply = keeps_reply(transaction);
        co_await payload.writes.join();
        co_await update_together(space, views.begin()->first, member);
    } else {
        std::vector<std::string> names;
        for (const ObjectId object : views | std::views::keys) {
            names.push_back(space + object_name(object));
        }
        if (keeps_reply(transaction)) {
            const UpdateName& id = transaction.id;
            names.push_back(space + replies_name(id.owner, id.client) + slot_key(id.slot));
        }
        auto hold = co_await mutexes_.lock(std::move(names));
        member.hold = &hold;
        co_await execute(space, {&member});
    }
    co_await payload.writes.join();
    const Result<Commit>& result = *member.result;
    const bool is_unused = result ? result->replayed : !payload.may_be_seen;
    if (is_unused) drop(space, payload.all);
    co_return result;
}

// A named one only writes arrays, whatever is there: who repeats it names the same object, and does
// not ask before whether it was done. Who punches an object stores the replies that are in it
// first.
bool RadosStore::can_share(const Transaction& transaction) const {
    const auto may_be_named = [](const Condition& each) {
        return each.kind == Condition::Kind::pinned;
    };
    const auto writes = [](const Operation& each) { return each.kind == Operation::Kind::write; };
    if (keeps_reply(transaction)) {
        return std::ranges::all_of(transaction.conditions, may_be_named) &&
               std::ranges::all_of(transaction.operations, writes);
    }
    return std::ranges::none_of(transaction.conditions,
                                [](const Condition& each) {
                                    return each.kind == Condition::Kind::pin ||
                                           each.kind == Condition::Kind::unpinned;
                                }) &&
           !(options_.keeps_replies &&
             std::ranges::any_of(transaction.operations, [](const Operation& each) {
                 return each.kind == Operation::Kind::punch_object;
             }));
}

Task<> RadosStore::update_together(std::string space, ObjectId object, Member& member) {
    const std::string name = space + object_name(object);
    std::shared_ptr<Group>& open = groups_[name];
    const bool leads = open == nullptr || open->operations >= group_operations_max;
    if (leads) open = std::make_shared<Group>(reactor_);
    const std::shared_ptr<Group> group = open;
    group->members.push_back(&member);
    group->operations += member.transaction.operations.size() + 1;
    if (!leads) {
        co_await group->done;
        co_return;
    }
    const auto hold = co_await mutexes_.lock({name});
    const auto at = groups_.find(name);
    if (at != groups_.end() && at->second == group) groups_.erase(at);
    co_await execute(space, group->members);
    group->done.set();
}

Task<> RadosStore::execute(std::string space, std::vector<Member*> members) {
    for (int i = 0; i < attempts_max; ++i) {
        if (co_await attempt(space, members, i == 0)) break;
        if (i == 0) continue;
        // Two clients that disturb each other should not go on in step.
        co_await sleep_for(reactor_,
                           std::chrono::microseconds(100 + reactor_.random().below(5000)));
    }
    for (Member* each : members) {
        if (!each->result) each->result = fail(Code::busy);
    }
}

// ---- an attempt ----------------------------------------------------------------------------

Task<bool> RadosStore::attempt(std::string space, std::span<Member* const> all, bool may_guess) {
    std::vector<Member*> members;
    for (Member* each : all) {
        if (each->result) continue;
        const auto open = each->call.check(reactor_);
        if (!open) {
            each->result = fail(open.error());
        } else {
            members.push_back(each);
        }
    }
    if (members.empty()) co_return true;
    Member& first = *members[0];
    const bool is_alone = members.size() == 1;
    const auto end_all = [&members](Error error) {
        for (Member* each : members) each->result = fail(error);
        return true;
    };
    RecordLocation location;
    if (keeps_reply(first.transaction) && !first.notes_reply) {
        const UpdateName& id = first.transaction.id;
        location.object = {space, replies_name(id.owner, id.client)};
        location.key = slot_key(id.slot);
        const auto reply = co_await stored_reply(first.call, first.transaction, location);
        if (!reply) co_return end_all(reply.error());
        if (*reply) {
            first.result = **reply;
            co_return true;
        }
    }
    Views views;
    for (const Member* each : members) {
        each->plan.add_to(views);
        if (each->rewrite != nullptr) each->rewrite->add_to(views);
        if (each->notes_reply) views.begin()->second.want(reply_key(each->transaction.id));
    }
    const bool is_guess = may_guess && begin_with_known(space, views);
    if (is_guess && is_alone) guess_absent(first.transaction, views);
    for (const Member* each : members) {
        if (is_guess && each->notes_reply) {
            views.begin()->second.guess_no_key(reply_key(each->transaction.id));
        }
    }
    // The others of a group go on if the call of one ends.
    const Call call = is_alone ? first.call : Call{};
    distrust_old_slots(space, members);
    for (bool are_known = false; !are_known;) {
        const auto completed = co_await complete(call, space, views, members);
        if (!completed && completed.error().code == Code::busy) co_return false;
        if (!completed) co_return end_all(completed.error());
        const auto made = co_await make_objects(space, views, members);
        if (!made && made.error().code == Code::busy) co_return false;
        if (!made) co_return end_all(made.error());
        are_known = co_await know_slots(space, views, members);
        const auto has_ended = [](const Member* each) { return each->result.has_value(); };
        if (std::ranges::any_of(members, has_ended)) co_return false;
    }
    std::vector<Member*> done;
    PinsAhead pins(pins_);
    for (Member* each : members) {
        if (!each->verdict) {
            if (is_guess) co_return false;
            // Without its changes, unless it has made none.
            if (is_alone || !changes_nothing(each->verdict.error())) {
                each->result = fail(each->verdict.error());
                co_return is_alone;
            }
            continue;
        }
        if (each->replay) continue;
        co_await each->payload.writes.join();
        Result<> ready = each->payload.check();
        // Sweeps take older data for that of a dead client. They change the head before they remove
        // it, and this comes after the head was read or made.
        if (reactor_.now() - each->payload.started > orphan_age / 2) {
            ready = fail(Code::deadline);
        }
        // What came before may have taken long, for others of the group.
        if (ready) ready = each->call.check(reactor_);
        if (ready) ready = pins.take(each->container, each->transaction, reactor_.now());
        if (!ready) {
            each->result = fail(ready.error());
            co_return is_alone;
        }
        done.push_back(each);
    }
    // Of one object, and by one change. Otherwise its owner holds mutexes of all.
    if (first.hold == nullptr) drop_stored_notes(space, views.begin()->second);
    Result<> published;  // nothing, if no condition held
    if (!done.empty()) published = co_await end_decisions(call, space, views);
    if (published && !done.empty()) {
        published = co_await publish(call, space, std::move(location), views, done, is_guess);
    }
    if (!published && published.error().code == Code::busy) co_return false;
    if (!published && published.error().code == Code::too_large && !is_alone) {
        for (Member* each : members) co_await execute(space, {each});
        co_return true;
    }
    // What did not hold may have been changed by one before it in the group.
    if (!published) co_return end_all(published.error());
    pins.keep();
    for (const Member* each : done) {
        if (each->notes_reply) note_reply(space, *each);
    }
    for (Member* each : members) {
        if (each->replay) {
            each->result = *each->replay;
        } else if (each->verdict) {
            each->result = each->commit;
            for (const auto& [object, key] : each->plan.long_segments()) {
                start_rewriting(space, object, key);
            }
        } else {
            each->result = fail(each->verdict.error());
        }
    }
    co_return true;
}

// Those of an object that may go now. Whoever meets a lock of one would take it for aborted.
// Replies that go are stored first.
Task<Result<>> RadosStore::end_decisions(const Call& call, std::string space, Views& views) {
    for (View& view : views | std::views::values) {
        std::map<std::string, std::string> noted;
        for (const auto& [key, value] : view.changes()) {
            if (!key.starts_with(decision_tag) || view.stored(key).empty()) continue;
            if (place_of_reply_key(key)) {
                const bool goes = value.empty() && !is_stored_note(space, view, key);
                if (goes) noted.emplace(key, view.stored(key));
                continue;
            }
            Coordination record;
            ROS2S_CO_TRY(decode(view.stored(key), record));
            // It decided, so it was not locked.
            std::erase_if(record.participants, [&](const auto& each) {
                return each.name == object_name(view.object());
            });
            ROS2S_CO_TRY(co_await coordinator_.finish(space, record));
        }
        if (noted.empty()) continue;
        ROS2S_CO_TRY(co_await store_notes(call, space, std::move(noted)));
        // A write of this object that comes after the change reads its slot again.
        view.begins(++moments_);
    }
    co_return Result<>{};
}

// That an object does not exist is no condition to publish data on: a sweep that has removed the
// data leaves no object either. A head is one, because each has another random number. What is not
// published then is an object without entries. It is none to note a reply on either: the object may
// have existed meanwhile, with this reply.
Task<Result<>> RadosStore::make_objects(std::string space, Views& views,
                                        std::span<Member* const> members) {
    for (auto& [object, view] : views) {
        const auto needs_head = [&object](const Member* each) {
            return each->verdict && !each->replay &&
                   (each->notes_reply || each->payload.all.contains(object));
        };
        if (view.exists() || std::ranges::none_of(members, needs_head)) continue;
        const Head head{.change = reactor_.secrets().next(), .lock = {}};
        const std::string bytes = encode(head);
        const Change make{.object = {space, object_name(object)},
                          .expect = Change::Expect::absent,
                          .set = {{head_key, bytes}}};
        const auto made = co_await metadata_.apply(make);
        if (!made && made.error().code == Code::condition_failed) co_return fail(Code::busy);
        if (!made) co_return made;
        view.made(head, bytes);
        view.begins(++moments_);
    }
    co_return Result<>{};
}

Task<> RadosStore::load(std::string space, View& view, Result<>& result) {
    const bool is_first = !view.is_loaded();
    const Read read = view.next_read(space);
    const auto reply = co_await metadata_.read(read);
    result = view.take(read, reply);
    if (is_first) view.begins(++moments_);
}

Task<Result<>> RadosStore::complete(const Call& call, std::string space, Views& views,
                                    std::span<Member* const> members) {
    while (true) {
        ROS2S_CO_TRY(call.check(reactor_));
        std::deque<Result<>> results;
        Nursery nursery(reactor_, writes_at_once);
        for (View& view : views | std::views::values) {
            if (view.is_complete()) continue;
            co_await nursery.spawn(load(space, view, results.emplace_back()));
        }
        co_await nursery.join();
        for (const Result<>& result : results) ROS2S_CO_TRY(result);
        for (View& view : views | std::views::values) {
            const Head& head = view.head();
            if (head.lock.transaction.is_nil()) continue;
            ROS2S_CO_TRY(co_await coordinator_.resolve_lock(call, space, object_name(view.object()),
                                                            head, view.head_bytes()));
            co_return fail(Code::busy);
        }
        const WallTime now = reactor_.wall_time();
        last_epoch_ = std::max(last_epoch_, static_cast<uint64_t>(now.time_since_epoch().count()));
        for (View& view : views | std::views::values) {
            view.drop_changes();
            last_epoch_ = std::max(last_epoch_, view.head().epoch);
        }
        last_time_ = std::max(last_time_, now);
        for (Member* each : members) {
            each->commit = {.epoch = {++last_epoch_}, .time = last_time_};
            each->verdict = run(space, views, *each);
        }
        if (std::ranges::all_of(views | std::views::values, &View::is_complete)) co_return {};
    }
}

Result<> RadosStore::run(const std::string& space, Views& views, Member& member) {
    if (member.rewrite != nullptr) return apply(views.begin()->second, *member.rewrite);
    member.replay.reset();
    if (member.notes_reply) {
        ROS2S_TRY_ASSIGN(member.replay, noted_reply(space, views.begin()->second, member));
        if (member.replay) return {};
    }
    ROS2S_TRY(member.plan.run(views, member.commit.epoch, member.commit.time));
    if (!member.notes_reply) return {};
    member.reply = {.state = Coordination::State::committed,
                    .transaction = {},
                    .sequence = member.transaction.id.sequence,
                    .digest = digest_of(member.transaction),
                    .epoch = member.commit.epoch.value,
                    .time = member.commit.time,
                    .participants = {},
                    .before = {}};
    views.begin()->second.set(reply_key(member.transaction.id), encode(member.reply));
    return {};
}

Pending RadosStore::changes_of(const View& view, std::span<Member* const> members) {
    Pending pending;
    for (const auto& [key, value] : view.changes()) {
        if (value.empty()) {
            pending.remove.push_back({key});
        } else {
            pending.set.push_back({key, value});
        }
    }
    Head head = view.head();
    head.change = reactor_.secrets().next();
    const auto add_garbage = [&](const std::map<ObjectId, std::vector<DataId>>& all) {
        const auto garbage = all.find(view.object());
        if (garbage == all.end()) return;
        for (const DataId& id : garbage->second) {
            pending.set.push_back({garbage_tag + data_name(view.object(), id), "1"});
        }
    };
    for (const Member* each : members) {
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

Task<Result<>> RadosStore::publish(const Call& call, std::string space, RecordLocation location,
                                   Views& views, std::span<Member* const> members, bool is_guess) {
    const Transaction& transaction = members[0]->transaction;
    const Commit& commit = members[0]->commit;
    const auto begin_to_publish = [&] {
        for (Member* each : members) each->payload.may_be_seen = each->was_tried = true;
    };
    bool is_whole = true;
    // Removals and renames need records, also in a full pool.
    const bool even_if_full = std::ranges::none_of(members, [](const Member* each) {
        return each->rewrite != nullptr || each->plan.adds_data();
    });
    std::vector<Participant> participants;
    for (const View& view : views | std::views::values) {
        participants.push_back({&view, changes_of(view, members), {}});
        if (size_of(participants.back().pending) > change_bytes_max) {
            co_return fail(Code::too_large, change_bytes_max);
        }
    }
    ROS2S_CO_TRY(call.check(reactor_));
    const bool is_named = keeps_reply(transaction) && !members[0]->notes_reply;
    const auto decider = is_named ? participants.end() : decider_of(participants);
    if (!is_named && participants.size() <= 1) {
        // One object: a change of it is atomic. Without a change its state was read at one instant.
        if (participants.empty()) co_return Result<>{};
        if (participants[0].view->changes().empty()) {
            co_return is_guess ? Result<>(fail(Code::busy)) : Result<>();
        }
        const Participant& only = participants[0];
        Change change = conditional_change({space, object_name(only.view->object())}, *only.view);
        change.even_if_full = even_if_full;
        add(change, only.pending);
        begin_to_publish();
        auto changed = co_await metadata_.apply(change);
        if (!changed && changed.error().code == Code::condition_failed) {
            // It may be the change itself that has made another head.
            const auto head = std::ranges::find(only.pending.set, head_key, &Pending::Set::key);
            ROS2S_CO_TRY_ASSIGN(const bool is_made,
                                co_await coordinator_.has_head(change.object, head->value));
            changed = is_made ? Result<>() : fail(Code::busy);
        }
        if (!changed) co_return co_await outcome_of(changed.error(), space, members);
        forget_dropped_notes(space, *only.view);
    } else {
        Coordination record{.transaction = Uuid::make(reactor_.secrets()),
                            .sequence = transaction.id.sequence,
                            .digest = is_named ? digest_of(transaction) : 0,
                            .epoch = commit.epoch.value,
                            .time = commit.time,
                            .participants = {},
                            .before = location.bytes};
        for (const Participant& each : participants) {
            record.participants.push_back({object_name(each.view->object())});
        }
        begin_to_publish();
        if (decider != participants.end()) {
            record.state = Coordination::State::committed;
            record.sequence = 0;
            const auto decided =
                co_await publish_at(call, space, std::move(record), participants,
                                    static_cast<size_t>(decider - participants.begin()),
                                    *members[0]->hold, even_if_full);
            if (!decided) co_return co_await outcome_of(decided.error(), space, members);
            for (const Participant& each : participants) {
                const ObjectName name{space, object_name(each.view->object())};
                note_room(name, each.pending);
                seen_.update(name, *each.view, each.pending, each.locked_head);
                if (&each != &*decider) continue;
                remember(space, std::move(views.at(each.view->object())), each.pending);
            }
            co_return Result<>{};
        }
        if (!is_named) {
            location.object = {space, log_name(number_)};
            location.key = record.transaction.to_string();
            record.sequence = 0;
            if (logs_.contains(location.object)) {
                location.object_exists = true;
            } else {
                ROS2S_CO_TRY(co_await coordinator_.look(location));
            }
        }
        const auto executed = co_await coordinator_.execute(call, space, location, record,
                                                            participants, even_if_full);
        is_whole = executed && *executed;
        if (is_named) distrust_slot({location.object, location.key});
        if (!executed) {
            logs_.erase(location.object);
            co_return co_await outcome_of(executed.error(), space, members);
        }
        if (!is_named) {
            logs_.insert(location.object);
            // The record is needed while objects are locked. One that remains is found by the
            // sweep.
            if (*executed) {
                (void)leave(location.object, {.garbage = {location.key}, .dead_head = {}});
            }
        } else if (*executed) {
            if (finished_.size() >= finished_max) finished_.clear();
            finished_[{location.object, location.key}] = record.transaction;
        }
    }
    for (const Participant& each : participants) {
        const ObjectId object = each.view->object();
        start_tidying(space, object, each.pending);
        note_room({space, object_name(object)}, each.pending);
        if (is_whole) seen_.update({space, object_name(object)}, *each.view, each.pending, {});
        if (is_whole) remember(space, std::move(views.at(object)), each.pending);
    }
    co_return Result<>{};
}

// What its own effect has refused stands, though nothing else shows it: another client has changed
// the object since, or has ended the decision.
Task<Result<>> RadosStore::outcome_of(Error error, std::string space,
                                      std::span<Member* const> members) {
    if (error.code == Code::busy) {
        ROS2S_CO_TRY_ASSIGN(const bool is_made, co_await has_published(space, members));
        if (is_made) co_return Result<>{};
    }
    for (Member* each : members) each->payload.may_be_seen = may_be_done(error);
    co_return fail(error);
}

// All data is published by one commit, so one object of it tells. Once published, it is named by
// its segment, then by a garbage record, then it is gone. The record goes after it, so that it is
// looked for last.
Task<Result<bool>> RadosStore::has_published(std::string space, std::span<Member* const> members) {
    const auto with_data = std::ranges::find_if(
        members, [](const Member* each) { return !each->payload.all.empty(); });
    if (with_data == members.end()) co_return false;
    const Member& member = **with_data;
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
    const auto found = co_await metadata_.read(read);
    if (!found && found.error().code != Code::not_found) co_return fail(found.error());
    if (found && found->values.contains(garbage_at)) co_return true;
    if (found && found->values.contains(segment_at)) {
        Segment segment;
        ROS2S_CO_TRY(decode(found->values.at(segment_at), segment));
        if (std::ranges::find(segment.runs, data, &Run::data) != segment.runs.end()) {
            co_return true;
        }
    }
    std::byte first{};
    const auto bytes = co_await data_.read_data({space, name}, 0, {&first, 1});
    if (bytes) co_return false;
    // Or a sweep whose clock is wrong took it for old.
    const bool is_gone = bytes.error().code == Code::not_found;
    co_return fail(is_gone ? Error{Code::deadline} : bytes.error());
}

// ---- what this store has written last ------------------------------------------------------

bool RadosStore::begin_with_known(const std::string& space, Views& views) {
    bool is_any = false;
    for (auto& [object, view] : views) {
        auto known = known_.extract({space, object_name(object)});
        if (known.empty()) continue;
        known_bytes_ -= known.mapped().bytes();
        view.begin_with(std::move(known.mapped()));
        is_any = true;
    }
    return is_any;
}

// What the transaction adds is probably not there: names that are to be absent, and objects that it
// only puts values into, without a condition. The change is conditional on it.
void RadosStore::guess_absent(const Transaction& transaction, Views& views) {
    std::set<ObjectId> may_exist;
    for (const Condition& each : transaction.conditions) {
        if (!each.is_about_pins()) may_exist.insert(each.object);
    }
    for (const Operation& each : transaction.operations) {
        if (each.kind != Operation::Kind::put) may_exist.insert(each.object);
    }
    const auto is_certain = [&](auto& each) {
        return each.second.is_loaded() || !may_exist.contains(each.first);
    };
    // Otherwise there is a read anyway.
    if (views.size() < 2 || !std::ranges::all_of(views, is_certain)) return;
    for (View& view : views | std::views::values) {
        if (!view.is_loaded()) view.guess_no_object();
    }
    for (const Condition& each : transaction.conditions) {
        const bool is_absent = each.kind == Condition::Kind::absent ||
                               (each.kind == Condition::Kind::epoch_equals && each.value == 0);
        if (!is_absent || each.akey.bytes.empty()) continue;
        View& view = views.at(each.object);
        if (view.exists()) view.guess_no_key(entry_key(each.dkey, each.akey));
    }
}

void RadosStore::remember(const std::string& space, View view, const Pending& stored) {
    // Others may have made it and removed it again since it was read.
    if (!view.exists()) view.begins(++moments_);
    view.adopt(stored);
    const size_t bytes = view.bytes();
    if (known_bytes_ + bytes > known_bytes_max) {
        known_.clear();
        known_bytes_ = 0;
    }
    if (bytes > known_bytes_max) return;
    const ObjectName name{space, object_name(view.object())};
    if (known_.insert_or_assign(name, std::move(view)).second) known_bytes_ += bytes;
}

}  // namespace ros2s::rados
