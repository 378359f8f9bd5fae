// The memory option holds for an index ten times its size, while it is written, compacted, read at
// random and listed; by RocksDB's own count, and by the kernel's count for the process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "rocksdb_index.h"
#include "ros2s/base/random.h"

namespace ros2s::engine {
namespace {

uint64_t resident_bytes() {
    uint64_t all = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

constexpr uint64_t budget = 8 * 1024 * 1024;
constexpr size_t value_bytes = 3 * 1024;
constexpr uint64_t values = 10 * budget / value_bytes;

std::string key_of(uint64_t n) {
    Random random(n);
    return "\1" + std::to_string(random.next()) + std::to_string(n);
}
std::string value_of(uint64_t n) {
    Random random(n);
    std::string value(value_bytes, '\0');
    for (auto& c : value) c = static_cast<char>(random.next());
    return value;
}

class Peak {
  public:
    explicit Peak(const Index& index) : index_(index), resident_before_(resident_bytes()) {}
    void look() {
        counted_ = std::max(counted_, index_.memory_bytes());
        resident_ = std::max(resident_, resident_bytes());
    }
    uint64_t counted() const { return counted_; }
    uint64_t resident() const { return resident_ - std::min(resident_, resident_before_); }

  private:
    const Index& index_;
    const uint64_t resident_before_;
    uint64_t counted_ = 0, resident_ = 0;
};

TEST(RocksDbMemory, LargeIndexStaysWithinTheBudget) {
    auto directory = (std::filesystem::temp_directory_path() / "ros2store-memory-XXXXXX").string();
    ASSERT_NE(mkdtemp(directory.data()), nullptr);
    Report report;
    auto made = create_rocksdb_index(directory + "/index", {.memory_bytes = budget}, report);
    ASSERT_TRUE(made) << report.text();
    Index& index = **made;
    Peak peak(index);
    for (uint64_t n = 0; n < values;) {
        IndexBatch batch;
        batch.put(std::string(1, '\0'), std::to_string(n));
        for (int i = 0; i < 300 && n < values; ++i, ++n) batch.put(key_of(n), value_of(n));
        ASSERT_TRUE(index.apply(std::move(batch)));
        peak.look();
        ASSERT_TRUE(index.flush());
    }
    EXPECT_GE(index.disk_bytes(), 10 * budget);
    Random random(1);
    for (int i = 0; i < 20'000; ++i) {
        const uint64_t n = random.below(values);
        const auto value = index.get(key_of(n));
        ASSERT_TRUE(value);
        if (i % 100 == 0) {
            ASSERT_EQ(*value, value_of(n));
            peak.look();
        }
    }
    uint64_t listed = 0;
    for (IndexScan scan{.limit = 100};;) {
        const auto page = index.scan(scan);
        ASSERT_TRUE(page);
        listed += page->entries.size();
        peak.look();
        if (!page->more) break;
        scan.from = page->entries.back().key + '\0';
    }
    EXPECT_EQ(listed, values + 1);
    RecordProperty("counted_peak", static_cast<int>(peak.counted()));
    RecordProperty("resident_peak", static_cast<int>(peak.resident()));
    EXPECT_LE(peak.counted(), budget);
#ifndef ROS2S_SANITIZED
    // The allocator's slack, threads, file buffers of one flush and one compaction (1 MiB each).
    EXPECT_LE(peak.resident(), budget + 16 * 1024 * 1024);
#endif
    ASSERT_TRUE(index.close());
    std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace ros2s::engine
