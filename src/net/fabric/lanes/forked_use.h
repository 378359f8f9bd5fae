// ForkedUse: one user of UCX or libfabric in this process. In a child that was forked while the
// parent had a user, the library cannot be used again: its thread is missing, and what it waits
// with belongs to both processes, so that a new user would disturb the parent.
//
// Owned by a domain. From any thread.
#pragma once
#include <string_view>

#include "ros2s/base/result.h"

namespace ros2s::fabric::lanes {

class ForkedUse {
  public:
    // "ucx+tcp", "ofi+verbs". Errors: unsupported.
    [[nodiscard]] static Result<> check(std::string_view provider, Report& report);

    explicit ForkedUse(std::string_view provider) noexcept;
    ForkedUse(const ForkedUse&) = delete;
    ForkedUse& operator=(const ForkedUse&) = delete;
    ~ForkedUse();

  private:
    const bool is_ucx_;
};

}  // namespace ros2s::fabric::lanes
