// cat: files to standard output.
#include <unistd.h>

#include <cerrno>

#include "locations.h"
#include "ros2s/base/bytes.h"

namespace ros2s::cli {
namespace {

Result<> write_out(CommandContext context, ConstBytes bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
            constexpr std::string_view name = "standard output";
            return explain(context, name, fail_errno(errno).error(), name);
        }
        bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return {};
}

Task<Result<>> copy_out(CommandContext context, const Location& location, fs::FileHandle handle,
                        std::string* into) {
    const AlignedBuffer buffer(size_t{1} << 20);
    for (uint64_t offset = 0;;) {
        ROS2S_CO_TRY(context.call.check(context.environment.reactor));
        ROS2S_CO_TRY_ASSIGN(const ConstBytes piece,
                            co_await read_piece(context, location, handle, offset, buffer.bytes()));
        if (into != nullptr) {
            *into += as_text(piece);
        } else {
            ROS2S_CO_TRY(write_out(context, piece));
        }
        offset += piece.size();
        if (piece.size() < buffer.size()) co_return Result<>{};
    }
}

Task<Result<>> cat_all(CommandContext context, Locations& locations, const FileOptions& options) {
    std::vector<Json> values;
    for (const std::string& text : options.locations) {
        ROS2S_CO_TRY_ASSIGN(const Location location, co_await locations.open(text));
        ROS2S_CO_TRY_ASSIGN(const fs::Attributes attributes,
                            co_await find(context, location, Follow::yes));
        const auto opened =
            co_await location.file_system->open(context.call, attributes.node, {.read = true});
        if (!opened) co_return explain(context, location.shown, opened.error());
        std::string content;
        const auto done = co_await copy_out(context, location, opened->handle,
                                            context.console.json() ? &content : nullptr);
        const auto closed = co_await location.file_system->close(context.call, opened->handle);
        ROS2S_CO_TRY(done);
        ROS2S_CO_TRY(closed);
        values.push_back(Json::object({{"path", location.shown}, {"content", content}}));
    }
    context.console.answer(Json::object({{"files", Json::array(values)}}));
    co_return Result<>{};
}

}  // namespace

Task<Result<>> cat(CommandContext context, FileOptions options) {
    return with_locations(context, std::move(options), cat_all, Locations::Use::looks);
}

}  // namespace ros2s::cli
