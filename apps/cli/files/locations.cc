#include "locations.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "pool/pool_location.h"
#include "ros2s/foreign/open_local_directory.h"
#include "ros2s/fs/path_walk.h"
#include "ros2s/runtime/process_limits.h"

namespace ros2s::cli {
namespace {

// The directory in which a local path is looked up, and the rest of the path. The kernel walks as
// far as there are directories, so links that lead out of them work as usual.
struct LocalPath {
    std::string directory;
    std::string rest;
    std::string name;  // Location::name
};

LocalPath split(std::string_view text) {
    const bool slash = text.ends_with('/');
    while (text.size() > 1 && text.ends_with('/')) text.remove_suffix(1);
    const std::filesystem::path path(text);
    std::string name = path.filename();
    if (name == "." || name == "..") name.clear();
    std::error_code ignored;
    // A '/' at the end of a link names the directory to which it leads.
    const bool directory_itself =
        name.empty() || (slash && std::filesystem::is_symlink(path, ignored));
    if (directory_itself && std::filesystem::is_directory(path, ignored)) {
        return {.directory = path.string(), .rest = "", .name = std::move(name)};
    }
    std::filesystem::path above = path.parent_path();
    std::filesystem::path rest = path.filename();
    while (!above.empty() && !std::filesystem::is_directory(above, ignored)) {
        rest = above.filename() / rest;
        above = above.parent_path();
    }
    return {.directory = above.empty() ? "." : above.string(),
            .rest = rest.string(),
            .name = std::move(name)};
}

bool ends_with_slash(std::string_view text) {
    return text.substr(0, is_uri(text) ? text.find_first_of("?#") : text.size()).ends_with('/');
}

std::string directory_above(const Location& location) {
    const size_t slash = location.path.rfind('/');
    return written_as(location, slash == std::string::npos ? "" : location.path.substr(0, slash));
}

}  // namespace

// ---- opening ---------------------------------------------------------------------------------

Task<Result<Location>> Locations::open(std::string text) {
    if (text.empty()) {
        co_return context_.report.fail(
            Code::invalid,
            "an argument is empty: give a URI or a path, for example . for the working directory");
    }
    if (is_uri(text)) co_return co_await open_container(std::move(text));
    co_return co_await open_local(std::move(text));
}

Task<Result<Location>> Locations::open_container(std::string text) {
    ROS2S_CO_TRY_ASSIGN(api::Uri uri, api::Uri::parse(text, context_.report));
    Location location{.path = uri.path,
                      .name = uri.path.substr(uri.path.rfind('/') + 1),
                      .names_directory = ends_with_slash(text)};
    location.shown = std::move(text);
    uri.path.clear();
    ROS2S_CO_TRY(co_await find_container(uri, location));
    co_return location;
}

Task<Result<>> Locations::find_container(const api::Uri& uri, Location& location) {
    const auto use = [&location](const Container& container) {
        location.file_system = container.file_system();
        location.travels = container.travels;
        if (container.deployment == nullptr) return;
        location.host = container.deployment->mount_point();
        location.limits = container.deployment->limits();
    };
    const std::string key = uri.to_string();
    if (const auto found = containers_.find(key); found != containers_.end()) {
        use(found->second);
        co_return Result<>{};
    }
    Container container;
    for (const auto& [name, other] : containers_) {
        pool::EmbeddedPool* const pool =
            other.deployment != nullptr && other.deployment->uri().dir == uri.dir
                ? other.deployment->pool()
                : nullptr;
        if (pool == nullptr) continue;
        // Another container of a pool that this process has open.
        ROS2S_CO_TRY_ASSIGN(
            container.beside,
            co_await pool->open_container(
                context_.call, uri.container,
                {.reaps = !looks_, .layers = other.deployment->store_layers()}, context_.report));
        container.travels = other.travels;
        break;
    }
    if (container.beside == nullptr) {
        ROS2S_CO_TRY_ASSIGN(
            container.deployment,
            co_await api::Deployment::open(
                context_.call, context_.environment, uri,
                {.embedded = {.program = "ros2store"}, .read_only = looks_}, context_.report));
        container.travels = container.deployment->path();
    }
    use(containers_.emplace(key, std::move(container)).first->second);
    co_return Result<>{};
}

Task<Result<Location>> Locations::open_local(std::string text) {
    LocalPath path = split(text);
    const bool names_directory = ends_with_slash(text);
    ROS2S_CO_TRY_ASSIGN(auto file_system, co_await foreign::open_local_directory(
                                              path.directory, context_.environment.reactor,
                                              context_.environment.blocking, context_.report,
                                              {.descriptors_max = descriptor_share(4, 1024),
                                               .depth_max = SIZE_MAX - 1}));
    local_.push_back(std::move(file_system));
    co_return Location{.file_system = local_.back().get(),
                       .path = std::move(path.rest),
                       .name = std::move(path.name),
                       .shown = std::move(text),
                       .local = true,
                       .names_directory = names_directory,
                       .travels = "a local directory",
                       .host = std::move(path.directory)};
}

Task<> Locations::close() {
    for (auto& [key, container] : containers_) {
        if (container.beside == nullptr) continue;
        co_await container.beside->close_all();
        container.beside.reset();
    }
    for (auto& [key, container] : containers_) {
        if (container.deployment != nullptr) co_await container.deployment->close();
    }
    containers_.clear();
    for (const auto& file_system : local_) co_await file_system->close_all();
    local_.clear();
}

Task<Result<>> with_locations(CommandContext context, FileOptions options,
                              Task<Result<>> (*body)(CommandContext, Locations&,
                                                     const FileOptions&),
                              Locations::Use use) {
    Locations locations(context, use);
    const auto done = co_await body(context, locations, options);
    co_await locations.close();
    co_return done;
}

// ---- finding ---------------------------------------------------------------------------------

Task<Result<fs::Attributes>> find_if_there(CommandContext context, const Location& location,
                                           Follow follow) {
    return fs::resolve(*location.file_system, context.call, location.path,
                       follow == Follow::yes ? fs::LastLink::follow : fs::LastLink::keep);
}

Task<Result<fs::Attributes>> find(CommandContext context, const Location& location, Follow follow) {
    if (location.names_directory) follow = Follow::yes;
    auto found = co_await find_if_there(context, location, follow);
    if (!found && found.error().code == Code::not_found && !location.local) {
        co_return context.report.fail(
            found.error(), "{}: {}; `ros2store ls {}` shows what is there", location.shown,
            describe(found.error()), shell_word(directory_above(location)));
    }
    if (!found) co_return explain(context, location.shown, found.error());
    ROS2S_CO_TRY(check_slash(context, location, *found));
    co_return found;
}

Result<> check_slash(const CommandContext& context, const Location& location,
                     const fs::Attributes& there) {
    if (!location.names_directory || S_ISDIR(there.mode)) return {};
    return context.report.fail(
        Code::not_directory, "{} is not a directory: leave out the '/' at its end", location.shown);
}

Result<> check_slash_of_new(const CommandContext& context, const Location& location) {
    if (!location.names_directory) return {};
    return context.report.fail(Code::not_found,
                               "there is no directory {}; make it first: {} -p {}, or leave out "
                               "the '/' at its end to give a file that name",
                               location.shown, location.local ? "mkdir" : "ros2store mkdir",
                               shell_word(written_as(location, location.path)));
}

namespace {

Task<Result<Entry>> entry_of(CommandContext context, const Location& location) {
    ROS2S_CO_TRY_ASSIGN(auto walked, co_await location.file_system->walk(
                                         context.call, location.path, fs::LastLink::keep));
    if (walked.name.empty()) {
        co_return context.report.fail(
            Code::invalid, "{} is the root, which always exists; name a file or directory in it",
            location.shown);
    }
    co_return Entry{.directory = walked.parent, .name = std::move(walked.name)};
}

}  // namespace

Task<Result<Entry>> find_entry(CommandContext context, const Location& location) {
    auto entry = co_await entry_of(context, location);
    if (!entry && context.report.empty()) co_return explain(context, location.shown, entry.error());
    co_return entry;
}

Task<Result<Entry>> find_new_entry(CommandContext context, const Location& location) {
    auto entry = co_await entry_of(context, location);
    if (entry || !context.report.empty()) co_return entry;
    const std::string above = directory_above(location);
    const Error& error = entry.error();
    if (error.code == Code::not_found) {
        co_return context.report.fail(
            error, "{}: {}: the directory that it is to be in is missing; make it first: {} -p {}",
            location.shown, describe(error), location.local ? "mkdir" : "ros2store mkdir",
            shell_word(above));
    }
    if (error.code == Code::not_directory) {
        co_return context.report.fail(error, "{}: it cannot be in {}, which is not a directory",
                                      location.shown, above);
    }
    co_return explain(context, location.shown, error);
}

std::string written_as(const Location& location, const std::string& path) {
    if (location.local)
        return (std::filesystem::path(location.host) / path).lexically_normal().string();
    Report ignored;
    auto uri = api::Uri::parse(location.shown, ignored);
    if (!uri) return path;
    uri->path = path;
    return uri->to_string();
}

std::vector<std::string_view> names_of(std::span<const fs::DirectoryEntry> entries) {
    std::vector<std::string_view> names;
    for (const fs::DirectoryEntry& entry : entries) names.emplace_back(entry.name);
    return names;
}

Task<Result<std::vector<fs::DirectoryEntry>>> read_directory(CommandContext context,
                                                             fs::FileSystem& file_system,
                                                             fs::NodeId directory) {
    ROS2S_CO_TRY_ASSIGN(const fs::Opened opened,
                        co_await file_system.open(context.call, directory, {.read = true}));
    std::vector<fs::DirectoryEntry> all;
    Result<> done;
    for (uint64_t cookie = 0;;) {
        auto page = co_await file_system.readdir(context.call, opened.handle, cookie, 1024);
        if (!page) done = std::unexpected(page.error());
        if (!page || page->empty()) break;
        cookie = page->back().cookie;
        std::ranges::move(*page, std::back_inserter(all));
    }
    const auto closed = co_await file_system.close(context.call, opened.handle);
    ROS2S_CO_TRY(done);
    ROS2S_CO_TRY(closed);
    co_return all;
}

Task<Result<ConstBytes>> read_piece(CommandContext context, const Location& location,
                                    fs::FileHandle handle, uint64_t offset, Bytes buffer) {
    const auto bytes = co_await location.file_system->pread(context.call, handle,
                                                            fs::Window::local(buffer), offset);
    if (!bytes) co_return explain(context, location.shown, bytes.error());
    co_return ConstBytes(buffer).first(*bytes);
}

// ---- several arguments -----------------------------------------------------------------------

Result<> check_new_name(const CommandContext& context, const Location& from, const Location& into,
                        const std::string& name, std::set<std::string>& names) {
    if (names.insert(name).second) return {};
    return context.report.fail(Code::exists,
                               "{} would replace the '{}' that this command has just put into {}; "
                               "it stays where it is: give it another name there",
                               from.shown, name, into.shown);
}

void Failures::add(const Error& error) {
    if (!last_) context_.console.complain(sentence_);
    if (context_.report.empty()) context_.report.say(describe(error));
    sentence_ = std::exchange(context_.report, {}).text();
    last_ = std::unexpected(error);
}

Result<> Failures::result() const {
    if (!last_) context_.report.say(sentence_);
    return last_;
}

// ---- one file reached in two ways ------------------------------------------------------------

namespace {

std::filesystem::path host_path(const Location& location) {
    return std::filesystem::path(location.host) / location.path;
}

bool same_inode(const std::filesystem::path& one, const std::filesystem::path& other) {
    struct stat first{};
    struct stat second{};
    return ::lstat(one.c_str(), &first) == 0 && ::lstat(other.c_str(), &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace

bool same_on_host(const Location& from, const Location& to, const std::string& name) {
    if (from.host.empty() || to.host.empty()) return false;
    return same_inode(host_path(from), name.empty() ? host_path(to) : host_path(to) / name);
}

bool inside_on_host(const Location& from, const Location& to) {
    if (from.host.empty() || to.host.empty()) return false;
    std::error_code failed;
    const auto source = std::filesystem::canonical(host_path(from), failed);
    if (failed) return false;
    auto level = std::filesystem::canonical(host_path(to), failed);
    if (failed) level = std::filesystem::canonical(host_path(to).parent_path(), failed);
    if (failed) return false;
    for (; !same_inode(source, level); level = level.parent_path()) {
        if (level == level.parent_path()) return false;
    }
    return true;
}

// ---- messages --------------------------------------------------------------------------------

namespace {

// Returns how to start a daemon that a URI names and that has ended.
std::string what_starts_it(std::string_view uri) {
    Report ignored;
    const auto parsed = api::Uri::parse(uri, ignored);
    if (parsed && !parsed->dir.empty()) {
        return "start what does not run: ros2store up " + shell_word(parsed->dir);
    }
    return fmt::format("`ros2store doctor {}` shows what does not run",
                       parsed ? shell_word(uri) : "URI");
}

// A full pool gets room where it is kept. A path in a mount, and a host of a DPU, do not have that
// location.
std::string what_gives_room(std::string_view uri) {
    using Transport = api::Uri::Transport;
    constexpr std::string_view of_engine =
        "add a device file to the pool (ros2store pool grow DIR --size …)";
    constexpr std::string_view of_ceph =
        "raise the quota of the RADOS pool (ceph osd pool set-quota) or add OSDs";
    Report ignored;
    const auto parsed = api::Uri::parse(uri, ignored);
    if (parsed && parsed->transport == Transport::rados) return std::string(of_ceph);
    if (parsed && parsed->transport != Transport::dpu) return std::string(of_engine);
    return fmt::format("{}; in a Ceph cluster, {}", of_engine, of_ceph);
}

}  // namespace

std::unexpected<Error> explain(CommandContext context, std::string_view what, const Error& error,
                               std::string_view local, std::string_view full) {
    if ((error.code == Code::no_space || error.code == Code::over_cap) && !local.empty()) {
        return context.report.fail(error,
                                   "{}: no space is left where {} is, on this machine (no pool is "
                                   "full); make room there, or write to another place",
                                   what, local);
    }
    std::string remedy;
    switch (error.code) {
        case Code::no_space:
            remedy = "; remove something (ros2store rm -r …), or " +
                     what_gives_room(full.empty() ? what : full);
            break;
        case Code::over_cap:
            remedy =
                "; remove something (ros2store rm -r …), or let an administrator raise the cap "
                "(ros2store container query shows it; ros2store container set, ros2store tenant "
                "set)";
            break;
        case Code::corrupt:
            remedy =
                "; corrupt data was not returned: check the disk and restore the file from a copy";
            break;
        case Code::is_directory: remedy = "; `ros2store ls` shows what is in it"; break;
        case Code::disconnected: remedy = "; " + what_starts_it(what); break;
        default: break;
    }
    return context.report.fail(error, "{}: {}{}", what, describe(error), remedy);
}

}  // namespace ros2s::cli
