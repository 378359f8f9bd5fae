#include "discarder.h"

#include <algorithm>

#include "ros2s/engine/rules/commit_rules.h"

namespace ros2s::engine {
namespace {

// While a device discards much, its reads are slow.
constexpr size_t running_max = 2;
constexpr size_t waiting_max = 4096;

}  // namespace

Discarder::Discarder(Reactor& reactor, const std::vector<device::BlockDevice*>& devices,
                     SpaceMap& space, std::function<void()> told)
    : devices_(devices), space_(space), told_(std::move(told)), workers_(reactor, running_max) {}

void Discarder::take(const std::vector<BlockRun>& runs) {
    for (const BlockRun& run : runs) {
        if (waiting_.size() < waiting_max) {
            waiting_.push_back(run);
        } else {
            leave_out(run);
        }
    }
    while (workers_.running() < std::min(running_max, waiting_.size()) &&
           workers_.try_spawn(work())) {
    }
}

bool Discarder::hurry() {
    const bool any = !waiting_.empty();
    for (const BlockRun& run : waiting_) leave_out(run);
    waiting_.clear();
    return any;
}

Task<> Discarder::stop() {
    hurry();
    co_await workers_.join();
}

Task<> Discarder::work() {
    while (!waiting_.empty()) {
        const BlockRun run = waiting_.front();
        waiting_.pop_front();
        co_await discard(run);
        told_();
    }
}

Task<> Discarder::discard(BlockRun run) {
    const uint32_t device = run.first.device();
    const uint64_t bytes = uint64_t{run.blocks} * block_bytes;
    const Result<> done =
        co_await devices_[device]->discard(run.first.block() * block_bytes, bytes);
    if (done) {
        counters.discards.add();
        counters.bytes.add(bytes);
        space_.discarded(run);
        co_return;
    }
    space_.set_discard(device, 0);
    leave_out_of(device);
    if (done.error().code == Code::unsupported || !rules.heed_failed_discards) leave_out(run);
}

// Waiting discards of that device.
void Discarder::leave_out_of(uint32_t device) {
    std::erase_if(waiting_, [&](const BlockRun& run) {
        if (run.first.device() != device) return false;
        leave_out(run);
        return true;
    });
}

void Discarder::leave_out(BlockRun run) {
    counters.left_out_bytes.add(uint64_t{run.blocks} * block_bytes);
    space_.discarded(run);
}

}  // namespace ros2s::engine
