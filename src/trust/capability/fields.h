// The bytes of capability.h, field by field.
#pragma once
#include "capability.h"
#include "ros2s/base/fields.h"

namespace ros2s::capability {

inline constexpr uint32_t capability_magic = 0x43533252;  // "R2SC"
inline constexpr uint32_t request_magic = 0x57533252;     // "R2SW"
inline constexpr uint16_t version_value = 1;              // of both

inline constexpr auto capability_fields = [](auto& io, auto& c, auto& version) {
    io.known("magic", capability_magic);
    io("version", version);
    io("depth", c.depth);
    io("rights", c.use.rights.bits);
    io("directories", c.use.directories);
    io.length("tenant", c.tenant);
    io.length("container", c.use.container.text);
    io.known("reserved", uint8_t{0});
    io("id", c.id);
    io("audience", c.audience);
    io.bytes("issuer", c.issuer);
    io.bytes("holder", c.holder);
    io.bytes("parent", c.parent);
    io("not before", c.not_before);
    io("expires", c.expires);
    io("generation", c.generation);
    io.bytes("tenant", c.tenant);
    io.bytes("container", c.use.container.text);
};

inline constexpr auto request_fields = [](auto& io, auto& wanted, auto& version) {
    io.known("magic", request_magic);
    io("version", version);
    io("rights", wanted.use.rights.bits);
    io("directories", wanted.use.directories);
    io("audience", wanted.audience);
    io.bytes("holder", wanted.holder);
    io.length("container", wanted.use.container.text);
    io.bytes("container", wanted.use.container.text);
};

}  // namespace ros2s::capability
