#include "followed_tenants.h"

#include <set>

#include "ros2s/rights/sources/settings.h"
#include "ros2s/rights/sources/tenants.h"

namespace ros2s::dpud {
namespace {

constexpr Duration answer_max = std::chrono::seconds(2);
constexpr Duration pause_after_failure = std::chrono::milliseconds(100);

}  // namespace

FollowedTenants::FollowedTenants(Reactor& reactor, tenancy::Policy settings,
                                 session::AccessTable& access, admission::Accounts& accounts,
                                 session::SessionTable& sessions)
    : reactor_(reactor),
      settings_(std::move(settings)),
      access_(access),
      accounts_(accounts),
      sessions_(sessions) {
    compare();
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
        if (!read_now && read_now.error().code == Code::unsupported && !told_) {
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
    tenancy::SeenTenants before;
    if (is_news) before = std::exchange(tenants_[pool], *listed.tenants);
    if (told_) told_(pool, listed, tenants_[pool]);
    if (is_news) apply();
    if (is_news && told_) end_changed(pool, before);
    hear(pool, asked);
    co_return Result<>{};
}

Task<> FollowedTenants::follow(FollowedTenants& self, std::string pool) {
    while (!self.stopping_.stop_requested()) {
        Report report;
        const auto done = co_await self.read(pool, report);
        if (done) continue;
        if (self.stopping_.stop_requested()) break;
        if (self.failed_) self.failed_(pool, done.error(), report.text());
        self.miss(pool, report.text());
        if (!co_await sleep_for(self.reactor_, pause_after_failure, self.stopping_.token())) break;
    }
}

void FollowedTenants::hear(const std::string& pool, Time asked) {
    sessions_.rights().renew(pool, asked + valid_for);
    policy_ = policy_.renewed(pool, asked + valid_for);
    access_.compare_with(policy_);
    if (!sessions_.rights().holds(pool)) return miss(pool, "it answers too late");
    const auto silent = silent_since_.find(pool);
    if (silent == silent_since_.end()) return;
    log_.info("the engine at {} reports the rights in the pool '{}' again, after {:.1f} s",
              address_, pool,
              std::chrono::duration<double>(reactor_.wall_time() - silent->second).count());
    silent_since_.erase(silent);
}

void FollowedTenants::miss(const std::string& pool, std::string_view why) {
    if (sessions_.rights().holds(pool) || silent_since_.contains(pool)) return;
    silent_since_[pool] = reactor_.wall_time();
    log_.warning(
        "the engine at {} does not report the rights in the pool '{}' any more ({}): hosts of the "
        "pool "
        "wait until it does, because their rights may have been revoked",
        address_, pool, why);
}

void FollowedTenants::add_metrics(std::vector<exporter::Source>& sources) const {
    for (const auto& [pool, version] : versions_) {
        sources.push_back(
            {.labels = {{"pool", pool}}, .list = [this, &pool](const MetricVisitor& visit) {
                 visit("ros2store_dpu_rights_known",
                       "1 while the engine reports the rights in the pool; 0: hosts wait",
                       sessions_.rights().holds(pool) ? 1 : 0);
             }});
    }
}

void FollowedTenants::end_changed(const std::string& pool, const tenancy::SeenTenants& before) {
    std::set<std::string, std::less<>> subjects;
    for (const auto& [name, old] : before) {
        const auto now = tenants_[pool].find(name);
        if (now != tenants_[pool].end()) {
            tenancy::SeenTenant same = old;
            // Their number says whether there are more. Those that have expired leave.
            same.tenant.revoked_capabilities = now->second.tenant.revoked_capabilities;
            if (now->second == same) continue;
        }
        subjects.insert(old.tenant.subjects.begin(), old.tenant.subjects.end());
    }
    for (const session::Session* const session : sessions_.all()) {
        if (session->request.pool != pool || !subjects.contains(session->request.subject)) continue;
        sessions_.evict(session->id, "the record of its tenant was changed");
    }
}

std::string FollowedTenants::tenant_of(const std::string& pool, std::string_view subject) const {
    const auto found = tenants_.find(pool);
    if (found == tenants_.end()) return {};
    const tenancy::Tenant* const tenant = tenancy::find_tenant(found->second, subject);
    return tenant == nullptr ? std::string() : tenant->name;
}

void FollowedTenants::apply() {
    tenancy::Policy policy = tenancy::with_tenants(settings_, tenants_);
    const session::AccessTable before = std::exchange(access_, std::move(policy.access));
    compare();
    accounts_.set(std::move(policy.allowances));
    for (const session::Session* const session : sessions_.all()) {
        const std::string& subject = session->request.subject;
        const std::string& pool = session->request.pool;
        if (!access_.covers(before, subject, pool)) {
            sessions_.evict(session->id, "rights of its subject were taken away");
        } else if (const auto account = accounts_.find(session->tenant);
                   account == nullptr || account->name != accounts_.name_for(subject, pool)) {
            sessions_.evict(session->id, "its subject belongs to another tenant now");
        }
    }
}

void FollowedTenants::compare() {
    rights::Parties parties;
    rights::add_settings(parties, settings_.access);
    for (const auto& [pool, tenants] : tenants_) rights::add_pushed(parties, pool, tenants);
    policy_ = policy_.next(std::move(parties));
    access_.compare_with(policy_);
}

}  // namespace ros2s::dpud
