// mkdir: directories, with -p their parents too.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "places.h"

namespace ros2s::cli {
namespace {

mode_t default_mode() {
    const mode_t mask = umask(0);
    umask(mask);
    return 0777 & ~mask;
}

Task<Result<>> make(Workplace work, const Place& place, bool may_exist) {
    ROS2S_CO_TRY_ASSIGN(const Slot slot, co_await find_new_slot(work, place));
    const auto made = co_await place.file_system->mkdir(
        work.call, slot.directory, slot.name, default_mode(), {.uid = geteuid(), .gid = getegid()});
    if (made) co_return Result<>{};
    if (may_exist && made.error().code == Code::exists) {
        ROS2S_CO_TRY_ASSIGN(const auto there, co_await find(work, place, Follow::yes));
        if (S_ISDIR(there.mode)) co_return Result<>{};
        co_return work.report.fail(
            Code::not_directory,
            fmt::format("{} exists and is not a directory; choose another name", place.shown));
    }
    co_return explain(work, place.shown, made.error(), place.local ? place.shown : "");
}

Task<Result<>> mkdir_all(Workplace work, Places& places, const FileOptions& options) {
    for (const std::string& text : options.places) {
        ROS2S_CO_TRY_ASSIGN(const Place place, co_await places.open(text));
        if (options.parents) {
            Place parent = place;
            for (size_t slash = place.path.find('/'); slash != std::string::npos;
                 slash = place.path.find('/', slash + 1)) {
                parent.path = place.path.substr(0, slash);
                parent.shown = written_as(place, parent.path);
                ROS2S_CO_TRY(co_await make(work, parent, true));
            }
            if (place.path.empty()) continue;  // the root exists
        }
        ROS2S_CO_TRY(co_await make(work, place, options.parents));
    }
    work.session.answer(Json::object({{"made", options.places.size()}}));
    co_return Result<>{};
}

}  // namespace

Task<Result<>> mkdir(Workplace work, FileOptions options) {
    return with_places(work, std::move(options), mkdir_all);
}

}  // namespace ros2s::cli
