// A quick crash test: writers overwrite blocks and values, the machine or the process dies at a
// random device operation, the pool opens again. Every acknowledged write must survive, and nothing
// that was not written may appear. The large suite, with switched-off rules, is elsewhere.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "ros2s/runtime/nursery.h"
#include "test_support/engine.h"

namespace ros2s::engine {
namespace {

// The possible contents of one key: the acknowledged tag of the highest epoch, or one with an
// unknown outcome. Tag 0: absent.
struct Expected {
    uint64_t acknowledged = 0;
    uint64_t epoch = 0;
    std::vector<uint64_t> unknown;
};

// So little that blocks are reused again and again.
constexpr uint64_t journal_bytes = 128 << 10;
constexpr uint64_t device_bytes = 320 << 10;

struct Crash {
    Crash(uint64_t number, uint32_t groups)
        : seed(number), bench(number, 1 + number % 2, device_bytes) {
        bench.create_options.journal_bytes = journal_bytes;
        bench.options.groups_in_flight = groups;
        bench.options.memory_bytes = number % 3 == 0 ? 4 << 20 : 64 << 20;
    }
    uint64_t seed;
    Bench bench;
    object::ContainerId container{};
    std::map<uint64_t, Expected> keys;
    uint64_t tag = 0;
    uint64_t checked = 0;
};
constexpr uint64_t punched = uint64_t{1} << 62;  // a tag with this bit: the key was punched

// The seal of a block with this tag. Some keys have none.
std::string seal_of(uint64_t key, uint64_t tag) {
    return std::string(object::seal_bytes, key % 3 == 0 ? '\0' : static_cast<char>(tag));
}

object::Operation operation(uint64_t key, uint64_t tag, Bytes block) {
    // Odd keys hold single values, even ones a block of an array; key / 4 is the object.
    object::Operation op{.object = {1, key / 4}, .dkey = object::Dkey::integer(key)};
    op.akey = {"a"};
    if ((tag & punched) != 0) {
        op.kind = object::Operation::Kind::punch_akey;
        return op;
    }
    std::memset(block.data(), static_cast<int>(tag & 0xff), block.size());
    std::memcpy(block.data(), &tag, sizeof tag);
    op.kind = key % 2 == 1 ? object::Operation::Kind::put : object::Operation::Kind::write;
    const size_t size = key % 2 == 1 ? 64 : (key % 8 == 2 ? 1000 : block_bytes);
    op.extent = {0, size};
    op.window = object::Window::local(block.first(size));
    if (op.kind == object::Operation::Kind::write && key % 3 != 0) op.seals = seal_of(key, tag);
    return op;
}

Task<> writer(Crash& crash, uint64_t first_key, uint64_t rounds) {
    AlignedBuffer memory(2 * block_bytes);
    for (uint64_t round = 0; round < rounds; ++round) {
        object::Transaction transaction;
        std::vector<std::pair<uint64_t, uint64_t>> writes;
        Random& random = crash.bench.world.random();
        const uint64_t count = 1 + random.below(2);
        for (uint64_t i = 0; i < count; ++i) {
            // Half of them write a whole block that all writers share, without any order.
            const bool shared = random.one_in(2);
            const uint64_t key = shared ? 1000 + 4 * (2 * random.below(2) + i) : first_key + i;
            uint64_t tag = ++crash.tag;
            if (!shared && random.one_in(8)) tag |= punched;
            crash.keys[key].unknown.push_back(tag);
            writes.emplace_back(key, tag);
            transaction.operations.push_back(
                operation(key, tag, memory.bytes().subspan(i * block_bytes, block_bytes)));
        }
        const auto commit =
            co_await crash.bench.store->update(crash.bench.call, crash.container, transaction);
        if (!commit && commit.error().code != Code::no_space) co_return;
        for (const auto& [key, tag] : writes) {
            Expected& expected = crash.keys[key];
            std::erase(expected.unknown, tag);
            if (!commit || commit->epoch.value < expected.epoch) continue;
            expected.epoch = commit->epoch.value;
            expected.acknowledged = tag;
        }
    }
}

Task<> check(Crash& crash) {
    for (auto& [key, expected] : crash.keys) {
        AlignedBuffer block(block_bytes);
        object::FetchItem item{.object = {1, key / 4},
                               .dkey = object::Dkey::integer(key),
                               .akey = {"a"},
                               .extent = {0, block_bytes},
                               .window = object::Window::local(block.bytes()),
                               .wants_seals = true};
        const auto fetched =
            co_await crash.bench.store->fetch(crash.bench.call, crash.container, {&item, 1});
        EXPECT_TRUE(fetched.has_value());
        uint64_t found = 0;
        if (item.status) {
            std::memcpy(&found, block.data(), sizeof found);
            EXPECT_EQ(item.seals, item.is_value ? "" : seal_of(key, found))
                << "seed " << crash.seed << " key " << key;
        } else {
            EXPECT_EQ(item.status.error().code, Code::not_found)
                << describe(item.status.error()) << " key " << key;
        }
        bool fits = false;
        const auto may_be = [&](uint64_t tag) {
            fits = fits || found == tag || (found == 0 && (tag & punched) != 0);
        };
        may_be(expected.acknowledged);
        for (const uint64_t tag : expected.unknown) may_be(tag);
        EXPECT_TRUE(fits) << "seed " << crash.seed << " key " << key << " holds " << found
                          << ", acknowledged " << expected.acknowledged;
        expected = {.acknowledged = found, .epoch = item.epoch.value, .unknown = {}};
        ++crash.checked;
    }
}

// Opens the pool and lets writers run until the machine or the process dies after `left` more
// device operations. It may still be recovering then.
Task<> life(Crash& crash, uint64_t left, bool power) {
    Bench& bench = crash.bench;
    bool dead = false;
    const auto die = [&] {
        dead = true;
        for (auto& disk : bench.disks) power ? disk->power_loss() : disk->process_crash();
        bench.index_medium.crash(bench.world.random());
    };
    for (auto& disk : bench.disks) {
        disk->set_hook([&](const device::SimOperation&) {
            if (!dead && left-- == 0) die();
            return device::SimFault::none;
        });
    }
    const Result<> opened = co_await bench.open();
    if (opened) {
        EXPECT_EQ(bench.store->read_only_reason(), "") << "seed " << crash.seed;
        if (!dead) {
            Nursery nursery(bench.world.core(), 8);
            for (uint64_t w = 0; w < 8; ++w) {
                co_await nursery.spawn(writer(crash, w * 3, 1 + bench.world.random().below(60)));
            }
            co_await nursery.join();
        }
        if (!dead) die();
        static_cast<void>(co_await bench.close());
    } else {
        EXPECT_TRUE(dead) << "seed " << crash.seed << ": " << bench.report.text();
    }
    for (auto& disk : bench.disks) disk->set_hook(nullptr);
}

// Before an opening for writing changes the media.
Task<> expect_sound(Crash& crash) {
    Bench& bench = crash.bench;
    bench.options.read_only = true;
    const Result<> opened = co_await bench.open();
    bench.options.read_only = false;
    EXPECT_TRUE(opened.has_value()) << "seed " << crash.seed << ": " << bench.report.text();
    if (!opened) co_return;
    CheckOptions options{.data = true};
    options.problem = options.unjudged = [&](object::ContainerId, const std::string& sentence) {
        ADD_FAILURE() << "seed " << crash.seed << ": " << sentence;
    };
    EXPECT_TRUE(co_await bench.store->check(bench.call, options));
    EXPECT_TRUE(co_await bench.close());
}

Task<> crash_and_check(Crash& crash) {
    Random& random = crash.bench.world.random();
    co_await life(crash, 30 + random.below(200), random.one_in(2));
    // The next openings crash early.
    while (random.one_in(2)) co_await life(crash, random.below(60), random.one_in(2));
    co_await expect_sound(crash);
    const Result<> again = co_await crash.bench.open();
    EXPECT_TRUE(again.has_value()) << "seed " << crash.seed << ": " << crash.bench.report.text();
    if (!again) co_return;
    EXPECT_EQ(crash.bench.store->read_only_reason(), "") << "seed " << crash.seed;
    co_await check(crash);
    EXPECT_TRUE(co_await crash.bench.close());
}

Task<> lives(Crash& crash) {
    const Result<> created = co_await crash.bench.create();
    EXPECT_TRUE(created.has_value()) << crash.bench.report.text();
    EXPECT_TRUE(co_await crash.bench.open()) << crash.bench.report.text();
    const auto container =
        co_await crash.bench.store->create_container(crash.bench.call, {.label = "c"});
    EXPECT_TRUE(container.has_value());
    crash.container = container->id;
    EXPECT_TRUE(co_await crash.bench.close());
    for (int i = 0; i < 4 && !testing::Test::HasFailure(); ++i) co_await crash_and_check(crash);
}

uint64_t runs() {
    const char* const text = std::getenv("ROS2STORE_TEST_CRASH_RUNS");
    return text == nullptr ? 40 : std::strtoull(text, nullptr, 10);
}

class CrashRecovery : public testing::TestWithParam<uint32_t> {};
TEST_P(CrashRecovery, AcknowledgedWritesSurvive) {
    for (uint64_t seed = 1; seed <= runs() && !HasFailure(); ++seed) {
        Crash crash(seed, GetParam());
        crash.bench.world.run(lives(crash));
        EXPECT_GT(crash.checked, 0U);
    }
}
INSTANTIATE_TEST_SUITE_P(GroupsInFlight, CrashRecovery, testing::Values(1, 3));

}  // namespace
}  // namespace ros2s::engine
