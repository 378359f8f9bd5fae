// TreeCopy's copy of one regular file: small files with one read and one write, large ones in
// pieces concurrently. Of a file with holes only what is not a hole is read, and blocks of zeros
// become holes.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "tree_copy.h"

namespace ros2s::cli {
namespace {

constexpr uint64_t piece_bytes = uint64_t{1} << 20;
constexpr size_t pieces_side_by_side = 8;

bool all_zero(ConstBytes bytes) {
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

// The length of the blocks at the beginning of `bytes` that are all zero, or of those that are not.
uint64_t run_of_blocks(ConstBytes bytes, bool zero) {
    uint64_t end = 0;
    while (end < bytes.size() &&
           all_zero(bytes.subspan(end, std::min(block_bytes, bytes.size() - end))) == zero) {
        end = std::min(end + block_bytes, bytes.size());
    }
    return end;
}

}  // namespace

// One of a bounded number of buffers, while the holder exists.
class TreeCopy::BufferHold {
  public:
    // Requires one acquired unit of owner.buffer_slots_.
    explicit BufferHold(TreeCopy& owner) : owner_(owner), slot_(owner.buffer_slots_) {
        if (owner.free_buffers_.empty()) {
            buffer_ = AlignedBuffer(piece_bytes);
        } else {
            buffer_ = std::move(owner.free_buffers_.back());
            owner.free_buffers_.pop_back();
        }
    }
    BufferHold& operator=(BufferHold&&) = delete;
    ~BufferHold() { owner_.free_buffers_.push_back(std::move(buffer_)); }
    [[nodiscard]] Bytes bytes() const { return buffer_.bytes(); }

  private:
    TreeCopy& owner_;
    SemaphoreHold slot_;
    AlignedBuffer buffer_;
};

Task<Result<>> TreeCopy::copy_file(size_t index, fs::NodeId source) {
    Item& item = items_[index];
    fs::FileSystem& target = *to_.file_system;
    const fs::NodeId directory = target_directory(item);
    const std::string name = target_name(index);
    const auto there = co_await target.lookup(context_.call, directory, name);
    if (there) target.forget(there->node, 1);
    if (there && S_ISDIR(there->mode)) {
        co_return context_.report.fail(Code::is_directory,
                                       "copying {}: a directory has its name in {}, and stays",
                                       path_of(index), to_.shown);
    }
    if (there && !S_ISREG(there->mode)) {
        co_return context_.report.fail(
            Code::unsupported,
            "copying {0} to {1}: '{2}' exists there and is not a regular file, and stays. Remove "
            "it first, or write to it with: ros2store cat {3} > FILE",
            path_of(index), to_.shown, name, shell_word(path_of(index)));
    }
    const std::string first_name = fmt::format(".ros2store-{:016x}-{}", mark_, index);

    ROS2S_CO_TRY_ASSIGN(const fs::Opened from,
                        co_await from_.file_system->open(context_.call, source, {.read = true}));
    Result<> done = co_await write_file(index, from, first_name);
    const auto closed = co_await from_.file_system->close(context_.call, from.handle);
    if (done) done = closed;
    if (done) {
        done = co_await target.rename(context_.call, directory, first_name, directory, name, {});
    }
    if (done) {
        ++counts_.files;
        co_return done;
    }
    if (item.made.value != 0) {
        // Also after an interruption, which has stopped `context_.call`.
        (void)co_await target.unlink(Call{}, directory, first_name);
        if (index > 0) target.forget(item.made, 1);
        item.made = {};
    }
    co_return done;
}

// The new file `name`, with all properties of `from`.
Task<Result<>> TreeCopy::write_file(size_t index, const fs::Opened& from, const std::string& name) {
    Item& item = items_[index];
    ROS2S_CO_TRY_ASSIGN(const fs::Opened to, co_await to_.file_system->create(
                                                 context_.call, target_directory(item), name,
                                                 S_IFREG | (item.source.mode & 0777U) | 0200U,
                                                 {.read = false, .write = true, .exclusive = true},
                                                 owner_of(item.source)));
    item.made = to.attributes.node;
    Result<> done = co_await copy_data(from, item.made, to.handle);
    // Last, because writing clears set-id bits and changes times.
    if (done) done = co_await copy_xattrs(from.attributes.node, item.made);
    if (done) done = co_await set_attributes(item.source, item.made);
    const auto closed = co_await to_.file_system->close(context_.call, to.handle);
    co_return done ? closed : done;
}

Task<Result<>> TreeCopy::copy_data(const fs::Opened& from, fs::NodeId to, fs::FileHandle handle) {
    const uint64_t size = from.attributes.size;
    const bool sparse = from.attributes.bytes_used + block_bytes < size;
    Result<> failure;
    uint64_t end = UINT64_MAX;  // the first short piece shows it
    if (size <= piece_bytes) {
        // Up to the actual end: files in /proc report that they are empty.
        for (uint64_t offset = 0; offset < end && failure; offset += piece_bytes) {
            co_await copy_piece(from.handle, handle, offset, sparse, end, failure);
        }
    } else {
        end = size;
        Nursery nursery(context_.environment.reactor, pieces_side_by_side);
        for (uint64_t offset = 0; offset < end && failure && go_on(); offset += piece_bytes) {
            if (sparse) offset = co_await skip_hole(from.handle, offset, size);
            if (offset >= end) break;
            co_await nursery.spawn(copy_piece(from.handle, handle, offset, sparse, end, failure));
        }
        co_await nursery.join();
        if (failure) failure = stopped_;  // some pieces are missing
    }
    if (!failure || !sparse) co_return failure;
    // A hole at the end was not written.
    co_return co_await set(to, {.size = end});
}

// The beginning of the first piece from `offset` on that has data; `size` if there is none.
Task<uint64_t> TreeCopy::skip_hole(fs::FileHandle from, uint64_t offset, uint64_t size) {
    const auto data =
        co_await from_.file_system->seek(context_.call, from, offset, fs::SeekFor::data);
    // If the file system does not know, all is read.
    const bool has_none = !data && data.error().os_errno == ENXIO;
    const uint64_t found = data ? *data - *data % piece_bytes : has_none ? size : offset;
    counts_.bytes += found - offset;
    progress_.update(counts_.bytes, total_bytes_);
    co_return found;
}

Task<> TreeCopy::copy_piece(fs::FileHandle from, fs::FileHandle to, uint64_t offset, bool sparse,
                            uint64_t& end, Result<>& failure) {
    co_await buffer_slots_.acquire();
    const BufferHold buffer(*this);
    const auto got = co_await from_.file_system->pread(context_.call, from,
                                                       fs::Window::local(buffer.bytes()), offset);
    if (!got) {
        failure = std::unexpected(got.error());
        co_return;
    }
    if (*got < piece_bytes) end = std::min(end, offset + *got);
    const ConstBytes bytes = buffer.bytes().first(*got);
    for (uint64_t at = 0; at < bytes.size();) {
        if (sparse) at += run_of_blocks(bytes.subspan(at), true);
        const ConstBytes rest = bytes.subspan(at);
        const ConstBytes part = rest.first(sparse ? run_of_blocks(rest, false) : rest.size());
        if (part.empty()) break;
        const auto put = co_await to_.file_system->pwrite(context_.call, to,
                                                          fs::Window::local(part), offset + at);
        if (!put) {
            failure = std::unexpected(put.error());
            co_return;
        }
        at += part.size();
    }
    counts_.bytes += *got;
    progress_.update(counts_.bytes, total_bytes_);
}

}  // namespace ros2s::cli
