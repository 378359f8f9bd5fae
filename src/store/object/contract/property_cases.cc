// Random transactions against a simple model: flat strings in a map.
#include <algorithm>
#include <map>
#include <string_view>

#include "probe.h"

namespace ros2s::object::contract {
namespace {

struct ModelEntry {
    bool is_array = false;
    std::string bytes;
    Epoch epoch{};
};
using Model = std::map<AkeyAddress, ModelEntry>;

// False if the operation is of the wrong kind.
bool apply(Model& model, const Operation& operation, Epoch epoch) {
    using Kind = Operation::Kind;
    const AkeyAddress address{operation.object, operation.dkey.bytes, operation.akey.bytes};
    const auto punch_if = [&](auto matches) {
        std::erase_if(model, [&](const auto& entry) {
            return entry.first.object == address.object && matches(entry.first);
        });
        return true;
    };
    switch (operation.kind) {
        case Kind::punch_object: return punch_if([](const AkeyAddress&) { return true; });
        case Kind::punch_dkey:
            return punch_if([&](const AkeyAddress& p) { return p.dkey == address.dkey; });
        case Kind::punch_akey: return punch_if([&](const AkeyAddress& p) { return p == address; });
        case Kind::punch_dkeys:
            return punch_if([&](const AkeyAddress& p) {
                const std::string& end = operation.dkey_end.bytes;
                return p.dkey >= address.dkey && (end.empty() || p.dkey < end);
            });
        default: break;
    }
    const auto found = model.find(address);
    const bool wants_array = operation.kind != Kind::put;
    if (found == model.end() && operation.kind == Kind::punch_extent) return true;
    if (found != model.end() && found->second.is_array != wants_array) return false;
    ModelEntry& entry = model[address];
    entry.is_array = wants_array;
    entry.epoch = epoch;
    const std::string payload(as_text(operation.window.bytes()));
    if (operation.kind == Kind::put) entry.bytes = payload;
    if (operation.kind == Kind::write) overlay(entry.bytes, operation.extent.offset, payload);
    if (operation.kind == Kind::set_size) entry.bytes.resize(operation.size, '\0');
    if (operation.kind == Kind::punch_extent) {
        const uint64_t end = std::min<uint64_t>(operation.extent.end(), entry.bytes.size());
        for (uint64_t i = operation.extent.offset; i < end; ++i) entry.bytes[i] = '\0';
    }
    return true;
}

class Generator {
  public:
    explicit Generator(uint64_t seed) : random_(seed) {}
    Random& random() { return random_; }

    AkeyAddress address() {
        return {{1, random_.below(3)},
                "d" + std::to_string(random_.below(4)),
                random_.one_in(2) ? "array" : "value"};
    }
    // Mostly near the start; sometimes over the border of a 1 MiB segment.
    uint64_t offset() {
        if (random_.one_in(10)) return (1 << 20) - 5000 + random_.below(10'000);
        return random_.one_in(3) ? random_.below(4) * block_bytes : random_.below(20'000);
    }
    uint64_t length() {
        return random_.one_in(3) ? (1 + random_.below(4)) * block_bytes : random_.below(9000);
    }
    void operation(Batch& batch) {
        const AkeyAddress at = address();
        const uint64_t kind = random_.below(20);
        // Sometimes the wrong kind for the akey.
        const bool is_array = (at.akey == "array") != random_.one_in(100);
        if (kind == 0) {
            batch.punch_object(at.object);
        } else if (kind == 1) {
            batch.punch_dkey(at.object, at.dkey);
        } else if (kind == 2) {
            batch.punch_dkeys(at.object, at.dkey, random_.one_in(2) ? "" : "d4");
        } else if (kind == 3) {
            batch.punch_akey(at);
        } else if (!is_array) {
            batch.put(at, pattern(random_.next(), random_.below(6000)));
        } else if (kind == 4) {
            batch.touch(at);
        } else if (kind <= 6) {
            batch.set_size(at, offset());
        } else if (kind <= 9) {
            batch.punch_extent(at, {offset(), length()});
        } else {
            batch.write(at, offset(), pattern(random_.next(), length()));
        }
    }

  private:
    Random random_;
};

Task<> compare(Probe& probe, const Model& model, AkeyAddress address) {
    const auto found = model.find(address);
    if (found == model.end()) {
        co_await probe.expect_absent(address);
    } else if (found->second.is_array) {
        co_await probe.expect_array(address, found->second.bytes);
    } else {
        co_await probe.expect_value(address, found->second.bytes);
    }
    if (found == model.end()) co_return;
    // A value is fetched whole. Of an array the end is enough here: many are as long as a segment.
    const std::string& bytes = found->second.bytes;
    const uint64_t from =
        found->second.is_array ? bytes.size() - std::min<uint64_t>(bytes.size(), 5000) : 0;
    const Fetched got = co_await probe.fetch(address, {from, bytes.size() - from});
    EXPECT_EQ(got.epoch, found->second.epoch);
    EXPECT_TRUE(got.bytes == std::string_view(bytes).substr(from)) << "other bytes at the end";
}

Task<> compare_all(Probe& probe, const Model& model) {
    for (uint64_t object = 0; object < 3; ++object) {
        for (const char* akey : {"array", "value"}) {
            std::vector<std::string> dkeys;
            for (uint64_t d = 0; d < 4; ++d) {
                const AkeyAddress address{{1, object}, "d" + std::to_string(d), akey};
                co_await compare(probe, model, address);
                if (model.contains(address)) dkeys.push_back(address.dkey);
            }
            const auto listed = co_await probe.list_all({.what = ListRequest::What::dkeys,
                                                         .object = {1, object},
                                                         .akey = {akey},
                                                         .limit = 2});
            EXPECT_TRUE(std::ranges::equal(listed, dkeys, {}, &ListEntry::key));
            const QueryReply query = co_await probe.query({1, object}, akey);
            EXPECT_EQ(query.exists, !dkeys.empty());
            if (dkeys.empty()) continue;
            EXPECT_EQ(query.highest_dkey.bytes, dkeys.back());
            EXPECT_EQ(query.size, model.at({{1, object}, dkeys.back(), akey}).bytes.size());
        }
    }
}

Task<> run_seed(Probe& probe, uint64_t seed, int steps, int reopen_every) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Generator generator(seed);
    Model model;
    for (int step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
        SCOPED_TRACE(testing::Message() << "step " << step);
        Batch batch;
        const uint64_t count = 1 + generator.random().below(4);
        for (uint64_t i = 0; i < count; ++i) generator.operation(batch);
        const auto commit =
            co_await probe.store().update(probe.call(), probe.container(), batch.transaction());
        // Only a refused transaction needs a copy of the model, which holds some 10 MiB.
        Model unchanged;
        if (!commit) unchanged = model;
        bool fits = true;
        for (const Operation& operation : batch.transaction().operations) {
            fits = fits && apply(model, operation, commit ? commit->epoch : Epoch{});
        }
        EXPECT_EQ(commit.has_value(), fits);
        if (!commit) EXPECT_EQ(describe(commit.error().code), describe(Code::invalid));
        if (!commit) model = std::move(unchanged);
        co_await compare(probe, model, generator.address());
        if (reopen_every != 0 && step % reopen_every == reopen_every - 1) {
            const bool reopened = co_await probe.setup().reopen();
            if (!reopened) co_return;
        }
    }
    co_await compare_all(probe, model);
    co_await probe.must(Batch().punch_object({1, 0}).punch_object({1, 1}).punch_object({1, 2}));
}

// Cuts at the border of a 1 MiB segment. An engine may have lost the segment on one side.
Task<> cuts_at_segments_after_reopening(Probe& probe) {
    constexpr uint64_t mib = 1 << 20;
    const AkeyAddress address{{1, 1}, "d", "array"};
    const Extent punches[] = {
        {mib - 1000, 2000},     {2 * mib - 1000, 2000}, {2 * mib - 5000, 10'000},  {2 * mib, 1000},
        {3 * mib - 1000, 1000}, {mib + 1, 2 * mib},     {3 * mib - 10'000, 10'001}};
    const std::string bytes = pattern(1, 3 * mib + 50'000);
    for (const Extent extent : punches) {
        SCOPED_TRACE(testing::Message() << "[" << extent.offset << ", +" << extent.length << ")");
        std::string model = bytes;
        co_await probe.must(Batch().write(address, 0, bytes));
        if (!co_await probe.setup().reopen()) co_return;
        co_await probe.must(Batch().punch_extent(address, extent));
        std::fill_n(model.begin() + static_cast<ptrdiff_t>(extent.offset), extent.length, '\0');
        co_await probe.expect_array(address, model);
    }
    for (const uint64_t size : {3 * mib - 1000, 2 * mib + 1, 2 * mib - 1, mib - 4000}) {
        SCOPED_TRACE(size);
        std::string model = bytes.substr(0, size);
        model.resize(size + 10'000, '\0');
        co_await probe.must(Batch().write(address, 0, bytes));
        if (!co_await probe.setup().reopen()) co_return;
        co_await probe.must(Batch().set_size(address, size));
        co_await probe.must(Batch().set_size(address, size + 10'000));
        co_await probe.expect_array(address, model);
    }
}

Task<> agrees_with_the_model(Probe& probe) {
    const PoolSpace before = co_await probe.space();
    for (uint64_t seed = 1; seed <= 8 && !testing::Test::HasFailure(); ++seed) {
        co_await run_seed(probe, seed, 150, 0);
    }
    const PoolSpace after = co_await probe.space();
    EXPECT_EQ(before.free_bytes, after.free_bytes);
}
Task<> agrees_with_the_model_after_reopening(Probe& probe) {
    for (uint64_t seed = 101; seed <= 103 && !testing::Test::HasFailure(); ++seed) {
        co_await run_seed(probe, seed, 100, 20);
    }
}

}  // namespace

std::vector<Case> property_cases() {
    return {
        {"CutAtASegmentBorderSurvivesReopening", cuts_at_segments_after_reopening, {}, is_durable},
        {"RandomUseAgreesWithAModel", agrees_with_the_model, {}, has_transactions},
        {"RandomUseAgreesWithAModelAfterReopening",
         agrees_with_the_model_after_reopening,
         {},
         is_durable}};
}

}  // namespace ros2s::object::contract
