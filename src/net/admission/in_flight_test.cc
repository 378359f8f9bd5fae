// Limits of what a tenant has in flight; on simulated time, from seeds.
#include "test_support/crowd.h"

#include <array>
#include "ros2s/runtime/sim/co_test.h"

namespace ros2s::admission {
namespace {

// Requests of a tenant. Each is in flight until the test ends it. They begin in order.
struct Flight : OneTenant {
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
    Nursery nursery{world.core(), 100};
    std::vector<Permit> inside;
};

CO_TEST(InFlightLimits, RequestsOverTheLimitWait, Flight, flight) {
    Line line(flight.admission, flight.account->number);
    Line other(flight.admission, flight.account->number);
    flight.limit({.requests_in_flight = 3});
    for (int i = 0; i < 4; ++i) co_await flight.ask(line, 4096);
    for (int i = 0; i < 2; ++i) co_await flight.ask(other, 0);
    EXPECT_EQ(flight.inside.size(), 3U) << "on all its lines, with those on names";
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 3U);
    // A lower limit ends no request, and admits none.
    flight.limit({.requests_in_flight = 1});
    co_await flight.end(2);
    EXPECT_EQ(flight.inside.size(), 1U);
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 1U);
    for (int i = 0; i < 4; ++i) co_await flight.ask(line, 4096);
    EXPECT_EQ(flight.inside.size(), 1U);
    // A higher limit admits as many as it allows at once; no limit admits all.
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

CO_TEST(InFlightLimits, PayloadOverTheLimitWaits, Flight, flight) {
    Line line(flight.admission, flight.account->number);
    flight.limit({.bytes_in_flight = 8192});
    for (int i = 0; i < 3; ++i) co_await flight.ask(line, 4096);
    EXPECT_EQ(flight.inside.size(), 2U);
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 2U);
    // A request that is larger than the limit runs alone.
    co_await flight.ask(line, 12'000);
    co_await flight.ask(line, 4096);
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 1U);
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 1U);
    co_await flight.end(1);
    EXPECT_EQ(flight.inside.size(), 1U);
    // Without payload no request is over the limit.
    flight.limit({.bytes_in_flight = 1});
    co_await flight.ask(line, 0);
    EXPECT_EQ(flight.inside.size(), 2U);
    flight.inside.clear();
    co_await flight.nursery.join();
}

CO_TEST(InFlightLimits, LimitAppliesOnceOnThePath, Flight, flight) {
    flight.limit({.requests_in_flight = 1});
    Admission behind(flight.world.core(), {.keeps_accounts = false}, &flight.accounts);
    Line onward(behind, flight.account->number);
    for (int i = 0; i < 4; ++i) co_await flight.ask(onward, 4096);
    EXPECT_EQ(flight.inside.size(), 4U);
    flight.inside.clear();
    co_await flight.nursery.join();
}

// While a large request waits, names pass it, but no payload does.
CO_TEST(InFlightLimits, NameRequestPassesWaitingLargeRequest, Flight, flight) {
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

// A request behind a cancelled one does not wait for another one to end.
CO_TEST(InFlightLimits, CancelledRequestDelaysNobody, Flight, flight) {
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

// A tenant with full queues of its clients and its DPUs, of any size, and a tenant without a limit.
// Both make progress, whichever came first.
void limits_hold_up_nobody(uint64_t seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    Allowance few{.requests_in_flight = 1 + static_cast<uint32_t>(random.below(3)),
                  .bytes_in_flight = random.below(2) * 70'000};
    Crowd crowd(seed, {few, {}});
    const bool other_first = random.one_in(2);
    const auto account = crowd.accounts.open(subject_of(0));
    const auto other = crowd.accounts.open(subject_of(1));
    const std::vector others_line{std::make_shared<Line>(crowd.admission, other->number)};
    if (other_first) crowd.add_on(other, others_line, 4096, 1);
    for (uint64_t session = 1; session < 4; ++session) {
        const std::vector line{std::make_shared<Line>(crowd.admission, account->number, session)};
        crowd.add_on(account, line, sizes[random.below(4)], 8);
    }
    if (!other_first) crowd.add_on(other, others_line, 4096, 1);
    crowd.run();
    size_t inside = 0;
    for (const auto& source : crowd.sources) {
        EXPECT_GT(source->all(), 0) << source->bytes << " bytes";
        if (source->depth == 1) {
            // It never waits behind those that wait for the limit.
            EXPECT_GE(source->begun[0], 100U);
        } else {
            inside = std::max(inside, source->inside_most);
        }
    }
    EXPECT_LE(inside, few.requests_in_flight);
}
TEST(InFlightLimits, LimitsDelayNobodyElse) {
    for (uint64_t seed = 1; seed <= seeds() && !testing::Test::HasFailure(); ++seed) {
        limits_hold_up_nobody(seed);
    }
}

// The first tenant has a full queue and no limit. The limits of the others change during the test.
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
TEST(InFlightLimits, LimitsHoldWithoutStarvation) {
    for (uint64_t seed = 1; seed <= seeds() && !testing::Test::HasFailure(); ++seed) {
        limits_hold(seed);
    }
}

// One tenant with a queue on each of many lines, and changing limits. After each step no request
// waits that could run, and the cost of the step is proportional to the admitted requests.
struct Throng : OneTenant {
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
    explicit Throng(uint64_t seed)
        : OneTenant({},
                    {.all = {.requests = 10'000, .bytes = enough},
                     .one = {.requests = 10'000, .bytes = enough},
                     .large = 1h,
                     .line_bytes = enough},
                    seed),
          random(seed) {}
    Task<> ask() {
        auto& request = *requests.emplace_back(std::make_unique<Request>());
        request.line = random.below(lines_count);
        request.bytes = sizes[random.below(4)];
        co_await nursery.spawn([](Line& line, Request& its) -> Task<> {
            its.place = co_await line.enter(its.bytes, its.stop.token());
        }(*lines[request.line], request));
    }
    // Ends a request in flight, or cancels a waiting one.
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
            if (!each->place) continue;
            ++inside;
            bytes += each->bytes;
            with_payload += each->bytes > 0;
        }
        // A lower limit ends no request.
        if (inside > std::exchange(inside_before, inside)) {
            EXPECT_LE(inside, limit(limits.requests_in_flight));
        }
        // A request that is larger than the limit runs alone.
        if (bytes > std::exchange(bytes_before, bytes) && with_payload > 1) {
            EXPECT_LE(bytes, limit(limits.bytes_in_flight));
        }
        const bool has_room = inside < limit(limits.requests_in_flight);
        std::array<bool, 2 * lines_count> has_first{};
        bool one_does_not_fit = false, payload_waits = false;
        for (const auto& each : requests) {
            if (each->place || std::exchange(has_first[each->queue()], true)) continue;
            EXPECT_FALSE(has_room && each->bytes == 0) << "a name waits";
            payload_waits |= each->bytes > 0;
            one_does_not_fit |= bytes > 0 && bytes + each->bytes > limit(limits.bytes_in_flight);
        }
        // The request whose turn it is decides. The model does not know which one that is.
        EXPECT_TRUE(!has_room || !payload_waits || one_does_not_fit) << "payload waits";
    }
    static Task<> run(Throng& self) {
        for (size_t i = 0; i < lines_count; ++i) {
            self.lines.push_back(
                std::make_unique<Line>(self.admission, self.account->number, i % 4));
        }
        self.draw_limits();
        for (size_t i = 0; i < 2 * lines_count; ++i) co_await self.ask();
        co_await sleep_for(self.world.core(), 1us);
        self.check();
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
    Random random;
    Nursery nursery{world.core(), 10'000};
    Allowance limits;
    uint64_t inside_before = 0, bytes_before = 0;
    std::vector<std::unique_ptr<Line>> lines;
    std::vector<std::unique_ptr<Request>> requests, left;
};
TEST(InFlightLimits, EndCostIsIndependentOfWaitingLines) {
    for (uint64_t seed = 1; seed <= seeds() && !testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE(fmt::format("seed {}", seed));
        Throng throng(seed);
        throng.world.run(Throng::run(throng));
    }
}

TEST(InFlightLimits, SessionsOverLimitHaveEqualShares) {
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

}  // namespace
}  // namespace ros2s::admission
