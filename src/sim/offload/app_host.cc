#include "app_host.h"

#include <fmt/format.h>

namespace ros2s::sim {

AppHost::AppHost(World& world, fabric::sim::Network& network, Dpu& dpu, uint8_t number)
    : core_(world.core()),
      network_(network),
      dpu_(dpu),
      process_(fmt::format("host {}", number)),
      following_(core_, 1),
      reopening_(core_, 1) {
    client_.bytes[0] = number;
    client_.bytes[15] = 2;
}
AppHost::~AppHost() = default;

Task<Result<std::string>> AppHost::take(Report& /*report*/) {
    if (!dpu_.has(session_)) {
        ROS2S_CO_TRY_ASSIGN(session_, dpu_.open_session(client_));
    }
    co_return dpu_.issue_ticket(session_);
}

Task<> AppHost::connect() {
    Report report;
    domain_ = network_.open_domain(core_, process_);
    auto channel =
        co_await rpc::Channel::open(core_, *domain_, dpu_.process(), *this,
                                    {.service = hostlink::file_service, .client = client_}, report);
    ROS2S_CHECK(channel);
    channel_ = std::move(*channel);
    const auto mounted = co_await dpu_.mount(session_);
    ROS2S_CHECK(mounted);
    place_ = {.session = session_, .mount = *mounted};
    link_ = std::make_unique<hostlink::LinkClient>(
        core_, *channel_, *this,
        hostlink::LinkClient::Options{
            .client = client_, .behind = "a simulated DPU", .takes_leases = dpu_.lends()});
    if (dpu_.lends()) cached_ = std::make_unique<cache::CachedFileSystem>(core_, *link_);
    co_await following_.spawn(follow(*this));
}

Task<> AppHost::follow(AppHost& self) {
    while (!self.leaving_) {
        co_await sleep_for(self.core_, std::chrono::milliseconds(1));
        if (self.session_ == self.place_.session) continue;
        const session::SessionId session = self.session_;
        const auto mounted = co_await self.dpu_.mount(session);
        if (!mounted) continue;
        self.place_ = {.session = session, .mount = *mounted};
        (void)self.reopening_.try_spawn(self.link_->reopen_all(self.call_));
    }
}

Task<Result<>> AppHost::moved(const Call& /*call*/, session::MountLocation from) {
    while (place_ == from && !dpu_.has(from.session) && !leaving_) {
        co_await sleep_for(core_, std::chrono::milliseconds(1));
    }
    if (place_ == from) co_return fail(Code::stale);
    co_return Result<>{};
}

Task<> AppHost::disconnect() {
    co_await files().close_all();
    leaving_ = true;
    co_await following_.join();
    co_await reopening_.join();
    cached_.reset();
    link_.reset();
    co_await channel_->close();
    channel_.reset();
    co_await domain_->close();
    domain_.reset();
}

}  // namespace ros2s::sim
