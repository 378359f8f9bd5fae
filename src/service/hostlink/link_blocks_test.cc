// Blocks of a cache over the link: many in a request, and what a false host sends.
#include <algorithm>

#include "link_ask.h"
#include "ros2s/access/checked_file_system.h"
#include "ros2s/fs/container.h"
#include "test_support/link.h"

namespace ros2s::hostlink {
namespace {

using fs::BlockItem;
using fs::BlockWork;
using fs::Window;

// A cache in memory, whose root belongs to user 7.
class BlocksSource final : public session::FileSystemSource {
  public:
    explicit BlocksSource(Reactor& reactor) : reactor_(reactor), memory_(reactor, {}) {}
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call,
                                                       const session::MountedContainer& which,
                                                       Report& report) override {
        if (!made_) {
            const object::ContainerProperties properties{
                .label = which.container, .chunk_bytes = 65536, .caps = {.bytes = 1 << 20}};
            const auto made = co_await memory_.create_container(call, properties);
            EXPECT_TRUE(co_await fs::Dfs::format(call, memory_, made->id, reactor_,
                                                 {.uid = 7, .gid = 7}, report));
            EXPECT_TRUE(co_await fs::make_cache(
                call, memory_, {.id = made->id, .properties = properties}, {}, report));
            made_ = true;
        }
        auto opened = co_await fs::open_container(call, reactor_, memory_, "the pool",
                                                  which.container, {}, report);
        EXPECT_TRUE(opened) << report.text();
        co_return std::make_unique<access::CheckedFileSystem>(reactor_, std::move(*opened));
    }

  private:
    Reactor& reactor_;
    object::MemoryStore memory_;
    bool made_ = false;
};

struct BlockStage {
    void run(Task<> (*body)(BlockStage&)) { world.run(whole(*this, body)); }
    static Task<> whole(BlockStage& self, Task<> (*body)(BlockStage&)) {
        co_await self.dpu.start();
        co_await self.host.start();
        co_await self.other.start({.read_only = true});
        co_await body(self);
        co_await self.other.stop();
        co_await self.host.stop();
        co_await self.dpu.stop();
    }
    // As many blocks of that many bytes.
    void fill(size_t count, size_t bytes) {
        keys.clear();
        for (size_t i = 0; i < count; ++i) keys.push_back("key " + std::to_string(i));
        data.assign(count * bytes, std::byte{1});
        items.clear();
        for (size_t i = 0; i < count; ++i) {
            data[i * bytes] = static_cast<std::byte>(i);
            items.push_back({.key = keys[i],
                             .window = Window::local(ConstBytes(data).subspan(i * bytes, bytes))});
        }
    }
    Task<std::optional<Code>> work(Host& by, BlockWork what, uid_t uid = 7) {
        const fs::Caller caller{.uid = uid, .gid = uid};
        const Call call{.caller = &caller};
        const auto done = co_await by.link->blocks(call, what, items, std::chrono::minutes(1));
        co_return done ? std::nullopt : std::optional(done.error().code);
    }
    [[nodiscard]] size_t fine() const {
        return static_cast<size_t>(
            std::ranges::count_if(items, [](const auto& item) { return item.status.has_value(); }));
    }
    // Sends a put of 10 bytes that says this of its block.
    Task<Result<>> put_by_hand(SentBlock block) {
        const BlocksBody asked{.mount = host.mount, .work = BlockWork::put};
        const std::vector<SentBlock> sent{block};
        Buffer body;
        ReadNothing reader;
        const ConstBytes payload[] = {as_bytes(ten)};
        const rpc::CallRequest request{
            .method = static_cast<uint16_t>(Method::blocks),
            .repeatable = true,
            .body = rpc::build(body, with_user(blocks_fields), fs::UserClaim{}, asked, sent),
            .payload = payload};
        co_return co_await host.channel->call({}, request, reader);
    }

    static constexpr std::string_view ten = "ten bytes.";
    sim::World world{1};
    fabric::sim::Network network{world.random()};
    Dpu dpu{world, network, std::make_unique<BlocksSource>(world.core())};
    Host host{dpu, 1};
    Host other{dpu, 2};
    std::vector<std::string> keys;
    std::vector<std::byte> data;
    std::vector<BlockItem> items;
};

Task<> many(BlockStage& stage) {
    stage.fill(fs::blocks_together_max, 100);
    const auto requests = [&] { return stage.host.channel->metrics().requests.value(); };
    const uint64_t before = requests();
    EXPECT_EQ(co_await stage.work(stage.host, BlockWork::put), std::nullopt);
    EXPECT_EQ(stage.fine(), stage.items.size());
    for (const auto what :
         {BlockWork::look, BlockWork::touch, BlockWork::pin, BlockWork::unpin, BlockWork::remove}) {
        EXPECT_EQ(co_await stage.work(stage.host, what), std::nullopt);
        EXPECT_EQ(stage.fine(), stage.items.size());
    }
    EXPECT_EQ(requests() - before, 6U);
    EXPECT_EQ(co_await stage.work(stage.host, BlockWork::look), std::nullopt);
    EXPECT_EQ(stage.fine(), 0U);
}
TEST(LinkBlocks, ManyTakeOneRequest) { BlockStage().run(many); }

Task<> large(BlockStage& stage) {
    stage.fill(5, uint64_t{20} << 20);
    EXPECT_EQ(co_await stage.work(stage.host, BlockWork::put), std::nullopt);
    EXPECT_EQ(stage.fine(), 5U);
    EXPECT_EQ(co_await stage.work(stage.other, BlockWork::look), std::nullopt);
    EXPECT_EQ(stage.fine(), 5U);
    stage.fill(5, uint64_t{20} << 20);
    stage.data[7] ^= std::byte{1};
    EXPECT_EQ(co_await stage.work(stage.host, BlockWork::put), std::nullopt);
    EXPECT_EQ(stage.items[0].status, Result<>(fail(Code::exists)));
    EXPECT_EQ(stage.fine(), 4U);
}
TEST(LinkBlocks, PayloadOfSeveralRequestsIsPutWhole) { BlockStage().run(large); }

Task<> rights(BlockStage& stage) {
    stage.fill(3, 10);
    EXPECT_EQ(co_await stage.work(stage.host, BlockWork::put), std::nullopt);
    for (const auto what : {BlockWork::put, BlockWork::pin, BlockWork::unpin, BlockWork::remove}) {
        EXPECT_EQ(co_await stage.work(stage.other, what), Code::read_only);
        EXPECT_NE(co_await stage.work(stage.host, what, 8), std::nullopt) << "another user";
    }
    EXPECT_EQ(co_await stage.work(stage.other, BlockWork::touch), std::nullopt);
    EXPECT_EQ(co_await stage.work(stage.host, BlockWork::look, 8), std::nullopt);
    EXPECT_EQ(stage.fine(), 3U);
}
TEST(LinkBlocks, ReadersAndOtherUsersChangeNothing) { BlockStage().run(rights); }

Task<> false_host(BlockStage& stage) {
    const SentBlock right{.key = "k", .length = 10, .crc = crc32c(as_bytes(BlockStage::ten))};
    SentBlock wrong = right;
    for (const uint64_t length : {uint64_t{9}, uint64_t{11}, UINT64_MAX}) {
        wrong.length = length;
        EXPECT_EQ(co_await stage.put_by_hand(wrong), Result<>(fail(Code::invalid)));
    }
    wrong = right;
    ++wrong.crc;
    EXPECT_EQ(co_await stage.put_by_hand(wrong), Result<>(fail(Code::corrupt)));
    EXPECT_EQ(stage.dpu.service.metrics().bad_checksums.value(), 1U);
    EXPECT_TRUE(co_await stage.put_by_hand(right));
}
TEST(LinkBlocks, BytesThatAreNotAsAnnouncedAreNotPut) { BlockStage().run(false_host); }

// One key that is none does not refuse the others.
Task<> wrong_keys(BlockStage& stage) {
    const std::string long_key(65, 'k'), longest(1 << 20, 'k');
    for (const BlockWork work :
         {BlockWork::put, BlockWork::look, BlockWork::touch, BlockWork::pin, BlockWork::remove}) {
        stage.fill(6, 100);
        stage.items[1].key = "";
        stage.items[3].key = long_key;
        stage.items[4].key = longest;
        EXPECT_EQ(co_await stage.work(stage.host, work), std::nullopt);
        EXPECT_EQ(stage.fine(), 3U);
        for (const size_t i : {1, 3, 4}) {
            EXPECT_EQ(stage.items[i].status, Result<>(fail(Code::invalid))) << i;
        }
    }
}
TEST(LinkBlocks, KeysOfWrongSizeAreRefusedAlone) { BlockStage().run(wrong_keys); }

// Each key once, or as often as it is in the batch.
Task<> same_keys(BlockStage& stage) {
    for (const BlockWork work : {BlockWork::put, BlockWork::look, BlockWork::touch, BlockWork::pin,
                                 BlockWork::unpin, BlockWork::remove}) {
        stage.fill(1024, 10);
        for (size_t i = 0; i < stage.items.size(); ++i) {
            stage.items[i].key = stage.keys[i % 4];
            stage.items[i].window = stage.items[i % 4].window;
        }
        EXPECT_EQ(co_await stage.work(stage.host, work), std::nullopt);
        EXPECT_EQ(stage.fine(), 1024U);
    }
    EXPECT_EQ(co_await stage.work(stage.host, BlockWork::look), std::nullopt);
    EXPECT_EQ(stage.fine(), 0U);
}
TEST(LinkBlocks, KeyMayBeInABatchManyTimes) { BlockStage().run(same_keys); }

Task<> no_blocks(Stage& stage) {
    BlockItem item{.key = "k"};
    const auto done = co_await stage.host.link->blocks({}, BlockWork::look, {&item, 1}, {});
    EXPECT_EQ(done, Result<>(fail(Code::unsupported)));
}
TEST(LinkBlocks, ContainerOfFilesHasNone) { Stage().run(no_blocks); }

}  // namespace
}  // namespace ros2s::hostlink
