// Shares of a server's time, by weight and within rates; on simulated time, from seeds.
// ROS2STORE_TEST_SEEDS: how many of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ros2s/admission/admission.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::admission {
namespace {

using namespace std::chrono_literals;

// ./dev nightly tries 10,000.
uint64_t seeds() {
#ifdef ROS2S_SANITIZED
    constexpr uint64_t usual = 60;
#else
    constexpr uint64_t usual = 200;
#endif
    const char* const text = std::getenv("ROS2STORE_TEST_SEEDS");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : usual;
}

uint64_t time_of(uint64_t bytes) { return Demand(bytes).cost_ns; }

std::string subject_of(size_t tenant) { return fmt::format("CN={}", tenant); }

Allowances allowances_of(const std::vector<Allowance>& tenants) {
    Allowances all;
    for (size_t i = 0; i < tenants.size(); ++i) all.by_account.emplace(subject_of(i), tenants[i]);
    return all;
}

// Tenants in front of one processor, on which a request takes what it costs. Each source has
// requests of one kind.
struct Crowd {
    struct Source {
        std::shared_ptr<Account> account;
        uint64_t bytes = 0;
        size_t depth = 0;              // of each line
        uint64_t more_ns = 0;          // what a request costs more; known at its end
        std::vector<int64_t> times{};  // how long requests took
        bool rests = false;            // now and then
        size_t inside = 0, inside_most = 0;
        std::vector<std::shared_ptr<Line>> lines;
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
    // A tenant. Its lines are of this many sessions.
    Source& add(uint64_t bytes, size_t lines, size_t depth, size_t sessions = 1) {
        const auto account = accounts.open(subject_of(tenants++));
        std::vector<std::shared_ptr<Line>> its_lines;
        for (size_t i = 0; i < lines; ++i) {
            its_lines.push_back(std::make_shared<Line>(admission, account->number, i % sessions));
        }
        return add_on(account, its_lines, bytes, depth);
    }
    // More requests of a tenant, on these lines.
    Source& add_on(const std::shared_ptr<Account>& account,
                   const std::vector<std::shared_ptr<Line>>& lines, uint64_t bytes, size_t depth) {
        sources.push_back(std::make_unique<Source>());
        Source& source = *sources.back();
        source.account = account;
        source.bytes = bytes;
        source.depth = depth;
        source.served.resize(lines.size());
        source.begun.resize(lines.size());
        source.lines = lines;
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
            Permit place = co_await source.lines[line]->enter(source.bytes, self.end.token());
            if (!place) co_return;
            source.inside_most = std::max(source.inside_most, ++source.inside);
            if (self.measured) ++source.begun[line];
            const uint64_t took = time_of(source.bytes) + source.more_ns;
            for (uint64_t left = took; left > 0;) {
                const uint64_t now = std::min(left, self.slice_ns);
                co_await self.processor.acquire();
                const SemaphoreHold hold(self.processor);
                co_await sleep_for(core, Duration(now));
                left -= now;
            }
            place.correct_cost(source.more_ns);
            --source.inside;
            if (!self.measured) continue;
            source.served[line] += took;
            if (!counts) continue;
            source.slowest = std::max(source.slowest, core.now() - asked);
            source.times.push_back((core.now() - asked).count());
        }
    }
    // After that time, while it runs.
    void change(Duration after, Allowances allowances) {
        change_after = after;
        changed = std::move(allowances);
    }
    static Task<> make_change(Crowd& self) {
        co_await sleep_for(self.world.core(), self.change_after);
        self.accounts.set(std::move(*self.changed));
    }
    static Task<> all(Crowd& self) {
        if (self.changed) co_await self.nursery.spawn(make_change(self));
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
    size_t tenants = 0;
    Duration span = 400ms;
    Duration change_after{};
    std::optional<Allowances> changed;
    uint64_t slice_ns = UINT64_MAX;  // the processor's; then it takes the next request in turn
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
    crowd.span = 600ms;
    for (size_t i = 0; i < tenants.size(); ++i) {
        crowd.add(sizes[random.below(4)], 1 + random.below(3), 320 + random.below(64));
    }
    crowd.run();
    for (size_t i = 0; i < tenants.size(); ++i) {
        const Crowd::Source& source = *crowd.sources[i];
        const double entitled = crowd.served() * tenants[i].weight / weights;
        // Requests are whole: five of them may be missing, or too many. One may always be inside,
        // even if it costs more than the tenant's part of what all may have inside. The others then
        // have less.
        const auto one = static_cast<double>(time_of(source.bytes));
        const auto shared = static_cast<double>(Limits().shared.count());
        const bool few_inside = shared * tenants[i].weight / weights < 2 * one;
        const double less = few_inside ? 0.06 : 0.03;
        EXPECT_GE(source.all(), entitled - std::max(less * entitled, 5 * one))
            << source.bytes << " bytes, weight " << tenants[i].weight << " of " << weights;
        EXPECT_LE(source.all(), std::max(entitled, crowd.served() * one / (shared + one)) +
                                    std::max(0.01 * entitled, 5 * one))
            << source.bytes << " bytes, weight " << tenants[i].weight << " of " << weights;
        for (const uint64_t line : source.served) {
            const double part = source.all() / static_cast<double>(source.served.size());
            EXPECT_NEAR(static_cast<double>(line), part, std::max(0.01 * part, 3 * one))
                << source.bytes;
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

// On a busy server the clock of all tenants' turns passes 2^64 within a year. Requests that cost a
// thousand hours bring it there.
Task<> use_up_the_clock(Crowd& crowd) {
    std::vector<uint64_t> costs(15, uint64_t{1} << 52);
    costs.push_back((uint64_t{1} << 52) - 1000);
    costs.push_back(time_of(4096));
    for (const uint64_t cost_ns : costs) {
        Demand demand;
        demand.cost_ns = cost_ns;
        {
            const Permit place = co_await crowd.sources[0]->lines[0]->enter(demand, {});
            EXPECT_TRUE(place);
        }
        co_await sleep_for(crowd.world.core(), 60ms);
    }
}
TEST(Shares, FollowTheWeightsForEver) {
    Crowd crowd(1, {{.weight = 1}, {.weight = 4}});
    crowd.add(4096, 1, 320);
    crowd.add(4096, 1, 320);
    crowd.world.run(use_up_the_clock(crowd));
    crowd.run();
    EXPECT_NEAR(crowd.sources[1]->all() / crowd.served(), 0.8, 0.01);
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

// A list begins as a look at one name. What it found is charged afterwards.
TEST(Shares, CountWhatRequestsTurnedOutToCost) {
    for (const size_t depth : {size_t{1}, size_t{64}}) {
        Crowd crowd(1, {{}, {}});
        crowd.span = 2s;
        crowd.add(0, 1, depth).more_ns = 500'000;
        crowd.add(0, 1, 256);
        crowd.run();
        EXPECT_NEAR(crowd.sources[0]->all() / crowd.served(), 0.5, 0.015) << depth;
    }
}

// ---- small and large requests of one line ------------------------------------------------------

TEST(Sizes, ASmallReadPassesTheStreamOfItsLine) {
    Crowd crowd(1, {{}});
    Crowd::Source& stream = crowd.add(1 << 20, 1, 64);
    Crowd::Source& reader = crowd.add_on(stream.account, stream.lines, 4096, 1);
    crowd.run();
    // Not behind 64 writes, but behind those that were inside.
    const auto large = static_cast<int64_t>(time_of(1 << 20));
    EXPECT_LE(reader.slowest.count(), 5 * large);
    EXPECT_GE(stream.all(), 0.9 * 400e6);
    EXPECT_GE(crowd.served(), 0.99 * 400e6);
}

TEST(Sizes, SmallReadsDoNotStarveTheStreamOfTheirLine) {
    Crowd crowd(1, {{}});
    Crowd::Source& stream = crowd.add(1 << 20, 1, 8);
    Crowd::Source& readers = crowd.add_on(stream.account, stream.lines, 4096, 256);
    crowd.run();
    EXPECT_NEAR(stream.all() / crowd.served(), 0.5, 0.03);
    EXPECT_NEAR(readers.all() / crowd.served(), 0.5, 0.03);
}

// Alone with large requests, a tenant keeps as many inside as it has.
TEST(Sizes, WithoutSmallReadsAStreamHasItsWholeQueueInside) {
    Crowd crowd(1, {{}});
    Crowd::Source& stream = crowd.add(1 << 20, 1, 64);
    crowd.run();
    EXPECT_EQ(crowd.admission.metrics().waited.value(), 0U);
    EXPECT_GE(stream.all(), 0.99 * 400e6);
}

// ---- sessions ----------------------------------------------------------------------------------

// One session has three lines, the other one.
TEST(Sessions, OfATenantHaveEqualSharesHoweverManyLinesTheyHave) {
    Crowd crowd(1, {{}, {}});
    Crowd::Source& many = crowd.add(4096, 3, 64);
    const auto single = std::make_shared<Line>(crowd.admission, many.account->number, 7);
    crowd.add_on(many.account, {single}, 4096, 256);
    crowd.add(4096, 1, 256);
    crowd.run();
    EXPECT_NEAR(crowd.sources[0]->all() / crowd.served(), 0.25, 0.01);
    EXPECT_NEAR(crowd.sources[1]->all() / crowd.served(), 0.25, 0.01);
}

TEST(Sessions, SixteenOfEachOf64TenantsHaveTheirShares) {
    std::vector<Allowance> tenants(64);
    double weights = 0;
    for (size_t i = 0; i < tenants.size(); ++i) {
        tenants[i].weight = 1 + static_cast<uint32_t>(i % 4);
        weights += tenants[i].weight;
    }
    Crowd crowd(1, tenants);
    crowd.span = 4s;
    for (size_t i = 0; i < tenants.size(); ++i) crowd.add(4096, 16, 4, 16);
    crowd.run();
    for (size_t i = 0; i < tenants.size(); ++i) {
        const Crowd::Source& source = *crowd.sources[i];
        const double share = source.all() / crowd.served() * weights / tenants[i].weight;
        EXPECT_NEAR(share, 1, 0.03) << i;
        const auto [least, most] = std::ranges::minmax(source.begun);
        EXPECT_LE(most - least, 2U) << i;
    }
}

// The core works on long requests in slices of 64 KiB (runtime/slices.h). A processor that is the
// reader's alone, at its share of the time, takes twice as long for a request.
TEST(Shares, AReaderBesideAFloodIsHalfAsSlowAgainAsAtItsShareAlone) {
    Crowd crowd(1, {{}, {}});
    crowd.slice_ns = time_of(4096);
    Crowd::Source& reader = crowd.add(4096, 1, 1);
    crowd.add(1 << 20, 1, 256);
    crowd.run();
    const size_t p99 = reader.times.size() * 99 / 100;
    std::ranges::nth_element(reader.times, reader.times.begin() + static_cast<int64_t>(p99));
    EXPECT_LE(reader.times[p99], static_cast<int64_t>(2 * time_of(4096) * 3 / 2));
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

// A batch is admitted as one name, and counts as all of its names.
TEST(Rates, NamesOfABatchCount) {
    sim::World world(1);
    Accounts accounts(world.core(), allowances_of({{.names = 1000, .burst = 10ms}}));
    const auto account = accounts.open(subject_of(0));
    Admission admission(world.core(), {}, &accounts);
    Line line(admission, account->number);
    const Time before = world.core().now();
    world.run([](Line& its) -> Task<> {
        for (int i = 0; i < 11; ++i) {
            const Permit place = co_await its.enter(0, {});
            EXPECT_TRUE(place);
            its.use_names(99);
        }
    }(line));
    EXPECT_EQ(account->metrics.names.value(), 1100U);
    EXPECT_NEAR(static_cast<double>((world.core().now() - before) / 1ms), 990, 10);
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
            const Permit place = co_await its.enter(1, {});
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
            const Permit place = co_await its.enter(1, {}, core.now());
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
            const Permit place = co_await its.enter(1, {});
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
        const Permit first = co_await line.enter(1, {});
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

// Rates of which one was wrong, while requests wait for it.
Task<> correct_rates(sim::World& world, Accounts& accounts, Admission& admission, uint64_t tenant) {
    Line line(admission, tenant), other(admission, tenant);
    const Counter& waiting = admission.metrics().waiting;
    for (const bool to_none : {false, true}) {
        accounts.set(allowances_of({{.bytes = 1, .burst = 0ms}}));
        Nursery nursery(world.core(), 3);
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
        co_await sleep_for(world.core(), 1s);
        EXPECT_EQ(waiting.value(), 2U);
        // The new rate delays the second one, too.
        accounts.set(allowances_of({{.bytes = to_none ? 0U : 4096U, .burst = 0ms}}));
        const Time begun = world.core().now();
        EXPECT_EQ(waiting.value(), to_none ? 0U : 1U);
        co_await nursery.join();
        EXPECT_EQ(world.core().now() - begun, to_none ? 0s : 1s);
    }
}
TEST(Rates, ThatAreRaisedLetWaitingRequestsBegin) {
    sim::World world(1);
    Accounts accounts(world.core());
    const auto account = accounts.open(subject_of(0));
    Admission admission(world.core(), {}, &accounts);
    world.run(correct_rates(world, accounts, admission, account->number));
}

// ---- what is in flight -------------------------------------------------------------------------

// Requests of a tenant, each inside until it is ended. They begin in their order.
struct Flight {
    Task<> ask(Line& line, uint64_t bytes) {
        co_await nursery.spawn([](Flight& self, Line& its, uint64_t size) -> Task<> {
            Permit place = co_await its.enter(size, {});
            EXPECT_TRUE(place) << "requests wait; none is refused";
            self.inside.push_back(std::move(place));
        }(*this, line, bytes));
    }
    Task<> end(size_t count) {
        for (size_t i = 0; i < count; ++i) inside.erase(inside.begin());
        co_await sleep_for(world.core(), 1us);
    }
    void limit(Allowance allowance) { accounts.set(allowances_of({allowance})); }
    sim::World world{1};
    Accounts accounts{world.core()};
    Admission admission{world.core(), {}, &accounts};
    std::shared_ptr<Account> account = accounts.open(subject_of(0));
    Nursery nursery{world.core(), 100};
    std::vector<Permit> inside;
};

Task<> limit_requests(Flight& flight) {
    Line line(flight.admission, flight.account->number);
    Line other(flight.admission, flight.account->number);
    flight.limit({.requests_in_flight = 3});
    for (int i = 0; i < 4; ++i) co_await flight.ask(line, 4096);
    for (int i = 0; i < 2; ++i) co_await flight.ask(other, 0);
    EXPECT_EQ(flight.inside.size(), 3U) << "on all its lines, with those on names";
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 3U);
    // A lower limit ends nothing, and lets nothing in.
    flight.limit({.requests_in_flight = 1});
    co_await flight.end(2);
    EXPECT_EQ(flight.inside.size(), 1U);
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 1U);
    for (int i = 0; i < 4; ++i) co_await flight.ask(line, 4096);
    EXPECT_EQ(flight.inside.size(), 1U);
    // A higher one lets in as many as it allows at once; none lets in all.
    flight.limit({.requests_in_flight = 3});
    co_await flight.end(0);
    EXPECT_EQ(flight.inside.size(), 3U);
    flight.limit({});
    co_await flight.end(0);
    EXPECT_EQ(flight.inside.size(), 6U);
    co_await flight.ask(line, 4096);
    EXPECT_EQ(flight.inside.size(), 7U);
    flight.inside.clear();
    co_await flight.nursery.join();
}
TEST(InFlight, RequestsOverTheLimitWait) {
    Flight flight;
    flight.world.run(limit_requests(flight));
}

Task<> limit_bytes(Flight& flight) {
    Line line(flight.admission, flight.account->number);
    flight.limit({.bytes_in_flight = 8192});
    for (int i = 0; i < 3; ++i) co_await flight.ask(line, 4096);
    EXPECT_EQ(flight.inside.size(), 2U);
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 2U);
    // One that is larger than the limit is alone.
    co_await flight.ask(line, 12'000);
    co_await flight.ask(line, 4096);
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 1U);
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 1U);
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 1U);
    // Without payload nothing is over it.
    flight.limit({.bytes_in_flight = 1});
    co_await flight.ask(line, 0);
    EXPECT_EQ(flight.inside.size(), 2U);
    flight.inside.clear();
    co_await flight.nursery.join();
}
TEST(InFlight, PayloadOverTheLimitWaits) {
    Flight flight;
    flight.world.run(limit_bytes(flight));
}

// A delegated DPU has limited its hosts. What it asks for them is neither limited nor counted.
Task<> limit_elsewhere(Flight& flight) {
    Line of_dpu(flight.admission, flight.account->number, 1, false);
    Line direct(flight.admission, flight.account->number, 2);
    flight.limit({.requests_in_flight = 1});
    for (int i = 0; i < 4; ++i) co_await flight.ask(of_dpu, 4096);
    EXPECT_EQ(flight.inside.size(), 4U);
    for (int i = 0; i < 2; ++i) co_await flight.ask(direct, 4096);
    EXPECT_EQ(flight.inside.size(), 5U);
    co_await flight.end(4);
    EXPECT_EQ(flight.inside.size(), 1U);
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 1U);
    flight.inside.clear();
    Admission behind(flight.world.core(), {.keeps_accounts = false}, &flight.accounts);
    Line onward(behind, flight.account->number);
    for (int i = 0; i < 4; ++i) co_await flight.ask(onward, 4096);
    EXPECT_EQ(flight.inside.size(), 4U);
    flight.inside.clear();
    co_await flight.nursery.join();
}
TEST(InFlight, IsLimitedOnceOnTheWay) {
    Flight flight;
    flight.world.run(limit_elsewhere(flight));
}

// Direct clients that are over the limit, also with a transfer that stalls.
Task<> limit_only_direct(Flight& flight) {
    Line direct(flight.admission, flight.account->number, 1);
    Line of_dpu(flight.admission, flight.account->number, 2, false);
    flight.limit({.requests_in_flight = 1});
    for (int i = 0; i < 2; ++i) co_await flight.ask(direct, 4096);
    EXPECT_EQ(flight.inside.size(), 1U);
    for (int i = 0; i < 3; ++i) co_await flight.ask(of_dpu, 4096);
    EXPECT_EQ(flight.inside.size(), 4U);
    EXPECT_EQ(flight.account->metrics.requests.value(), 4U);
    // What the DPU asked ends, and lets in no direct request.
    while (flight.inside.size() > 1) flight.inside.pop_back();
    co_await sleep_for(flight.world.core(), 1us);
    EXPECT_EQ(flight.inside.size(), 1U);
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 1U) << "the second direct one";
    flight.inside.clear();
    co_await flight.nursery.join();
}
TEST(InFlight, WhoHasNoLimitPassesThoseOverTheirs) {
    Flight flight;
    flight.world.run(limit_only_direct(flight));
}

// While a large request waits, names pass it, but no payload does.
Task<> limit_large(Flight& flight) {
    Line line(flight.admission, flight.account->number);
    Line other(flight.admission, flight.account->number);
    Line large(flight.admission, flight.account->number);  // it had no turn so far
    flight.limit({.bytes_in_flight = 70'000});
    for (int i = 0; i < 2; ++i) co_await flight.ask(line, 4096);
    co_await flight.ask(large, 69'000);
    EXPECT_EQ(flight.inside.size(), 2U);
    co_await flight.ask(other, 0);
    EXPECT_EQ(flight.inside.size(), 3U);
    co_await flight.ask(other, 4096);
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 2U) << "or small ones would keep out the large one for ever";
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 2U) << "a name and the large one";
    EXPECT_EQ(flight.admission.inside().bytes, 69'000U);
    co_await flight.end(2);
    EXPECT_EQ(flight.admission.inside().bytes, 4096U);
    flight.inside.clear();
    co_await flight.nursery.join();
}
TEST(InFlight, NamesPassALargeRequestThatWaitsAndPayloadDoesNot) {
    Flight flight;
    flight.world.run(limit_large(flight));
}

// Who waited behind a request that was cancelled does not wait for another one to end.
Task<> limit_cancelled(Flight& flight) {
    Line line(flight.admission, flight.account->number);
    Line other(flight.admission, flight.account->number);
    flight.limit({.bytes_in_flight = 70'000});
    co_await flight.ask(line, 4096);
    StopSource stop;
    co_await flight.nursery.spawn([](Line& its, StopToken token) -> Task<> {
        EXPECT_FALSE(co_await its.enter(69'000, token));
    }(line, stop.token()));
    co_await flight.ask(other, 4096);
    EXPECT_EQ(flight.inside.size(), 1U);
    stop.request_stop();
    co_await sleep_for(flight.world.core(), 1us);
    EXPECT_EQ(flight.inside.size(), 2U);
    flight.inside.clear();
    co_await flight.nursery.join();
}
TEST(InFlight, ACancelledRequestHoldsUpNobody) {
    Flight flight;
    flight.world.run(limit_cancelled(flight));
}

// A tenant with direct clients that have a full queue each, of any size, and a DPU that asks
// without a limit. Both go on, whichever came first.
void limits_hold_up_nobody(uint64_t seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    Allowance few{.requests_in_flight = 1 + static_cast<uint32_t>(random.below(3)),
                  .bytes_in_flight = random.below(2) * 70'000};
    Crowd crowd(seed, {few});
    const bool dpu_first = random.one_in(2);
    const auto account = crowd.accounts.open(subject_of(0));
    const auto lines = [&](uint64_t session, bool keeps_rates) {
        return std::vector{
            std::make_shared<Line>(crowd.admission, account->number, session, keeps_rates)};
    };
    const auto of_dpu = lines(1, false);
    if (dpu_first) crowd.add_on(account, of_dpu, 4096, 1);
    for (uint64_t session = 2; session < 5; ++session) {
        crowd.add_on(account, lines(session, true), sizes[random.below(4)], 8);
    }
    if (!dpu_first) crowd.add_on(account, of_dpu, 4096, 1);
    crowd.run();
    size_t inside = 0;
    for (const auto& source : crowd.sources) {
        EXPECT_GT(source->all(), 0) << source->bytes << " bytes";
        if (source->depth == 1) {
            // It never waits for its turn behind those that wait for the limit.
            EXPECT_GE(source->begun[0], 100U);
        } else {
            inside = std::max(inside, source->inside_most);
        }
    }
    EXPECT_LE(inside, few.requests_in_flight);
}
TEST(InFlight, LimitsHoldUpNobodyElse) {
    for (uint64_t seed = 1; seed <= seeds() && !testing::Test::HasFailure(); ++seed) {
        limits_hold_up_nobody(seed);
    }
}

// The first has a full queue and no limit. The others have limits, which change meanwhile.
void limits_hold(uint64_t seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const auto draw = [&random](Allowance& each) {
        each.requests_in_flight = static_cast<uint32_t>(random.below(8));
        each.bytes_in_flight = random.below(3) * (uint64_t{1} << (12 + random.below(9)));
    };
    std::vector<Allowance> tenants(2 + random.below(5));
    double weights = 0;
    for (size_t i = 0; i < tenants.size(); ++i) {
        tenants[i].weight = 1 + static_cast<uint32_t>(random.below(4));
        weights += tenants[i].weight;
        if (i > 0) draw(tenants[i]);
    }
    Crowd crowd(seed, tenants);
    for (size_t i = 0; i < tenants.size(); ++i) {
        Crowd::Source& source = crowd.add(sizes[random.below(4)], 1 + random.below(3),
                                          i == 0 ? 200 : 1 + random.below(64));
        source.rests = i > 0 && random.one_in(2);
    }
    std::vector<Allowance> later = tenants;
    for (size_t i = 1; i < later.size(); ++i) draw(later[i]);
    crowd.change(300ms, allowances_of(later));
    crowd.run();
    EXPECT_GE(crowd.served(), 0.99 * static_cast<double>(crowd.span.count()));
    const double part = tenants[0].weight / weights * static_cast<double>(crowd.span.count());
    EXPECT_GE(crowd.sources[0]->all(), 0.8 * part) << "of " << tenants.size();
    for (size_t i = 1; i < tenants.size(); ++i) {
        const Crowd::Source& source = *crowd.sources[i];
        EXPECT_GT(source.all(), 0) << "tenant " << i << " starves";
        const auto most = [&](auto Allowance::* limit) {
            const uint64_t one = tenants[i].*limit, other = later[i].*limit;
            return one == 0 || other == 0 ? UINT64_MAX : std::max(one, other);
        };
        EXPECT_LE(source.inside_most, most(&Allowance::requests_in_flight)) << "tenant " << i;
        if (source.inside_most > 1) {
            EXPECT_LE(source.inside_most * source.bytes, most(&Allowance::bytes_in_flight))
                << "tenant " << i;
        }
    }
}
TEST(InFlight, LimitsHoldAndNobodyStarves) {
    for (uint64_t seed = 1; seed <= seeds() && !testing::Test::HasFailure(); ++seed) {
        limits_hold(seed);
    }
}

// One tenant with a queue on each of many lines, and limits that change. The first line, a DPU's,
// keeps none. After each step nothing waits for which there is room, and the step has cost no more
// than what it let in.
struct Throng {
    static constexpr size_t lines_count = 64;
    static constexpr uint64_t enough = uint64_t{1} << 40;
    struct Request {
        size_t line = 0;
        uint64_t bytes = 0;
        StopSource stop{};
        Permit place{};
        [[nodiscard]] size_t queue() const {
            return 2 * line + static_cast<size_t>(bytes > small_bytes_max);
        }
    };
    explicit Throng(uint64_t seed) : world(seed), random(seed) {}
    Task<> ask() {
        auto& request = *requests.emplace_back(std::make_unique<Request>());
        request.line = random.below(lines_count);
        request.bytes = sizes[random.below(4)];
        co_await nursery.spawn([](Line& line, Request& its) -> Task<> {
            its.place = co_await line.enter(its.bytes, its.stop.token());
        }(*lines[request.line], request));
    }
    // Ends one that is inside, or cancels one that waits.
    void leave(bool is_inside) {
        const size_t first = random.below(requests.size());
        for (size_t i = 0; i < requests.size(); ++i) {
            const auto each =
                requests.begin() + static_cast<std::ptrdiff_t>((first + i) % requests.size());
            if (static_cast<bool>((*each)->place) != is_inside) continue;
            if (is_inside) {
                (*each)->place.release();
            } else {
                (*each)->stop.request_stop();
            }
            left.push_back(std::move(*each));
            requests.erase(each);
            return;
        }
    }
    void draw_limits() {
        limits.requests_in_flight = static_cast<uint32_t>(random.below(8));
        limits.bytes_in_flight = random.below(4) * 700'000;
        accounts.set(allowances_of({limits}));
    }
    [[nodiscard]] size_t count_inside() const {
        return static_cast<size_t>(std::ranges::count_if(
            requests, [](const auto& each) { return static_cast<bool>(each->place); }));
    }
    static uint64_t limit(uint64_t most) { return most > 0 ? most : UINT64_MAX; }
    void check() {
        uint64_t inside = 0, bytes = 0, with_payload = 0;
        for (const auto& each : requests) {
            if (!each->place || each->line == 0) continue;
            ++inside;
            bytes += each->bytes;
            with_payload += each->bytes > 0;
        }
        // A lower limit ends nothing.
        if (inside > std::exchange(inside_before, inside)) {
            EXPECT_LE(inside, limit(limits.requests_in_flight));
        }
        // One that is larger than the limit is inside alone.
        if (bytes > std::exchange(bytes_before, bytes) && with_payload > 1) {
            EXPECT_LE(bytes, limit(limits.bytes_in_flight));
        }
        const bool has_room = inside < limit(limits.requests_in_flight);
        std::array<bool, 2 * lines_count> has_first{};
        bool one_does_not_fit = false, payload_waits = false;
        for (const auto& each : requests) {
            if (each->place || std::exchange(has_first[each->queue()], true)) continue;
            EXPECT_NE(each->line, 0U) << "it has no limit";
            EXPECT_FALSE(has_room && each->bytes == 0) << "a name waits";
            payload_waits |= each->bytes > 0;
            one_does_not_fit |= bytes > 0 && bytes + each->bytes > limit(limits.bytes_in_flight);
        }
        // The first by turn decides. Here it is not known which one that is.
        EXPECT_TRUE(!has_room || !payload_waits || one_does_not_fit) << "payload waits";
    }
    static Task<> run(Throng& self) {
        for (size_t i = 0; i < lines_count; ++i) {
            self.lines.push_back(
                std::make_unique<Line>(self.admission, self.account->number, i % 4, i > 0));
        }
        self.draw_limits();
        for (size_t i = 0; i < 2 * lines_count; ++i) co_await self.ask();
        const Counter& moved = self.admission.metrics().moved;
        for (int step = 0; step < 200 && !testing::Test::HasFailure(); ++step) {
            const uint64_t before = moved.value();
            const size_t inside = self.count_inside();
            const uint64_t what = self.random.below(20);
            size_t ended = 0;
            if (what < 8) {
                co_await self.ask();
            } else if (what < 14) {
                self.leave(true);
                ended = inside - self.count_inside();
            } else if (what < 19) {
                self.leave(false);
            } else {
                self.draw_limits();
            }
            co_await sleep_for(self.world.core(), 1us);
            self.left.clear();
            const size_t admitted = self.count_inside() + ended - inside;
            EXPECT_LE(moved.value() - before, 2 + admitted) << "step " << step << ": " << what;
            self.check();
        }
        self.accounts.set({});
        co_await self.nursery.join();
        EXPECT_EQ(self.count_inside(), self.requests.size()) << "no limit, and nothing waits";
        self.requests.clear();
        self.lines.clear();
    }
    sim::World world;
    Random random;
    Accounts accounts{world.core()};
    Admission admission{world.core(),
                        {.all = {.requests = 10'000, .bytes = enough},
                         .one = {.requests = 10'000, .bytes = enough},
                         .large = 1h,
                         .line_bytes = enough},
                        &accounts};
    std::shared_ptr<Account> account = accounts.open(subject_of(0));
    Nursery nursery{world.core(), 10'000};
    Allowance limits;
    uint64_t inside_before = 0, bytes_before = 0;  // with limits
    std::vector<std::unique_ptr<Line>> lines;
    std::vector<std::unique_ptr<Request>> requests, left;
};
TEST(InFlight, WhatEndsCostsTheSameHoweverManyWait) {
    for (uint64_t seed = 1; seed <= seeds() && !testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE(fmt::format("seed {}", seed));
        Throng throng(seed);
        throng.world.run(Throng::run(throng));
    }
}

TEST(InFlight, SessionsOverALimitHaveEqualShares) {
    Crowd crowd(1, {{.requests_in_flight = 2}});
    const auto account = crowd.accounts.open(subject_of(0));
    const auto lines = [&](uint64_t session, size_t count) {
        std::vector<std::shared_ptr<Line>> made;
        for (size_t i = 0; i < count; ++i) {
            made.push_back(std::make_shared<Line>(crowd.admission, account->number, session));
        }
        return made;
    };
    const Crowd::Source& one = crowd.add_on(account, lines(1, 1), 4096, 8);
    const Crowd::Source& many = crowd.add_on(account, lines(2, 16), 65536, 4);
    crowd.run();
    EXPECT_NEAR(one.all(), crowd.served() / 2, 0.05 * crowd.served());
    for (const uint64_t line : many.served) {
        EXPECT_NEAR(static_cast<double>(line), many.all() / 16, 0.1 * many.all() / 16);
    }
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
    joined.accounts[subject_of(0)].emplace("pool", "alice");
    accounts.set(joined);
    EXPECT_EQ(accounts.open(subject_of(0), "pool")->name, "alice");
    EXPECT_EQ(accounts.name_for(subject_of(0), "pool"), "alice");
}

TEST(Accounts, ASubjectHasOneInEachPoolWhereItHasATenant) {
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
