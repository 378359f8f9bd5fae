// Leases: what others may not change before they have asked this mount. A reply comes with leases
// if the call wants them (Call::leases). The mount listens for recalls as long as it exists.
#include "dfs_mount.h"
#include "ros2s/object/leases.h"

namespace ros2s::fs {
namespace {

// 0 is no era of a LeaseSet, and the era of a store in this process.
uint64_t era_of(const object::ObjectStore& store) { return store.pins_era() + 1; }

}  // namespace

Task<Result<>> DfsMount::fetch_leased(const Call& call, RecordChain& chain) {
    const uint64_t era = era_of(store_);
    chain.want_leases();
    ROS2S_CO_TRY(
        co_await store_.fetch_chain(call, container_, holder_, chain.items(), chain.links()));
    if (era != era_of(store_)) co_return Result<>{};
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
    const object::Listening anew{.begins = true, .waits = false};
    object::Listening listening = anew;
    while (!closing.stop_requested()) {
        const uint64_t era = era_of(self.store_);
        const Time sent = self.reactor_.now();
        if (listening.begins) co_await self.leases_.begin(era);
        const Call call{.deadline = sent + object::lease_use_time, .stop = closing};
        const auto news =
            co_await self.store_.listen(call, self.container_, self.holder_, listening);
        if (!news || news->lost || era != era_of(self.store_)) {
            co_await self.leases_.lose_all();
            listening = anew;
            (void)co_await sleep_for(self.reactor_, pause, closing);
            continue;
        }
        self.leases_.extend(era, sent + object::lease_use_time);
        std::vector<Leased> recalled;
        for (const object::Lease& each : news->recalled) {
            recalled.push_back({.node = each.object.low, .number = each.number});
        }
        if (!recalled.empty()) co_await self.leases_.recall(std::move(recalled));
        listening = {.given_back = news->recalled};
    }
    co_await self.leases_.lose_all();
    // Nobody has to wait for a mount that is gone.
    const Call call{.deadline = self.unpin_until_};
    (void)co_await self.store_.listen(call, self.container_, self.holder_, anew);
}

}  // namespace ros2s::fs
