#include "cipher_memory.h"

#include <algorithm>

namespace ros2s::cipher {

std::optional<object::Epoch> CellCache::find(object::ObjectId object, const object::Dkey& dkey,
                                             uint64_t first, std::span<Cell> cells) {
    const auto known = by_name_.find({object, dkey});
    if (known == by_name_.end()) return std::nullopt;
    const Array& array = *known->second;
    if (first > array.cells.size() || cells.size() > array.cells.size() - first) {
        return std::nullopt;
    }
    const auto wanted = std::span(array.cells).subspan(first, cells.size());
    if (!std::ranges::all_of(wanted, &std::optional<Cell>::has_value)) return std::nullopt;
    std::ranges::transform(wanted, cells.begin(),
                           [](const std::optional<Cell>& cell) { return *cell; });
    arrays_.splice(arrays_.begin(), arrays_, known->second);
    return array.epoch;
}

void CellCache::add(object::ObjectId object, const object::Dkey& dkey, object::Epoch epoch,
                    uint64_t first, std::span<const Cell> cells) {
    if (cells.empty() || first + cells.size() > blocks_max) return;
    const Name name{object, dkey};
    const auto known = by_name_.find(name);
    if (known == by_name_.end()) {
        arrays_.push_front({.name = name, .epoch = epoch});
        by_name_.emplace(name, arrays_.begin());
        count(arrays_.front());
    } else {
        arrays_.splice(arrays_.begin(), arrays_, known->second);
    }
    Array& array = arrays_.front();
    if (epoch < array.epoch) return;  // a fetch that began earlier ends later
    uncount(array);
    if (array.epoch < epoch) array.cells.clear();
    array.epoch = epoch;
    if (array.cells.size() < first + cells.size()) array.cells.resize(first + cells.size());
    std::ranges::copy(cells, array.cells.begin() + static_cast<ptrdiff_t>(first));
    count(array);
    while (bytes_ > bytes_max_ || (bytes_ > 0 && memory_.cells > CipherMemory::cells_max)) {
        drop(std::prev(arrays_.end()));
    }
}

void CellCache::count(const Array& array) {
    bytes_ += array.bytes();
    memory_.cells += array.bytes();
}

void CellCache::uncount(const Array& array) {
    bytes_ -= array.bytes();
    memory_.cells -= array.bytes();
}

void CellCache::drop(std::list<Array>::iterator array) {
    uncount(*array);
    by_name_.erase(array->name);
    arrays_.erase(array);
}

}  // namespace ros2s::cipher
