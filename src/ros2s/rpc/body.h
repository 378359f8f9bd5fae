// What the bodies of different services share: how they are measured and laid down, and the fields
// that mean the same in each (docs/formats/rpc.md).
#pragma once
#include <cstddef>
#include <vector>

#include "ros2s/base/codec.h"
#include "ros2s/rpc/frame.h"
#include "ros2s/runtime/time.h"

namespace ros2s::rpc {

using Buffer = std::vector<std::byte>;

// Measures, makes room, encodes: `write` is called twice, with a Measure and with an Encoder.
template <class Write>
ConstBytes build(Buffer& buffer, Write write) {
    Measure measure;
    write(measure);
    buffer.resize(measure.size());
    Encoder encoder(buffer);
    write(encoder);
    return buffer;
}

// Accepts what was read when it was all there, and nothing more.
[[nodiscard]] inline Result<> finish(const Decoder& in) {
    if (!in.done()) return fail(Code::corrupt);
    return {};
}

// A byte that is 0 or 1.
inline bool take_flag(Decoder& in) {
    const auto flag = in.number<uint8_t>();
    if (flag > 1) in.refuse();
    return flag == 1;
}

template <class Out>
void put(Out& out, WallTime time) {
    out.number(int64_t{time.time_since_epoch().count()});
}
inline WallTime take_time(Decoder& in) { return WallTime{Duration{in.number<int64_t>()}}; }

// How a part of a request ended.
template <class Out>
void put(Out& out, const Result<>& status) {
    out.number(status ? uint16_t{0} : to_wire(status.error().code));
    out.number(status ? int32_t{0} : status.error().os_errno);
    out.number(status ? uint64_t{0} : status.error().detail);
}
inline Result<> take_status(Decoder& in) {
    const auto code = in.number<uint16_t>();
    const auto os_errno = in.number<int32_t>();
    const auto detail = in.number<uint64_t>();
    if (code == 0) {
        if (os_errno != 0 || detail != 0) in.refuse();
        return {};
    }
    return fail(Error{code_from_wire(code), os_errno, detail});
}

}  // namespace ros2s::rpc
