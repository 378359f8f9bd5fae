#include "ofi_peers.h"

#include <sys/socket.h>

#include "ros2s/base/check.h"

namespace ros2s::fabric::ofi {
namespace {

sa_family_t family_of(std::string_view address) {
    sockaddr plain{};
    if (address.size() < sizeof plain) return AF_UNSPEC;
    std::memcpy(&plain, address.data(), sizeof plain);
    return plain.sa_family;
}

}  // namespace

Peers::Peers(fid_av* known, ConstBytes own, size_t peers_max)
    : known_(known), peers_max_(peers_max), own_(as_text(own)) {}

Result<Peer*> Peers::acquire(ConstBytes address) {
    const std::string name(as_text(address));
    // libfabric reads as many bytes as our own address has.
    if (name.size() != own_.size() || family_of(name) != family_of(own_)) {
        return fail(Code::unsupported);
    }
    auto found = all_.find(name);
    if (found == all_.end()) {
        if (all_.size() >= peers_max_) {
            if (idle_ == 0) return fail(Code::no_memory);
            forget_oldest();
        }
        Peer peer;
        const int inserted = fi_av_insert(known_, address.data(), 1, &peer.address, 0, nullptr);
        if (inserted != 1) return fail(inserted == -FI_ENOMEM ? Code::no_memory : Code::io);
        found = all_.emplace(name, peer).first;
    } else if (found->second.lanes == 0) {
        --idle_;
    }
    ++found->second.lanes;
    return &found->second;
}

void Peers::release(Peer& peer, bool drop) noexcept {
    ROS2S_CHECK(peer.lanes > 0);
    if (--peer.lanes > 0) return;
    peer.released = ++releases_;
    ++idle_;
    if (drop) {
        for (auto each = all_.begin(); each != all_.end(); ++each) {
            if (&each->second == &peer) return forget(each);
        }
    }
    if (idle_ > idle_max) forget_oldest();
}

void Peers::forget_oldest() noexcept {
    auto oldest = all_.end();
    for (auto each = all_.begin(); each != all_.end(); ++each) {
        if (each->second.lanes > 0) continue;
        if (oldest == all_.end() || each->second.released < oldest->second.released) oldest = each;
    }
    forget(oldest);
}

void Peers::forget(All::iterator peer) noexcept {
    const int removed = fi_av_remove(known_, &peer->second.address, 1, 0);
    ROS2S_CHECK(removed == 0);
    all_.erase(peer);
    --idle_;
}

}  // namespace ros2s::fabric::ofi
