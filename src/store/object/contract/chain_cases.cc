// Chains: items of objects that earlier items found, in one request. The records here have, as a
// directory's entry would, a type in byte 0 and the low word of an object from byte 8 on.
#include <cstring>
#include <deque>

#include "probe.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::object::contract {
namespace {

constexpr uint64_t chained_high = 9;

AkeyAddress record_place(uint64_t low) { return {{chained_high, low}, "d", "record"}; }
AkeyAddress chained_data(uint64_t low) { return {{chained_high, low}, "0", "data"}; }

std::string record_to(char type, uint64_t low) {
    std::string bytes(16, '.');
    bytes[0] = type;
    std::memcpy(bytes.data() + 8, &low, sizeof low);
    return bytes;
}

// A chain with memory for each item's bytes.
class Chain {
  public:
    // Of `object`, or of the one that the item `from` found at `offset`.
    Chain& fetch(ObjectId object, uint32_t from = Link::Reference::none, uint32_t offset = 8,
                 std::string akey = "record", size_t bytes = 16) {
        std::string& memory = memory_.emplace_back(bytes, '\xee');
        items_.push_back({.object = object,
                          .dkey = {akey == "record" ? "d" : "0"},
                          .akey = {std::move(akey)},
                          .extent = {0, bytes},
                          .window = Window::local(std::as_writable_bytes(std::span(memory)))});
        links_.push_back({.object = {from, offset}});
        return *this;
    }
    Chain& query(ObjectId object, uint32_t from = Link::Reference::none, uint32_t offset = 8) {
        memory_.emplace_back();
        items_.push_back({.object = object, .akey = {"data"}});
        links_.push_back({.kind = Link::Kind::query, .object = {from, offset}});
        return *this;
    }
    // Of the last item.
    Chain& pins() {
        links_.back().kind = Link::Kind::pin;
        return *this;
    }
    Chain& when(uint32_t item, uint32_t offset, uint8_t mask, char value) {
        links_.back().when = {item, offset};
        links_.back().mask = mask;
        links_.back().value = static_cast<uint8_t>(value);
        return *this;
    }

    Task<Result<>> run(Probe& probe, const Holder& by = {}) {
        return probe.store().fetch_chain(probe.call(), probe.container(), by, items_, links_);
    }
    Task<> must(Probe& probe, Holder by = {}) {
        const Result<> done = co_await run(probe, by);
        EXPECT_TRUE(done) << describe(done.error());
    }
    Task<> refused(Probe& probe, Code code) {
        EXPECT_EQ(co_await run(probe), Result<>(fail(code)));
        for (const std::string& memory : memory_) {
            EXPECT_EQ(memory, std::string(memory.size(), '\xee'));
        }
    }
    [[nodiscard]] const FetchItem& item(size_t i) const { return items_[i]; }
    [[nodiscard]] const Link& link(size_t i) const { return links_[i]; }
    [[nodiscard]] const std::string& bytes(size_t i) const { return memory_[i]; }
    [[nodiscard]] Result<> status(size_t i) const { return items_[i].status; }

  private:
    std::deque<std::string> memory_;
    std::vector<FetchItem> items_;
    std::vector<Link> links_;
};

const Result<> missing = fail(Code::not_found);
const Result<> senseless = fail(Code::invalid);
constexpr ObjectId first_object{chained_high, 1};
constexpr ObjectId found_object{chained_high, 0};

Task<> a_chain_follows_what_it_finds(Probe& probe) {
    const Commit commit = co_await probe.must(Batch()
                                                  .put(record_place(1), record_to('d', 2))
                                                  .put(record_place(2), record_to('d', 3))
                                                  .put(record_place(3), record_to('f', 0))
                                                  .write(chained_data(3), 0, "contents"));
    Chain chain;
    chain.fetch(first_object).fetch(found_object, 0).fetch(found_object, 1).query(found_object, 1);
    chain.fetch(found_object, 1, 8, "data", 8);
    co_await chain.must(probe);
    EXPECT_EQ(chain.bytes(0), record_to('d', 2));
    EXPECT_EQ(chain.bytes(1), record_to('d', 3));
    EXPECT_EQ(chain.bytes(2), record_to('f', 0));
    EXPECT_EQ(chain.bytes(4), "contents");
    EXPECT_EQ(chain.item(2).object, (ObjectId{chained_high, 3}));
    EXPECT_EQ(chain.item(2).epoch, commit.epoch);
    EXPECT_EQ(chain.item(2).checksums.size(), 1U);
    const QueryReply& facts = chain.link(3).facts;
    EXPECT_TRUE(facts.exists);
    EXPECT_EQ(facts.size, 8U);
    EXPECT_EQ(facts.highest_dkey.bytes, "0");
    EXPECT_EQ(facts.last_epoch, commit.epoch);
    EXPECT_EQ(facts.bytes_used, (co_await probe.query({chained_high, 3}, "data")).bytes_used);
    // Nothing is left over from before.
    co_await probe.must(Batch().punch_object({chained_high, 3}));
    co_await chain.must(probe);
    EXPECT_EQ(chain.status(2), missing);
    EXPECT_FALSE(chain.link(3).facts.exists);
    EXPECT_EQ(chain.status(4), missing);
}

Task<> a_chain_ends_where_something_is_missing(Probe& probe) {
    co_await probe.must(Batch().put(record_place(1), record_to('d', 2)));
    Chain chain;
    chain.fetch(first_object).fetch(found_object, 0).fetch(found_object, 1).query(found_object, 2);
    co_await chain.must(probe);
    EXPECT_TRUE(chain.status(0));
    for (const size_t i : {1U, 2U, 3U}) EXPECT_EQ(chain.status(i), missing) << i;
    // A query of an object without data finds nothing.
    Chain empty;
    empty.fetch(first_object).query(found_object, 0);
    co_await empty.must(probe);
    EXPECT_TRUE(empty.status(1));
    EXPECT_FALSE(empty.link(1).facts.exists);
}

Task<> an_item_may_depend_on_a_byte(Probe& probe) {
    co_await probe.must(Batch().put(record_place(1), record_to('f', 2)).put(record_place(2), "x"));
    Chain chain;
    chain.fetch(first_object);
    chain.fetch(found_object, 0).when(0, 0, 0xff, 'f');
    chain.fetch(found_object, 0).when(0, 0, 0xff, 'd');
    chain.query(found_object, 0).when(0, 0, 0xf0, 'f' & 0x70);
    chain.query(found_object, 0).when(0, 0, 0xf0, 'f');  // has bits that the mask has not
    chain.fetch({chained_high, 2}).when(0, 16, 0xff, 'f');
    co_await chain.must(probe);
    EXPECT_EQ(chain.bytes(1).substr(0, 1), "x");
    EXPECT_EQ(chain.status(2), missing);
    EXPECT_TRUE(chain.status(3));
    EXPECT_EQ(chain.status(4), missing);
    EXPECT_EQ(chain.status(5), senseless);  // beyond the value's end
}

Task<> references_are_to_bytes_of_values(Probe& probe) {
    co_await probe.must(Batch()
                            .put(record_place(1), record_to('d', 2))
                            .write(chained_data(1), 0, "an array, long"));
    Chain chain;
    chain.fetch(first_object).fetch(first_object, Link::Reference::none, 0, "data", 14);
    chain.fetch(found_object, 1, 0);           // of an array
    chain.fetch(found_object, 0, 9);           // the last byte is missing
    chain.fetch(found_object, 0, UINT32_MAX);  // far beyond
    chain.query(found_object, 0, 16);
    co_await chain.must(probe);
    EXPECT_TRUE(chain.status(1));
    for (const size_t i : {2U, 3U, 4U, 5U}) EXPECT_EQ(chain.status(i), senseless) << i;
    // A value that does not fit was not fetched.
    Chain narrow;
    narrow.fetch(first_object, Link::Reference::none, 0, "record", 15).fetch(found_object, 0, 0);
    co_await narrow.must(probe);
    EXPECT_EQ(narrow.status(0), Result<>(fail(Code::too_small, 16)));
    EXPECT_EQ(narrow.status(1), missing);
}

Task<> senseless_chains_are_refused(Probe& probe) {
    co_await probe.must(Batch().put(record_place(1), record_to('d', 2)));
    Chain forward, itself, outside, of_query, depends_on_later;
    co_await forward.fetch(found_object, 1).fetch(first_object).refused(probe, Code::invalid);
    co_await itself.fetch(first_object).fetch(found_object, 1).refused(probe, Code::invalid);
    co_await outside.fetch(first_object).fetch(found_object, 7).refused(probe, Code::invalid);
    co_await of_query.query(first_object).fetch(found_object, 0).refused(probe, Code::invalid);
    co_await depends_on_later.fetch(first_object)
        .when(1, 0, 0xff, 'd')
        .fetch(first_object)
        .refused(probe, Code::invalid);
    Chain keyless, large, many;
    co_await keyless.fetch(first_object, Link::Reference::none, 0, "")
        .refused(probe, Code::invalid);
    large.fetch(first_object, Link::Reference::none, 0, "record", chain_bytes_max);
    EXPECT_EQ(co_await large.fetch(first_object).run(probe),
              Result<>(fail(Code::too_large, chain_bytes_max)));
    for (size_t i = 0; i <= chain_items_max; ++i) many.fetch(first_object);
    EXPECT_EQ(co_await many.run(probe), Result<>(fail(Code::too_large, chain_items_max)));
    Chain empty;
    co_await empty.must(probe);
    EXPECT_EQ(co_await probe.store().fetch_chain(probe.call(), {}, {}, {}, {}), missing);
}

// The objects are on all targets.
Task<> the_longest_chain(Probe& probe) {
    Batch batch;
    Chain chain;
    chain.fetch(first_object);
    for (uint64_t low = 1; low <= chain_items_max; ++low) {
        batch.put(record_place(low), record_to('d', low + 1));
        if (low == chain_items_max) break;
        chain.fetch(found_object, static_cast<uint32_t>(low - 1));
    }
    co_await probe.must(std::move(batch));
    co_await chain.must(probe);
    for (size_t i = 0; i < chain_items_max; ++i) {
        EXPECT_EQ(chain.bytes(i), record_to('d', i + 2)) << i;
    }
    // And the largest reply.
    Batch values;
    Chain wide;
    const size_t count = chain_bytes_max / value_bytes_max;
    for (uint64_t low = 1; low <= count; ++low) {
        values.put(record_place(low), pattern(low, value_bytes_max));
        wide.fetch({chained_high, low}, Link::Reference::none, 0, "record", value_bytes_max);
    }
    co_await probe.must(std::move(values));
    co_await wide.must(probe);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(wide.bytes(i), pattern(i + 1, value_bytes_max));
}

Task<> a_chain_pins_what_it_finds(Probe& probe) {
    Holder holder;
    holder.client.bytes[0] = 1;
    Holder other;
    other.client.bytes[0] = 2;
    const auto punch = [&] {
        return Batch()
            .by(other)
            .condition(Condition::Kind::unpinned, {{chained_high, 2}, "", ""})
            .punch_object({chained_high, 2});
    };
    co_await probe.must(
        Batch().put(record_place(1), record_to('f', 2)).put(record_place(2), record_to('f', 0)));
    Chain chain;
    chain.fetch(first_object).fetch(found_object, 0).pins().query(found_object, 0);
    co_await chain.must(probe, holder);
    EXPECT_EQ(chain.bytes(1), record_to('f', 0));
    co_await probe.refused(punch(), Code::condition_failed);
    EXPECT_EQ(
        co_await probe.store().unpin(probe.call(), probe.container(), holder, {chained_high, 2}),
        Result<bool>(true));
    co_await probe.must(punch());
    co_await chain.must(probe, holder);  // what does not exist is not pinned
    EXPECT_EQ(chain.status(1), missing);
    co_await probe.must(punch());
}

Task<> change_until(Probe& probe, const bool& done) {
    while (!done) {
        co_await probe.must(Batch().punch_object({chained_high, 2}));
        co_await probe.must(Batch().put(record_place(2), "x"));
        co_await yield(probe.reactor());
    }
}

// An object that a step found may be removed before the next step: the result is complete, or
// `not_found`.
Task<> objects_may_be_removed_between_two_steps(Probe& probe) {
    co_await probe.must(Batch().put(record_place(1), record_to('d', 2)));
    bool done = false;
    Nursery nursery(probe.reactor(), 1);
    co_await nursery.spawn(change_until(probe, done));
    for (int i = 0; i < 50; ++i) {
        Chain chain;
        co_await chain.fetch(first_object).fetch(found_object, 0).must(probe);
        EXPECT_TRUE(chain.status(0));
        if (chain.status(1)) {
            EXPECT_EQ(chain.item(1).size, 1U);
            EXPECT_EQ(chain.bytes(1)[0], 'x');
        } else {
            EXPECT_EQ(chain.status(1), missing);
        }
    }
    done = true;
    co_await nursery.join();
}

bool has_chains(const Features& features) { return features.chains; }

}  // namespace

std::vector<Case> chain_cases() {
    return {
        {"ChainFollowsItsReferences", a_chain_follows_what_it_finds, {}, has_chains},
        {"MissingItemEndsTheChain", a_chain_ends_where_something_is_missing, {}, has_chains},
        {"ItemDependsOnAByte", an_item_may_depend_on_a_byte, {}, has_chains},
        {"ReferenceReadsBytesOfAValue", references_are_to_bytes_of_values, {}, has_chains},
        {"InvalidChainIsRefused", senseless_chains_are_refused, {}, has_chains},
        {"LongestChainIsFetched", the_longest_chain, {}, has_chains},
        {"ChainPinsTheObjectsThatItFinds", a_chain_pins_what_it_finds, {}, has_chains},
        {"RemovalBetweenStepsGivesNotFound",
         objects_may_be_removed_between_two_steps,
         {},
         has_chains},
    };
}

}  // namespace ros2s::object::contract
