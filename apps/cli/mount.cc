// mount and down: the one makes this process ros2store-fuse, the other ends such a mount.
#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "dead_mounts.h"
#include "pool_place.h"
#include "process.h"
#include "ros2s/api/owner.h"
#include "ros2s/api/pool_directory.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::cli {
namespace {

// `lazily`: also while somebody stands in it; what is behind it is dead, so that nothing is lost.
// Root unmounts by itself; others by fuse's set-uid helper.
Task<Result<>> unmount(Workplace work, const std::string& mount_point, bool lazily) {
    const int flags = lazily ? MNT_DETACH : 0;
    const int failure = umount2(mount_point.c_str(), flags) == 0 ? 0 : errno;
    if (failure == 0) co_return Result<>{};
    if (failure == EBUSY) {
        co_return work.report.fail(
            Code::busy, fmt::format("{0} is in use (open files, or a shell that stands in it); "
                                    "`fuser -vm {0}` lists by whom",
                                    shell_word(mount_point)));
    }
    if (failure != EPERM) {
        co_return work.report.fail(
            Error{Code::io, failure},
            fmt::format("cannot unmount {}: {}", mount_point, std::strerror(failure)));
    }
    std::vector<std::string> helper{"fusermount3", "-u"};
    if (lazily) helper.emplace_back("-z");
    helper.push_back(mount_point);
    const Result<int> status = co_await work.environment.blocking.run(
        work.environment.reactor, [&] { return run_program(helper); });
    if (!status) {
        co_return work.report.fail(
            status.error(), "cannot run fusermount3; install it: sudo apt-get install fuse3");
    }
    if (*status != 0) {
        co_return work.report.fail(
            Code::io,
            fmt::format("fusermount3 could not unmount {} (its message is above)", mount_point));
    }
    co_return Result<>{};
}

// The mount process writes out what it has and lets go of the pool.
Task<Result<>> wait_until_free(Workplace work, const std::string& directory) {
    Reactor& reactor = work.environment.reactor;
    const Time limit = reactor.now() + std::chrono::seconds(60);
    while (true) {
        ROS2S_CO_TRY_ASSIGN(const api::OwnerRecord owner, owner_of(directory, work.report));
        if (owner.pid == 0) co_return Result<>{};
        ROS2S_CO_TRY(work.call.check(reactor.now()));
        if (reactor.now() > limit) {
            co_return work.report.fail(
                Code::busy,
                fmt::format("unmounted, but process {} still has {} open after a minute; "
                            "look at it with: ps -fp {}",
                            owner.pid, directory, owner.pid));
        }
        co_await sleep_for(reactor, std::chrono::milliseconds(20), work.call.stop);
    }
}

}  // namespace

Task<Result<>> down(Workplace work, DownOptions options) {
    ROS2S_CO_TRY_ASSIGN(const std::string directory, pool_directory_of(options.place, work.report));
    ROS2S_CO_TRY_ASSIGN(const api::PoolDirectory pool,
                        api::read_pool_directory(directory, work.report));
    ROS2S_CO_TRY_ASSIGN(const api::OwnerRecord owner, owner_of(pool.directory, work.report));
    const auto dead = dead_mounts(pool.directory, owner);
    for (const auto& mount_point : dead) {
        ROS2S_CO_TRY(co_await unmount(work, mount_point, true));
        work.session.say(
            fmt::format("unmounted {}, whose process had ended without doing so", mount_point));
    }
    if (owner.pid != 0 && owner.mount_point.empty()) {
        co_return work.report.fail(
            Code::busy, fmt::format("{} is open in process {} ({}), which is no mount; end that "
                                    "program, for example with: kill {}",
                                    pool.directory, owner.pid, owner.program, owner.pid));
    }
    if (owner.pid != 0) {
        ROS2S_CO_TRY(co_await unmount(work, owner.mount_point, false));
        ROS2S_CO_TRY(co_await wait_until_free(work, pool.directory));
        work.session.say(
            fmt::format("unmounted {}; nobody has {} open", owner.mount_point, pool.directory));
    } else {
        work.session.say(fmt::format("nobody has {} open", pool.directory));
    }
    work.session.answer(
        Json::object({{"directory", pool.directory},
                      {"unmounted", owner.pid != 0 ? Json(owner.mount_point) : Json()},
                      {"dead_unmounted", Json::array({dead.begin(), dead.end()})}}));
    co_return Result<>{};
}

Task<Result<>> mount(Workplace work, MountOptions options) {
    ROS2S_CO_TRY(container_uri(options.uri, work.report));
    std::vector<std::string> arguments{sibling_program("ros2store-fuse"), options.uri,
                                       options.mount_point};
    arguments.insert(arguments.end(), options.further.begin(), options.further.end());
    std::vector<char*> values;
    values.reserve(arguments.size() + 1);
    for (auto& argument : arguments) values.push_back(argument.data());
    values.push_back(nullptr);
    execvp(values[0], values.data());
    co_return work.report.fail(
        Error{Code::not_found, errno},
        fmt::format("cannot run {}: {}; build or install ros2store-fuse beside "
                    "this program",
                    arguments[0], std::strerror(errno)));
}

}  // namespace ros2s::cli
