// Files and names of every kind, at random, in a directory of each client's own, beside a model of
// it: every operation must succeed, and at the end the directory be the model.
#include <map>

#include "work_kinds.h"

namespace ros2s {
namespace {

using namespace object;

const Call call;
constexpr int steps = 40;

class Directory {
  public:
    explicit Directory(Part& part) : part_(part), files_(part.files) {}

    Task<> work() {
        const auto made = co_await files_.mkdir(call, fs::root_node,
                                                fmt::format("of-{}", part_.number), 0755, {});
        if (!made) co_return part_.problem("mkdir: {}", describe(made.error()));
        node_ = made->node;
        for (step_ = 0; step_ < steps; ++step_) {
            Result<> done;
            if (model_.size() < 2) {
                done = co_await create();
            } else {
                done = co_await one_of_all();
            }
            if (!done) co_return part_.problem("{} {}: {}", what_, step_, describe(done.error()));
        }
        co_await compare();
    }

  private:
    using Model = std::map<std::string, std::string>;

    Task<Result<>> one_of_all() {
        switch (part_.random.below(8)) {
            case 0: return create();
            case 1: return append();
            case 2: return write();
            case 3: return truncate();
            case 4: return rename();
            case 5: return exchange();
            case 6: return unlink();
            default: return passing();
        }
    }
    Model::iterator any() {
        auto found = model_.begin();
        std::advance(found, static_cast<ptrdiff_t>(part_.random.below(model_.size())));
        return found;
    }
    std::string fresh() const { return fmt::format("name-{}", step_); }
    std::string text() {
        return fmt::format("<{}:{}>", step_, std::string(part_.random.below(6000), 'x'));
    }

    Task<Result<>> create() {
        what_ = "create";
        const fs::OpenFlags flags{.write = true, .exclusive = true};
        ROS2S_CO_TRY_ASSIGN(const auto made,
                            co_await files_.create(call, node_, fresh(), 0644, flags, {}));
        model_[fresh()] = "";
        co_return co_await files_.close(call, made.handle);
    }
    Task<Result<>> put(const std::string& name, fs::OpenFlags flags, std::string bytes,
                       uint64_t offset) {
        ROS2S_CO_TRY_ASSIGN(const auto found, co_await files_.lookup(call, node_, name));
        ROS2S_CO_TRY_ASSIGN(const auto file, co_await files_.open(call, found.node, flags));
        ROS2S_CO_TRY(
            co_await files_.pwrite(call, file.handle, fs::Window::local(as_bytes(bytes)), offset));
        co_return co_await files_.close(call, file.handle);
    }
    Task<Result<>> append() {
        what_ = "append";
        const auto at = any();
        const std::string bytes = text();
        ROS2S_CO_TRY(co_await put(at->first, {.write = true, .append = true}, bytes, 0));
        at->second += bytes;
        co_return Result<>{};
    }
    Task<Result<>> write() {
        what_ = "write";
        const auto at = any();
        const std::string bytes = text();
        const uint64_t offset = part_.random.below(at->second.size() + 1);
        ROS2S_CO_TRY(co_await put(at->first, {.write = true}, bytes, offset));
        if (at->second.size() < offset + bytes.size()) at->second.resize(offset + bytes.size());
        at->second.replace(offset, bytes.size(), bytes);
        co_return Result<>{};
    }
    Task<Result<>> truncate() {
        what_ = "truncate";
        const auto at = any();
        const uint64_t size = part_.random.below(at->second.size() + 5000);
        ROS2S_CO_TRY_ASSIGN(const auto found, co_await files_.lookup(call, node_, at->first));
        ROS2S_CO_TRY(
            co_await files_.set_attributes(call, found.node, {.mode = 0600, .size = size}));
        at->second.resize(size, '\0');
        co_return Result<>{};
    }
    // To a new name, or over another file.
    Task<Result<>> rename() {
        what_ = "rename";
        const std::string from = any()->first;
        const std::string to = part_.random.below(2) == 0 ? fresh() : any()->first;
        ROS2S_CO_TRY(co_await files_.rename(call, node_, from, node_, to, {}));
        if (from == to) co_return Result<>{};
        model_[to] = model_[from];
        model_.erase(from);
        co_return Result<>{};
    }
    Task<Result<>> exchange() {
        what_ = "exchange";
        const auto one = any(), other = any();
        ROS2S_CO_TRY(co_await files_.rename(call, node_, one->first, node_, other->first,
                                            {.exchange = true}));
        if (one != other) std::swap(one->second, other->second);
        co_return Result<>{};
    }
    Task<Result<>> unlink() {
        what_ = "unlink";
        const auto at = any();
        ROS2S_CO_TRY(co_await files_.unlink(call, node_, at->first));
        model_.erase(at);
        co_return Result<>{};
    }
    // What comes and goes.
    Task<Result<>> passing() {
        what_ = "mkdir, link, xattr, and their ends";
        ROS2S_CO_TRY_ASSIGN(const auto made, co_await files_.mkdir(call, node_, fresh(), 0700, {}));
        ROS2S_CO_TRY(co_await files_.set_xattr(call, made.node, "user.x", as_bytes("value"),
                                               fs::SetXattr::create));
        ROS2S_CO_TRY(co_await files_.remove_xattr(call, made.node, "user.x"));
        ROS2S_CO_TRY(co_await files_.rmdir(call, node_, fresh()));
        ROS2S_CO_TRY_ASSIGN(const auto found, co_await files_.lookup(call, node_, any()->first));
        ROS2S_CO_TRY(co_await files_.link(call, found.node, node_, fresh()));
        co_return co_await files_.unlink(call, node_, fresh());
    }

    Task<> compare() {
        const auto opened = co_await files_.open(call, node_, {});
        const auto listed = co_await files_.readdir(call, opened->handle, 0, 4096);
        (void)co_await files_.close(call, opened->handle);
        if (!listed) co_return part_.problem("readdir: {}", describe(listed.error()));
        if (listed->size() != model_.size()) {
            part_.problem("{} names, not {}", listed->size(), model_.size());
        }
        for (const auto& [name, expected] : model_) {
            const auto found = co_await files_.lookup(call, node_, name);
            if (!found) {
                part_.problem("{} is not there", name);
                continue;
            }
            std::string bytes(expected.size() + 1, '?');
            const auto file = co_await files_.open(call, found->node, {});
            const auto got = co_await files_.pread(
                call, file->handle, fs::Window::local(std::as_writable_bytes(std::span(bytes))), 0);
            bytes.resize(got.value_or(0));
            (void)co_await files_.close(call, file->handle);
            if (bytes != expected || found->links != 1) {
                part_.problem("{} is not what it should be", name);
            }
        }
    }

    Part& part_;
    fs::FileSystem& files_;
    fs::NodeId node_{};
    Model model_;
    int step_ = 0;
    const char* what_ = "";
};

Task<> work(Part& part) {
    Directory directory(part);
    co_await directory.work();
}
Task<> judge_nothing(fs::FileSystem&, ObjectStore&, ContainerId, std::vector<std::string>&) {
    co_return;
}

}  // namespace

const Kind mixed{make_nothing, work, judge_nothing};

}  // namespace ros2s
