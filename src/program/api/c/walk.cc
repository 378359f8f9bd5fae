#include "walk.h"

#include "ros2s/base/check.h"

namespace ros2s::api::c {

std::string join(std::string_view base, std::string_view path) {
    if (path.starts_with('/') || base.empty()) return std::string(path);
    std::string whole(base);
    whole += '/';
    whole += path;
    return whole;
}

Walk::~Walk() {
    if (walked_) fs::forget(fs_, *walked_);
    for (const auto node : added_) fs_.forget(node, 1);
}

// forget() drops the node of the attributes and the parent; without attributes only the parent.
void Walk::keep() {
    ROS2S_CHECK(walked_ && walked_->attributes);
    walked_->attributes.reset();
}

Task<Result<fs::Attributes>> Walk::to(std::string_view base, std::string_view path, Last last) {
    const std::string whole = join(base, path);
    ROS2S_CO_TRY_ASSIGN(walked_,
                        co_await fs::by_name([&] { return fs_.walk(call_, whole, last); }));
    if (walked_->attributes) co_return *walked_->attributes;
    co_return fail(Code::not_found);
}

Task<Result<NodeAndName>> Walk::to_name(std::string_view base, std::string_view path) {
    if (path.empty()) co_return fail(Code::not_found);
    const std::string whole = join(base, path);
    ROS2S_CO_TRY_ASSIGN(
        walked_, co_await fs::by_name([&] { return fs_.walk(call_, whole, Last::unasked); }));
    if (walked_->name.empty()) co_return fail(Code::invalid);
    co_return NodeAndName{walked_->parent, walked_->name};
}

}  // namespace ros2s::api::c
