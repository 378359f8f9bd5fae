// ls: directories, sorted by name, or single files.
#include <sys/stat.h>

#include <algorithm>

#include "locations.h"
#include "output/describe.h"

namespace ros2s::cli {
namespace {

struct Listing {
    const FileOptions& options;
    std::vector<Json> values;
};

Task<Result<>> show(CommandContext context, const Location& location,
                    const fs::Attributes& attributes, const std::string& name,
                    const std::string& path, Listing& listing) {
    std::string target;
    if (S_ISLNK(attributes.mode)) {
        auto read = co_await location.file_system->readlink(context.call, attributes.node);
        if (!read) co_return explain(context, path, read.error());
        target = std::move(*read);
    }
    if (listing.options.long_form) {
        context.console.say("{} {:>3} {:<8} {:<8} {:>10} {} {}{}", mode_text(attributes.mode),
                            attributes.links, user_text(attributes.uid), group_text(attributes.gid),
                            human_bytes(attributes.size), time_text(attributes.modified),
                            context.console.name(name),
                            target.empty() ? "" : " -> " + context.console.name(target));
    } else {
        context.console.say(context.console.name(name) + (S_ISDIR(attributes.mode) ? "/" : ""));
    }
    if (context.console.json()) {
        listing.values.push_back(attributes_value(path, attributes, target));
    }
    co_return Result<>{};
}

// The heading of a directory's entries, in the argument's form: a URI or a local path.
std::string heading(const Location& location, const std::string& path) {
    Report ignored;
    if (location.local) return path;
    auto uri = api::Uri::parse(location.shown, ignored);
    if (!uri) return path;
    uri->path = path.substr(std::min(path.find_first_not_of('/'), path.size()));
    return uri->to_string();
}

// `path` is printed; the node is read. Subdirectories follow the directory, as with ls -R.
Task<Result<>> list_directory(CommandContext context, const Location& location, fs::NodeId node,
                              std::string path, Listing& listing) {
    fs::FileSystem& file_system = *location.file_system;
    auto entries = co_await read_directory(context, file_system, node);
    if (!entries) co_return explain(context, path, entries.error());
    std::erase_if(*entries, [&](const auto& entry) {
        return entry.name.starts_with('.') && !listing.options.all;
    });
    std::ranges::sort(*entries, {}, &fs::DirectoryEntry::name);
    std::vector<std::pair<std::string, fs::NodeId>> below;
    std::span<const fs::DirectoryEntry> left(*entries);
    while (!left.empty()) {
        ROS2S_CO_TRY(context.call.check(context.environment.reactor));
        const auto part = left.first(std::min(left.size(), fs::names_together_max));
        left = left.subspan(part.size());
        const auto names = names_of(part);
        const auto found = co_await file_system.lookup_many(context.call, node, names);
        for (size_t i = 0; i < part.size(); ++i) {
            const auto& attributes = found[i];
            // It was removed meanwhile.
            if (!attributes && attributes.error().code == Code::not_found) continue;
            const std::string full = path + (path.ends_with('/') ? "" : "/") + part[i].name;
            if (!attributes) co_return explain(context, full, attributes.error());
            ROS2S_CO_TRY(
                co_await show(context, location, *attributes, part[i].name, full, listing));
            if (listing.options.recursive && S_ISDIR(attributes->mode)) {
                below.emplace_back(full, attributes->node);
            } else {
                file_system.forget(attributes->node, 1);
            }
        }
    }
    for (const auto& [name, child] : below) {
        context.console.say("\n{}:", context.console.name(heading(location, name)));
        ROS2S_CO_TRY(co_await list_directory(context, location, child, name, listing));
        file_system.forget(child, 1);
    }
    co_return Result<>{};
}

Task<Result<>> ls_all(CommandContext context, Locations& locations, const FileOptions& options) {
    Listing listing{.options = options, .values = {}};
    for (const std::string& text : options.locations) {
        ROS2S_CO_TRY_ASSIGN(const Location location, co_await locations.open(text));
        ROS2S_CO_TRY_ASSIGN(const fs::Attributes attributes,
                            co_await find(context, location, Follow::yes));
        if (!S_ISDIR(attributes.mode)) {
            ROS2S_CO_TRY(co_await show(context, location, attributes, location.shown,
                                       location.shown, listing));
            continue;
        }
        // Below a URI, paths are printed from the container's root; below a directory, from itself.
        const std::string path = location.local ? location.shown : "/" + location.path;
        if (options.locations.size() > 1 || options.recursive) {
            context.console.say("{}:", heading(location, path));
        }
        ROS2S_CO_TRY(co_await list_directory(context, location, attributes.node, path, listing));
    }
    context.console.answer(Json::object({{"entries", Json::array(listing.values)}}));
    co_return Result<>{};
}

}  // namespace

Task<Result<>> ls(CommandContext context, FileOptions options) {
    return with_locations(context, std::move(options), ls_all, Locations::Use::looks);
}

}  // namespace ros2s::cli
