// status: the contents of a pool directory and its owner, without disturbing the owner.
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include <array>
#include <charconv>
#include <optional>

#include "daemons/daemon_control.h"
#include "daemons/services.h"
#include "dead_mounts.h"
#include "pool_access.h"
#include "pool_location.h"
#include "ros2s/api/deployment.h"
#include "ros2s/api/mount_trace.h"
#include "ros2s/pool/owner.h"
#include "ros2s/pool/pool_directory.h"
#include "unsynced.h"

namespace ros2s::cli {
namespace {

struct Content {
    std::optional<object::PoolSpace> space;
    std::optional<uint64_t> index_bytes;  // on its disk; none: it is another user's
    std::optional<uint32_t> targets;
    std::optional<std::string> read_only;  // the reason, or empty if it takes updates
    std::vector<Json> containers;
    std::string names;
    bool known = false;
    std::string trouble;  // why the engine that has the pool open does not answer; "": none
};

// The mount's process answers. Values that it does not return stay unknown.
void ask_mount(const std::string& mount_point, Content& content) {
    std::array<char, 4096> told{};
    const ssize_t bytes =
        ::getxattr(mount_point.c_str(), api::mount_status_attribute, told.data(), told.size());
    if (bytes <= 0) return;
    const char* const end = told.data() + bytes;
    uint32_t targets = 0;
    const auto [at, error] = std::from_chars(told.data(), end, targets);
    if (error != std::errc() || at == end || *at != ' ') return;
    content.targets = targets;
    content.read_only.emplace(at + 1, end);
}

// A status of hanging daemons must be printed, too.
constexpr Duration answer_max = std::chrono::seconds(5);

// Through the mount or engine that has the pool open; if there is none, by opening the pool.
Task<Result<Content>> look_inside(CommandContext context, const pool::PoolDirectory& pool,
                                  const pool::OwnerRecord& owner) {
    Content content;
    if (owner.pid != 0 && !api::is_served(pool.directory, owner)) {
        struct statvfs space{};
        if (!owner.mount_point.empty() && statvfs(owner.mount_point.c_str(), &space) == 0) {
            content.space = {.total_bytes = space.f_blocks * space.f_frsize,
                             .free_bytes = space.f_bfree * space.f_frsize};
            ask_mount(owner.mount_point, content);
        }
        co_return content;
    }
    ROS2S_CO_TRY_ASSIGN(const auto opened, co_await access_pool(context, pool.directory));
    Call call = context.call;
    call.deadline = context.environment.reactor.now() + answer_max;
    const auto space = co_await opened->space(call);
    const auto containers = co_await opened->containers(call);
    content.targets = opened->targets();
    content.read_only = opened->read_only_reason();
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

// If the engine that has the pool open does not answer, the rest is printed all the same.
Task<Result<Content>> look_or_say_why(CommandContext context, const pool::PoolDirectory& pool,
                                      const pool::OwnerRecord& owner,
                                      const std::string& known_trouble) {
    if (!api::is_served(pool.directory, owner))
        co_return co_await look_inside(context, pool, owner);
    if (!known_trouble.empty()) co_return Content{.trouble = known_trouble};
    Report trouble;
    auto content = co_await look_inside({.console = context.console,
                                         .environment = context.environment,
                                         .call = context.call,
                                         .report = trouble},
                                        pool, owner);
    if (content) co_return std::move(*content);
    ROS2S_CO_TRY(context.call.check(context.environment.reactor));
    co_return Content{.trouble = trouble.empty() ? describe(content.error()) : trouble.text()};
}

void report_status(const Console& console, const pool::PoolDirectory& pool,
                   const pool::OwnerRecord& owner, const Content& content) {
    console.say("pool        {} in {}", pool.config.pool, pool.directory);
    for (const auto& device : pool.devices) console.say("device      {}", device);
    if (content.space) {
        const uint64_t used = content.space->total_bytes - content.space->free_bytes;
        console.say("space       {} for data, {} used, {} free",
                    human_bytes(content.space->total_bytes), human_bytes(used),
                    human_bytes(content.space->free_bytes));
    }
    if (content.index_bytes) {
        console.say("index       {} on disk, beside that space", human_bytes(*content.index_bytes));
    }
    if (content.known) {
        console.say("containers  {}", content.names.empty() ? "none" : content.names);
    }
    if (!content.trouble.empty()) {
        console.say("containers  unknown: {}", content.trouble);
    }
    if (content.targets) console.say("targets     {}", *content.targets);
    if (content.read_only) {
        console.say("state       {}", content.read_only->empty()
                                          ? "takes reads and writes"
                                          : "read-only: " + *content.read_only);
    }
    if (owner.pid == 0) {
        console.say("open by     no process");
    } else if (owner.program == pool::engine_program || owner.shares) {
        console.say("open by     process {} ({})", owner.pid, owner.program);
        for (const pool::PoolUser& user : owner.users) {
            console.say("used by     process {} ({}), through it", user.pid, user.program);
        }
    } else if (owner.mount_point.empty()) {
        console.say("open by     {}", pool::describe_owner(pool.directory, owner));
    } else {
        console.say("open by     process {} ({}): container '{}' is mounted at {}", owner.pid,
                    owner.program, owner.container, owner.mount_point);
        console.say("            end it with: ros2store down {}", shell_word(pool.directory));
    }
}

void report_mounts(const Console& console, const std::string& directory,
                   const pool::OwnerRecord& owner, const PoolMounts& mounts) {
    for (const auto& mount_point : mounts.living) {
        const auto unsynced = mounts.unsynced.find(mount_point);
        const std::string kept =
            unsynced == mounts.unsynced.end() ? "" : ": " + describe(unsynced->second);
        if (mount_point != owner.mount_point || !kept.empty()) {  // the owner's was reported
            console.say("mount       {}{}", mount_point, kept);
        }
    }
    for (const auto& mount_point : mounts.silent) {
        console.say("mount       {}: it does not answer", mount_point);
    }
    for (const auto& mount_point : mounts.dead) {
        console.say(
            "dead mount  {}: its process has ended without unmounting it; remove it with: "
            "ros2store down {}",
            mount_point, shell_word(directory));
    }
}

Json owner_value(const pool::OwnerRecord& owner) {
    if (owner.pid == 0) return {};
    std::vector<Json> users;
    for (const pool::PoolUser& user : owner.users) {
        users.push_back(Json::object({{"pid", user.pid}, {"program", user.program}}));
    }
    return Json::object({{"pid", owner.pid},
                         {"program", owner.program},
                         {"mount_point", owner.mount_point},
                         {"container", owner.container},
                         {"users", Json::array(users)}});
}

}  // namespace

Task<Result<>> status(CommandContext context, StatusOptions options) {
    ROS2S_CO_TRY_ASSIGN(const std::string directory,
                        pool_directory_of(options.location, context.report));
    ROS2S_CO_TRY_ASSIGN(const pool::PoolDirectory pool,
                        pool::read_pool_directory(directory, context.report));
    ROS2S_CO_TRY_ASSIGN(const pool::OwnerRecord owner, owner_of(pool.directory, context.report));
    Report trouble;
    auto services = find_services(pool.directory, trouble);
    if (services) ROS2S_CO_TRY(co_await ask_services(context, pool.directory, *services));
    ROS2S_CO_TRY_ASSIGN(
        Content content,
        co_await look_or_say_why(context, pool, owner, services ? services->front().trouble : ""));
    if (const auto bytes = pool::index_disk_bytes(pool)) content.index_bytes = *bytes;
    report_status(context.console, pool, owner, content);
    ROS2S_CO_TRY_ASSIGN(PoolMounts mounts, co_await look_at_mounts(context, pool.directory, owner));
    if (const auto unsynced = unsynced_of(owner.mount_point)) {
        mounts.unsynced[owner.mount_point] = *unsynced;
    }
    report_mounts(context.console, pool.directory, owner, mounts);
    std::vector<Json> mounted(mounts.living.begin(), mounts.living.end());
    mounted.insert(mounted.end(), mounts.silent.begin(), mounts.silent.end());
    if (services) {
        report_services(context.console, *services, pool.directory);
    } else {
        context.console.say("daemons     unknown: {}", trouble.text());
    }
    std::vector<Json::Member> unsynced;
    for (const auto& [mount_point, answer] : mounts.unsynced) {
        unsynced.emplace_back(mount_point, value_of(answer));
    }
    const std::vector<Json> devices(pool.devices.begin(), pool.devices.end());
    context.console.answer(Json::object(
        {{"directory", pool.directory},
         {"pool", pool.config.pool},
         {"devices", Json::array(devices)},
         {"device_bytes", pool.device_bytes},
         {"total_bytes", content.space ? Json(content.space->total_bytes) : Json()},
         {"free_bytes", content.space ? Json(content.space->free_bytes) : Json()},
         {"index_bytes", content.index_bytes ? Json(*content.index_bytes) : Json()},
         {"targets", content.targets ? Json(*content.targets) : Json()},
         {"read_only", content.read_only ? Json(!content.read_only->empty()) : Json()},
         {"read_only_reason",
          content.read_only && !content.read_only->empty() ? Json(*content.read_only) : Json()},
         {"containers", content.known ? Json::array(content.containers) : Json()},
         {"trouble", content.trouble.empty() ? Json() : Json(content.trouble)},
         {"owner", owner_value(owner)},
         {"mounts", Json::array(mounted)},
         {"unsynced", Json::object(unsynced)},
         {"dead_mounts", Json::array({mounts.dead.begin(), mounts.dead.end()})},
         {"daemons", services ? value_of(*services) : Json()}}));
    co_return Result<>{};
}

Task<Result<>> pool_query(CommandContext context, PoolOptions options) {
    co_return co_await status(context, {.location = options.directory});
}

}  // namespace ros2s::cli
