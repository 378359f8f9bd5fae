// A change that is made and then refused, as when librados repeats a request whose answer was lost:
// it stands, as a whole.
#include <gtest/gtest.h>

#include <algorithm>

#include "ros2s/object/test_support/batch.h"
#include "ros2s/rados/keys.h"
#include "ros2s/rados/rados_store.h"
#include "ros2s/rados/records.h"
#include "ros2s/rados/sim/sim_rados.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::rados {
namespace {

using object::AkeyAddress;
using object::Batch;
using object::ContainerId;
using object::ObjectId;

constexpr ObjectId deciding{1, 1}, locked{1, 2};  // the first one has more entries

bool commits(const Change& change) {
    return std::ranges::any_of(change.set, [](const auto& each) {
        Coordination record;
        return decode(each.second, record) && record.state == Coordination::State::committed;
    });
}

bool publishes(const Change& change) {
    return std::ranges::any_of(change.set, [](const auto& each) {
        const auto entry = parse_entry_key(each.first);
        return entry && entry->segment;
    });
}

// Makes the next change of a kind, and answers with an error.
class RefusingPool final : public Pool {
  public:
    explicit RefusingPool(Pool& pool) : pool_(pool) {}
    void refuse(bool (*kind)(const Change&), Code answer) {
        kind_ = kind;
        answer_ = answer;
    }
    [[nodiscard]] bool has_refused() const { return kind_ == nullptr; }

    [[nodiscard]] std::string name() const override { return pool_.name(); }
    [[nodiscard]] std::string description() const override { return pool_.description(); }
    Task<Result<>> apply(const Change& change) override {
        const auto applied = co_await pool_.apply(change);
        if (has_refused() || !kind_(change)) co_return applied;
        EXPECT_TRUE(applied);
        kind_ = nullptr;
        co_return fail(answer_);
    }
    Task<Result<ReadReply>> read(const Read& read) override { return pool_.read(read); }
    Task<Result<uint64_t>> read_data(const ObjectName& object, uint64_t offset,
                                     Bytes into) override {
        return pool_.read_data(object, offset, into);
    }
    [[nodiscard]] std::unique_ptr<Listing> list(std::string space) override {
        return pool_.list(std::move(space));
    }
    Task<Result<object::PoolSpace>> space() override { return pool_.space(); }

  private:
    Pool& pool_;
    bool (*kind_)(const Change&) = nullptr;
    Code answer_{};
};

// Two clients of one cluster; the changes of the first one are refused.
struct RefusedClient {
    explicit RefusedClient(SimRados& cluster)
        : pool(cluster, {.delay_max = {}, .dies_at = {}}), refusing(pool) {}
    Task<> open(Reactor& reactor) {
        refused = co_await opened_on(reactor, refusing);
        other = co_await opened_on(reactor, pool);
        const auto made = co_await refused->create_container({}, {.label = "c"});
        EXPECT_TRUE(made);
        container = made->id;
    }
    static Task<std::unique_ptr<RadosStore>> opened_on(Reactor& reactor, Pool& pool) {
        Report report;
        auto opened = co_await RadosStore::open({}, reactor, pool, pool, {}, report);
        EXPECT_TRUE(opened) << report.text();
        co_return std::move(*opened);
    }
    Task<> close() {
        co_await refused->close();
        co_await other->close();
    }
    // What the other client finds.
    Task<std::string> found(AkeyAddress place, size_t length) {
        std::string bytes(length, '\0');
        object::FetchItem item{
            .object = place.object,
            .dkey = {place.dkey},
            .akey = {place.akey},
            .extent = {0, length},
            .window = object::Window::local(std::as_writable_bytes(std::span(bytes)))};
        EXPECT_TRUE(co_await other->fetch({}, container, {&item, 1}));
        co_return item.status ? bytes : describe(item.status.error());
    }

    SimPool pool;
    RefusingPool refusing;
    std::unique_ptr<RadosStore> refused, other;
    ContainerId container;
};

// A named transaction has a record; of the other kind, one object decides.
Task<> refuse_a_commit(Reactor& reactor, SimRados& cluster, bool is_named, Code answer) {
    RefusedClient client(cluster);
    co_await client.open(reactor);
    for (const auto& [object, entries] : {std::pair(deciding, 6), std::pair(locked, 3)}) {
        Batch batch;
        for (int i = 0; i < entries; ++i) batch.put({object, std::to_string(i), "value"}, "v");
        EXPECT_TRUE(co_await client.refused->update({}, client.container, batch.transaction()));
    }
    const AkeyAddress one{deciding, "new", "value"}, two{locked, "new", "value"};
    Batch batch;
    batch.absent(one).put(one, "v").put(two, "v");
    Uuid name;
    name.bytes[0] = 1;
    if (is_named) batch.id({name, 0, 1});
    client.refusing.refuse(commits, answer);
    const auto done = co_await client.refused->update({}, client.container, batch.transaction());
    EXPECT_TRUE(client.refusing.has_refused());
    if (answer == Code::condition_failed) {
        EXPECT_TRUE(done) << "it was committed: " << describe(done.error());
    } else {
        EXPECT_FALSE(done) << "nobody knows";
    }
    for (const AkeyAddress& place : {one, two}) {
        EXPECT_EQ(co_await client.found(place, 1), "v") << object_name(place.object);
    }
    if (is_named) {
        const auto again = co_await client.other->update({}, client.container, batch.transaction());
        EXPECT_TRUE(again && again->replayed);
        EXPECT_EQ(co_await client.found(two, 1), "v");
    }
    co_await client.close();
    co_await cluster.close();
}

TEST(RadosRefused, ACommitThatWasMadeStands) {
    for (const bool is_named : {false, true}) {
        for (const Code answer : {Code::denied, Code::condition_failed}) {
            SCOPED_TRACE(testing::Message()
                         << (is_named ? "named, " : "") << describe(Error{answer}));
            sim::World world(1);
            SimRados cluster(world.core());
            world.run(refuse_a_commit(world.core(), cluster, is_named, answer));
        }
    }
}

// A change of one object, which publishes an object of the data pool.
Task<> refuse_a_publication(Reactor& reactor, SimRados& cluster, Code answer) {
    RefusedClient client(cluster);
    co_await client.open(reactor);
    const AkeyAddress place{{2, 1}, "0", "data"};
    const std::string bytes(40'000, 'b');
    client.refusing.refuse(publishes, answer);
    const Batch batch = Batch().absent(place).write(place, 0, bytes);
    const auto done = co_await client.refused->update({}, client.container, batch.transaction());
    EXPECT_TRUE(client.refusing.has_refused());
    EXPECT_EQ(done.has_value(), answer == Code::condition_failed);
    co_await client.refused->close();  // what it removes is gone
    const std::string found = co_await client.found(place, bytes.size());
    EXPECT_TRUE(found == bytes) << found.substr(0, 100);
    co_await client.other->close();
    co_await cluster.close();
}

TEST(RadosRefused, WhatAChangeHasPublishedStays) {
    for (const Code answer : {Code::denied, Code::io, Code::condition_failed}) {
        SCOPED_TRACE(describe(Error{answer}));
        sim::World world(1);
        SimRados cluster(world.core());
        world.run(refuse_a_publication(world.core(), cluster, answer));
    }
}

}  // namespace
}  // namespace ros2s::rados
