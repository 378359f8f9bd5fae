#include "access_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "ros2s/object/object_store.h"

namespace ros2s::session {
namespace {

std::string_view without_spaces(std::string_view text) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    return text;
}

}  // namespace

// A name without '=' is the likely mistake.
Result<> check_subject(std::string_view subject, std::string_view where, Report& report) {
    if (subject.find('=') != subject.npos) return {};
    return report.fail(Code::invalid,
                       fmt::format("{}: '{}' is not the subject of a certificate; `ros2store "
                                   "certs show FILE.crt` prints it, for example CN={}",
                                   where, subject, subject.empty() ? "alice" : subject));
}

bool AccessTable::Containers::contain(std::string_view pool_name,
                                      std::string_view container) const {
    if (pool != pool_name) return false;
    return is_prefix ? container.starts_with(label) : container == label;
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

AccessTable AccessTable::everything() {
    AccessTable access;
    access.everything_ = true;
    return access;
}

const AccessTable::Rights* AccessTable::rights_of(std::string_view subject) const {
    const auto found = subjects_.find(subject);
    return found == subjects_.end() ? nullptr : &found->second;
}

bool AccessTable::allows(std::string_view subject, Right right, std::string_view pool,
                         std::string_view container) const {
    if (everything_) return true;
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
    if (everything_) return true;
    const Rights* const rights = rights_of(subject);
    return rights != nullptr && std::ranges::any_of(*rights, [&](const auto& containers) {
               return std::ranges::find(containers, pool, &Containers::pool) != containers.end();
           });
}

}  // namespace ros2s::session
