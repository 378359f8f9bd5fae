#include "side_by_side.h"

#include <fmt/format.h>

#include "ros2s/base/check.h"

namespace ros2s::rights {

void check_same(bool is_same, std::string_view earlier, const Principal& principal,
                const Container& container, Wanted what, const Decision& decision,
                std::source_location where) {
    if (is_same) [[likely]]
        return;
    const std::string text = fmt::format(
        "two deciders agree: {} (tenant '{}', owner '{}'{}) wants to {} {}/{} (owner '{}'): "
        "earlier '{}', now '{}'",
        principal.subject, principal.tenant, principal.owner,
        principal.capability ? ", by a capability" : "", to_string(what), container.pool,
        container.label, container.owner, earlier, decision.text());
    check_failed(text.c_str(), where.file_name(), static_cast<int>(where.line()));
}

}  // namespace ros2s::rights
