#include "granted.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/base/json.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/object/object_store.h"

namespace ros2s::session {
namespace {

bool is_inside(std::string_view path, std::string_view top) {
    return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

// Empty: nothing.
std::string wrong_with(std::string_view path) {
    if (path.empty()) {
        return "there is no directory after the '/'; leave the '/' out to give the whole container";
    }
    if (path.find('*') != path.npos) return "a * is possible in names of containers only";
    const bool is_text =
        std::ranges::none_of(path, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (!is_text || !is_utf8(path)) {
        return "the path of a directory has letters of UTF-8 and no control characters";
    }
    size_t count = 0;
    for (size_t begin = 0; begin <= path.size(); ++count) {
        const size_t end = std::min(path.find('/', begin), path.size());
        const std::string_view name = path.substr(begin, end - begin);
        if (name.empty()) return "a name in its path is empty";
        if (const auto valid = fs::check_name(name); !valid) {
            return valid.error().code == Code::name_too_long
                       ? fmt::format("a name in its path has more than {} bytes",
                                     fs::name_bytes_max)
                       : "its path has '.' or '..'; write the whole path from the container's root";
        }
        begin = end + 1;
    }
    if (count > Granted::names_max) {
        return fmt::format("its path has more than {} names", Granted::names_max);
    }
    return {};
}

}  // namespace

bool Granted::has(const Granted& other) const {
    if (path.empty()) return has(other.label) && (is_prefix || !other.is_prefix);
    return !other.is_prefix && other.label == label && is_inside(other.path, path);
}

Result<Granted> parse_granted(std::string_view text, std::string& why) {
    const size_t slash = text.find('/');
    Granted granted{.label = std::string(text.substr(0, slash))};
    if (slash != text.npos) {
        std::string_view path = text.substr(slash + 1);
        if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
        granted.path = path;
    } else if (granted.label.ends_with('*')) {
        granted.is_prefix = true;
        granted.label.pop_back();
    }
    const bool any_label = granted.is_prefix && granted.label.empty();
    if (!any_label && !object::is_valid_label(granted.label)) return fail(Code::invalid);
    if (slash == text.npos) return granted;
    why = wrong_with(granted.path);
    if (!why.empty()) return fail(Code::invalid);
    return granted;
}

}  // namespace ros2s::session
