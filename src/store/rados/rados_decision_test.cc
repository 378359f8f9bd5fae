// An object decides a transaction before its own part of the previous transaction has been applied.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

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

constexpr ObjectId large{1, 1}, middle{1, 2}, small{1, 3};

// The first change that applies a transaction to a locked object gets no answer and is executed
// late. The next commit that `middle` decides waits.
class LateApplyPool final : public ForwardingPool {
  public:
    LateApplyPool(Pool& pool, Reactor& reactor)
        : ForwardingPool(pool), arrived(reactor), released(reactor) {}

    Task<Result<>> apply(const Change& change) override {
        if (!late && applies(change)) {
            late = change;
            co_return fail(Code::deadline);
        }
        if (!arrived.is_set() && change.object.name == object_name(middle) && decides(change)) {
            arrived.set();
            co_await released;
        }
        co_return co_await below().apply(change);
    }

    std::optional<Change> late;
    Event arrived, released;

  private:
    static bool applies(const Change& change) {
        Head head;
        return !change.equal.empty() && change.equal[0].first == head_key &&
               decode(change.equal[0].second, head) && !head.lock.transaction.is_nil();
    }
    static bool decides(const Change& change) {
        return std::ranges::any_of(
            change.set, [](const auto& each) { return each.first.starts_with(decision_tag); });
    }
};

Task<> put_in_both(RadosStore& store, ContainerId container, ObjectId one, ObjectId other,
                   std::string name, Result<object::Commit>& result) {
    const Batch batch = Batch().put({one, name, "value"}, "v").put({other, name, "value"}, "v");
    result = co_await store.update({}, container, batch.transaction());
}

Task<bool> has_value(RadosStore& store, ContainerId container, AkeyAddress place) {
    std::string bytes(1, '\0');
    auto item = object::fetch_item(place.object, {place.dkey}, {place.akey}, 0,
                                   std::as_writable_bytes(std::span(bytes)));
    EXPECT_TRUE(co_await store.fetch({}, container, {&item, 1}));
    co_return item.status&& bytes == "v";
}

Task<Result<>> sweep_by_another(Reactor& reactor, Pool& pool, ContainerId container) {
    Report report;
    auto opened = co_await RadosStore::open({}, reactor, pool, pool, {}, report);
    EXPECT_TRUE(opened) << report.text();
    const auto swept = co_await (*opened)->sweep({}, container, report);
    co_await (*opened)->close();
    co_return swept;
}

CO_TEST(RadosDecision, LockedDeciderLosesNoPart, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    LateApplyPool late(pool, reactor);
    const auto store = co_await open_store(reactor, late, without_replies());
    const auto other = co_await open_store(reactor, pool, without_replies());
    const auto container = co_await store->create_container({}, {.label = "c"});
    // Objects with more entries decide.
    for (const auto& [object, entries] :
         {std::pair(large, 6), std::pair(middle, 3), std::pair(small, 1)}) {
        Batch batch;
        for (int i = 0; i < entries; ++i) batch.put({object, std::to_string(i), "value"}, "v");
        EXPECT_TRUE(co_await store->update({}, container->id, batch.transaction()));
    }
    Result<object::Commit> first = fail(Code::io), second = fail(Code::io);
    co_await put_in_both(*store, container->id, large, middle, "first", first);
    EXPECT_TRUE(first);
    EXPECT_TRUE(late.late);
    {
        Nursery nursery(reactor, 1);
        co_await nursery.spawn(put_in_both(*store, container->id, middle, small, "second", second));
        co_await late.arrived;
        // It meets the lock of the second one.
        const Batch batch = Batch().put({small, "others", "value"}, "v");
        EXPECT_TRUE(co_await other->update({}, container->id, batch.transaction()));
        if (late.late) (void)co_await pool.apply(*late.late);
        late.released.set();
        co_await nursery.join();
    }
    EXPECT_TRUE(second);
    const std::vector<AkeyAddress> places{{large, "first", "value"},
                                          {middle, "first", "value"},
                                          {middle, "second", "value"},
                                          {small, "second", "value"},
                                          {small, "others", "value"}};
    for (const AkeyAddress& place : places) {
        EXPECT_TRUE(co_await has_value(*other, container->id, place))
            << object_name(place.object) << " has lost '" << place.dkey << "'";
    }
    co_await store->close();
    co_await other->close();
    co_await cluster.close();
}

// None of its objects has entries, before it or after it. One of them decides, and is removed when
// that is not needed any more.
CO_TEST(RadosDecision, ObjectsWithoutEntriesDecide, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    const auto store = co_await open_store(reactor, pool, without_replies());
    const auto container = co_await store->create_container({}, {.label = "c"});
    const size_t before = cluster.objects().size();
    Result<object::Commit> done = fail(Code::io);
    co_await put_in_both(*store, container->id, middle, small, "name", done);
    EXPECT_TRUE(done);
    EXPECT_TRUE(co_await has_value(*store, container->id, {middle, "name", "value"}));
    EXPECT_TRUE(co_await has_value(*store, container->id, {small, "name", "value"}));
    const Batch none = Batch().absent({{2, 1}, "name", "value"}).absent({{2, 2}, "name", "value"});
    EXPECT_TRUE(co_await store->update({}, container->id, none.transaction()));
    const Batch removal = Batch().punch_object(middle).punch_object(small);
    EXPECT_TRUE(co_await store->update({}, container->id, removal.transaction()));
    EXPECT_FALSE(co_await has_value(*store, container->id, {middle, "name", "value"}));
    co_await store->close();
    EXPECT_EQ(co_await sweep_by_another(reactor, pool, container->id), Result<>());
    EXPECT_EQ(cluster.objects().size(), before);
    co_await cluster.close();
}

// Earlier versions wrote a record for such a transaction, in an object of the store. Here the store
// died before it applied the transaction.
CO_TEST(RadosDecision, LogOfEarlierVersionIsApplied, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    const auto store = co_await open_store(reactor, pool);
    const auto container = co_await store->create_container({}, {.label = "c"});
    const size_t before = cluster.objects().size();
    const std::string space = space_of(container->id), name = object_name(small);
    const Coordination record{.state = Coordination::State::committed,
                              .transaction = Uuid::make(reactor.secrets()),
                              .participants = {{name}}};
    const std::string key = record.transaction.to_string();
    const Head head{.epoch = 1, .change = 2, .entries = 1, .lock = {}};
    const std::string log = "t0000000000000007";  // is_log_name()
    Head locked = head;
    locked.lock = {
        .transaction = record.transaction, .coordinator = log, .key = key, .created = true};
    const Entry entry{.epoch = 1, .size = 1, .value = "v"};
    const Pending pending{
        .set = {{head_key, encode(head)}, {entry_key({"name"}, {"value"}), encode(entry)}}};
    EXPECT_TRUE(co_await pool.apply(
        {.object = {space, log}, .set = {{key, encode(record)}, {mark_key, "m"}}}));
    EXPECT_TRUE(
        co_await pool.apply({.object = {space, name},
                             .set = {{head_key, encode(locked)}, {pending_key, encode(pending)}}}));
    EXPECT_EQ(co_await sweep_by_another(reactor, pool, container->id), Result<>());
    EXPECT_EQ(cluster.objects().size(), before + 1) << "the log is gone, the object is there";
    EXPECT_TRUE(co_await has_value(*store, container->id, {small, "name", "value"}));
    co_await store->close();
    co_await cluster.close();
}

}  // namespace
}  // namespace ros2s::rados
