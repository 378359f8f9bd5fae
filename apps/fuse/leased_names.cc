#include "leased_names.h"

#include <algorithm>
#include <utility>

#include "ros2s/base/check.h"

namespace ros2s::fuse {
namespace {

constexpr Duration room_every = std::chrono::seconds(1);

}  // namespace

Duration LeasedNames::note(Time now, fs::NodeId directory, std::string_view name, Duration most,
                           Duration unchanged) {
    if (!has_room()) make_room(now);
    if (!has_room()) return {};
    Directory& kept = of(now - std::clamp(unchanged, Duration{}, rest_max), directory);
    const Duration time = std::min(most, (now - kept.changed) / part_of_rest);
    if (kept.changes > 0 || time < least) return {};
    if (kept.names.size() >= per_directory_max) return {};
    add(kept, name, now);
    kept.until = std::max(kept.until, now + time);
    return time;
}

void LeasedNames::change_begins(Time now, fs::NodeId directory) { ++of(now, directory).changes; }

void LeasedNames::change_ends(Time now, fs::NodeId directory) {
    Directory& changed = of(now, directory);
    ROS2S_CHECK(changed.changes > 0);
    --changed.changes;
    changed.changed = now;
    if (!has_room()) make_room(now);
    if (!has_room() && changed.changes == 0 && changed.names.empty()) {
        directories_.erase(directory.value);
    }
}

// It may fail: the old names stay known.
void LeasedNames::move(Time now, Entry from, Entry to, bool is_exchange) {
    ++moves_;
    Directory& old = of(now, from.directory);
    Directory& next = of(now, to.directory);
    const bool had_old = old.names.contains(std::string(from.name));
    const bool had_new = next.names.contains(std::string(to.name));
    if (had_old) add(next, to.name, now);
    if (had_new && is_exchange) add(old, from.name, now);
    old.until = next.until = std::max(old.until, next.until);
}

LeasedNames::Taken LeasedNames::take(Time now, fs::NodeId directory) {
    Taken taken{.directory = directory};
    const auto found = directories_.find(directory.value);
    if (found == directories_.end()) return taken;
    Directory& changed = found->second;
    taken.until = changed.until;
    for (const auto& [name, told] : changed.names) taken.names.push_back({name, told});
    drop_names(changed);
    changed.changed = now;
    return taken;
}

void LeasedNames::add(Directory& directory, std::string_view name, Time now) {
    if (directory.names.insert_or_assign(std::string(name), now).second) ++count_;
}

void LeasedNames::clear() {
    for (auto& [node, directory] : directories_) drop_names(directory);
}

void LeasedNames::drop_names(Directory& directory) {
    count_ -= directory.names.size();
    directory.names.clear();
    directory.until = {};
}

// The kernel keeps no name longer than `until`.
void LeasedNames::make_room(Time now) {
    if (now < room_made_ + room_every) return;
    room_made_ = now;
    for (auto each = directories_.begin(); each != directories_.end();) {
        Directory& directory = each->second;
        if (now >= directory.until + taken_within) drop_names(directory);
        const bool is_idle = directory.names.empty() && directory.changes == 0 &&
                             now >= directory.changed + rest_max;
        each = is_idle ? directories_.erase(each) : std::next(each);
    }
}

}  // namespace ros2s::fuse
