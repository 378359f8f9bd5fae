#include "settled_stack.h"

#include <errno.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "device_files.h"
#include "pool_files.h"

namespace ros2s::pool {

Result<> end_growth(const PoolDirectory& directory, Report& report) {
    const auto marker = in(directory.directory, growing_name);
    if (::unlink(marker.c_str()) != 0 && errno != ENOENT) {
        return cannot("finish the growth of the pool: remove", marker, fail_errno(errno).error(),
                      report);
    }
    if (const auto synced = sync_directory(directory.directory); !synced) {
        return cannot("make durable", directory.directory, synced.error(), report);
    }
    return {};
}

Task<Result<std::unique_ptr<StoreStack>>> open_settled(Environment environment,
                                                       PoolDirectory& directory, Report& report,
                                                       StackOptions stack_options) {
    if (directory.growing.empty()) {
        co_return co_await StoreStack::open(environment, directory, report, stack_options);
    }
    const std::string added = std::exchange(directory.growing, {});
    Report refusal;
    auto stack = co_await StoreStack::open(environment, directory, refusal, stack_options);
    std::error_code error;
    if (!stack && stack.error().code == Code::invalid && std::filesystem::exists(added, error)) {
        // An older device knows of the new one, so it belongs to the pool.
        directory.devices.push_back(added);
        directory.device_bytes += device_bytes(added).value_or(0);
        refusal = {};
        stack = co_await StoreStack::open(environment, directory, refusal, stack_options);
        if (stack) {
            environment.log.info(fmt::format(
                "a growth that was interrupted is finished: the pool has {} now", added));
        }
    } else if (stack) {
        if (const auto removed = remove_device(added); !removed) {
            co_await (*stack)->close();
            co_return cannot("remove what an interrupted growth left:", added, removed.error(),
                             report);
        }
        environment.log.info(
            fmt::format("a growth that was interrupted is undone: {} is gone", added));
    }
    if (!stack) co_return report.fail(stack.error(), refusal.text());
    if (const auto ended = end_growth(directory, report); !ended) {
        co_await (*stack)->close();
        co_return fail(ended.error());
    }
    co_return std::move(stack);
}

}  // namespace ros2s::pool
