// Shares of a server's time, by weight and within rates; on simulated time, from seeds.
// ROS2STORE_TEST_SEEDS: how many of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "ros2s/admission/admission.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::admission {
namespace {

using namespace std::chrono_literals;

uint64_t seeds() {
    const char* const text = std::getenv("ROS2STORE_TEST_SEEDS");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : 300;
}

// The model of a request's cost, here with the processor that has this cost.
uint64_t time_of(uint64_t bytes) { return 16'000 + bytes / 4; }

std::string subject_of(size_t tenant) { return fmt::format("CN={}", tenant); }

Allowances allowances_of(const std::vector<Allowance>& tenants) {
    Allowances all;
    for (size_t i = 0; i < tenants.size(); ++i) all.by_account.emplace(subject_of(i), tenants[i]);
    return all;
}

// Tenants in front of one processor. Each has requests of one size.
struct Crowd {
    struct Source {
        std::shared_ptr<Account> account;
        uint64_t bytes = 0;
        size_t depth = 0;    // of each line
        bool rests = false;  // now and then
        std::vector<std::unique_ptr<Line>> lines;
        std::vector<uint64_t> served;  // the cost, by line
        std::vector<uint64_t> begun;   // requests, by line
        Duration slowest{};
        [[nodiscard]] double all() const {
            double sum = 0;
            for (const uint64_t each : served) sum += static_cast<double>(each);
            return sum;
        }
    };
    explicit Crowd(uint64_t seed, const std::vector<Allowance>& tenants)
        : world(seed),
          accounts(world.core(), allowances_of(tenants)),
          admission(world.core(), {}, &accounts) {}
    Source& add(uint64_t bytes, size_t lines, size_t depth) {
        sources.push_back(std::make_unique<Source>());
        Source& source = *sources.back();
        source.account = accounts.open(subject_of(sources.size() - 1));
        source.bytes = bytes;
        source.depth = depth;
        source.served.resize(lines);
        source.begun.resize(lines);
        for (size_t i = 0; i < lines; ++i) {
            source.lines.push_back(std::make_unique<Line>(admission, source.account->number));
        }
        return source;
    }
    static Task<> ask(Crowd& self, Source& source, size_t line) {
        Reactor& core = self.world.core();
        Random& random = self.world.random();
        while (!self.over) {
            if (source.rests && random.one_in(50)) {
                co_await sleep_for(core, Duration(random.below(40'000'000)), self.end.token());
            }
            const Time asked = core.now();
            const bool counts = self.measured;
            const Place place = co_await source.lines[line]->enter(source.bytes, self.end.token());
            if (!place) co_return;
            if (self.measured) ++source.begun[line];
            co_await self.processor.acquire();
            const SemaphoreHold hold(self.processor);
            co_await sleep_for(core, Duration(time_of(source.bytes)));
            if (!self.measured) continue;
            source.served[line] += time_of(source.bytes);
            if (counts) source.slowest = std::max(source.slowest, core.now() - asked);
        }
    }
    static Task<> all(Crowd& self) {
        for (const auto& source : self.sources) {
            for (size_t line = 0; line < source->lines.size(); ++line) {
                for (size_t j = 0; j < source->depth; ++j) {
                    co_await self.nursery.spawn(ask(self, *source, line));
                }
            }
        }
        co_await sleep_for(self.world.core(), 100ms);
        self.measured = true;
        co_await sleep_for(self.world.core(), self.span);
        self.measured = false;
        self.over = true;
        self.end.request_stop();
        co_await self.nursery.join();
        for (auto& source : self.sources) source->lines.clear();
    }
    void run() { world.run(all(*this)); }
    [[nodiscard]] double served() const {
        double sum = 0;
        for (const auto& source : sources) sum += source->all();
        return sum;
    }
    sim::World world;
    Accounts accounts;
    Admission admission;
    Semaphore processor{world.core(), 1};
    Nursery nursery{world.core(), 10'000};
    StopSource end;
    std::vector<std::unique_ptr<Source>> sources;
    Duration span = 400ms;
    bool measured = false, over = false;
};

constexpr uint64_t sizes[] = {0, 4096, 65536, 1 << 20};

// Tenants with full queues.
void shares_by_weight(uint64_t seed, uint32_t weight_most) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    std::vector<Allowance> tenants(2 + random.below(4));
    double weights = 0;
    for (Allowance& each : tenants) {
        each.weight = 1 + static_cast<uint32_t>(random.below(weight_most));
        weights += each.weight;
    }
    Crowd crowd(seed, tenants);
    for (size_t i = 0; i < tenants.size(); ++i) {
        crowd.add(sizes[random.below(4)], 1 + random.below(3), 192 + random.below(64));
    }
    crowd.run();
    for (size_t i = 0; i < tenants.size(); ++i) {
        const Crowd::Source& source = *crowd.sources[i];
        const double share = source.all() / crowd.served() * weights / tenants[i].weight;
        EXPECT_NEAR(share, 1, 0.1)
            << source.bytes << " bytes, weight " << tenants[i].weight << " of " << weights;
        for (const uint64_t line : source.served) {
            const double part = static_cast<double>(line * source.served.size()) / source.all();
            EXPECT_NEAR(part, 1, 0.1) << source.bytes;
        }
    }
}
TEST(Shares, AreEqualWhateverTheRequestsAre) {
    for (uint64_t seed = 1; seed <= seeds() && !testing::Test::HasFailure(); ++seed) {
        shares_by_weight(seed, 1);
    }
}
TEST(Shares, FollowTheWeights) {
    for (uint64_t seed = 1; seed <= seeds() && !testing::Test::HasFailure(); ++seed) {
        shares_by_weight(seed, 4);
    }
}

// The first has a full queue. Whatever the others do, it has nearly its part. What may be inside is
// a whole number of requests, so a tenant with large ones has a little less.
void no_starvation(uint64_t seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    std::vector<Allowance> tenants(2 + random.below(6));
    double weights = 0;
    for (Allowance& each : tenants) {
        each.weight = 1 + static_cast<uint32_t>(random.below(4));
        weights += each.weight;
    }
    Crowd crowd(seed, tenants);
    for (size_t i = 0; i < tenants.size(); ++i) {
        Crowd::Source& source = crowd.add(sizes[random.below(4)], 1 + random.below(3),
                                          i == 0 ? 200 : 1 + random.below(64));
        source.rests = i > 0 && random.below(4) > 0;
    }
    crowd.run();
    const double part = tenants[0].weight / weights * static_cast<double>(crowd.span.count());
    EXPECT_GE(crowd.sources[0]->all(), 0.8 * part) << "of " << tenants.size();
    // The processor is never idle while somebody waits.
    EXPECT_GE(crowd.served(), 0.99 * static_cast<double>(crowd.span.count()));
}
TEST(Shares, NobodyStarvesWhateverTheOthersDo) {
    for (uint64_t seed = 1; seed <= seeds() && !testing::Test::HasFailure(); ++seed) {
        no_starvation(seed);
    }
}

// Two writes may be inside, and the reader's own request follows.
TEST(Shares, AReaderPassesAFloodOfLargeWrites) {
    Crowd crowd(1, {{}, {}});
    crowd.add(4096, 1, 1);
    crowd.add(1 << 20, 4, 64);
    crowd.run();
    const auto large = static_cast<int64_t>(time_of(1 << 20));
    EXPECT_LE(crowd.sources[0]->slowest.count(), 2 * large + static_cast<int64_t>(time_of(4096)));
    // The flood gets all that the reader leaves.
    EXPECT_GE(crowd.served(), 0.99 * 400e6);
}

// ---- rates -------------------------------------------------------------------------------------

double rate(const Crowd::Source& source, Duration span) {
    double sum = 0;
    for (const uint64_t each : source.begun) sum += static_cast<double>(each);
    return sum * 1e9 / static_cast<double>(span.count());
}

TEST(Rates, AreKeptAndLeaveTheRestToOthers) {
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

TEST(Rates, OfNamesAndOfDataAreTwo) {
    const Allowance limited{.requests = 1000, .names = 3000, .burst = 10ms};
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{4096}}) {
        Crowd crowd(1, {limited});
        Crowd::Source& source = crowd.add(bytes, 2, 8);
        crowd.run();
        EXPECT_NEAR(rate(source, crowd.span), bytes == 0 ? 3000 : 1000, 30);
    }
}

TEST(Rates, BelowItNobodyWaits) {
    Crowd crowd(1, {{.requests = 200'000, .bytes = uint64_t{1} << 40}});
    const Crowd::Source& source = crowd.add(4096, 1, 16);
    crowd.run();
    EXPECT_EQ(source.account->metrics.delayed.value(), 0U);
    EXPECT_GE(crowd.served(), 0.99 * 400e6);
}

TEST(Rates, AreKeptOnceOnTheWay) {
    sim::World world(1);
    Accounts accounts(world.core(), allowances_of({{.requests = 1}}));
    const auto account = accounts.open(subject_of(0));
    Admission admission(world.core(), {.keeps_accounts = false}, &accounts);
    Line line(admission, account->number);
    world.run([](Line& its) -> Task<> {
        for (int i = 0; i < 100; ++i) {
            const Place place = co_await its.enter(1, {});
            EXPECT_TRUE(place);
        }
    }(line));
    EXPECT_EQ(account->metrics.requests.value(), 0U) << "counted once on the way, too";
    EXPECT_EQ(account->metrics.bytes.value(), 0U);
}

// Three requests at once. One at a time is inside, and each stays for 15 ms.
Task<> wait_for(sim::World& world, Admission& admission, const Account& account) {
    Line line(admission, account.number);
    Nursery nursery(world.core(), 3);
    for (int i = 0; i < 3; ++i) {
        co_await nursery.spawn([](Line& its, Reactor& core) -> Task<> {
            const Place place = co_await its.enter(1, {}, core.now());
            co_await sleep_for(core, 15ms);
        }(line, world.core()));
    }
    co_await nursery.join();
}
TEST(Rates, WaitingForThemAndForATurnAreCountedApart) {
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
        sim::World world(1);
        Accounts accounts(world.core(), allowances_of({{.requests = each.rate, .burst = 0ms}}));
        const auto account = accounts.open(subject_of(0));
        Limits limits;
        limits.all.requests = 1;
        Admission admission(world.core(), limits, &accounts);
        world.run(wait_for(world, admission, *account));
        EXPECT_EQ(Duration(account->metrics.throttled_ns.value()), each.throttled) << each.rate;
        EXPECT_EQ(Duration(account->metrics.queued_ns.value()), each.queued) << each.rate;
    }
}

// Who gives up has waited, too.
Task<> give_up(sim::World& world, Admission& admission, const Account& account) {
    Line line(admission, account.number);
    Nursery nursery(world.core(), 2);
    StopSource stop;
    EXPECT_TRUE(co_await line.enter(1, {}));
    for (int i = 0; i < 2; ++i) {
        co_await nursery.spawn([](Line& its, StopToken token) -> Task<> {
            EXPECT_FALSE(co_await its.enter(1, token));
        }(line, stop.token()));
    }
    co_await sleep_for(world.core(), 30ms);
    stop.request_stop();
    co_await nursery.join();
}
TEST(Rates, AWaitThatWasCancelledIsCounted) {
    sim::World world(1);
    Accounts accounts(world.core(), allowances_of({{.requests = 1, .burst = 0ms}}));
    const auto account = accounts.open(subject_of(0));
    Admission admission(world.core(), {}, &accounts);
    world.run(give_up(world, admission, *account));
    EXPECT_EQ(Duration(account->metrics.throttled_ns.value()), 60ms);
    EXPECT_EQ(account->metrics.queued_ns.value(), 0U);
}

Task<> end_rates(sim::World& world, Admission& admission, uint64_t tenant) {
    Line line(admission, tenant);
    Nursery nursery(world.core(), 100);
    for (int i = 0; i < 100; ++i) {
        co_await nursery.spawn([](Line& its) -> Task<> {
            const Place place = co_await its.enter(1, {});
            EXPECT_TRUE(place);
        }(line));
    }
    EXPECT_EQ(admission.metrics().waiting.value(), 98U);  // one a second, one of the burst
    const Time begun = world.core().now();
    line.end_rates();
    co_await nursery.join();
    EXPECT_EQ(world.core().now(), begun);
}
TEST(Rates, DoNotDelayTheEndOfALine) {
    sim::World world(1);
    Accounts accounts(world.core(), allowances_of({{.requests = 1, .burst = 1s}}));
    const auto account = accounts.open(subject_of(0));
    Admission admission(world.core(), {}, &accounts);
    world.run(end_rates(world, admission, account->number));
}

// What was reserved for requests that were cancelled is free again.
Task<> cancel_many(sim::World& world, Admission& admission, uint64_t tenant) {
    Line line(admission, tenant), other(admission, tenant);
    {
        const Place first = co_await line.enter(1, {});
    }
    for (int i = 0; i < 1000; ++i) {
        StopSource stop;
        Nursery nursery(world.core(), 1);
        co_await nursery.spawn([](Line& its, StopToken token) -> Task<> {
            EXPECT_FALSE(co_await its.enter(1, token));
        }(line, stop.token()));
        stop.request_stop();
        co_await nursery.join();
    }
    const Time begun = world.core().now();
    EXPECT_TRUE(co_await other.enter(1, {}));
    EXPECT_LE(world.core().now() - begun, 100ms);
}
TEST(Rates, ACancelledRequestUsesNothing) {
    sim::World world(1);
    Accounts accounts(world.core(), allowances_of({{.requests = 10, .burst = 1ms}}));
    const auto account = accounts.open(subject_of(0));
    Admission admission(world.core(), {}, &accounts);
    world.run(cancel_many(world, admission, account->number));
}

// ---- accounts ----------------------------------------------------------------------------------

Task<> use_up(sim::World& world, Accounts& accounts) {
    const uint64_t number = accounts.open("CN=0")->number;
    (void)accounts.open("CN=0")->use(1, world.core().now());
    const auto held = accounts.open("CN=held");
    for (size_t i = 0; i < 3 * Accounts::kept_max; ++i) {
        EXPECT_EQ(accounts.open(fmt::format("CN=passer-by {}", i))->weight(), 3U);
        EXPECT_LE(accounts.all().size(), Accounts::kept_max + 2);
    }
    // It owes something, so it is kept.
    EXPECT_EQ(accounts.open("CN=0")->number, number);
    EXPECT_EQ(accounts.find(held->number), held);
    co_await sleep_for(world.core(), 2s);
    for (size_t i = 0; i < Accounts::kept_max; ++i) (void)accounts.open(fmt::format("CN={}x", i));
    EXPECT_NE(accounts.open("CN=0")->number, number);
    EXPECT_EQ(accounts.find(number), nullptr);
}
TEST(Accounts, AreKeptWhileTheyOweSomethingOrAreUsed) {
    sim::World world(1);
    Allowances allowances = allowances_of({{.requests = 1}});
    allowances.others.weight = 3;
    Accounts accounts(world.core(), allowances);
    world.run(use_up(world, accounts));
}

TEST(Accounts, NewAllowancesApplyAtOnceAndForgetDebts) {
    sim::World world(1);
    Accounts accounts(world.core(), allowances_of({{.bytes = 1, .burst = 1ms}}));
    const auto account = accounts.open(subject_of(0));
    const Time now = world.core().now();
    (void)account->use(1000, now);
    EXPECT_GT(account->use(1, now), now + 900s);
    accounts.set(allowances_of({{.weight = 5, .bytes = 1000, .burst = 1ms}}));
    EXPECT_EQ(account->weight(), 5U);
    EXPECT_EQ(account->use(1, now), now);
    EXPECT_EQ(accounts.open(subject_of(0)), account);
    // A subject that becomes a tenant's has the tenant's account from then on.
    Allowances joined = allowances_of({{.weight = 5}});
    joined.accounts.emplace(subject_of(0), "alice");
    accounts.set(joined);
    EXPECT_EQ(accounts.open(subject_of(0))->name, "alice");
    EXPECT_EQ(accounts.name_for(subject_of(0)), "alice");
}

}  // namespace
}  // namespace ros2s::admission
