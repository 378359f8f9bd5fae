#include "ros2s/api/queue/block_work.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include "ros2s/fs/block_names.h"
#include "ros2s/object/blocks.h"

namespace ros2s::api {
namespace {

fs::BlockWork work_of(ros2s_opcode opcode) {
    switch (opcode) {
        case ROS2S_OP_PUT_BLOCKS: return fs::BlockWork::put;
        case ROS2S_OP_TOUCH_BLOCKS: return fs::BlockWork::touch;
        case ROS2S_OP_PIN_BLOCKS: return fs::BlockWork::pin;
        case ROS2S_OP_UNPIN_BLOCKS: return fs::BlockWork::unpin;
        case ROS2S_OP_REMOVE_BLOCKS: return fs::BlockWork::remove;
        default: return fs::BlockWork::look;
    }
}

bool has_bytes(ros2s_opcode opcode) {
    return opcode == ROS2S_OP_PUT_BLOCKS || opcode == ROS2S_OP_GET_BLOCKS;
}

fs::Window window_of(const ros2s_block& block) {
    return fs::Window::local(Bytes(static_cast<std::byte*>(block.data), block.bytes));
}

std::string_view key_of(const ros2s_block& block) {
    return {static_cast<const char*>(block.key), block.key_bytes};
}

// A block is read as a file by its name.
Task<Result<>> get(fs::FileSystem& files, const Call& call, std::span<ros2s_block> blocks) {
    std::vector<fs::ReadManyItem> items(blocks.size());
    for (size_t i = 0; i < blocks.size(); ++i) {
        const std::string_view key = key_of(blocks[i]);
        if (object::is_block_key(key)) items[i].name = fs::block_name_of(key);
        items[i].window = window_of(blocks[i]);
    }
    ROS2S_CO_TRY(co_await files.read_many(call, fs::root_node, items));
    for (size_t i = 0; i < blocks.size(); ++i) {
        const fs::ReadManyItem& item = items[i];
        blocks[i].result = !item.status                  ? -to_errno(item.status.error())
                           : item.size > blocks[i].bytes ? -EMSGSIZE
                                                         : static_cast<int64_t>(item.bytes);
    }
    co_return Result<>{};
}

Task<Result<>> work(fs::FileSystem& files, const Call& call, ros2s_opcode opcode,
                    std::span<ros2s_block> blocks, uint64_t pin_ns) {
    std::vector<fs::BlockItem> items(blocks.size());
    for (size_t i = 0; i < blocks.size(); ++i) {
        items[i].key = key_of(blocks[i]);
        if (has_bytes(opcode)) items[i].window = window_of(blocks[i]);
    }
    const Duration pinned_for(
        static_cast<int64_t>(std::min<uint64_t>(pin_ns, std::numeric_limits<int64_t>::max())));
    ROS2S_CO_TRY(co_await files.blocks(call, work_of(opcode), items, pinned_for));
    for (size_t i = 0; i < blocks.size(); ++i) {
        blocks[i].result = items[i].status ? 0 : -to_errno(items[i].status.error());
    }
    co_return Result<>{};
}

}  // namespace

bool have_memory(ros2s_opcode opcode, std::span<const ros2s_block> blocks) {
    return std::ranges::all_of(blocks, [opcode](const ros2s_block& block) {
        const bool has_data = block.data != nullptr || block.bytes == 0 || !has_bytes(opcode);
        return has_data && (block.key != nullptr || block.key_bytes == 0);
    });
}

Task<Result<int64_t>> work_on_blocks(fs::FileSystem& files, const Call& call, ros2s_opcode opcode,
                                     std::span<ros2s_block> blocks, uint64_t pin_ns) {
    std::span<ros2s_block> rest = blocks;
    do {
        const auto some = rest.first(std::min(rest.size(), fs::blocks_together_max));
        const auto done = opcode == ROS2S_OP_GET_BLOCKS
                              ? co_await get(files, call, some)
                              : co_await work(files, call, opcode, some, pin_ns);
        if (!done) co_return fail(done.error());
        rest = rest.subspan(some.size());
    } while (!rest.empty());
    const auto first =
        std::ranges::find_if(blocks, [](const auto& each) { return each.result < 0; });
    co_return first - blocks.begin();
}

}  // namespace ros2s::api
