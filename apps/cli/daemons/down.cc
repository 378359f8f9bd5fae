// down: ends mounts, and stops the daemons. Then no process has the pool open.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <ranges>

#include "pool/dead_mounts.h"
#include "pool/pool_location.h"
#include "pool/umount.h"
#include "process.h"
#include "ros2s/base/mount_table.h"
#include "ros2s/pool/owner.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/runtime/reactor.h"
#include "services.h"

namespace ros2s::cli {
namespace {

std::string why_open(const pool::OwnerRecord& owner, const std::string& directory) {
    const std::string fact = fmt::format(
        "{} is not mounted here any more, but process {} still has it open", directory, owner.pid);
    const auto copy = copy_of_mount(directory);
    if (!copy) return fmt::format("{}; look at it with: ps -fp {}", fact, owner.pid);
    return fmt::format(
        "{0}: process {1} ({2}) has a copy of the mount in its mount namespace. End process {1}, "
        "or unmount the copy with: nsenter -t {1} -m umount {3}",
        fact, copy->pid, copy->program, shell_word(copy->mount_point));
}

// The mount's process writes its data and releases the pool. It goes on serving if the mount lives
// on in another mount namespace.
Task<Result<>> wait_until_free(CommandContext context, const std::string& directory) {
    Reactor& reactor = context.environment.reactor;
    const Time limit = reactor.now() + std::chrono::seconds(60);
    const Time patience = reactor.now() + std::chrono::seconds(2);
    std::string reason;
    while (true) {
        ROS2S_CO_TRY_ASSIGN(const pool::OwnerRecord owner, owner_of(directory, context.report));
        if (owner.pid == 0) co_return Result<>{};
        ROS2S_CO_TRY(context.call.check(reactor));
        if (reason.empty() && reactor.now() > patience) {
            reason = why_open(owner, directory);
            context.console.warn(reason);
        }
        if (reactor.now() > limit) co_return context.report.fail(Code::busy, reason);
        co_await sleep_for(reactor, std::chrono::milliseconds(20), context.call.stop);
    }
}

struct Ended {
    std::vector<std::string> dead;       // mount points whose process had ended
    std::vector<std::string> unmounted;  // mount points of living mounts
    std::vector<Service> services;
};

Task<Result<>> end_mounts(CommandContext context, const std::string& directory,
                          const pool::OwnerRecord& owner, PoolMounts mounts, Ended& ended) {
    for (const auto& mount_point : mounts.dead) {
        ROS2S_CO_TRY_ASSIGN(const bool was_mounted, co_await unmount(context, mount_point, true));
        if (!was_mounted) continue;
        ended.dead.push_back(mount_point);
        context.console.say("unmounted {}, whose process had ended without doing so", mount_point);
    }
    for (const auto& mount_point : mounts.silent) {
        ROS2S_CO_TRY_ASSIGN(const bool was_mounted, co_await unmount(context, mount_point, true));
        if (!was_mounted) continue;
        context.console.say("unmounted {}, which did not answer", mount_point);
        ended.unmounted.push_back(mount_point);
    }
    // The owner's record counts if the kernel's table is the one of another namespace.
    std::vector<std::string>& living = mounts.living;
    if (!owner.mount_point.empty() && std::ranges::find(living, owner.mount_point) == living.end())
        living.push_back(owner.mount_point);
    for (const auto& mount_point : living) {
        ROS2S_CO_TRY_ASSIGN(const bool was_mounted, co_await unmount(context, mount_point, false));
        if (owner.mount_point == mount_point) {
            ROS2S_CO_TRY(co_await wait_until_free(context, directory));
        }
        if (!was_mounted) continue;
        context.console.say("unmounted {}", mount_point);
        ended.unmounted.push_back(mount_point);
    }
    co_return Result<>{};
}

// Sockets left by killed daemons.
void remove_sockets(const api::ServicePaths& paths) {
    for (const std::string& path :
         {paths.engine_control, paths.engine_data, paths.dpu_control, paths.dpu_data}) {
        ::unlink(path.c_str());
    }
    // Those of tenants.
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator(paths.run, failed)) {
        if (entry.path().string().starts_with(paths.dpu_data + ".") && entry.is_socket(failed)) {
            ::unlink(entry.path().c_str());
        }
    }
}

Task<Result<>> end_services(CommandContext context, const std::string& directory, bool kill,
                            Ended& ended) {
    const api::ServicePaths paths(directory);
    if (::access(paths.run.c_str(), F_OK) != 0) co_return Result<>{};
    Report refusal;
    const auto turn = co_await take_turn(
        {context.console, context.environment, context.call, refusal}, directory);
    // On a read-only medium nobody can start anything meanwhile, and nothing can be noted.
    const bool notes = turn || turn.error().os_errno != EROFS;
    if (!turn && notes) co_return context.report.fail(turn.error(), refusal.text());
    ROS2S_CO_TRY_ASSIGN(ended.services, co_await stop_services(context, directory, kill));
    for (const Service& service : std::views::reverse(ended.services)) {
        if (service.changed) {
            context.console.say("{} {} (process {})", kill ? "killed" : "stopped",
                                service.paths.program, service.running.pid);
        } else if (service.running.ended != 0) {
            context.console.say("{} had ended before (process {}): {}", service.paths.program,
                                service.running.ended, how_it_ended(service.paths));
        }
        // An empty record shows that this end was wanted.
        if (!notes) continue;
        Report why;
        if (const auto lock = RunLock::take(service.paths.pid, why); !lock) {
            co_return context.report.fail(lock.error(), "cannot note in {} that {} has ended: {}",
                                          service.paths.pid, service.paths.program,
                                          why.empty() ? describe(lock.error()) : why.text());
        }
    }
    remove_sockets(paths);
    co_return Result<>{};
}

// Mounts before daemons, so that they can write what they hold. A mount that does not answer waits
// for a daemon that is gone or hangs. It holds nothing that can be written, is in use by what waits
// in it, and ends with the daemons.
Task<Result<>> end_mounts_and_services(CommandContext context, const std::string& directory,
                                       bool kill, Ended& ended) {
    ROS2S_CO_TRY_ASSIGN(const pool::OwnerRecord owner, owner_of(directory, context.report));
    ROS2S_CO_TRY_ASSIGN(PoolMounts mounts, co_await look_at_mounts(context, directory, owner));
    const bool daemons_first = !mounts.silent.empty();
    if (daemons_first) ROS2S_CO_TRY(co_await end_services(context, directory, kill, ended));
    ROS2S_CO_TRY(co_await end_mounts(context, directory, owner, std::move(mounts), ended));
    if (!daemons_first) ROS2S_CO_TRY(co_await end_services(context, directory, kill, ended));
    co_return Result<>{};
}

}  // namespace

Task<Result<>> down(CommandContext context, DownOptions options) {
    ROS2S_CO_TRY_ASSIGN(const std::string directory,
                        pool_directory_of(options.location, context.report));
    ROS2S_CO_TRY_ASSIGN(const pool::PoolDirectory pool,
                        pool::read_pool_settings(directory, context.report));
    Ended ended;
    ROS2S_CO_TRY(co_await end_mounts_and_services(context, pool.directory, options.kill, ended));
    ROS2S_CO_TRY_ASSIGN(const pool::OwnerRecord owner, owner_of(pool.directory, context.report));
    if (owner.pid != 0) {
        co_return context.report.fail(
            Code::busy,
            "{} is open in process {} ({}), which is not a mount and was not started by `ros2store "
            "up`; end that program, for example with: kill {}",
            pool.directory, owner.pid, owner.program, owner.pid);
    }
    context.console.say("no process has {} open", pool.directory);
    std::vector<Json> unmounted(ended.unmounted.begin(), ended.unmounted.end());
    context.console.answer(
        Json::object({{"directory", pool.directory},
                      {"unmounted", unmounted.empty() ? Json() : unmounted.front()},
                      {"all_unmounted", Json::array(unmounted)},
                      {"dead_unmounted", Json::array({ended.dead.begin(), ended.dead.end()})},
                      {"daemons", value_of(ended.services)}}));
    co_return Result<>{};
}

}  // namespace ros2s::cli
