// The cost of signing a capability, and of verifying a chain of two with its holder's proof.
#include <benchmark/benchmark.h>

#include "ros2s/base/check.h"
#include "ros2s/capability/chain.h"

namespace ros2s::capability {
namespace {

struct Signed {
    SigningKey engine{SigningKey::make_seed(Secrets())}, program{SigningKey::make_seed(Secrets())},
        dpu{SigningKey::make_seed(Secrets())};
    Capability first{.use = {.rights = rights::Right::read, .container = {"main"}},
                     .tenant = "alice",
                     .issuer = engine.shown(),
                     .holder = program.shown(),
                     .expires = WallTime(std::chrono::minutes(5))};
    Chain chain{sign(first, engine)};
    Expected expected{.audience = {}, .issuers = {engine.shown()}, .now = WallTime(Duration(1))};
    Signed() {
        Capability second = first;
        second.depth = 2;
        second.issuer = program.shown();
        second.holder = dpu.shown();
        second.parent = hash_of(chain.front());
        chain.push_back(sign(second, program));
    }
};

void sign_one(benchmark::State& state) {
    const Signed all;
    for (auto _ : state) benchmark::DoNotOptimize(sign(all.first, all.engine));
}
BENCHMARK(sign_one);

void verify_two_and_a_proof(benchmark::State& state) {
    const Signed all;
    const std::string nonce(nonce_bytes, 'n');
    const std::string proof = all.dpu.sign(proof_message(nonce, 1, "shm", all.chain));
    for (auto _ : state) {
        std::string why;
        ROS2S_CHECK(verify(all.chain, all.expected, why));
        ROS2S_CHECK(
            is_signed_by(all.dpu.shown(), proof_message(nonce, 1, "shm", all.chain), proof));
    }
    state.counters["bytes"] =
        static_cast<double>(all.chain[0].size() + all.chain[1].size() + proof.size());
}
BENCHMARK(verify_two_and_a_proof);

}  // namespace
}  // namespace ros2s::capability
