// Containers, and the pool's space.
#include "probe.h"

namespace ros2s::object::contract {
namespace {

const AkeyAddress kept_array{one, "a", "array"};

Task<> labels(Probe& probe) {
    for (const char* bad : {"", ".", "..", "a/b", "a b", "ä", "new\nline"}) {
        const ContainerProperties properties{.label = bad};
        const auto record = co_await probe.store().create_container(probe.call(), properties);
        EXPECT_FALSE(record.has_value()) << bad;
        if (!record) EXPECT_EQ(describe(record.error().code), describe(Code::invalid));
    }
    ContainerProperties longest{.label = std::string(127, 'l'), .chunk_bytes = 1 << 16};
    const auto made = co_await probe.store().create_container(probe.call(), longest);
    EXPECT_TRUE(made.has_value());
    if (made) EXPECT_EQ(made->properties, longest);
    const auto again = co_await probe.store().create_container(probe.call(), longest);
    EXPECT_FALSE(again.has_value());
    if (!again) EXPECT_EQ(describe(again.error().code), describe(Code::exists));
    longest.label += 'l';
    const auto too_long = co_await probe.store().create_container(probe.call(), longest);
    EXPECT_FALSE(too_long.has_value());
    const ContainerProperties bad_chunk{.label = "c", .chunk_bytes = 1000};
    const auto odd = co_await probe.store().create_container(probe.call(), bad_chunk);
    EXPECT_FALSE(odd.has_value());
    co_await probe.create_container("Z.z_z-9");
    const auto list = co_await probe.store().list_containers(probe.call());
    EXPECT_TRUE(list.has_value());
    if (!list) co_return;
    EXPECT_EQ(list->size(), 3U);
    EXPECT_EQ(list->at(0).properties.label, "Z.z_z-9");
    EXPECT_EQ(list->at(1).properties.label, "contract");
    EXPECT_EQ(list->at(1).id, probe.container());
    EXPECT_EQ(list->at(2).properties.chunk_bytes, 1U << 16);
    EXPECT_EQ(list->at(2).created, made->created);
}

Task<> a_world_of_its_own_each(Probe& probe) {
    const ContainerId other = co_await probe.create_container("other");
    co_await probe.must(Batch().write(kept_array, 0, "mine"));
    const Batch batch = Batch().absent(kept_array).write(kept_array, 0, "theirs");
    const auto commit = co_await probe.store().update(probe.call(), other, batch.transaction());
    EXPECT_TRUE(commit.has_value());
    co_await probe.expect_array(kept_array, "mine");
    const auto destroyed = co_await probe.store().destroy_container(probe.call(), other);
    EXPECT_TRUE(destroyed.has_value());
    co_await probe.expect_array(kept_array, "mine");
}

Task<> unknown_ones(Probe& probe) {
    const ContainerId gone = co_await probe.create_container("gone");
    const auto destroyed = co_await probe.store().destroy_container(probe.call(), gone);
    EXPECT_TRUE(destroyed.has_value());
    ContainerId never;
    never.uuid.bytes.fill(7);
    const auto not_found = fail(Code::not_found);
    for (const ContainerId id : {gone, never, ContainerId{}}) {
        FetchItem item{.object = one, .akey = {"a"}};
        const auto fetched = co_await probe.store().fetch(probe.call(), id, {&item, 1});
        EXPECT_EQ(fetched, Result<>(not_found));
        const Batch batch = Batch().touch(kept_array);
        const auto commit = co_await probe.store().update(probe.call(), id, batch.transaction());
        EXPECT_EQ(commit, Result<Commit>(not_found));
        const ListRequest request{.what = ListRequest::What::objects};
        const auto list = co_await probe.store().list(probe.call(), id, request);
        EXPECT_FALSE(list.has_value());
        if (!list) EXPECT_EQ(list.error(), not_found.error());
        const Akey akey{"a"};
        const auto query = co_await probe.store().query(probe.call(), id, one, akey);
        EXPECT_FALSE(query.has_value());
        if (!query) EXPECT_EQ(query.error(), not_found.error());
        const auto destroyed_again = co_await probe.store().destroy_container(probe.call(), id);
        EXPECT_EQ(destroyed_again, Result<>(not_found));
    }
}

Task<> a_destroyed_one_leaves_nothing(Probe& probe) {
    const PoolSpace before = co_await probe.space();
    for (int round = 0; round < 3; ++round) {
        const ContainerId id = co_await probe.create_container("again");
        const ListRequest request{.what = ListRequest::What::objects};
        const auto list = co_await probe.store().list(probe.call(), id, request);
        EXPECT_TRUE(list.has_value() && list->entries.empty());
        for (uint64_t i = 0; i < 4; ++i) {
            const Batch batch = Batch().write({{i, 0}, "d", "a"}, 0, pattern(i, 1 << 20));
            const auto commit =
                co_await probe.store().update(probe.call(), id, batch.transaction());
            EXPECT_TRUE(commit.has_value());
        }
        const PoolSpace full = co_await probe.space();
        EXPECT_LE(full.free_bytes + (4 << 20), before.free_bytes);
        const auto destroyed = co_await probe.store().destroy_container(probe.call(), id);
        EXPECT_TRUE(destroyed.has_value());
        const PoolSpace after = co_await probe.space();
        EXPECT_EQ(after.free_bytes, before.free_bytes);
        EXPECT_EQ(after.total_bytes, before.total_bytes);
    }
}

// Writes 1 MiB arrays until there is no space; returns their number.
Task<uint64_t> fill_up(Probe& probe) {
    for (uint64_t i = 0;; ++i) {
        const AkeyAddress address{one, Dkey::integer(i).bytes, "array"};
        const auto commit = co_await probe.update(Batch().write(address, 0, pattern(i, 1 << 20)));
        if (!commit) {
            EXPECT_EQ(describe(commit.error().code), describe(Code::no_space));
            co_return i;
        }
        if (i > 4096) {
            ADD_FAILURE() << "a scarce store takes over 4 GiB";
            co_return i;
        }
    }
}

Task<> a_full_pool(Probe& probe) {
    const PoolSpace empty = co_await probe.space();
    for (int round = 0; round < 3; ++round) {
        const uint64_t count = co_await fill_up(probe);
        EXPECT_GE(count << 20, empty.free_bytes * 3 / 4) << "much space was not to be had";
        // The refused write left nothing, and neither does one that is mostly small.
        const AkeyAddress refused{one, Dkey::integer(count).bytes, "array"};
        co_await probe.expect_absent(refused);
        co_await probe.refused(
            Batch().put({one, "v", "value"}, "x").write(refused, 0, pattern(0, 4 << 20)),
            Code::no_space);
        co_await probe.expect_absent({one, "v", "value"});
        const uint64_t last = count - 1;
        co_await probe.expect_array({one, Dkey::integer(last).bytes, "array"},
                                    pattern(last, 1 << 20));
        // Freed space can be used again at once.
        for (uint64_t i = 0; i < 4; ++i) {
            co_await probe.must(Batch().punch_akey({one, Dkey::integer(i).bytes, "array"}));
        }
        for (uint64_t i = 0; i < 4; ++i) {
            co_await probe.must(
                Batch().write({one, Dkey::integer(i).bytes, "array"}, 0, pattern(i, 1 << 20)));
        }
        for (uint64_t i = 0; i < count; ++i) {
            co_await probe.expect_array({one, Dkey::integer(i).bytes, "array"},
                                        pattern(i, 1 << 20));
        }
        co_await probe.must(Batch().punch_object(one));
        const PoolSpace after = co_await probe.space();
        EXPECT_EQ(after.free_bytes, empty.free_bytes);
    }
}

Task<> containers_survive_reopening(Probe& probe) {
    const ContainerId other = co_await probe.create_container("other");
    const ContainerId gone = co_await probe.create_container("gone");
    co_await probe.must(
        Batch().write(kept_array, 5000, pattern(1, 2 << 20)).put({one, "v", "v"}, "v"));
    const auto destroyed = co_await probe.store().destroy_container(probe.call(), gone);
    EXPECT_TRUE(destroyed.has_value());
    const QueryReply query = co_await probe.query(one, "array");
    const PoolSpace space = co_await probe.space();
    for (int i = 0; i < 3; ++i) {
        const bool reopened = co_await probe.setup().reopen();
        if (!reopened) co_return;
        const auto list = co_await probe.store().list_containers(probe.call());
        EXPECT_TRUE(list.has_value() && list->size() == 2 && list->at(1).id == other);
        std::string model;
        overlay(model, 5000, pattern(1, 2 << 20));
        co_await probe.expect_array(kept_array, model);
        co_await probe.expect_value({one, "v", "v"}, "v");
        const QueryReply again = co_await probe.query(one, "array");
        EXPECT_EQ(again.last_epoch, query.last_epoch);
        EXPECT_EQ(again.last_time, query.last_time);
        EXPECT_EQ(again.bytes_used, query.bytes_used);
        const PoolSpace space_again = co_await probe.space();
        EXPECT_EQ(space_again.free_bytes, space.free_bytes);
        const Commit commit = co_await probe.must(Batch().touch({{8, 8}, "d", "a"}));
        EXPECT_GT(commit.epoch, query.last_epoch);
    }
}

}  // namespace

std::vector<Case> container_cases() {
    return {
        {"InvalidOrDuplicateLabelIsRefused", labels},
        {"ContainersAreIndependent", a_world_of_its_own_each},
        {"UnknownContainerIsNotFound", unknown_ones},
        {"DestroyedContainerLeavesNothing", a_destroyed_one_leaves_nothing, {}, knows_its_space},
        {"FullPoolRefusesWritesUntilFreed",
         a_full_pool,
         {.capacity_bytes = 32 << 20, .scarce = true},
         knows_its_space},
        {"ContainersSurviveReopening", containers_survive_reopening, {}, is_durable}};
}

}  // namespace ros2s::object::contract
