#include "chain_reader.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include "ros2s/object/chain.h"
#include "ros2s/object/validate.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::rados {

using namespace object;

// What a chain knows of an object, and what it reads of it next.
struct ChainReader::ChainedObject {
    // Known, by key and by akey.
    std::map<std::string, Fact> facts;
    std::map<std::string, QueryReply> queries;
    bool is_guessed = false;  // and not read yet

    // To be read.
    std::set<std::string> keys;
    std::set<std::string> columns;  // of akeys
    [[nodiscard]] bool is_wanted() const { return is_guessed || !keys.empty() || !columns.empty(); }
    Result<> result;
    bool is_other = false;  // than was guessed
};

struct ChainReader::Chain {
    std::span<FetchItem> items;
    std::span<Link> links;
    bool may_guess = false;
    std::map<ObjectId, ChainedObject> objects;
    std::vector<bool> done;
};

Task<Result<bool>> ChainReader::fetch(const Call& call, ContainerId container, const Holder& holder,
                                      std::span<FetchItem> items, std::span<Link> links) {
    ROS2S_CO_TRY(validate(items, links));
    std::set<std::string> pinned;
    const std::string space = space_of(container);
    for (size_t i = 0; i < items.size(); ++i) {
        if (links[i].kind != Link::Kind::pin) continue;
        // Which object it is has to be known before the chain begins.
        if (links[i].object.is_set()) {
            co_return false;
        }
        pinned.insert(space + object_name(items[i].object));
    }
    ROS2S_CO_TRY(call.check(env_.reactor));
    ROS2S_CO_TRY(co_await containers_.check(call, container));
    Result<bool> is_true = false;
    {
        // Transactions of this store that change the object hold the same mutex.
        const auto hold = co_await heads_.mutexes.lock({pinned.begin(), pinned.end()});
        for (const bool may_guess : {true, false}) {
            Chain chain{.items = items,
                        .links = links,
                        .may_guess = may_guess,
                        .objects = {},
                        .done = std::vector<bool>(items.size())};
            is_true = co_await follow(call, space, chain);
            if (!is_true || *is_true) break;
        }
        for (size_t i = 0; is_true && i < items.size(); ++i) {
            if (links[i].kind != Link::Kind::pin || !items[i].status) continue;
            ROS2S_CO_TRY(pins_.add(container, items[i].object, holder));
        }
    }
    // If one item cannot be read, it is not known here which one.
    co_return is_true.has_value();
}

namespace {

bool is_ready(const std::vector<bool>& done, const Link::Reference& reference) {
    return !reference.is_set() || done[reference.item];
}

}  // namespace

Task<Result<bool>> ChainReader::follow(const Call& call, std::string space, Chain& chain) {
    while (true) {
        ROS2S_CO_TRY(call.check(env_.reactor));
        for (size_t i = 0; i < chain.items.size(); ++i) {
            if (chain.done[i]) continue;
            FetchItem& item = chain.items[i];
            Link& link = chain.links[i];
            const bool is_query = link.kind == Link::Kind::query;
            if (!is_ready(chain.done, link.object)) continue;
            if (!is_ready(chain.done, link.when)) {
                // Read along, whether it is wanted or not.
                if (!is_query || !resolve_object(chain.items, chain.links, i)) continue;
                const auto at = chain.objects.find(item.object);
                if (at == chain.objects.end() || at->second.keys.empty()) continue;
                if (!at->second.queries.contains(item.akey.bytes))
                    at->second.columns.insert(item.akey.bytes);
                continue;
            }
            clear(item);
            link.facts = {};
            item.status = resolve(chain.items, chain.links, i);
            chain.done[i] = true;
            if (!item.status) continue;
            const ObjectName name{space, object_name(item.object)};
            ChainedObject& object = chain.objects[item.object];
            const auto known = chain.may_guess ? heads_.known(name) : nullptr;
            if (is_query) {
                auto facts = object.queries.find(item.akey.bytes);
                if (facts == object.queries.end() && known != nullptr) {
                    View view(item.object, known);
                    const auto reply = query(view, item.akey);
                    if (reply && view.is_complete()) {
                        facts = object.queries.emplace(item.akey.bytes, *reply).first;
                        object.is_guessed = true;
                    }
                }
                chain.done[i] = facts != object.queries.end();
                if (chain.done[i]) {
                    link.facts = facts->second;
                } else {
                    object.columns.insert(item.akey.bytes);
                }
                continue;
            }
            const std::string key = entry_key(item.dkey, item.akey);
            auto fact = object.facts.find(key);
            if (fact == object.facts.end() && known != nullptr && known->has(key)) {
                ROS2S_CO_TRY_ASSIGN(Fact guess, fact_of(key, known->value(key)));
                fact = object.facts.emplace(key, std::move(guess)).first;
                object.is_guessed = true;
            }
            chain.done[i] = fact != object.facts.end();
            if (!chain.done[i]) {
                object.keys.insert(key);
            } else if (fact->second.entry.is_array) {
                Result<> failure;
                co_await reader_.fetch_item(call, space, item, failure);
                ROS2S_CO_TRY(std::move(failure));
            } else {
                item.status = Reader::take_value(fact->second, item);
            }
        }
        Nursery nursery(env_.reactor, chain_items_max);
        bool is_any = false;
        for (auto& [id, object] : chain.objects) {
            if (!object.is_wanted()) continue;
            is_any = true;
            co_await nursery.spawn(read_object(call, space, id, object));
        }
        co_await nursery.join();
        for (const ChainedObject& object : chain.objects | std::views::values) {
            ROS2S_CO_TRY(object.result);
            if (object.is_other) co_return false;
        }
        if (!is_any) co_return true;
    }
}

// What was guessed is read again, with what is wanted beside it.
Task<> ChainReader::read_object(const Call& call, std::string space, ObjectId id,
                                ChainedObject& object) {
    View view(id);
    for (const std::string& key : object.keys) view.want(key);
    for (const std::string& akey : object.columns) view.want(column_key({akey}));
    if (object.is_guessed) {
        for (const std::string& key : object.facts | std::views::keys) view.want(key);
        for (const auto& akey : object.queries | std::views::keys) view.want(column_key({akey}));
    }
    // The others probably have nothing: an object is a file or a directory.
    if (!object.columns.empty()) (void)query(view, {*object.columns.begin()});
    const Read read = view.next_read(space);
    Result<ReadReply> reply = ReadReply{};
    if (object.columns.empty()) {
        reply = co_await heads_.read_with_others(read.object, read.keys);
    } else {
        reply = co_await env_.metadata.read(read);
    }
    reply = absent_as_empty(std::move(reply));
    object.result = reply ? co_await take(call, read, view, object, std::move(*reply))
                          : Result<>(fail(reply.error()));
    object.is_guessed = false;
    object.keys.clear();
    object.columns.clear();
}

Task<Result<>> ChainReader::take(const Call& call, const Read& read, View& view,
                                 ChainedObject& object, ReadReply reply) {
    const std::string& space = read.object.space;
    Head head;
    if (const std::string bytes = reply.value(head_key); !bytes.empty()) {
        ROS2S_CO_TRY(decode(bytes, head));
    }
    if (!head.lock.transaction.is_nil()) {
        // It is committed, and this store knows what it does.
        const bool asks = !object.keys.empty() || !object.columns.empty();
        const auto known = heads_.known(read.object);
        if (!asks && known != nullptr && known->is_of(reply.value(head_key), false)) {
            object.is_other = !has_same(object, *known);
            co_return Result<>{};
        }
        ROS2S_CO_TRY_ASSIGN(reply, co_await heads_.read_unlocked(call, read, head));
    }
    ROS2S_CO_TRY(view.take(read, reply));
    heads_.learn(space, view);
    if (object.is_guessed && !has_same(object, *view.known())) object.is_other = true;
    for (const std::string& key : object.keys) {
        ROS2S_CO_TRY_ASSIGN(object.facts[key], fact_of(key, view.stored(key)));
    }
    for (const std::string& akey : object.columns) {
        ROS2S_CO_TRY_ASSIGN(object.queries[akey],
                            co_await reader_.query_object(call, space, view, {akey}));
    }
    co_return Result<>{};
}

// Each change of an akey gives its column another epoch.
bool ChainReader::has_same(const ChainedObject& object, const CachedOmap& known) {
    for (const auto& [key, fact] : object.facts) {
        if (!known.has(key) || known.value(key) != fact.value) return false;
    }
    for (const auto& [akey, reply] : object.queries) {
        const std::string key = column_key({akey});
        Column column;
        if (!known.has(key)) return false;
        if (!known.value(key).empty() && !decode(known.value(key), column)) return false;
        if (Epoch{column.last_epoch} != reply.last_epoch) return false;
    }
    return true;
}

}  // namespace ros2s::rados
