#include "cipher_store.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "keys_of_arrays.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/object/blocks.h"
#include "ros2s/object/checksum.h"
#include "ros2s/object/test_support/batch.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"
#include "test_support/cipher.h"

namespace ros2s::cipher {
namespace {

using namespace object;
using Kind = Operation::Kind;

// Counts requests. Returns false sizes if a test says so.
class CountingStore final : public ForwardingStore {
  public:
    explicit CountingStore(ObjectStore& below) : ForwardingStore(below) {}
    Task<Result<>> fetch(const Call& call, ContainerId container,
                         std::span<FetchItem> items) override {
        ++fetches;
        return older_sizes > 0 ? fetch_older(call, container, items)
                               : below().fetch(call, container, items);
    }
    Task<Result<Commit>> update(const Call& call, ContainerId container,
                                const Transaction& transaction) override {
        ++updates;
        last_digest = transaction.id.digest;
        return below().update(call, container, transaction);
    }
    int fetches = 0, updates = 0;
    uint64_t last_digest = 0;
    // As if arrays had grown during this many of the next fetches: the size is the one before.
    int older_sizes = 0;
    uint64_t older_size = 0;

  private:
    Task<Result<>> fetch_older(Call call, ContainerId container, std::span<FetchItem> items) {
        --older_sizes;
        ROS2S_CO_TRY(co_await below().fetch(call, container, items));
        for (FetchItem& item : items) item.size = older_size;
        co_return Result<>();
    }
};

constexpr ObjectId array_object{.high = 1, .low = 2};
const Dkey array_dkey = Dkey::integer(0);

class CipherStoreTest : public testing::TestWithParam<Layout> {
  public:
    CipherStoreTest() : CipherStoreTest(MemoryStore::Options{}) {}
    explicit CipherStoreTest(MemoryStore::Options options) : memory_(world_.core(), options) {
        world_.run([](CipherStoreTest& self) -> Task<> {
            self.container_ =
                (co_await self.memory_.create_container(self.call_, {.label = "c"}))->id;
        }(*this));
        cipher_ = make_client();
    }
    std::unique_ptr<CipherStore> make_client() {
        return std::make_unique<CipherStore>(world_.core(), counted_, container_,
                                             test_keys(1, GetParam()));
    }
    Result<> update(ObjectStore& store, Operation operation) {
        Result<> result;
        world_.run(
            [](CipherStoreTest& self, ObjectStore& to, Operation wanted, Result<>& out) -> Task<> {
                Transaction transaction;
                transaction.operations.push_back(std::move(wanted));
                const auto done = co_await to.update(self.call_, self.container_, transaction);
                if (!done) out = fail(done.error());
            }(*this, store, std::move(operation), result));
        return result;
    }
    static Operation write(uint64_t offset, std::string_view text, Akey akey = data_akey()) {
        return {.kind = Kind::write,
                .object = array_object,
                .dkey = array_dkey,
                .akey = std::move(akey),
                .extent = {offset, text.size()},
                .window = Window::local(as_bytes(text))};
    }
    static Operation of_array(Kind kind, Extent extent, uint64_t size = 0) {
        return {.kind = kind,
                .object = array_object,
                .dkey = array_dkey,
                .akey = data_akey(),
                .extent = extent,
                .size = size};
    }
    FetchItem fetch(ObjectStore& store, uint64_t offset, uint64_t length, bool forwarded = false,
                    Akey akey = data_akey()) {
        fetched_.assign(length, '?');
        FetchItem item{.object = array_object,
                       .dkey = array_dkey,
                       .akey = std::move(akey),
                       .extent = {offset, length},
                       .window = Window::local(std::as_writable_bytes(std::span(fetched_))),
                       .forwarded = forwarded,
                       .wants_seals = &store == &memory_};
        world_.run([](CipherStoreTest& self, ObjectStore& from, FetchItem& wanted) -> Task<> {
            const auto done = co_await from.fetch(self.call_, self.container_, {&wanted, 1});
            EXPECT_TRUE(done.has_value());
        }(*this, store, item));
        return item;
    }
    std::string text_of(uint64_t offset, uint64_t length) {
        const FetchItem item = fetch(*cipher_, offset, length);
        EXPECT_TRUE(item.status.has_value());
        return fetched_;
    }
    // A block as the store below has it, in memory of `item`'s caller.
    FetchItem fetch_sealed(uint64_t block) {
        FetchItem item = fetch(memory_, block * block_bytes, block_bytes);
        fetched_.resize(stored_bytes(item.size, block));
        return item;
    }
    Result<> put_sealed(uint64_t block, std::string_view bytes, std::string seal) {
        Operation operation = write(block * block_bytes, bytes);
        operation.seals = std::move(seal);
        return update(memory_, std::move(operation));
    }
    // Changes a byte of the stored data.
    void flip(const Akey& akey, uint64_t offset, uint8_t bits = 1) {
        if (GetParam() == Layout::seals) {
            const bool data = is_data(akey);
            const uint64_t unit = data ? block_bytes : sizeof(Cell);
            const FetchItem item = fetch_sealed(offset / unit);
            std::string bytes = fetched_, seal = item.seals;
            char& byte = (data ? bytes : seal)[offset % unit];
            byte = static_cast<char>(byte ^ bits);
            ASSERT_TRUE(put_sealed(offset / unit, bytes, std::move(seal)).has_value());
            return;
        }
        fetch(memory_, offset, 1, false, akey);
        std::string byte = fetched_;
        byte[0] = static_cast<char>(byte[0] ^ bits);
        ASSERT_TRUE(update(memory_, write(offset, byte, akey)).has_value());
        // Both arrays get the same epoch again, as an attacker who knows the format would do.
        world_.run([](CipherStoreTest& self) -> Task<> {
            Transaction transaction;
            for (const Akey& each : {data_akey(), cells_akey()}) {
                transaction.operations.push_back({.kind = Kind::touch,
                                                  .object = array_object,
                                                  .dkey = array_dkey,
                                                  .akey = each});
            }
            EXPECT_TRUE(co_await self.memory_.update(self.call_, self.container_, transaction));
        }(*this));
    }
    static std::string pattern(size_t bytes, uint64_t seed) {
        Random random(seed);
        std::string text(bytes, 0);
        for (char& c : text) c = static_cast<char>('a' + random.below(26));
        return text;
    }

    const Call call_{};
    sim::World world_{1};
    MemoryStore memory_;
    CountingStore counted_{memory_};
    ContainerId container_{};
    std::unique_ptr<CipherStore> cipher_;
    std::string fetched_;
};

TEST_P(CipherStoreTest, StoredCiphertextHasTheSameSize) {
    const std::string text = pattern(10000, 1);
    ASSERT_TRUE(update(*cipher_, write(0, text)).has_value());
    const FetchItem below = fetch(memory_, 0, text.size());
    EXPECT_EQ(below.size, text.size());
    int equal = 0;
    for (size_t i = 0; i < text.size(); ++i) equal += text[i] == fetched_[i] ? 1 : 0;
    EXPECT_LT(equal, 100);  // 1 of 256 by chance
    EXPECT_EQ(text_of(0, text.size()), text);
    EXPECT_EQ(text_of(5000, 3), text.substr(5000, 3));
}

TEST_P(CipherStoreTest, WholeBlockNeedsOneRequestAndPartTwo) {
    const std::string text = pattern(8192, 1);
    ASSERT_TRUE(update(*cipher_, write(4096, text)).has_value());
    EXPECT_EQ(counted_.fetches, 0);
    EXPECT_EQ(counted_.updates, 1);
    EXPECT_EQ(text_of(4096, 8192), text);
    EXPECT_EQ(counted_.fetches, 1);
    ASSERT_TRUE(update(*cipher_, write(4100, "x")).has_value());
    EXPECT_EQ(counted_.fetches, 2);
    EXPECT_EQ(counted_.updates, 2);
    EXPECT_EQ(cipher_->metrics().read_first.value(), 1U);
}

// Neither its key nor the checksum of its bytes, with which a guess could be confirmed.
TEST_P(CipherStoreTest, StoreBelowDoesNotSeeWhatABlockOfACacheIs) {
    const std::string key = "a prompt's hash", text = pattern(block_bytes + 100, 1);
    const BlockHead head{.crc = 0x1234, .length = text.size()};
    const auto list = [this](ObjectStore& store, std::optional<std::string> after = {}) {
        return *world_.run(store.list(call_, container_,
                                      {.what = ListRequest::What::dkeys,
                                       .object = blocks_object,
                                       .akey = block_head_akey(),
                                       .after = std::move(after)}));
    };
    const auto head_in = [](const ListReply& reply) {
        return *parse_block_head(as_bytes(reply.entries.at(0).value));
    };
    Operation data = write(0, text);
    data.object = blocks_object;
    data.dkey = {key};
    ASSERT_TRUE(update(*cipher_, data));
    ASSERT_TRUE(update(*cipher_, {.kind = Kind::put,
                                  .object = blocks_object,
                                  .dkey = {key},
                                  .akey = block_head_akey(),
                                  .window = Window::local(object_bytes(head))}));
    const ListReply below = list(memory_), above = list(*cipher_);
    ASSERT_EQ(below.entries.size(), 1U);
    EXPECT_EQ(below.entries[0].key.size(), key.size());
    EXPECT_NE(below.entries[0].key, key);
    EXPECT_NE(head_in(below).crc, head.crc);
    EXPECT_EQ(head_in(below).length, head.length);
    ASSERT_EQ(above.entries.size(), 1U);
    EXPECT_EQ(above.entries[0].key, key);
    EXPECT_EQ(head_in(above).crc, head.crc);
    EXPECT_TRUE(list(*cipher_, key).entries.empty());
    EXPECT_EQ(cipher_->metrics().read_first.value(), 0U);

    BlockHead found;
    std::string bytes(text.size(), '?');
    FetchItem items[] = {object::fetch_item(blocks_object, {key}, data_akey(), 0,
                                            std::as_writable_bytes(std::span(bytes))),
                         object::fetch_item(blocks_object, {key}, block_head_akey(), 0,
                                            std::as_writable_bytes(std::span(&found, 1)))};
    ASSERT_TRUE(world_.run(make_client()->fetch(call_, container_, items)));
    EXPECT_TRUE(items[0].status && items[1].status);
    EXPECT_EQ(items[0].dkey.bytes, key);
    EXPECT_EQ(bytes, text);
    EXPECT_EQ(found.crc, head.crc);
    ASSERT_TRUE(
        update(*cipher_, {.kind = Kind::punch_dkey, .object = blocks_object, .dkey = {key}}));
    EXPECT_TRUE(list(memory_).entries.empty());
}

// The digest of a host's write contains its CRC. The store below gets a digest that does not reveal
// it.
TEST_P(CipherStoreTest, DigestBelowDependsOnTheKey) {
    const UpdateName id{.client = {{7}}, .slot = 3, .sequence = 9, .digest = 0x1234};
    const auto send = [this](ObjectStore& to, Transaction transaction) {
        Result<Commit> result;
        world_.run([](CipherStoreTest& self, ObjectStore& store, const Transaction& wanted,
                      Result<Commit>& out) -> Task<> {
            out = co_await store.update(self.call_, self.container_, wanted);
        }(*this, to, transaction, result));
        return result;
    };
    const auto first = send(*cipher_, {.id = id, .operations = {write(0, "plain")}});
    ASSERT_TRUE(first.has_value());
    const uint64_t below = counted_.last_digest;
    EXPECT_NE(below, id.digest);
    EXPECT_NE(below, 0U);
    // After a restart, with a newer version of the data key: the repeated request is recognized.
    CipherStore reopened(world_.core(), counted_, container_, test_keys(2, GetParam()));
    Transaction question{.id = id};
    question.conditions.push_back({.kind = Condition::Kind::exists, .object = array_object});
    question.conditions.push_back({.kind = Condition::Kind::absent, .object = array_object});
    const auto again = send(reopened, question);
    EXPECT_EQ(counted_.last_digest, below);
    EXPECT_TRUE(again.has_value() && again->epoch == first->epoch);
    // Another request with the same update name.
    question.id.digest = 0x1235;
    EXPECT_EQ(send(reopened, question).error().code, Code::name_taken);
    // Equal digests are not seen to be equal: neither of another request, nor under another key.
    question.id = id;
    ++question.id.sequence;
    EXPECT_FALSE(send(reopened, question).has_value());
    EXPECT_NE(counted_.last_digest, below);
    DataKeys others = test_keys(1, GetParam());
    others.versions[1] = counting_key(99);
    CipherStore other(world_.core(), counted_, container_, others);
    question.id = id;
    EXPECT_EQ(send(other, question).error().code, Code::name_taken);
    EXPECT_NE(counted_.last_digest, below);
}

// Cells are read once and then used again until a client changes the array.
TEST_P(CipherStoreTest, CachedCellsMatchThePresentBlocks) {
    if (GetParam() == Layout::seals) GTEST_SKIP() << "seals come with each fetch";
    const auto other = make_client();
    const std::string first = pattern(3 * 4096, 1);
    ASSERT_TRUE(update(*cipher_, write(0, first)).has_value());
    const auto kept = [this] { return cipher_->metrics().kept_cells.value(); };
    EXPECT_EQ(text_of(4096, 4096), first.substr(4096, 4096));
    EXPECT_EQ(kept(), 0U);
    EXPECT_EQ(text_of(4096, 4096), first.substr(4096, 4096));
    EXPECT_EQ(kept(), 1U);
    EXPECT_EQ(counted_.fetches, 2);
    EXPECT_EQ(text_of(0, 8192), first.substr(0, 8192));  // one of them is not there
    EXPECT_EQ(kept(), 1U);
    const std::string second = pattern(4096, 2);
    ASSERT_TRUE(update(*other, write(4096, second)).has_value());
    EXPECT_EQ(text_of(4096, 4096), second);
    EXPECT_EQ(text_of(0, 4096), first.substr(0, 4096));
    ASSERT_TRUE(update(*other, of_array(Kind::punch_extent, {4096, 4096})).has_value());
    EXPECT_EQ(text_of(4096, 4096), std::string(4096, '\0'));
    ASSERT_TRUE(update(*other, {.kind = Kind::punch_object, .object = array_object}).has_value());
    EXPECT_EQ(fetch(*cipher_, 4096, 4096).status.error().code, Code::not_found);
    ASSERT_TRUE(update(*other, write(4096, second)).has_value());
    EXPECT_EQ(text_of(4096, 4096), second);
    EXPECT_EQ(cipher_->metrics().torn.value(), 0U);
}

TEST(CellCaches, FullCacheEvictsTheOldest) {
    CipherMemory memory;
    CellCache cache(memory, 20'000);
    const std::vector<Cell> cells(10, Cell{.format = 1});
    for (uint64_t dkey_number = 0; dkey_number < 100; ++dkey_number) {
        cache.add(array_object, Dkey::integer(dkey_number), {5}, 0, cells);
        EXPECT_LE(cache.bytes(), 20'000U);
    }
    std::vector<Cell> found(10);
    EXPECT_FALSE(cache.find(array_object, Dkey::integer(0), 0, found));
    EXPECT_EQ(cache.find(array_object, Dkey::integer(99), 0, found), Epoch{5});
    EXPECT_EQ(found[9].format, 1);
    EXPECT_FALSE(cache.find(array_object, Dkey::integer(99), 1, found));
    // An older epoch changes nothing, a newer one replaces all.
    cache.add(array_object, Dkey::integer(99), {4}, 10, cells);
    EXPECT_FALSE(cache.find(array_object, Dkey::integer(99), 10, found));
    cache.add(array_object, Dkey::integer(99), {6}, 10, cells);
    EXPECT_EQ(cache.find(array_object, Dkey::integer(99), 10, found), Epoch{6});
    EXPECT_FALSE(cache.find(array_object, Dkey::integer(99), 0, found));
    // Cells of an array that would fill the cache are not kept.
    cache.add(array_object, Dkey::integer(7), {6}, uint64_t{1} << 28, cells);
    EXPECT_FALSE(cache.find(array_object, Dkey::integer(7), uint64_t{1} << 28, found));
    EXPECT_LE(cache.bytes(), 20'000U);
}

TEST(CellCaches, TotalMemoryIsBounded) {
    CipherMemory memory;
    const std::vector<Cell> cells(CellCache::blocks_max, Cell{.format = 1});
    {
        std::list<CellCache> caches;
        for (int i = 0; i < 30; ++i) {
            CellCache& cache = caches.emplace_back(memory);
            for (uint64_t dkey_number = 0; dkey_number < 30; ++dkey_number) {
                cache.add(array_object, Dkey::integer(dkey_number), {5}, 0, cells);
                EXPECT_LE(memory.cells, CipherMemory::cells_max);
            }
        }
        EXPECT_GT(memory.cells, CipherMemory::cells_max / 2);
    }
    EXPECT_EQ(memory.cells, 0U);
}

TEST_P(CipherStoreTest, EqualBytesGetDifferentCiphertext) {
    const std::string text = pattern(4096, 1);
    ASSERT_TRUE(update(*cipher_, write(0, text)).has_value());
    fetch(memory_, 0, 4096);
    const std::string first = fetched_;
    ASSERT_TRUE(update(*cipher_, write(0, text)).has_value());
    fetch(memory_, 0, 4096);
    EXPECT_NE(fetched_, first);
}

TEST_P(CipherStoreTest, ChangedByteIsAnErrorThatNamesTheBlock) {
    const std::string text = pattern(4096 + 300, 1);
    ASSERT_TRUE(update(*cipher_, write(0, text)).has_value());
    const auto expect_bad = [this](uint64_t block, uint64_t end) {
        const FetchItem item = fetch(*cipher_, block * 4096, 50);
        ASSERT_FALSE(item.status.has_value());
        EXPECT_EQ(fetched_, std::string(50, 0));
        if (item.status.error().code == Code::corrupt) EXPECT_EQ(item.status.error().detail, end);
    };
    for (uint64_t at = 0; at < text.size(); at += at < 4000 ? 97 : 1) {
        flip(data_akey(), at, 0x10);
        expect_bad(at / 4096, at / 4096 * 4096 + 50);
        flip(data_akey(), at, 0x10);
    }
    for (uint64_t at = 0; at < 2 * sizeof(Cell); ++at) {
        // The store has no reserved bytes.
        if (GetParam() == Layout::seals && at % sizeof(Cell) >= seal_bytes) continue;
        flip(cells_akey(), at);
        expect_bad(at / sizeof(Cell), at / sizeof(Cell) * 4096 + 50);
        flip(cells_akey(), at);
    }
    EXPECT_EQ(text_of(0, text.size()), text);
    EXPECT_GT(cipher_->metrics().refused_blocks.value(), 400U);
}

// The blocks are correct. Only the size is older.
TEST_P(CipherStoreTest, ArrayGrowthDuringFetchIsNotDamage) {
    const std::string text = pattern(2 * block_bytes + 300, 1);
    ASSERT_TRUE(update(*cipher_, write(0, text)).has_value());
    for (const auto& [offset, length] : {std::pair<uint64_t, uint64_t>(10, text.size() - 10),
                                         std::pair<uint64_t, uint64_t>(block_bytes, block_bytes)}) {
        counted_.older_sizes = 1;
        counted_.older_size = block_bytes + 100;
        const FetchItem item = fetch(*cipher_, offset, length, true);
        ASSERT_TRUE(item.status.has_value());
        EXPECT_EQ(item.size, text.size());
        EXPECT_EQ(fetched_, text.substr(offset, length));
        EXPECT_TRUE(array_checksums_match(offset, as_bytes(fetched_), item.checksums));
        EXPECT_EQ(counted_.older_sizes, 0);
    }
    EXPECT_EQ(cipher_->metrics().refused_blocks.value(), 0U);
    // The number of attempts is bounded.
    counted_.older_sizes = 10;
    EXPECT_FALSE(fetch(*cipher_, 10, text.size() - 10).status.has_value());
    EXPECT_EQ(counted_.older_sizes, 8);
}

TEST_P(CipherStoreTest, SwappedBlocksAreDetected) {
    const std::string text = pattern(8192, 1);
    ASSERT_TRUE(update(*cipher_, write(0, text)).has_value());
    const std::string first_seal = fetch_sealed(0).seals, first = fetched_;
    const std::string second_seal = fetch_sealed(1).seals, second = fetched_;
    if (GetParam() == Layout::seals) {
        ASSERT_TRUE(put_sealed(0, second, second_seal).has_value());
        ASSERT_TRUE(put_sealed(1, first, first_seal).has_value());
    } else
        world_.run([](CipherStoreTest& self) -> Task<> {
            Transaction swap;
            std::vector<std::string> parts;
            for (const auto& [akey, unit] :
                 {std::pair(data_akey(), block_bytes), std::pair(cells_akey(), sizeof(Cell))}) {
                for (const uint64_t index : {0, 1}) {
                    std::string& part = parts.emplace_back(unit, 0);
                    FetchItem item{
                        .object = array_object,
                        .dkey = array_dkey,
                        .akey = akey,
                        .extent = {index * unit, unit},
                        .window = Window::local(std::as_writable_bytes(std::span(part)))};
                    EXPECT_TRUE(
                        co_await self.memory_.fetch(self.call_, self.container_, {&item, 1}));
                    swap.operations.push_back({.kind = Kind::write,
                                               .object = array_object,
                                               .dkey = array_dkey,
                                               .akey = akey,
                                               .extent = {(1 - index) * unit, unit}});
                }
            }
            for (size_t i = 0; i < parts.size(); ++i) {
                swap.operations[i].window = Window::local(as_bytes(parts[i]));
            }
            EXPECT_TRUE(co_await self.memory_.update(self.call_, self.container_, swap));
        }(*this));
    EXPECT_EQ(fetch(*cipher_, 0, 4096).status.error().code, Code::corrupt);
    EXPECT_EQ(fetch(*cipher_, 4096, 4096).status.error().code, Code::corrupt);
}

TEST_P(CipherStoreTest, OneArrayRestoredAloneIsDetected) {
    ASSERT_TRUE(update(*cipher_, write(0, pattern(4096, 1))).has_value());
    if (GetParam() == Layout::seals) {
        fetch_sealed(0);
        const std::string bytes = fetched_;
        ASSERT_TRUE(put_sealed(0, bytes, "").has_value());
        EXPECT_EQ(fetch(*cipher_, 0, 4096).status.error().code, Code::corrupt);
        return;
    }
    // Also a block that was never written looks different from one whose cell was removed.
    ASSERT_TRUE(update(memory_, {.kind = Kind::punch_akey,
                                 .object = array_object,
                                 .dkey = array_dkey,
                                 .akey = cells_akey()})
                    .has_value());
    EXPECT_EQ(fetch(*cipher_, 0, 4096).status.error().code, Code::corrupt);
    ASSERT_TRUE(
        update(
            memory_,
            {.kind = Kind::touch, .object = array_object, .dkey = array_dkey, .akey = cells_akey()})
            .has_value());
    EXPECT_EQ(fetch(*cipher_, 0, 4096).status.error().code, Code::corrupt);
}

TEST_P(CipherStoreTest, HolesAndRemovedBytesAreZeros) {
    const std::string text = pattern(3 * 4096, 1);
    ASSERT_TRUE(update(*cipher_, write(0, text)).has_value());
    ASSERT_TRUE(update(*cipher_, of_array(Kind::punch_extent, {100, 4096 + 200})).has_value());
    std::string expected = text;
    std::ranges::fill(expected.begin() + 100, expected.begin() + 100 + 4096 + 200, '\0');
    EXPECT_EQ(text_of(0, text.size()), expected);
    ASSERT_TRUE(update(*cipher_, of_array(Kind::set_size, {}, 8200)).has_value());
    ASSERT_TRUE(update(*cipher_, of_array(Kind::set_size, {}, 20000)).has_value());
    std::ranges::fill(expected.begin() + 8200, expected.end(), '\0');
    expected.resize(20000);
    EXPECT_EQ(text_of(0, 20000), expected);
    // Beyond the end nothing is punched, and what is before it stays readable.
    ASSERT_TRUE(update(*cipher_, of_array(Kind::set_size, {}, 100)).has_value());
    ASSERT_TRUE(update(*cipher_, of_array(Kind::punch_extent, {200, 5000})).has_value());
    EXPECT_EQ(text_of(0, 100), text.substr(0, 100));
    ASSERT_TRUE(update(*cipher_, of_array(Kind::set_size, {}, 20000)).has_value());
    // A hole of the store costs it nothing.
    EXPECT_EQ(fetch(*cipher_, 0, 1).size, 20000U);
}

TEST_P(CipherStoreTest, CallerChecksumsAreVerifiedAndOwnReturned) {
    const std::string text = pattern(5000, 1);
    Operation operation = write(100, text);
    const ConstBytes bytes = as_bytes(text);
    operation.checksums = {crc32c(bytes.first(3996)), crc32c(bytes.subspan(3996))};
    ASSERT_TRUE(update(*cipher_, operation).has_value());
    const FetchItem item = fetch(*cipher_, 100, 5000, /*forwarded=*/true);
    EXPECT_EQ(item.checksums, operation.checksums);
    ++operation.checksums[1];
    EXPECT_EQ(update(*cipher_, operation).error().code, Code::corrupt);
    EXPECT_EQ(text_of(100, 5000), text);
}

TEST_P(CipherStoreTest, UnsupportedUpdateIsRefused) {
    EXPECT_EQ(update(*cipher_, write(0, "x", {"other"})).error().code, Code::unsupported);
    Operation value = write(0, "x");
    value.kind = Kind::put;
    value.extent = {};
    EXPECT_EQ(update(*cipher_, value).error().code, Code::invalid);
    Operation remote = write(0, "x");
    remote.window.peer = 3;
    EXPECT_EQ(update(*cipher_, remote).error().code, Code::unsupported);
    // A value under another akey passes.
    value.akey = {"inode"};
    EXPECT_TRUE(update(*cipher_, value).has_value());
    EXPECT_EQ(fetch(*cipher_, 0, 1, false, {"inode"}).status, Result<>());
    EXPECT_EQ(fetched_, "x");
    fetch(memory_, 0, 1, false, {"inode"});
    EXPECT_EQ(fetched_, "x");
    world_.run([](CipherStoreTest& self) -> Task<> {
        Transaction twice;
        twice.operations = {write(0, "abc"), write(1, "x")};
        const auto done = co_await self.cipher_->update(self.call_, self.container_, twice);
        EXPECT_EQ(done.error().code, Code::unsupported);
        ListRequest akeys{
            .what = ListRequest::What::akeys, .object = array_object, .dkey = array_dkey};
        Transaction once;
        once.operations = {write(0, "abc")};
        EXPECT_TRUE(co_await self.cipher_->update(self.call_, self.container_, once));
        const auto listed = co_await self.cipher_->list(self.call_, self.container_, akeys);
        EXPECT_EQ(listed->entries.size(), 2U);  // data, inode
    }(*this));
}

TEST_P(CipherStoreTest, RepeatedUpdateWithOtherCiphertextIsDoneOnce) {
    world_.run([](CipherStoreTest& self) -> Task<> {
        const std::string text = pattern(4096, 1);
        Transaction transaction{
            .id = {.client = Uuid::make(self.world_.core().secrets()), .slot = 1, .sequence = 1}};
        transaction.operations = {write(0, text)};
        const auto first = co_await self.cipher_->update(self.call_, self.container_, transaction);
        const auto again = co_await self.cipher_->update(self.call_, self.container_, transaction);
        EXPECT_TRUE(first.has_value() && again.has_value());
        EXPECT_FALSE(first->replayed);
        EXPECT_TRUE(again->replayed);
    }(*this));
}

class SlowCipherStore : public CipherStoreTest {
  public:
    SlowCipherStore() : CipherStoreTest({.delay_max = std::chrono::microseconds(100)}) {}
};

// Many writers of two clients write different bytes in the same few blocks.
TEST_P(SlowCipherStore, ConcurrentWritersOfABlockLoseNothing) {
    const auto other = make_client();
    constexpr size_t each = 50;
    constexpr size_t writers = 200;
    const std::string text = pattern(each * writers, 3);
    world_.run([](SlowCipherStore& self, CipherStore& second, const std::string& all) -> Task<> {
        Nursery nursery(self.world_.core(), 16);
        for (size_t i = 0; i < writers; ++i) {
            CipherStore& store = i % 2 == 0 ? *self.cipher_ : second;
            co_await nursery.spawn([](SlowCipherStore& of, CipherStore& to, uint64_t at,
                                      std::string_view mine) -> Task<> {
                Transaction transaction;
                transaction.operations = {write(at, mine)};
                EXPECT_TRUE(co_await to.update(of.call_, of.container_, transaction));
            }(self, store, i * each, std::string_view(all).substr(i * each, each)));
        }
        co_await nursery.join();
    }(*this, *other, text));
    EXPECT_EQ(text_of(0, text.size()), text);
    EXPECT_GT(cipher_->metrics().conflicts.value() + other->metrics().conflicts.value(), 0U);
}

// Some programs do this to warm a cache.
TEST_P(SlowCipherStore, ReadsIntoSharedMemoryAreNotDamage) {
    const std::string text = pattern(16 * block_bytes, 1);
    ASSERT_TRUE(update(*cipher_, write(0, text)).has_value());
    world_.run([](SlowCipherStore& self) -> Task<> {
        AlignedBuffer memory(4 * block_bytes);
        Nursery nursery(self.world_.core(), 8);
        for (uint64_t i = 0; i < 100; ++i) {
            co_await nursery.spawn([](SlowCipherStore& of, Bytes into, uint64_t block) -> Task<> {
                auto item = object::fetch_item(array_object, array_dkey, data_akey(),
                                               block * block_bytes, into);
                EXPECT_TRUE(co_await of.cipher_->fetch(of.call_, of.container_, {&item, 1}));
                EXPECT_TRUE(item.status.has_value());
            }(self, memory.bytes(), i % 12));
        }
        co_await nursery.join();
    }(*this));
    EXPECT_EQ(cipher_->metrics().refused_blocks.value(), 0U);
}

// Readers see one version of a concurrent writer of whole blocks, never an error.
TEST_P(SlowCipherStore, ReaderSeesOneVersion) {
    const std::vector<std::string> versions = {pattern(4096, 1), pattern(4096, 2)};
    const auto reader = make_client();
    ASSERT_TRUE(update(*cipher_, write(0, versions[0])).has_value());
    world_.run([](SlowCipherStore& self, CipherStore& from,
                  const std::vector<std::string>& known) -> Task<> {
        Nursery nursery(self.world_.core(), 2);
        co_await nursery.spawn(
            [](SlowCipherStore& of, const std::vector<std::string>& both) -> Task<> {
                for (int i = 0; i < 200; ++i) {
                    Transaction transaction;
                    transaction.operations = {write(0, both[i % 2])};
                    EXPECT_TRUE(co_await of.cipher_->update(of.call_, of.container_, transaction));
                }
            }(self, known));
        for (int i = 0; i < 200; ++i) {
            std::string text(4096, 0);
            FetchItem item{.object = array_object,
                           .dkey = array_dkey,
                           .akey = data_akey(),
                           .extent = {0, 4096},
                           .window = Window::local(std::as_writable_bytes(std::span(text)))};
            EXPECT_TRUE(co_await from.fetch(self.call_, self.container_, {&item, 1}));
            EXPECT_TRUE(item.status.has_value());
            EXPECT_TRUE(text == known[0] || text == known[1]);
        }
        co_await nursery.join();
    }(*this, *reader, versions));
}

const auto layouts = testing::Values(Layout::seals, Layout::cells);
std::string layout_name(const testing::TestParamInfo<Layout>& layout) {
    return layout.param == Layout::seals ? "Seals" : "Cells";
}
INSTANTIATE_TEST_SUITE_P(Layouts, CipherStoreTest, layouts, layout_name);
INSTANTIATE_TEST_SUITE_P(Layouts, SlowCipherStore, layouts, layout_name);

}  // namespace
}  // namespace ros2s::cipher
