#include "seen.h"

#include <algorithm>

#include "ros2s/object/checksum.h"

namespace ros2s::rados {
namespace {

constexpr size_t seen_bytes_max = size_t{16} << 20;
constexpr size_t fact_bytes = 512;  // beside values, about
const std::string no_value;

const std::string& value_in(const Pending& stored, const std::string& key) {
    const auto found = std::ranges::find(stored.set, key, &Pending::Set::key);
    return found == stored.set.end() ? no_value : found->value;
}

}  // namespace

Result<std::shared_ptr<const Fact>> fact_of(const std::string& key, const std::string& value) {
    const auto fact = std::make_shared<Fact>();
    fact->value = value;
    if (value.empty()) return fact;
    const auto parsed = parse_entry_key(key);
    if (!parsed) return fail(Code::corrupt);
    ROS2S_TRY(parsed->segment ? decode(value, fact->segment) : decode(value, fact->entry));
    return fact;
}

Result<Facts> facts_of(const std::vector<std::string>& keys, const ReadReply& reply) {
    Facts facts;
    for (const std::string& key : keys) {
        const auto value = reply.values.find(key);
        ROS2S_TRY_ASSIGN(auto fact,
                         fact_of(key, value == reply.values.end() ? no_value : value->second));
        facts.push_back(std::move(fact));
    }
    return facts;
}

Facts SeenFacts::of(const ObjectName& object, const std::vector<std::string>& keys) const {
    Facts facts;
    const auto seen = objects_.find(object);
    if (seen == objects_.end()) return {};
    for (const std::string& key : keys) {
        const auto fact = seen->second.facts.find(key);
        if (fact == seen->second.facts.end()) return {};
        facts.push_back(fact->second);
    }
    return facts;
}

std::optional<object::QueryReply> SeenFacts::query(const ObjectName& object,
                                                   const object::Akey& akey) const {
    const auto seen = objects_.find(object);
    if (seen == objects_.end()) return {};
    const auto found = seen->second.queries.find(akey.bytes);
    if (found != seen->second.queries.end()) return found->second;
    const auto& columns = seen->second.columns;
    if (columns && !columns->contains(akey.bytes)) return object::QueryReply{};
    return {};
}

bool SeenFacts::has_head(const ObjectName& object, const std::string& head, bool is_applied) const {
    const auto seen = objects_.find(object);
    if (seen == objects_.end() || head.empty()) return false;
    return head == seen->second.head || (!is_applied && head == seen->second.locked_head);
}

SeenFacts::Object& SeenFacts::with_head(const ObjectName& object, const std::string& head) {
    bound();
    Object& seen = objects_[object];
    if (seen.head != head && seen.locked_head != head) {
        bytes_ -= seen.bytes;
        seen = {.head = head, .locked_head = {}, .facts = {}, .queries = {}, .columns = {}};
    }
    return seen;
}

void SeenFacts::add_bytes(Object& object, size_t bytes) {
    object.bytes += bytes;
    bytes_ += bytes;
}

void SeenFacts::set(Object& object, const std::string& key, std::shared_ptr<const Fact> fact) {
    auto& place = object.facts[key];
    // The decoded form takes about as much as the value.
    if (place == nullptr) {
        add_bytes(object, key.size() + fact_bytes);
    } else {
        object.bytes -= 2 * place->value.size();
        bytes_ -= 2 * place->value.size();
    }
    add_bytes(object, 2 * fact->value.size());
    place = std::move(fact);
}

void SeenFacts::remember(const ObjectName& object, const std::string& head,
                         const std::vector<std::string>& keys, const Facts& facts) {
    Object& seen = with_head(object, head);
    for (size_t i = 0; i < keys.size(); ++i) set(seen, keys[i], facts[i]);
}

void SeenFacts::remember(const ObjectName& object, const std::string& head,
                         const object::Akey& akey, const object::QueryReply& facts) {
    Object& seen = with_head(object, head);
    if (seen.queries.insert_or_assign(akey.bytes, facts).second) add_bytes(seen, fact_bytes);
}

// The highest dkey is known from the keys that came and went, unless it went itself.
void SeenFacts::update_query(Object& seen, const Pending& stored, const std::string& column_at,
                             const std::string& column_value) {
    std::string_view rest = std::string_view(column_at).substr(1);
    const auto name = unescape(rest);
    if (!name) return;
    const object::Akey akey{*name};
    const bool was_known =
        seen.queries.contains(akey.bytes) || (seen.columns && !seen.columns->contains(akey.bytes));
    if (seen.columns && !column_value.empty()) seen.columns->insert(akey.bytes);
    Column column;
    if (!was_known || column_value.empty() || !decode(column_value, column)) {
        seen.queries.erase(akey.bytes);
        if (seen.columns && column_value.empty()) seen.columns->erase(akey.bytes);
        return;
    }
    object::QueryReply& facts = seen.queries[akey.bytes];
    facts.last_epoch = {column.last_epoch};
    facts.last_time = column.last_time;
    facts.bytes_used = column.blocks * block_bytes;
    if (column.entries == 0) {
        facts.exists = false;
        facts.highest_dkey = {};
        facts.size = 0;
        return;
    }
    const std::string prefix = reverse_prefix(akey);
    bool is_lost = false;
    for (const auto& [key] : stored.remove) {
        const auto dkey = dkey_of_reverse_key(key, prefix);
        is_lost = is_lost || (dkey && facts.exists && *dkey == facts.highest_dkey);
    }
    for (const auto& [key, value] : stored.set) {
        const auto dkey = dkey_of_reverse_key(key, prefix);
        if (!dkey || (facts.exists && dkey->bytes <= facts.highest_dkey.bytes)) continue;
        facts.exists = true;
        facts.highest_dkey = *dkey;
        facts.size = 0;
        is_lost = false;
    }
    Entry entry;
    const std::string& value = value_in(stored, entry_key(facts.highest_dkey, akey));
    if (!value.empty() && decode(value, entry)) facts.size = entry.size;
    if (is_lost || !facts.exists) seen.queries.erase(akey.bytes);
}

void SeenFacts::update(const ObjectName& object, const View& before, const Pending& stored,
                       const std::string& locked_head) {
    const std::string& head = value_in(stored, head_key);
    if (!before.exists()) {
        forget(object);
        Object& made = with_head(object, before.head_bytes());
        made.columns.emplace();
        add_bytes(made, fact_bytes);
    }
    const auto at = objects_.find(object);
    if (at == objects_.end()) return;
    Object& seen = at->second;
    if (seen.head != before.head_bytes()) {
        forget(object);
        return;
    }
    const auto update_fact = [&](const std::string& key, const std::string& value) {
        // New single values are names and records of nodes, which are likely to be read.
        const auto parsed = parse_entry_key(key);
        if (!parsed) return true;
        if (parsed->segment && !seen.facts.contains(key)) return true;
        auto fact = fact_of(key, value);
        if (fact) set(seen, key, std::move(*fact));
        return fact.has_value();
    };
    bool is_known = true;
    for (const auto& [key, value] : stored.set) {
        is_known = is_known && update_fact(key, value);
        if (key.starts_with('c')) update_query(seen, stored, key, value);
    }
    for (const auto& [key] : stored.remove) {
        is_known = is_known && update_fact(key, no_value);
        if (key.starts_with('c')) update_query(seen, stored, key, no_value);
    }
    seen.head = head;
    seen.locked_head = locked_head;
    if (!is_known) forget(object);
    bound();
}

void SeenFacts::forget(const ObjectName& object) {
    const auto at = objects_.find(object);
    if (at == objects_.end()) return;
    bytes_ -= at->second.bytes;
    objects_.erase(at);
}

void SeenFacts::bound() {
    if (bytes_ <= seen_bytes_max) return;
    objects_.clear();
    bytes_ = 0;
}

}  // namespace ros2s::rados
