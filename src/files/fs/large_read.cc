#include "large_read.h"

#include <algorithm>

#include "records.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::fs {
namespace {

struct LargeRead {
    FileSystem& files;
    const Call& call;
    FileHandle handle;
    Window into;
    uint64_t offset;
    Result<uint64_t> bytes;  // up to the first part that the file has not as a whole
};

Task<> read_part(LargeRead& whole, uint64_t begin, uint64_t length) {
    const auto found = co_await whole.files.pread(
        whole.call, whole.handle, whole.into.slice(begin, length), whole.offset + begin);
    if (!found) {
        whole.bytes = fail(found.error());
    } else if (*found < length && whole.bytes) {
        whole.bytes = std::min(*whole.bytes, begin + *found);
    }
}

Task<Result<uint64_t>> read_all(Reactor& reactor, LargeRead whole) {
    Nursery parts(reactor, read_parts_at_once);
    for (uint64_t begin = 0; whole.bytes && begin < *whole.bytes;) {
        const uint64_t most = read_part_bytes - (whole.offset + begin) % read_part_bytes;
        const uint64_t length = std::min(most, whole.into.length - begin);
        co_await parts.spawn(read_part(whole, begin, length));
        begin += length;
    }
    co_await parts.join();
    co_return whole.bytes;
}

}  // namespace

Task<Result<uint64_t>> pread_in_parts(Reactor& reactor, FileSystem& files, const Call& call,
                                      FileHandle handle, Window into, uint64_t offset) {
    if (into.length <= read_part_bytes || offset > file_bytes_max)
        return files.pread(call, handle, into, offset);
    into.length = std::min(into.length, file_bytes_max - offset);
    return read_all(reactor, {.files = files,
                              .call = call,
                              .handle = handle,
                              .into = into,
                              .offset = offset,
                              .bytes = into.length});
}

}  // namespace ros2s::fs
