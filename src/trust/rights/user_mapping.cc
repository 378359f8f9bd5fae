#include "user_mapping.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "ros2s/base/text_parts.h"

namespace ros2s::rights {
namespace {

constexpr size_t parts_max = 64;  // of a list

using Range = UserMapping::Range;
using Shift = UserMapping::Shift;

bool contain(const std::vector<Range>& ranges, uint32_t number) {
    return ranges.empty() || std::ranges::any_of(ranges, [&](const Range& each) {
               return each.first <= number && number <= each.last;
           });
}

std::optional<uint32_t> stored(const std::vector<Shift>& map, uint32_t number) {
    if (number == UINT32_MAX) return std::nullopt;  // chown(2) would take it for "no change"
    if (map.empty()) return number;
    for (const Shift& each : map) {
        if (number >= each.host && number - each.host < each.count) {
            return each.stored + (number - each.host);
        }
    }
    return std::nullopt;
}

uint32_t shown_number(const std::vector<Shift>& map, uint32_t number) {
    if (map.empty()) return number;
    for (const Shift& each : map) {
        if (number >= each.stored && number - each.stored < each.count) {
            return each.host + (number - each.stored);
        }
    }
    return fs::nobody;
}

// At least one; the parts of an empty text are one empty part.
std::vector<std::string_view> parts_of(std::string_view text, char between) {
    std::vector<std::string_view> parts;
    for (const auto part : std::views::split(text, between)) {
        parts.push_back(without_spaces({part.begin(), part.end()}));
    }
    if (parts.empty()) parts.emplace_back();
    return parts;
}

// 4294967295 means "no change" to chown(2), and is no user's number.
std::optional<uint32_t> number_of(std::string_view text) {
    uint32_t number = 0;
    if (!parse_number(text, number) || number == UINT32_MAX) return std::nullopt;
    return number;
}

std::optional<std::vector<Range>> ranges_of(std::string_view text) {
    std::vector<Range> ranges;
    if (without_spaces(text) == "any") return ranges;
    for (const std::string_view part : parts_of(text, ',')) {
        const auto ends = parts_of(part, '-');
        const auto first = number_of(ends.front()), last = number_of(ends.back());
        if (ends.size() > 2 || !first || !last || *first > *last) return std::nullopt;
        ranges.push_back({*first, *last});
    }
    if (ranges.size() > parts_max) return std::nullopt;
    return ranges;
}

bool overlap(uint32_t a, uint32_t b, uint32_t count_a, uint32_t count_b) {
    return a < uint64_t{b} + count_b && b < uint64_t{a} + count_a;
}

std::optional<std::vector<Shift>> map_of(std::string_view text) {
    std::vector<Shift> map;
    for (const std::string_view part : parts_of(text, ',')) {
        const auto numbers = parts_of(part, ':');
        if (numbers.size() != 3) return std::nullopt;
        const auto host = number_of(numbers[0]), into = number_of(numbers[1]),
                   count = number_of(numbers[2]);
        if (!host || !into || !count || *count == 0) return std::nullopt;
        if (std::max(*host, *into) > UINT32_MAX - *count) return std::nullopt;
        const Shift shift{*host, *into, *count};
        // In both directions a number has one other.
        const bool is_twice = std::ranges::any_of(map, [&](const Shift& each) {
            return overlap(each.host, shift.host, each.count, shift.count) ||
                   overlap(each.stored, shift.stored, each.count, shift.count);
        });
        if (is_twice) return std::nullopt;
        map.push_back(shift);
    }
    if (map.size() > parts_max) return std::nullopt;
    return map;
}

std::optional<std::pair<uint32_t, uint32_t>> squash_of(std::string_view text) {
    const auto numbers = parts_of(text, ':');
    if (numbers.size() != 2) return std::nullopt;
    const auto uid = number_of(numbers[0]), gid = number_of(numbers[1]);
    if (!uid || !gid) return std::nullopt;
    return std::pair{*uid, *gid};
}

}  // namespace

bool is_user_setting(std::string_view name) {
    return std::ranges::find(user_setting_names, name) != user_setting_names.end();
}

Result<> UserMapping::set(std::string_view name, std::string_view text, std::string_view where,
                          Report& report) {
    const auto wrong = [&](std::string_view form) {
        return report.fail(Code::invalid, "{}: '{}' is not {}", where, text, form);
    };
    if (name == "users" || name == "groups") {
        auto ranges = ranges_of(text);
        if (!ranges) {
            return wrong(fmt::format(
                "'any', or up to {} numbers and ranges of them: 1000-1999, 5000", parts_max));
        }
        (name == "users" ? users : groups) = std::move(*ranges);
        return {};
    }
    if (name == "uid_map" || name == "gid_map") {
        auto map = map_of(text);
        if (!map) {
            return wrong(fmt::format(
                "up to {} of HOST:STORED:COUNT that do not overlap: 1000:501000:1000", parts_max));
        }
        (name == "uid_map" ? uid_map : gid_map) = std::move(*map);
        return {};
    }
    if (name == "squash") {
        squash = squash_of(text);
        if (!squash) return wrong("UID:GID, the user as whom all users act: 1000:1000");
        return {};
    }
    if (name == "root_squash") {
        root_squash = text == "yes";
        if (!root_squash && text != "no") return wrong("'yes' or 'no'");
        return {};
    }
    may_make_devices = may_set_ids = may_change_privileged = false;
    for (const std::string_view part : parts_of(text, ',')) {
        if (part == "devices") {
            may_make_devices = true;
        } else if (part == "set_ids") {
            may_set_ids = true;
        } else if (part == "privileged_attributes") {
            may_change_privileged = true;
        } else {
            return wrong("a list of devices, set_ids and privileged_attributes");
        }
    }
    return {};
}

Result<fs::Caller> UserMapping::caller_for(fs::UserClaim& claim) const {
    fs::Caller caller{.may_make_devices = may_make_devices,
                      .may_set_ids = may_set_ids,
                      .may_change_privileged = may_change_privileged};
    const bool is_squashed_root = root_squash && claim.uid == 0;
    if (squash) {
        caller.uid = squash->first;
        caller.gid = squash->second;
        return caller;
    }
    if (is_squashed_root) return caller;  // nobody
    const auto uid = stored(uid_map, claim.uid);
    if (!contain(users, claim.uid) || !uid) return fail(Code::denied, claim.uid);
    caller.uid = root_squash && *uid == 0 ? fs::nobody : *uid;
    const auto group = [&](uint32_t gid) -> std::optional<uint32_t> {
        const auto into = stored(gid_map, gid);
        const bool is_root = gid == 0 || (into && *into == 0);
        if (!contain(groups, gid) || (root_squash && is_root)) return std::nullopt;
        return into;
    };
    caller.gid = group(claim.gid).value_or(fs::nobody);
    size_t kept = 0;
    for (const uint32_t each : claim.groups) {
        if (const auto gid = group(each)) claim.groups[kept++] = *gid;
    }
    claim.groups.resize(kept);
    caller.groups = claim.groups;
    return caller;
}

fs::Attributes UserMapping::shown(fs::Attributes attributes) const {
    attributes.uid = shown_number(uid_map, attributes.uid);
    attributes.gid = shown_number(gid_map, attributes.gid);
    return attributes;
}

Result<uint32_t> UserMapping::stored_uid(uint32_t uid) const {
    const auto number = stored(uid_map, uid);
    if (!number) return fail(Code::invalid);
    return *number;
}

Result<uint32_t> UserMapping::stored_gid(uint32_t gid) const {
    const auto number = stored(gid_map, gid);
    if (!number) return fail(Code::invalid);
    return *number;
}

}  // namespace ros2s::rights
