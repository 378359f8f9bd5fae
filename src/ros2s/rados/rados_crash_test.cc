// A client dies at each of its requests in turn, in the middle of transactions over several
// objects, while another one works in the same directories. A third one then finds everything that
// was acknowledged, and nothing half done; it repeats the last request, which takes effect once.
#include <gtest/gtest.h>

#include <set>

#include "ros2s/object/contract/batch.h"
#include "ros2s/rados/keys.h"
#include "ros2s/rados/rados_store.h"
#include "ros2s/rados/sim/sim_rados.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::rados {
namespace {

using object::Commit;
using object::ContainerId;
using object::ObjectId;
using object::contract::Batch;
using object::contract::Place;

constexpr uint64_t directories = 3;
constexpr int moves = 6;

// One client of the cluster.
struct Client {
    Client(SimRados& cluster, Reactor& reactor)
        : reactor(reactor),
          pool(cluster, {.delay_max = std::chrono::milliseconds(2), .dies_at = {}}) {}
    Task<Result<>> open() {
        Report report;
        auto opened = co_await RadosStore::open(
            {}, reactor, pool, pool, {.patience = std::chrono::milliseconds(50)}, report);
        if (!opened) co_return fail(opened.error());
        store = std::move(*opened);
        co_return Result<>{};
    }
    Reactor& reactor;
    SimPool pool;
    std::unique_ptr<RadosStore> store;
};

// A file that moves from directory to directory: its name is in one of them, with the number of its
// moves, which the file's data has as well.
struct Traveller {
    std::string name;
    ObjectId file;
    Uuid client;  // nil: its transactions are unnamed
    int acknowledged = 0;
    int tried = 0;

    [[nodiscard]] ObjectId directory(int move) const {
        // Sometimes it stays in its directory.
        const int steps = move - move / 3;
        return {1, static_cast<uint64_t>(steps) % directories};
    }
    [[nodiscard]] Place entry(int move) const {
        return {directory(move), name + (move % 2 == 0 ? "-even" : "-odd"), "entry"};
    }
    [[nodiscard]] Place data() const { return {file, "0", "data"}; }
    [[nodiscard]] std::string content(int move) const {
        return std::string(5000, static_cast<char>('a' + move));
    }
    [[nodiscard]] Batch move_batch(int move) const {
        Batch batch;
        if (move > 0) batch.exists(entry(move - 1)).absent(entry(move)).punch_akey(entry(move - 1));
        batch.put(entry(move), std::to_string(move)).write(data(), 0, content(move));
        if (!client.is_nil()) batch.id({client, 0, static_cast<uint64_t>(move) + 1});
        return batch;
    }
    Task<> travel(RadosStore& store, ContainerId container) {
        for (int move = acknowledged + 1; move <= moves; ++move) {
            tried = move;
            const Batch batch = move_batch(move);
            const auto done = co_await store.update({}, container, batch.transaction());
            if (!done) co_return;
            acknowledged = move;
        }
    }
};

Task<std::string> text_of(RadosStore& store, ContainerId container, Place place, size_t length) {
    std::string bytes(length, '\0');
    object::FetchItem item{
        .object = place.object,
        .dkey = {place.dkey},
        .akey = {place.akey},
        .extent = {0, length},
        .window = object::Window::local(std::as_writable_bytes(std::span(bytes)))};
    const auto fetched = co_await store.fetch({}, container, {&item, 1});
    EXPECT_TRUE(fetched);
    if (!item.status) co_return "";
    co_return bytes.substr(0, item.size);
}

// The numbers of moves that it seems to have made: in its entries, and in its data.
Task<std::set<int>> traces(RadosStore& store, ContainerId container, const Traveller& traveller) {
    std::set<int> found;
    for (int move = 0; move <= moves; ++move) {
        const std::string text = co_await text_of(store, container, traveller.entry(move), 20);
        if (!text.empty()) found.insert(std::stoi(text));
    }
    if (found.empty()) found.insert(-1);  // it has no entry
    const std::string data = co_await text_of(store, container, traveller.data(), 5000);
    for (int move = 0; move <= moves; ++move) {
        if (data == traveller.content(move)) co_return found.insert(move), found;
    }
    ADD_FAILURE() << traveller.name << " has data of no move";
    co_return found;
}

// Where it is: the number of its last move. Expects it in one place, with the data of that move.
Task<int> find(RadosStore& store, Reactor& reactor, ContainerId container,
               const Traveller& traveller) {
    auto found = co_await traces(store, container, traveller);
    if (found.size() != 1) {
        // The requests of traces() are several. A late commit can take effect between them, once.
        co_await sleep_for(reactor, std::chrono::seconds(5));
        found = co_await traces(store, container, traveller);
    }
    EXPECT_EQ(found.size(), 1U) << traveller.name << " is half moved";
    co_return found.size() == 1 ? *found.begin() : -1;
}

class Trial {
  public:
    Trial(uint64_t seed, bool is_named)
        : world_(seed), cluster_(world_.core()), is_named_(is_named) {}

    // Returns the number of requests that the first client made.
    uint64_t run(std::optional<uint64_t> dies_at) { return world_.run(body(dies_at)); }

  private:
    Task<uint64_t> body(std::optional<uint64_t> dies_at) {
        Client first(cluster_, world_.core()), second(cluster_, world_.core()),
            third(cluster_, world_.core());
        EXPECT_TRUE(co_await third.open());
        const auto container = co_await third.store->create_container({}, {.label = "c"});
        EXPECT_TRUE(container);
        Traveller mortal{.name = "mortal", .file = {2, 1}, .client = {}};
        Traveller witness{.name = "witness", .file = {2, 2}, .client = {}};
        if (is_named_) mortal.client.bytes[0] = witness.client.bytes[0] = 1;
        witness.client.bytes[1] = is_named_ ? 1 : 0;
        for (const Traveller* each : {&mortal, &witness}) {
            const Batch start = each->move_batch(0);
            EXPECT_TRUE(co_await third.store->update({}, container->id, start.transaction()));
        }
        EXPECT_TRUE(co_await first.open());
        EXPECT_TRUE(co_await second.open());
        const uint64_t opened = first.pool.requests();
        if (dies_at) first.pool.die_at(opened + *dies_at);
        {
            Nursery nursery(world_.core(), 2);
            co_await nursery.spawn(mortal.travel(*first.store, container->id));
            co_await nursery.spawn(witness.travel(*second.store, container->id));
            co_await nursery.join();
        }
        co_await first.store->close();
        EXPECT_EQ(witness.acknowledged, moves) << "a live client was stopped by a dead one";
        EXPECT_TRUE(dies_at || mortal.acknowledged == moves);
        for (int round = 0; round < 2; ++round) {
            const int at = co_await find(*third.store, world_.core(), container->id, mortal);
            EXPECT_TRUE(at == mortal.acknowledged || at == mortal.tried)
                << "it is at " << at << ", acknowledged was " << mortal.acknowledged;
            const int other = co_await find(*second.store, world_.core(), container->id, witness);
            EXPECT_EQ(other, moves);
            // The dead client's last request may arrive now, and commit what nobody has aborted.
            // What was seen stays.
            co_await cluster_.close();
            mortal.acknowledged = at;
        }
        mortal.tried = mortal.acknowledged;
        co_await repeat_last(*third.store, container->id, mortal);
        co_await check_remains(third, container->id);
        co_await second.store->close();
        co_await third.store->close();
        co_return first.pool.requests() - opened;
    }

    Task<> repeat_last(RadosStore& store, ContainerId container, Traveller mortal) {
        if (!is_named_) co_return;
        for (int i = 0; i < 2; ++i) {
            const Batch batch = mortal.move_batch(mortal.tried);
            const auto again = co_await store.update({}, container, batch.transaction());
            EXPECT_TRUE(again) << "at move " << mortal.tried;
            if (again) EXPECT_TRUE(again->replayed) << "it was seen, and done again";
        }
        mortal.acknowledged = mortal.tried;
        co_await mortal.travel(store, container);
        EXPECT_EQ(co_await find(store, world_.core(), container, mortal), moves);
    }

    // After a sweep there is no data that no object names, no garbage, no lock, and no record of a
    // transaction that is not a reply.
    Task<> check_remains(Client& client, ContainerId container) {
        co_await client.store->close();
        co_await sleep_for(world_.core(), std::chrono::hours(2));
        EXPECT_TRUE(co_await client.store->sweep({}, container));
        size_t data = 0, logs = 0;
        for (const auto& [name, object] : cluster_.objects()) {
            if (parse_data_name(name.name)) ++data;
            if (is_log_name(name.name)) {
                EXPECT_EQ(object.omap.size(), 1U) << "a record remains beside the mark";
                ++logs;
            }
            if (!parse_object_name(name.name)) continue;
            EXPECT_FALSE(object.omap.contains(pending_key)) << "a lock remains";
            const auto garbage = object.omap.lower_bound("g");
            EXPECT_FALSE(garbage != object.omap.end() && garbage->first.starts_with("g"));
        }
        EXPECT_EQ(data, 2U) << "one for the data of each file";
        EXPECT_LE(logs, 1U) << "the sweeping store has its own";
    }

    sim::World world_;
    SimRados cluster_;
    const bool is_named_;
};

void crash_at_every_request(bool is_named, uint64_t first_seed, uint64_t points_wanted) {
    uint64_t points = 0;
    for (uint64_t seed = first_seed; points < points_wanted; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const uint64_t requests = Trial(seed, is_named).run(std::nullopt);
        for (uint64_t at = 0; at < requests; ++at, ++points) {
            SCOPED_TRACE(testing::Message() << "dies at request " << at);
            Trial(seed, is_named).run(at);
            if (testing::Test::HasFailure()) return;
        }
    }
    std::printf("died at %lu requests, seeds from %lu\n", points, first_seed);
}

TEST(RadosCrash, UnnamedTransactions) { crash_at_every_request(false, 1, 1200); }
TEST(RadosCrash, NamedTransactions) { crash_at_every_request(true, 1001, 1200); }

}  // namespace
}  // namespace ros2s::rados
