#include "remains.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ros2s/rados/keys.h"
#include "ros2s/rados/records.h"

namespace ros2s::rados {
namespace {

// The data that the cluster has, and the data that segments name.
struct Names {
    std::multiset<std::string> stored, named;
};

void look_at(const std::string& name, object::ObjectId id, const SimRados::Object& object,
             Names& names, std::vector<std::string>& remains) {
    uint64_t inline_bytes = 0;
    InlineBytes count;
    for (const auto& [key, value] : object.omap) {
        if (key == pending_key) remains.push_back(name + " is locked");
        if (key.starts_with(garbage_tag)) remains.push_back(name + " has a record of garbage");
        if (key.starts_with(decision_tag)) remains.push_back(name + " has a decision");
        if (key == inline_key) {
            if (!decode(value, count)) remains.push_back(name + " has a count that is damaged");
        } else if (key.starts_with(inline_key)) {
            names.stored.insert(name + key);
            inline_bytes += inline_cost(value.size());
        }
        const auto entry = parse_entry_key(key);
        if (!entry || !entry->segment) continue;
        Segment segment;
        if (!decode(value, segment)) remains.push_back(name + " has a segment that is damaged");
        for (const Run& run : segment.runs) {
            names.named.insert(run.data.is_inline() ? name + bytes_key(run.data)
                                                    : data_name(id, run.data));
        }
    }
    if (count.bytes != inline_bytes) {
        remains.push_back(
            fmt::format("{} counts {} bytes in its omap, of {}", name, count.bytes, inline_bytes));
    }
}

}  // namespace

std::vector<std::string> remains_in(SimRados& cluster) {
    std::vector<std::string> remains;
    Names names;
    for (const auto& [name, object] : cluster.objects()) {
        if (parse_data_name(name.name)) names.stored.insert(name.name);
        if (is_log_name(name.name)) remains.push_back(name.name + " is of an earlier version");
        if (const auto id = parse_object_name(name.name)) {
            look_at(name.name, *id, object, names, remains);
        }
    }
    std::vector<std::string> differ;
    std::ranges::set_symmetric_difference(names.stored, names.named, std::back_inserter(differ));
    for (const std::string& name : differ) {
        remains.push_back(name +
                          (names.stored.contains(name) ? " is named by nothing" : " is gone"));
    }
    return remains;
}

size_t replies_in(SimRados& cluster) {
    return static_cast<size_t>(std::ranges::count_if(
        cluster.objects(), [](const auto& each) { return is_replies_name(each.first.name); }));
}

}  // namespace ros2s::rados
