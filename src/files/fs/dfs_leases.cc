// Leases: what others may not change before they have asked this mount. A reply comes with leases
// if the call wants them (Call::leases). The mount listens for recalls as long as it exists.
#include "dfs_mount.h"
#include "ros2s/object/leases.h"

namespace ros2s::fs {

// A reply to a request that was sent before the store has answered that the mount begins to listen
// may have a lease that the store has ended since.
Task<Result<>> DfsMount::fetch_leased(const Call& call, RecordChain& chain) {
    const uint64_t era = leases_.era();
    if (era != 0) chain.want_leases();
    ROS2S_CO_TRY(
        co_await store_.fetch_chain(call, container_, holder_, chain.items(), chain.links()));
    if (era == 0) co_return Result<>{};
    for (const uint32_t index : chain.inodes()) {
        const Leased lease{.node = chain.item(index).object.low,
                           .number = chain.links()[index].lease};
        if (lease.number != 0 && leases_.take(era, lease)) call.leases->push_back(lease);
    }
    co_return Result<>{};
}

Task<> DfsMount::listen(DfsMount& self) {
    constexpr Duration pause = std::chrono::milliseconds(100);
    const StopToken closing = self.closing_.token();
    co_await self.leases_.wanted();
    if (closing.stop_requested()) co_return;
    const object::Listening anew{.begins = true, .waits = false};
    object::Listening listening = anew;
    uint64_t beginnings = 0;
    while (!closing.stop_requested()) {
        const uint64_t era = self.store_.pins_era();
        const Time sent = self.reactor_.now();
        const Call call{.deadline = sent + object::lease_use_time, .stop = closing};
        const auto news =
            co_await self.store_.listen(call, self.container_, self.holder_, listening);
        if (!news || news->lost || era != self.store_.pins_era()) {
            co_await self.leases_.lose_all();
            listening = anew;
            (void)co_await sleep_for(self.reactor_, pause, closing);
            continue;
        }
        if (listening.begins) co_await self.leases_.begin(++beginnings);
        self.leases_.extend(beginnings, sent + object::lease_use_time);
        std::vector<Leased> recalled;
        for (const object::Lease& each : news->recalled) {
            recalled.push_back({.node = each.object.low, .number = each.number});
        }
        if (!recalled.empty()) co_await self.leases_.recall(std::move(recalled));
        listening = {.given_back = news->recalled};
    }
    co_await self.leases_.lose_all();
    if (!self.leaves_orphans()) co_return;  // it ends, and tells that when it has no pins
    // Nobody has to wait for a mount that is gone.
    const Call call{.deadline = self.unpin_until_};
    (void)co_await self.store_.listen(call, self.container_, self.holder_, anew);
}

}  // namespace ros2s::fs
