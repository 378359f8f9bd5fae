// ls: directories, sorted by name, or single files.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "output/describe.h"
#include "places.h"

namespace ros2s::cli {
namespace {

struct Listing {
    const FileOptions& options;
    std::vector<Json> values;
};

Task<Result<>> show(Workplace work, const Place& place, const fs::Attributes& attributes,
                    const std::string& name, const std::string& path, Listing& listing) {
    std::string target;
    if (S_ISLNK(attributes.mode)) {
        auto read = co_await place.file_system->readlink(work.call, attributes.node);
        if (!read) co_return explain(work, path, read.error());
        target = std::move(*read);
    }
    if (listing.options.long_form) {
        work.session.say(fmt::format(
            "{} {:>3} {:<8} {:<8} {:>10} {} {}{}", mode_text(attributes.mode), attributes.links,
            user_text(attributes.uid), group_text(attributes.gid), human_bytes(attributes.size),
            time_text(attributes.modified), name, target.empty() ? "" : " -> " + target));
    } else {
        work.session.say(name + (S_ISDIR(attributes.mode) ? "/" : ""));
    }
    if (work.session.json()) {
        listing.values.push_back(attributes_value(path, attributes, target));
    }
    co_return Result<>{};
}

// The heading of a directory's entries, in the argument's form: a URI or a local path.
std::string heading(const Place& place, const std::string& path) {
    Report ignored;
    if (place.local) return path;
    auto uri = api::Uri::parse(place.shown, ignored);
    if (!uri) return path;
    uri->path = path.substr(std::min(path.find_first_not_of('/'), path.size()));
    return uri->to_string();
}

// `path` is printed; the node is read. Subdirectories follow the directory, as with ls -R.
Task<Result<>> list_directory(Workplace work, const Place& place, fs::NodeId node, std::string path,
                              Listing& listing) {
    fs::FileSystem& file_system = *place.file_system;
    auto entries = co_await read_directory(work, file_system, node);
    if (!entries) co_return explain(work, path, entries.error());
    std::erase_if(*entries, [&](const auto& entry) {
        return entry.name.starts_with('.') && !listing.options.all;
    });
    std::ranges::sort(*entries, {}, &fs::DirectoryEntry::name);
    std::vector<std::pair<std::string, fs::NodeId>> below;
    std::span<const fs::DirectoryEntry> left(*entries);
    while (!left.empty()) {
        ROS2S_CO_TRY(work.call.check(work.environment.reactor.now()));
        const auto part = left.first(std::min(left.size(), fs::names_together_max));
        left = left.subspan(part.size());
        const auto names = names_of(part);
        const auto found = co_await file_system.lookup_many(work.call, node, names);
        for (size_t i = 0; i < part.size(); ++i) {
            const auto& attributes = found[i];
            // It was removed meanwhile.
            if (!attributes && attributes.error().code == Code::not_found) continue;
            const std::string full = path + (path.ends_with('/') ? "" : "/") + part[i].name;
            if (!attributes) co_return explain(work, full, attributes.error());
            ROS2S_CO_TRY(co_await show(work, place, *attributes, part[i].name, full, listing));
            if (listing.options.recursive && S_ISDIR(attributes->mode)) {
                below.emplace_back(full, attributes->node);
            } else {
                file_system.forget(attributes->node, 1);
            }
        }
    }
    for (const auto& [name, child] : below) {
        work.session.say(fmt::format("\n{}:", heading(place, name)));
        ROS2S_CO_TRY(co_await list_directory(work, place, child, name, listing));
        file_system.forget(child, 1);
    }
    co_return Result<>{};
}

Task<Result<>> ls_all(Workplace work, Places& places, const FileOptions& options) {
    Listing listing{.options = options, .values = {}};
    for (const std::string& text : options.places) {
        ROS2S_CO_TRY_ASSIGN(const Place place, co_await places.open(text));
        ROS2S_CO_TRY_ASSIGN(const fs::Attributes attributes,
                            co_await find(work, place, Follow::yes));
        if (!S_ISDIR(attributes.mode)) {
            ROS2S_CO_TRY(co_await show(work, place, attributes, place.shown, place.shown, listing));
            continue;
        }
        // Below a URI, paths are printed from the container's root; below a directory, from itself.
        const std::string path = place.local ? place.shown : "/" + place.path;
        if (options.places.size() > 1 || options.recursive) {
            work.session.say(fmt::format("{}:", heading(place, path)));
        }
        ROS2S_CO_TRY(co_await list_directory(work, place, attributes.node, path, listing));
    }
    work.session.answer(Json::object({{"entries", Json::array(listing.values)}}));
    co_return Result<>{};
}

}  // namespace

Task<Result<>> ls(Workplace work, FileOptions options) {
    return with_places(work, std::move(options), ls_all, Places::Use::looks);
}

}  // namespace ros2s::cli
