#include "lister.h"

#include <algorithm>
#include <deque>

#include "draft.h"
#include "ros2s/object/validate.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::engine {

using object::ListEntry;
using object::ListReply;
using object::ListRequest;
using object::QueryReply;

namespace {

// An item of a scan, decoded as far as listing needs.
Result<SummaryValue> summary_of(const Loader::Item& item) {
    if (item.node != nullptr) return *item.node->summary();
    return decode_summary(item.raw);
}
struct Head {
    EntryValue::Kind kind{};
    object::Epoch epoch{};
    std::string single;
};
Result<Head> head_of(const Loader::Item& item) {
    if (item.node != nullptr) {
        const EntryValue& entry = *item.node->entry();
        return Head{entry.kind, entry.epoch, entry.single};
    }
    ROS2S_TRY_ASSIGN(EntryValue entry, decode_entry_head(item.raw));
    return Head{entry.kind, entry.epoch, std::move(entry.single)};
}

// Index entries to read at once for a request: some more, because an object can have several keys.
size_t page_size(const ListRequest& request) {
    return std::clamp<size_t>(request.limit + size_t{8}, 32, 4096);
}

}  // namespace

Task<Result<ListReply>> Lister::list(const Call& call, object::ContainerId container,
                                     const ListRequest& request) {
    Core& home = cores_.home();
    const RequestCount::Hold hold(home.requests);
    const Span span(call.trace, home.env.reactor, "engine.list");
    home.metrics.lists.add();
    ROS2S_CO_TRY(object::validate(request));
    ROS2S_CO_TRY(call.check(home.env.reactor));
    if (!state_.has_container(container)) co_return fail(Code::not_found);
    if (request.what == ListRequest::What::objects) {
        co_return co_await list_objects(call, container, request);
    }
    co_return co_await list_entries(call, container, request);
}

Task<Result<ListReply>> Lister::list_objects(const Call& call, object::ContainerId container,
                                             const ListRequest& request) {
    ListReply reply;
    KeyBuilder prefix(Table::summaries);
    prefix.container(container);
    std::string from = prefix.take();
    if (request.after) {
        KeyBuilder last(Table::summaries);
        last.container(container).object(object::parse_object_key(*request.after));
        from = prefix_end(last.view());
    }
    for (bool more = true; more;) {
        ROS2S_CO_TRY(call.check(cores_.home().env.reactor));
        ROS2S_CO_TRY_ASSIGN(const Loader::Page page,
                            co_await cores_.home().loader.scan(from, prefix_end(prefix.view()),
                                                               page_size(request)));
        page.count_for(call);
        for (const Loader::Item& item : page.items) {
            ROS2S_CO_TRY_ASSIGN(const SummaryValue summary, summary_of(item));
            if (summary.entries == 0) continue;
            const auto key = parse_summary_key(item.key);
            if (!key) co_return fail(Code::corrupt);
            std::string name = object::object_key(key->object);
            if (!reply.entries.empty() && reply.entries.back().key == name) continue;
            if (reply.entries.size() == request.limit) {
                reply.more = true;
                co_return reply;
            }
            reply.entries.push_back({.key = std::move(name), .value = {}, .epoch = {}});
        }
        more = page.more;
        from = page.next;
    }
    co_return reply;
}

// The dkeys of an object, or the akeys of a dkey.
Task<Result<ListReply>> Lister::list_entries(const Call& call, object::ContainerId container,
                                             const ListRequest& request) {
    const bool of_dkey = request.what == ListRequest::What::akeys;
    const std::string_view akey = of_dkey ? std::string_view() : request.akey.bytes;
    ListReply reply;
    KeyBuilder prefix(Table::entries);
    prefix.container(container).object(request.object);
    if (of_dkey) prefix.string(request.dkey.bytes);
    std::string from = prefix.take();
    if (request.after) {
        KeyBuilder last = prefix;
        last.string(*request.after);
        from = prefix_end(last.view());
    }
    size_t value_bytes = 0;
    for (bool more = true; more;) {
        ROS2S_CO_TRY(call.check(cores_.home().env.reactor));
        ROS2S_CO_TRY_ASSIGN(
            const Loader::Page page,
            co_await cores_.scan(from, prefix_end(prefix.view()), page_size(request)));
        page.count_for(call);
        for (const Loader::Item& item : page.items) {
            auto key = parse_entry_key(item.key);
            if (!key) co_return fail(Code::corrupt);
            if (key->segment != 0) continue;
            if (!akey.empty() && key->akey != akey) continue;
            std::string& name = of_dkey ? key->akey : key->dkey;
            ROS2S_CO_TRY_ASSIGN(Head head, head_of(item));
            if (!reply.entries.empty() && reply.entries.back().key == name) {
                ListEntry& entry = reply.entries.back();
                entry.epoch = std::max(entry.epoch, head.epoch);
                continue;
            }
            if (!akey.empty()) value_bytes += head.single.size();
            if (reply.entries.size() == request.limit ||
                (value_bytes > object::list_value_bytes_max && !reply.entries.empty())) {
                reply.more = true;
                co_return reply;
            }
            ListEntry& entry = reply.entries.emplace_back();
            entry.key = std::move(name);
            entry.epoch = head.epoch;
            if (!akey.empty()) entry.value = std::move(head.single);
        }
        more = page.more;
        from = page.next;
    }
    co_return reply;
}

// ---- query ---------------------------------------------------------------------------------

Task<Result<QueryReply>> Lister::query(const Call& call, object::ContainerId container,
                                       object::ObjectId object, const object::Akey& akey) {
    Core& home = cores_.home();
    const RequestCount::Hold hold(home.requests);
    const Span span(call.trace, home.env.reactor, "engine.query");
    home.metrics.queries.add();
    ROS2S_CO_TRY(object::validate(akey));
    ROS2S_CO_TRY(call.check(home.env.reactor));
    if (!state_.has_container(container)) co_return fail(Code::not_found);
    co_return co_await query_object(call, container, object, akey);
}

// After the highest dkey was punched the next one is not known: finds it, and stores it if the
// summary has not changed meanwhile. It is derived from the entries, so no record contains it.
Task<Result<>> Lister::find_highest(const Call& call, object::ContainerId container,
                                    object::ObjectId object, const object::Akey& akey,
                                    Node& summary) {
    const object::Epoch epoch = summary.summary()->last_epoch;
    KeyBuilder prefix(Table::entries);
    prefix.container(container).object(object);
    std::string to = prefix_end(prefix.view());
    for (bool more = true; more;) {
        ROS2S_CO_TRY(call.check(cores_.home().env.reactor));
        ROS2S_CO_TRY_ASSIGN(const Loader::Page page,
                            co_await cores_.scan(prefix.take(), to, 64, true));
        page.count_for(call);
        const SummaryValue* const now = summary.summary();
        if (now == nullptr || now->last_epoch != epoch || now->highest_known) {
            co_return Result<>();
        }
        for (const Loader::Item& item : page.items) {
            auto key = parse_entry_key(item.key);
            if (!key) co_return fail(Code::corrupt);
            if (key->akey != akey.bytes) continue;
            // Deliberately not modify(): the index may keep "unknown".
            summary.summary()->highest_known = true;
            summary.summary()->highest = std::move(key->dkey);
            cores_.home().cache.charge(summary);
            co_return Result<>();
        }
        more = page.more;
        to = page.next;
    }
    // The summary counts an entry that does not exist.
    co_return fail(Code::corrupt);
}

namespace {

// The size of the value of an akey; nothing if it is absent.
Task<Result<std::optional<uint64_t>>> size_at(Core& core, std::string key) {
    ROS2S_CO_TRY_ASSIGN(Node * head, co_await core.loader.load(std::move(key)));
    core.cache.unpin(*head);
    std::optional<uint64_t> size;
    if (const EntryValue* const entry = head->entry()) size = entry->size;
    co_return size;
}

Task<> unlock(LocksHeld& locked) {
    locked.clear();
    co_return;
}

}  // namespace

// Looks without locks at first. If the object changes too fast for that, it is locked on every
// core.
Task<Result<QueryReply>> Lister::query_object(const Call& call, object::ContainerId container,
                                              object::ObjectId object, const object::Akey& akey) {
    constexpr int looks_max = 3;
    for (int look = 0; look < looks_max; ++look) {
        ROS2S_CO_TRY_ASSIGN(const std::optional<QueryReply> reply,
                            co_await look_at(call, container, object, akey));
        if (reply) co_return *reply;
    }
    const uint64_t name = cores_.lock_names().of(container, object);
    std::deque<LocksHeld> locks;
    for (uint32_t i = 0; i < cores_.size(); ++i) {
        LocksHeld& locked = locks.emplace_back(cores_[i].locks);
        co_await at(cores_[i], cores_.home(), locked.lock({{name, KeyLockMode::shared}}));
    }
    Result<std::optional<QueryReply>> reply;
    while (reply && !*reply) reply = co_await look_at(call, container, object, akey);
    for (uint32_t i = 0; i < cores_.size(); ++i) {
        co_await at(cores_[i], cores_.home(), unlock(locks[i]));
    }
    if (!reply) co_return fail(reply.error());
    co_return **reply;
}

// Nothing: look again.
Task<Result<std::optional<QueryReply>>> Lister::look_at(const Call& call,
                                                        object::ContainerId container,
                                                        object::ObjectId object,
                                                        const object::Akey& akey) {
    Core& home = cores_.home();
    Pins pins(home.cache);
    ROS2S_CO_TRY_ASSIGN(
        Node * node, co_await home.loader.load(summary_key(container, object, akey.bytes).take()));
    pins.adopt(*node);
    if (node->is_absent()) co_return QueryReply{};
    SummaryValue summary = *node->summary();
    QueryReply reply{.last_epoch = summary.last_epoch,
                     .last_time = summary.last_time,
                     .bytes_used = summary.blocks * block_bytes};
    if (summary.entries == 0) co_return reply;
    if (!summary.highest_known) {
        ROS2S_CO_TRY(co_await find_highest(call, container, object, akey, *node));
        co_return std::optional<QueryReply>();
    }
    Core& core = cores_.of(container, object, summary.highest);
    std::string head = entry_key(container, object, summary.highest, akey.bytes, 0).take();
    ROS2S_CO_TRY_ASSIGN(const std::optional<uint64_t> size,
                        co_await at(core, home, size_at(core, std::move(head))));
    // Both of one moment; no part of an unpublished change.
    const SummaryValue* const now = node->summary();
    if (node->held || now == nullptr || *now != summary) co_return std::optional<QueryReply>();
    if (!size) co_return fail(Code::corrupt);
    reply.exists = true;
    reply.highest_dkey.bytes = std::move(summary.highest);
    reply.size = *size;
    co_return reply;
}

}  // namespace ros2s::engine
