#include "walk.h"

#include <algorithm>

namespace ros2s::api::c {

Walk::~Walk() {
    for (const auto node : looked_up_) fs_.forget(node, 1);
}

void Walk::keep(fs::NodeId node) {
    const auto found = std::ranges::find(looked_up_, node);
    if (found != looked_up_.end()) looked_up_.erase(found);
}

// Puts the components of `path` before those still to come.
void Walk::push_front(std::string_view path) {
    std::vector<std::string> components;
    while (!path.empty()) {
        const auto name = path.substr(0, path.find('/'));
        if (!name.empty() && name != ".") components.emplace_back(name);
        path.remove_prefix(std::min(name.size() + 1, path.size()));
    }
    rest_.insert(rest_.end(), components.rbegin(), components.rend());
}

Task<Result<>> Walk::enter(std::string_view base, std::string_view path) {
    if (path.size() > path_bytes_max) co_return fail(Code::name_too_long);
    rest_.clear();
    push_front(path);
    if (!path.starts_with('/')) push_front(base);
    directory_wanted_ = path.ends_with('/') || path.ends_with("/.");
    ROS2S_CO_TRY_ASSIGN(auto root, co_await fs_.get_attributes(call_, fs::root_node));
    trail_.assign(1, root);
    co_return {};
}

Task<Result<fs::Attributes>> Walk::to(std::string_view base, std::string_view path, Last last) {
    ROS2S_CO_TRY(co_await enter(base, path));
    ROS2S_CO_TRY_ASSIGN(auto found, co_await run(directory_wanted_ ? Last::follow : last));
    if (directory_wanted_ && !S_ISDIR(found.mode)) co_return fail(Code::not_directory);
    co_return found;
}

Task<Result<Place>> Walk::to_place(std::string_view base, std::string_view path) {
    ROS2S_CO_TRY(co_await enter(base, path));
    if (rest_.empty()) co_return fail(path.empty() ? Code::not_found : Code::invalid);
    std::string name = std::move(rest_.front());
    rest_.erase(rest_.begin());
    if (name == "..") co_return fail(Code::invalid);
    ROS2S_CO_TRY_ASSIGN(const auto parent, co_await run(Last::follow));
    if (!S_ISDIR(parent.mode)) co_return fail(Code::not_directory);
    co_return Place{parent.node, std::move(name)};
}

Task<Result<fs::Attributes>> Walk::run(Last last) {
    while (!rest_.empty()) {
        std::string name = std::move(rest_.back());
        rest_.pop_back();
        ROS2S_CO_TRY(co_await step(std::move(name), rest_.empty(), last));
    }
    co_return trail_.back();
}

Task<Result<>> Walk::step(std::string name, bool is_last, Last last) {
    const auto here = trail_.back();
    if (!S_ISDIR(here.mode)) co_return fail(Code::not_directory);
    if (name == "..") {
        if (trail_.size() > 1) trail_.pop_back();
        co_return {};
    }
    auto found = co_await fs_.lookup(call_, here.node, name);
    if (!found) {
        if (found.error().code == Code::not_found && is_last) {
            missing_ = {here.node, std::move(name)};
        }
        co_return fail(found.error());
    }
    looked_up_.push_back(found->node);
    if (!S_ISLNK(found->mode) || (is_last && last == Last::keep)) {
        trail_.push_back(*found);
        co_return {};
    }
    if (++links_ > links_max) co_return fail(Code::loop);
    ROS2S_CO_TRY_ASSIGN(const auto target, co_await fs_.readlink(call_, found->node));
    if (target.starts_with('/')) trail_.resize(1);
    push_front(target);
    co_return {};
}

}  // namespace ros2s::api::c
