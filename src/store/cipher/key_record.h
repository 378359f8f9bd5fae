// KeyRecord: the wrapped data keys of a container, in the container. docs/formats/cipher.md
// describes the bytes.
#pragma once
#include <string>
#include <vector>

#include "ros2s/base/uuid.h"
#include "ros2s/cipher/block_cipher.h"
#include "ros2s/object/object_store.h"

namespace ros2s::cipher {

// "CIP", and the version of this mapping. Other users of the container use another high word.
inline constexpr object::ObjectId key_object{.high = 0x43495001, .low = 0};
[[nodiscard]] inline object::Dkey key_dkey() { return {"."}; }
[[nodiscard]] inline object::Akey key_akey() { return {"keys"}; }

struct KeyRecord {
    static constexpr size_t versions_max = 64;
    static constexpr size_t bytes_max = 8192;

    struct Version {
        uint32_t version = 0;
        WrappedKey wrapped{};
        friend bool operator==(const Version&, const Version&) = default;
    };
    Uuid id;               // of the data key; part of what is authenticated with each block
    std::string wrapping;  // the provider's name of the wrapping key
    uint32_t current = 0;  // the version that encrypts
    Layout layout = Layout::cells;
    std::vector<Version> versions;  // ascending; `current` is one of them
    friend bool operator==(const KeyRecord&, const KeyRecord&) = default;
};
[[nodiscard]] std::string encode(const KeyRecord& record);
// Errors: corrupt, bad_version.
[[nodiscard]] Result<KeyRecord> decode_key_record(ConstBytes bytes);

}  // namespace ros2s::cipher
