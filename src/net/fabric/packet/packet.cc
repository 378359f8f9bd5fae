#include "ros2s/fabric/packet/packet.h"

namespace ros2s::fabric {
// Fields that a type does not use are zero, so that a later version can use them.
bool makes_sense(const Packet& header) noexcept {
    using Type = Packet::Type;
    const uint8_t flags_known =
        header.type == Type::put ? Packet::flag_last | Packet::flag_answer : 0;
    if ((header.flags & ~flags_known) != 0) return false;
    if (header.result != 0 && header.type != Type::done) return false;
    switch (header.type) {
        case Type::message:
            return header.count == 0 && header.offset <= header.operation &&
                   header.length <= header.operation - header.offset &&
                   (header.length > 0 || header.operation == 0);
        case Type::put:
            return header.length >= sizeof(RemoteKey) &&
                   header.length - sizeof(RemoteKey) <= header.count;
        case Type::get: return header.length == sizeof(RemoteKey);
        case Type::got: return header.count == 0;
        case Type::done: return header.length == 0 && header.offset == 0 && header.count == 0;
        case Type::credit: return header.length == 0 && header.operation == 0 && header.offset == 0;
        case Type::granted:
            return header.length == sizeof(RemoteKey) && header.operation == 0 &&
                   header.offset == 0;
        case Type::revoke:
        case Type::revoked: return header.length == 0 && header.offset == 0;
        case Type::goodbye:
            return header.length == 0 && header.operation == 0 && header.offset == 0 &&
                   header.count == 0;
    }
    return false;
}

Result<PacketView> take_packet(ConstBytes& frame) {
    PacketView view;
    if (frame.size() < sizeof(Packet)) return fail(Code::corrupt);
    std::memcpy(&view.header, frame.data(), sizeof(Packet));
    frame = frame.subspan(sizeof(Packet));
    if (view.header.length > frame.size() || !makes_sense(view.header)) {
        return fail(Code::corrupt);
    }
    view.bytes = frame.first(view.header.length);
    frame = frame.subspan(view.header.length);
    if (view.header.type == Packet::Type::put || view.header.type == Packet::Type::get ||
        view.header.type == Packet::Type::granted) {
        std::memcpy(&view.key, view.bytes.data(), sizeof(RemoteKey));
        view.bytes = view.bytes.subspan(sizeof(RemoteKey));
    }
    return view;
}

}  // namespace ros2s::fabric
