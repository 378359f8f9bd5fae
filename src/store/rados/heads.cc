#include "heads.h"

#include <algorithm>

#include "segment.h"

namespace ros2s::rados {
namespace {

constexpr size_t shared_keys_max = 256;
constexpr size_t cache_bytes_max = size_t{32} << 20;
constexpr size_t crowded_max = 4096;

}  // namespace

using namespace object;

// ---- reads -----------------------------------------------------------------------------------

Task<Result<ReadReply>> Heads::read_unlocked(const Call& call, Read read, Head& head) {
    const bool has_head = std::ranges::find(read.keys, head_key) != read.keys.end();
    if (!has_head) read.keys.emplace_back(head_key);
    while (true) {
        ROS2S_CO_TRY(call.check(env_.reactor));
        auto reply = co_await env_.metadata.read(read);
        head = {};
        if (!reply && reply.error().code == Code::not_found) co_return ReadReply{};
        if (!reply) co_return reply;
        const auto value = reply->values.find(head_key);
        if (value == reply->values.end()) co_return fail(Code::corrupt);
        ROS2S_CO_TRY(decode(value->second, head));
        if (head.lock.transaction.is_nil()) co_return reply;
        ROS2S_CO_TRY_ASSIGN(const bool has_changed, co_await coordinator_.apply_if_committed(
                                                        read.object, head, value->second));
        if (!has_changed) co_return reply;
    }
}

// Reads the head, and the keys.
Task<> Heads::read_shared(ObjectName object, std::vector<std::string> keys,
                          std::shared_ptr<SharedRead>& read) {
    auto& open = shared_reads_[object];
    const bool leads = open == nullptr || open->keys.size() >= shared_keys_max;
    if (leads) open = std::make_shared<SharedRead>(env_.reactor);
    read = open;
    read->keys.insert(keys.begin(), keys.end());
    if (!leads) {
        co_await read->done;
        co_return;
    }
    const auto hold = co_await read_turns_.lock({object.space + object.name});
    const auto at = shared_reads_.find(object);
    if (at != shared_reads_.end() && at->second == read) shared_reads_.erase(at);
    const Read all{.object = std::move(object), .keys = {read->keys.begin(), read->keys.end()}};
    read->reply = co_await env_.metadata.read(all);
    read->done.set();
}

Task<Result<ReadReply>> Heads::read_with_others(ObjectName object, std::vector<std::string> keys) {
    std::shared_ptr<SharedRead> shared;
    co_await read_shared(std::move(object), std::move(keys), shared);
    co_return shared->reply;
}

// ---- what is known -----------------------------------------------------------------------------

void Heads::keep(const ObjectName& object, std::shared_ptr<CachedOmap> known) {
    const size_t bytes = known->bytes();
    if (const auto at = cache_.find(object); at != cache_.end()) {
        cache_bytes_ -= at->second.bytes;
        cache_.erase(at);
    }
    if (cache_bytes_ + bytes > cache_bytes_max) {
        cache_.clear();
        cache_bytes_ = 0;
    }
    if (bytes > cache_bytes_max) return;
    cache_.emplace(object, Cached{std::move(known), bytes});
    cache_bytes_ += bytes;
}

std::shared_ptr<CachedOmap> Heads::known(const ObjectName& object) const {
    const auto found = cache_.find(object);
    return found == cache_.end() ? nullptr : found->second.known;
}

bool Heads::are_true(const ObjectName& object, const std::vector<std::string>& keys,
                     const Facts& facts, const Result<ReadReply>& reply, bool is_applied) const {
    const auto now = known(object);
    if (!reply || now == nullptr || !now->is_of(reply->value(head_key), is_applied)) return false;
    for (size_t i = 0; i < keys.size(); ++i) {
        if (!now->has(keys[i]) || now->value(keys[i]) != facts[i].value) return false;
    }
    return true;
}

void Heads::learn(const std::string& space, const View& view) {
    if (!view.exists() || !view.head().lock.transaction.is_nil()) return;
    const ObjectName name{space, object_name(view.object())};
    auto now = known(name);
    // The reply to a read can come after that to a later change.
    if (now != nullptr && now->has_replaced(view.head_bytes())) return;
    if (now != nullptr && now->head_bytes() == view.head_bytes()) {
        if (now != view.known()) now->merge(*view.known());
    } else {
        now = view.known();
        now->begins(next_moment());
    }
    keep(name, std::move(now));
}

bool Heads::begin_with_known(const std::string& space, Views& views) {
    bool is_any = false;
    for (auto& [object, view] : views) {
        auto now = known({space, object_name(object)});
        // A transaction that decides at an object names its head in locks, so it must be there.
        if (now == nullptr || !now->is_applied()) continue;
        view.begin_with(std::move(now));
        is_any = true;
    }
    return is_any;
}

void Heads::remember(const std::string& space, const View& view, const Pending& stored,
                     const std::string& locked_head) {
    // Others may have made it and removed it again since it was read.
    if (!view.exists()) view.known()->begins(next_moment());
    view.known()->adopt(stored, locked_head);
    keep({space, object_name(view.object())}, view.known());
}

void Heads::note_applied(const ObjectName& object, const std::string& locked_head) {
    if (const auto now = known(object)) now->applied(locked_head);
}

// ---- bytes in the omap -------------------------------------------------------------------------

void Heads::note_room(const ObjectName& object, const Pending& stored) {
    for (const auto& [key, value] : stored.set) {
        if (key != inline_key) continue;
        InlineBytes count;
        if (decode(value, count) && count.bytes >= inline_bytes_in_all) {
            if (crowded_.size() >= crowded_max) crowded_.clear();
            crowded_.insert(object);
        } else {
            crowded_.erase(object);
        }
    }
    if (std::ranges::find(stored.remove, inline_key, &Pending::Key::key) != stored.remove.end()) {
        crowded_.erase(object);
    }
}

}  // namespace ros2s::rados
