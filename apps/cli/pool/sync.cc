// sync(1) -f and syncfs(2) do not reach the server of a FUSE mount. An fsync of any file of the
// mount does, and makes all of it durable.
#include "sync.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "output/progress.h"
#include "pool_location.h"
#include "ros2s/base/descriptor.h"
#include "ros2s/foreign/open_local_directory.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/reactor.h"
#include "unsynced.h"

namespace ros2s::cli {
namespace {

constexpr Duration asked_every = std::chrono::milliseconds(200);
constexpr Duration told_after = std::chrono::seconds(2);
constexpr Duration told_every = std::chrono::seconds(10);

// What waits, and for how long: a line on a terminal, elsewhere a sentence now and then.
Task<> tell_progress(CommandContext context, const std::string& path, StopToken done) {
    Reactor& reactor = context.environment.reactor;
    Progress line(fmt::format("making {} durable", path), Progress::Unit::bytes,
                  !context.console.json());
    uint64_t most = 0;
    Time told_at = reactor.now() + told_after;
    while (co_await sleep_for(reactor, asked_every, done)) {
        const auto asked = co_await context.environment.blocking.run(
            reactor,
            [&path]() -> Result<std::optional<fs::UnsyncedAnswer>> { return unsynced_of(path); });
        if (done.stop_requested()) co_return;
        const auto unsynced = asked ? *asked : std::nullopt;
        if (unsynced) {
            const uint64_t bytes = unsynced->amount.bytes;
            most = std::max(most, bytes);
            line.update(most - bytes, most);
        }
        if (reactor.now() < told_at) continue;
        told_at = reactor.now() + told_every;
        context.console.warn(
            fmt::format("making {} durable: {}", path,
                        unsynced ? describe(*unsynced) : "the mount does not say how much waits"));
    }
}

}  // namespace

Task<Result<>> make_durable(CommandContext context, const std::string& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) {
        const int failure = errno;
        co_return context.report.fail(Error{Code::io, failure}, "cannot open {}: {}",
                                      shell_word(path), std::strerror(failure));
    }
    if (foreign::file_system_kind(path) != Result<std::string>("fuse.ros2store")) {
        co_return context.report.fail(Code::invalid,
                                      "{} is in no mount of ros2store: list them with `findmnt -t "
                                      "fuse.ros2store`; for other file systems there is sync(1)",
                                      shell_word(path));
    }
    Nursery nursery(context.environment.reactor, 1);
    StopSource done;
    co_await nursery.spawn(tell_progress(context, path, done.token()));
    const int failure = co_await context.environment.blocking.run(
        context.environment.reactor, [&] { return ::fsync(file.get()) == 0 ? 0 : errno; });
    done.request_stop();
    co_await nursery.join();
    if (failure == 0) co_return Result<>{};
    co_return context.report.fail(Error{Code::io, failure},
                                  "{} is not durable: {}. What was changed in the last second may "
                                  "be lost if the machine loses power",
                                  path, std::strerror(failure));
}

Task<Result<>> sync(CommandContext context, SyncOptions options) {
    ROS2S_CO_TRY(co_await make_durable(context, options.path));
    context.console.say("{} is durable", options.path);
    context.console.answer(Json::object({{"durable", options.path}}));
    co_return Result<>{};
}

}  // namespace ros2s::cli
