// The time that one core takes to encrypt and decrypt a block, and to start with a new salt.
#include "block_cipher.h"

#include <benchmark/benchmark.h>

#include <vector>

#include "keyed_digest.h"

namespace ros2s::cipher {
namespace {

DataKeys keys() {
    DataKeys keys{.current = 1};
    keys.versions[1] = SecretKey::make(Secrets());
    return keys;
}

struct Bench {
    Secrets secrets;
    BlockCipher cipher{secrets, keys()};
    BlockBinding place{cipher.key_id(), {.high = 1, .low = 2}, object::Dkey::integer(3), {"data"}};
    std::vector<std::byte> plain = std::vector<std::byte>(block_bytes);
    std::vector<std::byte> sealed = std::vector<std::byte>(block_bytes);
    Cell cell;
};

void seal_block(benchmark::State& state) {
    Bench bench;
    for ([[maybe_unused]] auto round : state) {
        bench.cipher.seal(bench.place, 5, bench.plain, bench.sealed, bench.cell);
    }
    state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * block_bytes));
}
BENCHMARK(seal_block);

void open_block(benchmark::State& state) {
    Bench bench;
    bench.cipher.seal(bench.place, 5, bench.plain, bench.sealed, bench.cell);
    for ([[maybe_unused]] auto round : state) {
        if (!bench.cipher.open(bench.place, 5, bench.cell, bench.sealed, bench.plain)) {
            state.SkipWithError("the block does not open");
        }
    }
    state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * block_bytes));
}
BENCHMARK(open_block);

void derive_block_key(benchmark::State& state) {
    const SecretKey key = SecretKey::make(Secrets());
    SecretKey derived;
    for ([[maybe_unused]] auto round : state) {
        hkdf_sha256(key.bytes(), key.bytes(), as_bytes("bench"), derived.bytes());
    }
}
BENCHMARK(derive_block_key);

// Of each named request.
void digest_of_request(benchmark::State& state) {
    KeyedDigest digests(SecretKey::make(Secrets()));
    UpdateName id{.client = {{1}}, .digest = 2};
    for ([[maybe_unused]] auto round : state) {
        ++id.sequence;
        benchmark::DoNotOptimize(digests.of(id));
    }
}
BENCHMARK(digest_of_request);

}  // namespace
}  // namespace ros2s::cipher

BENCHMARK_MAIN();
