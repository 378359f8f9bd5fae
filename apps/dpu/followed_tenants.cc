#include "followed_tenants.h"

#include "ros2s/rights/sources/tenants.h"

namespace ros2s::dpud {
namespace {

constexpr Duration answer_max = std::chrono::seconds(2);
constexpr Duration pause_after_failure = std::chrono::milliseconds(100);

}  // namespace

FollowedTenants::FollowedTenants(Reactor& reactor, rights::Subjects settings, bool delegated,
                                 admission::Allowances allowances, admission::Accounts& accounts,
                                 session::SessionTable& sessions, Pools& pools)
    : reactor_(reactor),
      settings_(std::move(settings)),
      delegated_(delegated),
      allowances_(std::move(allowances)),
      accounts_(accounts),
      sessions_(sessions),
      pools_(pools) {
    sessions_.rights().replace({.subjects = settings_});
}

Task<Result<>> FollowedTenants::begin(control::ClientOptions engine, std::vector<std::string> pools,
                                      Log log, Report& report) {
    log_ = std::move(log);
    address_ = engine.address;
    ROS2S_CO_TRY_ASSIGN(engine_,
                        control::ControlClient::create(reactor_, std::move(engine), report));
    following_ = std::make_unique<Nursery>(reactor_, pools.size());
    for (std::string& pool : pools) {
        Report problem;
        const auto read_now = co_await read(pool, problem);
        if (!read_now && read_now.error().code == Code::unsupported && !delegated_) {
            log_.warning(
                "the engine of the pool '{}' is older than this program and has no tenants: only "
                "the settings say who may use the pool",
                pool);
            continue;
        }
        if (!read_now) co_return report.fail(read_now.error(), problem.text());
        ROS2S_CHECK(following_->try_spawn(follow(*this, std::move(pool))));
    }
    co_return Result<>{};
}

Task<> FollowedTenants::stop() {
    stopping_.request_stop();
    if (following_) co_await following_->join();
}

Task<Result<>> FollowedTenants::read(const std::string& pool, Report& report) {
    const Time asked = reactor_.now();
    const Call call{.deadline = asked + answer_max, .stop = stopping_.token()};
    uint64_t& version = versions_[pool];
    ROS2S_CO_TRY_ASSIGN(auto listed, co_await engine_->list_tenants(call, pool, version, report));
    if (listed.own_only) {
        // It would not hear that others are revoked.
        version = 0;
        co_return report.fail(
            Code::denied,
            "the certificate of this DPU belongs to a tenant of the pool '{}', so the engine lists "
            "no other one for it. Name its subject under 'capabilities: delegates' or "
            "'administrators' in the engine's settings, or take it out of the tenant",
            pool);
    }
    version = listed.version;
    const bool is_news = listed.tenants && *listed.tenants != tenants_[pool];
    if (is_news) tenants_[pool] = *listed.tenants;
    const rights::Policy before = is_news ? apply() : rights::Policy();
    if (delegated_) pools_.know(pool, listed);
    using EndsWith = session::SessionTable::EndsWith;
    if (is_news) sessions_.end_sessions(before, delegated_ ? EndsWith::record : EndsWith::tenant);
    record_reply(pool, asked);
    co_return Result<>{};
}

Task<> FollowedTenants::follow(FollowedTenants& self, std::string pool) {
    while (!self.stopping_.stop_requested()) {
        Report report;
        const auto done = co_await self.read(pool, report);
        if (done) continue;
        if (self.stopping_.stop_requested()) break;
        if (self.delegated_) self.pools_.engine_failed(pool, done.error(), report.text());
        self.record_silence(pool, report.text());
        if (!co_await sleep_for(self.reactor_, pause_after_failure, self.stopping_.token())) break;
    }
}

void FollowedTenants::record_reply(const std::string& pool, Time asked) {
    sessions_.rights().renew(pool, asked + valid_for);
    if (sessions_.rights().is_over(pool)) return record_silence(pool, "it answers too late");
    const auto silent = silent_since_.find(pool);
    if (silent == silent_since_.end()) return;
    log_.info("the engine at {} reports the rights in the pool '{}' again, after {:.1f} s",
              address_, pool,
              std::chrono::duration<double>(reactor_.wall_time() - silent->second).count());
    silent_since_.erase(silent);
}

void FollowedTenants::record_silence(const std::string& pool, std::string_view why) {
    if (!sessions_.rights().is_over(pool) || silent_since_.contains(pool)) return;
    silent_since_[pool] = reactor_.wall_time();
    log_.warning(
        "the engine at {} does not report the rights in the pool '{}' any more ({}): hosts of the "
        "pool wait until it does, because their rights may have been revoked",
        address_, pool, why);
}

void FollowedTenants::add_metrics(std::vector<exporter::Source>& sources) const {
    for (const auto& [pool, version] : versions_) {
        sources.push_back(
            {.labels = {{"pool", pool}}, .list = [this, &pool](const MetricVisitor& visit) {
                 visit("ros2store_dpu_rights_known",
                       "1 while the engine reports the rights in the pool; 0: hosts wait",
                       sessions_.rights().is_over(pool) ? 0 : 1);
             }});
    }
}

rights::Policy FollowedTenants::apply() {
    rights::Parties parties{.subjects = settings_};
    admission::Allowances allowances = allowances_;
    for (const auto& [pool, tenants] : tenants_) {
        rights::add_pushed(parties, pool, tenants, delegated_);
        for (const auto& [name, seen] : tenants) {
            tenancy::add_account(allowances, pool, seen.tenant);
        }
    }
    accounts_.set(std::move(allowances));
    return sessions_.rights().replace(std::move(parties));
}

}  // namespace ros2s::dpud
