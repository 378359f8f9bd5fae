#include "delegated_chains.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "ros2s/rights/decide.h"
#include "ros2s/rpc/request.h"
#include "ros2s/runtime/backoff.h"

namespace ros2s::dpud {
namespace {

// The time by which a host's facts may be newer than those that this process has from the engine.
constexpr Duration news_max = std::chrono::seconds(1);
constexpr Duration news_pause = std::chrono::milliseconds(10);
// The attempts to connect to an engine after other connections have ended, in 127 ms.
constexpr int ending_attempts = 7;
// A tenant that needs a session does not end those which others use every now and then.
constexpr Duration others_unused_min = std::chrono::seconds(1);

// Counters of several sessions together, by name.
using Sums = std::map<std::string, std::pair<std::string, uint64_t>>;  // help, value
void add(Sums& sums, std::string_view name, std::string_view help, uint64_t value) {
    sums.try_emplace(std::string(name), help, 0).first->second.second += value;
}

}  // namespace

struct DelegatedChains::PoolState {
    Uuid audience;
    std::vector<capability::PublicKey> issuers;
    Duration ahead{};  // the engine's clock, of this machine's
    // Its sessions with the engine: those that are open, the provider of the last one, and the
    // counters of those that have ended.
    std::vector<const DelegatedSession*> open{};
    std::string provider{};
    Sums ended{};
};

// Shows a chain. The session in which it does so may outlive the chain's use here.
class DelegatedChains::Holder final : public control::CapabilityHolder {
  public:
    explicit Holder(const capability::SigningKey& key) : key_(key) {}
    [[nodiscard]] capability::Chain chain() const override { return links; }
    [[nodiscard]] std::string prove(const capability::Chain& shown, std::string_view nonce,
                                    session::SessionId session,
                                    std::string_view provider) const override {
        return key_.sign(capability::proof_message(nonce, session.value, provider, shown));
    }
    capability::Chain links;

  private:
    const capability::SigningKey& key_;
};

// A chain, and the pool as it may be used by it.
struct DelegatedChains::DelegatedSession {
    DelegatedSession(DelegatedChains& of, Reactor& reactor)
        : owner(of), turn(reactor, 1), holder(std::make_shared<Holder>(of.key_)) {
        ++owner.alive_;
    }
    ~DelegatedSession() {
        --owner.alive_;
        // take() leaves room for it.
        if (pool != nullptr) ROS2S_CHECK(owner.ending_.try_spawn(end(holder, take_pool())));
    }
    DelegatedSession& operator=(DelegatedSession&&) = delete;
    // The pool, whose session the caller ends.
    [[nodiscard]] std::unique_ptr<connection::DirectPool> take_pool() {
        std::erase(state->open, this);
        pool->visit_metrics([this](std::string_view name, std::string_view help, uint64_t value) {
            if (name.ends_with("_total")) add(state->ended, name, help, value);
        });
        unused_since.reset();
        return std::move(pool);
    }
    // No other chain will take its place: mounts that still use it close their files soon.
    void expect_no_successor() const noexcept {
        if (pool != nullptr) pool->expect_no_reconnect();
    }

    DelegatedChains& owner;
    PoolState* state = nullptr;           // set with the pool
    rights::VerifiedCapability verified;  // the chain
    [[nodiscard]] const capability::Capability& last() const { return verified.last; }
    Semaphore turn;  // of opening and showing
    bool is_renewing = false;
    bool was_reported_late = false;  // to the hosts, since the last renewal
    std::shared_ptr<Holder> holder;
    std::unique_ptr<connection::DirectPool> pool;
    std::optional<Time> unused_since{};  // set by know()
};

DelegatedChains::DelegatedChains(Reactor& reactor, BlockingPool& blocking,
                                 session::SessionTable& sessions)
    : reactor_(reactor),
      blocking_(blocking),
      sessions_(sessions),
      key_(capability::SigningKey::make_seed(reactor.secrets())),
      asking_(reactor, SIZE_MAX, requests_at_once),
      taking_(reactor, SIZE_MAX, taken_at_once),
      verifying_(reactor, verified_at_once),
      renewing_(reactor, chains_max.in_all),
      ending_(reactor, chains_max.in_all + ending_max) {}

DelegatedChains::~DelegatedChains() { ROS2S_CHECK(delegated_.empty()); }

void DelegatedChains::begin(connection::Options engine, const std::vector<std::string>& pools,
                            const session::Mounts& mounts, Log log) {
    engine_ = std::move(engine);
    mounts_ = &mounts;
    for (const std::string& pool : pools) states_[pool] = std::make_unique<PoolState>();
    log_ = std::move(log);
}

Task<> DelegatedChains::close() {
    closing_ = true;
    for (const auto& [key, delegated] : delegated_) delegated->expect_no_successor();
    delegated_.clear();
    co_await renewing_.join();
    co_await ending_.join();
}

// ---- what the engine says -----------------------------------------------------------------------

void DelegatedChains::know(const std::string& pool, const control::ListedTenants& listed) {
    PoolState& state = *states_.at(pool);
    state.audience = listed.audience;
    state.issuers = listed.issuers;
    state.ahead = listed.now - reactor_.wall_time();
    const WallTime now = engine_time(state);
    report_late(pool, state);
    std::erase_if(delegated_, [&](const auto& each) {
        if (!each.first.is_of(pool)) return false;
        const rights::VerifiedCapability& chain = each.second->verified;
        // While it is used, another chain may follow.
        const bool is_over = !chain.last.is_in_time(now) && each.second.use_count() == 1;
        const bool is_invalid = rights::check_capability(policy(), chain) != rights::Why::granted;
        if (is_invalid) each.second->expect_no_successor();
        return is_over || is_invalid;
    });
    end_unused(pool);
}

void DelegatedChains::end_unused(const std::string& pool) {
    const Time now = reactor_.now();
    for (const auto& [key, delegated] : delegated_) {
        if (!key.is_of(pool) || delegated->pool == nullptr) continue;
        if (delegated.use_count() > 1) {
            delegated->unused_since.reset();
            continue;
        }
        if (!delegated->unused_since) delegated->unused_since = now;
        if (now - *delegated->unused_since < unused_max) continue;
        if (alive_ + ending_.running() >= ending_.limit()) return;
        ROS2S_CHECK(ending_.try_spawn(end(delegated->holder, delegated->take_pool())));
    }
}

bool DelegatedChains::end_longest_unused(const std::string& pool, const std::string& tenant) {
    const Time now = reactor_.now();
    DelegatedSession *own = nullptr, *other = nullptr;
    for (const auto& [key, delegated] : delegated_) {
        if (!key.is_of(pool) || delegated.use_count() > 1 || delegated->pool == nullptr) {
            continue;
        }
        const bool is_own = key.tenant.second == tenant;
        const Time since = delegated->unused_since.value_or(now);
        if (!is_own && now - since < others_unused_min) continue;
        DelegatedSession*& longest = is_own ? own : other;
        if (longest == nullptr || since < longest->unused_since.value_or(now)) {
            longest = delegated.get();
        }
    }
    DelegatedSession* const ended = own != nullptr ? own : other;
    if (ended == nullptr || alive_ + ending_.running() >= ending_.limit()) return false;
    ROS2S_CHECK(ending_.try_spawn(end(ended->holder, ended->take_pool())));
    return true;
}

// The engine refuses chains that are out of time: its clock was set, or the hosts were late.
void DelegatedChains::report_late(const std::string& pool, const PoolState& state) {
    for (const auto& [key, delegated] : delegated_) {
        if (!key.is_of(pool) || delegated.use_count() == 1 || delegated->was_reported_late ||
            delegated->last().is_in_time(engine_time(state))) {
            continue;
        }
        delegated->was_reported_late = true;
        for (const session::Session* const session : sessions_.all()) {
            const session::SessionRequest& request = session->request;
            if (request.pool != pool ||
                tenant_of(pool, request.subject) != delegated->last().tenant) {
                continue;
            }
            // Hosts of the tenant that work elsewhere do not depend on this chain.
            const auto is_its = [&delegated](const std::string& container) {
                return delegated->last().use.container.has(container);
            };
            if (std::ranges::none_of(mounts_->containers_of(session->id), is_its)) continue;
            sessions_.evict(session->id, "a capability of its tenant is not valid now");
        }
    }
}

std::vector<exporter::Source> DelegatedChains::counters() const {
    std::vector<exporter::Source> sources;
    for (const auto& [pool, state] : states_) {
        if (state->provider.empty()) continue;  // there was no session yet
        sources.push_back(
            {.labels = {{"side", "engine"}, {"pool", pool}, {"provider", state->provider}},
             .list = [&state = *state](const MetricVisitor& visit) {
                 Sums sums = state.ended;
                 for (const DelegatedSession* const delegated : state.open) {
                     delegated->pool->visit_metrics(
                         [&sums](std::string_view name, std::string_view help, uint64_t value) {
                             add(sums, name, help, value);
                         });
                 }
                 for (const auto& [name, sum] : sums) visit(name, sum.first, sum.second);
             }});
    }
    return sources;
}

std::string DelegatedChains::storage(std::string_view pool) const {
    const auto state = states_.find(pool);
    if (state == states_.end() || state->second->open.empty()) return {};
    return state->second->open.front()->pool->path_without_address();
}

WallTime DelegatedChains::engine_time(const PoolState& pool) const {
    return reactor_.wall_time() + pool.ahead;
}

std::string DelegatedChains::tenant_of(std::string_view pool, std::string_view subject) const {
    return policy().principal(subject, pool).tenant;
}

session::Authority DelegatedChains::authority(std::string_view pool, std::string_view subject,
                                              bool read_only) const {
    if (!has(pool)) return {};
    std::string name = tenant_of(pool, subject);
    const rights::TenantParty* const tenant = policy().tenant(pool, name);
    if (tenant == nullptr) return {};
    return {.tenant = std::move(name),
            .writes = !read_only,
            .generation = tenant->generation,
            .revocations = tenant->revocations};
}

std::optional<control::Capabilities::Description> DelegatedChains::describe(
    std::string_view pool) const {
    const auto state = states_.find(pool);
    if (state == states_.end()) return std::nullopt;
    return Description{
        .audience = state->second->audience, .issuers = {}, .delegate = key_.shown()};
}

Task<Result<std::string>> DelegatedChains::issue(const Call& call, std::string caller,
                                                 std::string peer, std::string pool,
                                                 control::SignedCapabilityRequest wanted,
                                                 Report& report) {
    const Call bounded = within(call);
    Report said;
    Result<std::string> issued = fail(Code::deadline);
    if (const auto turn = co_await asking_.enter(bounded, caller)) {
        issued =
            co_await control_->relay_capability_request(bounded, pool, std::move(wanted), said);
    }
    if (issued) co_return issued;
    if (rpc::is_refusal(issued.error().code)) {
        refused(caller, peer, pool, issued.error(),
                fmt::format("{} ({}) was refused a capability of the pool '{}': {}", caller, peer,
                            pool, said.empty() ? ros2s::describe(issued.error()) : said.text()));
    }
    if (issued.error().code == Code::denied) co_return report.fail(issued.error(), said.text());
    // Hosts do not learn the engine's address.
    log_not_issued(issued.error(), said);
    co_return report.fail(issued.error(),
                          "this DPU cannot get a capability from its engine now; try again later. "
                          "The DPU's log has the reason");
}

void DelegatedChains::refused(std::string_view subject, std::string_view peer,
                              std::string_view pool, Error reason, std::string_view sentence) {
    sessions_.refused({.subject = subject,
                       .peer = peer,
                       .session = 0U,
                       .action = AuditAction::capability,
                       .object = AuditObject{.pool = pool},
                       .decision = AuditDecision::refused,
                       .reason = reason,
                       .text = sentence});
}

void DelegatedChains::log_not_issued(Error error, const Report& said) {
    const Time now = reactor_.now();
    if (error.code == Code::cancelled || now < may_log_not_issued_) return;
    may_log_not_issued_ = now + std::chrono::minutes(1);
    log_.warning("the request to the engine at {} for a capability failed: {}",
                 engine_.server.control, said.empty() ? ros2s::describe(error) : said.text());
}

Call DelegatedChains::within(const Call& call) const {
    return {.deadline = std::min(call.deadline, reactor_.now() + opening_max), .stop = call.stop};
}

// ---- what hosts hand over -----------------------------------------------------------------------

Task<Result<rights::VerifiedCapability>> DelegatedChains::verify(const Call& call,
                                                                 std::string subject,
                                                                 std::string pool,
                                                                 const capability::Chain& chain,
                                                                 std::string& why) {
    const auto no = [&why](std::string_view what) {
        why = what;
        return fail(Code::denied);
    };
    const PoolState& state = *states_.at(pool);
    // The host may have heard of a change, also of the engine's clock, before this process.
    const auto first = capability::decode(chain.front());
    for (const Time until = reactor_.now() + news_max; first && reactor_.now() < until;) {
        const rights::TenantParty* const tenant = policy().tenant(pool, first->tenant);
        const bool is_known_key =
            std::ranges::find(state.issuers, first->issuer) != state.issuers.end();
        if (tenant == nullptr || (is_known_key && tenant->generation >= first->generation &&
                                  first->is_in_time(engine_time(state)))) {
            break;
        }
        if (!co_await sleep_for(reactor_, news_pause, {})) break;
    }
    const auto claimed = capability::decode(chain.back());
    if (!claimed || claimed->depth != capability::depth_max || claimed->holder != key_.shown()) {
        co_return no("it is not for this DPU");
    }
    if (claimed->tenant != tenant_of(pool, subject)) co_return no("it is another tenant's");
    ROS2S_CO_TRY(co_await verifying_.acquire_for(call));
    const SemaphoreHold hold(verifying_);
    const capability::Expected expected{
        .audience = state.audience, .issuers = state.issuers, .now = engine_time(state)};
    ROS2S_CO_TRY_ASSIGN(auto last, co_await blocking_.run(reactor_, [&chain, &expected, &why] {
        return capability::verify(chain, expected, why);
    }));
    if (last.tenant != tenant_of(pool, subject)) co_return no("it is another tenant's");
    rights::VerifiedCapability verified{std::move(pool), *first, std::move(last)};
    const rights::Why wrong = rights::check_capability(policy(), verified);
    if (wrong != rights::Why::granted) co_return no(to_string(wrong));
    co_return verified;
}

void DelegatedChains::drop_unused(const TenantOfPool& tenant) {
    auto first = delegated_.end();
    for (auto each = delegated_.begin(); each != delegated_.end(); ++each) {
        if (each->second.use_count() > 1 || each->first.tenant != tenant) continue;
        if (first == delegated_.end() ||
            each->second->last().expires < first->second->last().expires) {
            first = each;
        }
    }
    delegated_.erase(first);
}

Result<> DelegatedChains::make_room(const TenantOfPool& tenant) {
    std::map<TenantOfPool, ChainCount> counts;
    for (const auto& [key, delegated] : delegated_) {
        ChainCount& count = counts[key.tenant];
        ++count.all;
        if (delegated.use_count() == 1) ++count.unused;
    }
    ROS2S_TRY_ASSIGN(const TenantOfPool* const loser,
                     tenant_to_make_room(counts, tenant, alive_, chains_max));
    // An engine that is slow ends sessions slowly. Dropping a chain would only add one.
    if (alive_ + ending_.running() >= chains_max.in_all + ending_max) {
        return fail(Code::busy, counts[tenant].all);
    }
    if (loser != nullptr) drop_unused(*loser);
    return {};
}

Task<Result<>> DelegatedChains::take(const Call& call, std::string subject, std::string peer,
                                     std::string pool, capability::Chain chain, Report& report) {
    std::string why;
    Result<rights::VerifiedCapability> verified = fail(Code::deadline);
    if (const auto turn = co_await taking_.enter(call, subject)) {
        verified = co_await verify(call, subject, pool, chain, why);
    }
    if (!verified && verified.error().code != Code::denied) {
        co_return report.fail(verified.error(),
                              "this DPU verified other capabilities until this call had to end; "
                              "try again, with fewer calls at once");
    }
    if (!verified) {
        const std::string sentence = fmt::format(
            "{} handed over a capability of the pool '{}': refused: {}", subject, pool, why);
        refused(subject, peer, pool, verified.error(), sentence);
        co_return report.fail(Code::denied, sentence);
    }
    const capability::Capability& last = verified->last;
    const Key key{{pool, last.tenant}, last.use};
    if (closing_) co_return report.fail(Code::closed, "the server is stopping");
    const auto found = delegated_.find(key);
    const bool is_new = found == delegated_.end();
    if (const auto room = is_new ? make_room({pool, last.tenant}) : Result<>{}; !room) {
        why = fmt::format(
            "the tenant '{}' uses {} containers here. It may use {} at most, and not more than all "
            "tenants leave of {}; unmount some",
            last.tenant, room.error().detail, chains_max.per_tenant, chains_max.in_all);
        refused(subject, peer, pool, Error{.code = Code::busy},
                fmt::format("{} handed over a capability of the pool '{}': refused: {}", subject,
                            pool, why));
        co_return report.fail(Code::busy, why);
    }
    std::shared_ptr<DelegatedSession> delegated =
        is_new ? std::make_shared<DelegatedSession>(*this, reactor_) : found->second;
    // An older one, which was delayed, changes nothing.
    if (!is_new && last.expires < delegated->last().expires &&
        delegated->last().is_in_time(engine_time(*states_.at(pool)))) {
        co_return Result<>{};
    }
    delegated->was_reported_late = false;
    delegated->verified = std::move(*verified);
    delegated->holder->links = std::move(chain);
    delegated_.insert_or_assign(key, delegated);
    if (delegated->pool != nullptr) delegated->pool->try_again();
    if (delegated->pool == nullptr || delegated->is_renewing) co_return Result<>{};
    delegated->is_renewing = true;
    if (!renewing_.try_spawn(renew(delegated))) delegated->is_renewing = false;
    co_return Result<>{};
}

// If it fails, the connection to the engine ends with the earlier one, and the next one shows this.
Task<> DelegatedChains::renew(std::shared_ptr<DelegatedSession> delegated) {
    co_await delegated->turn.acquire();
    const SemaphoreHold hold(delegated->turn);
    delegated->is_renewing = false;  // a chain that comes from here on is shown by another renewal
    Report unused;
    (void)co_await delegated->pool->show_capability(unused);
}

// ---- sessions with the engine -------------------------------------------------------------------

Task<> DelegatedChains::end(std::shared_ptr<Holder> /*holder*/,
                            std::unique_ptr<connection::DirectPool> pool) {
    (void)co_await pool->close();
}

Task<Result<>> DelegatedChains::open(DelegatedSession& delegated, const Call& call,
                                     std::string pool, Report& report) {
    const auto failed = [&report, &pool](Error error) {
        return report.fail(error, "the engine behind this DPU does not open the pool '{}' now",
                           pool);
    };
    if (const auto has_turn = co_await delegated.turn.acquire_for(call); !has_turn) {
        co_return failed(has_turn.error());
    }
    const SemaphoreHold hold(delegated.turn);
    if (delegated.pool != nullptr) co_return Result<>{};
    connection::Options options = engine_;
    options.server.pool = pool;
    options.holder = delegated.holder.get();
    options.opening = call;
    Report said;
    auto opened = co_await connection::DirectPool::open(reactor_, options, log_, said);
    const auto is_busy = [&] { return !opened && opened.error().code == Code::busy; };
    // The engine notices the end of a connection a moment later.
    Backoff pauses{.first = std::chrono::milliseconds(1), .longest = std::chrono::seconds(1)};
    while (is_busy() && pauses.attempts < ending_attempts) {
        if (!end_longest_unused(pool, delegated.last().tenant) && ending_.running() == 0) break;
        if (!co_await sleep_for(reactor_, pauses.next(), call.stop)) break;
        said = {};
        opened = co_await connection::DirectPool::open(reactor_, options, log_, said);
    }
    if (!opened && (opened.error().code == Code::denied || opened.error().code == Code::busy)) {
        co_return report.fail(opened.error(), said.text());
    }
    if (!opened && (opened.error().os_errno == EMFILE || opened.error().os_errno == ENFILE)) {
        co_return report.fail(opened.error(), "this DPU cannot open the pool '{}': {}", pool,
                              said.text());
    }
    if (!opened) co_return failed(opened.error());
    delegated.pool = std::move(*opened);
    delegated.state = states_.at(pool).get();
    delegated.state->open.push_back(&delegated);
    delegated.state->provider = delegated.pool->provider();
    log_.info("the pool '{}' for the tenant '{}': {}", pool, delegated.last().tenant,
              delegated.pool->path());
    co_return Result<>{};
}

std::vector<rights::Grant> DelegatedChains::handed_over(std::string_view pool,
                                                        std::string_view subject) const {
    std::vector<rights::Grant> grants;
    const TenantOfPool tenant(pool, tenant_of(pool, subject));
    for (const auto& [key, delegated] : delegated_) {
        // The tenant's record names the directories.
        if (key.tenant != tenant || key.use.directories) continue;
        if (!delegated->last().is_in_time(engine_time(*states_.find(pool)->second))) continue;
        grants.push_back(
            {.pool = tenant.first, .container = key.use.container, .rights = key.use.rights});
    }
    return grants;
}

Task<Result<std::shared_ptr<object::ObjectStore>>> DelegatedChains::store(
    const Call& call, std::string pool, std::string tenant, capability::Use use, Report& report) {
    // The narrowest: it does not depend on hosts that may do more. Then the one that ends last.
    const auto rank = [](const DelegatedSession& each) {
        return std::pair(-std::popcount(each.last().use.rights.bits), each.last().expires);
    };
    std::shared_ptr<DelegatedSession> best;
    for (const auto& [key, delegated] : delegated_) {
        if (key.tenant != TenantOfPool(pool, tenant)) continue;
        capability::Use within = use;
        within.directories =
            delegated->last().use.directories;  // the mount's view has checked these
        if (!delegated->last().use.covers(within)) continue;
        if (!delegated->last().is_in_time(engine_time(*states_.at(pool)))) continue;
        if (best == nullptr || rank(*best) < rank(*delegated)) best = delegated;
    }
    if (best == nullptr || tenant.empty()) {
        co_return report.fail(Code::denied,
                              "no host of {} has handed this DPU a capability for the container "
                              "'{}' of the pool '{}'; use a client library of this version",
                              tenant.empty() ? "a tenant" : "'" + tenant + "'", use.container.text,
                              pool);
    }
    if (best->pool == nullptr) {
        ROS2S_CO_TRY(co_await open(*best, within(call), pool, report));
    }
    co_return std::shared_ptr<object::ObjectStore>(best, &best->pool->store());
}

}  // namespace ros2s::dpud
