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

// The mount as a client of its server.
class LinkClient::ServerLeases final : public fs::LeaseServer {
  public:
    explicit ServerLeases(LinkClient& link) : link_(link) {}

    [[nodiscard]] bool may_listen() const override { return link_.locator_.may_lease(); }
    Task<News> hear(bool begins, Time sent) override {
        constexpr Duration held_most = session::MountLeases::held_most;
        const session::MountLocation place = link_.locator_.location();
        session::Listening listening{.begins = begins};
        if (!begins) listening.heard = heard_;
        const Call call{.deadline = sent + held_most, .stop = link_.closing_.token()};
        auto news = co_await link_.hear(call, place, listening);
        if (!news || news->lost || place != link_.locator_.location()) co_return News{};
        link_.leased_at_ = place;
        heard_ = news->number;
        // Clocks differ.
        co_return News{.lost = false,
                       .until = sent + std::min(news->held_for, held_most) * 4 / 5,
                       .recalled = std::move(news->recalled)};
    }
    Task<> leave() override {
        (void)co_await link_.hear({.deadline = link_.closes_until_}, link_.locator_.location(),
                                  {.ends = true});
    }

  private:
    LinkClient& link_;
    uint64_t heard_ = 0;  // the last news
};

Task<> LinkClient::listen(LinkClient& self) {
    ServerLeases server(self);
    co_await self.leases_.listen(server, self.closing_.token());
}

}  // namespace ros2s::hostlink
