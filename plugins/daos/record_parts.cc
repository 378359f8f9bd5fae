#include "record_parts.h"

#include <algorithm>

#include "daos_errno.h"

namespace ros2s::daos {
namespace {

// Buffers that lie one after the other are one.
void add_part(const Part& part, std::vector<Part>& parts) {
    auto* const last = parts.empty() ? nullptr : &parts.back();
    const bool continues = last != nullptr && last->extent.end() == part.extent.offset &&
                           last->memory.data() + last->memory.size() == part.memory.data();
    if (!continues) {
        parts.push_back(part);
        return;
    }
    last->extent.length += part.extent.length;
    last->memory = {last->memory.data(), last->memory.size() + part.memory.size()};
}

}  // namespace

bool are_there(d_sg_list_t* lists, unsigned count, bool writes) {
    if (lists == nullptr) return true;
    return std::ranges::all_of(std::span(lists, count), [&](d_sg_list_t& list) {
        if (list.sg_nr > 0 && list.sg_iovs == nullptr) return false;
        return std::ranges::all_of(buffers_of(list), [&](const d_iov_t& iov) {
            return iov.iov_buf != nullptr || (writes ? iov.iov_len : iov.iov_buf_len) == 0;
        });
    });
}

int to_extent(const daos_recx_t& records, uint64_t record_bytes, object::Extent& out) {
    uint64_t end = 0;
    const bool is_too_far = __builtin_mul_overflow(records.rx_idx, record_bytes, &out.offset) ||
                            __builtin_mul_overflow(records.rx_nr, record_bytes, &out.length) ||
                            __builtin_add_overflow(out.offset, out.length, &end);
    return is_too_far || end > object::array_bytes_max ? -DER_IO_INVAL : 0;
}

int cut(const daos_iod_t& iod, uint64_t record_bytes, d_sg_list_t& list, bool writes,
        std::vector<Part>& parts) {
    auto iov = buffers_of(list).begin();
    uint64_t used = 0;
    for (const auto& records : std::span(iod.iod_recxs, iod.iod_nr)) {
        object::Extent extent;
        if (const int rc = to_extent(records, record_bytes, extent); rc != 0) return rc;
        uint64_t offset = extent.offset;
        uint64_t left = extent.length;
        while (left > 0) {
            if (iov == buffers_of(list).end()) return -DER_REC2BIG;
            const uint64_t room = (writes ? iov->iov_len : iov->iov_buf_len) - used;
            const uint64_t count = std::min(left, room);
            if (count > 0) {
                add_part({.extent = {.offset = offset, .length = count},
                          .memory = {static_cast<std::byte*>(iov->iov_buf) + used, count}},
                         parts);
            }
            offset += count;
            left -= count;
            used += count;
            if (count == room) {
                ++iov;
                used = 0;
            }
        }
    }
    return 0;
}

}  // namespace ros2s::daos
