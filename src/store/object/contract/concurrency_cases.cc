// Many requests in flight: on different keys, on one key, on one block.
#include <algorithm>

#include "probe.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::object::contract {
namespace {

constexpr size_t workers = 16;

AkeyAddress chunk(uint64_t n) { return {one, Dkey::integer(n).bytes, "data"}; }

Task<> write_and_read_own(Probe& probe, uint64_t worker) {
    Random random(worker + 1);
    std::string model;
    for (uint64_t i = 0; i < 40; ++i) {
        const uint64_t offset = random.below(30'000);
        const std::string bytes = pattern(worker * 1000 + i, 1 + random.below(9000));
        overlay(model, offset, bytes);
        co_await probe.must(Batch().write(chunk(worker), offset, bytes));
        if (!random.one_in(4)) continue;
        const Fetched got = co_await probe.fetch_once(chunk(worker), {0, model.size()});
        EXPECT_TRUE(got.bytes == model) << "worker " << worker << ", write " << i;
    }
    co_await probe.expect_array(chunk(worker), model);
}
Task<> different_keys(Probe& probe) {
    Nursery nursery(probe.reactor(), workers);
    for (uint64_t i = 0; i < workers; ++i) co_await nursery.spawn(write_and_read_own(probe, i));
    co_await nursery.join();
}

Task<> fill_slice(Probe& probe, uint64_t worker) {
    // 100 bytes of its own in each of ten rounds, all within one block or two.
    for (uint64_t round = 0; round < 10; ++round) {
        co_await probe.must(Batch().write(chunk(0), (round * workers + worker) * 100,
                                          pattern(round * workers + worker, 100)));
    }
}
Task<> slices_of_the_same_blocks(Probe& probe) {
    Nursery nursery(probe.reactor(), workers);
    for (uint64_t i = 0; i < workers; ++i) co_await nursery.spawn(fill_slice(probe, i));
    co_await nursery.join();
    std::string model;
    for (uint64_t i = 0; i < 10 * workers; ++i) model += pattern(i, 100);
    co_await probe.expect_array(chunk(0), model);
}

// Every write fills the extent with one byte; a fetch that sees two is torn.
Task<> fill_whole(Probe& probe, uint64_t worker, size_t size) {
    const int rounds = size > 100'000 ? 4 : 20;  // large ones take most of the suite's time
    for (int i = 0; i < rounds; ++i) {
        co_await probe.must(
            Batch().write(chunk(0), 0, std::string(size, static_cast<char>('a' + worker))));
    }
}
Task<> watch(Probe& probe, size_t size, const bool& stop) {
    Epoch last{};
    bool aligned = false;
    while (!stop) {
        aligned = !aligned;
        const Fetched got = co_await probe.fetch_once(chunk(0), {0, size}, aligned);
        EXPECT_TRUE(got.status.has_value()) << describe(got.status.error());
        EXPECT_EQ(got.bytes.find_first_not_of(got.bytes[0]), std::string::npos) << "a torn read";
        EXPECT_GE(got.epoch, last) << "a read went back in time";
        last = got.epoch;
        co_await yield(probe.reactor());
    }
}
Task<> reads_are_whole_while_others_write(Probe& probe) {
    for (const size_t size : {size_t{100}, size_t{4096}, size_t{40'000}, size_t{1 << 20} + 5000}) {
        co_await probe.must(Batch().write(chunk(0), 0, std::string(size, 'z')));
        bool stop = false;
        Nursery readers(probe.reactor(), 4);
        for (int i = 0; i < 4; ++i) co_await readers.spawn(watch(probe, size, stop));
        Nursery writers(probe.reactor(), 8);
        for (uint64_t i = 0; i < 8; ++i) co_await writers.spawn(fill_whole(probe, i, size));
        co_await writers.join();
        stop = true;
        co_await readers.join();
    }
}

Task<> add_one(Probe& probe, int times) {
    const AkeyAddress counter{one, "counter", "value"};
    for (int done = 0; done < times;) {
        const Fetched got = co_await probe.fetch_once(counter, {0, 20});
        const uint64_t n = got.status ? std::stoull(got.bytes.substr(0, got.size)) : 0;
        const auto commit = co_await probe.update(
            Batch().epoch_equals(counter, got.epoch).put(counter, std::to_string(n + 1)));
        if (commit) {
            ++done;
        } else {
            EXPECT_EQ(commit.error(), (Error{.code = Code::condition_failed}));
        }
    }
}
Task<> conditions_exclude_each_other(Probe& probe) {
    Nursery nursery(probe.reactor(), workers);
    for (size_t i = 0; i < workers; ++i) co_await nursery.spawn(add_one(probe, 10));
    co_await nursery.join();
    co_await probe.expect_value({one, "counter", "value"}, std::to_string(10 * workers));
}

// rmdir against create: the directory is removed only while it is empty, and then nothing is
// created in it.
Task<> create_entry(Probe& probe, uint64_t n, int& created) {
    const AkeyAddress root{one, "dir", "inode"};
    const auto commit = co_await probe.update(
        Batch().exists(root).put({{9, 9}, "entry" + std::to_string(n), "entry"}, "x"));
    if (commit) ++created;
}
Task<> remove_directory(Probe& probe, bool& removed) {
    const AkeyAddress root{one, "dir", "inode"};
    const auto commit =
        co_await probe.update(Batch().exists(root).no_dkeys({9, 9}, "entry").punch_akey(root));
    removed = commit.has_value();
}
Task<> rmdir_and_create_exclude_each_other(Probe& probe) {
    int rounds_removed = 0;
    for (uint64_t round = 0; round < 40; ++round) {
        co_await probe.must(Batch().put({one, "dir", "inode"}, "d").punch_object({9, 9}));
        int created = 0;
        bool removed = false;
        // If payload slows creates down, rmdir would win each round: here it comes late.
        if (round % 5 == 4) co_await create_entry(probe, 4, created);
        Nursery nursery(probe.reactor(), 8);
        for (uint64_t i = 0; i < 4; ++i) {
            if (i == round % 5) co_await nursery.spawn(remove_directory(probe, removed));
            co_await nursery.spawn(create_entry(probe, i, created));
        }
        if (round % 5 == 4) co_await nursery.spawn(remove_directory(probe, removed));
        co_await nursery.join();
        EXPECT_EQ(removed, created == 0);
        const QueryReply query = co_await probe.query({9, 9}, "entry");
        EXPECT_EQ(query.exists, !removed);
        rounds_removed += removed ? 1 : 0;
    }
    EXPECT_LT(rounds_removed, 40);
}

// A condition on a whole dkey, while a change of the object is in flight: only the first holds.
Task<> count_success(Probe& probe, Batch batch, int& succeeded) {
    const auto commit = co_await probe.update(std::move(batch));
    if (commit) {
        ++succeeded;
    } else {
        EXPECT_EQ(commit.error(), (Error{.code = Code::condition_failed}));
    }
}
Task<> conditions_on_a_dkey_exclude_each_other(Probe& probe) {
    const AkeyAddress dkey{one, "dkey", ""};
    const AkeyAddress value{one, "dkey", "value"};
    for (int round = 0; round < 10; ++round) {
        for (const bool makes : {true, false}) {
            int first = 0, succeeded = 0;
            Nursery nursery(probe.reactor(), workers + 1);
            co_await nursery.spawn(
                count_success(probe, Batch().put({one, "other", "value"}, "x"), first));
            for (size_t i = 0; i < workers; ++i) {
                co_await nursery.spawn(
                    count_success(probe,
                                  makes ? Batch().absent(dkey).put(value, std::to_string(i))
                                        : Batch().exists(dkey).punch_dkey(one, "dkey"),
                                  succeeded));
            }
            co_await nursery.join();
            EXPECT_EQ(first, 1);
            EXPECT_EQ(succeeded, 1) << (makes ? "absent" : "exists") << ", round " << round;
        }
        co_await probe.expect_absent(value);
    }
}

struct Acknowledged {
    Epoch before_call;  // the greatest that had returned when it was called
    Epoch epoch;
};
Task<> note_epochs(Probe& probe, uint64_t worker, Epoch& greatest, std::vector<Acknowledged>& all) {
    for (uint64_t i = 0; i < 20; ++i) {
        const Epoch before = greatest;
        const Commit commit =
            co_await probe.must(Batch().write(chunk((worker + i) % 5), 0, pattern(i, 3000)));
        greatest = std::max(greatest, commit.epoch);
        all.push_back({before, commit.epoch});
    }
}
Task<> epochs_order_what_follows_each_other(Probe& probe) {
    Epoch greatest{};
    std::vector<Acknowledged> all;
    Nursery nursery(probe.reactor(), workers);
    for (uint64_t i = 0; i < workers; ++i) {
        co_await nursery.spawn(note_epochs(probe, i, greatest, all));
    }
    co_await nursery.join();
    std::vector<Epoch> epochs;
    for (const Acknowledged& each : all) {
        EXPECT_GT(each.epoch, each.before_call);
        epochs.push_back(each.epoch);
    }
    std::ranges::sort(epochs);
    EXPECT_TRUE(std::ranges::adjacent_find(epochs) == epochs.end()) << "an epoch was given twice";
}

// Pairs of keys over two objects, always written together in different orders: a store that locks
// in the order of the request would deadlock here.
Task<> write_pair(Probe& probe, uint64_t worker) {
    Random random(worker + 100);
    for (uint64_t i = 0; i < 30; ++i) {
        const AkeyAddress a{{1, random.below(3)}, "a", "v"};
        const AkeyAddress b{{1, random.below(3)}, "b", "v"};
        const std::string bytes = std::to_string(worker) + "-" + std::to_string(i);
        if (random.one_in(2)) {
            co_await probe.must(Batch().put(a, bytes).put(b, bytes));
        } else {
            co_await probe.must(Batch().put(b, bytes).exists(b).put(a, bytes).condition(
                Condition::Kind::exists, a));
        }
    }
}
Task<> no_deadlock(Probe& probe) {
    Batch fill;
    for (uint64_t i = 0; i < 3; ++i) fill.put({{1, i}, "a", "v"}, "").put({{1, i}, "b", "v"}, "");
    co_await probe.must(std::move(fill));
    Nursery nursery(probe.reactor(), workers);
    for (uint64_t i = 0; i < workers; ++i) co_await nursery.spawn(write_pair(probe, i));
    co_await nursery.join();
}

}  // namespace

std::vector<Case> concurrency_cases() {
    return {
        {"WritesToDifferentKeysSucceed", different_keys},
        {"WritesToPartsOfTheSameBlockSucceed", slices_of_the_same_blocks},
        {"ReadDuringWritesIsWhole", reads_are_whole_while_others_write},
        {"ConditionsExcludeEachOther", conditions_exclude_each_other, {}, has_conditions},
        {"ConditionsOnADkeyExcludeEachOther",
         conditions_on_a_dkey_exclude_each_other,
         {},
         has_conditions},
        {"RmdirAndCreateExcludeEachOther", rmdir_and_create_exclude_each_other, {}, has_conditions},
        {"EpochsFollowTheOrderOfUpdates", epochs_order_what_follows_each_other},
        {"OppositeLockOrdersDoNotDeadlock", no_deadlock, {}, has_transactions}};
}

}  // namespace ros2s::object::contract
