// Many blocks at once, by their keys.
#include <algorithm>

#include "block_files.h"
#include "ros2s/object/checksum.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::fs {

using object::blocks_object;
using Kind = object::Operation::Kind;

// A put waits for its slot, and not here.
static constexpr size_t puts_together_max = 64;

Task<Result<>> BlockFiles::blocks(const Call& call, BlockWork work, std::span<BlockItem> items,
                                  Duration pinned_for) {
    ROS2S_CHECK(items.size() <= blocks_together_max);
    for (BlockItem& item : items) {
        item.status = object::is_block_key(item.key) ? Result<>{} : fail(Code::invalid);
    }
    switch (work) {
        case BlockWork::put: co_await put_blocks(call, items); co_return Result<>{};
        case BlockWork::look:
            co_return co_await find_blocks(call, items, object::block_head_akey());
        case BlockWork::touch:
            co_return co_await find_blocks(call, items, object::block_data_akey());
        case BlockWork::pin: co_return co_await pin_blocks(call, items, pinned_for);
        case BlockWork::unpin: {
            std::vector<std::string> keys;
            for (const BlockItem& item : items) {
                if (item.status) keys.emplace_back(item.key);
            }
            co_return co_await unpin(call, keys);
        }
        case BlockWork::remove: co_return co_await remove_blocks(call, items);
    }
    co_return fail(Code::invalid);
}

Task<> BlockFiles::put_blocks(const Call& call, std::span<BlockItem> items) {
    Nursery puts(reactor_, puts_together_max);
    for (BlockItem& item : items) {
        if (item.status) co_await puts.spawn(put_block(*this, call, item));
    }
    co_await puts.join();
}

Task<> BlockFiles::put_block(BlockFiles& self, const Call& call, BlockItem& item) {
    if (!item.window.is_local()) {
        item.status = fail(Code::unsupported);
    } else if (item.window.length > object::block_length_max) {
        item.status = fail(Code::too_large, object::block_length_max);
    } else {
        const ConstBytes bytes = item.window.bytes();
        if (item.checksums.empty()) {
            item.status = co_await object::array_checksums_in_slices(self.summing_, call, 0, bytes,
                                                                     item.checksums);
        }
        const std::string key(item.key);
        if (item.status) item.status = co_await self.put(call, key, bytes, item.checksums);
    }
}

Task<Result<>> BlockFiles::find_blocks(const Call& call, std::span<BlockItem> items,
                                       const object::Akey& akey) {
    static_assert(blocks_together_max <= object::fetch_items_max);
    std::vector<object::FetchItem> fetches;
    std::vector<BlockItem*> asked;
    for (BlockItem& item : items) {
        if (!item.status) continue;
        asked.push_back(&item);
        fetches.push_back({.object = blocks_object, .dkey = {std::string(item.key)}, .akey = akey});
    }
    if (fetches.empty()) co_return Result<>{};
    ROS2S_CO_TRY(co_await store_.fetch(call, container_, fetches));
    for (size_t i = 0; i < asked.size(); ++i) {
        const Result<>& found = fetches[i].status;
        if (!found && found.error().code != Code::too_small) asked[i]->status = found;
    }
    co_return Result<>{};
}

// A block that vanishes before it is pinned is not_found.
Task<Result<>> BlockFiles::pin_blocks(const Call& call, std::span<BlockItem> items,
                                      Duration pinned_for) {
    const object::PinRecord record{.length_ns = static_cast<uint64_t>(pinned_for.count())};
    if (!object::parse_pin_record(object_bytes(record))) co_return fail(Code::invalid);
    Result<object::Commit> pinned;
    {
        co_await slots_.wait();
        auto slot = slots_.take();
        for (const BlockItem& item : items) {
            if (!item.status) continue;
            slot.add({.kind = Kind::put,
                      .object = blocks_object,
                      .dkey = {std::string(item.key)},
                      .akey = object::block_pin_akey(),
                      .window = Window::local(object_bytes(record))});
        }
        if (slot.transaction().operations.empty()) co_return Result<>{};
        has_pinned_ = true;
        pinned = co_await store_.update(call, container_, slot.transaction());
        if (!pinned) slot.failed(pinned.error());
    }
    const auto found = co_await find_blocks(call, items, object::block_head_akey());
    for (BlockItem& item : items) {
        if (item.status && !pinned) item.status = fail(pinned.error());
    }
    co_return found;
}

Task<Result<>> BlockFiles::unpin(const Call& call, std::span<const std::string> keys) {
    if (keys.empty()) co_return Result<>{};
    co_await slots_.wait();
    auto slot = slots_.take();
    for (const std::string& key : keys) {
        slot.add({.kind = Kind::punch_akey,
                  .object = blocks_object,
                  .dkey = {key},
                  .akey = object::block_pin_akey()});
    }
    const auto done = co_await store_.update(call, container_, slot.transaction());
    if (done) co_return Result<>{};
    slot.failed(done.error());
    co_return fail(done.error());
}

// Two requests. A block that another one removes between them counts as removed.
Task<Result<>> BlockFiles::remove_blocks(const Call& call, std::span<BlockItem> items) {
    ROS2S_CO_TRY(co_await find_blocks(call, items, object::block_head_akey()));
    std::vector<std::string> present;
    for (const BlockItem& item : items) {
        const bool is_there = item.status || item.status.error().code == Code::corrupt;
        if (is_there) present.emplace_back(item.key);
    }
    if (present.empty()) co_return Result<>{};
    ROS2S_CO_TRY(co_await punch(call, present));
    for (BlockItem& item : items) {
        if (!item.status && item.status.error().code == Code::corrupt) item.status = {};
    }
    co_return Result<>{};
}

}  // namespace ros2s::fs
