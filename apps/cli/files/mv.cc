// mv: renames within one container.
#include <fmt/format.h>
#include <sys/stat.h>

#include "places.h"

namespace ros2s::cli {
namespace {

// A name in an existing directory, or a new name.
Task<Result<Slot>> destination(Workplace work, const Place& to, const std::string& name,
                               const fs::Attributes& source, bool must_be_directory) {
    const auto there = co_await find_if_there(work, to, Follow::yes);
    if (there && S_ISDIR(there->mode)) co_return Slot{.directory = there->node, .name = name};
    if (there) ROS2S_CO_TRY(check_slash(work, to, *there));
    if (there && S_ISDIR(source.mode)) {
        co_return work.report.fail(
            Code::not_directory,
            fmt::format("{} is not a directory, so a directory cannot take its place: name a "
                        "directory, or a new name",
                        to.shown));
    }
    if (!there && !S_ISDIR(source.mode)) ROS2S_CO_TRY(check_slash_of_new(work, to));
    if (must_be_directory) {
        co_return work.report.fail(
            Code::not_directory,
            fmt::format("{} is not a directory, and several files cannot have one name", to.shown));
    }
    co_return co_await find_new_slot(work, to);
}

Task<Result<>> mv_all(Workplace work, Places& places, const FileOptions& options) {
    ROS2S_CO_TRY_ASSIGN(const Place to, co_await places.open(options.places.back()));
    for (size_t i = 0; i + 1 < options.places.size(); ++i) {
        ROS2S_CO_TRY_ASSIGN(const Place from, co_await places.open(options.places[i]));
        if (from.local && to.local) {
            co_return work.report.fail(Code::unsupported,
                                       "both are local paths; the system's own mv moves them");
        }
        if (from.file_system != to.file_system) {
            co_return work.report.fail(
                Code::unsupported,
                fmt::format("a rename stays within one container; use: ros2store cp -r {0} {1} && "
                            "ros2store rm -r {0}",
                            shell_word(from.shown), shell_word(to.shown)));
        }
        const auto moved = co_await find_if_there(work, from, Follow::no);
        if (!moved) co_return explain(work, from.shown, moved.error());
        ROS2S_CO_TRY(check_slash(work, from, *moved));
        ROS2S_CO_TRY_ASSIGN(const Slot source, co_await find_slot(work, from));
        ROS2S_CO_TRY_ASSIGN(const Slot target, co_await destination(work, to, source.name, *moved,
                                                                    options.places.size() > 2));
        const auto done = co_await from.file_system->rename(
            work.call, source.directory, source.name, target.directory, target.name, {});
        if (!done && done.error().code == Code::loop) {
            co_return work.report.fail(
                done.error(), fmt::format("{} cannot go into itself ({})", from.shown, to.shown));
        }
        if (!done) co_return explain(work, from.shown, done.error());
    }
    work.session.answer(Json::object({{"moved", options.places.size() - 1}}));
    co_return Result<>{};
}

}  // namespace

Task<Result<>> mv(Workplace work, FileOptions options) {
    return with_places(work, std::move(options), mv_all);
}

}  // namespace ros2s::cli
