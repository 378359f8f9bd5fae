// The asynchronous calls. The caller's arguments are checked here, on the caller's thread.

#include <cerrno>

#include "handles.h"
#include "ros2s/api/queue/block_work.h"

using namespace ros2s;
using namespace ros2s::api;
using namespace ros2s::api::c;

namespace ros2s::api::c {

Task<Result<>> add_queue(ros2s_queue& queue) {
    queue.fs.instance().add_queue(*queue.queue);
    co_return {};
}

namespace {

constexpr uint32_t depth_max = 65536;

Task<> remove_queue(ros2s_queue& queue) {
    queue.queue->take_all();
    co_await queue.queue->drain();
    queue.fs.instance().remove_queue(*queue.queue);
}

Task<bool> pin(ros2s_fs& fs, Bytes memory) {
    Ring* ring = fs.instance().reactor().ring();
    co_return ring != nullptr && ring->register_memory(memory);
}

Task<> unpin(ros2s_fs& fs, Bytes memory) {
    fs.instance().reactor().ring()->unregister_memory(memory);
    co_return;
}

int refuse_memory(uint32_t kind, const char* what) {
    return kind == ROS2S_MEMORY_DPU || kind == ROS2S_MEMORY_GPU
               ? refuse(EOPNOTSUPP, std::string(what) +
                                        ": this version moves host memory only; copy to and from "
                                        "it, with kind ROS2S_MEMORY_HOST")
               : refuse(EINVAL, std::string(what) + ": " + std::to_string(kind) +
                                    " is not a ros2s_memory_kind");
}

bool holds(Bytes memory, const ros2s_request& request) {
    const auto begin = reinterpret_cast<uintptr_t>(memory.data());
    const auto address = reinterpret_cast<uintptr_t>(request.address);
    return address >= begin && address - begin <= memory.size() &&
           request.bytes <= memory.size() - (address - begin);
}

int check_blocks(const ros2s_request& request) {
    const auto* const blocks = static_cast<const ros2s_block*>(request.address);
    const auto opcode = static_cast<ros2s_opcode>(request.opcode);
    if ((blocks == nullptr && request.bytes > 0) || !have_memory(opcode, {blocks, request.bytes})) {
        return refuse(EINVAL, "submit: the blocks, a key or the data of a block is NULL");
    }
    return 0;
}

// 0, or the reason why the request is refused.
int check_request(const ros2s_queue& queue, const ros2s_request& request) {
    if (is_of_blocks(request.opcode)) return check_blocks(request);
    if (request.opcode > ROS2S_OP_PUNCH_HOLE) [[unlikely]] {
        return refuse(EINVAL,
                      "submit: " + std::to_string(request.opcode) + " is not a ros2s_opcode");
    }
    if (request.reserved != 0) [[unlikely]] {
        return refuse(EINVAL, "submit: a reserved field is not 0");
    }
    if (request.opcode == ROS2S_OP_NOP) return 0;
    if (request.file == nullptr || &request.file->fs != &queue.fs) [[unlikely]] {
        return refuse(EINVAL, "submit: the file is NULL, or not of the queue's ros2s_fs");
    }
    if (request.file->mark.in_forked_child()) [[unlikely]] {
        if (const int rc = renew(*request.file, "submit"); rc < 0) return rc;
    }
    if (request.opcode != ROS2S_OP_READ && request.opcode != ROS2S_OP_WRITE) return 0;
    if (request.memory != ROS2S_MEMORY_HOST) [[unlikely]] {
        return refuse_memory(request.memory, "submit");
    }
    if (request.address == nullptr && request.bytes > 0) [[unlikely]] {
        return refuse(EINVAL, "submit: the address is NULL");
    }
    if (request.buffer != nullptr && !holds(request.buffer->memory, request)) [[unlikely]] {
        return refuse(EINVAL, "submit: the request's memory is not inside its registered buffer");
    }
    return 0;
}

}  // namespace
}  // namespace ros2s::api::c

int ros2s_buffer_register(ros2s_fs* fs, const ros2s_memory* memory, ros2s_buffer** out) {
    if (const int rc = check(fs, "register a buffer"); rc < 0) return rc;
    if (memory == nullptr || out == nullptr) {
        return refuse(EINVAL, "register a buffer: an argument is NULL");
    }
    *out = nullptr;
    if (memory->struct_bytes < sizeof(ros2s_memory)) {
        return refuse(EINVAL, "register a buffer: struct_bytes is not sizeof(ros2s_memory)");
    }
    if (memory->kind != ROS2S_MEMORY_HOST) return refuse_memory(memory->kind, "register a buffer");
    if (memory->address == nullptr || memory->bytes == 0 || memory->reserved != 0) {
        return refuse(EINVAL, "register a buffer: no memory, or a reserved field that is not 0");
    }
    const Bytes bytes(static_cast<std::byte*>(memory->address), memory->bytes);
    const bool pinned = fs->run([&] { return pin(*fs, bytes); });
    ++fs->users;
    *out = new ros2s_buffer{.fs = *fs, .memory = bytes, .pinned = pinned};
    return 0;
}

int ros2s_buffer_unregister(ros2s_buffer* buffer) {
    const int whose = check_closing(buffer, "unregister a buffer");
    if (whose < 0) return whose;
    auto& fs = buffer->fs;
    if (whose == 0 && buffer->pinned) fs.run([&] { return unpin(fs, buffer->memory); });
    --fs.users;
    delete buffer;
    return 0;
}

int ros2s_buffer_is_pinned(const ros2s_buffer* buffer) {
    return buffer != nullptr && buffer->pinned && !buffer->mark.in_forked_child() ? 1 : 0;
}

int ros2s_queue_create(ros2s_fs* fs, uint32_t depth, ros2s_queue** out) {
    if (const int rc = check(fs, "create a queue"); rc < 0) return rc;
    if (out == nullptr || depth == 0 || depth > depth_max) {
        return refuse(EINVAL, "create a queue: the depth is not 1 to " + std::to_string(depth_max) +
                                  ", or the pointer for the handle is NULL");
    }
    *out = nullptr;
    auto made = api::Queue::create(fs->instance().reactor(), fs->file_system(), depth,
                                   fs->instance().environment().log);
    if (!made) return refuse(made.error(), "create a queue");
    auto queue = std::make_unique<ros2s_queue>(ros2s_queue{.fs = *fs, .queue = std::move(*made)});
    const auto added = fs->run([&] { return add_queue(*queue); });
    if (!added) return refuse(added.error(), "create a queue");
    ++fs->users;
    *out = queue.release();
    return 0;
}

int ros2s_queue_destroy(ros2s_queue* queue) {
    const int whose = check_closing(queue, "destroy a queue");
    if (whose < 0) return whose;
    if (whose > 0) keep_for_parent(std::shared_ptr<api::Queue>(std::move(queue->queue)));
    if (whose == 0) queue->fs.run([&] { return remove_queue(*queue); });
    --queue->fs.users;
    delete queue;
    return 0;
}

int ros2s_queue_submit(ros2s_queue* queue, const ros2s_request* requests, uint32_t count) {
    if (const int rc = check(queue, "submit"); rc < 0) return rc;
    if (requests == nullptr && count > 0) return refuse(EINVAL, "submit: the requests are NULL");
    const uint32_t most = std::min(count, queue->queue->room());
    uint32_t taken = 0;
    for (; taken < most; ++taken) {
        const ros2s_request& request = requests[taken];
        if (const int rc = check_request(*queue, request); rc < 0) {
            if (taken == 0) return rc;
            break;
        }
        const bool on_file = request.opcode != ROS2S_OP_NOP && !is_of_blocks(request.opcode);
        queue->queue->put({.opcode = static_cast<ros2s_opcode>(request.opcode),
                           .file = on_file ? &request.file->core : nullptr,
                           .address = request.address,
                           .bytes = request.bytes,
                           .offset = request.offset,
                           .user_data = request.user_data});
    }
    if (taken > 0) queue->queue->publish();
    return static_cast<int>(taken);
}

int64_t ros2s_blocks(ros2s_fs* fs, ros2s_opcode opcode, ros2s_block* blocks, size_t count,
                     uint64_t pin_ns) {
    if (const int rc = check(fs, "blocks"); rc < 0) return rc;
    if (!is_of_blocks(opcode)) {
        return refuse(EINVAL, "blocks: " + std::to_string(opcode) + " is not an opcode of blocks");
    }
    if ((blocks == nullptr && count > 0) || !have_memory(opcode, {blocks, count})) {
        return refuse(EINVAL, "blocks: the blocks, a key or the data of a block is NULL");
    }
    const auto done = fs->run([&] {
        return work_on_blocks(fs->file_system(), fs->call, opcode, {blocks, count}, pin_ns);
    });
    return done ? *done : refuse(done.error(), "blocks");
}

int ros2s_queue_reap(ros2s_queue* queue, ros2s_completion* completions, uint32_t least,
                     uint32_t most, int64_t timeout_ns) {
    if (const int rc = check(queue, "reap"); rc < 0) return rc;
    if (completions == nullptr && most > 0) {
        return refuse(EINVAL, "reap: the pointer for the completions is NULL");
    }
    return static_cast<int>(queue->queue->reap({completions, most}, least, timeout_ns));
}

int ros2s_queue_fd(ros2s_queue* queue) {
    if (const int rc = check(queue, "request a queue's descriptor"); rc < 0) return rc;
    return queue->queue->descriptor();
}
