// Requests with blocks of a cache: the store below gets encrypted keys and heads.
#include <algorithm>
#include <cstring>
#include <utility>

#include "cipher_store.h"
#include "keys_of_arrays.h"

namespace ros2s::cipher {

using namespace object;

namespace {

// Of keys that are encrypted before other work is done. Each takes about half a microsecond.
constexpr size_t names_of_slice = 64;

bool is_head(const Akey& akey, ConstBytes value) {
    return akey == block_head_akey() && value.size() == sizeof(BlockHead);
}

BlockHead head_of(ConstBytes value) {
    BlockHead head;
    std::memcpy(&head, value.data(), sizeof head);
    return head;
}

}  // namespace

Task<> CipherStore::seal_names(std::span<FetchItem> items) {
    SlicedJob job(ciphering_);
    for (size_t i = 0; i < items.size(); ++i) {
        if (i % names_of_slice == 0 && items.size() > names_of_slice) {
            co_await job.slice(slice_bytes);
        }
        if (is_of_block(items[i])) items[i].dkey.bytes = names_.seal(items[i].dkey.bytes);
    }
}

Task<Result<>> CipherStore::fetch_blocks(const Call& call, std::span<FetchItem> items) {
    std::vector<Dkey> keys;
    keys.reserve(items.size());
    for (const FetchItem& item : items) keys.push_back(item.dkey);
    co_await seal_names(items);
    const auto done = co_await fetch_own(call, items);
    for (size_t i = 0; i < items.size(); ++i) {
        FetchItem& item = items[i];
        const Dkey sealed = std::exchange(item.dkey, std::move(keys[i]));
        if (!done || !item.status || !is_of_block(item)) continue;
        const Bytes value =
            item.window.bytes().first(std::min<uint64_t>(item.size, item.extent.length));
        if (!is_head(item.akey, value)) continue;
        BlockHead head = head_of(value);
        names_.turn(head, sealed.bytes);
        std::ranges::copy(object_bytes(head), value.begin());
        item.checksums.clear();
    }
    co_return done;
}

Task<Result<Commit>> CipherStore::update_blocks(const Call& call, const Transaction& transaction) {
    Transaction sealed = transaction;
    for (Condition& condition : sealed.conditions) {
        if (is_of_block(condition)) condition.dkey.bytes = names_.seal(condition.dkey.bytes);
    }
    std::vector<BlockHead> heads;
    heads.reserve(sealed.operations.size());
    for (Operation& operation : sealed.operations) {
        if (!is_of_block(operation)) continue;
        operation.dkey.bytes = names_.seal(operation.dkey.bytes);
        if (operation.kind != Operation::Kind::put || !operation.window.is_local() ||
            !is_head(operation.akey, operation.window.bytes())) {
            continue;
        }
        BlockHead& head = heads.emplace_back(head_of(operation.window.bytes()));
        names_.turn(head, operation.dkey.bytes);
        operation.window = Window::local(object_bytes(head));
        operation.checksums.clear();
    }
    co_return co_await update_own(call, sealed);
}

Task<Result<ListReply>> CipherStore::list_blocks(const Call& call, const ListRequest& request) {
    ListRequest sealed = request;
    if (sealed.after && !sealed.after->empty()) sealed.after = names_.seal(*sealed.after);
    auto reply = co_await below().list(call, container_, sealed);
    if (!reply) co_return reply;
    for (ListEntry& entry : reply->entries) {
        if (entry.key.empty()) continue;
        if (is_head(request.akey, as_bytes(entry.value))) {
            BlockHead head = head_of(as_bytes(entry.value));
            names_.turn(head, entry.key);
            entry.value = as_text(object_bytes(head));
        }
        entry.key = names_.open(entry.key);
    }
    co_return reply;
}

}  // namespace ros2s::cipher
