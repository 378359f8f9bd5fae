#include "replies.h"

#include <algorithm>
#include <ranges>

namespace ros2s::rados {
namespace {

using namespace object;

// How long a reply is in its object alone; and how long what was read of a slot is believed, while
// nobody else changes the object. A request that arrives later than after both is stale everywhere.
constexpr Duration reply_delay = std::chrono::seconds(1), slot_trust = std::chrono::seconds(1);
constexpr size_t slots_max = 65536, notes_max = 65536, noted_objects_max = 16384;
constexpr size_t slots_at_once = 64, clients_at_once = 16;
constexpr int puts_max = 16;  // of one client's replies; each time some of its slots have changed

// How the `c` of replies begins: of a client whose earlier replies may have been removed, or not.
const std::string returned = "r", first_time = "n";

// `last`: of the transaction's slot. `was_tried`: this store has sent the change, so that the reply
// may be to it.
Result<std::optional<Commit>> judge(const Transaction& transaction, const Coordination& last,
                                    bool was_tried = false) {
    const uint64_t sequence = transaction.id.sequence;
    if (sequence < last.sequence) return fail(Code::stale);
    if (sequence > last.sequence) return std::nullopt;
    const bool may_be_done = !transaction.is_new || was_tried;
    if (!may_be_done || digest_of(transaction) != last.digest) return fail(Code::name_taken);
    return Commit{.epoch = {last.epoch}, .time = last.time, .replayed = true};
}

}  // namespace

Task<> Replies::close() {
    closing_.request_stop();
    return storing_.join();
}

bool Replies::keeps(const Transaction& transaction) const {
    return env_.options.keeps_replies && !transaction.id.client.is_nil();
}

Replies::SlotName Replies::slot_of(const std::string& space, const UpdateName& id) {
    return {{space, replies_name(id.owner, id.client)}, slot_key(id.slot)};
}

Task<Result<std::optional<Commit>>> Replies::stored_reply(const Call& call,
                                                          const Transaction& transaction,
                                                          RecordLocation& location) {
    ROS2S_CO_TRY_ASSIGN(const Coordination record,
                        co_await read_reply(call, transaction, location));
    const SlotName name{location.object, location.key};
    const auto slot = slots_.find(name);
    if (slot != slots_.end() && slot->second.last.sequence > record.sequence) {
        // It is noted with an object, and not stored yet.
        ROS2S_CO_TRY_ASSIGN(const auto noted, judge(transaction, slot->second.last));
        if (noted) co_return noted;
    }
    if (location.bytes.empty()) {
        const bool may_be_done = !transaction.is_new && location.made.starts_with(returned);
        co_return may_be_done ? Result<std::optional<Commit>>(fail(Code::expired)) : std::nullopt;
    }
    ROS2S_CO_TRY_ASSIGN(const auto reply, judge(transaction, record));
    // Its objects may be locked still, and need the record.
    ROS2S_CO_TRY(co_await finish_slot(name, record));
    co_return reply;
}

Task<Result<Coordination>> Replies::read_reply(const Call& call, const Transaction& transaction,
                                               RecordLocation& location) {
    while (true) {
        ROS2S_CO_TRY_ASSIGN(Coordination record, co_await decided_reply(call, location));
        if (location.object_exists) co_return record;
        ROS2S_CO_TRY(co_await make_replies(transaction, location));
    }
}

Task<Result<Coordination>> Replies::decided_reply(const Call& call, RecordLocation& location) {
    const Time until = env_.reactor.now() + env_.options.patience;
    while (true) {
        ROS2S_CO_TRY(call.check(env_.reactor));
        const auto found =
            co_await heads_.read_with_others(location.object, {location.key, made_key});
        ROS2S_CO_TRY(take(location, found));
        Coordination record;
        if (location.bytes.empty()) co_return record;
        ROS2S_CO_TRY(decode(location.bytes, record));
        if (record.state != Coordination::State::pending) co_return record;
        // Another client's, or of one that is gone.
        if (env_.reactor.now() >= until) {
            ROS2S_CO_TRY(
                co_await coordinator_.abort(location.object, location.key, location.bytes, record));
        } else {
            co_await sleep_for(env_.reactor,
                               std::chrono::milliseconds(2 + env_.reactor.random().below(8)));
        }
    }
}

// The replies of a client that has none. Where replies were removed, some may have been its own.
Task<Result<>> Replies::make_replies(const Transaction& transaction,
                                     const RecordLocation& location) {
    const bool may_return = !transaction.is_new || transaction.id.sequence > 1;
    bool are_dropped = false;
    if (may_return) {
        const Read read{.object = {location.object.space, dropped_name}, .keys = {mark_key}};
        const auto found = co_await env_.metadata.read(read);
        if (!found && found.error().code != Code::not_found) co_return fail(found.error());
        are_dropped = found.has_value();
    }
    if (are_dropped && !transaction.is_new) co_return fail(Code::expired);
    const std::string made =
        (are_dropped ? returned : first_time) + Uuid::make(env_.reactor.secrets()).to_string();
    const Change make{.object = location.object,
                      .expect = Change::Expect::absent,
                      .set = {{made_key, made}},
                      .even_if_full = true};
    co_return ignore_conflict(co_await env_.metadata.apply(make));
}

Task<Result<>> Replies::finish_slot(const SlotName& name, const Coordination& record) {
    const auto slot = slots_.find(name);
    if (slot != slots_.end() && slot->second.finished == record.transaction) co_return Result<>{};
    co_return co_await coordinator_.finish(name.first.space, record);
}

// ---- slots of writers ----------------------------------------------------------------------

Replies::ReplySlot& Replies::slot_at(const SlotName& name) {
    if (slots_.size() >= slots_max && !slots_.contains(name)) {
        std::set<SlotName> needed;
        for (const auto& [replies, notes] : noted_) {
            for (const auto& [object, key] : notes | std::views::keys) {
                needed.insert({replies, place_of_reply_key(key)->slot});
            }
        }
        std::erase_if(slots_, [&needed](const auto& each) { return !needed.contains(each.first); });
    }
    return slots_[name];
}

void Replies::note_executed(const SlotName& name, const std::optional<Uuid>& finished) {
    ReplySlot& slot = slot_at(name);
    slot.asked = 0;
    if (finished) slot.finished = *finished;
}

void Replies::distrust_old(const std::string& space, std::span<Update* const> members) {
    for (const Update* each : members) {
        if (!each->notes_reply) continue;
        const auto slot = slots_.find(slot_of(space, each->transaction.id));
        if (slot == slots_.end()) continue;
        if (env_.reactor.now() - slot->second.asked_at >= slot_trust) slot->second.asked = 0;
    }
}

Task<bool> Replies::know_slots(std::string space, const Views& views,
                               std::span<Update* const> members) {
    bool are_known = true;
    Nursery nursery(env_.reactor, slots_at_once);
    for (Update* each : members) {
        if (!each->notes_reply || each->replay) continue;
        const uint64_t since = views.begin()->second.known()->since();
        const auto slot = slots_.find(slot_of(space, each->transaction.id));
        if (slot != slots_.end() && slot->second.asked > since) continue;
        are_known = false;
        co_await nursery.spawn(read_slot(space, *each));
    }
    co_await nursery.join();
    co_return are_known;
}

Task<> Replies::read_slot(std::string space, Update& member) {
    const SlotName name = slot_of(space, member.transaction.id);
    RecordLocation location{.object = name.first, .key = name.second, .bytes = {}};
    const uint64_t moment = heads_.next_moment();
    const Time asked_at = env_.reactor.now();
    auto record = co_await read_reply(member.call, member.transaction, location);
    if (record && record->sequence == member.transaction.id.sequence) {
        const auto finished = co_await finish_slot(name, *record);
        if (!finished) record = fail(finished.error());
    }
    if (!record) {
        member.result = fail(record.error());
        co_return;
    }
    ReplySlot& slot = slot_at(name);
    slot.asked = moment;
    slot.asked_at = asked_at;
    slot.may_be_lost = location.bytes.empty() && location.made.starts_with(returned);
    if (record->sequence > slot.last.sequence) slot.last = std::move(*record);
}

Result<std::optional<Commit>> Replies::noted_reply(const std::string& space, View& view,
                                                   const Update& member) const {
    const Transaction& transaction = member.transaction;
    Coordination noted;
    const std::string& value = view.get(reply_key(transaction.id));
    if (!value.empty()) ROS2S_TRY(decode(value, noted));
    ROS2S_TRY_ASSIGN(const auto in_object, judge(transaction, noted, member.was_tried));
    if (in_object) return in_object;
    const auto found = slots_.find(slot_of(space, transaction.id));
    if (found == slots_.end()) return std::nullopt;
    const ReplySlot& slot = found->second;
    const bool is_empty = noted.sequence == 0 && slot.last.sequence == 0;
    if (slot.may_be_lost && is_empty && !transaction.is_new) return fail(Code::expired);
    return judge(transaction, slot.last, member.was_tried);
}

// ---- notes ---------------------------------------------------------------------------------

void Replies::note(const std::string& space, const Update& member) {
    const Coordination& reply = member.reply;
    const SlotName name = slot_of(space, member.transaction.id);
    ReplySlot& slot = slot_at(name);
    if (reply.sequence > slot.last.sequence) slot.last = reply;
    const ObjectId object = member.transaction.operations[0].object;
    // What has no room is left to the sweep.
    if (noted_count_ < notes_max) {
        const NoteName note{{space, object_name(object)}, reply_key(member.transaction.id)};
        if (noted_[name.first].insert_or_assign(note, reply).second) ++noted_count_;
    }
    (void)storing_.try_spawn(store_replies());
}

// A client whose replies take long does not delay others.
Task<> Replies::store_replies() {
    Nursery clients(env_.reactor, clients_at_once);
    for (bool is_last = false; !noted_.empty() && !is_last;) {
        co_await sleep_for(env_.reactor, reply_delay, closing_.token());
        is_last = closing_.stop_requested();
        if (is_last) co_await clients.join();
        std::vector<ObjectName> idle;
        for (const ObjectName& replies : noted_ | std::views::keys) {
            if (!clients_storing_.contains(replies)) idle.push_back(replies);
        }
        for (ObjectName& replies : idle) {
            co_await clients.spawn(store_noted(std::move(replies)));
        }
    }
    co_await clients.join();
}

Task<> Replies::store_noted(ObjectName replies) {
    // What is left at the end is found in the objects.
    if (closing_.stop_requested() && !is_answering_) co_return;
    clients_storing_.insert(replies);
    const auto noted = noted_.at(replies);
    std::map<std::string, Coordination> wanted;
    for (const auto& [note, each] : noted) {
        Coordination& reply = wanted[place_of_reply_key(note.second)->slot];
        if (each.sequence > reply.sequence) reply = each;
    }
    std::set<SlotName> stored;
    const auto put = co_await put_replies(replies, std::move(wanted), stored);  // or the next time
    is_answering_ = put || put.error().code != Code::deadline;
    clients_storing_.erase(replies);
    const auto notes = noted_.find(replies);
    for (const auto& [note, each] : noted) {
        const auto& [object, key] = note;
        if (!stored.contains({replies, place_of_reply_key(key)->slot})) continue;
        if (stored_notes_.size() >= noted_objects_max) stored_notes_.erase(stored_notes_.begin());
        stored_notes_[object][key] = encode(each);
        const auto now = notes->second.find(note);
        if (now->second.sequence != each.sequence) continue;
        notes->second.erase(now);
        --noted_count_;
    }
    if (notes->second.empty()) noted_.erase(notes);
}

Task<Result<>> Replies::put_replies(ObjectName replies, std::map<std::string, Coordination> wanted,
                                    std::set<SlotName>& stored) {
    Result<> put;
    ReadReply before;
    for (int i = 0; i < puts_max; ++i) {
        Read read{.object = replies, .keys = {made_key}};
        for (const std::string& slot : wanted | std::views::keys) read.keys.push_back(slot);
        const auto found = co_await env_.metadata.read(read);
        if (!found && found.error().code != Code::not_found) co_return fail(found.error());
        Change change{.object = replies,
                      .set = {{mark_key, Uuid::make(env_.reactor.secrets()).to_string()}},
                      .even_if_full = true};
        std::map<std::string, Coordination> rest;
        for (const auto& [slot, reply] : wanted) {
            Coordination last;
            if (found && !found->value(slot).empty()) {
                ROS2S_CO_TRY(decode(found->value(slot), last));
            }
            // Without replies, a sweep has removed them: repetitions are `expired`.
            if (!found ||
                (last.sequence >= reply.sequence && last.state == Coordination::State::committed)) {
                stored.emplace(replies, slot);
                continue;
            }
            if (last.sequence != 0 && last.state == Coordination::State::pending) continue;
            // Its client is using it. It would fail the change of the others again.
            if (i > 0 && before.value(slot) != found->value(slot)) continue;
            ROS2S_CO_TRY(co_await finish_slot({replies, slot}, last));
            change.equal.emplace_back(slot, found->value(slot));
            change.set.emplace_back(slot, encode(reply));
            rest.emplace(slot, reply);
        }
        if (rest.empty()) co_return Result<>{};
        change.equal.emplace_back(made_key, found->value(made_key));
        put = co_await env_.metadata.apply(change);
        if (put) {
            for (const std::string& slot : rest | std::views::keys) stored.emplace(replies, slot);
        }
        if (put || put.error().code != Code::condition_failed) co_return put;
        wanted = std::move(rest);
        before = *found;
    }
    co_return put;
}

Task<Result<>> Replies::store_notes(const Call& call, std::string space,
                                    std::map<std::string, std::string> noted) {
    while (!noted.empty()) {
        const auto place = place_of_reply_key(noted.begin()->first);
        if (!place) co_return fail(Code::corrupt);
        // All of one client at once.
        const ObjectName replies{space, place->replies};
        std::map<std::string, Coordination> wanted;
        for (const auto& [key, value] : noted) {
            const auto each = place_of_reply_key(key);
            if (!each || each->replies != replies.name) continue;
            ROS2S_CO_TRY(decode(value, wanted[each->slot]));
        }
        std::set<SlotName> stored;
        ROS2S_CO_TRY(ignore_conflict(co_await put_replies(replies, std::move(wanted), stored)));
        std::erase_if(noted, [&](const auto& each) {
            const auto at = place_of_reply_key(each.first);
            return at && stored.contains({replies, at->slot});
        });
        if (stored.empty()) {
            RecordLocation location{.object = replies, .key = place->slot, .bytes = {}};
            ROS2S_CO_TRY(co_await decided_reply(call, location));
        }
    }
    co_return Result<>{};
}

bool Replies::is_stored_note(const std::string& space, const View& view,
                             const std::string& key) const {
    const auto notes = stored_notes_.find({space, object_name(view.object())});
    if (notes == stored_notes_.end()) return false;
    const auto note = notes->second.find(key);
    return note != notes->second.end() && note->second == view.stored(key);
}

void Replies::drop_stored_notes(const std::string& space, View& view) {
    const auto notes = stored_notes_.find({space, object_name(view.object())});
    if (notes == stored_notes_.end()) return;
    for (const auto& [key, value] : notes->second) {
        if (view.stored(key) == value && !view.changes().contains(key)) view.remove(key);
    }
}

// Those that were replaced by a later one get there again.
void Replies::forget_dropped_notes(const std::string& space, const View& view) {
    const auto notes = stored_notes_.find({space, object_name(view.object())});
    if (notes == stored_notes_.end()) return;
    std::erase_if(notes->second, [&view](const auto& each) {
        return view.changes().contains(each.first) || view.stored(each.first) != each.second;
    });
    if (notes->second.empty()) stored_notes_.erase(notes);
}

}  // namespace ros2s::rados
