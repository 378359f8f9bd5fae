#include "umount.h"

#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "daemons/process.h"
#include "pool_location.h"
#include "ros2s/base/mount_table.h"
#include "sync.h"

namespace ros2s::cli {

Task<Result<bool>> unmount(CommandContext context, const std::string& mount_point, bool lazily) {
    const int flags = lazily ? MNT_DETACH : 0;
    if (umount2(mount_point.c_str(), flags) == 0) co_return true;
    const int failure = errno;
    if (mounted_on(mount_point).kind.empty()) co_return false;
    if (failure == EBUSY) {
        co_return context.report.fail(Code::busy,
                                      "{0} is in use (open files, or a shell whose working "
                                      "directory is in it); `fuser -vm {0}` lists the processes",
                                      shell_word(mount_point));
    }
    if (failure != EPERM) {
        co_return context.report.fail(Error{Code::io, failure}, "cannot unmount {}: {}",
                                      mount_point, std::strerror(failure));
    }
    std::vector<std::string> helper{"fusermount3", "-u"};
    if (lazily) helper.emplace_back("-z");
    helper.push_back(mount_point);
    const auto said = co_await context.environment.blocking.run(
        context.environment.reactor, [&] { return run_program(helper); });
    if (!said) {
        co_return context.report.fail(
            said.error(), "cannot run fusermount3; install it: sudo apt-get install fuse3");
    }
    if (said->status != 0) {
        if (mounted_on(mount_point).kind.empty()) co_return false;
        co_return context.report.fail(Code::io,
                                      "fusermount3 could not unmount {0} (its message is above); "
                                      "if another user mounted it, he or root can: umount {0}",
                                      shell_word(mount_point));
    }
    co_return true;
}

Task<Result<>> umount(CommandContext context, UmountOptions options) {
    std::error_code ignored;
    const std::string path = std::filesystem::canonical(options.mount_point, ignored).string();
    const std::string& mount_point = path.empty() ? options.mount_point : path;
    if (mounted_on(mount_point).kind != "fuse.ros2store") {
        co_return context.report.fail(
            Code::invalid, "{} is no mount of ros2store; list them with: findmnt -t fuse.ros2store",
            shell_word(options.mount_point));
    }
    ROS2S_CO_TRY(co_await make_durable(context, mount_point));
    ROS2S_CO_TRY(co_await unmount(context, mount_point, false));
    context.console.say("unmounted {}", mount_point);
    context.console.answer(Json::object({{"unmounted", mount_point}}));
    co_return Result<>{};
}

}  // namespace ros2s::cli
