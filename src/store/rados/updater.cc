#include "updater.h"

#include <algorithm>
#include <ranges>

#include "ros2s/object/validate.h"

namespace ros2s::rados {
namespace {

using namespace object;

constexpr int attempts_max = 1000;  // each time something else has changed the objects
constexpr size_t group_operations_max = 256, rewrites_max = 64;

// What the transaction adds is probably not there: names that are to be absent, and objects that it
// only puts values into, without a condition. The change is conditional on it.
void guess_absent(const Transaction& transaction, Views& views) {
    std::set<ObjectId> may_exist;
    for (const Condition& each : transaction.conditions) {
        if (!each.is_about_holders()) may_exist.insert(each.object);
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

// A transaction that fails so has changed nothing in its views.
bool changes_nothing(const Error& failed) {
    return failed.code == Code::condition_failed || failed.code == Code::stale ||
           failed.code == Code::name_taken || failed.code == Code::expired;
}

}  // namespace

struct Updater::Group {
    explicit Group(Reactor& reactor) : done(reactor) {}
    std::vector<Update*> members;
    size_t operations = 0;
    Event done;
};

Updater::Updater(const Env& env, Epochs& epochs, PinTable& pins, Coordinator& coordinator,
                 Heads& heads, Containers& containers, Tidier& tidier, Replies& replies,
                 PayloadWriter& payloads, Rewriter& rewriter, Publisher& publisher)
    : env_(env),
      epochs_(epochs),
      pins_(pins),
      coordinator_(coordinator),
      heads_(heads),
      containers_(containers),
      tidier_(tidier),
      replies_(replies),
      payloads_(payloads),
      rewriter_(rewriter),
      publisher_(publisher),
      rewrites_(env.reactor, rewrites_max) {}

Task<Result<Commit>> Updater::update(const Call& call, ContainerId container,
                                     const Transaction& transaction) {
    ROS2S_CO_TRY(validate(transaction));
    for (const Operation& operation : transaction.operations) {
        if (!operation.window.is_local() || !operation.seals.empty()) {
            co_return fail(Code::unsupported);
        }
    }
    ROS2S_CO_TRY(call.check(env_.reactor));
    ROS2S_CO_TRY(co_await containers_.check(call, container));
    const std::string space = space_of(container);
    Update member(call, container, transaction, env_.reactor);
    Payload& payload = member.payload;
    const auto sent = co_await payloads_.send(call, space, transaction, payload);
    Views views;
    member.plan.add_to(views);
    if (!sent) {
        member.result = fail(sent.error());
    } else if (views.size() == 1 && can_share(transaction)) {
        member.notes_reply = replies_.keeps(transaction);
        co_await payload.writes.join();
        co_await update_together(space, views.begin()->first, member);
    } else {
        std::vector<std::string> names;
        for (const ObjectId object : views | std::views::keys) {
            names.push_back(space + object_name(object));
        }
        if (replies_.keeps(transaction)) {
            const UpdateName& id = transaction.id;
            names.push_back(space + replies_name(id.owner, id.client) + slot_key(id.slot));
        }
        auto hold = co_await heads_.mutexes.lock(std::move(names));
        member.hold = &hold;
        co_await execute(space, {&member});
    }
    co_await payload.writes.join();
    const Result<Commit>& result = *member.result;
    const bool is_unused = result ? result->replayed : !payload.may_be_seen;
    if (is_unused) tidier_.drop(space, payload.all);
    co_return result;
}

// A named one only writes arrays, whatever is there: who repeats it names the same object, and does
// not ask before whether it was done. Who punches an object stores the replies that are in it
// first.
bool Updater::can_share(const Transaction& transaction) const {
    const auto may_be_named = [](const Condition& each) {
        return each.kind == Condition::Kind::pinned;
    };
    const auto writes = [](const Operation& each) { return each.kind == Operation::Kind::write; };
    if (replies_.keeps(transaction)) {
        return std::ranges::all_of(transaction.conditions, may_be_named) &&
               std::ranges::all_of(transaction.operations, writes);
    }
    return std::ranges::none_of(transaction.conditions,
                                [](const Condition& each) {
                                    return each.kind == Condition::Kind::pin ||
                                           each.kind == Condition::Kind::unpinned;
                                }) &&
           !(env_.options.keeps_replies &&
             std::ranges::any_of(transaction.operations, [](const Operation& each) {
                 return each.kind == Operation::Kind::punch_object;
             }));
}

Task<> Updater::update_together(std::string space, ObjectId object, Update& member) {
    const std::string name = space + object_name(object);
    std::shared_ptr<Group>& open = groups_[name];
    const bool leads = open == nullptr || open->operations >= group_operations_max;
    if (leads) open = std::make_shared<Group>(env_.reactor);
    const std::shared_ptr<Group> group = open;
    group->members.push_back(&member);
    group->operations += member.transaction.operations.size() + 1;
    if (!leads) {
        co_await group->done;
        co_return;
    }
    const auto hold = co_await heads_.mutexes.lock({name});
    const auto at = groups_.find(name);
    if (at != groups_.end() && at->second == group) groups_.erase(at);
    co_await execute(space, group->members);
    group->done.set();
}

Task<> Updater::execute(std::string space, std::vector<Update*> members) {
    for (int i = 0; i < attempts_max; ++i) {
        if (co_await attempt(space, members, i == 0)) break;
        if (i == 0) continue;
        // Two clients that disturb each other should not go on in step.
        co_await sleep_for(env_.reactor,
                           std::chrono::microseconds(100 + env_.reactor.random().below(5000)));
    }
    for (Update* each : members) {
        if (!each->result) each->result = fail(Code::busy);
    }
}

// ---- an attempt ----------------------------------------------------------------------------

Task<bool> Updater::attempt(std::string space, std::span<Update* const> all, bool may_guess) {
    std::vector<Update*> members;
    for (Update* each : all) {
        if (each->result) continue;
        const auto open = each->call.check(env_.reactor);
        if (!open) {
            each->result = fail(open.error());
        } else {
            members.push_back(each);
        }
    }
    if (members.empty()) co_return true;
    Update& first = *members[0];
    const bool is_alone = members.size() == 1;
    const auto end_all = [&members](Error error) {
        for (Update* each : members) each->result = fail(error);
        return true;
    };
    RecordLocation location;
    if (replies_.keeps(first.transaction) && !first.notes_reply) {
        const auto [replies, slot] = Replies::slot_of(space, first.transaction.id);
        location = {.object = replies, .key = slot, .bytes = {}};
        const auto reply = co_await replies_.stored_reply(first.call, first.transaction, location);
        if (!reply) co_return end_all(reply.error());
        if (*reply) {
            first.result = **reply;
            co_return true;
        }
    }
    Views views;
    const bool is_guess = begin_views(space, views, members, may_guess);
    // The others of a group go on if the call of one ends.
    const Call call = is_alone ? first.call : Call{};
    const auto planned = co_await plan(call, space, views, members);
    if (!planned && planned.error().code == Code::busy) co_return false;
    if (!planned) co_return end_all(planned.error());
    std::vector<Update*> done;
    PinsAhead pins(pins_);
    for (Update* each : members) {
        // A note that is guessed to be absent may say more than the slot.
        if (is_guess && (!each->verdict || each->replay)) co_return false;
        if (!each->verdict) {
            // Without its changes, unless it has made none.
            if (is_alone || !changes_nothing(each->verdict.error())) {
                each->result = fail(each->verdict.error());
                co_return is_alone;
            }
            continue;
        }
        if (each->replay) continue;
        const auto ready = co_await check_ready(*each, pins);
        if (!ready) {
            each->result = fail(ready.error());
            co_return is_alone;
        }
        done.push_back(each);
    }
    // Of one object, and by one change. Otherwise its owner holds mutexes of all.
    if (first.hold == nullptr) replies_.drop_stored_notes(space, views.begin()->second);
    Result<> published;  // nothing, if no condition held
    if (!done.empty()) published = co_await end_decisions(call, space, views);
    if (published && !done.empty()) {
        published =
            co_await publisher_.publish(call, space, std::move(location), views, done, is_guess);
    }
    if (!published && published.error().code == Code::busy) co_return false;
    if (!published && published.error().code == Code::too_large && !is_alone) {
        for (Update* each : members) co_await execute(space, {each});
        co_return true;
    }
    // What did not hold may have been changed by one before it in the group.
    if (!published) co_return end_all(published.error());
    pins.keep();
    for (const Update* each : done) {
        if (each->notes_reply) replies_.note(space, *each);
    }
    for (Update* each : members) {
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

bool Updater::begin_views(const std::string& space, Views& views, std::span<Update* const> members,
                          bool may_guess) {
    for (const Update* each : members) {
        each->plan.add_to(views);
        if (each->rewrite != nullptr) each->rewrite->add_to(views);
        if (each->notes_reply) views.begin()->second.want(reply_key(each->transaction.id));
    }
    if (!may_guess || !heads_.begin_with_known(space, views)) return false;
    if (members.size() == 1) guess_absent(members[0]->transaction, views);
    for (const Update* each : members) {
        if (!each->notes_reply) continue;
        views.begin()->second.guess_no_key(reply_key(each->transaction.id));
    }
    return true;
}

Task<Result<>> Updater::plan(const Call& call, std::string space, Views& views,
                             std::span<Update* const> members) {
    replies_.distrust_old(space, members);
    for (bool are_known = false; !are_known;) {
        ROS2S_CO_TRY(co_await complete(call, space, views, members));
        ROS2S_CO_TRY(co_await make_objects(space, views, members));
        are_known = co_await replies_.know_slots(space, views, members);
        const auto has_ended = [](const Update* each) { return each->result.has_value(); };
        if (std::ranges::any_of(members, has_ended)) co_return fail(Code::busy);
    }
    co_return Result<>{};
}

// The data is written, and it is not too late for it. What came before may have taken long, for
// others of the group.
Task<Result<>> Updater::check_ready(Update& member, PinsAhead& pins) {
    co_await member.payload.writes.join();
    ROS2S_CO_TRY(member.payload.check());
    // Sweeps take older data for that of a dead client. They change the head before they remove it,
    // and this comes after the head was read or made.
    if (env_.reactor.now() - member.payload.started > orphan_age / 2) {
        co_return fail(Code::deadline);
    }
    ROS2S_CO_TRY(member.call.check(env_.reactor));
    co_return pins.take(member.container, member.transaction, env_.reactor.now());
}

// Those of an object that may go now. Whoever meets a lock of one would take it for aborted.
// Replies that go are stored first.
Task<Result<>> Updater::end_decisions(const Call& call, std::string space, Views& views) {
    for (View& view : views | std::views::values) {
        std::map<std::string, std::string> noted;
        for (const auto& [key, value] : view.changes()) {
            if (!key.starts_with(decision_tag) || view.stored(key).empty()) continue;
            if (place_of_reply_key(key)) {
                const bool goes = value.empty() && !replies_.is_stored_note(space, view, key);
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
        ROS2S_CO_TRY(co_await replies_.store_notes(call, space, std::move(noted)));
        // A write of this object that comes after the change reads its slot again.
        view.known()->begins(heads_.next_moment());
    }
    co_return Result<>{};
}

// Absence is no condition: the object may have existed meanwhile. A head is one, because each has
// another random number.
Task<Result<>> Updater::make_objects(std::string space, Views& views,
                                     std::span<Update* const> members) {
    const bool is_planned = std::ranges::any_of(
        members, [](const Update* each) { return each->verdict && !each->replay; });
    const bool needs_decider = is_planned && views.size() > 1 &&
                               !replies_.keeps(members[0]->transaction) &&
                               std::ranges::none_of(views | std::views::values, &View::exists);
    for (auto& [object, view] : views) {
        const auto needs_head = [&object](const Update* each) {
            return each->verdict && !each->replay &&
                   (each->notes_reply || each->payload.all.contains(object));
        };
        const bool decides = needs_decider && object == views.begin()->first;
        if (view.exists() || (!decides && std::ranges::none_of(members, needs_head))) continue;
        const Head head{.change = env_.reactor.secrets().next(), .lock = {}};
        const std::string bytes = encode(head);
        const Change make{.object = {space, object_name(object)},
                          .expect = Change::Expect::absent,
                          .set = {{head_key, bytes}},
                          .even_if_full = decides && !members[0]->plan.adds_data()};
        const auto made = co_await env_.metadata.apply(make);
        if (!made && made.error().code == Code::condition_failed) co_return fail(Code::busy);
        if (!made) co_return made;
        view.made(head, bytes);
        view.known()->begins(heads_.next_moment());
    }
    co_return Result<>{};
}

Task<> Updater::load(std::string space, View& view, Result<>& result) {
    const bool is_first = !view.is_loaded();
    const Read read = view.next_read(space);
    const auto reply = absent_as_empty(co_await env_.metadata.read(read));
    result = reply ? view.take(read, *reply) : fail(reply.error());
    if (is_first && result) view.known()->begins(heads_.next_moment());
}

Task<Result<>> Updater::complete(const Call& call, std::string space, Views& views,
                                 std::span<Update* const> members) {
    while (true) {
        ROS2S_CO_TRY(call.check(env_.reactor));
        std::deque<Result<>> results;
        Nursery nursery(env_.reactor, writes_at_once);
        for (View& view : views | std::views::values) {
            if (view.is_complete()) continue;
            co_await nursery.spawn(load(space, view, results.emplace_back()));
        }
        co_await nursery.join();
        for (const Result<>& result : results) ROS2S_CO_TRY(result);
        for (View& view : views | std::views::values) {
            const Head& head = view.head();
            if (head.lock.transaction.is_nil()) continue;
            ROS2S_CO_TRY(co_await coordinator_.resolve_lock(
                call, {space, object_name(view.object())}, head, view.head_bytes()));
            co_return fail(Code::busy);
        }
        epochs_.pass(env_.reactor.wall_time());
        for (View& view : views | std::views::values) {
            view.drop_changes();
            epochs_.pass(view.head().epoch);
        }
        for (Update* each : members) {
            each->commit = epochs_.next();
            each->verdict = run(space, views, *each);
        }
        if (std::ranges::all_of(views | std::views::values, &View::is_complete)) co_return {};
    }
}

Result<> Updater::run(const std::string& space, Views& views, Update& member) {
    if (member.rewrite != nullptr) return member.rewrite->apply(views.begin()->second);
    member.replay.reset();
    if (member.notes_reply) {
        ROS2S_TRY_ASSIGN(member.replay, replies_.noted_reply(space, views.begin()->second, member));
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

// ---- segments of many parts -------------------------------------------------------------------

void Updater::start_rewriting(const std::string& space, ObjectId object, const std::string& key) {
    const std::pair name{ObjectName{space, object_name(object)}, key};
    if (!rewriting_.insert(name).second) return;
    if (!rewrites_.try_spawn(rewrite(space, object, key))) rewriting_.erase(name);
}

Task<> Updater::rewrite(std::string space, ObjectId object, std::string key) {
    const Call call;
    const Transaction none{};
    Update member(call, {}, none, env_.reactor);
    Rewrite anew{.object = object, .key = key};
    member.rewrite = &anew;
    const auto written = co_await rewriter_.write_anew(space, anew, member.payload);
    co_await member.payload.writes.join();
    if (written && *written) {
        co_await update_together(space, object, member);
    }
    if (!member.payload.may_be_seen) tidier_.drop(space, member.payload.all);
    rewriting_.erase({{space, object_name(object)}, key});
}

}  // namespace ros2s::rados
