// Updates of encrypted arrays. In Layout::cells an operation on `data` becomes one on `data` and
// one on its cells. Where it begins or ends within a block, the block is read, changed and
// encrypted again.
#include <algorithm>

#include "cipher_store.h"
#include "keys_of_arrays.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/base/digest.h"
#include "ros2s/object/checksum.h"
#include "ros2s/object/validate.h"

namespace ros2s::cipher {

using namespace object;

namespace {

using Kind = Operation::Kind;

constexpr int attempts_max = 256;

bool is_of_array(Kind kind) {
    return kind == Kind::write || kind == Kind::punch_extent || kind == Kind::set_size ||
           kind == Kind::touch;
}

bool concerns_data(const Operation& operation) {
    return is_of_array(operation.kind) ||
           ((operation.kind == Kind::put || operation.kind == Kind::punch_akey) &&
            is_data(operation.akey));
}

// Finds blocks that must be read first: the extent in which the operation has an effect begins or
// ends within them.
bool begins_within(const Operation& operation) {
    return operation.kind != Kind::set_size && is_of_array(operation.kind) &&
           operation.extent.length > 0 && operation.extent.offset % block_bytes != 0;
}
bool ends_within(const Operation& operation) {
    if (operation.kind == Kind::set_size) return operation.size % block_bytes != 0;
    return is_of_array(operation.kind) && operation.extent.length > 0 &&
           operation.extent.end() % block_bytes != 0;
}
// A block of a cache is written once, and whole.
bool needs_read(const Operation& operation) {
    return !is_of_block(operation) && (begins_within(operation) || ends_within(operation));
}

bool is_named(const Transaction& transaction) { return !transaction.id.client.is_nil(); }

// May `earlier` change the array of `operation`?
bool changes_array_of(const Operation& earlier, const Operation& operation) {
    if (earlier.object != operation.object) return false;
    return (!is_of_array(earlier.kind) && earlier.kind != Kind::put) ||
           earlier.dkey == operation.dkey;
}

// A digest of the request without the payload: a digest of plaintext would be stored in the clear.
uint64_t digest_of_request(const Transaction& transaction) {
    Digest digest;
    const auto place = [&digest](const auto& of) {
        digest.add(of.object.high).add(of.object.low).add(of.dkey.bytes).add(of.akey.bytes);
    };
    for (const Condition& condition : transaction.conditions) {
        digest.add(static_cast<uint64_t>(condition.kind)).add(condition.value);
        place(condition);
    }
    for (const Operation& operation : transaction.operations) {
        digest.add(static_cast<uint64_t>(operation.kind)).add(operation.size);
        place(operation);
        digest.add(operation.extent.offset).add(operation.extent.length);
        digest.add(operation.dkey_end.bytes).add(operation.window.length);
    }
    return digest.value();
}

Operation on(const Operation& operation, Kind kind, Akey akey, Extent extent = {}) {
    return {.kind = kind,
            .object = operation.object,
            .dkey = operation.dkey,
            .akey = std::move(akey),
            .extent = extent};
}

}  // namespace

struct CipherStore::Plan {
    const Transaction& wanted;
    Transaction transaction;
    std::vector<BufferPool::Buffer> memory;
    bool is_stale = false;  // what was read does not fit together
};

struct CipherStore::Edges {
    BufferPool::Buffer memory;
    std::vector<FetchItem> items;  // one or two
    bool exists = false;
    uint64_t size = 0;  // of the array

    // Null: the block was not read. Bytes behind the array's end are zeros.
    [[nodiscard]] std::byte* block(uint64_t number) const {
        for (const FetchItem& item : items) {
            if (item.extent.offset == number * block_bytes) return item.window.bytes().data();
        }
        return nullptr;
    }
};

// Operations within blocks exclude others on their arrays, because they would conflict. Others
// share. One semaphore serves many arrays.
class CipherStore::Locked {
  public:
    Locked& operator=(Locked&&) = delete;
    ~Locked() {
        for (const auto& [lock, units] : held_) lock->release(units);
    }
    Task<> acquire(std::span<const std::unique_ptr<Semaphore>> locks,
                   const Transaction& transaction) {
        std::vector<std::pair<size_t, size_t>> wanted;
        for (const Operation& operation : transaction.operations) {
            if (!is_of_array(operation.kind)) continue;
            Digest digest;
            digest.add(operation.object.low).add(operation.dkey.bytes);
            wanted.emplace_back(digest.value() % locks.size(),
                                needs_read(operation) ? lock_units : 1);
        }
        // In one order, so that two transactions do not wait for each other.
        std::ranges::sort(wanted, [](const auto& a, const auto& b) {
            return a.first != b.first ? a.first < b.first : a.second > b.second;
        });
        held_.reserve(wanted.size());
        for (const auto& [index, units] : wanted) {
            Semaphore* const lock = locks[index].get();
            if (!held_.empty() && held_.back().first == lock) continue;
            co_await lock->acquire(units);
            held_.emplace_back(lock, units);
        }
    }

  private:
    std::vector<std::pair<Semaphore*, size_t>> held_;
};

Task<Result<Commit>> CipherStore::update(const Call& call, ContainerId container,
                                         const Transaction& transaction) {
    if (container != container_) return below().update(call, container, transaction);
    return std::ranges::any_of(transaction.operations, is_of_block<Operation>)
               ? update_blocks(call, transaction)
               : update_own(call, transaction);
}

Task<Result<Commit>> CipherStore::update_own(const Call& call, const Transaction& transaction) {
    if (std::ranges::any_of(transaction.operations, concerns_data)) {
        return update_encrypted(call, transaction);
    }
    return is_named(transaction) && transaction.id.digest != 0
               ? update_plain(call, transaction)
               : below().update(call, container_, transaction);
}

Task<Result<Commit>> CipherStore::update_plain(const Call& call, const Transaction& transaction) {
    Transaction keyed = transaction;
    keyed.id.digest = digests_.of(transaction.id);
    co_return co_await below().update(call, container_, keyed);
}

Task<Result<Commit>> CipherStore::update_encrypted(const Call& call,
                                                   const Transaction& transaction) {
    if (confirmation_ != nullptr) ROS2S_CO_TRY(co_await check_keys(call));
    ROS2S_CO_TRY(validate(transaction));
    if (transaction.operations.size() > operations_max) {
        co_return fail(Code::too_large, operations_max);
    }
    uint64_t bytes = 0;
    for (const Operation& operation : transaction.operations) {
        bytes += operation.window.length;
        const bool known = !is_of_array(operation.kind) || is_data(operation.akey);
        if (!known || !operation.window.is_local()) co_return fail(Code::unsupported);
    }
    if (bytes > transaction_bytes_max) co_return fail(Code::too_large, transaction_bytes_max);
    Locked locked;
    co_await locked.acquire(locks_, transaction);
    for (int tries = 0; tries < attempts_max; ++tries) {
        bool conflicted = false;
        auto done = co_await attempt(call, transaction, conflicted);
        if (!conflicted) co_return done;
        metrics_.conflicts.add();
        // Only another client of the container conflicts. It may do so in the same rhythm.
        const auto wait_max = std::chrono::microseconds(20) * (1 << std::min(tries, 9));
        co_await sleep_for(
            reactor_,
            Duration(reactor_.random().below(static_cast<uint64_t>(Duration(wait_max).count()))));
    }
    co_return fail(Code::busy);
}

Task<Result<Commit>> CipherStore::attempt(const Call& call, const Transaction& transaction,
                                          bool& conflicted) {
    ROS2S_CO_TRY(call.check(reactor_));
    Plan plan{.wanted = transaction};
    plan.transaction.id = transaction.id;
    plan.transaction.is_new = transaction.is_new;
    plan.transaction.holder = transaction.holder;
    plan.transaction.deferred = transaction.deferred;
    plan.transaction.was_lost = transaction.was_lost;
    plan.transaction.conditions = transaction.conditions;
    plan.transaction.operations.reserve(transaction.operations.size() * 2);
    if (is_named(transaction)) {
        plan.transaction.id.digest = transaction.id.digest == 0 ? digest_of_request(transaction)
                                                                : digests_.of(transaction.id);
    }
    for (const Operation& operation : transaction.operations) {
        ROS2S_CO_TRY(co_await add(call, operation, plan));
        if (plan.is_stale) {
            conflicted = true;
            co_return fail(Code::condition_failed);
        }
    }
    auto done = co_await below().update(call, container_, plan.transaction);
    conflicted = !done && done.error().code == Code::condition_failed &&
                 done.error().detail >= transaction.conditions.size();
    co_return done;
}

Task<Result<>> CipherStore::add(const Call& call, const Operation& operation, Plan& plan) {
    std::vector<Operation>& operations = plan.transaction.operations;
    switch (operation.kind) {
        case Kind::write:
            if (operation.extent.length > 0) return add_write(call, operation, plan);
            break;
        case Kind::punch_extent: return add_punch(call, operation, plan);
        case Kind::set_size: return add_set_size(call, operation, plan);
        case Kind::put:
            if (is_data(operation.akey)) {
                return []() -> Task<Result<>> { co_return fail(Code::invalid); }();
            }
            break;
        default: break;
    }
    operations.push_back(operation);
    const bool touches = operation.kind == Kind::touch || operation.kind == Kind::write;
    if (!has_seals() &&
        (touches || (operation.kind == Kind::punch_akey && is_data(operation.akey)))) {
        operations.push_back(on(operation, touches ? Kind::touch : operation.kind, cells_akey()));
    }
    return []() -> Task<Result<>> { co_return Result<>(); }();
}

Task<Result<>> CipherStore::read_edges(const Call& call, const Operation& operation, Edges& edges,
                                       Plan& plan) {
    for (const Operation& earlier : plan.wanted.operations) {
        if (&earlier == &operation) break;
        if (changes_array_of(earlier, operation)) co_return fail(Code::unsupported);
    }
    metrics_.read_first.add();
    const uint64_t end = operation.kind == Kind::set_size ? operation.size : operation.extent.end();
    std::vector<uint64_t> blocks;
    if (begins_within(operation)) blocks.push_back(operation.extent.offset / block_bytes);
    if (ends_within(operation) && (blocks.empty() || blocks[0] != end / block_bytes)) {
        blocks.push_back(end / block_bytes);
    }
    edges.memory = buffers_.take(blocks.size() * block_bytes);
    for (size_t i = 0; i < blocks.size(); ++i) {
        const Bytes into = edges.memory.bytes().subspan(i * block_bytes, block_bytes);
        edges.items.push_back({.object = operation.object,
                               .dkey = operation.dkey,
                               .akey = data_akey(),
                               .extent = {blocks[i] * block_bytes, block_bytes},
                               .window = Window::local(into)});
    }
    ROS2S_CO_TRY(co_await fetch_some(call, edges.items));
    const FetchItem& first = edges.items.front();
    edges.exists = first.status.has_value();
    edges.size = first.size;
    for (const FetchItem& item : edges.items) {
        if (!item.status && item.status.error().code != Code::not_found) {
            co_return fail(item.status.error());
        }
        plan.is_stale =
            plan.is_stale || item.status.has_value() != edges.exists || item.epoch != first.epoch;
    }
    plan.transaction.conditions.push_back({.kind = Condition::Kind::epoch_equals,
                                           .object = operation.object,
                                           .dkey = operation.dkey,
                                           .akey = data_akey(),
                                           .value = edges.exists ? first.epoch.value : 0});
    co_return Result<>();
}

Bytes CipherStore::take_memory(size_t bytes, Plan& plan) {
    return plan.memory.emplace_back(buffers_.take(bytes)).bytes();
}

Task<Result<>> CipherStore::add_write(const Call& call, const Operation& operation, Plan& plan) {
    const Extent extent = operation.extent;
    Edges edges;
    if (needs_read(operation)) ROS2S_CO_TRY(co_await read_edges(call, operation, edges, plan));
    const uint64_t first = extent.offset / block_bytes;
    const uint64_t last = (extent.end() - 1) / block_bytes;
    const uint64_t count = last - first + 1;
    // The last block keeps what it has behind the written bytes.
    const uint64_t end =
        std::max(extent.end(), last * block_bytes + stored_bytes(edges.size, last));
    const uint64_t total = end - first * block_bytes;
    const Bytes sealed = take_memory(count * block_bytes, plan).first(total);
    const Bytes cells = take_memory(cells_bytes(count), plan);
    const Bytes scratch = operation.window.shared ? take_memory(block_bytes, plan) : Bytes();

    BlockBinding binding(cipher_.key_id(), operation.object, operation.dkey, operation.akey);
    SlicedJob job(ciphering_);
    const ConstBytes source = operation.window.bytes();
    const bool has_checksums = !operation.checksums.empty();
    for (uint64_t block = first; block <= last; ++block) {
        if (begins_slice(block - first, count)) co_await job.slice(slice_bytes);
        const uint64_t start = block * block_bytes;
        const uint64_t from = std::max(start, extent.offset);
        const uint64_t to = std::min(start + block_bytes, extent.end());
        const ConstBytes given = source.subspan(from - extent.offset, to - from);
        ConstBytes written = given, plain = given;
        std::byte* const before = edges.block(block);
        // The bytes of a shared window are read once.
        if (before != nullptr || operation.window.shared) {
            const Bytes copy = before != nullptr ? Bytes(before, block_bytes) : scratch;
            std::ranges::copy(given, copy.begin() + static_cast<ptrdiff_t>(from - start));
            written = copy.subspan(from - start, to - from);
            plain = copy.first(std::min(end - start, block_bytes));
        }
        if (has_checksums && crc32c(written) != operation.checksums[block - first]) {
            co_return fail(Code::corrupt);
        }
        Cell cell;
        cipher_.seal(binding, block, plain,
                     sealed.subspan(start - first * block_bytes, plain.size()), cell);
        std::memcpy(cells.data() + cells_bytes(block - first), &cell, sizeof(cell));
    }
    metrics_.sealed_blocks.add(count);
    Operation data = on(operation, Kind::write, data_akey(), {first * block_bytes, total});
    data.window = Window::local(ConstBytes(sealed));
    add_sealed(std::move(data), first, cells, plan);
    co_return Result<>();
}

void CipherStore::add_sealed(Operation data, uint64_t first, ConstBytes cells, Plan& plan) {
    std::vector<Operation>& operations = plan.transaction.operations;
    if (!has_seals()) {
        Operation tags = on(data, Kind::write, cells_akey(), {cells_bytes(first), cells.size()});
        tags.window = Window::local(cells);
        operations.push_back(std::move(data));
        operations.push_back(std::move(tags));
        return;
    }
    data.seals.reserve(cells.size() / sizeof(Cell) * seal_bytes);
    for (; !cells.empty(); cells = cells.subspan(sizeof(Cell))) {
        data.seals += as_text(cells.first(seal_bytes));
    }
    operations.push_back(std::move(data));
}

void CipherStore::add_block(const Operation& operation, uint64_t block, ConstBytes plain,
                            Plan& plan) {
    const Bytes sealed = take_memory(plain.size(), plan);
    const Bytes header = take_memory(sizeof(Cell), plan);
    BlockBinding binding(cipher_.key_id(), operation.object, operation.dkey, operation.akey);
    Cell cell;
    cipher_.seal(binding, block, plain, sealed, cell);
    std::memcpy(header.data(), &cell, sizeof(cell));
    metrics_.sealed_blocks.add();
    Operation data = on(operation, Kind::write, data_akey(), {block * block_bytes, plain.size()});
    data.window = Window::local(ConstBytes(sealed));
    add_sealed(std::move(data), block, header, plan);
}

Task<Result<>> CipherStore::add_punch(const Call& call, const Operation& operation, Plan& plan) {
    const Extent extent = operation.extent;
    std::vector<Operation>& operations = plan.transaction.operations;
    Edges edges;
    if (needs_read(operation)) ROS2S_CO_TRY(co_await read_edges(call, operation, edges, plan));
    if (has_seals() && edges.exists && extent.offset >= edges.size) {
        // There is nothing to punch. The store would take the seal of the array's last block.
        operations.push_back(on(operation, Kind::touch, data_akey()));
        co_return Result<>();
    }
    operations.push_back(operation);
    const uint64_t whole_begin = blocks_of(extent.offset);
    const uint64_t whole_end = extent.end() / block_bytes;
    if (!has_seals() && whole_begin < whole_end) {
        operations.push_back(on(operation, Kind::punch_extent, cells_akey(),
                                {cells_bytes(whole_begin), cells_bytes(whole_end - whole_begin)}));
    }
    if (!edges.exists) co_return Result<>();  // no blocks to change, or no array
    // The epochs of both arrays stay the same.
    if (!has_seals()) operations.push_back(on(operation, Kind::touch, cells_akey()));
    for (const FetchItem& item : edges.items) {
        const uint64_t block = item.extent.offset / block_bytes;
        const uint64_t start = item.extent.offset;
        const size_t stored = stored_bytes(edges.size, block);
        const uint64_t from = std::max(extent.offset, start) - start;
        const uint64_t to = std::min(extent.end() - start, block_bytes);
        if (from >= stored) continue;
        const Bytes plain = item.window.bytes();
        std::ranges::fill(plain.subspan(from, to - from), std::byte{0});
        const size_t kept = to >= stored ? from : stored;
        if (kept > 0) {
            add_block(operation, block, plain.first(kept), plan);
        } else if (!has_seals()) {
            operations.push_back(on(operation, Kind::punch_extent, cells_akey(),
                                    {cells_bytes(block), sizeof(Cell)}));
        }
    }
    co_return Result<>();
}

Task<Result<>> CipherStore::add_set_size(const Call& call, const Operation& operation, Plan& plan) {
    Edges edges;
    if (needs_read(operation)) ROS2S_CO_TRY(co_await read_edges(call, operation, edges, plan));
    plan.transaction.operations.push_back(operation);
    if (!has_seals()) {
        Operation cells = on(operation, Kind::set_size, cells_akey());
        cells.size = cells_bytes(blocks_of(operation.size));
        plan.transaction.operations.push_back(std::move(cells));
    }
    if (edges.exists && edges.size > operation.size) {
        const uint64_t block = operation.size / block_bytes;
        add_block(operation, block,
                  edges.items[0].window.bytes().first(operation.size % block_bytes), plan);
    }
    co_return Result<>();
}

}  // namespace ros2s::cipher
