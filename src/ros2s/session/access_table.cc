#include "access_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "ros2s/base/text_parts.h"
#include "ros2s/object/object_store.h"

namespace ros2s::session {
// A name without '=' is the likely mistake.
Result<> check_subject(std::string_view subject, std::string_view where, Report& report) {
    if (subject.find('=') != subject.npos) return {};
    return report.fail(Code::invalid,
                       fmt::format("{}: '{}' is not the subject of a certificate; `ros2store "
                                   "certs show FILE.crt` prints it, for example CN={}",
                                   where, subject, subject.empty() ? "alice" : subject));
}

Result<std::vector<std::string>> parse_subjects(std::string_view list, std::string_view where,
                                                Report& report) {
    std::vector<std::string> subjects(1);
    for (size_t i = 0; i < list.size(); ++i) {
        if (list[i] == ';') {
            subjects.emplace_back();
            continue;
        }
        subjects.back() += list[i];
        if (list[i] == '\\' && i + 1 < list.size()) subjects.back() += list[++i];
    }
    for (std::string& subject : subjects) subject = without_spaces(subject);
    std::erase(subjects, "");
    for (const std::string& subject : subjects) {
        ROS2S_TRY(check_subject(subject, where, report));
        if (subject.find(", ") == subject.npos) continue;
        return report.fail(Code::invalid,
                           fmt::format("{}: '{}': write a ; between two subjects, and no space "
                                       "after a comma in one",
                                       where, subject));
    }
    return subjects;
}

bool AccessTable::Containers::contain(std::string_view pool_name,
                                      std::string_view container) const {
    if (pool != pool_name) return false;
    return is_prefix ? container.starts_with(label) : container == label;
}

bool AccessTable::Containers::contain(const Containers& others) const {
    return contain(others.pool, others.label) && (is_prefix || !others.is_prefix);
}

Result<AccessTable::Containers> AccessTable::parse_containers(std::string_view text) {
    const size_t slash = text.find('/');
    if (slash == text.npos) return fail(Code::invalid);
    Containers containers{.pool = std::string(text.substr(0, slash)),
                          .label = std::string(text.substr(slash + 1))};
    containers.is_prefix = containers.label.ends_with('*');
    if (containers.is_prefix) containers.label.pop_back();
    const bool any_label = containers.is_prefix && containers.label.empty();
    if (!object::is_valid_label(containers.pool) ||
        !(any_label || object::is_valid_label(containers.label))) {
        return fail(Code::invalid);
    }
    return containers;
}

Result<AccessTable> AccessTable::parse(const Settings& settings, std::string_view where,
                                       Report& report) {
    AccessTable access;
    for (const auto& [subject, given] : settings) {
        ROS2S_TRY(check_subject(subject, fmt::format("{}: access", where), report));
        Rights& rights = access.subjects_[subject];
        for (const auto& [name, list] : given) {
            if (is_user_setting(name)) {
                const std::string place = fmt::format("{}: access: '{}': {}", where, subject, name);
                ROS2S_TRY(access.users_[subject][""].set(name, list, place, report));
                continue;
            }
            const auto right = std::ranges::find(right_names, name);
            if (right == right_names.end()) {
                return report.fail(Code::invalid,
                                   fmt::format("{}: access: '{}': there is no right '{}'; the "
                                               "rights are {}",
                                               where, subject, name, fmt::join(right_names, ", ")));
            }
            for (const auto part : std::views::split(list, ',')) {
                const std::string_view text = without_spaces({part.begin(), part.end()});
                auto containers = parse_containers(text);
                if (!containers) {
                    return report.fail(
                        Code::invalid,
                        fmt::format("{}: access: '{}': {}: '{}' is not of the form "
                                    "POOL/CONTAINER; a * at the end matches the rest of a "
                                    "name: pool/main, pool/run-*, pool/*",
                                    where, subject, name, text));
                }
                rights[static_cast<size_t>(right - right_names.begin())].push_back(
                    std::move(*containers));
            }
        }
    }
    return access;
}

void AccessTable::add(const std::string& subject, Right right, const std::string& pool,
                      std::string_view containers) {
    const bool is_prefix = containers.ends_with('*');
    if (is_prefix) containers.remove_suffix(1);
    subjects_[subject][static_cast<size_t>(right)].push_back(
        {.pool = pool, .label = std::string(containers), .is_prefix = is_prefix});
}

void AccessTable::add_users(const std::string& subject, const std::string& pool, UserGrant users) {
    users_[subject].insert_or_assign(pool, std::move(users));
}

const UserGrant& AccessTable::users_of(std::string_view subject, std::string_view pool) const {
    static const UserGrant anybody;
    const auto found = users_.find(subject);
    if (found == users_.end()) return anybody;
    const auto in_pool = found->second.find(pool);
    if (in_pool != found->second.end()) return in_pool->second;
    const auto settings = found->second.find("");
    return settings != found->second.end() ? settings->second : anybody;
}

void AccessTable::remove(std::string_view subject, std::string_view pool) {
    const auto found = subjects_.find(subject);
    if (found == subjects_.end()) return;
    for (auto& containers : found->second) {
        std::erase_if(containers, [&](const Containers& each) { return each.pool == pool; });
    }
}

bool AccessTable::covers(const AccessTable& other, std::string_view subject,
                         std::string_view pool) const {
    const Rights* const theirs = other.rights_of(subject);
    if (theirs == nullptr) return true;
    if (users_of(subject, pool) != other.users_of(subject, pool)) return false;
    const Rights none{};
    const Rights* const found = rights_of(subject);
    const Rights& ours = found == nullptr ? none : *found;
    for (size_t right = 0; right < right_names.size(); ++right) {
        for (const Containers& each : (*theirs)[right]) {
            if (each.pool == pool && std::ranges::none_of(ours[right], [&](const auto& some) {
                    return some.contain(each);
                })) {
                return false;
            }
        }
    }
    return true;
}

const AccessTable::Rights* AccessTable::rights_of(std::string_view subject) const {
    const auto found = subjects_.find(subject);
    return found == subjects_.end() ? nullptr : &found->second;
}

bool AccessTable::allows(std::string_view subject, Right right, std::string_view pool,
                         std::string_view container) const {
    const Rights* const rights = rights_of(subject);
    if (rights == nullptr) return false;
    const auto given = [&](Right each) {
        return std::ranges::any_of((*rights)[static_cast<size_t>(each)],
                                   [&](const auto& some) { return some.contain(pool, container); });
    };
    return given(right) || (right == Right::read && given(Right::write));
}

bool AccessTable::sees(std::string_view subject, std::string_view pool,
                       std::string_view container) const {
    for (size_t right = 0; right < right_names.size(); ++right) {
        if (allows(subject, static_cast<Right>(right), pool, container)) return true;
    }
    return false;
}

bool AccessTable::sees_pool(std::string_view subject, std::string_view pool) const {
    const Rights* const rights = rights_of(subject);
    return rights != nullptr && std::ranges::any_of(*rights, [&](const auto& containers) {
               return std::ranges::find(containers, pool, &Containers::pool) != containers.end();
           });
}

}  // namespace ros2s::session
