// The client's overhead for a 4 KiB fetch of a store that answers at once.
#include <benchmark/benchmark.h>

#include "ros2s/client/verifying_store.h"
#include "ros2s/object/test_support/batch.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::client {
namespace {

Task<> fetch_for(benchmark::State& state, object::ObjectStore& store) {
    const Call call;
    const object::ContainerProperties properties{.label = "c"};
    const auto container = co_await store.create_container(call, properties);
    const object::AkeyAddress place{{1, 2}, "dkey", "data"};
    const auto batch = object::Batch().write(place, 0, std::string(4096, 'x'));
    (void)co_await store.update(call, container->id, batch.transaction());
    const AlignedBuffer window(4096);
    auto item = object::fetch_item(place.object, {place.dkey}, {place.akey}, 0, window.bytes());
    for (auto _ : state) (void)co_await store.fetch(call, container->id, {&item, 1});
}

void memory_alone(benchmark::State& state) {
    sim::World world(1);
    object::MemoryStore memory(world.core());
    world.run(fetch_for(state, memory));
}
void through_the_client(benchmark::State& state) {
    sim::World world(1);
    object::MemoryStore memory(world.core());
    VerifyingStore client(world.core(), memory);
    world.run(fetch_for(state, client));
}
BENCHMARK(memory_alone);
BENCHMARK(through_the_client);

}  // namespace
}  // namespace ros2s::client
