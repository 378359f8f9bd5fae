// The bytes of files.
#include <algorithm>
#include <vector>

#include "events.h"
#include "objects.h"
#include "transfers.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

using Pieces = std::vector<Piece>;

// The maximum number of ranges in one call (DAOS_ARRAY_LIST_IO_LIMIT).
constexpr size_t ranges_max = 16384;

daos_range_t from(daos_off_t offset) { return {.rg_idx = offset, .rg_len = UINT64_MAX - offset}; }
bool is_open_end(const daos_range_t& range) { return range.rg_len == UINT64_MAX - range.rg_idx; }

// Splits the buffers of the list at the ranges of the file. As in libdfs, iov_len is the number of
// bytes to read or write in a buffer. False: buffers and ranges do not match.
bool cut(const d_sg_list_t& list, std::span<const daos_range_t> ranges, Pieces& pieces) {
    uint64_t range_at = 0;
    auto range = ranges.begin();
    for (const auto& iov : std::span(list.sg_iovs, list.sg_nr)) {
        for (uint64_t done = 0; done < iov.iov_len;) {
            while (range != ranges.end() && range_at == range->rg_len) {
                ++range;
                range_at = 0;
            }
            if (range == ranges.end()) return false;
            const uint64_t count = std::min(iov.iov_len - done, range->rg_len - range_at);
            if (range->rg_idx + range_at + count < count) return false;
            pieces.push_back(
                {static_cast<char*>(iov.iov_buf) + done, count, range->rg_idx + range_at});
            done += count;
            range_at += count;
        }
    }
    // Ranges that are left have no buffer, except the one that has no end.
    while (range != ranges.end() && range_at == range->rg_len) {
        ++range;
        range_at = 0;
    }
    return range == ranges.end() || is_open_end(*range);
}

// A write that ends early has written the beginning. The rest fails with the reason.
Task<Result<uint64_t>> write_all(ros2s_fs& fs, ros2s_file& file, Bytes bytes, uint64_t offset) {
    uint64_t done = 0;
    while (done < bytes.size()) {
        const auto rest = fs::Window::local(bytes.subspan(done));
        ROS2S_CO_TRY_ASSIGN(
            const uint64_t count,
            co_await fs.file_system().pwrite(fs.call, file.core.handle, rest, offset + done));
        if (count == 0) co_return fail(Code::io);
        done += count;
    }
    co_return done;
}

Task<Result<uint64_t>> transfer(ros2s_fs& fs, ros2s_file& file, bool writes,
                                std::span<const Piece> pieces) {
    uint64_t total = 0;
    for (const auto& piece : pieces) {
        const Bytes bytes(static_cast<std::byte*>(piece.address), piece.bytes);
        const auto done =
            writes ? co_await write_all(fs, file, bytes, piece.offset)
                   : co_await fs.file_system().pread(fs.call, file.core.handle,
                                                     fs::Window::local(bytes), piece.offset);
        if (!done) co_return fail(done.error());
        total += *done;
    }
    co_return total;
}

// `list_out`: gets sg_nr_out when an event completes; null: the list does not live that long.
int begin(dfs_t* dfs, dfs_obj_t* object, std::span<const daos_range_t> ranges, d_sg_list_t* list,
          bool writes, daos_size_t* bytes_out, d_sg_list_t* list_out, daos_event_t* event) {
    if (const int rc = check(dfs, object); rc != 0) return rc;
    if (object->file == nullptr || list == nullptr) return EINVAL;
    if (writes ? !object->file->flags.write : (object->flags & O_ACCMODE) == O_WRONLY) return EPERM;
    Pieces pieces;
    if (list->sg_nr > 0 && list->sg_iovs == nullptr) return EINVAL;
    if (!cut(*list, ranges, pieces)) return finish_dfs_call(event, EINVAL);
    auto& fs = dfs->fs();
    if (event != nullptr) {
        const auto* const state = state_of(event);
        const auto queue = state == nullptr ? nullptr : EventQueue::of(*state);
        if (queue == nullptr || state->status != EventState::Status::ready) return EINVAL;
        return queue->start(*event, {.fs = &fs,
                                     .file = object->file,
                                     .opcode = writes ? ROS2S_OP_WRITE : ROS2S_OP_READ,
                                     .pieces = pieces,
                                     .bytes_out = bytes_out,
                                     .list_out = list_out});
    }
    const auto done = fs.run([&] { return transfer(fs, *object->file, writes, pieces); });
    if (!done) return errno_of(done.error());
    if (bytes_out != nullptr) *bytes_out = *done;
    if (!writes) list->sg_nr_out = list->sg_nr;
    return 0;
}

}  // namespace

int read_buffer(dfs_t* dfs, dfs_obj_t* object, void* buffer, daos_off_t offset, daos_size_t* size,
                daos_event_t* event) {
    d_iov_t iov;
    d_iov_set(&iov, buffer, *size);
    d_sg_list_t list{.sg_nr = 1, .sg_nr_out = 0, .sg_iovs = &iov};
    const auto range = from(offset);
    return begin(dfs, object, {&range, 1}, &list, false, size, nullptr, event);
}

}  // namespace ros2s::daos

int dfs_read(dfs_t* dfs, dfs_obj_t* obj, d_sg_list_t* sgl, daos_off_t off, daos_size_t* read_size,
             daos_event_t* ev) {
    if (read_size == nullptr) return EINVAL;
    const auto range = from(off);
    return begin(dfs, obj, {&range, 1}, sgl, false, read_size, sgl, ev);
}

int dfs_readx(dfs_t* dfs, dfs_obj_t* obj, dfs_iod_t* iod, d_sg_list_t* sgl, daos_size_t* read_size,
              daos_event_t* ev) {
    if (iod == nullptr || read_size == nullptr) return EINVAL;
    if (iod->iod_nr > ranges_max) return ENOTSUP;
    return begin(dfs, obj, {iod->iod_rgs, iod->iod_nr}, sgl, false, read_size, sgl, ev);
}

int dfs_write(dfs_t* dfs, dfs_obj_t* obj, d_sg_list_t* sgl, daos_off_t off, daos_event_t* ev) {
    const auto range = from(off);
    return begin(dfs, obj, {&range, 1}, sgl, true, nullptr, nullptr, ev);
}

int dfs_writex(dfs_t* dfs, dfs_obj_t* obj, dfs_iod_t* iod, d_sg_list_t* sgl, daos_event_t* ev) {
    if (iod == nullptr) return EINVAL;
    if (iod->iod_nr > ranges_max) return ENOTSUP;
    return begin(dfs, obj, {iod->iod_rgs, iod->iod_nr}, sgl, true, nullptr, nullptr, ev);
}

int dfs_get_size(dfs_t* dfs, dfs_obj_t* obj, daos_size_t* size) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    if (size == nullptr || !S_ISREG(obj->mode)) return EINVAL;
    auto& fs = dfs->fs();
    const auto got = fs.run([&] { return fs.file_system().get_attributes(fs.call, obj->node); });
    if (!got) return errno_of(got.error());
    *size = got->size;
    return 0;
}

// As in libdfs, a range that reaches the end of the file truncates it. DFS_MAX_FSIZE sets the size
// to the offset, even if this extends the file.
int dfs_punch(dfs_t* dfs, dfs_obj_t* obj, daos_off_t offset, daos_size_t len) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    if (!S_ISREG(obj->mode)) return EINVAL;
    if (!obj->file->flags.write) return EPERM;
    auto& fs = dfs->fs();
    const auto resize = [&] { return set_attributes(fs, obj->node, {.size = offset}); };
    if (len == DFS_MAX_FSIZE) return resize();
    daos_size_t size = 0;
    if (const int rc = dfs_get_size(dfs, obj, &size); rc != 0) return rc;
    if (offset >= size || len == 0) return 0;
    if (len >= size - offset) return resize();
    return errno_of(fs.run(
        [&] { return fs.file_system().punch_hole(fs.call, obj->file->core.handle, offset, len); }));
}
