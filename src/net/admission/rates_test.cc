// Rates of tenants, and when an account is dropped, on simulated time.
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/crowd.h"

namespace ros2s::admission {
namespace {

double rate(const Crowd::Source& source, Duration span) {
    double sum = 0;
    for (const uint64_t each : source.begun) sum += static_cast<double>(each);
    return sum * 1e9 / static_cast<double>(span.count());
}

TEST(RateLimits, RateIsKeptAndRestIsLeftToOthers) {
    for (const Allowance& limited : {Allowance{.requests = 2000, .burst = 10ms},
                                     Allowance{.bytes = 2000 * 4096, .burst = 10ms}}) {
        Crowd crowd(1, {limited, {}});
        Crowd::Source& slow = crowd.add(4096, 3, 64);
        crowd.add(4096, 2, 64);
        crowd.run();
        EXPECT_NEAR(rate(slow, crowd.span), 2000, 40);
        for (const uint64_t line : slow.begun) EXPECT_NEAR(static_cast<double>(line), 267, 8);
        EXPECT_GE(crowd.served(), 0.99 * 400e6);
        EXPECT_GT(slow.account->metrics.delayed.value(), 500U);
    }
}

TEST(RateLimits, NamesAndDataHaveSeparateRates) {
    const Allowance limited{.requests = 1000, .names = 3000, .burst = 10ms};
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{4096}}) {
        Crowd crowd(1, {limited});
        Crowd::Source& source = crowd.add(bytes, 2, 8);
        crowd.run();
        EXPECT_NEAR(rate(source, crowd.span), bytes == 0 ? 3000 : 1000, 30);
    }
}

// A look-up whose reply has payload counts as a request on names, and its bytes count.
TEST(RateLimits, NameRateHoldsWithPayload) {
    sim::World world(1);
    Accounts accounts(world.core(),
                      allowances_of({{.requests = 1, .bytes = 4096, .names = 2, .burst = 0ms}}));
    const auto account = accounts.open(subject_of(0));
    const Time now = world.core().now();
    EXPECT_EQ(account->use({Work::look, 0}, now), now);
    EXPECT_EQ(account->use({Work::change, 8192}, now), now + 500ms);
    EXPECT_EQ(account->use({Work::look, 0}, now), now + 1s) << "no bytes, no rate of bytes";
    EXPECT_EQ(account->use({Work::read, 4096}, now), now + 2s);
    account->give_back({Work::change, 8192});
    EXPECT_EQ(account->use({Work::look, 0}, now), now + 1s);
    EXPECT_EQ(account->use({Work::write, 4096}, now), now + 1s);
}

// A batch is admitted as one name, and afterwards charged for all its names.
TEST(RateLimits, BatchIsChargedForAllItsNames) {
    OneTenant tenant({.names = 1000, .burst = 10ms});
    Line line(tenant.admission, tenant.account->number);
    const Time before = tenant.world.core().now();
    tenant.world.run([](Line& its) -> Task<> {
        for (int i = 0; i < 11; ++i) {
            const Permit place = co_await its.enter(0, {});
            EXPECT_TRUE(place);
            its.use_names(99);
        }
    }(line));
    EXPECT_EQ(tenant.account->metrics.names.value(), 1100U);
    EXPECT_NEAR(static_cast<double>((tenant.world.core().now() - before) / 1ms), 990, 10);
}

// Without any rates: refused requests of 100 us are at most an eighth of the time. What was paid
// for is forgotten.
TEST(RateLimits, RefusedRequestsAreCharged) {
    OneTenant tenant({});
    Line line(tenant.admission, tenant.account->number);
    const Time before = tenant.world.core().now();
    tenant.world.run([](Reactor& core, Line& its) -> Task<> {
        for (int i = 0; i < 1000; ++i) {
            const Permit place = co_await its.enter(0, {});
            EXPECT_TRUE(place);
            its.charge_refusal(100'000);
        }
        co_await sleep_for(core, 1s);
        const Time later = core.now();
        for (int i = 0; i < 1000; ++i) EXPECT_TRUE(co_await its.enter(0, {}));
        EXPECT_EQ(core.now(), later);
    }(tenant.world.core(), line));
    const auto took = static_cast<double>((tenant.world.core().now() - before) / 1ms);
    EXPECT_NEAR(took, 800 - 20 + 1000, 10);
    EXPECT_TRUE(tenant.account->owes_nothing(tenant.world.core().now()));
    EXPECT_FALSE(tenant.account->has_rates());
}

TEST(RateLimits, RequestsBelowTheRateDoNotWait) {
    Crowd crowd(1, {{.requests = 200'000, .bytes = uint64_t{1} << 40}});
    const Crowd::Source& source = crowd.add(4096, 1, 16);
    crowd.run();
    EXPECT_EQ(source.account->metrics.delayed.value(), 0U);
    EXPECT_GE(crowd.served(), 0.99 * 400e6);
}

TEST(RateLimits, RateAppliesOnceOnThePath) {
    OneTenant tenant({.requests = 1}, {.keeps_accounts = false});
    Line line(tenant.admission, tenant.account->number);
    tenant.world.run([](Line& its) -> Task<> {
        for (int i = 0; i < 100; ++i) {
            const Permit place = co_await its.enter(1, {});
            EXPECT_TRUE(place);
        }
    }(line));
    EXPECT_EQ(tenant.account->metrics.requests.value(), 0U) << "counted once on the way, too";
    EXPECT_EQ(tenant.account->metrics.bytes.value(), 0U);
}

// Three requests at once. They run one at a time, 15 ms each.
Task<> wait_for(OneTenant& tenant) {
    Line line(tenant.admission, tenant.account->number);
    Nursery nursery(tenant.world.core(), 3);
    for (int i = 0; i < 3; ++i) {
        co_await nursery.spawn([](Line& its, Reactor& core) -> Task<> {
            const Permit place = co_await its.enter(1, {}, core.now());
            co_await sleep_for(core, 15ms);
        }(line, tenant.world.core()));
    }
    co_await nursery.join();
}
TEST(RateLimits, ThrottledAndQueuedTimeAreCountedApart) {
    struct Case {
        uint64_t rate;
        Duration throttled, queued;
    };
    for (const Case& each : {
             Case{.rate = 0, .throttled = {}, .queued = 15ms + 30ms},
             // The second may begin at 10 ms and begins at 15. Then the third may begin at 20 ms,
             // and begins at 30. Until 10 ms it waits behind one that the rate delays.
             Case{.rate = 100, .throttled = 10ms + 10ms + 5ms, .queued = 5ms + 5ms + 10ms},
             Case{.rate = 10, .throttled = 100ms + 200ms, .queued = {}},
         }) {
        Limits limits;
        limits.all.requests = 1;
        OneTenant tenant({.requests = each.rate, .burst = 0ms}, limits);
        tenant.world.run(wait_for(tenant));
        EXPECT_EQ(Duration(tenant.account->metrics.throttled_ns.value()), each.throttled)
            << each.rate;
        EXPECT_EQ(Duration(tenant.account->metrics.queued_ns.value()), each.queued) << each.rate;
    }
}

// The wait of a cancelled request counts, too.
CO_TEST(RateLimits, CancelledWaitIsCounted, OneTenant, tenant, {.requests = 1, .burst = 0ms}) {
    Line line(tenant.admission, tenant.account->number);
    Nursery nursery(tenant.world.core(), 2);
    StopSource stop;
    EXPECT_TRUE(co_await line.enter(1, {}));
    for (int i = 0; i < 2; ++i) {
        co_await nursery.spawn([](Line& its, StopToken token) -> Task<> {
            EXPECT_FALSE(co_await its.enter(1, token));
        }(line, stop.token()));
    }
    co_await sleep_for(tenant.world.core(), 30ms);
    stop.request_stop();
    co_await nursery.join();
    EXPECT_EQ(Duration(tenant.account->metrics.throttled_ns.value()), 60ms);
    EXPECT_EQ(tenant.account->metrics.queued_ns.value(), 0U);
}

Task<> end_rates(OneTenant& tenant) {
    Line line(tenant.admission, tenant.account->number);
    Nursery nursery(tenant.world.core(), 100);
    for (int i = 0; i < 100; ++i) {
        co_await nursery.spawn([](Line& its) -> Task<> {
            const Permit place = co_await its.enter(1, {});
            EXPECT_TRUE(place);
        }(line));
    }
    EXPECT_EQ(tenant.admission.metrics().waiting.value(), 98U);  // one a second, one of the burst
    const Time begun = tenant.world.core().now();
    line.end_rates();
    co_await nursery.join();
    EXPECT_EQ(tenant.world.core().now(), begun);
}
TEST(RateLimits, RateDoesNotDelayTheEndOfALine) {
    OneTenant tenant({.requests = 1, .burst = 1s});
    tenant.world.run(end_rates(tenant));
}

// The reservation of a cancelled request is released.
CO_TEST(RateLimits, CancelledRequestUsesNothing, OneTenant, tenant,
        {.requests = 10, .burst = 1ms}) {
    Line line(tenant.admission, tenant.account->number),
        other(tenant.admission, tenant.account->number);
    {
        const Permit first = co_await line.enter(1, {});
    }
    for (int i = 0; i < 1000; ++i) {
        StopSource stop;
        Nursery nursery(tenant.world.core(), 1);
        co_await nursery.spawn([](Line& its, StopToken token) -> Task<> {
            EXPECT_FALSE(co_await its.enter(1, token));
        }(line, stop.token()));
        stop.request_stop();
        co_await nursery.join();
    }
    const Time begun = tenant.world.core().now();
    EXPECT_TRUE(co_await other.enter(1, {}));
    EXPECT_LE(tenant.world.core().now() - begun, 100ms);
}

// A rate is corrected while requests wait because of it.
CO_TEST(RateLimits, RaisedRateReleasesWaitingRequests, OneTenant, tenant) {
    Line line(tenant.admission, tenant.account->number),
        other(tenant.admission, tenant.account->number);
    const Counter& waiting = tenant.admission.metrics().waiting;
    for (const bool to_none : {false, true}) {
        tenant.accounts.set(allowances_of({{.bytes = 1, .burst = 0ms}}));
        Nursery nursery(tenant.world.core(), 3);
        const auto ask = [&](Line& its) {
            return nursery.spawn([](Line& on) -> Task<> {
                const Permit place = co_await on.enter(4096, {});
                EXPECT_TRUE(place);
            }(its));
        };
        co_await ask(line);
        EXPECT_EQ(waiting.value(), 0U);
        co_await ask(line);
        co_await ask(other);
        EXPECT_EQ(waiting.value(), 2U);
        co_await sleep_for(tenant.world.core(), 1s);
        EXPECT_EQ(waiting.value(), 2U);
        // The new rate delays the second one, too.
        tenant.accounts.set(allowances_of({{.bytes = to_none ? 0U : 4096U, .burst = 0ms}}));
        const Time begun = tenant.world.core().now();
        EXPECT_EQ(waiting.value(), to_none ? 0U : 1U);
        co_await nursery.join();
        EXPECT_EQ(tenant.world.core().now() - begun, to_none ? 0s : 1s);
    }
}

// ---- accounts ----------------------------------------------------------------------------------

CO_TEST(Accounts, AccountIsKeptWhileUsedOrIndebted, sim::World, world, 1) {
    Allowances allowances = allowances_of({{.requests = 1}});
    allowances.others.weight = 3;
    Accounts accounts(world.core(), allowances);
    const uint64_t number = accounts.open("CN=0")->number;
    (void)accounts.open("CN=0")->use(1, world.core().now());
    const auto held = accounts.open("CN=held");
    for (size_t i = 0; i < 3 * Accounts::kept_max; ++i) {
        EXPECT_EQ(accounts.open(fmt::format("CN=passer-by {}", i))->weight(), 3U);
        EXPECT_LE(accounts.all().size(), Accounts::kept_max + 2);
    }
    // It has a debt, so it is kept.
    EXPECT_EQ(accounts.open("CN=0")->number, number);
    EXPECT_EQ(accounts.find(held->number), held);
    co_await sleep_for(world.core(), 2s);
    for (size_t i = 0; i < Accounts::kept_max; ++i) (void)accounts.open(fmt::format("CN={}x", i));
    EXPECT_NE(accounts.open("CN=0")->number, number);
    EXPECT_EQ(accounts.find(number), nullptr);
}

TEST(Accounts, NewAllowancesApplyAtOnceAndClearDebt) {
    OneTenant tenant({.bytes = 1, .burst = 1ms});
    Accounts& accounts = tenant.accounts;
    const auto account = tenant.account;
    const Time now = tenant.world.core().now();
    (void)account->use(1000, now);
    EXPECT_GT(account->use(1, now), now + 900s);
    accounts.set(allowances_of({{.weight = 5, .bytes = 1000, .burst = 1ms}}));
    EXPECT_EQ(account->weight(), 5U);
    EXPECT_EQ(account->use(1, now), now);
    EXPECT_EQ(accounts.open(subject_of(0)), account);
    // A subject that becomes a tenant's has the tenant's account from then on.
    Allowances joined = allowances_of({{.weight = 5}});
    joined.accounts[subject_of(0)].emplace("pool", "alice");
    accounts.set(joined);
    EXPECT_EQ(accounts.open(subject_of(0), "pool")->name, "alice");
    EXPECT_EQ(accounts.name_for(subject_of(0), "pool"), "alice");
}

TEST(Accounts, SubjectHasOneAccountPerPool) {
    sim::World world(1);
    Allowances allowances;
    allowances.accounts["CN=s"] = {{"p1", "guests"}, {"p2", "batch"}};
    allowances.by_account["batch"].weight = 3;
    Accounts accounts(world.core(), allowances);
    EXPECT_EQ(accounts.open("CN=s", "p1")->name, "guests");
    EXPECT_EQ(accounts.open("CN=s", "p1")->weight(), 1U);
    EXPECT_EQ(accounts.open("CN=s", "p2")->name, "batch");
    EXPECT_EQ(accounts.open("CN=s", "p2")->weight(), 3U);
    // Where it has no tenant, it has the first one's.
    EXPECT_EQ(accounts.open("CN=s", "p3"), accounts.open("CN=s", "p1"));
    EXPECT_EQ(accounts.open("CN=s"), accounts.open("CN=s", "p1"));
    EXPECT_EQ(accounts.open("CN=t", "p2")->name, "CN=t");
    accounts.count_refusal("CN=s", "p2");
    EXPECT_EQ(accounts.open("CN=s", "p2")->metrics.refused.value(), 1U);
}

}  // namespace
}  // namespace ros2s::admission
