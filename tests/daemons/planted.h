// Bytes that a tenant plants in its files, names and attributes. The tests search for them in
// everything that another tenant gets.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>

#include "ros2s/base/bytes.h"
#include "ros2s/base/random.h"

namespace ros2s::tests {

// A marker has 16 letters: 12 for the test, the others for the tenant. It can be used as a name.
class Plant {
  public:
    static constexpr size_t marker_bytes = 16;

    explicit Plant(std::string marker) : marker_(std::move(marker)) {
        EXPECT_EQ(marker_.size(), marker_bytes);
    }
    Plant(uint64_t seed, char tenant) {
        Random random(seed);
        for (size_t i = 0; i < of_test; ++i) {
            marker_ += static_cast<char>('A' + random.below(26));
        }
        marker_ += std::string(marker_bytes - of_test, tenant);
    }
    [[nodiscard]] const std::string& marker() const { return marker_; }
    void fill(Bytes memory) const {
        for (size_t at = 0; at < memory.size(); at += marker_bytes) {
            std::memcpy(&memory[at], marker_.data(), std::min(marker_bytes, memory.size() - at));
        }
    }
    // Describes a marker of another tenant in these bytes. Empty: there is none.
    [[nodiscard]] std::string others_in(ConstBytes bytes) const {
        const std::string_view text = as_text(bytes), test = common();
        for (size_t at = 0; (at = text.find(test, at)) != text.npos; at += of_test) {
            // A marker that ends before its tenant's letter does not count.
            if (at + of_test >= text.size() || text[at + of_test] == marker_[of_test]) continue;
            return fmt::format("byte {} of {}: {}", at, text.size(), text.substr(at, marker_bytes));
        }
        return {};
    }
    void expect_no_others(ConstBytes bytes, std::string_view where) const {
        EXPECT_EQ(others_in(bytes), "") << where << " that " << marker_ << " got";
    }
    void expect_no_others(std::string_view text, std::string_view where) const {
        expect_no_others(as_bytes(text), where);
    }

  private:
    static constexpr size_t of_test = 12;
    [[nodiscard]] std::string_view common() const {
        return std::string_view(marker_).substr(0, of_test);
    }
    std::string marker_;
};

}  // namespace ros2s::tests
