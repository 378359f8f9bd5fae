// The cost of DFS above its store: a 4 KiB read or write through Dfs, compared with the same
// request to MemoryStore.
#include <benchmark/benchmark.h>

#include "dfs.h"
#include "records.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::fs {
namespace {

constexpr uint64_t file_bytes = 4 << 20;

struct Setup {
    Setup() { world.run(make()); }
    ~Setup() { world.run(fs->close_all()); }
    Task<> make() {
        container = (co_await store.create_container(call, {.label = "c"}))->id;
        Report report;
        (void)co_await Dfs::format(call, store, container, world.core(), {}, report);
        fs = std::move(*co_await Dfs::mount(call, store, container, world.core(), {}, report));
        const auto made =
            co_await fs->create(call, root_node, "file", 0644, {.read = true, .write = true}, {});
        file = *made;
        const AlignedBuffer zeros(file_bytes);
        (void)co_await fs->pwrite(call, file.handle, Window::local(zeros.bytes()), 0);
    }
    sim::World world{1};
    object::MemoryStore store{world.core()};
    object::ContainerId container;
    Call call;
    std::unique_ptr<Dfs> fs;
    Opened file;
    AlignedBuffer buffer{4096};
    Random random{7};
    uint64_t offset() { return random.below(file_bytes / 4096) * 4096; }
};

Task<> fetch_directly(Setup& s, benchmark::State& state) {
    for (auto _ : state) {
        const uint64_t offset = s.offset();
        FetchItem item{.object = object_of(s.file.attributes.node),
                       .dkey = chunk_dkey(offset >> 20),
                       .akey = data_akey(),
                       .extent = {.offset = offset & ((1 << 20) - 1), .length = 4096},
                       .window = Window::local(s.buffer.bytes())};
        benchmark::DoNotOptimize(co_await s.store.fetch(s.call, s.container, {&item, 1}));
    }
}
Task<> pread(Setup& s, benchmark::State& state) {
    for (auto _ : state) {
        benchmark::DoNotOptimize(co_await s.fs->pread(s.call, s.file.handle,
                                                      Window::local(s.buffer.bytes()), s.offset()));
    }
}
Task<> pwrite(Setup& s, benchmark::State& state) {
    for (auto _ : state) {
        benchmark::DoNotOptimize(co_await s.fs->pwrite(
            s.call, s.file.handle, Window::local(s.buffer.bytes()), s.offset()));
    }
}
Task<> get_attributes(Setup& s, benchmark::State& state) {
    for (auto _ : state) {
        benchmark::DoNotOptimize(co_await s.fs->get_attributes(s.call, s.file.attributes.node));
    }
}

template <Task<> (*loop)(Setup&, benchmark::State&)>
void run(benchmark::State& state) {
    Setup setup;
    setup.world.run(loop(setup, state));
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(run<fetch_directly>)->Name("store.fetch 4 KiB");
BENCHMARK(run<pread>)->Name("Dfs.pread 4 KiB");
BENCHMARK(run<pwrite>)->Name("Dfs.pwrite 4 KiB");
BENCHMARK(run<get_attributes>)->Name("Dfs.get_attributes");

}  // namespace
}  // namespace ros2s::fs
