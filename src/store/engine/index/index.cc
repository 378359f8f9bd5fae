#include "index.h"

#include <algorithm>

namespace ros2s::engine {

namespace {
constexpr size_t chunk_bytes = 1024 * 1024;
}

void IndexBatch::put(std::string_view key, std::string_view value) {
    ROS2S_CHECK(value.size() <= index_value_bytes_max);
    add(key, value, static_cast<uint32_t>(value.size()));
}

void IndexBatch::erase(std::string_view key) { add(key, {}, erased); }

void IndexBatch::append(IndexBatch&& other) {
    for (auto& chunk : other.chunks_) chunks_.push_back(std::move(chunk));
    count_ += other.count_;
    bytes_ += other.bytes_;
    other = IndexBatch();
}

void IndexBatch::add(std::string_view key, std::string_view value, uint32_t value_bytes) {
    ROS2S_CHECK(!key.empty() && key.size() <= index_key_bytes_max);
    const Header header{static_cast<uint32_t>(key.size()), value_bytes};
    const size_t need = sizeof header + key.size() + value.size();
    if (chunks_.empty() || chunks_.back().size - chunks_.back().used < need) {
        // The first chunk is small: most batches of tests and of an idle pool are small.
        const size_t usual = chunks_.empty() ? chunk_bytes / 64 : chunk_bytes;
        const size_t size = std::max(need, usual);
        chunks_.push_back({std::make_unique_for_overwrite<char[]>(size), size, 0});
        bytes_ += size;
    }
    Chunk& chunk = chunks_.back();
    char* at = chunk.bytes.get() + chunk.used;
    at = std::copy_n(reinterpret_cast<const char*>(&header), sizeof header, at);
    at = std::copy(key.begin(), key.end(), at);
    std::copy(value.begin(), value.end(), at);
    chunk.used += need;
    ++count_;
}

}  // namespace ros2s::engine
