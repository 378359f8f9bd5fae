// Generated policies and requests, which decide() and the reference must decide alike. The
// seed is printed; ROS2STORE_RIGHTS_SEED repeats it. Planted mistakes are found.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "ros2s/base/random.h"
#include "test_support/model.h"

namespace ros2s::rights::test {
namespace {

using namespace std::chrono_literals;

constexpr size_t models = 20'000;
constexpr size_t requests_of_model = 8;

class Generator {
  public:
    explicit Generator(uint64_t seed) : random_(seed) {}

    Model model() {
        Model model{.is_engine = random_.one_in(2)};
        for (uint64_t i = random_.below(6); i > 0; --i) add_settings(model);
        // A subject has one tenant in a pool.
        for (const char* const pool : {"p", "q"}) {
            const uint64_t first = random_.below(3);
            for (uint64_t i = random_.below(4); i > 0; --i) add_tenant(model, pool, first + i - 1);
            if (!model.is_engine && random_.one_in(2)) {
                model.valid_for[pool] = static_cast<int64_t>(random_.below(3)) * 500ms;
            }
        }
        if (random_.one_in(2)) model.delegates = {"CN=0"};
        for (auto& [pool, tenants] : model.tenants) {
            for (auto& [name, tenant] : tenants) add_capabilities(model, pool, tenant);
        }
        return model;
    }

    Request request(const Model& model) {
        constexpr Wanted wanted[] = {Wanted::see_pool, Wanted::see,    Wanted::read,
                                     Wanted::write,    Wanted::create, Wanted::destroy};
        Request request{
            .subject = subject(),
            .what = wanted[random_.below(std::size(wanted))],
            .pool = pool(),
            .label = label(),
            .owner = owner(),
            .later = static_cast<int64_t>(random_.below(4)) * 500ms + Duration(random_.below(2))};
        const bool mounts = request.what == Wanted::read || request.what == Wanted::write;
        if (!model.is_engine && mounts) request.owner.clear();  // a mount does not know it
        const bool by_subject = !model.is_engine || model.capabilities.empty();
        if (by_subject || random_.one_in(2)) return request;
        auto shown = model.capabilities.begin();
        std::advance(shown, random_.below(model.capabilities.size()));
        request.capability = shown->first;
        request.pool = shown->first.substr(0, 1);  // chains are verified for one pool
        if (request.what == Wanted::see_pool) request.what = Wanted::see;
        return request;
    }

  private:
    template <size_t count>
    std::string one_of(const char* const (&texts)[count]) {
        return texts[random_.below(count)];
    }
    std::string pool() { return one_of({"p", "p", "p", "q", "q", "r"}); }
    std::string label() { return one_of({"a", "ab", "a-1", "b"}); }
    std::string subject() { return fmt::format("CN={}", random_.below(4)); }
    std::string owner() { return one_of({"", "t0", "t1", "t2", "t2#3", "CN=0", "CN=3"}); }
    std::string pattern() { return one_of({"a", "ab", "b", "a*", "ab*", "a-*", "*", "*"}); }

    // "a*, b/x"
    std::string containers(Right right, const std::string& pool) {
        std::string list;
        for (uint64_t i = random_.below(3) + 1; i > 0; --i) {
            std::string each = pattern();
            const bool may_have_path = right == Right::read || right == Right::write;
            if (may_have_path && !each.ends_with('*') && random_.one_in(2)) {
                each += "/" + one_of({"x", "y/z", "x/y"});
            }
            list += (list.empty() ? "" : ", ") + (pool.empty() ? "" : pool + "/") + each;
        }
        return list;
    }

    void add_settings(Model& model) {
        auto& given = model.access[subject()];
        for (const Right right : {Right::read, Right::write, Right::create, Right::destroy}) {
            if (random_.one_in(3)) continue;
            given[std::string(to_string(right))] = containers(right, pool());
        }
    }

    void add_tenant(Model& model, const std::string& pool, uint64_t number) {
        config::Entries settings{{"subjects", fmt::format("CN={}", number)}};
        if (random_.one_in(2)) settings["subjects"] += fmt::format("; CN={}", number + 6);
        for (const Right right : {Right::read, Right::write, Right::create, Right::destroy}) {
            if (random_.one_in(3)) continue;
            settings[std::string(to_string(right))] = containers(right, "");
        }
        if (random_.one_in(3)) settings["until"] = "2027-01-15T08:00:01Z";
        tenancy::Tenant& tenant =
            model.add_tenant(pool, fmt::format("t{}", number), std::move(settings));
        tenant.revoked = random_.one_in(6);
        tenant.generation = 1 + random_.below(3);
        if (tenant.generation == 3) tenant.first_generation = 3;
    }

    // What an engine issues: the part of a request that the tenant has, or of what it owns.
    void add_capabilities(Model& model, const std::string& pool, tenancy::Tenant& tenant) {
        for (uint64_t i = random_.below(3); i > 0; --i) {
            capability::Use use{.container = {pattern()}};
            const std::string& container = use.container.text;
            for (const Right right : all_rights) {
                const bool has = give(tenant.grants, "", use_of(right, container));
                const bool owns =
                    right != Right::create && !use.container.is_prefix() && random_.one_in(3);
                if ((has || owns) && !random_.one_in(4)) use.rights.add(right);
            }
            const bool parts = random_.one_in(4);
            if (parts) {
                for (const Right right : {Right::read, Right::write}) {
                    if (give(tenant.grants, "", use_of(right, container, true)))
                        use.rights.add(right);
                }
            }
            use.directories = parts;
            model.handed_over[{pool, tenant.name}].push_back(use);
            const std::string name = fmt::format("{}{}", pool, model.capabilities.size());
            model.add_capability(name, tenant, std::move(use),
                                 static_cast<uint8_t>(1 + random_.below(2)));
            const VerifiedCapability& shown = model.capabilities[name];
            if (random_.one_in(8)) ++tenant.generation;
            if (random_.one_in(8)) tenant.revoked_capabilities[shown.first.id] = {};
            if (random_.one_in(8)) tenant.revoked_capabilities[shown.last.id] = {};
            if (random_.one_in(8)) {
                tenant.revoked_capabilities[numbered(250)].program = shown.first.holder;
            }
        }
    }

    Random random_;
};

std::string text_of(const Outcome& outcome) {
    std::string text = outcome.allowed ? "yes" : "no";
    if (outcome.read_only) text += ", read only";
    for (const access::Subtree& each : outcome.subtrees) {
        text += fmt::format(", {} ({})", each.path, each.writable ? "write" : "read");
    }
    return text;
}

std::string text_of(const Model& model) {
    std::string text = model.is_engine ? "an engine:" : "a DPU:";
    for (const auto& [subject, given] : model.access) {
        for (const auto& [right, list] : given)
            text += fmt::format("\n  {} {} {}", subject, right, list);
    }
    for (const auto& [pool, tenants] : model.tenants) {
        for (const auto& [name, tenant] : tenants) {
            text += fmt::format("\n  {}/{} generation {}{}:", pool, name, tenant.generation,
                                tenant.revoked ? ", revoked" : "");
            for (const auto& [key, value] : tenant.settings)
                text += fmt::format(" {}: {};", key, value);
        }
    }
    for (const auto& [pool, valid] : model.valid_for) {
        text += fmt::format("\n  {} valid for {} ms", pool, valid / 1ms);
    }
    for (const auto& [name, shown] : model.capabilities) {
        text += fmt::format("\n  capability {} of {}: {}, {} links, generation {}", name,
                            shown.last.tenant, shown.last.use.text(), shown.last.depth,
                            shown.last.generation);
    }
    return text;
}

struct Tally {
    size_t requests = 0, allowed = 0;
};
// The first case that is decided differently; empty: there is none.
std::string difference(uint64_t seed, size_t count, PlantedBug bug, Tally& tally) {
    Generator generate(seed);
    for (size_t i = 0; i < count; ++i) {
        const Model model = generate.model();
        PolicyDecider now(model, bug);
        const ReferenceDecider before(model);
        std::vector<Request> requests;
        while (requests.size() < requests_of_model) requests.push_back(generate.request(model));
        std::ranges::sort(requests, {}, &Request::later);  // time does not go back
        for (const Request& request : requests) {
            const Outcome here = now.outcome(request), there = before.outcome(request);
            ++tally.requests;
            tally.allowed += there.allowed ? 1 : 0;
            if (here == there) continue;
            return fmt::format("seed {}, model {}, {}\n{}\nreference: {}\ndecide(): {} ({})", seed,
                               i, text_of(model), request.text(), text_of(there), text_of(here),
                               now.decide(request).text());
        }
    }
    return {};
}

uint64_t seed_of_run() {
    const char* const wanted = std::getenv("ROS2STORE_RIGHTS_SEED");
    const uint64_t seed = wanted == nullptr ? random_seed() : std::strtoull(wanted, nullptr, 10);
    fmt::print("seed {} (ROS2STORE_RIGHTS_SEED={} repeats it)\n", seed, seed);
    return seed;
}

TEST(GeneratedRights, BothDecidersDecideAlike) {
    Tally tally;
    const std::string different = difference(seed_of_run(), models, PlantedBug::none, tally);
    ASSERT_EQ(different, "");
    // A generator of what is always refused would show nothing.
    EXPECT_GT(tally.allowed, tally.requests / 8);
    EXPECT_LT(tally.allowed, tally.requests / 2);
}

TEST(GeneratedRights, PlantedBugsAreFound) {
    const uint64_t seed = seed_of_run();
    for (const PlantedBug bug :
         {PlantedBug::wide_pattern, PlantedBug::used_past_its_end, PlantedBug::other_pool}) {
        Tally tally;
        EXPECT_NE(difference(seed, models / 10, bug, tally), "") << static_cast<int>(bug);
    }
}

}  // namespace
}  // namespace ros2s::rights::test
