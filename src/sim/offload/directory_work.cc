#include "directory_work.h"

#include <fmt/format.h>

#include <utility>

#include "ros2s/sim/no_call.h"

namespace ros2s::sim {
namespace {

constexpr size_t entries_max = 8;
constexpr uint64_t file_bytes_most = 32 << 10;  // larger files do not grow

}  // namespace

Task<Result<>> DirectoryWork::begin() {
    what_ = "mkdir";
    ROS2S_CO_TRY_ASSIGN(const auto made,
                        co_await files_.mkdir(no_call, fs::root_node, name_, 0755, {}));
    node_ = made.node;
    co_return Result<>{};
}

Task<Result<>> DirectoryWork::step() {
    ++step_;
    if (model_.size() < 2) return create();
    if (model_.size() >= entries_max) return unlink();
    switch (random_.below(11)) {
        case 0: return create();
        case 1: return append();
        case 2: return write();
        case 3: return truncate();
        case 4: return rename();
        case 5: return exchange();
        case 6: return unlink();
        case 7: return read();
        case 8: return passing();
        case 9: return many();
        default: return nameless();
    }
}

DirectoryWork::Model::iterator DirectoryWork::any() {
    auto found = model_.begin();
    std::advance(found, static_cast<ptrdiff_t>(random_.below(model_.size())));
    return found;
}
std::string DirectoryWork::fresh() const { return fmt::format("name-{}", step_); }
std::string DirectoryWork::text() {
    return fmt::format("<{}:{}>", step_, std::string(random_.below(6000), 'x'));
}

Task<Result<>> DirectoryWork::create() {
    what_ = "create";
    const fs::OpenFlags flags{.write = true, .exclusive = true};
    const fs::PathOpen how{.flags = flags, .creates = true, .mode = 0644};
    ROS2S_CO_TRY_ASSIGN(const auto made,
                        co_await files_.open_path(no_call, name_ + "/" + fresh(), how));
    model_[fresh()] = "";
    co_return co_await files_.close(no_call, made.handle);
}

Task<Result<>> DirectoryWork::put(const std::string& name, fs::OpenFlags flags, std::string bytes,
                                  uint64_t offset) {
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await files_.lookup(no_call, node_, name));
    ROS2S_CO_TRY_ASSIGN(const auto file, co_await files_.open(no_call, found.node, flags));
    const WallTime called = world_.core().wall_time();
    const uint64_t steps = world_.clock_steps();
    ROS2S_CO_TRY(
        co_await files_.pwrite(no_call, file.handle, fs::Window::local(as_bytes(bytes)), offset));
    ROS2S_CO_TRY(co_await check_time(name, found.modified, called, steps));
    co_return co_await files_.close(no_call, file.handle);
}

// A write that has just ended gave the file its time, for all mounts. Unless the clock was set
// meanwhile, the time is between the beginning of the write and now.
Task<Result<>> DirectoryWork::check_time(std::string name, WallTime before, WallTime called,
                                         uint64_t steps) {
    for (fs::FileSystem* files : {&files_, &other_}) {
        ROS2S_CO_TRY_ASSIGN(const auto found, co_await files->lookup(no_call, node_, name));
        const WallTime time = found.modified;
        const WallTime returned = world_.core().wall_time();
        const bool was_set = world_.clock_steps() != steps;
        if (time != before && (was_set || (called <= time && time <= returned))) continue;
        differs_.push_back(fmt::format(
            "{}/{} was written between {} and {} ns, and modified at {} ns, before at {} ns", name_,
            name, called.time_since_epoch().count(), returned.time_since_epoch().count(),
            time.time_since_epoch().count(), before.time_since_epoch().count()));
    }
    co_return Result<>{};
}

Task<Result<>> DirectoryWork::append() {
    const auto at = any();
    if (at->second.size() > file_bytes_most) return truncate();
    return append_to(at);
}
Task<Result<>> DirectoryWork::append_to(Model::iterator at) {
    what_ = "append";
    const std::string bytes = text();
    ROS2S_CO_TRY(co_await put(at->first, {.write = true, .append = true}, bytes, 0));
    at->second += bytes;
    co_return Result<>{};
}

Task<Result<>> DirectoryWork::write() {
    what_ = "write";
    const auto at = any();
    const std::string bytes = text();
    const uint64_t offset = random_.below(std::min(at->second.size(), file_bytes_most) + 1);
    ROS2S_CO_TRY(co_await put(at->first, {.write = true}, bytes, offset));
    if (at->second.size() < offset + bytes.size()) at->second.resize(offset + bytes.size());
    at->second.replace(offset, bytes.size(), bytes);
    co_return Result<>{};
}

Task<Result<>> DirectoryWork::truncate() {
    what_ = "truncate";
    const auto at = any();
    const uint64_t size = random_.below(std::min(at->second.size(), file_bytes_most) + 5000);
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await files_.lookup(no_call, node_, at->first));
    ROS2S_CO_TRY(co_await files_.set_attributes(no_call, found.node, {.mode = 0600, .size = size}));
    at->second.resize(size, '\0');
    co_return Result<>{};
}

// To a new name, or over another file.
Task<Result<>> DirectoryWork::rename() {
    what_ = "rename";
    const std::string from = any()->first;
    const std::string to = random_.below(2) == 0 ? fresh() : any()->first;
    ROS2S_CO_TRY(co_await files_.rename(no_call, node_, from, node_, to, {}));
    if (from == to) co_return Result<>{};
    model_[to] = model_[from];
    model_.erase(from);
    co_return Result<>{};
}

Task<Result<>> DirectoryWork::exchange() {
    what_ = "exchange";
    const auto one = any(), other = any();
    ROS2S_CO_TRY(co_await files_.rename(no_call, node_, one->first, node_, other->first,
                                        {.exchange = true}));
    if (one != other) std::swap(one->second, other->second);
    co_return Result<>{};
}

Task<Result<>> DirectoryWork::unlink() {
    what_ = "unlink";
    const auto at = any();
    ROS2S_CO_TRY(co_await files_.unlink(no_call, node_, at->first));
    model_.erase(at);
    co_return Result<>{};
}

Task<Result<>> DirectoryWork::read() {
    what_ = "read";
    const auto at = any();
    const std::string wrong = co_await compare_file(files_, at->first, at->second);
    if (!wrong.empty()) differs_.push_back(wrong);
    co_return Result<>{};
}

// Names that are created and removed again.
Task<Result<>> DirectoryWork::passing() {
    what_ = "mkdir, link, xattr, and their ends";
    ROS2S_CO_TRY_ASSIGN(const auto made, co_await files_.mkdir(no_call, node_, fresh(), 0700, {}));
    ROS2S_CO_TRY(co_await files_.set_xattr(no_call, made.node, "user.x", as_bytes("value"),
                                           fs::SetXattr::create));
    ROS2S_CO_TRY(co_await files_.remove_xattr(no_call, made.node, "user.x"));
    ROS2S_CO_TRY(co_await files_.rmdir(no_call, node_, fresh()));
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await files_.lookup(no_call, node_, any()->first));
    ROS2S_CO_TRY(co_await files_.link(no_call, found.node, node_, fresh()));
    co_return co_await files_.unlink(no_call, node_, fresh());
}

// New names, created and removed in one call each. With a name that cannot be created, and one that
// cannot be removed, each name is done by itself.
Task<Result<>> DirectoryWork::many() {
    what_ = "create_many, unlink_many";
    std::vector<std::string> fresh_names;
    for (const char* end : {"a", "b", "c"}) fresh_names.push_back(fresh() + end);
    std::vector<std::string_view> names(fresh_names.begin(), fresh_names.end());
    const bool with_failures = random_.below(2) == 0;
    const std::string taken = any()->first;
    if (with_failures) names.emplace_back(taken);
    expect(names, co_await files_.create_many(no_call, node_, names, 0644, {}),
           with_failures ? std::optional(Code::exists) : std::nullopt);
    const std::string none = fresh() + "none";
    if (with_failures) names.back() = none;
    expect(names, co_await files_.unlink_many(no_call, node_, names),
           with_failures ? std::optional(Code::not_found) : std::nullopt);
    co_return Result<>{};
}

// `last`: the error of the last name, if it has one.
void DirectoryWork::expect(std::span<const std::string_view> names,
                           const std::vector<Result<>>& results, std::optional<Code> last) {
    for (size_t i = 0; i < names.size(); ++i) {
        const bool fails = last && i + 1 == names.size();
        if (fails ? !results[i] && results[i].error().code == *last : results[i].has_value()) {
            continue;
        }
        differs_.push_back(fmt::format("{}: {}/{}: {}", what_, name_, names[i],
                                       results[i] ? "done" : describe(results[i].error())));
    }
}

// One stage in the life of a file that loses its name after its first append. Other operations, and
// crashes, are between the stages.
Task<Result<>> DirectoryWork::nameless() {
    what_ = "file without a name";
    if (!open_) {
        const fs::OpenFlags flags{.write = true, .append = true, .exclusive = true};
        ROS2S_CO_TRY_ASSIGN(const auto file,
                            co_await files_.create(no_call, node_, fresh(), 0600, flags, {}));
        open_ = Nameless{.handle = file.handle, .name = fresh(), .expected = {}};
    }
    if (open_->appends == 4) co_return co_await end_nameless();
    if (open_->appends == 1) ROS2S_CO_TRY(co_await take_name());
    const std::string bytes = text();
    ROS2S_CO_TRY(
        co_await files_.pwrite(no_call, open_->handle, fs::Window::local(as_bytes(bytes)), 0));
    open_->expected += bytes;
    ++open_->appends;
    co_return Result<>{};
}

// By unlink, or by renaming another file over it; through this mount or the other one.
Task<Result<>> DirectoryWork::take_name() {
    const std::string& name = open_->name;
    fs::FileSystem& files = random_.below(2) == 0 ? files_ : other_;
    if (random_.below(2) == 0) co_return co_await files.unlink(no_call, node_, name);
    const auto at = any();
    ROS2S_CO_TRY(co_await files.rename(no_call, node_, at->first, node_, name, {}));
    model_[name] = std::move(at->second);
    model_.erase(at);
    co_return Result<>{};
}

Task<Result<>> DirectoryWork::end_nameless() {
    const Nameless file = *std::exchange(open_, std::nullopt);
    std::string found(file.expected.size() + 1, '?');
    ROS2S_CO_TRY_ASSIGN(
        const uint64_t got,
        co_await files_.pread(no_call, file.handle,
                              fs::Window::local(std::as_writable_bytes(std::span(found))), 0));
    found.resize(got);
    if (found != file.expected) {
        differs_.push_back(fmt::format("{}: a file without a name has {} bytes, not {}", name_, got,
                                       file.expected.size()));
    }
    co_return co_await files_.close(no_call, file.handle);
}

Task<Result<>> DirectoryWork::finish() {
    while (open_) ROS2S_CO_TRY(co_await nameless());
    co_return Result<>{};
}

// ---- against the model ---------------------------------------------------------------------

Task<std::string> DirectoryWork::compare_file(fs::FileSystem& files, std::string name,
                                              std::string expected) const {
    const auto found = co_await files.lookup(no_call, node_, name);
    if (!found) co_return fmt::format("{}/{}: {}", name_, name, describe(found.error()));
    const auto file = co_await files.open(no_call, found->node, {});
    if (!file) co_return fmt::format("{}/{}: {}", name_, name, describe(file.error()));
    std::string bytes(expected.size() + 1, '?');
    const auto got = co_await files.pread(
        no_call, file->handle, fs::Window::local(std::as_writable_bytes(std::span(bytes))), 0);
    (void)co_await files.close(no_call, file->handle);
    if (!got) co_return fmt::format("{}/{}: {}", name_, name, describe(got.error()));
    bytes.resize(*got);
    if (bytes == expected && found->links == 1) co_return "";
    co_return fmt::format("{}/{} is not what it should be ({} bytes, not {}; {} links)", name_,
                          name, bytes.size(), expected.size(), found->links);
}

Task<std::vector<std::string>> DirectoryWork::compare(fs::FileSystem& files) const {
    std::vector<std::string> wrong = differs_;
    const auto opened = co_await files.open(no_call, node_, {});
    if (!opened) {
        wrong.push_back(fmt::format("{}: {}", name_, describe(opened.error())));
        co_return wrong;
    }
    const auto listed = co_await files.readdir(no_call, opened->handle, 0, 4096);
    (void)co_await files.close(no_call, opened->handle);
    if (!listed || listed->size() != model_.size()) {
        wrong.push_back(fmt::format("{} has {} names, not {}", name_, listed ? listed->size() : 0,
                                    model_.size()));
    }
    for (const auto& [name, expected] : model_) {
        const std::string text = co_await compare_file(files, name, expected);
        if (!text.empty()) wrong.push_back(text);
    }
    co_return wrong;
}

}  // namespace ros2s::sim
