#include "idle_memory.h"

#include <utility>

#include "daemon.h"
#include "ros2s/runtime/rest.h"

namespace ros2s::daemon {

IdleMemory::IdleMemory(Reactor& reactor, BlockingPool& blocking, CoreWatch cores, Daemon& daemon)
    : reactor_(reactor),
      blocking_(blocking),
      cores_(std::move(cores)),
      daemon_(daemon),
      watching_(reactor, 1) {}

Task<> IdleMemory::begin() { co_await watching_.spawn(watch(*this)); }

Task<> IdleMemory::stop() {
    closing_.request_stop();
    co_await watching_.join();
}

Task<> IdleMemory::watch(IdleMemory& self) {
    RestWatch rest;
    while (co_await sleep_for(self.reactor_, std::chrono::seconds(5), self.closing_.token())) {
        if (!rest.came_to_rest(self.cores_.work())) continue;
        self.daemon_.drop_spare();
        (void)co_await self.blocking_.run(self.reactor_, [] {
            give_free_memory_back();
            return Result<>{};
        });
    }
}

}  // namespace ros2s::daemon
