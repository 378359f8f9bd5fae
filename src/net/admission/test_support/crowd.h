// Crowd: tenants in front of one processor, on simulated time. For the tests of shares, rates and
// limits. ROS2STORE_TEST_SEEDS: how many seeds they try.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ros2s/admission/admission.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::admission {

using namespace std::chrono_literals;

// ./dev nightly tries 10,000.
inline uint64_t seeds() {
#ifdef ROS2S_SANITIZED
    constexpr uint64_t usual = 60;
#else
    constexpr uint64_t usual = 200;
#endif
    const char* const text = std::getenv("ROS2STORE_TEST_SEEDS");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : usual;
}

inline uint64_t time_of(uint64_t bytes) { return Demand(bytes).cost_ns; }

inline std::string subject_of(size_t tenant) { return fmt::format("CN={}", tenant); }

inline Allowances allowances_of(const std::vector<Allowance>& tenants) {
    Allowances all;
    for (size_t i = 0; i < tenants.size(); ++i) all.by_account.emplace(subject_of(i), tenants[i]);
    return all;
}

// One tenant and its admission.
struct OneTenant {
    explicit OneTenant(const Allowance& allowance = {}, const Limits& limits = {},
                       uint64_t seed = 1)
        : world(seed),
          accounts(world.core(), allowances_of({allowance})),
          admission(world.core(), limits, &accounts) {}
    sim::World world;
    Accounts accounts;
    Admission admission;
    std::shared_ptr<Account> account = accounts.open(subject_of(0));
};

// Tenants in front of one processor. A request takes its cost in time. Each source has requests of
// one kind.
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
    // Adds a tenant whose lines belong to this many sessions.
    Source& add(uint64_t bytes, size_t lines, size_t depth, size_t sessions = 1) {
        const auto account = accounts.open(subject_of(tenants++));
        std::vector<std::shared_ptr<Line>> its_lines;
        for (size_t i = 0; i < lines; ++i) {
            its_lines.push_back(std::make_shared<Line>(admission, account->number, i % sessions));
        }
        return add_on(account, its_lines, bytes, depth);
    }
    // Adds requests of a tenant on these lines.
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

inline constexpr uint64_t sizes[] = {0, 4096, 65536, 1 << 20};

}  // namespace ros2s::admission
