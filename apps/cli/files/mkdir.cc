// mkdir: directories, with -p their parents too.
#include <sys/stat.h>
#include <unistd.h>

#include "locations.h"

namespace ros2s::cli {
namespace {

mode_t default_mode() {
    const mode_t mask = umask(0);
    umask(mask);
    return 0777 & ~mask;
}

// Adds to `count` if it was made.
Task<Result<>> make(CommandContext context, const Location& location, bool may_exist,
                    uint64_t& count) {
    ROS2S_CO_TRY_ASSIGN(const Entry entry, co_await find_new_entry(context, location));
    const auto made =
        co_await location.file_system->mkdir(context.call, entry.directory, entry.name,
                                             default_mode(), {.uid = geteuid(), .gid = getegid()});
    if (made) {
        ++count;
        co_return Result<>{};
    }
    if (may_exist && made.error().code == Code::exists) {
        ROS2S_CO_TRY_ASSIGN(const auto there, co_await find(context, location, Follow::yes));
        if (S_ISDIR(there.mode)) co_return Result<>{};
        co_return context.report.fail(Code::not_directory,
                                      "{} exists and is not a directory; choose another name",
                                      location.shown);
    }
    co_return explain(context, location.shown, made.error(), location.local ? location.shown : "");
}

Task<Result<>> mkdir_all(CommandContext context, Locations& locations, const FileOptions& options) {
    uint64_t count = 0;
    for (const std::string& text : options.locations) {
        ROS2S_CO_TRY_ASSIGN(const Location location, co_await locations.open(text));
        if (options.parents) {
            Location parent = location;
            for (size_t slash = location.path.find('/'); slash != std::string::npos;
                 slash = location.path.find('/', slash + 1)) {
                parent.path = location.path.substr(0, slash);
                parent.shown = written_as(location, parent.path);
                ROS2S_CO_TRY(co_await make(context, parent, true, count));
            }
            if (location.path.empty()) continue;  // the root exists
        }
        ROS2S_CO_TRY(co_await make(context, location, options.parents, count));
    }
    context.console.answer(Json::object({{"made", count}}));
    co_return Result<>{};
}

}  // namespace

Task<Result<>> mkdir(CommandContext context, FileOptions options) {
    return with_locations(context, std::move(options), mkdir_all);
}

}  // namespace ros2s::cli
