#include "registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/base/durable_file.h"
#include "ros2s/base/trusted_file.h"

namespace ros2s::tenancy {
namespace {

constexpr size_t document_bytes_max = 1 << 20;  // config::parse() takes no more

// Of the document, without what changes and revocations add to it.
size_t settings_bytes_of(TenantsOfPool pool) {
    for (auto& [name, tenant] : pool.tenants) {
        tenant.generation = 1;
        tenant.revoked = false;
        tenant.expired = false;
        tenant.revocations = 0;
        tenant.revoked_capabilities.clear();
        tenant.clock_min = {};
    }
    return document_of(pool).size();
}

size_t count_revoked(const TenantsByName& tenants) {
    size_t count = 0;
    for (const auto& [name, tenant] : tenants) count += tenant.revoked_capabilities.size();
    return count;
}

// No capability that exists when another one is revoked lives longer.
constexpr Duration revoked_for = capability::life_max + capability::clock_slack;

}  // namespace

TenantRegistry::TenantRegistry(Environment environment, std::string path)
    : environment_(std::move(environment)),
      path_(std::move(path)),
      wall_seen_(environment_.reactor.wall_time()),
      seen_at_(environment_.reactor.now()),
      clock_set_(seen_at_),
      version_(static_cast<uint64_t>(environment_.reactor.wall_time().time_since_epoch().count())),
      turn_(environment_.reactor, 1),
      news_(environment_.reactor),
      time_(environment_.reactor, 2) {}

Task<Result<std::unique_ptr<TenantRegistry>>> TenantRegistry::open(Environment environment,
                                                                   std::string path,
                                                                   Report& report) {
    std::unique_ptr<TenantRegistry> registry(
        new TenantRegistry(std::move(environment), std::move(path)));
    TenantRegistry& self = *registry;
    Report why;
    const auto text = co_await self.environment_.blocking.run(
        self.environment_.reactor,
        [&self, &why] { return read_trusted(self.path_, document_bytes_max, why); });
    if (text) {
        ROS2S_CO_TRY_ASSIGN(self.pool_, parse_document(*text, self.path_, report));
    } else if (text.error().code != Code::not_found) {
        co_return report.fail(text.error(), "the tenants of the pool: {}", why.text());
    }
    self.see_revocations();
    self.active_ = self.active();
    ROS2S_CHECK(self.time_.try_spawn(keep_time(self)));
    co_return registry;
}

Task<> TenantRegistry::stop() {
    stopping_.request_stop();
    co_await time_.join();
    news_.set();  // nobody waits any more
}

size_t TenantRegistry::active() const {
    const WallTime now = environment_.reactor.wall_time();
    return static_cast<size_t>(std::ranges::count_if(
        tenants(), [&](const auto& each) { return each.second.is_active(now); }));
}

void TenantRegistry::changed_now() {
    ++version_;
    if (told_) told_();
}

Task<> TenantRegistry::keep_time(TenantRegistry& self) {
    while (co_await sleep_for(self.environment_.reactor, heartbeat, self.stopping_.token())) {
        const size_t active = self.active();
        if (active != std::exchange(self.active_, active)) self.changed_now();
        self.news_.wake_all();
        // Its writing must delay no heartbeat. One runs at a time.
        (void)self.time_.try_spawn(apply_time_now(self));
    }
}

Task<> TenantRegistry::apply_time_now(TenantRegistry& self) {
    TenantsOfPool next = self.pool_;
    if (!self.apply_time(next) && !self.unwritten_) co_return;
    co_await self.turn_.acquire();
    const SemaphoreHold turn(self.turn_);
    // Also if this cannot be written: until the process ends, they stay expired.
    for (auto& [name, each] : next.tenants) {
        const auto found = self.pool_.tenants.find(name);
        if (found != self.pool_.tenants.end() && found->second.generation == each.generation) {
            found->second.expired = each.expired;
        }
    }
    Report ignored;
    self.unwritten_ = !co_await self.keep_all(self.pool_, ignored);  // tried again
}

bool TenantRegistry::believes_clock() {
    constexpr Duration drift_max = std::chrono::seconds(1);
    const WallTime wall = environment_.reactor.wall_time();
    const Time now = environment_.reactor.now();
    const Duration moved = (wall - wall_seen_) - (now - seen_at_);
    if (moved > drift_max || moved < -drift_max) clock_set_ = now;
    wall_seen_ = wall;
    seen_at_ = now;
    return now - clock_set_ >= clock_believed_after;
}

bool TenantRegistry::apply_time(TenantsOfPool& pool) {
    const WallTime now = environment_.reactor.wall_time();
    const bool believed = believes_clock();
    bool changes = false;
    for (auto& [name, each] : pool.tenants) {
        if (believed && !each.expired && each.until && *each.until <= now) {
            changes = each.expired = true;
        }
        const auto dropped = std::erase_if(each.revoked_capabilities, [&](const auto& revoked) {
            const auto seen = seen_.find({name, revoked.first});
            if (revoked.second.until > now || seen == seen_.end() ||
                environment_.reactor.now() - seen->second < revoked_for) {
                return false;
            }
            each.clock_min =
                std::max(each.clock_min, revoked.second.until - capability::clock_slack);
            return true;
        });
        changes = changes || dropped > 0;
    }
    return changes;
}

void TenantRegistry::see_revocations() {
    decltype(seen_) present;
    for (const auto& [name, tenant] : tenants()) {
        for (const auto& [id, revoked] : tenant.revoked_capabilities) {
            const auto seen = seen_.find({name, id});
            present[{name, id}] = seen == seen_.end() ? environment_.reactor.now() : seen->second;
        }
    }
    seen_ = std::move(present);
}

Task<> TenantRegistry::wait(uint64_t known) {
    if (version_ == known) co_await news_;
}

Result<Tenant> TenantRegistry::changed(Change what, const std::string& name,
                                       const config::Entries& settings, Report& report) const {
    const auto present = tenants().find(name);
    if (what == Change::create && present != tenants().end()) {
        return report.fail(Code::exists,
                           "there is a tenant '{}'{}; change it with `ros2store tenant set`{}",
                           name, present->second.revoked ? ", which is revoked" : "",
                           present->second.revoked ? ", or remove it first" : "");
    }
    if (what != Change::create && present == tenants().end()) {
        return report.fail(Code::not_found, "there is no tenant '{}'", name);
    }
    if (what == Change::create && tenants().size() >= tenants_max) {
        return report.fail(Code::too_large,
                           "the pool has {} tenants, which is the most; `ros2store tenant remove` "
                           "takes a revoked one away",
                           tenants_max);
    }
    Tenant tenant = pool_.make(name);
    if (present != tenants().end()) {
        tenant.generation = present->second.generation + 1;
        tenant.first_generation = present->second.first_generation;
        tenant.settings = present->second.settings;
        tenant.revocations = present->second.revocations;
        tenant.revoked_capabilities = present->second.revoked_capabilities;
    }
    tenant.revoked = what == Change::revoke;
    tenant.expired =
        present != tenants().end() && present->second.expired && !settings.contains("until");
    if (tenant.revoked) {
        // The new generation revokes them. Programs stay known, for when the tenant is active
        // again.
        std::erase_if(tenant.revoked_capabilities,
                      [](const auto& each) { return !each.second.program; });
    }
    for (const auto& [key, text] : settings) {
        tenant.settings.insert_or_assign(key, text);
        if (is_removal(key, text)) tenant.settings.erase(key);
    }
    ROS2S_TRY(parse_settings(tenant, fmt::format("tenant '{}'", name), report));
    ROS2S_TRY(check_subjects(tenants(), tenant, report));
    return tenant;
}

Task<Result<Tenant>> TenantRegistry::change(Change what, std::string name, config::Entries settings,
                                            Report& report) {
    co_await turn_.acquire();
    const SemaphoreHold turn(turn_);
    if (what == Change::remove) co_return co_await remove(std::move(name), report);
    ROS2S_CO_TRY_ASSIGN(const Tenant tenant, changed(what, name, settings, report));
    ROS2S_CO_TRY(co_await keep(tenant, report));
    co_return tenant;
}

Task<Result<Tenant>> TenantRegistry::remove(std::string name, Report& report) {
    const auto present = tenants().find(name);
    if (present == tenants().end()) {
        co_return report.fail(Code::not_found, "there is no tenant '{}'", name);
    }
    const Tenant removed = present->second;
    if (!removed.revoked) {
        co_return report.fail(Code::invalid,
                              "the tenant '{}' is not revoked; end its rights with `ros2store "
                              "tenant revoke`, then remove it",
                              name);
    }
    TenantsOfPool next = pool_;
    next.tenants.erase(name);
    next.removed_generation = std::max(next.removed_generation, removed.generation);
    ROS2S_CO_TRY(co_await keep_all(std::move(next), report));
    co_return removed;
}

Task<Result<Tenant>> TenantRegistry::revoke_capability(std::string name, Uuid id,
                                                       RevokedCapability what, Report& report) {
    co_await turn_.acquire();
    const SemaphoreHold turn(turn_);
    const auto present = tenants().find(name);
    if (present == tenants().end()) {
        co_return report.fail(Code::not_found, "there is no tenant '{}'", name);
    }
    TenantsOfPool current = pool_;
    apply_time(current);
    Tenant tenant = current.tenants.at(name);
    ++tenant.revocations;
    RevokedCapability& revoked = tenant.revoked_capabilities[id];
    if (!what.program) what.program = revoked.program;  // known from an earlier revocation
    revoked = what;
    if (tenant.revoked_capabilities.size() > revoked_capabilities_max) {
        co_return report.fail(
            Code::too_large,
            "{} capabilities of the tenant '{}' were revoked in the last hour, which is the most. "
            "`ros2store tenant set` with any setting ends all of them",
            revoked_capabilities_max, name);
    }
    const bool is_new = !present->second.revoked_capabilities.contains(id);
    if (is_new && count_revoked(current.tenants) >= pool_revoked_capabilities_max) {
        co_return report.fail(
            Code::too_large,
            "{} capabilities of the pool's tenants were revoked in the last hour, which is the "
            "most. `ros2store tenant revoke` without --capability ends all of the tenant '{}'",
            pool_revoked_capabilities_max, name);
    }
    const auto earlier = seen_.extract({name, id});  // it counts from now on
    current.tenants.insert_or_assign(name, tenant);
    auto kept = co_await keep_all(std::move(current), report);
    if (!kept && earlier) seen_.emplace(earlier.key(), earlier.mapped());
    ROS2S_CO_TRY(kept);
    co_return tenant;
}

Task<Result<>> TenantRegistry::keep(Tenant tenant, Report& report) {
    TenantsOfPool next = pool_;
    next.tenants.insert_or_assign(tenant.name, std::move(tenant));
    co_return co_await keep_all(std::move(next), report);
}

Task<Result<>> TenantRegistry::keep_all(TenantsOfPool next, Report& report) {
    apply_time(next);
    // What an earlier version has kept may be more, and stays.
    if (settings_bytes_of(next) > std::max(pool_settings_bytes_max, settings_bytes_of(pool_))) {
        co_return report.fail(
            Code::too_large,
            "the settings of all tenants have more than {} bytes. Shorten some with `ros2store "
            "tenant set`, or remove revoked tenants with `ros2store tenant remove`",
            pool_settings_bytes_max);
    }
    const std::string text = document_of(next);
    if (text.size() > document_bytes_max) {
        co_return report.fail(Code::too_large, "the tenants of the pool need more than {} bytes",
                              document_bytes_max);
    }
    const auto written = co_await environment_.blocking.run(
        environment_.reactor, [this, &text] { return replace_file(path_, text); });
    if (!written) {
        co_return report.fail(written.error(), "cannot write the file of tenants {}: {}", path_,
                              describe(written.error()));
    }
    pool_ = std::move(next);
    see_revocations();
    active_ = active();
    changed_now();
    news_.wake_all();
    co_return Result<>{};
}

}  // namespace ros2s::tenancy
