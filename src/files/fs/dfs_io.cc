// File contents. A read within one chunk's bytes is one fetch of one item. A write within one chunk
// is one update. Neither makes another request.
#include <array>

#include "dfs_mount.h"
#include "payload_checksums.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::fs {
namespace {

// Chunks per request of a list that looks for the first missing one.
constexpr uint32_t seek_chunks_at_once = 1024;
// The largest piece of a range that gets space by one transaction.
constexpr uint64_t allocated_at_once = 1 << 20;

}  // namespace

FetchItem DfsMount::data_item(NodeId node, Window into, uint64_t offset) const {
    return {.object = object_of(node),
            .dkey = chunk_dkey(offset / chunk_bytes_),
            .akey = data_akey(),
            .extent = {.offset = offset % chunk_bytes_, .length = into.length},
            .window = into};
}

Operation DfsMount::data_operation(NodeId node, Window from, uint64_t offset) const {
    return {.kind = Operation::Kind::write,
            .object = object_of(node),
            .dkey = chunk_dkey(offset / chunk_bytes_),
            .akey = data_akey(),
            .extent = {.offset = offset % chunk_bytes_, .length = from.length},
            .window = from};
}

Result<> DfsMount::read_status(const FetchItem& item) const {
    if (item.status || item.status.error().code == Code::not_found) return {};
    return fail(error_in_file(item, chunk_bytes_));
}

namespace {

// The CRC32C of the first `bytes` bytes of one block of zeros.
uint32_t crc_of_zeros(uint64_t bytes) {
    static const std::array<std::byte, block_bytes> zeros{};
    static const uint32_t of_block = crc32c(zeros);
    return bytes == block_bytes ? of_block : crc32c(ConstBytes(zeros).first(bytes));
}

}  // namespace

// Reads only a piece that is cut, which it verifies.
Result<> add_checksums(std::span<const FetchItem> items, uint64_t bytes, uint32_t& crc) {
    for (const FetchItem& item : items) {
        const object::Extent& extent = item.extent;
        const bool is_hole = !item.status;
        if (!is_hole &&
            item.checksums.size() != object::piece_count(extent.offset, extent.length)) {
            return fail(Code::corrupt);
        }
        size_t index = 0;
        for (uint64_t done = 0; done < extent.length && bytes > 0; ++index) {
            const uint64_t piece =
                std::min(extent.length - done, block_bytes - (extent.offset + done) % block_bytes);
            const uint64_t count = std::min(piece, bytes);
            uint32_t sum = is_hole ? crc_of_zeros(count) : item.checksums[index];
            if (count < piece && !is_hole) {
                const ConstBytes whole = item.window.bytes().subspan(done, piece);
                if (crc32c(whole) != sum) return fail(Code::corrupt);
                sum = crc32c(whole.first(count));
            }
            crc = crc32c_combine(crc, sum, count);
            done += count;
            bytes -= count;
        }
    }
    return {};
}

Task<Result<uint64_t>> DfsMount::pread(const Call& call, FileHandle handle, Window into,
                                       uint64_t offset) {
    const Span span(call.trace, reactor_, "fs.pread");
    const FileUse file(handles_.find(handle));
    if (!file) co_return fail(Code::stale);
    if (file->is_directory) co_return fail(Code::is_directory);
    if (!file->flags.read) co_return fail(Code::denied);
    if (offset > file_bytes_max) co_return fail(Code::invalid);
    into.length = std::min(into.length, file_bytes_max - offset);
    uint32_t* crc = nullptr;
    if (is_forwarded(call)) {
        crc = &call.checksums->whole.emplace(0);
    }
    if (into.length == 0) co_return 0;

    uint64_t bytes = into.length;
    if (within_chunk(offset, into.length) == into.length) {
        FetchItem item = data_item(file->node.node, into, offset);
        item.forwarded = crc != nullptr;
        ROS2S_CO_TRY(co_await store_.fetch(call, container_, {&item, 1}));
        if (is_complete(item)) [[likely]] {
            file->known_end = std::max(file->known_end, offset + into.length);
        } else {
            ROS2S_CO_TRY(read_status(item));
            ROS2S_CO_TRY_ASSIGN(bytes,
                                co_await finish_short_read(call, *file, into, offset, {&item, 1}));
        }
        if (crc != nullptr) ROS2S_CO_TRY(add_checksums({&item, 1}, bytes, *crc));
    } else {
        ROS2S_CO_TRY_ASSIGN(bytes, co_await read_chunks(call, *file, into, offset, crc));
    }
    if (file->node.era != store_.pins_era()) [[unlikely]]
        ROS2S_CO_TRY(co_await check_held(call, file->node));
    if (has_lost_lock(*file)) [[unlikely]]
        co_return fail(Code::io);
    file->reads.add();
    file->read_bytes.add(bytes);
    metrics_.reads.add();
    metrics_.read_bytes.add(bytes);
    co_return bytes;
}

std::optional<LocatedRead> DfsMount::locate(FileHandle handle, uint64_t offset, uint64_t length,
                                            FetchItem& item) {
    const OpenFile* const file = handles_.find(handle);
    if (file == nullptr || file->is_directory || !file->flags.read) return std::nullopt;
    if (length > file->known_end || offset > file->known_end - length) return std::nullopt;
    const bool is_whole = length > 0 && within_chunk(offset, length) == length;
    if (!is_whole || file->node.era != store_.pins_era()) return std::nullopt;
    if (!store_.features().checksums) return std::nullopt;
    item = data_item(file->node.node, {.length = length}, offset);
    item.forwarded = true;
    return LocatedRead{.store = store_, .container = container_};
}

bool DfsMount::finish_located(FileHandle handle, const FetchItem& item) {
    OpenFile* const file = handles_.find(handle);
    if (file == nullptr) return false;
    if (!is_complete(item)) {
        // A hole, or the file was truncated: do not try the same again.
        const uint64_t begin = item.dkey.number() * chunk_bytes_ + item.extent.offset;
        file->known_end = std::min(file->known_end, begin);
        return false;
    }
    if (file->node.era != store_.pins_era() || has_lost_lock(*file)) return false;
    file->reads.add();
    file->read_bytes.add(item.extent.length);
    metrics_.reads.add();
    metrics_.read_bytes.add(item.extent.length);
    return true;
}

// A read over several chunks: one batch, or several if there are more chunks than a batch takes.
Task<Result<uint64_t>> DfsMount::read_chunks(const Call& call, OpenFile& file, Window into,
                                             uint64_t offset, uint32_t* crc) {
    uint64_t done = 0;
    std::vector<FetchItem> items;
    while (done < into.length) {
        items.clear();
        const uint64_t batch_begin = done;
        bool all = true;
        while (done < into.length && items.size() < object::fetch_items_max) {
            const uint64_t count = within_chunk(offset + done, into.length - done);
            items.push_back(data_item(file.node.node, into.slice(done, count), offset + done));
            items.back().forwarded = crc != nullptr;
            done += count;
        }
        ROS2S_CO_TRY(co_await store_.fetch(call, container_, items));
        for (const FetchItem& item : items) {
            ROS2S_CO_TRY(read_status(item));
            all = all && is_complete(item);
        }
        const Window part = into.slice(batch_begin, done - batch_begin);
        uint64_t bytes = part.length;
        if (!all) {
            ROS2S_CO_TRY_ASSIGN(
                bytes, co_await finish_short_read(call, file, part, offset + batch_begin, items));
        }
        if (crc != nullptr) ROS2S_CO_TRY(add_checksums(items, bytes, *crc));
        if (bytes < part.length) co_return batch_begin + bytes;
    }
    co_return into.length;
}

// A chunk ended before the requested range: there is a hole, or the end of the file. The size
// decides, and it is read after the bytes. The missing bytes may have been written in between, so
// such chunks are read once more. Otherwise the caller could get zeros that were never in the file.
// If such a chunk has changed and is still too short, the file may have been truncated after the
// query. Then all is done again.
Task<Result<uint64_t>> DfsMount::finish_short_read(const Call& call, OpenFile& file, Window into,
                                                   uint64_t offset, std::span<FetchItem> items) {
    uint64_t size_before = 0;
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        metrics_.size_queries.add();
        ROS2S_CO_TRY_ASSIGN(const QueryReply contents,
                            co_await query_contents(call, file.node.node, S_IFREG));
        const uint64_t size = file_size(contents, chunk_bytes_);
        if (size <= offset) co_return 0;
        const uint64_t bytes = std::min(into.length, size - offset);
        if (attempt > rereads_max && size == size_before) co_return bytes;
        size_before = size;
        const auto wanted = [&](const FetchItem& item) {
            return std::min(item.extent.end(), size - item.dkey.number() * chunk_bytes_);
        };
        std::vector<FetchItem> again;
        std::vector<FetchItem*> replaced;
        for (FetchItem& item : items) {
            if (size <= item.dkey.number() * chunk_bytes_) break;
            if (wanted(item) <= item.size) continue;
            again.push_back({.object = item.object,
                             .dkey = item.dkey,
                             .akey = item.akey,
                             .extent = item.extent,
                             .window = item.window,
                             .forwarded = item.forwarded});
            replaced.push_back(&item);
        }
        if (again.empty()) co_return bytes;
        ROS2S_CO_TRY(co_await store_.fetch(call, container_, again));
        bool is_sure = true;
        for (size_t i = 0; i < again.size(); ++i) {
            ROS2S_CO_TRY(read_status(again[i]));
            is_sure = is_sure &&
                      (again[i].epoch == replaced[i]->epoch || wanted(again[i]) <= again[i].size);
            *replaced[i] = std::move(again[i]);
        }
        if (is_sure) co_return bytes;
    }
    co_return fail(Code::busy);
}

Task<Result<uint64_t>> DfsMount::pwrite(const Call& call, FileHandle handle, Window from,
                                        uint64_t offset) {
    const Span span(call.trace, reactor_, "fs.pwrite");
    const FileUse file(handles_.find(handle));
    if (!file) co_return fail(Code::stale);
    if (file->is_directory) co_return fail(Code::is_directory);
    if (!file->flags.write && !file->flags.append) co_return fail(Code::denied);
    if (!file->lock_owners.empty()) [[unlikely]]
        ROS2S_CO_TRY(co_await check_locks(call, *file));
    object::Checksums* checksums = nullptr;
    if (call.checksums != nullptr) {
        checksums = &call.checksums->pieces;
        // The pieces of an append are known only when its place is.
        if (file->flags.append || !call.checksums->fit(offset, from.length)) [[unlikely]]
            ROS2S_CO_TRY(co_await compare_checksums(call, from.bytes(), offset));
    }
    ROS2S_CO_TRY(tell_loss(*file));
    if (from.length == 0) co_return 0;
    if (offset > file_bytes_max || from.length > file_bytes_max - offset) {
        co_return fail(Code::too_large, file_bytes_max);
    }
    NodeState& state = file->node;
    if (state.may_have(file->clears)) [[unlikely]]
        ROS2S_CO_TRY(co_await clear_set_ids(call, state, file->clears));
    const size_t units = file->flags.append ? NodeState::writers_max : 1;
    co_await state.writers.acquire(units);
    Result<uint64_t> written = from.length;
    if (file->flags.append) {
        written = co_await append_chunks(call, state, from);
        if (!written && co_await unless_done(call, fail(written.error()))) written = from.length;
    } else if (within_chunk(offset, from.length) == from.length) {
        const Result<> done = co_await write_chunk(call, state, from, offset, checksums);
        if (!done) written = fail(done.error());
    } else {
        const std::span<const uint32_t> sums =
            checksums != nullptr ? std::span(*checksums) : std::span<uint32_t>();
        written = co_await write_chunks(call, state, from, offset, sums);
    }
    state.writers.release(units);
    if (!written) {
        // The error may be that of a loss, which this file's user then knows.
        if (written.error().code == Code::io) (void)tell_loss(*file);
        co_return written;
    }
    if (file->flags.sync && is_deferred_) {
        ROS2S_CO_TRY(co_await sync(call));
        ROS2S_CO_TRY(tell_loss(*file));
    }
    file->writes.add();
    file->written_bytes.add(*written);
    metrics_.writes.add();
    metrics_.written_bytes.add(*written);
    co_return written;
}

Task<Result<>> DfsMount::write_chunk(const Call& call, NodeState& state, Window from,
                                     uint64_t offset, object::Checksums* checksums) {
    co_await slots_.wait();
    auto slot = slots_.take();
    slot.require(pinned(state.node));
    slot.add(data_operation(state.node, from, offset));
    // Swapped back below: the caller's vector keeps its memory.
    if (checksums != nullptr) std::swap(slot.checksums(), *checksums);
    const auto done = co_await commit_held(call, slot, state);
    if (checksums != nullptr) std::swap(slot.checksums(), *checksums);
    if (!done) co_return fail(done.error());
    co_return Result<>();
}

// One transaction after the other, in the order of the file, each with as many chunks as it may
// carry. If one fails, the beginning has been written, and the caller gets its length.
Task<Result<uint64_t>> DfsMount::write_chunks(const Call& call, NodeState& state, Window from,
                                              uint64_t offset,
                                              std::span<const uint32_t> checksums) {
    uint64_t done = 0;
    for (uint32_t part = 0; done < from.length; ++part) {
        co_await slots_.wait();
        auto slot = slots_.take();
        slot.require(pinned(state.node));
        uint64_t taken = 0;
        while (done + taken < from.length) {
            const uint64_t at = done + taken;
            const uint64_t count = within_chunk(offset + at, from.length - at);
            const bool full = taken + count > options_.write_bytes_max ||
                              slot.transaction().operations.size() == options_.operations_max;
            if (taken > 0 && full) break;
            const size_t pieces = checksums.empty() ? 0 : object::piece_count(offset + at, count);
            slot.add(data_operation(state.node, from.slice(at, count), offset + at));
            const auto these = checksums.first(pieces);
            slot.checksums().assign(these.data(), these.data() + pieces);
            checksums = checksums.subspan(pieces);
            taken += count;
        }
        const auto committed = co_await commit_held(call, slot, state, part);
        if (!committed && done > 0) break;
        if (!committed) co_return fail(committed.error());
        done += taken;
    }
    co_return done;
}

namespace {

// True if the error guarantees that the request was not done.
bool was_refused(const Error& error) {
    switch (error.code) {
        case Code::cancelled:
        case Code::deadline:
        case Code::closed:
        case Code::disconnected:
        case Code::expired:
        case Code::io: return false;
        default: return true;
    }
}

}  // namespace

// Appends at the current end of the file. The caller excludes this mount's other writers.
// Conditions exclude other mounts' writers: the last chunk has not grown, and no chunk was added
// behind it or where data is written. One transaction, or several if the data does not fit into
// one; a named call must be one. Returns the number of bytes appended. It is less than requested if
// a further transaction was refused. If a transaction may have been done, the result is its error,
// because the caller would otherwise append the rest twice.
Task<Result<uint64_t>> DfsMount::append_chunks(const Call& call, NodeState& state, Window from) {
    const NodeId node = state.node;
    const uint64_t wanted = from.length;
    // The bytes appended, if it is certain that no more were; otherwise the error.
    const auto refused = [&](const Error& error) -> Result<uint64_t> {
        if (from.length == wanted) return fail(error);
        return wanted - from.length;
    };
    for (int attempt = 0; from.length > 0; ++attempt) {
        if (attempt == attempts_max) co_return refused({.code = Code::busy});
        const auto contents = co_await query_contents(call, node, S_IFREG);
        if (!contents) co_return refused(contents.error());
        const uint64_t end = file_size(*contents, chunk_bytes_);
        if (from.length > file_bytes_max - end) {
            co_return refused({.code = Code::too_large, .detail = file_bytes_max});
        }
        co_await slots_.wait();
        auto slot = slots_.take();
        slot.require(pinned(node));
        if (contents->exists) {
            slot.require({.kind = Condition::Kind::size_equals,
                          .object = object_of(node),
                          .dkey = contents->highest_dkey,
                          .akey = data_akey(),
                          .value = contents->size});
        }
        const uint64_t next_chunk = contents->exists ? contents->highest_dkey.number() + 1 : 0;
        const auto require_no_chunk = [&](uint64_t chunk) {
            slot.require({.kind = Condition::Kind::size_equals,
                          .object = object_of(node),
                          .dkey = chunk_dkey(chunk),
                          .akey = data_akey(),
                          .value = 0});
        };
        require_no_chunk(next_chunk);
        uint64_t taken = 0;
        // Conditions have the same limit as operations: one for each new chunk, and two more.
        while (taken < from.length &&
               slot.transaction().operations.size() + 2 < options_.operations_max) {
            const uint64_t at = end + taken;
            const uint64_t count = within_chunk(at, from.length - taken);
            if (taken + count > options_.transaction_bytes_max) break;
            if (at / chunk_bytes_ > next_chunk) require_no_chunk(at / chunk_bytes_);
            slot.add(data_operation(node, from.slice(taken, count), at));
            taken += count;
        }
        if (call.update != nullptr && taken < from.length) co_return fail(Code::too_large, taken);
        const auto done = co_await commit_held(call, slot, state);
        if (done) {
            from = from.slice(taken, from.length - taken);
            attempt = 0;
        } else if (!co_await conflicted(done.error(), attempt)) {
            if (was_refused(done.error())) co_return refused(done.error());
            co_return fail(done.error());
        }
    }
    co_return wanted;
}

Task<Result<>> DfsMount::punch_hole(const Call& call, FileHandle handle, uint64_t offset,
                                    uint64_t length) {
    return change_range(call, handle, {RangeChange::Kind::punch, offset, length});
}

Task<Result<>> DfsMount::allocate(const Call& call, FileHandle handle, uint64_t offset,
                                  uint64_t length, bool keeps_size) {
    using enum RangeChange::Kind;
    return change_range(call, handle, {keeps_size ? allocate_inside : allocate, offset, length});
}

Task<Result<>> DfsMount::change_range(const Call& call, FileHandle handle, RangeChange change) {
    const FileUse file(handles_.find(handle));
    if (!file) co_return fail(Code::stale);
    if (file->is_directory) co_return fail(Code::is_directory);
    if (!file->flags.write && !file->flags.append) co_return fail(Code::denied);
    if (change.length == 0 || change.offset > file_bytes_max ||
        change.length > file_bytes_max - change.offset) {
        co_return fail(Code::invalid);
    }
    ROS2S_CO_TRY_ASSIGN(const auto before, co_await done_before(call));
    if (before) co_return Result<>();
    const bool is_append_only = (file->node.flags & node_flags::append_only) != 0;
    if (is_append_only && change.kind == RangeChange::Kind::punch) co_return fail_permission();
    if (file->node.may_have(file->clears)) {
        ROS2S_CO_TRY(co_await clear_set_ids(call, file->node, file->clears));
    }
    // The steps have names of this mount. Only the completion of all has the call's name.
    Call step = call;
    step.update = nullptr;
    step.repeated = false;
    ROS2S_CO_TRY(co_await check_held(step, file->node));
    ROS2S_CO_TRY(co_await (change.kind == RangeChange::Kind::punch
                               ? punch_range(step, file->node, change.offset, change.length)
                               : allocate_range(step, file->node, change)));
    if (call.update == nullptr) co_return Result<>();
    co_await slots_.wait();
    auto slot = slots_.take();
    const auto done = co_await commit_named(call, slot);
    if (!done) co_return fail(done.error());
    co_return Result<>();
}

Task<Result<>> DfsMount::punch_range(const Call& call, NodeState& state, uint64_t offset,
                                     uint64_t length) {
    const NodeId node = state.node;
    ROS2S_CO_TRY_ASSIGN(QueryReply contents, co_await query_contents(call, node, S_IFREG));
    int attempt = 0;
    for (uint64_t at = offset;;) {
        const uint64_t end = std::min(offset + length, file_size(contents, chunk_bytes_));
        if (at >= end) break;
        // Whole chunks are removed at once, except the file's last one, which determines the size.
        const uint64_t whole_end = std::min(end / chunk_bytes_, contents.highest_dkey.number());
        if (at % chunk_bytes_ == 0 && at / chunk_bytes_ < whole_end) {
            const auto punched = co_await punch_whole_chunks(call, state, at / chunk_bytes_,
                                                             whole_end, contents.highest_dkey);
            if (punched) {
                at = whole_end * chunk_bytes_;
                continue;
            }
            if (!co_await conflicted(punched.error(), attempt)) co_return punched;
            if (++attempt == attempts_max) co_return fail(Code::busy);
            // Truncated by another mount, or removed after the pin was lost.
            ROS2S_CO_TRY(co_await check_held(call, state));
            ROS2S_CO_TRY_ASSIGN(contents, co_await query_contents(call, node, S_IFREG));
            continue;
        }
        const uint64_t count = within_chunk(at, end - at);
        co_await slots_.wait();
        auto slot = slots_.take();
        slot.require(pinned(node));
        slot.add({.kind = Operation::Kind::punch_extent,
                  .object = object_of(node),
                  .dkey = chunk_dkey(at / chunk_bytes_),
                  .akey = data_akey(),
                  .extent = {.offset = at % chunk_bytes_, .length = count}});
        const auto done = co_await commit_held(call, slot, state);
        if (!done) co_return fail(done.error());
        at += count;
    }
    co_return Result<>();
}

// A block that was written once can be written again when the pool is full. The store does not say
// which blocks are holes, so all are written.
Task<Result<>> DfsMount::allocate_range(const Call& call, NodeState& state, RangeChange change) {
    const bool keeps_size = change.kind == RangeChange::Kind::allocate_inside;
    QueryReply contents;
    uint64_t end = change.offset + change.length;
    const auto look = [&]() -> Task<Result<>> {  // NOLINT: awaited in this frame
        ROS2S_CO_TRY_ASSIGN(contents, co_await query_contents(call, state.node, S_IFREG));
        co_return Result<>();
    };
    if (keeps_size) ROS2S_CO_TRY(co_await look());
    if (keeps_size && end > file_size(contents, chunk_bytes_)) co_return fail(Code::unsupported);
    const AlignedBuffer buffer(std::min(chunk_bytes_, allocated_at_once));
    int attempt = 0;
    for (uint64_t at = change.offset; at < end;) {
        const uint64_t count = std::min(within_chunk(at, end - at), allocated_at_once);
        const auto done = co_await allocate_piece(
            call, state, at, buffer.bytes().first(count),
            keeps_size ? std::optional(contents.highest_dkey) : std::nullopt);
        if (done) {
            at += count;
            attempt = 0;
            continue;
        }
        if (!co_await conflicted(done.error(), attempt)) co_return done;
        if (++attempt == attempts_max) co_return fail(Code::busy);
        ROS2S_CO_TRY(co_await check_held(call, state));
        if (!keeps_size) continue;
        ROS2S_CO_TRY(co_await look());
        end = std::min(end, file_size(contents, chunk_bytes_));  // truncated by another mount
    }
    co_return Result<>();
}

Task<Result<>> DfsMount::allocate_piece(const Call& call, NodeState& state, uint64_t offset,
                                        Bytes piece, std::optional<Dkey> last) {
    FetchItem item = data_item(state.node, Window::local(piece), offset);
    ROS2S_CO_TRY(co_await store_.fetch(call, container_, {&item, 1}));
    ROS2S_CO_TRY(read_status(item));
    const uint64_t in_chunk = item.status ? item.size : 0;
    const uint64_t begin = std::min(item.extent.offset, in_chunk);
    std::ranges::fill(piece.subspan(std::min(in_chunk - begin, piece.size())), std::byte{});
    const bool grows = item.extent.end() > in_chunk;
    if (last && *last == item.dkey && grows) co_return fail(Code::condition_failed);
    co_await slots_.wait();
    auto slot = slots_.take();
    slot.require(pinned(state.node));
    slot.require({.kind = Condition::Kind::epoch_equals,
                  .object = object_of(state.node),
                  .dkey = item.dkey,
                  .akey = data_akey(),
                  .value = item.status ? item.epoch.value : 0});
    if (last && grows) {
        slot.require({.kind = Condition::Kind::exists,
                      .object = object_of(state.node),
                      .dkey = *last,
                      .akey = data_akey()});
    }
    slot.add(data_operation(state.node, Window::local(ConstBytes(piece)), offset));
    const auto done = co_await commit_held(call, slot, state);
    if (!done) co_return fail(done.error());
    co_return Result<>();
}

// Knows which chunks exist, not which of their blocks. A chunk that exists counts as data.
Task<Result<uint64_t>> DfsMount::seek(const Call& call, FileHandle handle, uint64_t offset,
                                      SeekFor what) {
    const FileUse file(handles_.find(handle));
    if (!file) co_return fail(Code::stale);
    if (file->is_directory) co_return fail(Code::is_directory);
    const NodeId node = file->node.node;
    ROS2S_CO_TRY(co_await check_held(call, file->node));
    ROS2S_CO_TRY_ASSIGN(const QueryReply contents, co_await query_contents(call, node, S_IFREG));
    const uint64_t size = file_size(contents, chunk_bytes_);
    if (offset >= size) co_return fail_errno(ENXIO);
    const bool wants_data = what == SeekFor::data;
    if (contents.bytes_used == 0) {
        if (wants_data) co_return fail_errno(ENXIO);
        co_return offset;
    }
    uint64_t chunk = offset / chunk_bytes_;
    Listing chunks{{.what = object::ListRequest::What::dkeys,
                    .object = object_of(node),
                    .akey = data_akey(),
                    .limit = wants_data ? 1 : seek_chunks_at_once}};
    if (chunk > 0) chunks.request.after = chunk_dkey(chunk - 1).bytes;
    while (chunks.more) {
        ROS2S_CO_TRY_ASSIGN(const auto entries, co_await next_page(call, chunks));
        for (const object::ListEntry& entry : entries) {
            const uint64_t number = Dkey{entry.key}.number();
            if (number == chunk && !wants_data) {
                ++chunk;
                continue;
            }
            const uint64_t found = std::max(offset, (wants_data ? number : chunk) * chunk_bytes_);
            co_return std::min(found, size);
        }
    }
    if (wants_data) co_return fail_errno(ENXIO);
    co_return std::min(std::max(offset, chunk * chunk_bytes_), size);
}

// Punches chunks in [begin, end), a number of existing ones at a time: a sparse file may have few
// in a vast range. The size stays the same as long as there is `last`, a chunk behind them.
Task<Result<>> DfsMount::punch_whole_chunks(const Call& call, NodeState& state, uint64_t begin,
                                            uint64_t end, Dkey last) {
    const NodeId node = state.node;
    object::ListRequest request{.what = object::ListRequest::What::dkeys,
                                .object = object_of(node),
                                .akey = data_akey(),
                                .limit = punch_chunks_max_};
    while (begin < end) {
        if (begin > 0) request.after = chunk_dkey(begin - 1).bytes;
        ROS2S_CO_TRY_ASSIGN(const object::ListReply reply,
                            co_await store_.list(call, container_, request));
        if (reply.entries.empty()) break;
        const uint64_t behind = Dkey{reply.entries.back().key}.number() + 1;
        const uint64_t batch_end = reply.more ? std::min(behind, end) : end;
        co_await slots_.wait();
        auto slot = slots_.take();
        slot.require(pinned(node));
        slot.require({.kind = Condition::Kind::exists,
                      .object = object_of(node),
                      .dkey = last,
                      .akey = data_akey()});
        slot.add({.kind = Operation::Kind::punch_dkeys,
                  .object = object_of(node),
                  .dkey = chunk_dkey(begin),
                  .dkey_end = chunk_dkey(batch_end)});
        const auto done = co_await commit_held(call, slot, state);
        if (!done) co_return fail(done.error());
        begin = batch_end;
    }
    co_return Result<>();
}

}  // namespace ros2s::fs
