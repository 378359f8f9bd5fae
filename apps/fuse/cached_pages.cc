#include "cached_pages.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ros2s::fuse {
namespace {

using Range = CachedPages::Range;

// Gaps of equal bytes up to this length are written, too. A store often leaves some bytes as they
// were. A gap is shorter than a number that another mount may have written there.
constexpr uint64_t gap_bytes_max = 3;

bool overlap(const Range& a, const Range& b) noexcept {
    return a.offset < b.end() && b.offset < a.end();
}

// Adds `range`, which is not before the last one.
void add(std::vector<Range>& ranges, Range range, uint64_t gap) {
    if (!ranges.empty() && range.offset - ranges.back().end() <= gap) {
        ranges.back().length = range.end() - ranges.back().offset;
    } else {
        ranges.push_back(range);
    }
}

// Adds the parts of a block that differ from `before`. Gaps of up to `gap` bytes between them are
// included.
void add_difference(std::vector<Range>& ranges, uint64_t offset, ConstBytes now, ConstBytes before,
                    uint64_t gap) {
    uint64_t gap_before = 0;
    size_t at = 0;
    while (at < now.size()) {
        const auto rest = now.subspan(at);
        const auto differs = std::ranges::mismatch(rest, before.subspan(at)).in1;
        at += static_cast<size_t>(differs - rest.begin());
        const size_t begin = at;
        while (at < now.size() && now[at] != before[at]) ++at;
        if (at == begin) break;
        add(ranges, {offset + begin, at - begin}, std::exchange(gap_before, gap));
    }
}

}  // namespace

void CachedPages::opened(fs::NodeId node) {
    ++files_.try_emplace(node.value, reactor_).first->second.writers;
}

void CachedPages::closed(fs::NodeId node) {
    const auto found = files_.find(node.value);
    if (found == files_.end()) return;
    --found->second.writers;
    drop_if_unused(node);
}

void CachedPages::drop_if_unused(fs::NodeId node) {
    const auto found = files_.find(node.value);
    File& file = found->second;
    if (file.writers > 0 || !file.operations.empty()) return;
    while (!file.copies.empty()) drop_copy(file, file.copies.begin());
    files_.erase(found);
}

void CachedPages::drop_copy(File& file, std::map<uint64_t, Copies::iterator>::iterator copy) {
    copies_.erase(copy->second);
    file.copies.erase(copy);
}

Task<CachedPages::RunningOperation> CachedPages::begin(fs::NodeId node, Kind kind, Range range) {
    const auto found = files_.find(node.value);
    if (found == files_.end()) co_return RunningOperation();
    File& file = found->second;  // stays, because of its operation
    file.operations.push_back({kind, range});
    const auto own = std::prev(file.operations.end());
    RunningOperation running(*this, node, own);
    const auto waits_for = [&](const Operation& other) {
        return other.kind != kind && overlap(other.range, range);
    };
    while (std::any_of(file.operations.begin(), own, waits_for)) co_await file.ended;
    if (kind == Kind::direct) {
        const auto first = file.copies.lower_bound(range.offset / block_bytes);
        for (auto each = first; each != file.copies.end(); ++each) {
            if (each->first * block_bytes >= range.end()) break;
            each->second->is_overtaken = true;
        }
    }
    co_return running;
}

void CachedPages::end(fs::NodeId node, std::list<Operation>::iterator operation) {
    File& file = files_.find(node.value)->second;
    file.operations.erase(operation);
    file.ended.wake_all();
    drop_if_unused(node);
}

void CachedPages::filled(fs::NodeId node, uint64_t offset, ConstBytes bytes, uint64_t length) {
    File& file = files_.find(node.value)->second;
    for (uint64_t at = 0; at < length; at += block_bytes) {
        const uint64_t block = (offset + at) / block_bytes;
        if (const auto old = file.copies.find(block); old != file.copies.end()) {
            drop_copy(file, old);
        }
        Copy& copy = copies_.emplace_back();
        copy.node = node;
        copy.block = block;
        const ConstBytes given = bytes.subspan(std::min<uint64_t>(at, bytes.size()));
        const size_t size = std::min<size_t>(given.size(), block_bytes);
        std::memcpy(copy.bytes.data(), given.data(), size);
        std::memset(copy.bytes.data() + size, 0, block_bytes - size);
        file.copies.emplace(block, std::prev(copies_.end()));
    }
    while (copies_.size() > copies_max_) {
        File& oldest = files_.find(copies_.front().node.value)->second;
        drop_copy(oldest, oldest.copies.find(copies_.front().block));
    }
}

std::vector<Range> CachedPages::stored(fs::NodeId node, uint64_t offset, ConstBytes bytes) const {
    const File& file = files_.find(node.value)->second;
    std::vector<Range> ranges;
    for (size_t at = 0; at < bytes.size();) {
        const uint64_t here = offset + at;
        const size_t size = std::min<size_t>(bytes.size() - at, block_bytes - (here % block_bytes));
        const auto copy = file.copies.find(here / block_bytes);
        if (copy == file.copies.end()) {
            add(ranges, {here, size}, 0);
        } else {
            const ConstBytes before(copy->second->bytes);
            add_difference(ranges, here, bytes.subspan(at, size),
                           before.subspan(here % block_bytes, size),
                           copy->second->is_overtaken ? 0 : gap_bytes_max);
        }
        at += size;
    }
    return ranges;
}

void CachedPages::written(fs::NodeId node, uint64_t offset, ConstBytes bytes) {
    File& file = files_.find(node.value)->second;
    while (!bytes.empty()) {
        const size_t in_block = offset % block_bytes;
        const size_t size = std::min<size_t>(bytes.size(), block_bytes - in_block);
        const auto copy = file.copies.find(offset / block_bytes);
        if (copy != file.copies.end()) {
            std::memcpy(copy->second->bytes.data() + in_block, bytes.data(), size);
        }
        offset += size;
        bytes = bytes.subspan(size);
    }
}

}  // namespace ros2s::fuse
