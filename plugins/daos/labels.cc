#include "labels.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "pools.h"
#include "ros2s/api/uri.h"
#include "ros2s/base/trusted_file.h"
#include "ros2s/base/uuid.h"
#include "ros2s/config/config.h"
#include "ros2s/object/object_store.h"

namespace ros2s::daos {
namespace {

constexpr const char* variable = "ROS2STORE_DAOS";
constexpr const char* usual_file = "/etc/ros2store/daos.yaml";
constexpr std::string_view scheme_end = "://";

struct Settings {
    std::string base;
    config::Entries pools;
};

config::Table describe(Settings& settings) {
    return {{"",
             "Where the pools of DAOS programs are.",
             {config::text("default", settings.base,
                           "The base URI of pools that are not listed under pools.")}},
            {"pools", "The base URIs of single pools, by label.", {}, &settings.pools}};
}

// `what` begins the sentence if there is no file. It names the pool.
Result<Settings> read_settings(const std::string& path, std::string_view what, Report& report) {
    constexpr size_t bytes_max = 1 << 20;  // config::parse() takes no more
    Report why;
    const auto text = read_trusted(path, bytes_max, why);
    if (!text) {
        return report.fail(Code::not_found,
                           "{}: {}. Set {} to a base URI, such as ros2s+local:///POOL?dir=DIR, or "
                           "to a file of labels (docs/daos.md)",
                           what, why.text(), variable);
    }
    Settings settings;
    ROS2S_TRY(config::parse(*text, path, describe(settings), report));
    return settings;
}

// The variable's value, or the usual file.
std::string setting() {
    const char* const set = std::getenv(variable);
    return set == nullptr || *set == '\0' ? usual_file : set;
}

Result<ContainerUris> find_in_file(const std::string& path, std::string_view label,
                                   Report& report) {
    ROS2S_TRY_ASSIGN(const auto settings,
                     read_settings(path, fmt::format("pool '{}'", label), report));
    const auto listed = settings.pools.find(std::string(label));
    if (listed != settings.pools.end()) return uris_in(listed->second, path, label, report);
    if (const auto wanted = Uuid::parse(label)) {
        for (const auto& [name, uri] : settings.pools) {
            uuid_t id{};
            uuid_of(name, id);
            if (std::memcmp(&id, wanted->bytes.data(), sizeof id) == 0) {
                return uris_in(uri, path, name, report);
            }
        }
    }
    if (!settings.base.empty()) return uris_in(settings.base, path, label, report);
    return report.fail(
        Code::not_found,
        "pool '{}': {} has neither this label under pools nor a default. Add one of them", label,
        path);
}

}  // namespace

Result<ContainerUris> uris_in(std::string_view base_uri, std::string_view where,
                              std::string_view label, Report& report) {
    const auto scheme = base_uri.find(scheme_end);
    const auto query = std::min(base_uri.find('?'), base_uri.size());
    std::string before(base_uri.substr(0, query));
    while (before.ends_with('/') && before.size() > scheme + scheme_end.size()) before.pop_back();
    const auto path = before.find('/', scheme + scheme_end.size());
    if (scheme == std::string_view::npos ||
        (path != std::string::npos && before.find('/', path + 1) != std::string::npos)) {
        return report.fail(Code::invalid,
                           "{}: '{}' is not a base URI. Write one without a container, such as "
                           "ros2s+local:///POOL?dir=DIR",
                           where, base_uri);
    }
    if (path == std::string::npos) before += "/" + std::string(label);
    std::string options(base_uri.substr(query));
    // DAOS has no call that makes a change durable later.
    if (!options.contains("durability=")) {
        options += options.empty() ? "?durability=durable" : "&durability=durable";
    }
    ContainerUris uris(std::move(before), std::move(options));
    Report details;
    if (!api::Uri::parse(uris.uri_of("container"), details)) {
        return report.fail(Code::invalid, "{}: {}", where, details.text());
    }
    return uris;
}

Result<ContainerUris> find_pool(std::string_view label, Report& report) {
    if (!object::is_valid_label(label)) {
        return report.fail(Code::not_found, "pool '{}': no pool can have this label", label);
    }
    const std::string set = setting();
    return set.find(scheme_end) == std::string::npos ? find_in_file(set, label, report)
                                                     : uris_in(set, variable, label, report);
}

Result<std::vector<std::string>> listed_pools(Report& report) {
    const std::string set = setting();
    std::vector<std::string> labels;
    const auto scheme = set.find(scheme_end);
    if (scheme == std::string::npos) {
        ROS2S_TRY_ASSIGN(const auto settings, read_settings(set, "the pools", report));
        for (const auto& [label, uri] : settings.pools) labels.push_back(label);
        return labels;
    }
    const auto end = std::min(set.find('?'), set.size());
    const auto path = set.find('/', scheme + scheme_end.size());
    if (path < end && path + 1 < end) labels.push_back(set.substr(path + 1, end - path - 1));
    return labels;
}

}  // namespace ros2s::daos
