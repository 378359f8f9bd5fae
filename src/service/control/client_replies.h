// What the client's calls share: requests about a pool, and replies that are checked.
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "ros2s/base/result.h"
#include "ros2s/base/uuid.h"

namespace ros2s::control {

template <class Request>
Request of_pool(std::string pool) {
    Request request;
    request.set_pool(std::move(pool));
    return request;
}

template <size_t N>
bool read_bytes(const std::string& bytes, std::array<uint8_t, N>& into) {
    if (bytes.size() != N) return false;
    std::ranges::copy(bytes, into.begin());
    return true;
}

inline std::string bytes_of(const Uuid& uuid) {
    return {reinterpret_cast<const char*>(uuid.bytes.data()), uuid.bytes.size()};
}

// Replies are checked, too: the server may be a foreign one.
inline std::unexpected<Error> malformed(std::string_view what, Report& report) {
    return report.fail(Code::bad_version,
                       "the server's reply has no valid {}; use programs of one version", what);
}

}  // namespace ros2s::control
