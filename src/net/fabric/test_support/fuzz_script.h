// FuzzScript reads the input of a fuzzer as a script. It takes values from the bytes, and zeros
// after their end.
#pragma once
#include <algorithm>
#include <cstring>

#include "ros2s/base/bytes.h"

namespace ros2s::fabric {

class FuzzScript {
  public:
    explicit FuzzScript(ConstBytes bytes) : rest_(bytes) {}
    [[nodiscard]] bool over() const { return rest_.empty(); }
    template <class T>
    T take() {
        T value{};
        const ConstBytes from = bytes(sizeof value);
        if (!from.empty()) std::memcpy(static_cast<void*>(&value), from.data(), from.size());
        return value;
    }
    ConstBytes bytes(size_t most) {
        const ConstBytes taken = rest_.first(std::min(most, rest_.size()));
        rest_ = rest_.subspan(taken.size());
        return taken;
    }

  private:
    ConstBytes rest_;
};

}  // namespace ros2s::fabric
