#include "reader.h"

#include <algorithm>

#include "draft.h"
#include "ros2s/base/check.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/base/staging_memory.h"
#include "ros2s/object/checksum.h"
#include "ros2s/object/location_text.h"
#include "ros2s/object/validate.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::engine {
namespace {

constexpr size_t items_side_by_side = 32;
constexpr size_t runs_side_by_side = 8;
constexpr size_t run_blocks_max = 256;

uint32_t zero_crc() {
    static const uint32_t crc = [] {
        const std::vector<std::byte> zeros(block_bytes);
        return crc32c(zeros);
    }();
    return crc;
}

bool is_aligned(const void* memory) {
    return reinterpret_cast<uintptr_t>(memory) % block_bytes == 0;
}

// Contiguous blocks of one device, or consecutive holes.
size_t run_at(std::span<const BlockRef> blocks) {
    size_t count = 1;
    const BlockAddress first = blocks[0].address;
    while (count < blocks.size() && count < run_blocks_max) {
        const BlockAddress expected = first.is_hole() ? first : first + count;
        if (blocks[count].address != expected) break;
        ++count;
    }
    return count;
}

// Returns the number of blocks that match before the first mismatch.
size_t matching(std::span<const BlockRef> blocks, ConstBytes bytes) {
    size_t i = 0;
    while (i < blocks.size() &&
           crc32c(bytes.subspan(i * block_bytes, block_bytes)) == blocks[i].crc) {
        ++i;
    }
    return i;
}
bool matches(std::span<const BlockRef> blocks, ConstBytes bytes) {
    return matching(blocks, bytes) == blocks.size();
}

// Turns a `corrupt` of the blocks from `offset` on into one of their array.
Result<> at_offset(Result<> read, uint64_t offset, uint64_t end) {
    if (!read && read.error().code == Code::corrupt) {
        return fail(Code::corrupt, std::min(offset + read.error().detail, end));
    }
    return read;
}

constexpr uint64_t corrupt_lines_max = 100;

class BounceHeld {
  public:
    BounceHeld(Core& core, size_t blocks) : core_(core), blocks_(blocks) {
        core_.metrics.bounce_bytes.add(blocks_ * block_bytes);
    }
    BounceHeld& operator=(BounceHeld&&) = delete;
    ~BounceHeld() {
        core_.metrics.bounce_bytes.subtract(blocks_ * block_bytes);
        core_.bounce.release(blocks_);
    }

  private:
    Core& core_;
    size_t blocks_;
};

// Plain functions, because a key being built needs a kilobyte, which a coroutine's frame need not
// have.
Node* resident_segment(Core& core, object::ContainerId container, const object::FetchItem& item,
                       uint64_t segment) {
    return core.loader.resident(entry_key(container, item.object, item.dkey.bytes, item.akey.bytes,
                                          static_cast<uint32_t>(segment))
                                    .view());
}
std::string segment_key(object::ContainerId container, const object::FetchItem& item,
                        uint64_t segment) {
    return entry_key(container, item.object, item.dkey.bytes, item.akey.bytes,
                     static_cast<uint32_t>(segment))
        .take();
}

// Adds the seals of `count` blocks of the map. `at`: the position of the first among all of the
// item's.
void add_seals(object::FetchItem& item, const BlockMap& map, uint32_t first, size_t count,
               size_t at) {
    item.seals.resize(std::max(item.seals.size(), (at + count) * object::seal_bytes));
    if (!map.has_seals()) return;
    for (size_t i = 0; i < count; ++i) {
        const std::string_view seal = map.seal(first + static_cast<uint32_t>(i));
        std::ranges::copy(
            seal, item.seals.begin() + static_cast<ptrdiff_t>((at + i) * object::seal_bytes));
    }
}

// A fetch of contiguous blocks into aligned memory: one read, directly into it. Allocates nothing
// for two blocks, nor for more if item.checksums was used before.
bool plan_direct(object::FetchItem& item, const EntryValue& entry, BlockAddress& first) {
    const object::Extent& extent = item.extent;
    const std::byte* const memory = item.window.bytes().data();
    if (extent.offset % block_bytes != 0 || extent.length % block_bytes != 0 ||
        extent.length == 0 || !is_aligned(memory) || extent.end() > segment_blocks * block_bytes) {
        return false;
    }
    const auto begin = static_cast<uint32_t>(extent.offset / block_bytes);
    const auto count = static_cast<uint32_t>(extent.length / block_bytes);
    first = entry.map.at(begin).address;
    if (first.is_hole()) return false;
    item.checksums.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
        const BlockRef block = entry.map.at(begin + i);
        if (block.address != first + i) return false;
        item.checksums[i] = block.crc;
    }
    if (item.wants_seals) add_seals(item, entry.map, begin, count, 0);
    return true;
}

void log_corrupt(Core& core, object::ContainerId container, const object::FetchItem& item) {
    if (item.status.error().code != Code::corrupt ||
        core.metrics.fetch_corrupt.value() > corrupt_lines_max) {
        return;
    }
    core.env.log.error(
        "corrupt data was not returned: {}; check the disk and restore the file from a copy",
        object::location_text(container, item, object::damaged(item)));
}

// The bytes in the caller's memory do not match. The caller may have changed that memory meanwhile.
// The blocks are corrupt only if they also do not match in engine memory.
Task<Result<>> reread(Core& core, Trace* trace, BlockAddress first, std::span<const uint32_t> crcs,
                      Bytes window) {
    core.metrics.fetch_rereads.add();
    for (size_t i = 0; i < crcs.size(); ++i) {
        co_await core.bounce.acquire(1);
        const BounceHeld held(core, 1);
        const AlignedBuffer buffer(block_bytes);
        const BlockRef block{first + i, crcs[i]};
        const Result<> read = co_await read_verified(core, trace, {&block, 1}, buffer.bytes());
        ROS2S_CO_TRY(at_offset(read, i * block_bytes, UINT64_MAX));
        std::ranges::copy(buffer.bytes(), window.subspan(i * block_bytes).begin());
    }
    co_return Result<>();
}

// One run of an item's blocks. `at` is the position of the first among all of the item's.
Task<> fetch_run(Core& core, Trace* trace, object::FetchItem& item, std::span<const BlockRef> run,
                 size_t at, Result<>& result) {
    const object::Extent& extent = item.extent;
    const uint64_t start = round_down(extent.offset, block_bytes) + at * block_bytes;
    const uint64_t from = std::max(start, extent.offset);
    const uint64_t run_end = start + run.size() * block_bytes;
    const uint64_t to = std::min(run_end, extent.end());
    const Bytes window = item.window.bytes().subspan(from - extent.offset, to - from);
    const bool whole = from == start && run_end - to <= item.room;
    const auto set_checksums = [&](auto crc_of_part) {
        for (size_t i = 0; i < run.size(); ++i) {
            const uint64_t block = start + i * block_bytes;
            const uint64_t low = std::max(block, from), high = std::min(block + block_bytes, to);
            const bool all = high - low == block_bytes;
            item.checksums[at + i] = all ? run[i].crc : crc_of_part(low - start, high - low);
        }
    };
    if (run[0].address.is_hole()) {
        std::ranges::fill(window, std::byte{0});
        static const std::vector<std::byte> zeros(block_bytes);
        set_checksums(
            [&](uint64_t, uint64_t length) { return crc32c(ConstBytes(zeros).first(length)); });
        co_return;
    }
    if (whole && is_aligned(window.data())) {
        const Bytes blocks(window.data(), run.size() * block_bytes);
        Result<> read;
        {
            const Span span(trace, core.env.reactor, "device.read");
            const BlockAddress first = run[0].address;
            read = co_await core.devices[first.device()]->read(first.block() * block_bytes, blocks);
        }
        if (read && !matches(run, blocks)) {
            std::vector<uint32_t> crcs(run.size());
            std::ranges::transform(run, crcs.begin(), &BlockRef::crc);
            read = co_await reread(core, trace, run[0].address, crcs, blocks);
        }
        set_checksums([&](uint64_t offset, uint64_t length) {
            return crc32c(blocks.subspan(offset, length));
        });
        if (!read && result) result = at_offset(read, start, extent.end());
        co_return;
    }
    core.metrics.fetch_bounced.add();
    co_await core.bounce.acquire(run.size());
    const BounceHeld held(core, run.size());
    const StagingMemory memory(run.size() * block_bytes);
    const Bytes bytes(memory.data(), memory.size());
    const Result<> read = co_await read_verified(core, trace, run, bytes);
    if (!read) {
        if (result) result = at_offset(read, start, extent.end());
        co_return;
    }
    std::ranges::copy(bytes.subspan(from - start, to - from), window.begin());
    set_checksums(
        [&](uint64_t offset, uint64_t length) { return crc32c(bytes.subspan(offset, length)); });
}

}  // namespace

Task<Result<>> read_verified(Core& core, Trace* trace, std::span<const BlockRef> blocks,
                             Bytes into) {
    for (size_t at = 0; at < blocks.size();) {
        const size_t count = run_at(blocks.subspan(at));
        const BlockAddress first = blocks[at].address;
        const Bytes part = into.subspan(at * block_bytes, count * block_bytes);
        const Span span(trace, core.env.reactor, "device.read");
        ROS2S_CO_TRY(
            co_await core.devices[first.device()]->read(first.block() * block_bytes, part));
        const size_t good = matching(blocks.subspan(at, count), part);
        if (good < count) {
            core.metrics.fetch_corrupt.add();
            if (core.metrics.fetch_corrupt.value() <= corrupt_lines_max) {
                core.env.log.error("{}: the 4 KiB at byte {} are not what was written there",
                                   core.devices[first.device()]->name(),
                                   (first.block() + good) * block_bytes);
            }
            co_return fail(Code::corrupt, (at + good + 1) * block_bytes);
        }
        at += count;
    }
    co_return Result<>();
}

// ---- requests ------------------------------------------------------------------------------

Task<Result<>> Reader::fetch(const Call& call, object::ContainerId container,
                             std::span<object::FetchItem> items) {
    ROS2S_CHECK(items.size() <= object::fetch_items_max);
    Core& here = cores_.here();
    const RequestCount::Hold hold(here.requests);
    const Span span(call.trace, here.env.reactor, "engine.fetch");
    ROS2S_CO_TRY(call.check(here.env.reactor));
    const bool exists =
        here.number == 0 ? state_.has_container(container) : here.containers.contains(container);
    if (!exists) co_return fail(Code::not_found);
    here.metrics.fetches.add();
    here.metrics.fetch_items.add(items.size());
    if (items.size() == 1) {
        co_await fetch_item(here, call.trace, container, items[0]);
    } else {
        co_await fetch_items(here, call.trace, container, items);
    }
    here.trim();
    co_return Result<>();
}

// A transaction with the condition `unpinned` holds the object's lock on this core until all cores
// see it. So what is found here is not about to be removed by one. Once the object is pinned, that
// condition fails.
Task<Result<>> Reader::pin(const Call& call, object::ContainerId container,
                           const object::Holder& holder, object::FetchItem& item) {
    Core& home = cores_.home();
    const RequestCount::Hold hold(home.requests);
    ROS2S_CO_TRY(call.check(home.env.reactor));
    LocksHeld locked(home.locks);
    co_await locked.lock(
        {{cores_.lock_names().of(container, item.object), KeyLockMode::intent_shared}});
    if (!state_.has_container(container)) co_return fail(Code::not_found);
    home.metrics.fetches.add();
    home.metrics.fetch_items.add();
    co_await fetch_item(home, call.trace, container, item);
    home.trim();
    if (!item.status) co_return Result<>();
    if (!holders_.has(container, holder)) ROS2S_CO_TRY(co_await holders_.add(container, holder));
    co_return pins_.add(container, item.object, holder);
}
Task<Result<bool>> Reader::pinned_again(const Call&, object::ContainerId container,
                                        const object::Holder& holder) {
    holders_.pinned_again(container, holder);
    co_return pins_.pinned_again(container, holder);
}
Task<Result<bool>> Reader::unpin(const Call&, object::ContainerId container,
                                 const object::Holder& holder, object::ObjectId object) {
    co_return pins_.remove(container, object, holder);
}

Task<Result<std::optional<object::Lock>>> Reader::lock(const Call& call,
                                                       object::ContainerId container,
                                                       const object::Holder& holder,
                                                       const object::LockRequest& request) {
    ROS2S_CO_TRY(call.check(cores_.home().env.reactor));
    if (!state_.has_container(container)) co_return fail(Code::not_found);
    if (call.entries_looked != nullptr) {
        *call.entries_looked += locks_.count_of(container, request.object);
    }
    const Time now = cores_.home().env.reactor.now();
    if (request.lock.space != object::LockSpace::container ||
        request.how == object::LockRequest::How::test) {
        auto done = locks_.lock(container, holder, request, now);
        const size_t looked = locks_.take_cycle_locks();
        if (call.entries_looked != nullptr) *call.entries_looked += looked;
        co_return done;
    }
    if (!holders_.has(container, holder)) ROS2S_CO_TRY(co_await holders_.add(container, holder));
    const bool takes =
        request.lock.mode != object::LockMode::none && request.how == object::LockRequest::How::set;
    if (takes && leases_.has_another(container, holder)) {
        co_return object::Lock{.space = object::LockSpace::container,
                               .mode = object::LockMode::shared};
    }
    const auto done = locks_.lock(container, holder, request, now);
    if (done && !*done) co_await holders_.write_again(holder);
    co_return done;
}

Task<Result<object::LeaseNews>> Reader::listen(const Call& call, object::ContainerId container,
                                               const object::Holder& holder,
                                               const object::Listening& listening) {
    ROS2S_CO_TRY(call.check(cores_.home().env.reactor));
    if (!state_.has_container(container)) co_return fail(Code::not_found);
    if (listening.ends) {
        holders_.leave(container, holder);
    } else if (!holders_.has(container, holder)) {
        ROS2S_CO_TRY(co_await holders_.add(container, holder));
    }
    co_return co_await leases_.listen(call, container, holder, listening);
}

Task<Result<uint64_t>> Reader::lease(const Call&, object::ContainerId container,
                                     const object::Holder& holder, object::ObjectId object) {
    if (!state_.has_container(container)) co_return uint64_t{0};
    co_return leases_.grant(container, object, holder);
}

// A trace belongs to one core at a time: items of other cores, which are fetched meanwhile, are not
// traced.
Task<> Reader::fetch_items(Core& from, Trace* trace, object::ContainerId container,
                           std::span<object::FetchItem> items) {
    Nursery nursery(from.env.reactor, items_side_by_side);
    for (object::FetchItem& item : items) {
        Core& core = cores_.of(container, item.object, item.dkey.bytes);
        Trace* const of_item = &core == &from ? trace : nullptr;
        co_await nursery.spawn(at(core, from, fetch_at(core, of_item, container, item)));
    }
    co_await nursery.join();
}

Task<> Reader::fetch_item(Core& from, Trace* trace, object::ContainerId container,
                          object::FetchItem& item) {
    Core& core = cores_.of(container, item.object, item.dkey.bytes);
    return at(core, from, fetch_at(core, trace, container, item));
}

// ---- one item ------------------------------------------------------------------------------

Task<> Reader::fetch_at(Core& core, Trace* trace, object::ContainerId container,
                        object::FetchItem& item) {
    if (!object::begin_fetch(item)) co_return;
    Node* node = resident_segment(core, container, item, 0);
    if (node == nullptr) {
        const Span span(trace, core.env.reactor, "engine.index");
        const Result<Node*> loaded = co_await core.loader.load(segment_key(container, item, 0));
        if (!loaded) {
            item.status = fail(loaded.error());
            co_return;
        }
        node = *loaded;
        core.cache.unpin(*node);
    }
    const Bytes window = item.window.bytes().first(item.extent.length);
    if (node->is_absent()) {
        std::ranges::fill(window, std::byte{0});
        item.status = fail(Code::not_found);
        co_return;
    }
    const EntryValue& entry = *node->entry();
    item.size = entry.size;
    item.epoch = entry.epoch;
    core.metrics.fetch_bytes.add(item.extent.length);
    item.is_value = entry.kind == EntryValue::Kind::single;
    if (item.is_value) {
        if (item.extent.offset != 0) {
            item.status = fail(Code::invalid);
        } else if (entry.size > window.size()) {
            item.status = fail(Code::too_small, entry.size);
        } else {
            std::ranges::copy(as_bytes(entry.single), window.begin());
            object::value_checksums(as_bytes(entry.single), item.checksums);
        }
        co_return;
    }
    BlockAddress first;
    if (plan_direct(item, entry, first)) {
        Result<> read;
        {
            const ReadPins::Pin pin(core.reads, core.visible);
            const Span span(trace, core.env.reactor, "device.read");
            read = co_await core.devices[first.device()]->read(first.block() * block_bytes, window);
            bool good = read.has_value();
            for (size_t i = 0; good && i < item.checksums.size(); ++i) {
                good = crc32c(window.subspan(i * block_bytes, block_bytes)) == item.checksums[i];
            }
            if (read && !good) read = co_await reread(core, trace, first, item.checksums, window);
        }
        publisher_.read_ended(core);
        if (!read) {
            item.status = at_offset(read, item.extent.offset, item.extent.end());
            log_corrupt(core, container, item);
            item.checksums.clear();
            item.seals.clear();
        }
        co_return;
    }
    item.checksums.clear();
    item.status = co_await fetch_array(core, trace, container, item, entry.size);
    if (item.status) co_return;
    item.checksums.clear();
    item.seals.clear();
    log_corrupt(core, container, item);
}

Task<Result<>> Reader::fetch_array(Core& core, Trace* trace, object::ContainerId container,
                                   object::FetchItem& item, uint64_t size) {
    const object::Extent& extent = item.extent;
    if (extent.length == 0) co_return Result<>();
    const uint64_t first = extent.offset / block_bytes;
    const uint64_t last = (extent.end() - 1) / block_bytes;
    Pins pins(core.cache);
    uint64_t segments_end = 0;
    const auto is_held = [&] { return std::ranges::any_of(pins.nodes(), &Node::held); };
    do {
        pins.clear();
        // Segment 0 as well: it has the size and the epoch.
        for (uint64_t s = 0;; s = std::max(s + 1, first / segment_blocks)) {
            // The array may have grown while we waited: then there is more to load.
            const Node* const head = resident_segment(core, container, item, 0);
            if (head != nullptr && head->entry() != nullptr) size = head->entry()->size;
            segments_end = std::min(last / segment_blocks + 1, segments_of(size));
            if (s >= segments_end) break;
            ROS2S_CO_TRY_ASSIGN(Node * node,
                                co_await core.loader.load(segment_key(container, item, s)));
            pins.adopt(*node);
        }
    } while (is_held());
    // Everything is in memory: the item sees one moment, in any number of segments.
    const Node* const head = resident_segment(core, container, item, 0);
    if (head != nullptr && head->entry() != nullptr &&
        head->entry()->kind != EntryValue::Kind::single) {
        item.size = head->entry()->size;
        item.epoch = head->entry()->epoch;
    }
    std::vector<BlockRef> blocks(last - first + 1, BlockRef{{}, zero_crc()});
    if (item.wants_seals) item.seals.assign(blocks.size() * object::seal_bytes, '\0');
    for (uint64_t s = first / segment_blocks; s < segments_end; ++s) {
        const Node* const node = resident_segment(core, container, item, s);
        const EntryValue* const entry = node == nullptr ? nullptr : node->entry();
        if (entry == nullptr || entry->kind == EntryValue::Kind::single) continue;
        const uint64_t base = s * segment_blocks;
        const uint64_t from = std::max(first, base);
        const uint64_t to = std::min(last, base + segment_blocks - 1);
        if (item.wants_seals) {
            add_seals(item, entry->map, static_cast<uint32_t>(from - base), to - from + 1,
                      from - first);
        }
        for (uint64_t b = from; b <= to; ++b) {
            const BlockRef block = entry->map.at(static_cast<uint32_t>(b - base));
            if (!block.address.is_hole()) blocks[b - first] = block;
        }
    }
    pins.clear();
    item.checksums.resize(blocks.size());
    Result<> result;
    {
        const ReadPins::Pin pin(core.reads, core.visible);
        Nursery nursery(core.env.reactor, runs_side_by_side);
        for (size_t at = 0; at < blocks.size();) {
            size_t count = run_at(std::span(blocks).subspan(at));
            // Partly requested blocks are read separately, so that the others need no bounce
            // buffer.
            const bool first_in_part = at == 0 && extent.offset % block_bytes != 0;
            const bool last_in_part = extent.end() % block_bytes != 0 &&
                                      item.room < block_bytes - extent.end() % block_bytes;
            if (first_in_part) count = 1;
            if (last_in_part && count > 1 && at + count == blocks.size()) --count;
            count = std::min<size_t>(count, core.bounce_blocks);
            const auto run = std::span<const BlockRef>(blocks).subspan(at, count);
            co_await nursery.spawn(fetch_run(core, trace, item, run, at, result));
            at += count;
        }
        co_await nursery.join();
    }
    publisher_.read_ended(core);
    co_return result;
}

}  // namespace ros2s::engine
