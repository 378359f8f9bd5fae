// The records of an array as ranges of bytes, and the caller's buffers for them. Fetches and
// updates of objects use these.
#pragma once
#include <span>
#include <vector>

#include "daos.h"
#include "ros2s/object/object_store.h"

namespace ros2s::daos {

inline std::span<d_iov_t> buffers_of(d_sg_list_t& list) { return {list.sg_iovs, list.sg_nr}; }

// False: a counted buffer is null. `writes`: the buffers are read, up to iov_len.
[[nodiscard]] bool are_there(d_sg_list_t* lists, unsigned count, bool writes);

// A range of bytes of an array, and the caller's buffer for it.
struct Part {
    object::Extent extent;
    Bytes memory;
};

// -DER_IO_INVAL: records beyond the end that an array can have.
int to_extent(const daos_recx_t& records, uint64_t record_bytes, object::Extent& out);

// Cuts the records of a descriptor to the buffers. 0; -DER_REC2BIG: there are fewer bytes than
// records; -DER_IO_INVAL.
int cut(const daos_iod_t& iod, uint64_t record_bytes, d_sg_list_t& list, bool writes,
        std::vector<Part>& parts);

}  // namespace ros2s::daos
