// Transactions of RadosStore.
#include <algorithm>
#include <deque>
#include <ranges>

#include "rados_store.h"
#include "ros2s/object/checksum.h"
#include "ros2s/object/validate.h"
#include "segment.h"

namespace ros2s::rados {
namespace {

using namespace object;

constexpr size_t writes_at_once = 16;
constexpr int attempts_max = 1000;  // each time something else has changed the objects
constexpr size_t finished_max = 65536;
constexpr char garbage_tag = 'g';
constexpr size_t known_bytes_max = size_t{16} << 20;

// What a change of one object may have in all; Ceph refuses more than 90 MB.
constexpr size_t change_bytes_max = size_t{64} << 20;
size_t size_of(const Pending& pending) {
    size_t bytes = 0;
    for (const auto& [key, value] : pending.set) bytes += key.size() + value.size();
    for (const auto& [key] : pending.remove) bytes += key.size();
    return bytes;
}

}  // namespace

// The bytes of a transaction's arrays, on their way to the data pool.
struct RadosStore::Payload {
    explicit Payload(Reactor& reactor) : started(reactor.now()), writes(reactor, writes_at_once) {}
    const Time started;
    std::vector<WrittenRun> runs;
    std::deque<std::string> copies;  // of memory that others can change
    std::deque<Result<>> results;
    std::map<ObjectId, std::vector<DataId>> all;  // that was written
    // The data that an attempt's compaction has replaced, and what it has written.
    std::map<ObjectId, std::vector<DataId>> replaced, compacted;
    bool may_be_seen = false;  // it may have been published
    Nursery writes;

    [[nodiscard]] Result<> check() const {
        for (const Result<>& result : results) ROS2S_TRY(result);
        return {};
    }
};

bool RadosStore::keeps_reply(const Transaction& transaction) const {
    return options_.keeps_replies && !transaction.id.client.is_nil();
}

DataId RadosStore::next_data() {
    const auto now = static_cast<uint64_t>(reactor_.wall_time().time_since_epoch().count());
    return {.time = now, .store = number_, .number = ++data_written_};
}

Task<Result<>> RadosStore::send_payload(const Call& call, std::string space,
                                        const Transaction& transaction, Payload& payload) {
    for (size_t i = 0; i < transaction.operations.size(); ++i) {
        const Operation& operation = transaction.operations[i];
        if (operation.kind == Operation::Kind::put && !operation.checksums.empty() &&
            crc32c(operation.window.bytes()) != operation.checksums[0]) {
            co_return fail(Code::corrupt);
        }
        if (operation.kind != Operation::Kind::write) continue;
        ConstBytes bytes = operation.window.bytes();
        if (operation.window.shared) {
            bytes = as_bytes(payload.copies.emplace_back(as_text(bytes)));
        }
        uint64_t offset = operation.extent.offset;
        size_t piece = 0;
        while (!bytes.empty()) {
            ROS2S_CO_TRY(call.check(reactor_.now()));
            const size_t length =
                std::min<uint64_t>(bytes.size(), segment_bytes - offset % segment_bytes);
            Run run{.data = next_data(), .offset = offset, .length = length, .checksums = {}};
            array_checksums(offset, bytes.first(length), run.checksums);
            if (!operation.checksums.empty() &&
                !std::ranges::equal(
                    run.checksums,
                    std::span(operation.checksums).subspan(piece, run.checksums.size()))) {
                co_return fail(Code::corrupt);
            }
            piece += run.checksums.size();
            payload.all[operation.object].push_back(run.data);
            ObjectName name{space, data_name(operation.object, run.data)};
            payload.runs.push_back({i, std::move(run)});
            co_await payload.writes.spawn(
                write_run(std::move(name), bytes.first(length), payload.results.emplace_back()));
            bytes = bytes.subspan(length);
            offset += length;
        }
    }
    co_return Result<>{};
}

Task<> RadosStore::write_run(ObjectName name, ConstBytes bytes, Result<>& result) {
    const Change change{.object = std::move(name), .data = bytes};
    result = co_await data_.apply(change);
}

Task<> RadosStore::remove_data(std::string space, ObjectId object, std::vector<DataId> data) {
    for (const DataId& id : data) {
        const Change remove{.object = {space, data_name(object, id)}, .remove_object = true};
        (void)co_await data_.apply(remove);  // the sweep removes what remains
    }
}

void RadosStore::drop(const std::string& space, std::map<ObjectId, std::vector<DataId>>& data) {
    for (auto& [object, ids] : data) {
        (void)tidying_.try_spawn(remove_data(space, object, std::move(ids)));
    }
    data.clear();
}

Task<Result<Commit>> RadosStore::update(const Call& call, ContainerId container,
                                        const Transaction& transaction) {
    ROS2S_CO_TRY(validate(transaction));
    for (const Operation& operation : transaction.operations) {
        if (!operation.window.is_local()) co_return fail(Code::unsupported);
    }
    ROS2S_CO_TRY(call.check(reactor_.now()));
    ROS2S_CO_TRY(co_await check_container(call, container));
    const std::string space = space_of(container);
    Payload payload(reactor_);
    Result<Commit> result;
    const auto sent = co_await send_payload(call, space, transaction, payload);
    if (sent) {
        std::vector<std::string> names;
        for (const auto& [object, view] : Plan(transaction, payload.runs).views()) {
            names.push_back(space + object_name(object));
        }
        if (keeps_reply(transaction)) {
            const OperationId& id = transaction.id;
            names.push_back(space + replies_name(id.owner, id.client) + slot_key(id.slot));
        }
        const auto hold = co_await mutexes_.lock(std::move(names));
        result = fail(Code::busy);
        for (int i = 0; i < attempts_max; ++i) {
            const auto done =
                co_await attempt(call, space, container, transaction, payload, i == 0);
            if (!done) result = fail(done.error());
            if (done && *done) result = **done;
            if (!done || *done) break;
            if (i == 0) continue;
            // Two clients that disturb each other should not go on in step.
            co_await sleep_for(reactor_,
                               std::chrono::microseconds(100 + reactor_.random().below(5000)));
        }
    } else {
        result = fail(sent.error());
    }
    co_await payload.writes.join();
    const bool is_unused = result ? result->replayed : !payload.may_be_seen;
    if (is_unused) drop(space, payload.all);
    co_return result;
}

// ---- replies -------------------------------------------------------------------------------

Task<Result<std::optional<Commit>>> RadosStore::stored_reply(const Call& call,
                                                             const Transaction& transaction,
                                                             RecordPlace& place) {
    const Time until = reactor_.now() + options_.patience;
    while (true) {
        ROS2S_CO_TRY(call.check(reactor_.now()));
        ROS2S_CO_TRY(co_await coordinator_.look(place));
        if (place.bytes.empty()) co_return std::nullopt;
        Coordination record;
        ROS2S_CO_TRY(decode(place.bytes, record));
        if (record.state == Coordination::State::pending) {
            // Another client's, or of one that is gone.
            if (reactor_.now() >= until) {
                ROS2S_CO_TRY(
                    co_await coordinator_.abort(place.object, place.key, place.bytes, record));
            } else {
                co_await sleep_for(reactor_,
                                   std::chrono::milliseconds(2 + reactor_.random().below(8)));
            }
            continue;
        }
        const uint64_t sequence = transaction.id.sequence;
        if (sequence < record.sequence) co_return fail(Code::stale);
        const bool is_same = sequence == record.sequence;
        if (is_same && (transaction.is_new || digest_of(transaction) != record.digest)) {
            co_return fail(Code::name_taken);
        }
        // Its objects may be locked still, and need the record.
        const auto finished = finished_.find({place.object, place.key});
        if (finished == finished_.end() || finished->second != record.transaction) {
            ROS2S_CO_TRY(co_await coordinator_.finish(place.object.space, record));
        }
        if (!is_same) co_return std::nullopt;
        co_return Commit{.epoch = {record.epoch}, .time = record.time, .replayed = true};
    }
}

// ---- an attempt ----------------------------------------------------------------------------

Task<Result<std::optional<Commit>>> RadosStore::attempt(const Call& call, std::string space,
                                                        ContainerId container,
                                                        const Transaction& transaction,
                                                        Payload& payload, bool may_guess) {
    RecordPlace place;
    if (keeps_reply(transaction)) {
        place.object = {space, replies_name(transaction.id.owner, transaction.id.client)};
        place.key = slot_key(transaction.id.slot);
        ROS2S_CO_TRY_ASSIGN(const auto reply, co_await stored_reply(call, transaction, place));
        if (reply) co_return reply;
    }
    Plan plan(transaction, payload.runs);
    Views views = plan.views();
    const bool is_guess = may_guess && begin_with_known(space, views);
    Commit commit;
    const auto planned = co_await complete(call, space, views, plan, commit);
    if (!planned) {
        if (is_guess || planned.error().code == Code::busy) co_return std::nullopt;
        co_return fail(planned.error());
    }
    // Sweeps take older data for that of a dead client, and change the head before they remove it.
    if (reactor_.now() - payload.started > options_.orphan_age / 2) co_return fail(Code::deadline);
    ROS2S_CO_TRY(pins_.judge(container, transaction, reactor_.now()));
    co_await payload.writes.join();
    ROS2S_CO_TRY(payload.check());
    drop(space, payload.compacted);  // of an attempt before
    payload.replaced.clear();
    Result<> published = co_await compact(space, views, payload);
    if (published) {
        published = co_await publish(call, space, transaction, std::move(place), commit, views,
                                     plan, payload, is_guess);
    }
    if (!published) {
        if (published.error().code == Code::busy) co_return std::nullopt;
        co_return fail(published.error());
    }
    pins_.take(container, transaction);
    co_return commit;
}

Task<> RadosStore::load(std::string space, View& view, Result<>& result) {
    const Read read = view.next_read(space);
    const auto reply = co_await metadata_.read(read);
    result = view.take(read, reply);
}

Task<Result<>> RadosStore::complete(const Call& call, std::string space, Views& views, Plan& plan,
                                    Commit& commit) {
    while (true) {
        ROS2S_CO_TRY(call.check(reactor_.now()));
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
            ROS2S_CO_TRY(co_await coordinator_.settle(call, space, object_name(view.object()), head,
                                                      view.head_bytes()));
            co_return fail(Code::busy);
        }
        const WallTime now = reactor_.wall_time();
        last_epoch_ =
            std::max(last_epoch_ + 1, static_cast<uint64_t>(now.time_since_epoch().count()));
        for (const View& view : views | std::views::values) {
            last_epoch_ = std::max(last_epoch_, view.head().epoch + 1);
        }
        last_time_ = std::max(last_time_, now);
        commit = {.epoch = {last_epoch_}, .time = last_time_};
        const auto planned = plan.run(views, commit.epoch, commit.time);
        if (std::ranges::all_of(views | std::views::values, &View::is_complete)) co_return planned;
    }
}

Pending RadosStore::changes_of(const View& view, const Plan& plan, const Payload& payload,
                               Epoch epoch) {
    Pending pending;
    for (const auto& [key, value] : view.changes()) {
        if (value.empty()) {
            pending.remove.push_back({key});
        } else {
            pending.set.push_back({key, value});
        }
    }
    for (const auto* all : {&plan.garbage(), &payload.replaced}) {
        const auto garbage = all->find(view.object());
        if (garbage == all->end()) continue;
        for (const DataId& id : garbage->second) {
            pending.set.push_back({garbage_tag + data_name(view.object(), id), "1"});
        }
    }
    Head head = view.head();
    head.change = reactor_.secrets().next();
    if (!view.changes().empty()) head.epoch = epoch.value;
    const auto more = plan.more_entries().find(view.object());
    if (more != plan.more_entries().end()) head.entries += static_cast<uint64_t>(more->second);
    pending.set.push_back({head_key, encode(head)});
    return pending;
}

Task<Result<>> RadosStore::publish(const Call& call, std::string space,
                                   const Transaction& transaction, RecordPlace place,
                                   const Commit& commit, Views& views, const Plan& plan,
                                   Payload& payload, bool is_guess) {
    bool is_whole = true;
    std::vector<Participant> participants;
    for (const View& view : views | std::views::values) {
        participants.push_back({&view, changes_of(view, plan, payload, commit.epoch), {}});
        if (size_of(participants.back().pending) > change_bytes_max) {
            co_return fail(Code::too_large, change_bytes_max);
        }
    }
    ROS2S_CO_TRY(call.check(reactor_.now()));
    if (!keeps_reply(transaction) && participants.size() <= 1) {
        // One object: a change of it is atomic. Without a change its state was read at one instant.
        if (participants.empty()) co_return Result<>{};
        if (participants[0].view->changes().empty()) {
            co_return is_guess ? Result<>(fail(Code::busy)) : Result<>();
        }
        const Participant& only = participants[0];
        Change change{.object = {space, object_name(only.view->object())}};
        if (only.view->exists()) {
            change.equal = {{head_key, only.view->head_bytes()}};
        } else {
            change.expect = Change::Expect::absent;
        }
        for (const auto& [key, value] : only.pending.set) change.set.emplace_back(key, value);
        for (const auto& [key] : only.pending.remove) change.remove.push_back(key);
        payload.may_be_seen = true;
        const auto changed = co_await metadata_.apply(change);
        if (!changed) {
            payload.may_be_seen = changed.error().code == Code::deadline;
            co_return fail(changed.error().code == Code::condition_failed ? Error{Code::busy}
                                                                          : changed.error());
        }
    } else {
        Coordination record{.transaction = Uuid::make(reactor_.secrets()),
                            .sequence = transaction.id.sequence,
                            .digest = keeps_reply(transaction) ? digest_of(transaction) : 0,
                            .epoch = commit.epoch.value,
                            .time = commit.time,
                            .participants = {},
                            .before = place.bytes};
        for (const Participant& each : participants) {
            record.participants.push_back({object_name(each.view->object())});
        }
        if (!keeps_reply(transaction)) {
            place.object = {space, log_name(number_)};
            place.key = record.transaction.to_string();
            record.sequence = 0;
            if (logs_.contains(place.object)) {
                place.object_exists = true;
            } else {
                ROS2S_CO_TRY(co_await coordinator_.look(place));
            }
        }
        payload.may_be_seen = true;
        const auto executed =
            co_await coordinator_.execute(call, space, place, record, participants);
        is_whole = executed && *executed;
        if (!executed) {
            logs_.erase(place.object);
            payload.may_be_seen = executed.error().code != Code::busy;
            co_return fail(executed.error());
        }
        if (!keeps_reply(transaction)) {
            logs_.insert(place.object);
        } else if (*executed) {
            if (finished_.size() >= finished_max) finished_.clear();
            finished_[{place.object, place.key}] = record.transaction;
        }
    }
    for (const Participant& each : participants) {
        const ObjectId object = each.view->object();
        start_tidying(space, object, each.pending);
        if (is_whole) remember(space, std::move(views.at(object)), each.pending);
    }
    co_return Result<>{};
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

void RadosStore::remember(const std::string& space, View view, const Pending& stored) {
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

// ---- what is left behind -------------------------------------------------------------------

void RadosStore::start_tidying(std::string space, ObjectId object, const Pending& pending) {
    // An object without entries has none of its akeys' facts either if it was punched, or if a
    // condition alone has made it.
    bool has_facts = false, has_garbage = false;
    Pending left;
    for (const auto& [key, value] : pending.set) {
        has_facts = has_facts || key.starts_with('c');
        if (key.starts_with(garbage_tag)) {
            has_garbage = true;
            left.remove.push_back({key});
        }
        Head head;
        if (key == head_key && decode(value, head) && head.entries == 0) {
            left.set.push_back({key, value});
        }
    }
    const bool was_punched = std::ranges::any_of(
        pending.remove, [](const Pending::Key& each) { return each.key.starts_with('c'); });
    const bool is_bare = pending.set.size() == 1 && pending.remove.empty();
    if (has_facts || !(was_punched || is_bare)) left.set.clear();
    if (!has_garbage && left.set.empty()) return;
    (void)tidying_.try_spawn(tidy(std::move(space), object, std::move(left)));
}

Task<> RadosStore::tidy(std::string space, ObjectId object, Pending left) {
    for (const auto& [key] : left.remove) {
        const Change remove{.object = {space, key.substr(1)}, .remove_object = true};
        const auto removed = co_await data_.apply(remove);
        if (!removed && removed.error().code != Code::not_found) co_return;
    }
    const ObjectName name{std::move(space), object_name(object)};
    if (!left.set.empty()) {
        const Change remove{
            .object = name, .equal = {{left.set[0].key, left.set[0].value}}, .remove_object = true};
        if (co_await metadata_.apply(remove)) co_return;
    }
    Change forget{.object = name};
    for (auto& each : left.remove) forget.remove.push_back(std::move(each.key));
    if (!forget.remove.empty()) (void)co_await metadata_.apply(forget);
}

// ---- segments of many parts ----------------------------------------------------------------

Task<Result<>> RadosStore::compact(std::string space, Views& views, Payload& payload) {
    for (auto& [object, view] : views) {
        std::vector<std::pair<std::string, std::string>> anew;
        for (const auto& [key, value] : view.changes()) {
            if (value.empty() || !key.starts_with('e')) continue;
            const auto parsed = parse_entry_key(key);
            if (!parsed || !parsed->segment) continue;
            Segment segment;
            ROS2S_CO_TRY(decode(value, segment));
            if (segment.visible.size() <= visible_parts_max) continue;
            ROS2S_CO_TRY_ASSIGN(const bool is_new,
                                co_await compact(space, object, segment, payload));
            if (is_new) anew.emplace_back(key, encode(segment));
        }
        for (auto& [key, value] : anew) view.set(key, std::move(value));
    }
    co_return Result<>{};
}

// One run for each row of blocks that have bytes. The bytes that are not there become zeros, and
// the same blocks are used as before.
Task<Result<bool>> RadosStore::compact(std::string space, ObjectId object, Segment& segment,
                                       Payload& payload) {
    std::vector<Extent> rows;
    for (const Visible& part : segment.visible) {
        const uint64_t end = part.offset + part.length;
        if (!rows.empty() &&
            part.offset / block_bytes <= (rows.back().end() - 1) / block_bytes + 1) {
            rows.back().length = end - rows.back().offset;
        } else {
            rows.push_back({part.offset, part.length});
        }
    }
    if (rows.size() * 2 > segment.visible.size()) co_return false;
    Segment anew;
    std::deque<std::string> bytes;
    std::deque<Result<>> results;
    {
        Nursery nursery(reactor_, writes_at_once);
        auto row = rows.begin();
        for (const Extent& each : rows) bytes.emplace_back(each.length, '\0');
        for (const Visible& part : segment.visible) {
            while (part.offset >= row->end()) ++row;
            std::string& text = bytes[static_cast<size_t>(row - rows.begin())];
            const Bytes into = std::as_writable_bytes(std::span(text))
                                   .subspan(part.offset - row->offset, part.length);
            const Run& run = segment.runs[part.run];
            co_await nursery.spawn(read_run({space, data_name(object, run.data)}, run,
                                            {part.offset, part.length}, into,
                                            results.emplace_back()));
        }
        co_await nursery.join();
        for (const Result<>& result : results) {
            // Another client has replaced it, so that the change will fail as well.
            if (!result)
                co_return fail(result.error().code == Code::not_found ? Error{Code::busy}
                                                                      : result.error());
        }
    }
    for (size_t i = 0; i < rows.size(); ++i) {
        Run run{.data = next_data(),
                .offset = rows[i].offset,
                .length = rows[i].length,
                .checksums = {}};
        array_checksums(run.offset, as_bytes(bytes[i]), run.checksums);
        payload.all[object].push_back(run.data);
        payload.compacted[object].push_back(run.data);
        Result<> written;
        co_await write_run({space, data_name(object, run.data)}, as_bytes(bytes[i]), written);
        ROS2S_CO_TRY(written);
        add(anew, std::move(run));
    }
    for (const Run& run : segment.runs) payload.replaced[object].push_back(run.data);
    segment = std::move(anew);
    co_return true;
}

}  // namespace ros2s::rados
