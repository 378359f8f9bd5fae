// BlockCipher: encrypts and decrypts the 4 KiB blocks of arrays of one container. A sealed block is
// as long as the plain one. Its Cell, which is stored beside it, has the values for opening it.
// docs/formats/cipher.md describes both.
//
// Nonces: every BlockCipher draws a salt of 128 bits when it seals the first block, and a new one
// after 2^32 blocks. The key of a block is HKDF(data key, salt), the nonce is a counter from 0. The
// counter exists only in memory, so restoring a disk never repeats a nonce.
//
// Authenticated with each block: its cell, the data key's id, object, dkey, akey, and the number of
// the block. A block at another position, or with a changed cell, does not open. An older version
// of the same block with its cell does open, and so does a hole.
//
// Owned by the store that uses it; used on one core. Nothing suspends.
#pragma once
#include <list>
#include <map>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/base/uuid.h"
#include "ros2s/cipher/gcm.h"
#include "ros2s/object/vocabulary.h"

namespace ros2s::cipher {

// The header and tag of one block. All zeros: the block is a hole.
struct Cell {
    static constexpr uint8_t format_known = 1;
    static constexpr uint8_t suite_known = 1;  // AES-256-GCM, keys by HKDF-SHA256

    uint8_t format = 0;
    uint8_t suite = 0;
    uint16_t length = 0;  // sealed bytes of the block, 1 to block_bytes; the others are zeros
    uint32_t key_version = 0;
    uint64_t counter = 0;
    std::array<std::byte, 16> salt{};
    Tag tag{};
    std::array<std::byte, 16> reserved{};

    [[nodiscard]] bool is_hole() const;
};
static_assert(sizeof(Cell) == 64 && block_bytes % sizeof(Cell) == 0);

// The location of a container's cells.
enum class Layout : uint8_t {
    cells,  // in an array beside the data
    seals,  // in the store, with each block (object/vocabulary.h): all but the reserved bytes
};
static_assert(offsetof(Cell, reserved) == object::seal_bytes);

// The data keys of a container: the `versions` that open blocks, and the `current` one that seals
// them.
struct DataKeys {
    Uuid id;
    uint32_t current = 0;
    std::map<uint32_t, SecretKey> versions;
    Layout layout = Layout::cells;
};

// Binds a block to its array. One per array and request.
class BlockBinding {
  public:
    BlockBinding(const Uuid& key_id, object::ObjectId object, const object::Dkey& dkey,
                 const object::Akey& akey);

  private:
    friend class BlockCipher;
    static constexpr size_t cell_bytes = sizeof(Cell) - tag_bytes;
    // The cell without its tag, the block number, then the constructor's part.
    [[nodiscard]] ConstBytes of(const Cell& cell, uint64_t block);
    std::array<std::byte, cell_bytes + 8 + 16 + 16 + 4 + 2 * object::key_bytes_max> bytes_;
    size_t size_ = 0;
};

class BlockCipher {
  public:
    static constexpr uint64_t blocks_per_salt = uint64_t{1} << 32;
    static constexpr size_t readers_max = 256;  // block keys that are kept ready

    BlockCipher(const Secrets& secrets, DataKeys keys, uint64_t salt_blocks = blocks_per_salt);
    BlockCipher& operator=(BlockCipher&&) = delete;

    [[nodiscard]] const Uuid& key_id() const { return keys_.id; }
    // `plain` and `out` have the same size, 1 to block_bytes. They do not overlap.
    void seal(BlockBinding& binding, uint64_t block, ConstBytes plain, Bytes out, Cell& cell);
    // `stored` is the part of the block that the store has. `out` has the same size; it is the same
    // memory, or does not overlap. Fills `out` with the plain bytes, and with zeros for a hole and
    // after the sealed bytes. After an error `out` is zeros. Errors: corrupt; bad_version (a format
    // or suite of a later release; detail); EKEYREJECTED (the container's record lacks this version
    // of the data key).
    [[nodiscard]] Result<> open(BlockBinding& binding, uint64_t block, const Cell& cell,
                                ConstBytes stored, Bytes out);

  private:
    using Salt = std::array<std::byte, 16>;
    using ReaderName = std::pair<uint32_t, Salt>;  // version of the data key, salt
    struct Reader {
        ReaderName name;
        Gcm gcm;
    };

    [[nodiscard]] SecretKey block_key(const SecretKey& data_key, const Salt& salt) const;
    // Null: the data key's version is unknown.
    [[nodiscard]] Gcm* reader(uint32_t version, const Salt& salt);
    void begin_salt();

    const Secrets& secrets_;
    DataKeys keys_;
    uint64_t salt_blocks_;
    Salt salt_{};
    uint64_t counter_ = 0;
    std::vector<Gcm> writer_;   // one, or none before the first block
    std::list<Reader> recent_;  // the last used first
    std::map<ReaderName, std::list<Reader>::iterator> readers_;
};

}  // namespace ros2s::cipher
