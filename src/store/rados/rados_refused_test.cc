// A change that is made although its answer is an error, as when librados repeats a request whose
// answer was lost. The change stays, as a whole.
#include <gtest/gtest.h>

#include <algorithm>

#include "ros2s/object/test_support/batch.h"
#include "ros2s/rados/keys.h"
#include "ros2s/rados/rados_store.h"
#include "ros2s/rados/records.h"
#include "ros2s/rados/sim/forwarding_pool.h"
#include "ros2s/rados/sim/sim_rados.h"
#include "ros2s/runtime/sim/world.h"
#include "test_support/open_store.h"

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

bool removes(const Change& change) { return change.remove_object; }

// Executes the next change of a kind, and answers with an error. Another client acts before the
// answer, or before the change, which then really fails.
class RefusingPool final : public ForwardingPool {
  public:
    using ForwardingPool::ForwardingPool;
    void refuse(bool (*kind)(const Change&), Code answer, Task<> meanwhile = {}) {
        kind_ = kind;
        answer_ = answer;
        meanwhile_ = std::move(meanwhile);
    }
    void outrun(bool (*kind)(const Change&), Task<> meanwhile) {
        refuse(kind, {}, std::move(meanwhile));
        is_outrun_ = true;
    }
    [[nodiscard]] bool has_refused() const { return kind_ == nullptr; }

    Task<Result<>> apply(const Change& change) override {
        if (has_refused() || !kind_(change)) co_return co_await below().apply(change);
        kind_ = nullptr;
        if (is_outrun_) {
            co_await std::move(meanwhile_);
            co_return co_await below().apply(change);
        }
        EXPECT_TRUE(co_await below().apply(change));
        if (meanwhile_.valid()) co_await std::move(meanwhile_);
        co_return fail(answer_);
    }

  private:
    bool (*kind_)(const Change&) = nullptr;
    Code answer_{};
    Task<> meanwhile_;
    bool is_outrun_ = false;
};

// Two clients of one cluster. Mostly changes of the first one are refused.
struct RefusedClient {
    explicit RefusedClient(SimRados& cluster)
        : pool(cluster, {.delay_max = {}, .dies_at = {}}), refusing(pool), refusing_other(pool) {}
    Task<> open(Reactor& reactor) {
        refused = co_await opened_on(reactor, refusing);
        other = co_await opened_on(reactor, refusing_other);
        const auto made = co_await refused->create_container({}, {.label = "c"});
        EXPECT_TRUE(made);
        container = made->id;
    }
    Task<> make_objects() {
        for (const auto& [object, entries] : {std::pair(deciding, 6), std::pair(locked, 3)}) {
            Batch batch;
            for (int i = 0; i < entries; ++i) batch.put({object, std::to_string(i), "value"}, "v");
            EXPECT_TRUE(co_await refused->update({}, container, batch.transaction()));
        }
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
    // The other client does it, and removes the garbage.
    Task<> change(Reactor& reactor, Batch batch) {
        EXPECT_TRUE(co_await other->update({}, container, batch.transaction()));
        co_await sleep_for(reactor, std::chrono::seconds(1));
    }
    Task<> sweep() {
        Report report;
        EXPECT_TRUE(co_await other->sweep({}, container, report)) << report.text();
    }
    // The data that the other client finds.
    Task<std::string> found(AkeyAddress place, size_t length) {
        std::string bytes(length, '\0');
        auto item = object::fetch_item(place.object, {place.dkey}, {place.akey}, 0,
                                       std::as_writable_bytes(std::span(bytes)));
        EXPECT_TRUE(co_await other->fetch({}, container, {&item, 1}));
        co_return item.status ? bytes : describe(item.status.error());
    }

    SimPool pool;
    RefusingPool refusing, refusing_other;
    std::unique_ptr<RadosStore> refused, other;
    ContainerId container;
};

// A named transaction has a record; of the other kind, one object decides.
Task<> refuse_a_commit(Reactor& reactor, SimRados& cluster, bool is_named, Code answer) {
    RefusedClient client(cluster);
    co_await client.open(reactor);
    co_await client.make_objects();
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

TEST(RadosErrorReply, CommitDespiteErrorStands) {
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

TEST(RadosErrorReply, PublishedChangeDespiteErrorStands) {
    for (const Code answer : {Code::denied, Code::io, Code::condition_failed}) {
        SCOPED_TRACE(describe(Error{answer}));
        sim::World world(1);
        SimRados cluster(world.core());
        world.run(refuse_a_publication(world.core(), cluster, answer));
    }
}

// The other client has changed the object before the refused client checks the result of its
// change.
const AkeyAddress shared{{2, 1}, "0", "data"};

struct Fate {
    const char* what;
    Batch (*meanwhile)();
    bool is_outrun = false;  // the other one was faster
    bool garbage_stays = false;
    std::string outcome = "done";
    char found = 'b';
};

Batch put_beside() { return Batch().put({shared.object, "1", "value"}, "v"); }
Batch overwrite() { return Batch().write(shared, 0, std::string(40'000, 'c')); }

Task<> change_meanwhile(Reactor& reactor, SimRados& cluster, const Fate& fate) {
    RefusedClient client(cluster);
    co_await client.open(reactor);
    if (fate.garbage_stays) client.refusing_other.refuse(removes, Code::denied);
    Task<> meanwhile = client.change(reactor, fate.meanwhile());
    if (fate.is_outrun) {
        client.refusing.outrun(publishes, std::move(meanwhile));
    } else {
        client.refusing.refuse(publishes, Code::condition_failed, std::move(meanwhile));
    }
    const Batch batch = Batch().absent(shared).write(shared, 0, std::string(40'000, 'b'));
    const auto done = co_await client.refused->update({}, client.container, batch.transaction());
    EXPECT_TRUE(client.refusing.has_refused() && client.refusing_other.has_refused());
    EXPECT_EQ(done ? "done" : describe(Error{done.error().code}), fate.outcome);
    co_await client.refused->close();  // what it removes is gone
    const std::string found = co_await client.found(shared, 40'000);
    EXPECT_TRUE(found == std::string(40'000, fate.found)) << found.substr(0, 100);
    co_await client.other->close();
    const auto is_data = [](const auto& each) {
        return parse_data_name(each.first.name).has_value();
    };
    EXPECT_EQ(std::ranges::count_if(cluster.objects(), is_data), 1) << "what is found";
    co_await cluster.close();
}

TEST(RadosErrorReply, PublishedChangeIsKnownAfterOtherWrites) {
    const std::string nobody_knows = describe(Error{Code::deadline}),
                      lost = describe(Error{Code::condition_failed});
    const Fate fates[] = {
        {.what = "its segment names the data", .meanwhile = put_beside},
        {.what = "the data is garbage",
         .meanwhile = overwrite,
         .garbage_stays = true,
         .found = 'c'},
        {.what = "the data is gone", .meanwhile = overwrite, .outcome = nobody_knows, .found = 'c'},
        {.what = "it was not made, and cannot be",
         .meanwhile = overwrite,
         .is_outrun = true,
         .outcome = lost,
         .found = 'c'},
        {.what = "it was not made, and is now", .meanwhile = put_beside, .is_outrun = true},
    };
    for (const Fate& fate : fates) {
        SCOPED_TRACE(fate.what);
        sim::World world(1);
        SimRados cluster(world.core());
        world.run(change_meanwhile(world.core(), cluster, fate));
    }
}

// A sweep does the rest of the transaction, and forgets that it was decided.
CO_TEST(RadosErrorReply, CommitFinishedByASweepStands, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    RefusedClient client(cluster);
    co_await client.open(reactor);
    co_await client.make_objects();
    const AkeyAddress one{deciding, "new", "value"}, two{locked, "new", "data"};
    const std::string bytes(40'000, 'b');
    const Batch batch = Batch().absent(one).put(one, "v").write(two, 0, bytes);
    client.refusing.refuse(commits, Code::condition_failed, client.sweep());
    const auto done = co_await client.refused->update({}, client.container, batch.transaction());
    EXPECT_TRUE(client.refusing.has_refused());
    EXPECT_TRUE(done) << describe(done.error());
    co_await client.refused->close();
    EXPECT_EQ(co_await client.found(one, 1), "v");
    const std::string found = co_await client.found(two, bytes.size());
    EXPECT_TRUE(found == bytes) << found.substr(0, 100);
    co_await client.other->close();
    co_await cluster.close();
}

// A named transaction that changes nothing: its record alone is the commit.
CO_TEST(RadosErrorReply, RecordDespiteErrorStands, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    RefusedClient client(cluster);
    co_await client.open(reactor);
    Uuid name;
    name.bytes[0] = 1;
    const Batch batch = Batch().id({name, 0, 1}).is_new();
    client.refusing.refuse(commits, Code::condition_failed);
    const auto done = co_await client.refused->update({}, client.container, batch.transaction());
    EXPECT_TRUE(client.refusing.has_refused());
    EXPECT_TRUE(done) << describe(done.error());
    co_await client.close();
    co_await cluster.close();
}

// A write that is sent for the first time, and notes its reply. The other client has changed the
// object, or removed it and so stored the reply, before the refused client looks.
Task<> refuse_a_noted_write(Reactor& reactor, SimRados& cluster, bool is_removed) {
    RefusedClient client(cluster);
    co_await client.open(reactor);
    const AkeyAddress place{{2, 1}, "0", "data"};
    Uuid name;
    name.bytes[0] = 1;
    Batch meanwhile;
    if (is_removed) {
        meanwhile.punch_object(place.object);
    } else {
        meanwhile.write(place, 0, "last");
    }
    client.refusing.refuse(publishes, Code::condition_failed,
                           client.change(reactor, std::move(meanwhile)));
    Batch batch = Batch().write(place, 0, "once").id({name, 0, 1}).is_new();
    const auto done = co_await client.refused->update({}, client.container, batch.transaction());
    EXPECT_TRUE(client.refusing.has_refused());
    EXPECT_TRUE(done) << describe(done.error());
    const std::string left = is_removed ? describe(Error{Code::not_found}) : "last";
    EXPECT_EQ(co_await client.found(place, 4), left) << "it was done again";
    // Its digest still decides.
    const Batch other = Batch().write(place, 0, "none").id({name, 0, 1}).is_new();
    const auto taken = co_await client.refused->update({}, client.container, other.transaction());
    EXPECT_TRUE(!taken && taken.error().code == Code::name_taken);
    EXPECT_EQ(co_await client.found(place, 4), left);
    co_await client.close();
    co_await cluster.close();
}

TEST(RadosErrorReply, NotedWriteDespiteErrorStands) {
    for (const bool is_removed : {false, true}) {
        SCOPED_TRACE(is_removed);
        sim::World world(1);
        SimRados cluster(world.core());
        world.run(refuse_a_noted_write(world.core(), cluster, is_removed));
    }
}

}  // namespace
}  // namespace ros2s::rados
