// Payload over the link: bytes that changed on their way, and more than one request takes.
#include "link_ask.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/fs/large_read.h"
#include "test_support/link.h"

namespace ros2s::hostlink {
namespace {

using fs::FileHandle;
using fs::Window;

// ---- bytes that changed ---------------------------------------------------------------------

Task<> changed_on_the_way_there(Stage& stage) {
    const FileHandle file = co_await stage.create_there("f");
    Buffer body;
    const FileBody wrong{.mount = stage.host.mount, .handle = file, .crc = 1};
    EXPECT_EQ(co_await ask(stage.host, Method::write, rpc::build(body, file_fields, wrong)),
              Result<>(fail(Code::corrupt)));
    EXPECT_EQ(stage.dpu.service.metrics().bad_checksums.value(), 1U);
    const auto attributes = co_await stage.host.link->lookup({}, fs::root_node, "f");
    EXPECT_TRUE(attributes);
    EXPECT_EQ(attributes->size, 0U);
}
TEST(HostLink, BytesChangedOnTheWireAreNotWritten) { Stage().run(changed_on_the_way_there); }

// The DPU passes on the checksums of the store, so the host finds what changed before the DPU.
Task<> changed_before_the_dpu(Stage& stage) {
    WireToStore& wire = dynamic_cast<DfsSource&>(*stage.dpu.source).wire();
    const FileHandle file = co_await stage.create("f", {.write = true});
    std::vector<std::byte> bytes(uint64_t{200} << 10, std::byte{7});
    EXPECT_TRUE(co_await stage.host.link->pwrite({}, file, Window::local(Bytes(bytes)), 0));
    const Call call;
    const auto read = [&](uint64_t offset, uint64_t length) {
        return stage.host.link->pread(call, file, Window::local(Bytes(bytes).first(length)),
                                      offset);
    };
    // A block, a part of one, several chunks, and beyond the end of the file.
    for (const auto& [offset, length] : {std::pair<uint64_t, uint64_t>{4096, 4096},
                                         {5000, 100},
                                         {8192, 150'000},
                                         {204'000, 4096}}) {
        EXPECT_TRUE(co_await read(offset, length)) << offset;
        wire.flips_fetched = true;
        EXPECT_EQ(co_await read(offset, length), Result<uint64_t>(fail(Code::corrupt))) << offset;
        wire.flips_fetched = false;
    }
    fs::ReadManyItem item{.name = "f", .window = Window::local(Bytes(bytes))};
    wire.flips_fetched = true;
    EXPECT_TRUE(co_await stage.host.link->read_many(call, fs::root_node, {&item, 1}));
    EXPECT_EQ(item.status, Result<>(fail(Code::corrupt)));
    wire.flips_fetched = false;
    EXPECT_TRUE(co_await stage.host.link->read_many(call, fs::root_node, {&item, 1}));
    EXPECT_TRUE(item.status);
    co_await stage.host.link->close({}, file);
}
TEST(HostLink, BytesChangedBeforeDpuAreRefusedByHost) { Stage().run(changed_before_the_dpu); }

// The host's checksums go down to the store, which finds what changed after the DPU.
Task<> changed_after_the_dpu(Stage& stage) {
    WireToStore& wire = dynamic_cast<DfsSource&>(*stage.dpu.source).wire();
    const FileHandle file = co_await stage.create("f", {.write = true});
    const Call call;
    const auto write = [&](const std::vector<std::byte>& bytes, uint64_t offset) {
        return stage.host.link->pwrite(call, file, Window::local(ConstBytes(bytes)), offset);
    };
    const std::vector<std::byte> old(uint64_t{200} << 10, std::byte{7});
    std::vector<std::byte> found(old.size());
    EXPECT_TRUE(co_await write(old, 0));
    // A block, a part of one, parts of two, and several chunks.
    for (const auto& [offset, length] :
         {std::pair<uint64_t, uint64_t>{4096, 4096}, {5000, 100}, {8000, 400}, {8192, 150'000}}) {
        const std::vector<std::byte> bytes(length, std::byte{8});
        wire.flips_written = true;
        EXPECT_EQ(co_await write(bytes, offset), Result<uint64_t>(fail(Code::corrupt))) << offset;
        wire.flips_written = false;
        EXPECT_TRUE(co_await stage.host.link->pread({}, file, Window::local(Bytes(found)), 0));
        EXPECT_EQ(found, old) << offset;
        EXPECT_TRUE(co_await write(bytes, offset)) << offset;
        EXPECT_TRUE(co_await write(old, 0));
    }
    EXPECT_EQ(stage.dpu.service.metrics().bad_checksums.value(), 0U);
    co_await stage.host.link->close({}, file);
}
TEST(HostLink, BytesChangedAfterDpuAreNotWritten) { Stage().run(changed_after_the_dpu); }

// One block: the DPU does not compare it, but counts it.
Task<> changed_block(Stage& stage) {
    const FileHandle file = co_await stage.create_there("f");
    const std::vector<std::byte> block(4096, std::byte{7});
    const ConstBytes payload[] = {block};
    Buffer body;
    ReadNothing reader;
    const FileBody wrong{.mount = stage.host.mount, .handle = file, .crc = 1};
    const rpc::CallRequest request{
        .method = static_cast<uint16_t>(Method::write),
        .id = {.client = stage.host.client, .slot = LinkClient::update_slots, .sequence = 1},
        .body = rpc::build(body, file_fields, wrong),
        .payload = payload};
    EXPECT_EQ(co_await stage.host.channel->call({}, request, reader),
              Result<>(fail(Code::corrupt)));
    EXPECT_EQ(stage.dpu.service.metrics().bad_checksums.value(), 1U);
    const auto attributes = co_await stage.host.link->lookup({}, fs::root_node, "f");
    EXPECT_TRUE(attributes);
    EXPECT_EQ(attributes->size, 0U);
}
TEST(HostLink, BlockChangedOnTheWireIsNotWritten) { Stage().run(changed_block); }

// Two blocks, with a checksum for each.
Task<> changed_pieces(Stage& stage) {
    const FileHandle file = co_await stage.create_there("f");
    const std::vector<std::byte> blocks(8192, std::byte{7});
    const uint32_t right = crc32c(ConstBytes(blocks).first(4096));
    const ConstBytes payload[] = {blocks};
    uint64_t sequence = 0;
    const auto write = [&](object::Checksums checksums) {
        const auto run = [](Stage& on, uint64_t number, FileBody there, auto pieces,
                            auto bytes) -> Task<Result<>> {
            Buffer body;
            ReadNothing reader;
            const rpc::CallRequest request{.method = static_cast<uint16_t>(Method::write_pieces),
                                           .id = {.client = on.host.client,
                                                  .slot = LinkClient::update_slots,
                                                  .sequence = number},
                                           .body = rpc::build(body, pieces_fields, there, pieces),
                                           .payload = bytes};
            co_return co_await on.host.channel->call({}, request, reader);
        };
        return run(stage, ++sequence, {.mount = stage.host.mount, .handle = file},
                   std::move(checksums), std::span<const ConstBytes>(payload));
    };
    for (const object::Checksums& wrong :
         {object::Checksums{}, {right}, {right, right, right}, {right, 1}, {1, right}}) {
        EXPECT_EQ(co_await write(wrong), Result<>(fail(Code::corrupt)));
        const auto attributes = co_await stage.host.link->lookup({}, fs::root_node, "f");
        EXPECT_TRUE(attributes);
        EXPECT_EQ(attributes->size, 0U);
    }
    EXPECT_EQ(co_await write({right, right}), Result<>());
    EXPECT_EQ((co_await stage.host.link->lookup({}, fs::root_node, "f"))->size, 8192U);
}
TEST(HostLink, PiecesChangedOnTheWireAreNotWritten) { Stage().run(changed_pieces); }

// ---- large requests -------------------------------------------------------------------------

Task<> larger_than_a_request(Stage& stage) {
    const FileHandle file = co_await stage.create("large", {.write = true});
    const uint64_t most = stage.host.channel->welcome().payload_bytes_max;
    std::vector<std::byte> written(most + 3'000'001), read(written.size() + 10);
    for (size_t i = 0; i < written.size(); i += 997) written[i] = static_cast<std::byte>(i >> 7);
    EXPECT_EQ(co_await stage.host.link->pwrite({}, file, Window::local(ConstBytes(written)), 5),
              Result<uint64_t>(written.size()));
    EXPECT_EQ(co_await stage.host.link->pread({}, file, Window::local(Bytes(read)), 5),
              Result<uint64_t>(written.size()));
    read.resize(written.size());
    EXPECT_TRUE(read == written);
    // An append must be one request, and this one cannot be.
    const FileHandle log = co_await stage.create("log", {.write = true, .append = true});
    EXPECT_EQ(co_await stage.host.link->pwrite({}, log, Window::local(ConstBytes(written)), 0),
              Result<uint64_t>(fail(Code::too_large, most)));
}
TEST(HostLink, TransferOverRequestSizeIsSplit) { Stage().run(larger_than_a_request); }

Task<> large_read(Stage& stage) {
    const Call call;
    const FileHandle file = co_await stage.create("large", {.write = true});
    std::vector<std::byte> written(30'000'001), found(written.size() + 9'000'000);
    for (size_t i = 0; i < written.size(); i += 997) written[i] = static_cast<std::byte>(i >> 7);
    EXPECT_TRUE(
        co_await stage.host.link->pwrite(call, file, Window::local(ConstBytes(written)), 5));
    const auto read = [&](uint64_t offset) {
        return fs::pread_in_parts(stage.world.core(), *stage.host.link, call, file,
                                  Window::local(Bytes(found)), offset);
    };
    WireToStore& wire = dynamic_cast<DfsSource&>(*stage.dpu.source).wire();
    wire.held_on = &stage.world.core();
    const Time began = stage.world.core().now();
    EXPECT_EQ(co_await read(5), Result<uint64_t>(written.size()));
    const auto parts = static_cast<int64_t>(found.size() / fs::read_part_bytes + 1);
    EXPECT_LT(stage.world.core().now() - began, parts * WireToStore::held_for / 2);
    EXPECT_TRUE(std::ranges::equal(written, Bytes(found).first(written.size())));
    wire.held_on = nullptr;

    wire.flips_fetched = true;
    EXPECT_EQ(co_await read(5), Result<uint64_t>(fail(Code::corrupt)));
    wire.flips_fetched = false;
    EXPECT_EQ(co_await read(written.size()), Result<uint64_t>(5));
    EXPECT_EQ(co_await read(INT64_MAX - 5), Result<uint64_t>(0));
    EXPECT_EQ(co_await read(UINT64_MAX - 5), Result<uint64_t>(fail(Code::invalid)));
}
TEST(HostLink, PartsOfLargeReadAreInFlightTogether) { Stage().run(large_read); }

// A caller that got only the error would write the first part again.
Task<> refused_in_the_middle(Stage& stage) {
    WireToStore& wire = dynamic_cast<DfsSource&>(*stage.dpu.source).wire();
    const FileHandle file = co_await stage.create("large", {.write = true});
    const uint64_t most = stage.host.channel->welcome().payload_bytes_max;
    const std::vector<std::byte> bytes(most + 3'000'001, std::byte{7});
    const ConstBytes whole(bytes);
    wire.room = most;
    EXPECT_EQ(co_await stage.host.link->pwrite({}, file, Window::local(whole), 0),
              Result<uint64_t>(most));
    EXPECT_EQ(co_await stage.host.link->pwrite({}, file, Window::local(whole.subspan(most)), most),
              Result<uint64_t>(fail(Code::no_space)));
    const auto found = co_await stage.host.link->lookup({}, fs::root_node, "large");
    EXPECT_TRUE(found && found->size == most);
    wire.room = UINT64_MAX;
    EXPECT_TRUE(co_await stage.host.link->close({}, file));
}
TEST(HostLink, PartlyRefusedWriteReportsBytesWritten) { Stage().run(refused_in_the_middle); }

}  // namespace
}  // namespace ros2s::hostlink
