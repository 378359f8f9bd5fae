#include "path_walk.h"

#include <algorithm>
#include <ranges>

namespace ros2s::fs {
namespace {

// The nodes from the root to the current one. Each one except the root holds a reference.
class Trail {
  public:
    explicit Trail(Namespace& fs) : fs_(fs), nodes_{root_node} {}
    Trail& operator=(Trail&&) = delete;
    ~Trail() { restart(); }

    [[nodiscard]] NodeId last() const { return nodes_.back(); }
    void push(NodeId node) { nodes_.push_back(node); }
    void pop() {
        if (nodes_.size() > 1) drop_last();
    }
    void restart() {
        while (nodes_.size() > 1) drop_last();
    }
    // The last node's reference goes to the caller.
    NodeId take_last() {
        const NodeId node = last();
        if (nodes_.size() > 1) nodes_.pop_back();
        return node;
    }

  private:
    void drop_last() {
        fs_.forget(nodes_.back(), 1);
        nodes_.pop_back();
    }
    Namespace& fs_;
    std::vector<NodeId> nodes_;
};

constexpr size_t names_ahead_max = 64;

// The names that are left to walk, the last one first.
using Names = std::vector<std::string>;

void add_names(Names& names, std::string_view path) {
    const size_t before = names.size();
    const auto count = static_cast<size_t>(std::ranges::count(path, '/')) + 1;
    names.reserve(before + std::min(count, names_walked_max));
    for (size_t begin = 0; begin < path.size();) {
        const size_t end = std::min(path.find('/', begin), path.size());
        const std::string_view name = path.substr(begin, end - begin);
        if (!name.empty() && name != ".") names.emplace_back(name);
        begin = end + 1;
    }
    std::reverse(names.begin() + static_cast<ptrdiff_t>(before), names.end());
}

bool wants_directory(std::string_view path) {
    return path.ends_with('/') || path.ends_with("/.") || path == ".";
}

}  // namespace

Task<std::vector<Result<Attributes>>> Namespace::look_up_names(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    std::vector<Result<Attributes>> found;
    found.push_back(co_await lookup(call, parent, names.front()));
    co_return found;
}

Task<Result<Walked>> Namespace::walk(const Call& call, std::string_view path, LastLink last) {
    Trail trail(*this);
    Names names;
    add_names(names, path);
    bool must_be_directory = wants_directory(path);
    int links = 0;
    std::vector<Result<Attributes>> ahead;  // the nodes of the next names, from `next` on
    size_t next = 0;
    size_t taken = 0;
    while (!names.empty()) {
        const std::string name = std::move(names.back());
        names.pop_back();
        ++taken;
        if (call.names_walked != nullptr) ++*call.names_walked;
        if (name == "..") {
            if (call.caller != nullptr) ROS2S_CO_TRY(co_await may_search(call, trail.last()));
            trail.pop();
            continue;
        }
        const bool is_last = names.empty();
        if (is_last && last == LastLink::unasked && !must_be_directory) {
            co_return Walked{.parent = trail.take_last(), .name = name, .attributes = {}};
        }
        if (next == ahead.size()) {
            // Nodes that were found ahead count as looked up: the walk gets to all of them.
            if (call.stop.stop_requested()) co_return fail(Code::cancelled);
            std::vector<std::string_view> run;
            run.reserve(std::min(names.size() + 1, names_ahead_max));
            run.emplace_back(name);
            for (const std::string& after : names | std::views::reverse) {
                if (after == ".." || run.size() == names_ahead_max) break;
                run.emplace_back(after);
            }
            bool reaches_end = run.size() == names.size() + 1;
            if (reaches_end && last == LastLink::unasked && !must_be_directory) {
                run.pop_back();
                reaches_end = false;
            }
            if (reaches_end) {
                ahead = co_await look_up_names(call, trail.last(), run);
            } else {
                ahead = co_await look_up_way(call, trail.last(), run);
            }
            next = 0;
        }
        const Result<Attributes> found = ahead[next++];
        if (!found) {
            if (!is_last || found.error().code != Code::not_found) co_return fail(found.error());
            co_return Walked{.parent = trail.take_last(), .name = name, .attributes = {}};
        }
        if (S_ISLNK(found->mode) && (!is_last || last == LastLink::follow || must_be_directory)) {
            const auto target = ++links > links_followed_max ? Result<std::string>(fail(Code::loop))
                                                             : co_await readlink(call, found->node);
            forget(found->node, 1);
            if (!target) co_return fail(target.error());
            if (target->starts_with('/')) trail.restart();
            if (is_last) must_be_directory = must_be_directory || wants_directory(*target);
            add_names(names, *target);
            if (taken + names.size() > names_walked_max) co_return fail(Code::loop);
            continue;
        }
        if (is_last) {
            if (must_be_directory && !S_ISDIR(found->mode)) {
                forget(found->node, 1);
                co_return fail(Code::not_directory);
            }
            co_return Walked{.parent = trail.take_last(), .name = name, .attributes = *found};
        }
        trail.push(found->node);
        if (!S_ISDIR(found->mode)) co_return fail(Code::not_directory);
    }
    // The path ended in the root, or in "..", so there is no name.
    ROS2S_CO_TRY_ASSIGN(const Attributes attributes, co_await get_attributes(call, trail.last()));
    (void)trail.take_last();
    co_return Walked{.parent = {}, .name = {}, .attributes = attributes};
}

namespace {

// If the walk has found something: whether it can be opened.
Result<> check_opens(const Walked& found, const PathOpen& how) {
    if (!found.attributes) return {};
    if (how.creates && how.flags.exclusive) return fail(Code::exists);
    const mode_t mode = found.attributes->mode;
    if (S_ISDIR(mode)) return fail(Code::is_directory);
    if (S_ISLNK(mode)) return fail(Code::loop);
    return S_ISREG(mode) ? Result<>() : fail(Code::unsupported);
}

Task<Result<Opened>> open_found(Namespace& fs, const Call& call, std::string_view path,
                                PathOpen how) {
    // With an exclusive creation, the creation itself finds out whether the name is taken.
    const LastLink last = how.creates && how.flags.exclusive ? LastLink::unasked
                          : how.follows                      ? LastLink::follow
                                                             : LastLink::keep;
    ROS2S_CO_TRY_ASSIGN(Walked walked, co_await fs.walk(call, path, last));
    // An earlier execution of this call may have created the file that exists.
    const bool repeats = how.creates && call.repeated;
    const auto may = check_opens(walked, how);
    Result<Opened> opened = may ? fail(Code::not_found) : fail(may.error());
    bool opens = may && walked.attributes;
    if (may && how.creates && (repeats || !walked.attributes)) {
        opened = wants_directory(path) ? fail(Code::is_directory)
                                       : co_await fs.create(call, walked.parent, walked.name,
                                                            how.mode, how.flags, how.owner);
        // Where nothing was found, there is now something else than a file, such as a symbolic
        // link: its name is to be looked up again.
        const bool is_other =
            !opened && !walked.attributes && !how.flags.exclusive &&
            (opened.error().code == Code::loop || opened.error().code == Code::invalid);
        if (is_other) opened = fail(Code::stale);
        // Where nothing can be created, the file that exists was there before.
        opens = opens && !opened && opened.error().code == Code::read_only;
    }
    if (opens) {
        opened = co_await fs.open(call, walked.attributes->node, how.flags);
        if (opened) walked.attributes.reset();  // the caller gets its reference
    }
    forget(fs, walked);
    co_return opened;
}

}  // namespace

Task<Result<Opened>> Namespace::open_path(const Call& call, std::string_view path, PathOpen how) {
    return by_name([this, &call, path, how] { return open_found(*this, call, path, how); });
}

Task<Result<Attributes>> resolve(Namespace& fs, const Call& call, std::string_view path,
                                 LastLink last) {
    ROS2S_CO_TRY_ASSIGN(const Walked walked,
                        co_await by_name([&] { return fs.walk(call, path, last); }));
    if (walked.parent != NodeId{}) fs.forget(walked.parent, 1);
    if (!walked.attributes) co_return fail(Code::not_found);
    co_return *walked.attributes;
}

void forget(Namespace& fs, const Walked& walked) {
    if (walked.parent != NodeId{}) fs.forget(walked.parent, 1);
    if (walked.attributes) fs.forget(walked.attributes->node, 1);
}

}  // namespace ros2s::fs
