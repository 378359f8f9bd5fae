#include "grant.h"

#include <algorithm>

namespace ros2s::rights {
namespace {

bool is_inside(std::string_view path, std::string_view top) {
    return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

}  // namespace

std::string to_string(Rights rights) {
    std::string text;
    for (const Right right : all_rights) {
        if (!rights.names(right)) continue;
        text += text.empty() ? "" : ", ";
        text += to_string(right);
    }
    return text.empty() ? "see" : text;
}

bool Grant::includes(const Grant& other) const {
    if (pool != other.pool || !container.includes(other.container)) return false;
    if (path.empty()) return true;
    return !other.container.is_prefix() && is_inside(other.path, path);
}

bool give(std::span<const Grant> grants, const Grant& wanted) {
    return std::ranges::all_of(all_rights, [&](Right right) {
        return !wanted.rights.has(right) || std::ranges::any_of(grants, [&](const Grant& each) {
            return each.rights.has(right) && each.includes(wanted);
        });
    });
}

}  // namespace ros2s::rights
