// Capability: a signed statement of an engine, or of a tenant that hands a part of its own on: who
// holds `holder`'s private key may use these containers of a pool, for the tenant, until then. It
// is not a password: it is useless without the holder's signature (chain.h).
//
//     engine ─ signs ─► capability of a tenant's program ─ signs ─► capability of a DPU
//                       depth 1                                     depth 2
//
// The bytes are in docs/formats/capability.md. There is one encoding of each capability. Plain
// values; any thread; no cryptography here.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "ros2s/base/result.h"
#include "ros2s/base/uuid.h"
#include "ros2s/rights/grants/grant.h"
#include "ros2s/runtime/time.h"

namespace ros2s::capability {

using PublicKey = std::array<uint8_t, 32>;  // Ed25519
using Hash = std::array<uint8_t, 32>;       // SHA-256
inline constexpr size_t signature_bytes = 64;
inline constexpr size_t tenant_bytes_max = 127;
inline constexpr size_t container_bytes_max = 128;
inline constexpr size_t capability_bytes_max =
    164 + tenant_bytes_max + container_bytes_max + signature_bytes;
inline constexpr uint8_t depth_max = 2;
// For an issuer's clock that is set back a little.
inline constexpr Duration clock_slack = std::chrono::seconds(10);
inline constexpr Duration life_max = std::chrono::hours(1);

// The rights that a capability gives, and on what.
struct Use {
    rights::Rights rights;
    // Only the directories of the container that the tenant's record names. An engine cannot check
    // the place of an object, so it accepts this from DPUs only, which can.
    bool directories = false;
    rights::ContainerPattern container;

    // True if `other` is this, or less.
    [[nodiscard]] bool covers(const Use& other) const {
        return rights.has(other.rights) && (other.directories || !directories) &&
               container.includes(other.container);
    }
    // For people: "read, write directories of run-*".
    [[nodiscard]] std::string text() const;
    friend bool operator==(const Use&, const Use&) = default;
};

struct Capability {
    uint8_t depth = 1;
    Use use;
    std::string tenant;
    Uuid id;
    Uuid audience;       // the pool
    PublicKey issuer{};  // signs this
    PublicKey holder{};
    Hash parent{};  // of the capability of depth 1 that this one narrows; zeros: there is none
    WallTime not_before{}, expires{};
    [[nodiscard]] bool is_in_time(WallTime now) const { return not_before <= now && now < expires; }
    uint64_t generation = 0;  // the tenant's, when it was issued

    friend bool operator==(const Capability&, const Capability&) = default;
};

// Without the signature, which the issuer's key makes of these bytes.
[[nodiscard]] std::string encode(const Capability& capability);
// With a signature, which it does not check. No time is before 1970. Errors: invalid (it is not
// what encode() makes), bad_version.
[[nodiscard]] Result<Capability> decode(std::string_view bytes);
[[nodiscard]] inline std::string_view signed_part(std::string_view bytes) {
    return bytes.substr(0, bytes.size() - signature_bytes);
}
[[nodiscard]] inline std::string_view signature_part(std::string_view bytes) {
    return bytes.substr(bytes.size() - signature_bytes);
}

// A program's request to an engine for a capability, with the signature of its certificate's key.
struct CapabilityRequest {
    Use use;
    Uuid audience;
    PublicKey holder{};
    friend bool operator==(const CapabilityRequest&, const CapabilityRequest&) = default;
};
[[nodiscard]] std::string encode(const CapabilityRequest& wanted);
// Errors: as of decode().
[[nodiscard]] Result<CapabilityRequest> decode_request(std::string_view bytes);

}  // namespace ros2s::capability
