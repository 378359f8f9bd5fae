#include "settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "ros2s/base/json.h"
#include "ros2s/base/text_parts.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/object/object_store.h"

namespace ros2s::rights {
namespace {

// Empty: nothing.
std::string wrong_with(std::string_view path) {
    if (path.empty()) {
        return "there is no directory after the '/'; leave the '/' out to give the whole container";
    }
    if (path.find('*') != path.npos) return "a * is possible in names of containers only";
    const bool is_text =
        std::ranges::none_of(path, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (!is_text || !is_utf8(path)) {
        return "the path of a directory has letters of UTF-8 and no control characters";
    }
    size_t count = 0;
    for (size_t begin = 0; begin <= path.size(); ++count) {
        const size_t end = std::min(path.find('/', begin), path.size());
        const std::string_view name = path.substr(begin, end - begin);
        if (name.empty()) return "a name in its path is empty";
        if (const auto valid = fs::check_name(name); !valid) {
            return valid.error().code == Code::name_too_long
                       ? fmt::format("a name in its path has more than {} bytes",
                                     fs::name_bytes_max)
                       : "its path has '.' or '..'; write the whole path from the container's root";
        }
        begin = end + 1;
    }
    if (count > path_names_max) {
        return fmt::format("its path has more than {} names", path_names_max);
    }
    return {};
}

Result<Grant> parse_in_pool(std::string_view text, Right right, GrantScope scope,
                            std::string_view where, Report& report) {
    const size_t slash = text.find('/');
    const std::string_view pool = text.substr(0, slash);
    std::string why;
    Result<Grant> grant = fail(Code::invalid);
    if (slash != text.npos && object::is_valid_label(pool)) {
        grant = parse_grant(right, text.substr(slash + 1), why);
    }
    if (grant && !grant->path.empty() && scope == GrantScope::containers) {
        why =
            "an engine gives rights on whole containers; a DPU gives them on directories, to its "
            "hosts";
    }
    if (!why.empty()) return report.fail(Code::invalid, "{}: '{}': {}", where, text, why);
    if (!grant) {
        return report.fail(Code::invalid,
                           "{}: '{}' is not of the form POOL/CONTAINER{}; a * at the end matches "
                           "the rest of a name: pool/main, pool/run-*, pool/*",
                           where, text,
                           scope == GrantScope::directories ? " or POOL/CONTAINER/DIRECTORY" : "");
    }
    grant->pool = pool;
    return grant;
}

}  // namespace

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

Result<Grant> parse_grant(Right right, std::string_view text, std::string& why) {
    const size_t slash = text.find('/');
    Grant grant{
        .pool = {}, .container = {std::string(text.substr(0, slash))}, .path = {}, .rights = right};
    const ContainerPattern& container = grant.container;
    const bool has_path = slash != text.npos;
    if (text != "*" && !object::is_valid_label(has_path ? container.text : container.label())) {
        return fail(Code::invalid);
    }
    if (!has_path) return grant;
    std::string_view path = text.substr(slash + 1);
    if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
    grant.path = path;
    why = wrong_with(grant.path);
    if (why.empty() && right != Right::read && right != Right::write) {
        why =
            "this right is for whole containers; whoever may write to a directory may make and "
            "remove what is in it";
    }
    if (!why.empty()) return fail(Code::invalid);
    return grant;
}

Result<Subjects> parse_access(const AccessSettings& settings, std::string_view where,
                              Report& report, GrantScope scope, const RecordLines& lines) {
    Subjects subjects;
    for (const auto& [name, given] : settings) {
        const KeyLines own = lines_of(lines, name);
        ROS2S_TRY(check_subject(name, SettingPlace(where, "access", own).of(), report));
        const SettingPlace record(where, fmt::format("access: '{}'", name), own);
        SubjectParty& subject = subjects[name];
        for (const auto& [key, list] : given) {
            if (is_user_setting(key)) {
                ROS2S_TRY(subject.users[""].set(key, list, record.of(key), report));
                continue;
            }
            const auto right = std::ranges::find(right_names, key);
            if (right == right_names.end()) {
                return report.fail(Code::invalid, "{}: there is no right '{}'; the rights are {}",
                                   record.of(), key, fmt::join(right_names, ", "));
            }
            for (const auto part : std::views::split(list, ',')) {
                ROS2S_TRY_ASSIGN(
                    auto grant,
                    parse_in_pool(without_spaces({part.begin(), part.end()}),
                                  all_rights[static_cast<size_t>(right - right_names.begin())],
                                  scope, record.of(key), report));
                subject.grants.push_back(std::move(grant));
            }
        }
    }
    return subjects;
}

}  // namespace ros2s::rights
