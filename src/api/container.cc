#include "container.h"

#include <fmt/format.h>

#include "ros2s/fs/dfs.h"

namespace ros2s::api {

Task<Result<object::ContainerRecord>> create_container(const Call& call, Reactor& reactor,
                                                       object::ObjectStore& store,
                                                       object::ContainerProperties properties,
                                                       fs::Owner owner, Report& report) {
    auto created = co_await store.create_container(call, properties);
    if (!created) {
        const auto code = created.error().code;
        const std::string why = code == Code::exists    ? "there is one of that name"
                                : code == Code::invalid ? "a name is 1 to 127 of A-Z a-z 0-9 . _ -"
                                                        : describe(created.error());
        co_return report.fail(created.error(), fmt::format("cannot create the container '{}': {}",
                                                           properties.label, why));
    }
    const auto formatted =
        co_await fs::Dfs::format(call, store, created->id, reactor, owner, report);
    if (!formatted) {
        // What is left of it would be a container that nobody can open.
        [[maybe_unused]] const auto undone = co_await store.destroy_container(call, created->id);
        co_return fail(formatted.error());
    }
    co_return std::move(*created);
}

}  // namespace ros2s::api
