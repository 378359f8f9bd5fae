#include "app_host.h"

#include <fmt/format.h>

namespace ros2s::sim {

AppHost::AppHost(World& world, fabric::sim::Network& network, Dpu& dpu, uint8_t number,
                 int64_t clock_percent)
    : world_(world),
      core_(world.core(), clock_percent),
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
    if (is_killed_) co_return fail(Code::denied);
    if (network_.is_stalled(process_)) co_return fail(Code::disconnected);
    if (!dpu_.has(session_)) {
        ROS2S_CO_TRY_ASSIGN(session_, dpu_.open_session(client_));
    }
    co_return dpu_.issue_ticket(session_);
}

Task<> AppHost::reach_dpu() {
    constexpr Duration pause = std::chrono::milliseconds(10);
    // Faults may follow each other.
    constexpr Duration patience = std::chrono::minutes(5);
    while (!channel_) {
        Report report;
        auto channel = co_await rpc::Channel::open(
            core_, *domain_, dpu_.process(), *this,
            {.service = hostlink::file_service, .client = client_, .patience = patience}, report);
        if (channel) channel_ = std::move(*channel);
        if (!channel) co_await sleep_for(core_, pause);
    }
    while (true) {
        if (const auto opened = dpu_.has(session_) ? session_ : dpu_.open_session(client_)) {
            session_ = *opened;
            const auto mounted = co_await dpu_.mount(*opened);
            place_ = {.session = *opened, .mount = mounted.value_or(session::MountId{})};
            if (mounted) co_return;
        }
        co_await sleep_for(core_, pause);
    }
}

void AppHost::kill() {
    is_killed_ = leaving_ = true;
    network_.kill(process_);
}

Task<> AppHost::connect() {
    is_killed_ = leaving_ = false;
    ++client_.bytes[1];
    session_ = {};
    domain_ = network_.open_domain(world_.core(), process_);
    co_await reach_dpu();
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
