#include "name_cipher.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ros2s/cipher/aes_blocks.h"

namespace ros2s::cipher {
namespace {

constexpr std::string_view name_key_purpose = "ros2store name key, version 1";
constexpr int of_heads = 255;  // in place of a round's number
constexpr int rounds = 6;
using NameBlock = AesBlocks::Block;
constexpr size_t name_block_bytes = AesBlocks::block_bytes;

}  // namespace

struct NameCipher::Schedule {
    explicit Schedule(const SecretKey& data_key) : aes(data_key, name_key_purpose) {
        for (int number = 0; number < rounds; ++number) {
            auto& of_round = first[static_cast<size_t>(number)];
            for (size_t size = 0; size < of_round.size(); ++size) {
                of_round[size] = first_of(number, size);
            }
        }
    }
    [[nodiscard]] NameBlock first_of(int number, size_t key_size) const {
        NameBlock block{static_cast<std::byte>(number), static_cast<std::byte>(key_size)};
        aes.encrypt(block);
        return block;
    }
    // A CBC-MAC. The first block tells how long the rest is, so it is a pseudorandom function.
    [[nodiscard]] NameBlock mac(int number, size_t key_size, ConstBytes part) const {
        const bool is_known = number < rounds && key_size <= object::block_key_bytes_max;
        NameBlock chain =
            is_known ? first[static_cast<size_t>(number)][key_size] : first_of(number, key_size);
        for (; !part.empty(); part = part.subspan(std::min(part.size(), name_block_bytes))) {
            const size_t count = std::min(part.size(), name_block_bytes);
            for (size_t i = 0; i < count; ++i) chain[i] ^= part[i];
            aes.encrypt(chain);
        }
        return chain;
    }
    const AesBlocks aes;
    std::array<std::array<NameBlock, object::block_key_bytes_max + 1>, rounds> first;
};

NameCipher::NameCipher(const SecretKey& data_key)
    : schedule_(std::make_unique<Schedule>(data_key)) {}
NameCipher::~NameCipher() = default;

// Of an even round the second half, otherwise the first one.
void NameCipher::round(int number, std::string& key) {
    const size_t middle = key.size() / 2;
    const auto bytes = std::as_writable_bytes(std::span(key));
    const Bytes first = bytes.first(middle), second = bytes.subspan(middle);
    const Bytes changed = number % 2 == 0 ? second : first;
    const Bytes other = number % 2 == 0 ? first : second;
    NameBlock stream = schedule_->mac(number, key.size(), other);
    for (size_t at = 0; at < changed.size(); ++at) {
        if (at > 0 && at % name_block_bytes == 0) schedule_->aes.encrypt(stream);
        changed[at] ^= stream[at % name_block_bytes];
    }
}

std::string NameCipher::seal(std::string_view key) {
    std::string sealed(key);
    for (int number = 0; number < rounds; ++number) round(number, sealed);
    return sealed;
}

std::string NameCipher::open(std::string_view sealed) {
    std::string key(sealed);
    for (int number = rounds; number > 0;) round(--number, key);
    return key;
}

void NameCipher::turn(object::BlockHead& head, std::string_view sealed) {
    const NameBlock mask = schedule_->mac(of_heads, sealed.size(), as_bytes(sealed));
    uint32_t bits = 0;
    std::memcpy(&bits, mask.data(), sizeof bits);
    head.crc ^= bits;
}

}  // namespace ros2s::cipher
