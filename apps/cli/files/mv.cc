// mv: renames within one container.
#include <sys/stat.h>

#include <set>

#include "locations.h"

namespace ros2s::cli {
namespace {

// A name in an existing directory, or a new name.
Task<Result<Entry>> destination(CommandContext context, const Location& to, const std::string& name,
                                const fs::Attributes& source, bool must_be_directory) {
    const auto there = co_await find_if_there(context, to, Follow::yes);
    if (there && S_ISDIR(there->mode)) co_return Entry{.directory = there->node, .name = name};
    if (there) ROS2S_CO_TRY(check_slash(context, to, *there));
    if (there && S_ISDIR(source.mode)) {
        co_return context.report.fail(Code::not_directory,
                                      "{} is not a directory, so a directory cannot take its "
                                      "place: name a directory, or a new name",
                                      to.shown);
    }
    if (!there && !S_ISDIR(source.mode)) ROS2S_CO_TRY(check_slash_of_new(context, to));
    if (must_be_directory) {
        co_return context.report.fail(
            Code::not_directory, "{} is not a directory; several files can be moved only into one",
            to.shown);
    }
    co_return co_await find_new_entry(context, to);
}

Task<Result<>> mv_all(CommandContext context, Locations& locations, const FileOptions& options) {
    ROS2S_CO_TRY_ASSIGN(const Location to, co_await locations.open(options.locations.back()));
    std::set<std::string> names;
    for (size_t i = 0; i + 1 < options.locations.size(); ++i) {
        ROS2S_CO_TRY_ASSIGN(const Location from, co_await locations.open(options.locations[i]));
        if (from.local && to.local) {
            co_return context.report.fail(Code::unsupported,
                                          "both are local paths; the system's own mv moves them");
        }
        if (from.file_system != to.file_system) {
            co_return context.report.fail(Code::unsupported,
                                          "a rename stays within one container; use: ros2store cp "
                                          "-r {0} {1} && ros2store rm -r {0}",
                                          shell_word(from.shown), shell_word(to.shown));
        }
        const auto moved = co_await find_if_there(context, from, Follow::no);
        if (!moved) co_return explain(context, from.shown, moved.error());
        ROS2S_CO_TRY(check_slash(context, from, *moved));
        ROS2S_CO_TRY_ASSIGN(const Entry source, co_await find_entry(context, from));
        ROS2S_CO_TRY_ASSIGN(
            const Entry target,
            co_await destination(context, to, source.name, *moved, options.locations.size() > 2));
        if (options.locations.size() > 2) {
            ROS2S_CO_TRY(check_new_name(context, from, to, target.name, names));
        }
        const auto done = co_await from.file_system->rename(
            context.call, source.directory, source.name, target.directory, target.name, {});
        if (!done && done.error().code == Code::loop) {
            co_return context.report.fail(done.error(), "{} cannot go into itself ({})", from.shown,
                                          to.shown);
        }
        if (!done) co_return explain(context, from.shown, done.error());
    }
    context.console.answer(Json::object({{"moved", options.locations.size() - 1}}));
    co_return Result<>{};
}

}  // namespace

Task<Result<>> mv(CommandContext context, FileOptions options) {
    return with_locations(context, std::move(options), mv_all);
}

}  // namespace ros2s::cli
