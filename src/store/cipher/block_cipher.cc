#include "block_cipher.h"

#include <errno.h>

#include <algorithm>

#include "ros2s/base/check.h"

namespace ros2s::cipher {
namespace {

constexpr std::string_view block_key_purpose = "ros2store block key, version 1";

Nonce nonce_of(uint64_t counter) {
    Nonce nonce{};
    for (size_t i = 0; i < sizeof(counter); ++i) {
        nonce[nonce_bytes - 1 - i] = static_cast<std::byte>(counter >> (8 * i));
    }
    return nonce;
}

bool is_zero(ConstBytes bytes) {
    return bytes.empty() || (bytes[0] == std::byte{0} &&
                             std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

bool Cell::is_hole() const { return is_zero(object_bytes(*this)); }

BlockBinding::BlockBinding(const Uuid& key_id, object::ObjectId object, const object::Dkey& dkey,
                           const object::Akey& akey) {
    size_ = cell_bytes + sizeof(uint64_t);
    const auto add = [this](const void* data, size_t bytes) {
        if (bytes > 0) std::memcpy(bytes_.data() + size_, data, bytes);
        size_ += bytes;
    };
    add(key_id.bytes.data(), key_id.bytes.size());
    add(&object.high, sizeof(object.high));
    add(&object.low, sizeof(object.low));
    for (const std::string* key : {&dkey.bytes, &akey.bytes}) {
        ROS2S_CHECK(key->size() <= object::key_bytes_max);
        const auto length = static_cast<uint16_t>(key->size());
        add(&length, sizeof(length));
        add(key->data(), key->size());
    }
}

ConstBytes BlockBinding::of(const Cell& cell, uint64_t block) {
    constexpr size_t before_tag = offsetof(Cell, tag);
    std::memcpy(bytes_.data(), &cell, before_tag);
    std::memcpy(bytes_.data() + before_tag, &cell.reserved, sizeof(cell.reserved));
    std::memcpy(bytes_.data() + cell_bytes, &block, sizeof(block));
    return ConstBytes(bytes_).first(size_);
}

BlockCipher::BlockCipher(const Secrets& secrets, DataKeys keys, uint64_t salt_blocks)
    : secrets_(secrets), keys_(std::move(keys)), salt_blocks_(salt_blocks) {
    ROS2S_CHECK(keys_.versions.contains(keys_.current));
}

SecretKey BlockCipher::block_key(const SecretKey& data_key, const Salt& salt) const {
    SecretKey key;
    hkdf_sha256(data_key.bytes(), salt, as_bytes(block_key_purpose), key.bytes());
    return key;
}

void BlockCipher::begin_salt() {
    for (size_t at = 0; at < salt_.size(); at += sizeof(uint64_t)) {
        const uint64_t word = secrets_.next();
        std::memcpy(salt_.data() + at, &word, sizeof(word));
    }
    counter_ = 0;
    writer_.clear();
    writer_.emplace_back(block_key(keys_.versions.at(keys_.current), salt_));
}

void BlockCipher::seal(BlockBinding& binding, uint64_t block, ConstBytes plain, Bytes out,
                       Cell& cell) {
    ROS2S_CHECK(!plain.empty() && plain.size() <= block_bytes && out.size() == plain.size());
    if (writer_.empty() || counter_ == salt_blocks_) begin_salt();
    cell = {.format = Cell::format_known,
            .suite = Cell::suite_known,
            .length = static_cast<uint16_t>(plain.size()),
            .key_version = keys_.current,
            .counter = counter_++,
            .salt = salt_};
    writer_[0].seal(nonce_of(cell.counter), binding.of(cell, block), plain, out, cell.tag);
}

Result<> BlockCipher::open(BlockBinding& binding, uint64_t block, const Cell& cell,
                           ConstBytes stored, Bytes out) {
    ROS2S_CHECK(stored.size() <= block_bytes && out.size() == stored.size());
    const auto refused = [&out](const std::unexpected<Error>& error) -> Result<> {
        std::ranges::fill(out, std::byte{0});
        return error;
    };
    if (cell.is_hole()) {
        if (!is_zero(stored)) return refused(fail(Code::corrupt));
        std::ranges::fill(out, std::byte{0});
        return {};
    }
    if (cell.format != Cell::format_known) return refused(fail(Code::bad_version, cell.format));
    if (cell.suite != Cell::suite_known) return refused(fail(Code::bad_version, cell.suite));
    const size_t length = cell.length;
    if (length == 0 || length > stored.size() || !is_zero(stored.subspan(length))) {
        return refused(fail(Code::corrupt));
    }
    Gcm* const gcm = reader(cell.key_version, cell.salt);
    if (gcm == nullptr) return refused(fail_errno(EKEYREJECTED));
    const bool good = gcm->open(nonce_of(cell.counter), binding.of(cell, block),
                                stored.first(length), out.first(length), cell.tag);
    if (!good) return refused(fail(Code::corrupt));
    std::ranges::fill(out.subspan(length), std::byte{0});
    return {};
}

Gcm* BlockCipher::reader(uint32_t version, const Salt& salt) {
    const ReaderName name{version, salt};
    if (const auto known = readers_.find(name); known != readers_.end()) {
        recent_.splice(recent_.begin(), recent_, known->second);
        return &recent_.front().gcm;
    }
    const auto data_key = keys_.versions.find(version);
    if (data_key == keys_.versions.end()) return nullptr;
    if (recent_.size() == readers_max) {
        readers_.erase(recent_.back().name);
        recent_.pop_back();
    }
    recent_.push_front({.name = name, .gcm = Gcm(block_key(data_key->second, salt))});
    readers_.emplace(name, recent_.begin());
    return &recent_.front().gcm;
}

}  // namespace ros2s::cipher
