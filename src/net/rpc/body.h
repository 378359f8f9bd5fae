// The bodies of different services share this code: encoding and decoding from their declaration
// (ros2s/base/fields.h), and the fields with the same meaning in each (docs/formats/rpc.md).
#pragma once
#include <cstddef>

#include "ros2s/base/fields.h"
#include "ros2s/base/inline_vector.h"
#include "ros2s/rpc/frame.h"

namespace ros2s::rpc {

// Has room for the body of a request about one file, without an allocation.
using Buffer = InlineVector<std::byte, 256>;

// Measures the parts, makes room, writes them.
template <class... Parts>
[[gnu::flatten]] ConstBytes build(Buffer& buffer, auto fields, const Parts&... parts) {
    buffer.resize(measured(fields, parts...));
    FieldWriter<Encoder> out(buffer);
    fields(out, parts...);
    return buffer;
}

// Returns the number of elements that fit into a body of `bytes_max` if other fields take `bytes`;
// at least one.
template <class T>
[[nodiscard]] size_t fitting(std::span<const T> elements, auto fields, size_t bytes_max,
                             uint64_t bytes) {
    size_t count = 0;
    for (const T& element : elements) {
        bytes += measured(fields, element);
        if (count > 0 && bytes > bytes_max) break;
        ++count;
    }
    return count;
}

// Fills the parts. Accepts the bytes only if nothing is missing and nothing is left. Errors:
// corrupt.
template <class... Parts>
[[nodiscard, gnu::flatten]] Result<> read(ConstBytes body, auto fields, Parts&... parts) {
    FieldReader in(body);
    fields(in, parts...);
    if (!in.done()) return fail(Code::corrupt);
    return {};
}
template <class Body>
[[nodiscard]] Result<Body> read_body(ConstBytes bytes, auto fields) {
    Body body;
    ROS2S_TRY(read(bytes, fields, body));
    return body;
}

// The result of a part of a request.
inline constexpr auto status_fields = []<class Io>(Io& io, auto& status) {
    Error error{};
    uint16_t code = 0;
    if constexpr (!Io::reads) {
        if (!status) error = status.error(), code = to_wire(error.code);
    }
    io("code (0: fine)", code);
    io("errno", error.os_errno);
    io("detail", error.detail);
    if constexpr (Io::reads) {
        io.refuse_when(code == 0 && (error.os_errno != 0 || error.detail != 0));
        io.refuse_when(error.os_errno < 0);
        if (code == 0) {
            status = Result<>();
        } else {
            error.code = code_from_wire(code);
            status = ros2s::fail(error);
        }
    }
};

}  // namespace ros2s::rpc
