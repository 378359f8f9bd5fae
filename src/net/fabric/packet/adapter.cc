// A PacketEndpoint over a wire whose adapter moves the bytes of put and get.
#include <algorithm>

#include "ros2s/fabric/deadline.h"
#include "ros2s/fabric/packet/packet_endpoint.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::fabric {
namespace {

Packet about(Packet::Type type, uint32_t slot, uint32_t generation) {
    return {.type = type, .operation = slot, .count = generation};
}

}  // namespace

Result<RemoteKey> PacketEndpoint::expose(RemoteKey key, Bytes memory, Rights rights, Time expires) {
    const auto exposed = memory.empty() ? Exposed{} : one_sided_->expose(memory, rights);
    if (!exposed) {
        grants_.revoke(key.slot, key.generation);
        return fail(exposed.error());
    }
    if (!memory.empty()) exposed_[key.slot] = exposed->key;
    key.address = exposed->address;
    key.native_bytes = sizeof exposed->key;
    std::memcpy(key.native.data(), &exposed->key, sizeof exposed->key);
    key.seal();
    uint64_t within = Packet::for_ever;
    if (expires != Time::max()) {
        within =
            static_cast<uint64_t>(std::max(expires - reactor_.now(), Duration::zero()).count());
    }
    notify({{.type = Packet::Type::granted, .length = sizeof key, .count = within}, key});
    return key;
}

Task<> PacketEndpoint::fence(RemoteKey key) {
    if (alive()) {
        Fence fence{.key = key, .changed = Event(reactor_)};
        fences_.push_back(&fence);
        notify({about(Packet::Type::revoke, key.slot, key.generation), {}});
        Deadline deadline(reactor_, reactor_.now() + limits_.answer_within, {});
        {
            const WakeOnStop wake(deadline.token(), fence.changed);
            while (!fence.answered && alive() && !deadline.passed()) co_await fence.changed;
        }
        co_await deadline.finish();
        std::erase(fences_, &fence);
        if (!fence.answered) end(End::unanswered);
    }
    withdraw(key);
}

void PacketEndpoint::withdraw(const RemoteKey& key) noexcept {
    const auto found = exposed_.find(key.slot);
    if (found == exposed_.end()) return;
    one_sided_->withdraw(found->second);
    exposed_.erase(found);
}

void PacketEndpoint::withdraw_all() noexcept {
    for (const auto& [slot, key] : exposed_) one_sided_->withdraw(key);
    exposed_.clear();
}

void PacketEndpoint::notify(const Notice& notice) noexcept {
    notices_.push_back(notice);
    drained_.reset();
    want_flush();
    // At once if there is room, so that messages after it need not wait.
    while (open_frame() && add_notice()) {
    }
}

bool PacketEndpoint::add_notice() noexcept {
    if (notices_.empty()) return false;
    const Notice& notice = notices_.front();
    if (frame_room() < sizeof(RemoteKey)) {
        write_open();
        return true;
    }
    append(notice.header, object_bytes(notice.key).first(notice.header.length), {});
    notices_.pop_front();
    return true;
}

Task<Result<>> PacketEndpoint::put_by_adapter(const RemoteKey& key, uint64_t offset,
                                              ConstBytes from, PutReturns returns) {
    const Use open(*this);
    if (!initiates()) co_return refuse(Refusal::initiator);
    co_await operation_slots_.acquire();
    const SemaphoreHold hold(operation_slots_);
    if (!alive()) co_return fail(Code::disconnected);
    const auto use = peer_regions_.begin(key, offset, from.size(), Rights::write, reactor_.now());
    if (!use) co_return refuse(use.error());
    const auto moved = co_await one_sided_->write(use->at(), from, returns, use->revoked());
    ROS2S_CO_TRY(finish_use(*use, moved));
    counters_.puts.add();
    counters_.put_bytes.add(from.size());
    counters_.one_sided.add();
    counters_.one_sided_bytes.add(from.size());
    co_return Result<>{};
}

Task<Result<>> PacketEndpoint::get_by_adapter(const RemoteKey& key, uint64_t offset, Bytes into) {
    const Use open(*this);
    if (!initiates()) co_return refuse(Refusal::initiator);
    co_await operation_slots_.acquire();
    const SemaphoreHold hold(operation_slots_);
    if (!alive()) co_return fail(Code::disconnected);
    const auto use = peer_regions_.begin(key, offset, into.size(), Rights::read, reactor_.now());
    if (!use) co_return refuse(use.error());
    const auto moved = co_await one_sided_->read(use->at(), into, use->revoked());
    ROS2S_CO_TRY(finish_use(*use, moved));
    counters_.gets.add();
    counters_.get_bytes.add(into.size());
    counters_.one_sided.add();
    counters_.one_sided_bytes.add(into.size());
    co_return Result<>{};
}

Result<> PacketEndpoint::finish_use(const PeerRegions::Use& use, const Result<>& moved) noexcept {
    if (peer_regions_.end(use) && alive()) {
        notify({about(Packet::Type::revoked, PeerRegions::slot_of(use),
                      PeerRegions::generation_of(use)),
                {}});
    }
    if (!moved && moved.error().code == Code::stale) return refuse(Refusal::stale);
    return moved;
}

void PacketEndpoint::on_granted(const PacketView& packet) noexcept {
    if (one_sided_ == nullptr || !initiates()) return end(End::violation);
    // A correct peer reuses a slot only after it was notified that no transfer of it is in
    // progress.
    if (peer_regions_.size() + notices_.size() >= limits_.regions_max) return end(End::over_budget);
    const uint64_t within = packet.header.count;
    const Time now = reactor_.now();
    const auto left = static_cast<uint64_t>((Time::max() - now).count());
    const Time expires =
        within < left ? now + std::chrono::nanoseconds(static_cast<int64_t>(within)) : Time::max();
    if (!peer_regions_.add(packet.key, expires)) end(End::violation);
}

void PacketEndpoint::on_revoke(const PacketView& packet) noexcept {
    const uint64_t slot = packet.header.operation;
    const uint64_t generation = packet.header.count;
    if (one_sided_ == nullptr || !initiates() || slot > UINT32_MAX || generation > UINT32_MAX) {
        return end(End::violation);
    }
    if (peer_regions_.revoke(static_cast<uint32_t>(slot), static_cast<uint32_t>(generation))) {
        notify({about(Packet::Type::revoked, static_cast<uint32_t>(slot),
                      static_cast<uint32_t>(generation)),
                {}});
    }
}

void PacketEndpoint::on_revoked(const PacketView& packet) noexcept {
    const auto found = std::ranges::find_if(fences_, [&](const Fence* fence) {
        return fence->key.slot == packet.header.operation &&
               fence->key.generation == packet.header.count;
    });
    if (found == fences_.end()) return end(End::violation);
    (*found)->answered = true;
    (*found)->changed.wake_all();
}

}  // namespace ros2s::fabric
