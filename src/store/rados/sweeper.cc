#include "sweeper.h"

#include <algorithm>
#include <set>
#include <utility>

namespace ros2s::rados {

namespace {

constexpr size_t orphans_seen_max = 65536;  // of each kind; the rest is seen when these are gone
constexpr int touches_max = 16;             // of one object

}  // namespace

using namespace object;

void Sweeper::start() {
    if (env_.options.sweep_every > Duration()) ROS2S_CHECK(sweeping_.try_spawn(keep_sweeping()));
}

Task<> Sweeper::close() {
    closing_.request_stop();
    return sweeping_.join();
}

// The first one is at a random time, so that clients that start together do not sweep together.
Task<> Sweeper::keep_sweeping() {
    const Call call{.stop = closing_.token()};
    const auto every = static_cast<uint64_t>(env_.options.sweep_every.count());
    Duration pause{env_.reactor.random().below(every) + 1};
    SeenOrphans seen;
    while (co_await sleep_for(env_.reactor, pause, call.stop)) {
        Report report;
        const auto swept = co_await sweep_all(call, seen, report);
        pause = env_.options.sweep_every;
        sweeps_.add();
        if (swept || call.stop.stop_requested()) continue;
        failed_sweeps_.add();
        env_.options.log.warning(
            "cannot remove the remains of crashed clients in {} ({}): the next attempt is in {} s",
            env_.metadata.description(), report.text(),
            std::chrono::duration_cast<std::chrono::seconds>(pause).count());
    }
}

Task<Result<>> Sweeper::sweep_all(const Call& call, SeenOrphans& seen, Report& report) {
    const auto containers = co_await containers_.list(call);
    if (!containers) co_return report.fail(containers.error(), describe(containers.error()));
    Result<> all;
    auto before = std::exchange(seen, {});  // those of containers that are gone are forgotten
    for (const ContainerRecord& container : *containers) {
        auto& orphans = seen[container.id] = std::move(before[container.id]);
        Report of_this;
        const auto swept = co_await sweep(call, container.id, of_this, &orphans);
        // It was destroyed meanwhile.
        if (!swept && swept.error().code == Code::not_found) continue;
        if (!swept && all) all = report.fail(swept.error(), of_this.text());
    }
    co_return all;
}

void Sweeper::visit_metrics(const MetricVisitor& visit) const {
    visit("ros2store_rados_sweeps_total", "Sweeps for remains of crashed clients in the cluster",
          sweeps_.value());
    visit("ros2store_rados_failed_sweeps_total", "Sweeps that failed", failed_sweeps_.value());
}

Task<Result<>> Sweeper::sweep(const Call& call, ContainerId container, Report& report,
                              Orphans* seen) {
    std::string name;
    const auto swept = co_await sweep_container(call, container, seen, name);
    if (swept) co_return swept;
    if (name.empty()) co_return report.fail(swept.error(), describe(swept.error()));
    co_return report.fail(swept.error(), "cannot sweep the object '{}' in namespace '{}': {}", name,
                          space_of(container), describe(swept.error()));
}

Task<Result<>> Sweeper::sweep_container(const Call& call, ContainerId container, Orphans* seen,
                                        std::string& failed) {
    ROS2S_CO_TRY(co_await containers_.check(call, container));
    const std::string space = space_of(container);
    Result<> first;
    std::string damaged;
    // What is damaged does not keep the rest from being swept. Another error does, and is told
    // instead.
    const auto goes_on = [&](const std::string& name, const Result<>& swept) {
        if (swept) return true;
        const Code code = swept.error().code;
        const bool is_damage = code == Code::corrupt || code == Code::bad_version;
        if (!is_damage) failed = name;
        if (is_damage && first) damaged = name;
        if (!is_damage || first) first = swept;
        return is_damage;
    };
    const WallTime limit = env_.reactor.wall_time() - orphan_age;
    const auto before = static_cast<uint64_t>(limit.time_since_epoch().count());
    // Old data, by object; as much at once as a transaction may have operations, times a few.
    constexpr size_t data_max = 65536;
    const auto listing = env_.data.list(space);
    std::map<ObjectId, std::vector<DataId>> old;
    Orphans still;
    size_t count = 0;
    while (true) {
        ROS2S_CO_TRY(call.check(env_.reactor));
        ROS2S_CO_TRY_ASSIGN(const auto names, co_await listing->next());
        for (const std::string& name : names) {
            const auto data = parse_data_name(name);
            if (!data || data->id.time > before) continue;
            old[data->object].push_back(data->id);
            ++count;
        }
        ROS2S_CO_TRY(co_await pace(call, names.size()));
        if (names.empty() || count >= data_max) {
            for (auto& [object, ids] : old) {
                ROS2S_CO_TRY(co_await pace(call, ids.size()));
                const auto swept =
                    co_await sweep_data(call, space, object, std::move(ids), seen, still);
                if (!goes_on(object_name(object), swept)) co_return first;
            }
            old.clear();
            count = 0;
        }
        if (names.empty()) break;
    }
    const auto objects = env_.metadata.list(space);
    while (true) {
        ROS2S_CO_TRY(call.check(env_.reactor));
        ROS2S_CO_TRY_ASSIGN(const auto names, co_await objects->next());
        if (names.empty()) break;
        for (const std::string& name : names) {
            Result<> swept;
            if (const auto object = parse_object_name(name)) {
                swept = co_await sweep_object(call, space, *object);
            } else if (is_log_name(name)) {
                swept = co_await sweep_log(call, space, name, limit);
            } else if (is_replies_name(name) && seen != nullptr) {
                swept = co_await sweep_replies(call, space, name, *seen, still);
            }
            if (!goes_on(name, swept)) co_return first;
            ROS2S_CO_TRY(co_await pace(call, 1));
        }
    }
    if (seen != nullptr) *seen = std::move(still);
    failed = damaged;
    co_return first;
}

Task<Result<>> Sweeper::pace(const Call& call, size_t count) {
    if (env_.options.sweep_rate == 0 || count == 0) co_return call.check(env_.reactor);
    const auto pause = Duration(std::chrono::seconds(1)) * count / env_.options.sweep_rate;
    co_await sleep_for(env_.reactor, pause, call.stop);
    co_return call.check(env_.reactor);
}

Task<Result<bool>> Sweeper::end_records(const Call& call, ObjectName object, ReadReply page) {
    bool are_ended = true;
    for (const auto& [key, value] : page.values) {
        if (key == made_key || key == mark_key) continue;
        Coordination record;
        ROS2S_CO_TRY(decode(value, record));
        if (record.state == Coordination::State::pending) {
            ROS2S_CO_TRY(co_await coordinator_.abort(object, key, value, record));
            are_ended = false;
        } else {
            ROS2S_CO_TRY(co_await coordinator_.finish(object.space, record));
        }
        ROS2S_CO_TRY(co_await pace(call, 1));
    }
    co_return are_ended;
}

// The store that made them is gone, or they would not be so old. Who meets the lock of one that is
// aborted sees that it has no record.
Task<Result<>> Sweeper::sweep_log(const Call& call, std::string space, std::string log,
                                  WallTime before) {
    const ObjectName object{space, std::move(log)};
    const Read read{.object = object,
                    .keys = {mark_key},
                    .range = {.prefix = {}, .after = {}, .end = {}, .limit = keys_per_read}};
    while (true) {
        ROS2S_CO_TRY_ASSIGN(const ReadReply page,
                            absent_as_empty(co_await env_.metadata.read(read)));
        if (page.values.empty()) co_return Result<>{};
        ReadReply old;
        Change forget{.object = object};
        bool is_used = false;
        for (const auto& [key, value] : page.values) {
            if (key == mark_key) continue;
            Coordination record;
            ROS2S_CO_TRY(decode(value, record));
            is_used = is_used || record.time >= before;
            if (record.time >= before) continue;
            old.values.emplace(key, value);
            forget.equal.emplace_back(key, value);
            forget.remove.push_back(key);
        }
        if (old.values.empty()) {
            if (is_used) co_return Result<>{};
            forget.equal = {{mark_key, page.value(mark_key)}};
            forget.remove_object = true;
            co_return ignore_conflict(co_await env_.metadata.apply(forget));
        }
        ROS2S_CO_TRY_ASSIGN(const bool are_ended, co_await end_records(call, object, old));
        if (are_ended) ROS2S_CO_TRY(ignore_conflict(co_await env_.metadata.apply(forget)));
    }
}

// Records are ended first, as those of a log. Then it is noted that replies are removed: from then
// on a repetition by a client that is not known is refused.
Task<Result<>> Sweeper::sweep_replies(const Call& call, std::string space, std::string name,
                                      const Orphans& seen, Orphans& still) {
    const ObjectName object{space, name};
    Read read = first_page(object, "s");
    read.keys = {made_key, mark_key};
    std::string marks;
    while (true) {
        ROS2S_CO_TRY_ASSIGN(const ReadReply page,
                            absent_as_empty(co_await env_.metadata.read(read)));
        if (page.values.empty()) co_return Result<>{};
        const std::string made = page.value(made_key), mark = page.value(mark_key);
        const std::string now_marks = made + "/" + mark + "/";
        if (marks.empty()) {
            marks = now_marks;
            const auto before = seen.replies.find(name);
            const bool is_same = before != seen.replies.end() && before->second.marks == marks;
            const Time since = is_same ? before->second.since : env_.reactor.now();
            if (env_.reactor.now() - since < env_.options.reply_age) {
                if (still.replies.size() < orphans_seen_max) still.replies[name] = {marks, since};
                co_return Result<>{};
            }
        }
        if (now_marks != marks) co_return Result<>{};  // its client is back
        ROS2S_CO_TRY_ASSIGN(const bool are_ended, co_await end_records(call, object, page));
        // Others may be committed meanwhile.
        if (!are_ended || turn_page(read, page)) continue;
        const Change note{
            .object = {space, dropped_name}, .set = {{mark_key, "1"}}, .even_if_full = true};
        ROS2S_CO_TRY(co_await env_.metadata.apply(note));
        const Change remove{
            .object = object, .equal = {{made_key, made}, {mark_key, mark}}, .remove_object = true};
        co_return ignore_conflict(co_await env_.metadata.apply(remove));
    }
}

Task<Result<>> Sweeper::forget_named(const Call& call, std::string space, ObjectId object,
                                     std::set<DataId>& orphans) {
    Read read = first_page({space, object_name(object)}, "e");
    while (!orphans.empty()) {
        Head head;
        ROS2S_CO_TRY_ASSIGN(const ReadReply page, co_await heads_.read_unlocked(call, read, head));
        for (const auto& [key, value] : page.values) {
            const auto parsed = parse_entry_key(key);
            if (!parsed || !parsed->segment) continue;
            Segment segment;
            ROS2S_CO_TRY(decode(value, segment));
            for (const Run& run : segment.runs) orphans.erase(run.data);
        }
        if (!turn_page(read, page)) break;
        ROS2S_CO_TRY(co_await pace(call, 1));
    }
    co_return Result<>{};
}

// Writers of this store wait meanwhile, so the mutex is held for one attempt only.
Task<Result<bool>> Sweeper::touch(const Call& call, std::string space, ObjectId object) {
    const ObjectName name{space, object_name(object)};
    for (int i = 0; i < touches_max; ++i) {
        // Others that change it should not go on in step.
        if (i > 0) {
            const auto pause = std::chrono::microseconds(100 + env_.reactor.random().below(5000));
            co_await sleep_for(env_.reactor, pause, call.stop);
        }
        const auto hold = co_await heads_.mutexes.lock({space + name.name});
        Head head;
        const Read read{.object = name, .keys = {}};
        ROS2S_CO_TRY_ASSIGN(const ReadReply found, co_await heads_.read_unlocked(call, read, head));
        const auto bytes = found.values.find(head_key);
        if (!head.lock.transaction.is_nil()) {
            // It may publish the data.
            ROS2S_CO_TRY(co_await coordinator_.resolve_lock(call, name, head, bytes->second));
            continue;
        }
        head.change = env_.reactor.secrets().next();
        // If there is no such object, the sweep makes it and removes it again.
        Change change{.object = name, .set = {{head_key, encode(head)}}, .even_if_full = true};
        if (bytes == found.values.end()) {
            change.expect = Change::Expect::absent;
        } else {
            change.equal = {{head_key, bytes->second}};
        }
        const auto changed = co_await env_.metadata.apply(change);
        if (changed) co_return true;
        if (changed.error().code != Code::condition_failed) co_return fail(changed.error());
    }
    co_return false;
}

// Others go on changing the object. What was published before the change of its head is in the
// pages that are read after it; nothing publishes data that is so old after the change.
Task<Result<>> Sweeper::sweep_data(const Call& call, std::string space, ObjectId object,
                                   std::vector<DataId> data, const Orphans* seen, Orphans& still) {
    std::set<DataId> orphans(data.begin(), data.end());
    ROS2S_CO_TRY(co_await forget_named(call, space, object, orphans));
    if (seen != nullptr) {
        // Wall clocks differ, so this steady clock counts from the first sweep that saw the data.
        const Time now = env_.reactor.now();
        std::erase_if(orphans, [&](const DataId& id) {
            const auto before = seen->data.find({object, id});
            const Time since = before == seen->data.end() ? now : before->second;
            if (still.data.size() < orphans_seen_max) still.data[{object, id}] = since;
            return now - since < orphan_age * 3 / 4;
        });
    }
    if (orphans.empty()) co_return Result<>{};
    ROS2S_CO_TRY_ASSIGN(const bool is_touched, co_await touch(call, space, object));
    if (!is_touched) co_return Result<>{};  // the next sweep tries again
    ROS2S_CO_TRY(co_await forget_named(call, space, object, orphans));
    for (const DataId& id : orphans) {
        const Change remove{.object = {space, data_name(object, id)}, .remove_object = true};
        ROS2S_CO_TRY(ignore_absence(co_await env_.data.apply(remove)));
    }
    co_return Result<>{};
}

// Removes what its garbage records name, decisions when they are applied, and notes when their
// slots have the replies; then the object, if nothing else is in it. Writers of this store wait for
// single changes of it only.
Task<Result<>> Sweeper::sweep_object(const Call& call, std::string space, ObjectId object) {
    const ObjectName name{space, object_name(object)};
    Read read{.object = name,
              .keys = {},
              .range = {.prefix = {}, .after = "f", .end = "h", .limit = keys_per_read}};
    while (true) {
        Head head;
        ROS2S_CO_TRY_ASSIGN(const ReadReply page, co_await heads_.read_unlocked(call, read, head));
        Change forget{.object = name};
        std::map<std::string, std::string> noted;
        for (const auto& [key, value] : page.values) {
            if (place_of_reply_key(key)) {
                noted.emplace(key, value);
            } else if (key.starts_with(decision_tag)) {
                Coordination decision;
                ROS2S_CO_TRY(decode(value, decision));
                ROS2S_CO_TRY(co_await coordinator_.finish(space, decision));
                forget.remove.push_back(key);
            }
            if (!key.starts_with(garbage_tag)) continue;
            const Change remove{.object = {space, key.substr(1)}, .remove_object = true};
            ROS2S_CO_TRY(ignore_absence(co_await env_.data.apply(remove)));
            forget.remove.push_back(key);
            ROS2S_CO_TRY(co_await pace(call, 1));
        }
        if (!noted.empty() && head.lock.transaction.is_nil()) {
            ROS2S_CO_TRY(co_await sweep_notes(call, read, std::move(noted)));
        }
        if (!forget.remove.empty()) {
            // A transaction of this store may be looking for its decision.
            const auto hold = co_await heads_.mutexes.lock({space + name.name});
            ROS2S_CO_TRY(ignore_absence(co_await env_.metadata.apply(forget)));
        }
        if (turn_page(read, page)) continue;
        const bool is_locked = !head.lock.transaction.is_nil();
        if (page.values.empty() || (!is_locked && head.entries != 0)) co_return Result<>{};
        ROS2S_CO_TRY(co_await unlock_or_remove(call, name));
        if (!is_locked) co_return Result<>{};
        read.range.after = "f";
    }
}

// The slots get the replies first. Then the notes that they were taken from are removed, if they
// are still there, by a change of the head, as whenever replies go. If others are faster, the next
// sweep does it.
Task<Result<>> Sweeper::sweep_notes(const Call& call, Read page,
                                    std::map<std::string, std::string> noted) {
    ROS2S_CO_TRY(co_await replies_.store_notes(call, page.object.space, noted));
    const auto hold = co_await heads_.mutexes.lock({page.object.space + page.object.name});
    Head head;
    ROS2S_CO_TRY_ASSIGN(const ReadReply found, co_await heads_.read_unlocked(call, page, head));
    if (found.values.empty() || !head.lock.transaction.is_nil()) co_return Result<>{};
    Change drop{
        .object = page.object, .equal = {{head_key, found.value(head_key)}}, .even_if_full = true};
    for (const auto& [key, value] : noted) {
        if (found.value(key) == value) drop.remove.push_back(key);
    }
    if (drop.remove.empty()) co_return Result<>{};
    head.change = env_.reactor.secrets().next();
    drop.set = {{head_key, encode(head)}};
    co_return ignore_conflict(co_await env_.metadata.apply(drop));
}

// Transactions of this store that lock the object hold its mutex, and so are over now.
Task<Result<>> Sweeper::unlock_or_remove(const Call& call, ObjectName name) {
    const auto hold = co_await heads_.mutexes.lock({name.space + name.name});
    // Facts, entries, decisions, garbage, or replies.
    const Read read{
        .object = name, .keys = {}, .range = {.prefix = {}, .after = "c", .end = "h", .limit = 1}};
    Head head;
    ROS2S_CO_TRY_ASSIGN(const ReadReply found, co_await heads_.read_unlocked(call, read, head));
    const std::string head_bytes = found.value(head_key);
    if (!head.lock.transaction.is_nil()) {
        co_return co_await coordinator_.resolve_lock(call, name, head, head_bytes);
    }
    if (found.values.size() != 1 || head.entries != 0) co_return Result<>{};
    const Change remove{.object = name, .equal = {{head_key, head_bytes}}, .remove_object = true};
    co_return ignore_conflict(co_await env_.metadata.apply(remove));
}

}  // namespace ros2s::rados
