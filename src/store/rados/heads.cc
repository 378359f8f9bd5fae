#include "heads.h"

#include <algorithm>

#include "segment.h"

namespace ros2s::rados {
namespace {

constexpr size_t shared_keys_max = 256;
constexpr size_t known_bytes_max = size_t{16} << 20;
constexpr size_t crowded_max = 4096;

}  // namespace

using namespace object;

// ---- reads -----------------------------------------------------------------------------------

Task<Result<ReadReply>> Heads::read_unlocked(const Call& call, Read read, Head& head) {
    read.keys.emplace_back(head_key);
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
        ROS2S_CO_TRY_ASSIGN(const bool has_changed,
                            co_await coordinator_.apply_if_committed(
                                read.object.space, read.object.name, head, value->second));
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
    Read all{.object = std::move(object), .keys = {head_key}};
    all.keys.insert(all.keys.end(), read->keys.begin(), read->keys.end());
    read->reply = co_await env_.metadata.read(all);
    read->done.set();
}

Task<Result<ReadReply>> Heads::read_with_others(ObjectName object, std::vector<std::string> keys) {
    std::shared_ptr<SharedRead> shared;
    co_await read_shared(std::move(object), std::move(keys), shared);
    co_return shared->reply;
}

// ---- what this store has written last ----------------------------------------------------------

bool Heads::begin_with_known(const std::string& space, Views& views) {
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

void Heads::remember(const std::string& space, View view, const Pending& stored) {
    // Others may have made it and removed it again since it was read.
    if (!view.exists()) view.begins(next_moment());
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

// ---- bytes in the omap -------------------------------------------------------------------------

bool Heads::has_room_inline(const ObjectName& object) const { return !crowded_.contains(object); }

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
