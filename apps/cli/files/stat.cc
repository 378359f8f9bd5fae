// stat: all attributes of files. Symbolic links are not followed.
#include <fmt/format.h>
#include <sys/stat.h>

#include "output/describe.h"
#include "places.h"

namespace ros2s::cli {
namespace {

Task<Result<>> stat_all(Workplace work, Places& places, const FileOptions& options) {
    std::vector<Json> values;
    for (const std::string& text : options.places) {
        ROS2S_CO_TRY_ASSIGN(const Place place, co_await places.open(text));
        ROS2S_CO_TRY_ASSIGN(const fs::Attributes found, co_await find(work, place, Follow::no));
        std::string target;
        if (S_ISLNK(found.mode)) {
            auto read = co_await place.file_system->readlink(work.call, found.node);
            if (!read) co_return explain(work, place.shown, read.error());
            target = std::move(*read);
        }
        work.session.say(fmt::format(
            "  path     {}{}\n  type     {}, inode {}, {} link{}\n  size     {} bytes, {} on the "
            "media\n  mode     {:04o} {}, {}:{}\n  modified {}\n  accessed {}\n  changed  {}",
            place.shown, target.empty() ? "" : " -> " + target, type_text(found.mode),
            found.node.value, found.links, found.links == 1 ? "" : "s", found.size,
            found.bytes_used, found.mode & fs::permission_bits, mode_text(found.mode),
            user_text(found.uid), group_text(found.gid), time_text(found.modified, true),
            time_text(found.accessed, true), time_text(found.changed, true)));
        values.push_back(attributes_value(place.shown, found, target));
    }
    work.session.answer(Json::object({{"files", Json::array(values)}}));
    co_return Result<>{};
}

}  // namespace

Task<Result<>> stat(Workplace work, FileOptions options) {
    return with_places(work, std::move(options), stat_all, Places::Use::looks);
}

}  // namespace ros2s::cli
