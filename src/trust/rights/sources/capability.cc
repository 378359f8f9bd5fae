#include "capability.h"

namespace ros2s::rights {
namespace {

constexpr std::pair<uint8_t, Right> rights_by_bit[] = {
    {capability::right_read, Right::read},
    {capability::right_write, Right::write},
    {capability::right_create, Right::create},
    {capability::right_destroy, Right::destroy},
};

}  // namespace

Grant grant_of(const std::string& pool, const capability::Use& use) {
    Grant grant{.pool = pool, .container = {.label = use.container}, .path = {}, .rights = {}};
    if (grant.container.label.ends_with('*')) {
        grant.container.label.pop_back();
        grant.container.is_prefix = true;
    }
    for (const auto& [bit, right] : rights_by_bit) {
        if ((use.rights & bit) != 0) grant.rights.add(right);
    }
    return grant;
}

VerifiedCapability verified(const std::string& pool, const capability::Capability& first,
                            const capability::Capability& last) {
    return {.grant = grant_of(pool, last.use),
            .directories = last.use.directories,
            .links = last.depth,
            .generation = last.generation,
            .first = first.id,
            .last = last.id,
            .program = first.holder,
            .begins = last.not_before,
            .ends = last.expires};
}

}  // namespace ros2s::rights
