// cat: files to standard output.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "places.h"
#include "ros2s/base/bytes.h"

namespace ros2s::cli {
namespace {

Result<> write_out(Workplace work, ConstBytes bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
            constexpr std::string_view name = "standard output";
            return explain(work, name, fail_errno(errno).error(), name);
        }
        bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return {};
}

Task<Result<>> copy_out(Workplace work, const Place& place, fs::FileHandle handle,
                        std::string* into) {
    const AlignedBuffer buffer(size_t{1} << 20);
    for (uint64_t offset = 0;;) {
        ROS2S_CO_TRY(work.call.check(work.environment.reactor.now()));
        ROS2S_CO_TRY_ASSIGN(const ConstBytes piece,
                            co_await read_piece(work, place, handle, offset, buffer.bytes()));
        if (into != nullptr) {
            *into += as_text(piece);
        } else {
            ROS2S_CO_TRY(write_out(work, piece));
        }
        offset += piece.size();
        if (piece.size() < buffer.size()) co_return Result<>{};
    }
}

Task<Result<>> cat_all(Workplace work, Places& places, const FileOptions& options) {
    std::vector<Json> values;
    for (const std::string& text : options.places) {
        ROS2S_CO_TRY_ASSIGN(const Place place, co_await places.open(text));
        ROS2S_CO_TRY_ASSIGN(const fs::Attributes attributes,
                            co_await find(work, place, Follow::yes));
        const auto opened =
            co_await place.file_system->open(work.call, attributes.node, {.read = true});
        if (!opened) co_return explain(work, place.shown, opened.error());
        std::string content;
        const auto done = co_await copy_out(work, place, opened->handle,
                                            work.session.json() ? &content : nullptr);
        const auto closed = co_await place.file_system->close(work.call, opened->handle);
        ROS2S_CO_TRY(done);
        ROS2S_CO_TRY(closed);
        values.push_back(Json::object({{"path", place.shown}, {"content", content}}));
    }
    work.session.answer(Json::object({{"files", Json::array(values)}}));
    co_return Result<>{};
}

}  // namespace

Task<Result<>> cat(Workplace work, FileOptions options) {
    return with_places(work, std::move(options), cat_all, Places::Use::looks);
}

}  // namespace ros2s::cli
