// A client dies at each of its requests in turn, also within transactions over several objects,
// while another client works in the same directories. A third client then finds all acknowledged
// changes and no partial ones. It repeats the last request, which takes effect once. In other cases
// the client lives, and gets no answer or a wrong one.
#include <gtest/gtest.h>

#include <set>

#include "ros2s/object/test_support/batch.h"
#include "ros2s/rados/keys.h"
#include "ros2s/rados/rados_store.h"
#include "ros2s/rados/records.h"
#include "ros2s/rados/sim/remains.h"
#include "ros2s/runtime/sim/world.h"
#include "segment.h"

namespace ros2s::rados {
namespace {

using object::AkeyAddress;
using object::Batch;
using object::Commit;
using object::ContainerId;
using object::ObjectId;

constexpr uint64_t directories = 3;
constexpr int moves = 6;
constexpr size_t content_max = 20'000;

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

// The fault that hits a client at one of its requests.
struct Fault {
    enum class Kind : uint8_t { death, misled } kind{};
    uint64_t request = 0;

    void befall(SimPool& pool) const {
        const uint64_t at = pool.requests() + request;
        kind == Kind::death ? pool.die_at(at) : pool.mislead_at(at);
    }
};

// A file that moves between directories. Its name is in one of them, with the number of its moves.
// The file's data has the same number.
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
    [[nodiscard]] AkeyAddress entry(int move) const {
        return {directory(move), name + (move % 2 == 0 ? "-even" : "-odd"), "entry"};
    }
    [[nodiscard]] AkeyAddress data() const { return {file, "0", "data"}; }
    // In the omap, and each third in the data pool.
    [[nodiscard]] std::string content(int move) const {
        return std::string(move % 3 == 0 ? content_max : 5000, static_cast<char>('a' + move));
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

Task<std::string> text_of(RadosStore& store, ContainerId container, AkeyAddress place,
                          size_t length) {
    std::string bytes(length, '\0');
    auto item = object::fetch_item(place.object, {place.dkey}, {place.akey}, 0,
                                   std::as_writable_bytes(std::span(bytes)));
    const auto fetched = co_await store.fetch({}, container, {&item, 1});
    EXPECT_TRUE(fetched);
    if (!item.status) co_return "";
    co_return bytes.substr(0, item.size);
}

// The numbers of its moves, as its entries and its data show them.
Task<std::set<int>> traces(RadosStore& store, ContainerId container, const Traveller& traveller) {
    std::set<int> found;
    for (int move = 0; move <= moves; ++move) {
        const std::string text = co_await text_of(store, container, traveller.entry(move), 20);
        if (!text.empty()) found.insert(std::stoi(text));
    }
    if (found.empty()) found.insert(-1);  // it has no entry
    const std::string data = co_await text_of(store, container, traveller.data(), content_max);
    for (int move = 0; move <= moves; ++move) {
        if (data.starts_with(traveller.content(move))) co_return found.insert(move), found;
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

// After a sweep there is no data that no object names, no garbage, no lock, and no record of a
// transaction that is not a reply.
Task<> check_remains(SimRados& cluster, Client& client, ContainerId container) {
    co_await client.store->close();
    co_await sleep_for(client.reactor, std::chrono::hours(2));
    Report report;
    EXPECT_TRUE(co_await client.store->sweep({}, container, report)) << report.text();
    for (const std::string& each : remains_in(cluster)) ADD_FAILURE() << each;
}

class Trial {
  public:
    Trial(uint64_t seed, bool is_named)
        : world_(seed), cluster_(world_.core()), is_named_(is_named) {}

    // Returns the number of requests that the first client made.
    uint64_t run(std::optional<Fault> fault) { return world_.run(body(fault)); }

  private:
    Task<uint64_t> body(std::optional<Fault> fault) {
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
        if (fault) fault->befall(first.pool);
        {
            Nursery nursery(world_.core(), 2);
            co_await nursery.spawn(mortal.travel(*first.store, container->id));
            co_await nursery.spawn(witness.travel(*second.store, container->id));
            co_await nursery.join();
        }
        co_await first.store->close();
        EXPECT_EQ(witness.acknowledged, moves) << "a live client was stopped by a dead one";
        EXPECT_TRUE(fault || mortal.acknowledged == moves);
        for (int round = 0; round < 2; ++round) {
            const int at = co_await find(*third.store, world_.core(), container->id, mortal);
            EXPECT_TRUE(at == mortal.acknowledged || at == mortal.tried)
                << "it is at " << at << ", acknowledged was " << mortal.acknowledged;
            const int other = co_await find(*second.store, world_.core(), container->id, witness);
            EXPECT_EQ(other, moves);
            // The dead client's last request may arrive now and commit a transaction that no client
            // has aborted. Observed results do not change.
            co_await cluster_.close();
            mortal.acknowledged = at;
        }
        mortal.tried = mortal.acknowledged;
        co_await repeat_last(*third.store, container->id, mortal);
        co_await check_remains(cluster_, third, container->id);
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

    sim::World world_;
    SimRados cluster_;
    const bool is_named_;
};

// Several writers of one client on one object. Their updates share changes, also with updates that
// fail. Another client changes the object as well.
struct Writer {
    ObjectId object;
    uint64_t number = 0;
    int acknowledged = 0;
    int tried = 0;
    object::Epoch epoch{};

    [[nodiscard]] AkeyAddress counter() const {
        return {object, "w" + std::to_string(number), "count"};
    }
    // All in one array: blocks of their own, and for each second update a block that all write.
    [[nodiscard]] AkeyAddress data() const { return {object, "shared", "data"}; }
    [[nodiscard]] uint64_t offset() const { return number * 32'768; }
    [[nodiscard]] std::string content(int update) const {
        return std::string(update % 3 == 1 ? content_max : 4096, static_cast<char>('a' + update));
    }
    [[nodiscard]] Batch batch(int update) const {
        Batch batch;
        if (update > 1) batch.epoch_equals(counter(), epoch);
        batch.put(counter(), std::to_string(update)).write(data(), offset(), content(update));
        if (has_pieces(update)) {
            for (uint64_t i = 0; i < pieces; ++i) batch.write(data(), piece_at(i), piece(i));
        }
        if (splits()) {
            batch.write(data(), split_at, std::string(split_bytes, static_cast<char>('A' + update)))
                .punch_extent(data(), split_hole);
        }
        if (update % 2 == 0)
            batch.write(data(), uint64_t{1} << 20, content(update).substr(0, 4096));
        return batch;
    }
    // So many small ones that their segment is rewritten, while others write to it.
    [[nodiscard]] bool has_pieces(int update) const { return number == 0 && update == 2; }
    static constexpr uint64_t pieces = 140;
    [[nodiscard]] static uint64_t piece_at(uint64_t i) { return (uint64_t{2} << 20) + i * 4096; }
    [[nodiscard]] static std::string piece(uint64_t i) {
        return std::string(100, static_cast<char>('a' + i % 20));
    }
    // Meanwhile, another one writes between two of them, with a hole: one run of two parts.
    [[nodiscard]] bool splits() const { return number == 1; }
    static constexpr uint64_t split_at = (uint64_t{2} << 20) + uint64_t{50} * 4096 + 200;
    static constexpr uint64_t split_bytes = 3000;
    static constexpr object::Extent split_hole{split_at + 1000, 500};
    Task<> write(RadosStore& store, ContainerId container) {
        for (int update = 1; update <= moves; ++update) {
            tried = update;
            const Batch wrong = Batch().absent(counter()).put(counter(), "wrong");
            if (update > 1) {
                const auto refused = co_await store.update({}, container, wrong.transaction());
                if (!refused && refused.error().code != Code::condition_failed) co_return;
                EXPECT_FALSE(refused.has_value());
            }
            const Batch next = batch(update);
            const auto done = co_await store.update({}, container, next.transaction());
            if (!done) co_return;
            epoch = done->epoch;
            acknowledged = update;
        }
    }
    Task<> check(RadosStore& store, ContainerId container) const {
        const std::string count = co_await text_of(store, container, counter(), 20);
        const int at = count.empty() ? 0 : std::stoi(count);
        EXPECT_TRUE(at == acknowledged || at == tried)
            << number << " is at " << at << ", acknowledged was " << acknowledged;
        std::string all = co_await text_of(store, container, data(), size_t{3} << 20);
        if (at == 0) co_return;
        all.resize(size_t{3} << 20);
        for (uint64_t i = 0; number == 0 && at >= 2 && i < pieces; ++i) {
            EXPECT_EQ(all.substr(piece_at(i), 100), piece(i)) << i;
        }
        if (splits()) {
            std::string expected(split_bytes, static_cast<char>('A' + at));
            expected.replace(split_hole.offset - split_at, split_hole.length, split_hole.length,
                             '\0');
            EXPECT_EQ(all.substr(split_at, split_bytes), expected);
        }
        EXPECT_TRUE(std::string_view(all).substr(offset()).starts_with(content(at)));
    }
};

size_t long_segments(SimRados& cluster) {
    size_t count = 0;
    for (const auto& [name, object] : cluster.objects()) {
        for (const auto& [key, value] : object.omap) {
            const auto entry = parse_entry_key(key);
            Segment segment;
            if (!entry || !entry->segment || !decode(value, segment)) continue;
            if (segment.visible.size() > visible_parts_max) ++count;
        }
    }
    return count;
}

uint64_t crash_among_writers(uint64_t seed, std::optional<Fault> fault) {
    sim::World world(seed);
    SimRados cluster(world.core());
    return world.run(
        [](sim::World& in, SimRados& rados, std::optional<Fault> at) -> Task<uint64_t> {
            Client first(rados, in.core()), second(rados, in.core()), third(rados, in.core());
            EXPECT_TRUE(co_await third.open());
            const auto container = co_await third.store->create_container({}, {.label = "c"});
            EXPECT_TRUE(co_await first.open());
            EXPECT_TRUE(co_await second.open());
            const uint64_t opened = first.pool.requests();
            if (at) at->befall(first.pool);
            std::vector<Writer> writers;
            for (uint64_t i = 0; i < 5; ++i) writers.push_back({.object = {3, 1}, .number = i});
            {
                Nursery nursery(in.core(), writers.size());
                for (Writer& each : writers) {
                    co_await nursery.spawn(
                        each.write(each.number == 4 ? *second.store : *first.store, container->id));
                }
                co_await nursery.join();
            }
            co_await first.store->close();
            const uint64_t requests = first.pool.requests() - opened;
            co_await rados.close();
            EXPECT_EQ(writers[4].acknowledged, moves) << "a live client was stopped by a dead one";
            for (const Writer& each : writers) {
                EXPECT_TRUE(at || each.acknowledged == moves);
                for (Client* reader : {&second, &third}) {
                    co_await each.check(*reader->store, container->id);
                }
            }
            if (!at) {
                EXPECT_LT(requests, 4 * moves * 5U) << "no update shared a change";
                EXPECT_EQ(long_segments(rados), 0U) << "a segment was not written anew";
            }
            co_await second.store->close();
            co_await check_remains(rados, third, container->id);
            co_await third.store->close();
            co_return requests;
        }(world, cluster, fault));
}

// As a host behind a DPU writes a file: named, each block of one slot. The writes share changes,
// and their replies are noted with the object.
struct NamedWriter {
    Uuid client;
    uint32_t slot = 0;
    int acknowledged = 0;
    int tried = 0;

    inline static const AkeyAddress data{{4, 1}, "0", "data"};
    [[nodiscard]] uint64_t offset() const { return uint64_t{slot} * 32'768; }
    [[nodiscard]] static std::string content(int update) {
        return std::string(update % 3 == 1 ? content_max : 4096, static_cast<char>('a' + update));
    }
    [[nodiscard]] Batch batch(int update) const {
        Batch batch;
        batch.write(data, offset(), content(update));
        batch.id({client, slot, static_cast<uint64_t>(update)});
        return batch;
    }
    Task<> write(RadosStore& store, ContainerId container) {
        for (int update = 1; update <= moves; ++update) {
            tried = update;
            const Batch next = batch(update);
            const auto done = co_await store.update({}, container, next.transaction());
            if (!done) co_return;
            acknowledged = update;
        }
    }
    // The number of the update that is visible; 0: none.
    Task<int> visible(RadosStore& store, ContainerId container) const {
        std::string all = co_await text_of(store, container, data, size_t{1} << 20);
        all.resize(size_t{1} << 20);
        const char first = all[offset()];
        co_return first == '\0' ? 0 : first - 'a';
    }
    // The last one is repeated, then others write, then it is repeated again.
    Task<> repeat(RadosStore& store, RadosStore& other, ContainerId container) const {
        const int before = co_await visible(store, container);
        EXPECT_TRUE(before == acknowledged || before == tried)
            << slot << " is at " << before << ", acknowledged was " << acknowledged;
        const Batch last = batch(tried);
        const auto done = co_await store.update({}, container, last.transaction());
        EXPECT_TRUE(done) << (done ? "" : describe(done.error()));
        if (done && before == tried) EXPECT_TRUE(done->replayed) << slot << " at " << tried;
        EXPECT_EQ(co_await visible(store, container), tried);
        Batch overwrite;
        overwrite.write(data, offset(), std::string(content_max, 'z'));
        EXPECT_TRUE(co_await other.update({}, container, overwrite.transaction()));
        for (RadosStore* const each : {&other, &store}) {
            const auto again = co_await each->update({}, container, last.transaction());
            EXPECT_TRUE(again && again->replayed) << slot << " at " << tried;
            if (tried == 1) continue;
            const Batch late = batch(tried - 1);
            const auto refused = co_await each->update({}, container, late.transaction());
            EXPECT_FALSE(refused.has_value()) << "an older one was done";
        }
        EXPECT_EQ(co_await visible(store, container), 'z' - 'a');
    }
};

uint64_t crash_among_named_writers(uint64_t seed, std::optional<Fault> fault) {
    sim::World world(seed);
    SimRados cluster(world.core());
    return world.run(
        [](sim::World& in, SimRados& rados, std::optional<Fault> at) -> Task<uint64_t> {
            Client first(rados, in.core()), second(rados, in.core()), third(rados, in.core());
            EXPECT_TRUE(co_await third.open());
            const auto container = co_await third.store->create_container({}, {.label = "c"});
            EXPECT_TRUE(co_await first.open());
            EXPECT_TRUE(co_await second.open());
            const uint64_t opened = first.pool.requests();
            if (at) at->befall(first.pool);
            std::vector<NamedWriter> writers(5);
            for (uint32_t i = 0; i < 5; ++i) {
                writers[i].slot = i;
                writers[i].client.bytes[0] = i == 4 ? 2 : 1;
            }
            {
                Nursery nursery(in.core(), writers.size());
                for (NamedWriter& each : writers) {
                    co_await nursery.spawn(
                        each.write(each.slot == 4 ? *second.store : *first.store, container->id));
                }
                co_await nursery.join();
            }
            if (in.core().random().one_in(2)) {
                co_await sleep_for(in.core(), std::chrono::seconds(3));
            }
            co_await first.store->close();
            const uint64_t requests = first.pool.requests() - opened;
            // What is late may come before the repetitions, or with them.
            if (in.core().random().one_in(2)) co_await rados.close();
            EXPECT_EQ(writers[4].acknowledged, moves) << "a live client was stopped by a dead one";
            for (const NamedWriter& each : writers) {
                EXPECT_TRUE(at || each.acknowledged == moves);
                co_await each.repeat(*third.store, *second.store, container->id);
            }
            if (!at) EXPECT_LT(requests, 4 * moves * 3U) << "no write shared a change";
            co_await second.store->close();
            co_await rados.close();
            co_await check_remains(rados, third, container->id);
            co_await third.store->close();
            co_return requests;
        }(world, cluster, fault));
}

// Under the sanitizers a trial takes ten times as long. There the fault hits one request of each
// `stride`, a different one for each seed. ./dev nightly tries all, and crash_rados many more.
#ifdef ROS2S_SANITIZED
constexpr uint64_t stride = 7;
#else
constexpr uint64_t stride = 1;
#endif

// `trial` returns how many requests of the client the fault can hit.
void at_every_request(Fault::Kind kind, uint64_t first_seed, uint64_t requests_wanted,
                      uint64_t (*trial)(uint64_t seed, std::optional<Fault> fault)) {
    uint64_t seen = 0, points = 0;
    for (uint64_t seed = first_seed; seen < requests_wanted; ++seed) {
        const uint64_t requests = trial(seed, std::nullopt);
        seen += requests;
        for (uint64_t at = seed % stride; at < requests; at += stride, ++points) {
            SCOPED_TRACE(testing::Message() << "seed " << seed << ", at request " << at);
            trial(seed, Fault{.kind = kind, .request = at});
            if (testing::Test::HasFailure()) return;
        }
    }
    std::printf("at %lu requests, seeds from %lu\n", points, first_seed);
}
uint64_t try_unnamed(uint64_t seed, std::optional<Fault> fault) {
    return Trial(seed, false).run(fault);
}
uint64_t try_named(uint64_t seed, std::optional<Fault> fault) {
    return Trial(seed, true).run(fault);
}

// A transaction puts a name into a directory, which decides it, and a record into a new object. Its
// client dies. Then the directory is punched and removed. Its decision is still valid.
uint64_t crash_before_the_decider_goes(uint64_t seed, std::optional<Fault> fault) {
    sim::World world(seed);
    SimRados cluster(world.core());
    return world.run([](sim::World& in, SimRados& rados,
                        std::optional<Fault> at) -> Task<uint64_t> {
        const AkeyAddress old_name{{1, 1}, "old", "entry"}, name{{1, 1}, "new", "entry"};
        const AkeyAddress record{{2, 1}, "", "inode"};
        Client first(rados, in.core()), second(rados, in.core()), third(rados, in.core());
        EXPECT_TRUE(co_await second.open());
        const auto container = co_await second.store->create_container({}, {.label = "c"});
        const Batch start = Batch().put(old_name, "1").put({{1, 1}, "older", "entry"}, "1");
        EXPECT_TRUE(co_await second.store->update({}, container->id, start.transaction()));
        EXPECT_TRUE(co_await first.open());
        EXPECT_TRUE(co_await third.open());
        const uint64_t opened = first.pool.requests();
        if (at) at->befall(first.pool);
        const Batch change = Batch().absent(name).put(name, "1").put(record, "1");
        const auto done = co_await first.store->update({}, container->id, change.transaction());
        EXPECT_TRUE(at || done);
        co_await first.store->close();
        const bool was_there = !(co_await text_of(*second.store, container->id, name, 20)).empty();
        const Batch punch = Batch().punch_object(name.object);
        EXPECT_TRUE(co_await second.store->update({}, container->id, punch.transaction()));
        co_await second.store->close();
        const std::string found = co_await text_of(*third.store, container->id, record, 20);
        co_await rados.close();
        EXPECT_TRUE(!done || was_there) << "acknowledged, and not there";
        // A late commit may come between the two requests, but not after the punch.
        if (was_there) EXPECT_EQ(found, "1") << "half of a transaction was taken back";
        EXPECT_EQ(co_await text_of(*third.store, container->id, record, 20), found);
        co_await check_remains(rados, third, container->id);
        co_await third.store->close();
        co_return first.pool.requests() - opened;
    }(world, cluster, fault));
}

// A client makes two objects by one transaction and removes them by another one. So none of them
// has entries when it decides. The client dies.
uint64_t crash_without_entries(uint64_t seed, std::optional<Fault> fault) {
    sim::World world(seed);
    SimRados cluster(world.core());
    return world.run(
        [](sim::World& in, SimRados& rados, std::optional<Fault> at) -> Task<uint64_t> {
            const AkeyAddress one{{1, 1}, "name", "entry"}, other{{1, 2}, "name", "entry"};
            Client first(rados, in.core()), second(rados, in.core());
            EXPECT_TRUE(co_await second.open());
            const auto container = co_await second.store->create_container({}, {.label = "c"});
            EXPECT_TRUE(co_await first.open());
            const uint64_t opened = first.pool.requests();
            if (at) at->befall(first.pool);
            const Batch make = Batch().absent(one).put(one, "1").put(other, "1");
            const auto made = co_await first.store->update({}, container->id, make.transaction());
            Result<object::Commit> removed = fail(Code::io);
            if (made) {
                const Batch remove = Batch().punch_object(one.object).punch_object(other.object);
                removed = co_await first.store->update({}, container->id, remove.transaction());
            }
            EXPECT_TRUE(at || removed);
            co_await first.store->close();
            // A late commit may come between the first two requests.
            (void)co_await text_of(*second.store, container->id, one, 20);
            co_await rados.close();
            const std::string found = co_await text_of(*second.store, container->id, one, 20);
            EXPECT_EQ(co_await text_of(*second.store, container->id, other, 20), found);
            EXPECT_TRUE(!made || removed || found == "1" || at) << "acknowledged, and not there";
            EXPECT_TRUE(!removed || found.empty()) << "acknowledged, and still there";
            co_await check_remains(rados, second, container->id);
            EXPECT_EQ(co_await text_of(*second.store, container->id, one, 20), found);
            EXPECT_EQ(co_await text_of(*second.store, container->id, other, 20), found);
            co_await second.store->close();
            co_return first.pool.requests() - opened;
        }(world, cluster, fault));
}

TEST(RadosCrash, DecisionOfRemovedObjectStaysValid) {
    at_every_request(Fault::Kind::death, 3001, 300, crash_before_the_decider_goes);
}
TEST(RadosCrash, ObjectsWithoutEntriesAreMadeAndRemovedTogether) {
    at_every_request(Fault::Kind::death, 5001, 300, crash_without_entries);
}
TEST(RadosCrash, WritersOfOneObjectLoseNothing) {
    at_every_request(Fault::Kind::death, 2001, 600, crash_among_writers);
}
TEST(RadosCrash, NamedWritesOfOneObjectTakeEffectOnce) {
    at_every_request(Fault::Kind::death, 4001, 500, crash_among_named_writers);
}
TEST(RadosCrash, UnnamedTransactionsAreAtomic) {
    at_every_request(Fault::Kind::death, 1, 300, try_unnamed);
}
TEST(RadosCrash, NamedTransactionsTakeEffectOnce) {
    at_every_request(Fault::Kind::death, 1001, 300, try_named);
}

TEST(RadosFalseAnswer, DecisionOfRemovedObjectStaysValid) {
    at_every_request(Fault::Kind::misled, 3001, 300, crash_before_the_decider_goes);
}
TEST(RadosFalseAnswer, ObjectsWithoutEntriesAreMadeAndRemovedTogether) {
    at_every_request(Fault::Kind::misled, 5001, 300, crash_without_entries);
}
TEST(RadosFalseAnswer, WritersOfOneObjectLoseNothing) {
    at_every_request(Fault::Kind::misled, 2001, 300, crash_among_writers);
}
TEST(RadosFalseAnswer, NamedWritesOfOneObjectTakeEffectOnce) {
    at_every_request(Fault::Kind::misled, 4001, 500, crash_among_named_writers);
}
TEST(RadosFalseAnswer, UnnamedTransactionsAreAtomic) {
    at_every_request(Fault::Kind::misled, 1, 600, try_unnamed);
}
TEST(RadosFalseAnswer, NamedTransactionsTakeEffectOnce) {
    at_every_request(Fault::Kind::misled, 1001, 600, try_named);
}

}  // namespace
}  // namespace ros2s::rados
