// Granted: the containers, or the directory of a container, for which a right is given. Settings of
// daemons and tenants use the same form:
//
//     images              a container
//     run-*               all whose names begin so; "*": all
//     images/cats/small   a directory of a container, with everything in it
//
// Plain values; any thread.
#pragma once
#include <string>
#include <string_view>

#include "ros2s/base/result.h"

namespace ros2s::session {

struct Granted {
    std::string label;  // or the beginning of labels, if is_prefix
    bool is_prefix = false;
    std::string path{};  // names separated by '/'; empty: the whole container

    static constexpr size_t names_max = 64;  // of a path

    [[nodiscard]] bool has(std::string_view container) const {
        return is_prefix ? container.starts_with(label) : container == label;
    }
    // True if this includes everything in `other`.
    [[nodiscard]] bool has(const Granted& other) const;
    friend bool operator==(const Granted&, const Granted&) = default;
};

// Errors: invalid; `why` then describes the error in the path. Empty: the container's name is
// wrong.
[[nodiscard]] Result<Granted> parse_granted(std::string_view text, std::string& why);

}  // namespace ros2s::session
