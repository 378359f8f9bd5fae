// Notes of replies on their way to slots (docs/formats/rados.md), when others move replies, when
// requests of one client's replies take long, and when slots change meanwhile.
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

Uuid client(uint8_t number) {
    Uuid uuid;
    uuid.bytes[0] = number;
    return uuid;
}

std::string replies_of(uint8_t number) { return replies_name({}, client(number)); }

AkeyAddress array_of(uint8_t number) { return {{number, 0}, "0", "data"}; }

// Reads of some objects take long, and may get no answer.
class NotedPool final : public ForwardingPool {
  public:
    NotedPool(SimRados& cluster, Reactor& reactor, Duration delay_max)
        : ForwardingPool(pool_),
          cluster_(cluster),
          pool_(cluster, {.delay_max = delay_max, .dies_at = {}}),
          reactor_(reactor) {}
    void count_reads(std::string name) {
        counted_ = std::move(name);
        reads_ = 0;
    }
    [[nodiscard]] size_t reads() const { return reads_; }
    // Of objects whose names begin so.
    void slow(std::string prefix, Duration time, bool answers = true) {
        slow_ = std::move(prefix);
        time_ = time;
        answers_ = answers;
    }
    // Before each change of the object, something changes it.
    void race(std::string name, void (*change)(SimRados::Object&)) {
        raced_ = std::move(name);
        change_ = change;
    }

    Task<Result<>> apply(const Change& change) override {
        if (change.object.name == raced_) change_(cluster_.objects().at(change.object));
        return below().apply(change);
    }
    Task<Result<ReadReply>> read(const Read& read) override {
        if (read.object.name == counted_) ++reads_;
        if (!slow_.empty() && read.object.name.starts_with(slow_)) {
            co_await sleep_for(reactor_, time_);
            if (!answers_) co_return fail(Code::deadline);
        }
        co_return co_await below().read(read);
    }

  private:
    SimRados& cluster_;
    SimPool pool_;
    Reactor& reactor_;
    std::string counted_, slow_, raced_;
    size_t reads_ = 0;
    Duration time_{};
    bool answers_ = true;
    void (*change_)(SimRados::Object&) = nullptr;
};

struct NotingStore {
    NotingStore(SimRados& its_cluster, Reactor& its_reactor, Duration delay_max = {})
        : cluster(its_cluster), reactor(its_reactor), pool(its_cluster, its_reactor, delay_max) {}
    Task<> open() {
        store = co_await open_store(reactor, pool);
        container = (co_await store->create_container({}, {.label = "c"}))->id;
    }
    // A write of the client's own array, sent for the first time.
    Task<Result<>> write(uint8_t number, uint32_t slot, uint64_t sequence, AkeyAddress place,
                         Call call = {}) {
        const Batch batch =
            Batch().write(place, 0, "data").id({client(number), slot, sequence}).is_new();
        const auto done = co_await store->update(call, container, batch.transaction());
        co_return done ? Result<>() : fail(done.error());
    }
    Task<> write_to(uint8_t number, uint32_t slot, AkeyAddress place, Call call, Result<>& result) {
        result = co_await write(number, slot, 1, std::move(place), call);
    }
    // Of the reply in the slot; 0: none.
    [[nodiscard]] uint64_t stored(uint8_t number, uint32_t slot) const {
        const auto& omap = cluster.objects().at({space_of(container), replies_of(number)}).omap;
        const auto value = omap.find(slot_key(slot));
        Coordination reply;
        if (value != omap.end()) EXPECT_TRUE(decode(value->second, reply));
        return reply.sequence;
    }

    SimRados& cluster;
    Reactor& reactor;
    NotedPool pool;
    std::unique_ptr<RadosStore> store;
    ContainerId container;
};

void with_store(Task<> (*test)(Reactor&, NotingStore&), Duration delay_max = {}) {
    sim::World world(1);
    SimRados cluster(world.core());
    world.run([](Reactor& reactor, SimRados& rados, Duration delay, auto* body) -> Task<> {
        NotingStore noting(rados, reactor, delay);
        co_await noting.open();
        co_await body(reactor, noting);
        co_await noting.store->close();
        co_await rados.close();
    }(world.core(), cluster, delay_max, test));
}

// ---- others move replies -------------------------------------------------------------------

constexpr uint64_t removed_files = 40;

// Each removal moves the note of a write.
Task<> write_and_remove(NotingStore& noting, uint8_t number, size_t& writing, Event& all_written) {
    for (uint64_t file = 1; file <= removed_files; ++file) {
        EXPECT_TRUE(co_await noting.write(number, 0, file, {{number, file}, "0", "data"}));
    }
    if (--writing == 0) all_written.set();
    co_await all_written;
    for (uint64_t file = 1; file <= removed_files; ++file) {
        const Batch punch = Batch().punch_object({number, file});
        EXPECT_TRUE(co_await noting.store->update({}, noting.container, punch.transaction()));
    }
}

template <uint8_t removers>
Task<> write_beside_removals(Reactor& reactor, NotingStore& noting) {
    constexpr uint64_t writes = 20;
    size_t writing = removers;
    Event all_written(reactor);
    Nursery nursery(reactor, removers);
    for (uint8_t i = 0; i < removers; ++i) {
        const auto number = static_cast<uint8_t>(2 + i);
        co_await nursery.spawn(write_and_remove(noting, number, writing, all_written));
    }
    co_await all_written;
    noting.pool.count_reads(replies_of(1));
    const Time start = reactor.now();
    const Call call{.deadline = start + std::chrono::seconds(10)};
    for (uint64_t sequence = 1; sequence <= writes; ++sequence) {
        const auto done = co_await noting.write(1, 0, sequence, array_of(1), call);
        EXPECT_TRUE(done) << sequence << ": " << describe(done.error());
        if (!done) break;
    }
    EXPECT_LT(reactor.now() - start, std::chrono::milliseconds(150));
    EXPECT_EQ(noting.pool.reads(), 2U) << "before the client has replies, and after";
    EXPECT_GT(nursery.running(), 0U) << "others still remove files";
    co_await nursery.join();
}

TEST(RadosNotes, MovedNotesOfOtherObjectsDoNotDelayWrites) {
    with_store(write_beside_removals<8>, std::chrono::milliseconds(2));
    with_store(write_beside_removals<64>, std::chrono::milliseconds(2));
}

// ---- slots that are slow, or change --------------------------------------------------------

TEST(RadosNotes, SlowSlotDoesNotDelayOtherClients) {
    with_store([](Reactor& reactor, NotingStore& noting) -> Task<> {
        for (const uint64_t sequence : {1, 2}) {
            for (const uint8_t number : {1, 2}) {
                EXPECT_TRUE(co_await noting.write(number, 0, sequence, array_of(number)));
            }
            noting.pool.slow(replies_of(1), std::chrono::seconds(30));
        }
        for (const uint64_t sequence : {2, 3, 4}) {
            co_await sleep_for(reactor, std::chrono::seconds(3));
            EXPECT_EQ(noting.stored(2, 0), sequence);
            EXPECT_EQ(noting.stored(1, 0), 0U);
            EXPECT_TRUE(co_await noting.write(2, 0, sequence + 1, array_of(2)));
        }
        co_await sleep_for(reactor, std::chrono::seconds(30));
        EXPECT_EQ(noting.stored(1, 0), 2U);
    });
}

// Other transactions of the client begin one after the other, each between a read of its slots and
// the change of them.
constexpr uint32_t raced_slots = 7;

void begin_another(SimRados::Object& replies) {
    for (uint32_t slot = 0; slot < raced_slots; ++slot) {
        std::string& value = replies.omap[slot_key(slot)];
        const bool is_first = value.empty();
        value = encode(Coordination{
            .state = is_first ? Coordination::State::pending : Coordination::State::committed,
            .transaction = client(9),
            .sequence = 2,
            .participants = {},
            .before = {}});
        if (is_first) return;
    }
}

TEST(RadosNotes, ChangingSlotsDoNotDelayOtherSlots) {
    with_store([](Reactor& reactor, NotingStore& noting) -> Task<> {
        for (uint32_t slot = 0; slot <= raced_slots; ++slot) {
            EXPECT_TRUE(co_await noting.write(1, slot, 1, array_of(1)));
        }
        noting.pool.race(replies_of(1), begin_another);
        co_await sleep_for(reactor, std::chrono::seconds(3));
        EXPECT_EQ(noting.stored(1, raced_slots), 1U);
        for (uint32_t slot = 0; slot < raced_slots; ++slot) {
            EXPECT_EQ(noting.stored(1, slot), 2U) << "the later reply of slot " << slot;
        }
        noting.pool.race({}, nullptr);
    });
}

TEST(RadosNotes, CloseStoresAllClientsInParallel) {
    with_store([](Reactor& reactor, NotingStore& noting) -> Task<> {
        for (uint8_t number = 1; number <= 40; ++number) {
            EXPECT_TRUE(co_await noting.write(number, 0, 1, array_of(number)));
        }
        noting.pool.slow("r", std::chrono::seconds(30), false);
        const Time start = reactor.now();
        co_await noting.store->close();
        EXPECT_LT(reactor.now() - start, std::chrono::seconds(31));
    });
}

// ---- a call that ends ----------------------------------------------------------------------

// It shares a change with a write whose slot takes longer to read.
TEST(RadosNotes, WriteOfAGroupEndsAtItsDeadline) {
    with_store(
        [](Reactor& reactor, NotingStore& noting) -> Task<> {
            const AkeyAddress place = array_of(1);
            EXPECT_TRUE(co_await noting.write(1, 0, 1, place));
            noting.pool.slow(replies_of(2), std::chrono::seconds(1));
            const Call call{.deadline = reactor.now() + std::chrono::milliseconds(500)};
            Result<> results[3];
            {
                Nursery nursery(reactor, 3);
                co_await nursery.spawn(noting.write_to(1, 1, place, {}, results[0]));
                co_await nursery.spawn(noting.write_to(1, 2, place, call, results[1]));
                co_await nursery.spawn(noting.write_to(2, 0, place, {}, results[2]));
                co_await nursery.join();
            }
            EXPECT_TRUE(results[0]);
            EXPECT_TRUE(!results[1] && results[1].error().code == Code::deadline);
            EXPECT_TRUE(results[2]);
        },
        std::chrono::milliseconds(2));
}

}  // namespace
}  // namespace ros2s::rados
