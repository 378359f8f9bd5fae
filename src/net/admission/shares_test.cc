// Shares of a server's time by weight; on simulated time, from seeds.
#include "test_support/crowd.h"

namespace ros2s::admission {
namespace {

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
        // The tolerance is five whole requests. One request may always run, even if it costs more
        // than the tenant's share of the capacity. The others then get less.
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
TEST(AdmissionShares, EqualWeightsGiveEqualShares) {
    for (uint64_t seed = 1; seed <= seeds() && !testing::Test::HasFailure(); ++seed) {
        shares_by_weight(seed, 1);
    }
}
TEST(AdmissionShares, SharesFollowWeights) {
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
TEST(AdmissionShares, SharesFollowWeightsAfterLongTime) {
    Crowd crowd(1, {{.weight = 1}, {.weight = 4}});
    crowd.add(4096, 1, 320);
    crowd.add(4096, 1, 320);
    crowd.world.run(use_up_the_clock(crowd));
    crowd.run();
    EXPECT_NEAR(crowd.sources[1]->all() / crowd.served(), 0.8, 0.01);
}

// The first tenant has a full queue. Whatever the others do, it gets nearly its share. The capacity
// is a whole number of requests, so a tenant with large ones gets a little less.
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
TEST(AdmissionShares, NobodyStarves) {
    for (uint64_t seed = 1; seed <= seeds() && !testing::Test::HasFailure(); ++seed) {
        no_starvation(seed);
    }
}

// Two writes may be inside, and the reader's own request follows.
TEST(AdmissionShares, ReaderPassesFloodOfLargeWrites) {
    Crowd crowd(1, {{}, {}});
    crowd.add(4096, 1, 1);
    crowd.add(1 << 20, 4, 64);
    crowd.run();
    const auto large = static_cast<int64_t>(time_of(1 << 20));
    EXPECT_LE(crowd.sources[0]->slowest.count(), 2 * large + static_cast<int64_t>(time_of(4096)));
    // The flood gets all the time that the reader leaves.
    EXPECT_GE(crowd.served(), 0.99 * 400e6);
}

// A list is admitted with the cost of one name. The names that it finds are charged afterwards.
TEST(AdmissionShares, SharesCountActualCost) {
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

TEST(RequestSizes, SmallReadPassesStreamOfItsLine) {
    Crowd crowd(1, {{}});
    Crowd::Source& stream = crowd.add(1 << 20, 1, 64);
    Crowd::Source& reader = crowd.add_on(stream.account, stream.lines, 4096, 1);
    crowd.run();
    // It waits for the admitted writes, not for all 64.
    const auto large = static_cast<int64_t>(time_of(1 << 20));
    EXPECT_LE(reader.slowest.count(), 5 * large);
    EXPECT_GE(stream.all(), 0.9 * 400e6);
    EXPECT_GE(crowd.served(), 0.99 * 400e6);
}

TEST(RequestSizes, SmallReadsDoNotStarveTheStream) {
    Crowd crowd(1, {{}});
    Crowd::Source& stream = crowd.add(1 << 20, 1, 8);
    Crowd::Source& readers = crowd.add_on(stream.account, stream.lines, 4096, 256);
    crowd.run();
    EXPECT_NEAR(stream.all() / crowd.served(), 0.5, 0.03);
    EXPECT_NEAR(readers.all() / crowd.served(), 0.5, 0.03);
}

// A tenant that is alone with large requests can have all of them in flight.
TEST(RequestSizes, StreamAloneIsAdmittedCompletely) {
    Crowd crowd(1, {{}});
    Crowd::Source& stream = crowd.add(1 << 20, 1, 64);
    crowd.run();
    EXPECT_EQ(crowd.admission.metrics().waited.value(), 0U);
    EXPECT_GE(stream.all(), 0.99 * 400e6);
}

// ---- sessions ----------------------------------------------------------------------------------

// One session has three lines, the other one.
TEST(SessionShares, SharesDoNotDependOnNumberOfLines) {
    Crowd crowd(1, {{}, {}});
    Crowd::Source& many = crowd.add(4096, 3, 64);
    const auto single = std::make_shared<Line>(crowd.admission, many.account->number, 7);
    crowd.add_on(many.account, {single}, 4096, 256);
    crowd.add(4096, 1, 256);
    crowd.run();
    EXPECT_NEAR(crowd.sources[0]->all() / crowd.served(), 0.25, 0.01);
    EXPECT_NEAR(crowd.sources[1]->all() / crowd.served(), 0.25, 0.01);
}

TEST(SessionShares, ManySessionsOfManyTenantsHaveTheirShares) {
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
TEST(AdmissionShares, ReaderKeepsLatencyDuringFlood) {
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

}  // namespace
}  // namespace ros2s::admission
