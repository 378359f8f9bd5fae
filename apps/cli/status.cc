// status: what is in a pool directory and who has it open, without disturbing the owner.
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <optional>

#include "pool_place.h"
#include "ros2s/api/owner.h"
#include "ros2s/api/pool_directory.h"

namespace ros2s::cli {
namespace {

struct Content {
    std::optional<object::PoolSpace> space;
    std::vector<Json> containers;
    std::string names;
    bool known = false;
};

// Through the mount where there is one; otherwise by opening the pool, when nobody else has it.
Task<Result<Content>> look_inside(Workplace work, const api::PoolDirectory& pool,
                                  const api::OwnerRecord& owner) {
    Content content;
    if (owner.pid != 0) {
        struct statvfs space{};
        if (!owner.mount_point.empty() && statvfs(owner.mount_point.c_str(), &space) == 0) {
            content.space = {.total_bytes = space.f_blocks * space.f_frsize,
                             .free_bytes = space.f_bfree * space.f_frsize};
        }
        co_return content;
    }
    ROS2S_CO_TRY_ASSIGN(const auto opened, co_await open_pool(work, pool.directory));
    const auto space = co_await opened->store().space(work.call);
    const auto containers = co_await opened->store().list_containers(work.call);
    co_await opened->close();
    ROS2S_CO_TRY(space);
    ROS2S_CO_TRY(containers);
    content.space = *space;
    content.known = true;
    for (const auto& container : *containers) {
        content.containers.emplace_back(container.properties.label);
        content.names += (content.names.empty() ? "" : ", ") + container.properties.label;
    }
    co_return content;
}

void report_status(const Session& session, const api::PoolDirectory& pool,
                   const api::OwnerRecord& owner, const Content& content) {
    session.say(fmt::format("pool        {} in {}", pool.config.pool, pool.directory));
    for (const auto& device : pool.devices) session.say(fmt::format("device      {}", device));
    if (content.space) {
        const uint64_t used = content.space->total_bytes - content.space->free_bytes;
        session.say(fmt::format("space       {} for data, {} used, {} free",
                                human_bytes(content.space->total_bytes), human_bytes(used),
                                human_bytes(content.space->free_bytes)));
    }
    if (content.known) {
        session.say(fmt::format("containers  {}", content.names.empty() ? "none" : content.names));
    }
    if (owner.pid == 0) {
        session.say("open by     nobody");
    } else {
        session.say(fmt::format("open by     {}", api::describe_owner(pool.directory, owner)));
    }
}

Json owner_value(const api::OwnerRecord& owner) {
    if (owner.pid == 0) return {};
    return Json::object({{"pid", owner.pid},
                         {"program", owner.program},
                         {"mount_point", owner.mount_point},
                         {"container", owner.container}});
}

}  // namespace

Task<Result<>> status(Workplace work, StatusOptions options) {
    ROS2S_CO_TRY_ASSIGN(const std::string directory, pool_directory_of(options.place, work.report));
    ROS2S_CO_TRY_ASSIGN(const api::PoolDirectory pool,
                        api::read_pool_directory(directory, work.report));
    ROS2S_CO_TRY_ASSIGN(const api::OwnerRecord owner, owner_of(pool.directory, work.report));
    ROS2S_CO_TRY_ASSIGN(const Content content, co_await look_inside(work, pool, owner));
    report_status(work.session, pool, owner, content);
    const std::vector<Json> devices(pool.devices.begin(), pool.devices.end());
    work.session.answer(
        Json::object({{"directory", pool.directory},
                      {"pool", pool.config.pool},
                      {"devices", Json::array(devices)},
                      {"device_bytes", pool.device_bytes},
                      {"total_bytes", content.space ? Json(content.space->total_bytes) : Json()},
                      {"free_bytes", content.space ? Json(content.space->free_bytes) : Json()},
                      {"containers", content.known ? Json::array(content.containers) : Json()},
                      {"owner", owner_value(owner)}}));
    co_return Result<>{};
}

Task<Result<>> pool_query(Workplace work, PoolOptions options) {
    co_return co_await status(work, {.place = options.directory});
}

}  // namespace ros2s::cli
