// CellCache: cells from earlier fetches. A read whose cells are here fetches only the blocks. It
// compares the array's epoch, which comes with them: if the array has not changed, its cells have
// not either. The cache therefore needs no notice of updates.
//
// Used on one core. Bounded, by itself and together with others (CipherMemory). It drops the least
// recently used arrays first.
#pragma once
#include <list>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "ros2s/cipher/block_cipher.h"
#include "ros2s/cipher/cipher_memory.h"

namespace ros2s::cipher {

class CellCache {
  public:
    static constexpr size_t bytes_max_default = size_t{16} << 20;  // of 0.9 GiB of files

    static constexpr uint64_t blocks_max = 8192;  // of an array; cells of later blocks are not kept

    explicit CellCache(CipherMemory& memory, size_t bytes_max = bytes_max_default)
        : memory_(memory), bytes_max_(bytes_max) {}
    CellCache(const CellCache&) = delete;
    CellCache& operator=(const CellCache&) = delete;
    ~CellCache() { memory_.cells -= bytes_; }

    // Copies the cells of the blocks from `first` on, and returns the epoch of the array to which
    // they belong. Empty if some of them are not here.
    [[nodiscard]] std::optional<object::Epoch> find(object::ObjectId object,
                                                    const object::Dkey& dkey, uint64_t first,
                                                    std::span<Cell> cells);
    // Adds cells of blocks of this epoch. Drops cells of an older epoch.
    void add(object::ObjectId object, const object::Dkey& dkey, object::Epoch epoch, uint64_t first,
             std::span<const Cell> cells);
    [[nodiscard]] size_t bytes() const { return bytes_; }

  private:
    using Name = std::pair<object::ObjectId, object::Dkey>;
    struct Array {
        Name name;
        object::Epoch epoch{};
        std::vector<std::optional<Cell>> cells;
        [[nodiscard]] size_t bytes() const {
            return sizeof(Array) + cells.size() * sizeof(std::optional<Cell>);
        }
    };
    void count(const Array& array);
    void uncount(const Array& array);
    void drop(std::list<Array>::iterator array);

    CipherMemory& memory_;
    size_t bytes_max_;
    size_t bytes_ = 0;
    std::list<Array> arrays_;  // the last used first
    std::map<Name, std::list<Array>::iterator> by_name_;
};

}  // namespace ros2s::cipher
