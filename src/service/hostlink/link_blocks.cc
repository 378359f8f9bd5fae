// blocks: both ends. A request has as many blocks as fit into its payload.
#include <algorithm>
#include <limits>

#include "link_ask.h"
#include "link_server.h"
#include "ros2s/object/checksum.h"

namespace ros2s::hostlink {

// ---- the host -------------------------------------------------------------------------------

Task<Result<>> LinkClient::blocks(const Call& call, fs::BlockWork work,
                                  std::span<fs::BlockItem> items, Duration pinned_for) {
    ROS2S_CHECK(items.size() <= fs::blocks_together_max);
    const uint64_t most = channel_.welcome().payload_bytes_max;
    do {
        size_t count = 0;
        uint64_t payload = 0;
        for (; count < items.size() && items[count].window.length <= most - payload; ++count) {
            payload += items[count].window.length;
        }
        if (count == 0 && !items.empty()) {
            items.front().status = fail(Code::too_large, most);
            count = 1;
        } else {
            ROS2S_CO_TRY(co_await send_blocks(call, work, items.first(count), pinned_for));
        }
        items = items.subspan(count);
    } while (!items.empty());
    co_return Result<>{};
}

// It may be done twice: a block never changes.
Task<Result<>> LinkClient::send_blocks(const Call& call, fs::BlockWork work,
                                       std::span<fs::BlockItem> items, Duration pinned_for) {
    std::vector<SentBlock> sent;
    std::vector<ConstBytes> payload;
    for (const fs::BlockItem& item : items) {
        if (!item.window.is_local()) co_return fail(Code::unsupported);
        const ConstBytes bytes = item.window.bytes();
        object::Checksums pieces;
        ROS2S_CO_TRY(co_await object::array_checksums_in_slices(summing_, call, 0, bytes, pieces));
        sent.push_back({.key = item.key.substr(0, block_key_text_max),
                        .length = bytes.size(),
                        .crc = object::combined_checksum(0, bytes.size(), pieces)});
        if (!bytes.empty()) payload.push_back(bytes);
    }
    Buffer body;
    ReadAs<CodesBody> reader;
    const rpc::CallRequest request{
        .method = static_cast<uint16_t>(Method::blocks),
        .repeatable = true,
        .payload = payload,
        .reply_body_bytes_max = sizeof(uint32_t) + items.size() * sizeof(uint16_t)};
    const fs::Caller user = user_of(call);
    BlocksBody asked{.work = work, .pinned_for_ns = static_cast<uint64_t>(pinned_for.count())};
    const auto encode = [&](const ServerHandle& at) {
        asked.mount = at.place.mount;
        return rpc::build(body, with_user(blocks_fields), user, asked, sent);
    };
    ROS2S_CO_TRY(co_await ask(call, {}, request, reader, encode));
    const auto& codes = reader.value.codes;
    if (!codes.empty() && codes.size() != items.size()) co_return fail(Code::corrupt);
    for (size_t i = 0; i < items.size(); ++i) {
        items[i].status = codes.empty() ? Result<>{} : result_of(codes[i]);
    }
    co_return Result<>{};
}

// ---- the DPU --------------------------------------------------------------------------------

Task<Result<>> LinkServer::blocks(rpc::Request& request, Scratch& scratch) {
    BlocksBody asked;
    std::vector<SentBlock> sent;
    ROS2S_CO_TRY(rpc::read(request.body(), with_user(blocks_fields), scratch.user, asked, sent));
    ROS2S_CO_TRY_ASSIGN(const MountInUse entered, enter(request, asked.mount));
    if (fs::changes_blocks(asked.work) && entered.mount->read_only()) {
        co_return fail(Code::read_only);
    }
    ROS2S_CO_TRY_ASSIGN(const fs::Caller caller, caller_for(request, entered, scratch.user));
    const bool is_put = asked.work == fs::BlockWork::put;
    request.charge(is_put ? admission::cost_ns_of_parts(sent.size())
                          : admission::cost_ns_of_entries(sent.size()));
    if (sent.size() > 1) request.charge_names(sent.size() - 1);
    std::vector<fs::BlockItem> items;
    for (const SentBlock& block : sent) items.push_back({.key = block.key});
    const rpc::PayloadMemory memory = request.memory(request.payload_bytes());
    ROS2S_CO_TRY(co_await receive_blocks(request, sent, memory.bytes(), items));
    Call call = request.call();
    call.caller = &caller;
    const Duration pinned_for(static_cast<int64_t>(
        std::min<uint64_t>(asked.pinned_for_ns, std::numeric_limits<int64_t>::max())));
    ROS2S_CO_TRY(co_await entered.fs().blocks(call, asked.work, items, pinned_for));
    CodesBody codes;
    if (!std::ranges::all_of(items, [](const auto& item) { return item.status.has_value(); })) {
        for (const fs::BlockItem& item : items) codes.codes.push_back(code_of(item.status));
    }
    (is_put ? metrics_.changes : metrics_.lookups).add();
    const ConstBytes body = rpc::build(scratch.answer, codes_fields, codes);
    const uint64_t most = request.reply_body_bytes_max();
    if (body.size() > most) co_return fail(Code::too_large, most);
    co_await request.reply(body);
    co_return Result<>{};
}

// A block is stored from this memory, which the host cannot change.
Task<Result<>> LinkServer::receive_blocks(rpc::Request& request, std::span<const SentBlock> sent,
                                          Bytes memory, std::span<fs::BlockItem> items) {
    uint64_t left = memory.size();
    for (const SentBlock& block : sent) {
        if (block.length > left) co_return fail(Code::invalid);
        left -= block.length;
    }
    if (left > 0) co_return fail(Code::invalid);
    if (memory.empty()) co_return Result<>{};
    ROS2S_CO_TRY(co_await request.receive_payload(memory));
    metrics_.dpu_bytes.add(memory.size());
    metrics_.written_bytes.add(memory.size());
    for (size_t i = 0; i < sent.size(); ++i) {
        const Bytes bytes = memory.first(sent[i].length);
        memory = memory.subspan(bytes.size());
        object::Checksums& pieces = items[i].checksums;
        ROS2S_CO_TRY(
            co_await object::array_checksums_in_slices(summing_, request.call(), 0, bytes, pieces));
        if (object::combined_checksum(0, bytes.size(), pieces) != sent[i].crc) {
            metrics_.bad_checksums.add();
            co_return fail(Code::corrupt);
        }
        items[i].window = fs::Window::local(bytes);
    }
    co_return Result<>{};
}

}  // namespace ros2s::hostlink
