// For tests of whole pools: a pool on simulated disks, with one container.
#pragma once
#include <gtest/gtest.h>

#include "ros2s/object/test_support/batch.h"
#include "test_support/engine.h"

namespace ros2s::engine {

struct PoolBench : Bench {
    using Bench::Bench;
    Task<> start() {
        EXPECT_OK(co_await create());
        EXPECT_OK(co_await open());
        const auto made = co_await store->create_container(call, {.label = "c"});
        EXPECT_OK(made);
        container = made->id;
    }
    static object::Operation writing(uint64_t dkey, Bytes bytes) {
        return {.kind = object::Operation::Kind::write,
                .object = {1, 1},
                .dkey = object::Dkey::integer(dkey),
                .akey = {"a"},
                .extent = {0, bytes.size()},
                .window = object::Window::local(bytes)};
    }
    Task<Result<object::Commit>> write(uint64_t dkey, uint64_t blocks, uint8_t fill,
                                       UpdateName id = {}, bool is_new = false) {
        const AlignedBuffer buffer(blocks * block_bytes);
        std::memset(buffer.data(), fill, buffer.size());
        object::Transaction transaction{.id = id, .is_new = is_new};
        transaction.operations.push_back(writing(dkey, buffer.bytes()));
        co_return co_await store->update(call, container, transaction);
    }
    Task<Result<>> expect(uint64_t dkey, uint64_t blocks, uint8_t fill) {
        const AlignedBuffer buffer(blocks * block_bytes);
        auto item =
            object::fetch_item({1, 1}, object::Dkey::integer(dkey), {"a"}, 0, buffer.bytes());
        ROS2S_CO_TRY(co_await store->fetch(call, container, {&item, 1}));
        if (!item.status) co_return item.status;
        for (const std::byte b : buffer.bytes()) {
            if (b != std::byte{fill}) co_return fail(Code::corrupt);
        }
        co_return Result<>();
    }
    uint64_t metric(std::string_view name) {
        uint64_t found = UINT64_MAX;
        store->visit_metrics([&](std::string_view n, std::string_view, uint64_t value) {
            if (n == name) found = value;
        });
        EXPECT_NE(found, UINT64_MAX) << name;
        return found;
    }
    object::ContainerId container{};
};

inline Task<> write_into(PoolBench& pool, uint64_t dkey, uint64_t blocks) {
    EXPECT_OK(co_await pool.write(dkey, blocks, 7));
}

}  // namespace ros2s::engine
