#include "access_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "ros2s/base/check.h"
#include "ros2s/base/text_parts.h"
#include "ros2s/object/object_store.h"
#include "ros2s/rights/side_by_side.h"

namespace ros2s::session {
// A name without '=' is the likely mistake.
Result<> check_subject(std::string_view subject, std::string_view where, Report& report) {
    if (subject.find('=') != subject.npos) return {};
    return report.fail(Code::invalid,
                       "{}: '{}' is not the subject of a certificate; `ros2store certs show "
                       "FILE.crt` prints it, for example CN={}",
                       where, subject, subject.empty() ? "alice" : subject);
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
        return report.fail(
            Code::invalid,
            "{}: '{}': write a ; between two subjects, and no space after a comma in one", where,
            subject);
    }
    return subjects;
}

std::string_view wrong_for(Right right, const Granted& granted) {
    const bool is_for_files = right == Right::read || right == Right::write;
    if (granted.path.empty() || is_for_files) return {};
    return "this right is for whole containers; whoever may write to a directory may make and "
           "remove what is in it";
}

Result<AccessTable::PoolGrant> AccessTable::parse_grant(std::string_view text, Right right,
                                                        Scope places, std::string_view where,
                                                        Report& report) {
    const size_t slash = text.find('/');
    PoolGrant place{.pool = std::string(text.substr(0, slash)), .granted = {}};
    std::string why;
    Result<Granted> granted = fail(Code::invalid);
    if (slash != text.npos && object::is_valid_label(place.pool)) {
        granted = parse_granted(text.substr(slash + 1), why);
    }
    if (granted) {
        why = wrong_for(right, *granted);
        if (!granted->path.empty() && places == Scope::containers) {
            why =
                "an engine gives rights on whole containers; a DPU gives them on directories, to "
                "its hosts";
        }
        if (why.empty()) {
            place.granted = std::move(*granted);
            return place;
        }
    }
    if (!why.empty()) {
        return report.fail(Code::invalid, "{}: '{}': {}", where, text, why);
    }
    return report.fail(Code::invalid,
                       "{}: '{}' is not of the form POOL/CONTAINER{}; a * at the end matches the "
                       "rest of a name: pool/main, pool/run-*, pool/*",
                       where, text,
                       places == Scope::directories ? " or POOL/CONTAINER/DIRECTORY" : "");
}

Result<AccessTable> AccessTable::parse(const Settings& settings, std::string_view where,
                                       Report& report, Scope places, const RecordLines& lines) {
    AccessTable access;
    for (const auto& [subject, given] : settings) {
        const KeyLines own = lines_of(lines, subject);
        ROS2S_TRY(check_subject(subject, SettingPlace(where, "access", own).of(), report));
        const SettingPlace record(where, fmt::format("access: '{}'", subject), own);
        Rights& rights = access.subjects_[subject];
        for (const auto& [name, list] : given) {
            if (rights::is_user_setting(name)) {
                ROS2S_TRY(access.users_[subject][""].set(name, list, record.of(name), report));
                continue;
            }
            const auto right = std::ranges::find(right_names, name);
            if (right == right_names.end()) {
                return report.fail(Code::invalid, "{}: there is no right '{}'; the rights are {}",
                                   record.of(), name, fmt::join(right_names, ", "));
            }
            for (const auto part : std::views::split(list, ',')) {
                const std::string_view text = without_spaces({part.begin(), part.end()});
                const auto index = static_cast<size_t>(right - right_names.begin());
                ROS2S_TRY_ASSIGN(auto given_place, parse_grant(text, static_cast<Right>(index),
                                                               places, record.of(name), report));
                rights[index].push_back(std::move(given_place));
            }
        }
    }
    return access;
}

void AccessTable::add(const std::string& subject, Right right, const std::string& pool,
                      Granted granted) {
    policy_.reset();
    subjects_[subject][static_cast<size_t>(right)].push_back(
        {.pool = pool, .granted = std::move(granted)});
}

void AccessTable::add_users(const std::string& subject, const std::string& pool,
                            rights::UserMapping users) {
    policy_.reset();
    users_[subject].insert_or_assign(pool, std::move(users));
}

const rights::UserMapping& AccessTable::users_of(std::string_view subject,
                                                 std::string_view pool) const {
    static const rights::UserMapping anybody;
    const auto its = [&]() -> const rights::UserMapping& {
        const auto found = users_.find(subject);
        if (found == users_.end()) return anybody;
        const auto in_pool = found->second.find(pool);
        if (in_pool != found->second.end()) return in_pool->second;
        const auto settings = found->second.find("");
        return settings != found->second.end() ? settings->second : anybody;
    };
    const rights::UserMapping& users = its();
    ROS2S_CHECK(policy_ == nullptr || policy_->principal(subject, pool).users == users);
    return users;
}

void AccessTable::remove(std::string_view subject, std::string_view pool) {
    policy_.reset();
    const auto found = subjects_.find(subject);
    if (found == subjects_.end()) return;
    for (auto& places : found->second) {
        std::erase_if(places, [&](const PoolGrant& each) { return each.pool == pool; });
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
    const auto has = [&](Right right, const PoolGrant& wanted) {
        return std::ranges::any_of(ours[static_cast<size_t>(right)], [&](const PoolGrant& some) {
            return some.pool == pool && some.granted.has(wanted.granted);
        });
    };
    for (size_t i = 0; i < right_names.size(); ++i) {
        const auto right = static_cast<Right>(i);
        for (const PoolGrant& each : (*theirs)[i]) {
            if (each.pool != pool || has(right, each)) continue;
            if (right != Right::read || !has(Right::write, each)) return false;
        }
    }
    return true;
}

const AccessTable::Rights* AccessTable::rights_of(std::string_view subject) const {
    const auto found = subjects_.find(subject);
    return found == subjects_.end() ? nullptr : &found->second;
}

bool AccessTable::checked(bool earlier, std::string_view subject, rights::Wanted what,
                          std::string_view pool, std::string_view container) const {
    if (policy_ == nullptr) return earlier;
    const rights::Principal principal{.subject = std::string(subject)};
    const rights::Container there{.pool = pool, .label = container};
    const rights::Decision decision = decide(*policy_, principal, there, what);
    rights::check_same(decision.is_whole_for(what) == earlier, earlier ? "yes" : "no", principal,
                       there, what, decision);
    return earlier;
}

void AccessTable::visit_rights(const VisitRight& visit) const {
    for (const auto& [subject, rights] : subjects_) {
        for (const Right right : {Right::read, Right::write, Right::create, Right::destroy}) {
            for (const PoolGrant& each : rights[static_cast<size_t>(right)]) {
                visit(subject, right, each.pool, each.granted);
            }
        }
    }
}

void AccessTable::visit_users(const VisitUsers& visit) const {
    for (const auto& [subject, by_pool] : users_) {
        for (const auto& [pool, users] : by_pool) visit(subject, pool, users);
    }
}

bool AccessTable::allows(std::string_view subject, Right right, std::string_view pool,
                         std::string_view container) const {
    return checked(is_allowed(subject, right, pool, container), subject, rights::wanted(right),
                   pool, container);
}

bool AccessTable::is_allowed(std::string_view subject, Right right, std::string_view pool,
                             std::string_view container) const {
    const Rights* const rights = rights_of(subject);
    if (rights == nullptr) return false;
    const auto given = [&](Right each) {
        return std::ranges::any_of((*rights)[static_cast<size_t>(each)],
                                   [&](const PoolGrant& some) {
                                       return some.pool == pool && some.granted.path.empty() &&
                                              some.granted.has(container);
                                   });
    };
    return given(right) || (right == Right::read && given(Right::write));
}

std::vector<access::Subtree> AccessTable::subtrees_of(std::string_view subject,
                                                      std::string_view pool,
                                                      std::string_view container) const {
    std::vector<access::Subtree> subtrees;
    const Rights* const rights = rights_of(subject);
    if (rights == nullptr) return subtrees;
    for (const Right right : {Right::read, Right::write}) {
        for (const PoolGrant& each : (*rights)[static_cast<size_t>(right)]) {
            if (each.pool != pool || each.granted.path.empty() || !each.granted.has(container)) {
                continue;
            }
            subtrees.push_back({.path = each.granted.path, .writable = right == Right::write});
        }
    }
    return subtrees;
}

bool AccessTable::sees(std::string_view subject, std::string_view pool,
                       std::string_view container) const {
    const bool has_any = std::ranges::any_of(
        std::array{Right::read, Right::write, Right::create, Right::destroy},
        [&](Right right) { return is_allowed(subject, right, pool, container); });
    return checked(has_any || !subtrees_of(subject, pool, container).empty(), subject,
                   rights::Wanted::see, pool, container);
}

bool AccessTable::sees_pool(std::string_view subject, std::string_view pool) const {
    const Rights* const rights = rights_of(subject);
    const bool sees = rights != nullptr && std::ranges::any_of(*rights, [&](const auto& places) {
                          return std::ranges::find(places, pool, &PoolGrant::pool) != places.end();
                      });
    return checked(sees, subject, rights::Wanted::see_pool, pool, {});
}

}  // namespace ros2s::session
