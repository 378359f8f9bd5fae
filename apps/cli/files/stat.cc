// stat: all attributes of files. Symbolic links are not followed.
#include <sys/stat.h>

#include "locations.h"
#include "output/describe.h"

namespace ros2s::cli {
namespace {

Task<Result<>> stat_all(CommandContext context, Locations& locations, const FileOptions& options) {
    std::vector<Json> values;
    for (const std::string& text : options.locations) {
        ROS2S_CO_TRY_ASSIGN(const Location location, co_await locations.open(text));
        ROS2S_CO_TRY_ASSIGN(const fs::Attributes found,
                            co_await find(context, location, Follow::no));
        std::string target;
        if (S_ISLNK(found.mode)) {
            auto read = co_await location.file_system->readlink(context.call, found.node);
            if (!read) co_return explain(context, location.shown, read.error());
            target = std::move(*read);
        }
        context.console.say(
            "  path     {}{}\n  type     {}, inode {}, {} link{}\n  size     {} bytes, {} on the "
            "media\n  mode     {:04o} {}, {}:{}\n  modified {}\n  accessed {}\n  changed  {}",
            location.shown, target.empty() ? "" : " -> " + target, type_text(found.mode),
            found.node.value, found.links, found.links == 1 ? "" : "s", found.size,
            found.bytes_used, found.mode & fs::permission_bits, mode_text(found.mode),
            user_text(found.uid), group_text(found.gid), time_text(found.modified, true),
            time_text(found.accessed, true), time_text(found.changed, true));
        values.push_back(attributes_value(location.shown, found, target));
    }
    context.console.answer(Json::object({{"files", Json::array(values)}}));
    co_return Result<>{};
}

}  // namespace

Task<Result<>> stat(CommandContext context, FileOptions options) {
    return with_locations(context, std::move(options), stat_all, Locations::Use::looks);
}

}  // namespace ros2s::cli
