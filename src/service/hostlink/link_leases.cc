// Leases that the mount lends: a reply comes with those that cover it, and the server is asked for
// news of them as long as this exists.
#include "link_ask.h"

namespace ros2s::hostlink {

void LinkClient::take(const Call& call, uint64_t era, const session::MountLocation& place,
                      std::span<const Leased> leases) {
    if (call.leases == nullptr || place != leased_at_) return;
    for (const Leased& each : leases) {
        if (leases_.take(era, each)) call.leases->push_back(each);
    }
}

// Not sent again by the channel: what was heard belongs to one request.
Task<Result<session::LeaseNews>> LinkClient::hear(const Call& call, session::MountLocation place,
                                                  session::Listening listening) {
    if (!channel_.is_connected()) co_return fail(Code::disconnected);
    Buffer buffer;
    ReadAs<session::LeaseNews> reader;
    const ListenBody body{.mount = place.mount, .listening = listening};
    const rpc::CallRequest request{.method = static_cast<uint16_t>(Method::listen),
                                   .is_awaited = true,
                                   .body = rpc::build(buffer, listen_fields, body)};
    ROS2S_CO_TRY(co_await channel_.call(call, request, reader));
    co_return std::move(reader.value);
}

Task<> LinkClient::listen(LinkClient& self) {
    constexpr Duration pause = std::chrono::milliseconds(100);
    constexpr Duration held_most = session::MountLeases::held_most;
    constexpr Duration least = std::chrono::milliseconds(1);  // between two requests
    const StopToken closing = self.closing_.token();
    const session::Listening anew{.begins = true};
    session::Listening listening = anew;
    uint64_t beginnings = 0;
    while (!closing.stop_requested()) {
        if (!self.locator_.may_lease()) {
            co_await self.leases_.lose_all();
            listening = anew;
            (void)co_await sleep_for(self.reactor_, pause, closing);
            continue;
        }
        const session::MountLocation place = self.locator_.location();
        const Time sent = self.reactor_.now();
        auto news =
            co_await self.hear({.deadline = sent + held_most, .stop = closing}, place, listening);
        if (!news || news->lost || place != self.locator_.location()) {
            co_await self.leases_.lose_all();
            listening = anew;
            (void)co_await sleep_for(self.reactor_, pause, closing);
            continue;
        }
        if (listening.begins) {
            co_await self.leases_.begin(++beginnings);
            self.leased_at_ = place;
        }
        // Clocks differ.
        self.leases_.extend(beginnings, sent + std::min(news->held_for, held_most) * 4 / 5);
        if (!news->recalled.empty()) {
            co_await self.leases_.recall(std::move(news->recalled));
        } else {
            (void)co_await sleep_until(self.reactor_, sent + least, closing);
        }
        listening = {.heard = news->number};
    }
    co_await self.leases_.lose_all();
    // Nobody has to wait for a mount that is gone.
    (void)co_await self.hear({.deadline = self.closes_until_}, self.locator_.location(),
                             {.ends = true});
}

}  // namespace ros2s::hostlink
