// Fields that several bodies share: how the object model's words lie in an Encoder, a Measure or a
// Decoder.
#pragma once
#include "ros2s/base/codec.h"
#include "ros2s/object/checksum.h"
#include "ros2s/object/object_store.h"
#include "ros2s/rpc/body.h"
#include "wire.h"

namespace ros2s::remote {

using rpc::build;
using rpc::finish;
using rpc::put;
using rpc::take_flag;
using rpc::take_time;

template <class Out>
void put(Out& out, object::ObjectId object) {
    out.number(object.high);
    out.number(object.low);
}
inline object::ObjectId take_object(Decoder& in) {
    object::ObjectId object;
    object.high = in.number<uint64_t>();
    object.low = in.number<uint64_t>();
    return object;
}

template <class Out>
void put(Out& out, const object::Extent& extent) {
    out.number(extent.offset);
    out.number(extent.length);
}
inline object::Extent take_extent(Decoder& in) {
    object::Extent extent;
    extent.offset = in.number<uint64_t>();
    extent.length = in.number<uint64_t>();
    return extent;
}

template <class Out>
void put(Out& out, const std::vector<uint32_t>& checksums) {
    out.number(static_cast<uint32_t>(checksums.size()));
    out.raw(checksums.data(), checksums.size() * sizeof(uint32_t));
}
inline void take_checksums(Decoder& in, std::vector<uint32_t>& checksums) {
    checksums.clear();
    const auto count = in.number<uint32_t>();
    if (count > in.left() / sizeof(uint32_t)) return in.refuse();
    checksums.resize(count);
    for (uint32_t& checksum : checksums) checksum = in.number<uint32_t>();
}

inline void take_key(Decoder& in, std::string& key) { key = in.text(object::key_bytes_max); }

}  // namespace ros2s::remote
