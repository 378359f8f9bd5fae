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
        take_lease(call, era, lease);
    }
    co_return Result<>{};
}

void DfsMount::take_lease(const Call& call, uint64_t era, const Leased& lease) {
    if (lease.number != 0 && leases_.take(era, lease)) call.leases->push_back(lease);
}

Leased DfsMount::lease_of(const Call& call, NodeId directory) const {
    return {.node = directory.value,
            .number = call.leases != nullptr ? leases_.number_of(directory) : 0};
}

// Under one lease from before the change to its reply, nothing else has changed the names.
void DfsMount::note_changed(const Call& call, Leased before, const Result<Commit>& done) {
    if (!done || done->replayed || !leases_.holds(before)) return;
    before.changed = done->time;
    call.leases->push_back(before);
}

// The mount as a client of its store.
class DfsMount::StoreLeases final : public LeaseServer {
  public:
    explicit StoreLeases(DfsMount& mount) : mount_(mount) {}

    Task<News> hear(bool begins, Time sent) override {
        const uint64_t era = mount_.store_.pins_era();
        object::Listening listening{.begins = begins, .waits = !begins};
        if (!begins) listening.given_back = std::move(recalled_);
        recalled_.clear();
        const Time until = sent + object::lease_use_time;
        const Call call{.deadline = until, .stop = mount_.closing_.token()};
        auto news =
            co_await mount_.store_.listen(call, mount_.container_, mount_.holder_, listening);
        if (!news || news->lost || era != mount_.store_.pins_era()) co_return News{};
        News heard{.lost = false, .until = until};
        for (const object::Lease& each : news->recalled) {
            heard.recalled.push_back({.node = each.object.low, .number = each.number});
        }
        recalled_ = std::move(news->recalled);
        co_return heard;
    }
    // A mount that ends tells that when it has no pins any more (close_all()).
    Task<> leave() override {
        if (mount_.leaves_orphans()) co_await mount_.leave_store();
    }

  private:
    DfsMount& mount_;
    std::vector<object::Lease> recalled_;  // in the last news
};

Task<> DfsMount::leave_store() {
    is_holder_ = false;
    const Call call{.deadline = unpin_until_};
    (void)co_await store_.listen(call, container_, holder_, {.waits = false, .ends = true});
}

Task<> DfsMount::listen(DfsMount& self) {
    co_await self.leases_.wanted();
    if (self.closing_.stop_requested()) co_return;
    self.is_holder_ = true;
    StoreLeases server(self);
    co_await self.leases_.listen(server, self.closing_.token());
}

}  // namespace ros2s::fs
