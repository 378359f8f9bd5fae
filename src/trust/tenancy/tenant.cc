#include "tenant.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>

#include "allowance_settings.h"
#include "ros2s/base/text_parts.h"
#include "ros2s/config/units.h"

namespace ros2s::tenancy {
namespace {

constexpr std::string_view subjects_key = "subjects";
constexpr std::string_view until_key = "until";
constexpr std::string_view space_key = "space";
constexpr std::string_view files_key = "files";
// Only in the file.
constexpr std::string_view generation_key = "generation";
constexpr std::string_view first_generation_key = "first_generation";
constexpr std::string_view removed_generation_key = "removed_generation";
constexpr std::string_view clock_min_key = "clock_min";
constexpr std::string_view revoked_key = "revoked";
constexpr std::string_view expired_key = "expired";
constexpr std::string_view revocations_key = "revocations";
constexpr std::string_view revoked_capabilities_key = "revoked_capabilities";
// 2: with removed_generation. 3: with a tenant that has expired, or one clock_min for all tenants,
// which is not written any more. 4: with that of a tenant. A file without these can be read by
// programs that know only 1.
constexpr uint64_t document_format = 1, document_format_max = 4;
// No pool reaches it. From a greater one, the next could not be written.
constexpr uint64_t generation_max = uint64_t{1} << 62;

Result<WallTime> parse_time(const std::string& text, std::string_view where, Report& report) {
    for (const char* const form : {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d"}) {
        std::tm fields{};
        const char* const end = ::strptime(text.c_str(), form, &fields);
        // A WallTime begins in 1677 and ends in 2262.
        const bool is_near = fields.tm_year >= 1970 - 1900 && fields.tm_year <= 2200 - 1900;
        if (end == nullptr || *end != '\0' || !is_near) continue;
        return WallTime(std::chrono::seconds(::timegm(&fields)));
    }
    return report.fail(Code::invalid,
                       "{}: '{}' is not a time; write a day or a time in UTC from 1970 to 2200, as "
                       "in 2027-01-31 or 2027-01-31T18:00:00Z",
                       where, text);
}

bool is_text(std::string_view text) {
    return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

Result<> parse_right(Tenant& tenant, rights::Right right, const std::string& list,
                     std::string_view where, Report& report) {
    for (const std::string& each : parts_of(list)) {
        std::string why;
        auto grant = rights::parse_grant(right, each, why);
        if (!why.empty()) {
            return report.fail(Code::invalid, "{}: '{}': {}", where, each, why);
        }
        if (!grant) {
            return report.fail(Code::invalid,
                               "{}: '{}' is not the name of a container; a * at the end matches "
                               "the rest of a name: images, run-*, *",
                               where, each);
        }
        tenant.grants.push_back(std::move(*grant));
    }
    return {};
}

}  // namespace

std::string Tenant::owner() const {
    return first_generation == 1 ? name : fmt::format("{}#{}", name, first_generation);
}

bool Tenant::has_subject(std::string_view subject) const {
    return std::ranges::find(subjects, subject) != subjects.end();
}

bool Tenant::has_revoked(const capability::PublicKey& program) const {
    return std::ranges::any_of(revoked_capabilities,
                               [&](const auto& each) { return each.second.program == program; });
}

bool Tenant::has_revoked(const capability::Capability& first,
                         const capability::Capability& last) const {
    return revoked_capabilities.contains(first.id) || revoked_capabilities.contains(last.id) ||
           has_revoked(first.holder);
}

const Tenant* tenant_of(const TenantsByName& tenants, std::string_view subject) {
    const auto found = std::ranges::find_if(
        tenants, [&](const auto& each) { return each.second.has_subject(subject); });
    return found == tenants.end() ? nullptr : &found->second;
}

Tenant TenantsOfPool::make(std::string name) const {
    const uint64_t first = removed_generation + 1;
    return {.name = std::move(name), .generation = first, .first_generation = first};
}

Result<uint64_t> parse_space_cap(const std::string& text, std::string_view where, Report& report) {
    const auto bytes = config::parse_size(text);
    if (bytes) return *bytes;
    return report.fail(Code::invalid, "{}: '{}' is not a size; write it as in 500GiB; 0: no cap",
                       where, text);
}

Result<uint64_t> parse_files_cap(const std::string& text, std::string_view where, Report& report) {
    const auto files = config::parse_count(text);
    if (files && *files <= UINT64_MAX / object::values_of_file) {
        return *files * object::values_of_file;
    }
    return report.fail(Code::invalid,
                       "{}: '{}' is not a number of files; write it as in 10M or 20000; 0: no cap",
                       where, text);
}

bool is_removal(std::string_view name, std::string_view text) {
    const bool is_limiting = is_limit(name) || name == space_key || name == files_key;
    return text.empty() || (text == "none" && is_limiting);
}

Result<> parse_settings(Tenant& tenant, const SettingPlace& where, Report& report) {
    if (!object::is_valid_label(tenant.name)) {
        return report.fail(
            Code::invalid,
            "{}: '{}' is not the name of a tenant; use 1 to 127 of A-Z a-z 0-9 . _ -", where.of(),
            tenant.name);
    }
    config::Entries limits;
    for (const auto& [name, text] : tenant.settings) {
        const std::string place = where.of(name);
        if (text.size() > setting_bytes_max || !is_text(text)) {
            return report.fail(Code::invalid, "{}: a setting has up to {} bytes, in one line",
                               place, setting_bytes_max);
        }
        if (name == subjects_key) {
            ROS2S_TRY_ASSIGN(tenant.subjects, rights::parse_subjects(text, place, report));
        } else if (name == until_key) {
            ROS2S_TRY_ASSIGN(tenant.until, parse_time(text, place, report));
        } else if (name == space_key) {
            ROS2S_TRY_ASSIGN(tenant.caps.bytes, parse_space_cap(text, place, report));
        } else if (name == files_key) {
            ROS2S_TRY_ASSIGN(tenant.caps.values, parse_files_cap(text, place, report));
        } else if (const auto right = std::ranges::find(rights::right_names, name);
                   right != rights::right_names.end()) {
            ROS2S_TRY(parse_right(
                tenant,
                rights::all_rights[static_cast<size_t>(right - rights::right_names.begin())], text,
                place, report));
        } else if (rights::is_user_setting(name)) {
            ROS2S_TRY(tenant.users.set(name, text, place, report));
        } else if (is_limit(name)) {
            limits.emplace(name, text);
        } else {
            return report.fail(
                Code::invalid,
                "{}: there is no such setting; the settings are {}, {}, {}, {}, {}, {}, {}", place,
                subjects_key, fmt::join(rights::right_names, ", "), until_key, space_key, files_key,
                fmt::join(limit_names(), ", "), fmt::join(rights::user_setting_names, ", "));
        }
    }
    if (tenant.subjects.empty()) {
        return report.fail(Code::invalid,
                           "{}: '{}' names no certificate; `ros2store certs show FILE.crt` prints "
                           "its subject, for example CN={}",
                           where.of(), subjects_key, tenant.name);
    }
    if (!limits.empty()) {
        ROS2S_TRY_ASSIGN(tenant.allowance, parse_allowance(limits, where, report));
    }
    return {};
}

Result<> check_subjects(const TenantsByName& tenants, const Tenant& changed, Report& report) {
    for (const auto& [name, other] : tenants) {
        if (name == changed.name) continue;
        for (const std::string& subject : changed.subjects) {
            if (!other.has_subject(subject)) continue;
            return report.fail(Code::exists,
                               "'{}' is a subject of the tenant '{}', and a subject has one "
                               "tenant; remove it there first",
                               subject, name);
        }
    }
    return {};
}

namespace {

// "UUID NANOSECONDS" or "UUID NANOSECONDS KEY", separated by commas.
std::string text_of(const RevokedCapabilities& revoked) {
    std::string text;
    for (const auto& [id, what] : revoked) {
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", id.to_string(),
                            what.until.time_since_epoch().count());
        if (what.program) text += fmt::format(" {:02x}", fmt::join(*what.program, ""));
    }
    return text;
}

Result<> parse_revoked(std::string_view text, RevokedCapabilities& into) {
    for (const std::string& each : parts_of(text)) {
        std::string_view left = each;
        const auto word = [&left] {
            const std::string_view found = left.substr(0, left.find(' '));
            left.remove_prefix(std::min(found.size() + 1, left.size()));
            return found;
        };
        ROS2S_TRY_ASSIGN(const Uuid id, Uuid::parse(word()));
        int64_t until = 0;
        if (!parse_number(word(), until)) return fail(Code::invalid);
        RevokedCapability revoked{.until = WallTime(Duration(until))};
        if (const std::string_view key = word(); !key.empty()) {
            capability::PublicKey& program = revoked.program.emplace();
            if (key.size() != 2 * program.size()) return fail(Code::invalid);
            for (size_t i = 0; i < program.size(); ++i) {
                if (!parse_number(key.substr(2 * i, 2), program[i], 16)) return fail(Code::invalid);
            }
        }
        if (!left.empty()) return fail(Code::invalid);
        into.emplace(id, revoked);
    }
    return {};
}

// Not before the time.
uint64_t seconds_to(WallTime time) {
    const auto whole = std::chrono::floor<std::chrono::seconds>(time);
    return static_cast<uint64_t>(whole.time_since_epoch().count() + (whole < time ? 1 : 0));
}
constexpr uint64_t seconds_max = INT64_MAX / 1'000'000'000;

struct Document {
    uint64_t format = document_format;
    uint64_t removed_generation = 0;
    uint64_t clock_min = 0;
    std::map<std::string, config::Entries> tenants;
    RecordLines lines;
};

config::Table describe(Document& document) {
    config::Records records{.into = &document.tenants};
    records.keys = {{subjects_key, ""},    {until_key, ""},
                    {space_key, ""},       {files_key, ""},
                    {generation_key, ""},  {first_generation_key, ""},
                    {revoked_key, ""},     {expired_key, ""},
                    {revocations_key, ""}, {revoked_capabilities_key, ""},
                    {clock_min_key, ""}};
    for (const std::string_view right : rights::right_names) records.keys.push_back({right, ""});
    for (const std::string_view limit : limit_names()) records.keys.push_back({limit, ""});
    for (const std::string_view name : rights::user_setting_names) {
        records.keys.push_back({name, ""});
    }
    records.lines = &document.lines;
    return {{"",
             "",
             {config::count("format", document.format, document_format, document_format_max,
                            "Of this file."),
              config::count(removed_generation_key, document.removed_generation, 0, generation_max,
                            "The highest of removed tenants."),
              config::count(clock_min_key, document.clock_min, 0, seconds_max * 1'000'000'000,
                            "Nanoseconds since 1970.")}},
            {"tenants", "", {}, nullptr, {std::move(records)}}};
}

// Moves the entry, if it is there, into the field's variable.
Result<> take(config::Entries& entries, const config::Field& field, const SettingPlace& where,
              Report& report) {
    const auto found = entries.extract(std::string(field.name()));
    if (!found) return {};
    Report problem;
    const auto value = field.read(found.mapped(), problem);
    if (!value) {
        return report.fail(value.error(), "{}: {}", where.of(field.name()), problem.text());
    }
    field.store(*value);
    return {};
}

}  // namespace

std::string document_of(const TenantsOfPool& pool) {
    const bool has_removed = pool.removed_generation > 0;
    bool has_clock = false, has_expired = false;
    for (const auto& [name, tenant] : pool.tenants) {
        has_clock = has_clock || tenant.clock_min > WallTime();
        has_expired = has_expired || tenant.expired;
    }
    const uint64_t format = has_clock ? 4 : has_expired ? 3 : has_removed ? 2 : document_format;
    std::string text = fmt::format(
        "# The tenants of this pool. `ros2store tenant` changes them while the engine runs.\n"
        "format: {}\n",
        format);
    if (has_removed) {
        text += fmt::format("{}: {}\n", removed_generation_key, pool.removed_generation);
    }
    text += fmt::format("tenants:{}\n", pool.tenants.empty() ? " {}" : "");
    for (const auto& [name, tenant] : pool.tenants) {
        text += fmt::format("  {}:\n    {}: {}\n", double_quoted(name), generation_key,
                            tenant.generation);
        if (tenant.first_generation > 1) {
            text += fmt::format("    {}: {}\n", first_generation_key, tenant.first_generation);
        }
        if (tenant.revoked) text += fmt::format("    {}: true\n", revoked_key);
        if (tenant.expired) text += fmt::format("    {}: true\n", expired_key);
        if (tenant.revocations > 0) {
            text += fmt::format("    {}: {}\n", revocations_key, tenant.revocations);
        }
        if (tenant.clock_min > WallTime()) {
            text += fmt::format("    {}: {}\n", clock_min_key, seconds_to(tenant.clock_min));
        }
        if (!tenant.revoked_capabilities.empty()) {
            text += fmt::format("    {}: {}\n", revoked_capabilities_key,
                                double_quoted(text_of(tenant.revoked_capabilities)));
        }
        for (const auto& [key, value] : tenant.settings) {
            text += fmt::format("    {}: {}\n", key, double_quoted(value));
        }
    }
    return text;
}

Result<TenantsOfPool> parse_document(std::string_view yaml, std::string_view where,
                                     Report& report) {
    Document document;
    ROS2S_TRY(config::parse(yaml, where, describe(document), report));
    TenantsOfPool pool{.removed_generation = document.removed_generation};
    TenantsByName& tenants = pool.tenants;
    for (auto& [name, entries] : document.tenants) {
        const SettingPlace place(where, fmt::format("'{}'", name), document.lines[name]);
        Tenant tenant{.name = name};
        uint64_t clock_min = seconds_to(WallTime(Duration(document.clock_min)));
        for (const config::Field& field :
             {config::count(generation_key, tenant.generation, 1, generation_max, "Changes."),
              config::count(first_generation_key, tenant.first_generation, 1, generation_max,
                            "At its creation."),
              config::flag(revoked_key, tenant.revoked, "It has no rights."),
              config::flag(expired_key, tenant.expired, "Its end has come."),
              config::count(clock_min_key, clock_min, 0, seconds_max, "Since 1970."),
              config::count(revocations_key, tenant.revocations, 0, UINT64_MAX,
                            "Of single capabilities.")}) {
            ROS2S_TRY(take(entries, field, place, report));
        }
        tenant.clock_min = WallTime(std::chrono::seconds(clock_min));
        if (const auto revoked = entries.extract(std::string(revoked_capabilities_key))) {
            const auto parsed = parse_revoked(revoked.mapped(), tenant.revoked_capabilities);
            if (!parsed) {
                return report.fail(parsed.error(),
                                   "{}: this is not a list of capabilities; without it, those that "
                                   "were revoked in the last hour are valid again",
                                   place.of(revoked_capabilities_key));
            }
        }
        tenant.settings = std::move(entries);
        ROS2S_TRY(parse_settings(tenant, place, report));
        Report problem;
        if (const auto checked = check_subjects(tenants, tenant, problem); !checked) {
            return report.fail(checked.error(), "{}: {}", place.of(subjects_key), problem.text());
        }
        tenants.emplace(name, std::move(tenant));
    }
    return pool;
}

}  // namespace ros2s::tenancy
