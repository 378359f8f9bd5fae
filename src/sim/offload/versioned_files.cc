#include "versioned_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "ros2s/sim/no_call.h"

namespace ros2s::sim {
namespace {

constexpr std::string_view directory = "versioned";
constexpr size_t looks_in_a_row = 12;
constexpr Duration between_looks = std::chrono::milliseconds(20);

std::string name_of(size_t index) { return fmt::format("{}", index); }

}  // namespace

Task<Result<>> VersionedFiles::prepare(fs::FileSystem& files) {
    ROS2S_CO_TRY_ASSIGN(const auto made,
                        co_await files.mkdir(no_call, fs::root_node, directory, 0755, {}));
    for (size_t index = 0; index < files_.size(); ++index) {
        ROS2S_CO_TRY(
            co_await files.mknod(no_call, made.node, name_of(index), S_IFREG | 0644, 0, {}));
        files_[index].changes.push_back({.ended = reactor_.now()});
    }
    co_return Result<>{};
}

Task<Result<>> VersionedFiles::step(fs::FileSystem& files, size_t index, Random& random) {
    if (random.one_in(5)) co_return co_await change(files, index);
    co_return co_await look_often(files, index, random);
}

Task<Result<>> VersionedFiles::look_often(fs::FileSystem& files, size_t index, Random& random) {
    for (size_t i = 0; i < looks_in_a_row; ++i) {
        ROS2S_CO_TRY(co_await look(files, index));
        co_await sleep_for(reactor_,
                           Duration(random.below(static_cast<uint64_t>(between_looks.count()))));
    }
    co_return Result<>{};
}

Task<Result<>> VersionedFiles::change(fs::FileSystem& files, size_t index) {
    File& file = files_[index];
    const size_t version = file.changes.size();
    file.changes.push_back({.begun = reactor_.now()});
    ROS2S_CO_TRY_ASSIGN(const auto top, co_await files.lookup(no_call, fs::root_node, directory));
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await files.lookup(no_call, top.node, name_of(index)));
    ROS2S_CO_TRY(co_await files.set_attributes(no_call, found.node, {.size = version}));
    file.changes[version].ended = reactor_.now();
    files.forget(found.node, 1);
    files.forget(top.node, 1);
    co_return Result<>{};
}

Task<Result<>> VersionedFiles::look(fs::FileSystem& files, size_t index) {
    const Time begun = reactor_.now();
    ROS2S_CO_TRY_ASSIGN(const auto top, co_await files.lookup(no_call, fs::root_node, directory));
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await files.lookup(no_call, top.node, name_of(index)));
    judge(index, found.size, begun);
    files.forget(found.node, 1);
    files.forget(top.node, 1);
    co_return Result<>{};
}

void VersionedFiles::judge(size_t index, size_t version, Time begun) {
    ++looks_;
    File& file = files_[index];
    const Time now = reactor_.now();
    const auto problem = [&](std::string_view what) {
        problems_.push_back(fmt::format("file {}: at {} ns a look saw version {} of {}, {}", index,
                                        now.time_since_epoch().count(), version,
                                        file.changes.size() - 1, what));
    };
    if (version >= file.changes.size()) return problem("which nobody wrote");
    const Change& seen = file.changes[version];
    const bool is_overtaken = std::ranges::any_of(file.changes, [&](const Change& each) {
        return is_older(seen, each) && each.ended < begun;
    });
    if (is_overtaken) problem("which had been replaced");
    const bool goes_back = std::ranges::any_of(file.looks, [&](const Look& each) {
        return each.ended < begun && is_older(seen, file.changes[each.version]);
    });
    if (goes_back) problem("after a newer one had been seen");
    file.looks.push_back({.ended = now, .version = version});
}

}  // namespace ros2s::sim
