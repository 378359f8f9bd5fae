// A Writer without a pool: what it writes to the disk, once, and what it refuses.
#include "writer.h"

#include "test_support/commit.h"

namespace ros2s::engine {
namespace {

struct WriterBench : CommitBench {
    Task<Result<object::Commit>> write(ConstBytes bytes, uint64_t offset) {
        object::Transaction transaction{.id = {.client = Uuid{{9}}, .sequence = offset + 1}};
        transaction.operations.push_back({.kind = object::Operation::Kind::write,
                                          .object = {1, 1},
                                          .dkey = {"d"},
                                          .akey = {"a"},
                                          .extent = {offset, bytes.size()},
                                          .window = object::Window::local(bytes)});
        co_return co_await writer.update(call, Twenty::id, transaction);
    }
    object::PinTable pins;
    object::LeaseTable leases{env.reactor, pins};
    const EngineOptions pin_options{};
    object::LockTable locks{pins};
    AwaitedClients awaited{env.reactor};
    PinHolders holders{env, pin_options, pins, locks, awaited};
    Reader reader{cores, state, publisher, pins, locks, leases, holders};
    Lister lister{cores, state};
    Caches caches{cores, state, reader, lister, 1 << 20};
    Writer writer{cores,  state,   committer, checkpointer, pins,   locks,
                  leases, holders, awaited,   caches,       1 << 20};
};

Task<> write_a_block(WriterBench& bench) {
    const AlignedBuffer buffer(block_bytes), found(block_bytes), more(20 * block_bytes);
    std::memset(buffer.data(), 7, block_bytes);
    std::memset(more.data(), 8, more.size());
    const auto done = co_await bench.write(buffer.bytes(), 0);
    EXPECT_TRUE(done && !done->replayed);
    const Node* const node =
        bench.cores.home().cache.find(entry_key(Twenty::id, {1, 1}, "d", "a", 0).view());
    const BlockAddress place = node->entry()->map.at(0).address;
    bench.disk.peek(place.block() * block_bytes, found.bytes());
    EXPECT_TRUE(std::ranges::equal(found.bytes(), buffer.bytes()));
    // A repetition is not done again; and there is no room for twenty blocks more.
    const auto again = co_await bench.write(buffer.bytes(), 0);
    EXPECT_TRUE(again && again->replayed);
    EXPECT_EQ((co_await bench.write(more.bytes(), block_bytes)).error().code, Code::no_space);
    EXPECT_EQ(bench.state.space.used_blocks(), 1U);
}
TEST(EngineWriter, RepeatedWriteIsReplayedAndOversizedRefused) {
    WriterBench bench;
    bench.run(write_a_block(bench));
}

}  // namespace
}  // namespace ros2s::engine
