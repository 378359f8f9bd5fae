// cp: files and trees between containers and local directories, in any direction.
#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <set>

#include "locations.h"
#include "tree_copy.h"

namespace ros2s::cli {
namespace {

struct Target {
    Location location;
    bool is_there = false;
    bool is_directory = false;
    fs::NodeId node{};  // if it is a directory
};

Task<Result<Target>> find_target(CommandContext context, Locations& locations,
                                 const FileOptions& options) {
    Target target;
    ROS2S_CO_TRY_ASSIGN(target.location, co_await locations.open(options.locations.back()));
    const auto there = co_await find_if_there(context, target.location, Follow::yes);
    // Other problems of a new name are reported where its directory is looked up.
    if (!there && there.error().code != Code::not_found &&
        there.error().code != Code::not_directory) {
        co_return explain(context, target.location.shown, there.error());
    }
    if (there) ROS2S_CO_TRY(check_slash(context, target.location, *there));
    target.is_there = there.has_value();
    if (there && S_ISDIR(there->mode)) {
        target.is_directory = true;
        target.node = there->node;
    } else if (options.locations.size() > 2) {
        co_return context.report.fail(Code::not_directory,
                                      "{} is not a directory, and several files can be copied only "
                                      "into one; make it first: ros2store mkdir {}",
                                      target.location.shown, shell_word(target.location.shown));
    }
    co_return target;
}

// Copying a tree into itself would never end.
bool is_inside(const Location& from, const Location& to) {
    if (inside_on_host(from, to)) return true;
    return from.file_system == to.file_system &&
           (from.path.empty() || (to.path + "/").starts_with(from.path + "/"));
}

// The work of a run so far.
struct Copied {
    CopyCounts counts;
    std::set<std::string> names;  // of the sources that went into the target
};

Task<Result<>> copy_one(CommandContext context, const Location& from, const Target& target,
                        const FileOptions& options, Copied& copied) {
    if (from.local && target.location.local) {
        co_return context.report.fail(Code::unsupported,
                                      "both are local paths; the system's own cp copies them");
    }
    ROS2S_CO_TRY_ASSIGN(const fs::Attributes source, co_await find(context, from, Follow::no));
    if (S_ISDIR(source.mode) && !options.recursive) {
        co_return context.report.fail(Code::is_directory, "{} is a directory; `cp -r` copies it",
                                      from.shown);
    }
    if (S_ISDIR(source.mode) && is_inside(from, target.location)) {
        co_return context.report.fail(Code::invalid,
                                      "{} lies in {}: a tree cannot be copied into itself",
                                      target.location.shown, from.shown);
    }
    if (S_ISDIR(source.mode) && target.is_there && !target.is_directory) {
        co_return context.report.fail(Code::not_directory,
                                      "{} is not a directory, so the tree {} cannot become it: "
                                      "name a directory, or a new name",
                                      target.location.shown, from.shown);
    }
    if (!S_ISDIR(source.mode) && !target.is_there) {
        ROS2S_CO_TRY(check_slash_of_new(context, target.location));
    }
    TreeCopy tree(context, from, target.location, options.preserve);
    Result<> done;
    if (from.name.empty() && target.is_directory) {
        // A whole container, or "DIR/.", has no name of its own: its contents are copied.
        done = co_await tree.copy_content(source, target.node);
    } else {
        if (target.is_directory) {
            ROS2S_CO_TRY(check_new_name(context, from, target.location, from.name, copied.names));
        }
        Entry from_slot{.directory = {}, .name = from.name};
        if (!from.path.empty()) {
            ROS2S_CO_TRY_ASSIGN(from_slot, co_await find_entry(context, from));
        }
        // As the user wrote it: the server may report another name of the source.
        Entry to_slot{.directory = target.node, .name = from.name};
        if (!target.is_directory) {
            ROS2S_CO_TRY_ASSIGN(to_slot, co_await find_new_entry(context, target.location));
        }
        if (same_on_host(from, target.location, target.is_directory ? from.name : "")) {
            co_return context.report.fail(Code::invalid, "{} and {} are the same file", from.shown,
                                          target.location.shown);
        }
        done = co_await tree.copy(std::move(from_slot), source, std::move(to_slot));
    }
    copied.counts += tree.counts();
    co_return done;
}

std::string counted(uint64_t count, std::string_view one, std::string_view many) {
    return count == 0 ? "" : fmt::format(", {} {}", count, count == 1 ? one : many);
}

// Returns what an interrupted copy has left, and how to continue. The new name is a directory now,
// so the same command would copy the tree into it.
std::string left_behind(const Target& target, const CopyCounts& counts) {
    const std::string& location = target.location.shown;
    const std::string left =
        fmt::format("{} file{} in {} {} complete; incomplete copies were removed", counts.files,
                    counts.files == 1 ? "" : "s", location, counts.files == 1 ? "is" : "are");
    if (counts.directories == 0 || target.is_directory) {
        return left + "; the same command copies all of it again";
    }
    return fmt::format("{}; to begin again, first: ros2store rm -r {}", left, shell_word(location));
}

// True: the next source would fail in the same way.
bool ends_all(Code code) {
    return code == Code::cancelled || code == Code::deadline || code == Code::no_space ||
           code == Code::over_cap;
}

Task<Result<>> copy_named(CommandContext context, Locations& locations, const std::string& text,
                          const Target& target, const FileOptions& options, Copied& copied) {
    ROS2S_CO_TRY_ASSIGN(const Location from, co_await locations.open(text));
    co_return co_await copy_one(context, from, target, options, copied);
}

// If one source cannot be copied, the next ones still are. Each failure is reported. The last one
// is the result of the run.
Task<Result<>> cp_all(CommandContext context, Locations& locations, const FileOptions& options) {
    const Time begin = context.environment.reactor.now();
    ROS2S_CO_TRY_ASSIGN(const Target target, co_await find_target(context, locations, options));
    Copied copied;
    const CopyCounts& counts = copied.counts;
    Failures failures(context);
    for (size_t i = 0; i + 1 < options.locations.size(); ++i) {
        const auto done =
            co_await copy_named(context, locations, options.locations[i], target, options, copied);
        if (done) continue;
        if (done.error().code == Code::cancelled) {
            context.report = Report();
            context.report.say(left_behind(target, counts));
        }
        failures.add(done.error());
        if (ends_all(done.error().code)) break;
    }
    const double seconds =
        std::chrono::duration<double>(context.environment.reactor.now() - begin).count();
    context.console.answer(Json::object({{"files", counts.files},
                                         {"directories", counts.directories},
                                         {"symbolic_links", counts.symbolic_links},
                                         {"hard_links", counts.hard_links},
                                         {"others", counts.others},
                                         {"bytes", counts.bytes},
                                         {"seconds", seconds}}));
    if (failures.any()) co_return failures.result();
    context.console.say(
        "copied {} file{}{}{}{}{}: {} in {:.1f} s", counts.files, counts.files == 1 ? "" : "s",
        counted(counts.directories, "directory", "directories"),
        counted(counts.symbolic_links, "symbolic link", "symbolic links"),
        counted(counts.hard_links, "hard link", "hard links"),
        counted(counts.others, "other", "others"), human_bytes(counts.bytes), seconds);
    co_return Result<>{};
}

}  // namespace

Task<Result<>> cp(CommandContext context, FileOptions options) {
    return with_locations(context, std::move(options), cp_all);
}

}  // namespace ros2s::cli
