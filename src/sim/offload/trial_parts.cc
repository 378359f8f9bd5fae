#include "trial_parts.h"

#include <fmt/format.h>

#include "ros2s/fs/dfs.h"
#include "ros2s/sim/no_call.h"

namespace ros2s::sim {

void CallNotes::add(size_t client, std::string_view what, const Result<>& done, bool may_fail) {
    if (!done && !may_fail) {
        problems.push_back(fmt::format("client {}: {}: {}", client, what, describe(done.error())));
    }
    if (trace == nullptr) return;
    trace->add(client);
    trace->add(what);
    trace->add(done ? 0 : 1 + static_cast<uint64_t>(done.error().code));
    trace->add(static_cast<uint64_t>(world.now().time_since_epoch().count()));
}

Task<std::unique_ptr<fs::FileSystem>> mount_directly(World& world, StorageServer& storage,
                                                     std::vector<std::string>& problems,
                                                     object::ObjectStore* cipher) {
    Report report;
    object::ObjectStore& store = cipher == nullptr ? storage.store() : *cipher;
    auto files =
        co_await fs::Dfs::mount(no_call, store, storage.container(), world.core(), {}, report);
    if (files) co_return std::move(*files);
    problems.push_back("the file system does not mount: " + report.text());
    co_return nullptr;
}

Task<> pause(World& world, Random& random, Duration most) {
    if (most == Duration{}) co_return;
    co_await sleep_for(world.core(), Duration(random.below(static_cast<uint64_t>(most.count()))));
}

}  // namespace ros2s::sim
