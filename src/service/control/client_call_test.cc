#include "client_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ros2s::control {
namespace {

using testing::HasSubstr;

TEST(UnansweredCall, GrpcErrorIsExplained) {
    const std::pair<const char*, const char*> cases[] = {
        {"failed to connect to all addresses; last error: UNKNOWN: Ssl handshake failed", "TLS"},
        {"last error: UNKNOWN: ipv4:10.0.0.1:7400: Handshake read failed", "the daemon hangs, or"},
        {"connection attempt timed out before receiving SETTINGS frame", "the daemon hangs, or"},
        {"last error: UNKNOWN: unix:/x: Connection refused", "nothing listens there"},
        {"last error: UNKNOWN: ipv4:10.0.0.1:7400: Network is unreachable", "no route to it"},
        {"last error: UNKNOWN: unix:/x: Permission denied", "this user may not use"},
        {"DNS resolution failed for nowhere:7400", "its host name is unknown"},
        {"Socket closed", "the connection ended"},
        {"something new", "something new: check that it runs"},
    };
    for (const auto& [text, says] : cases)
        EXPECT_THAT(why_unanswered(text), HasSubstr(says)) << text;
}

}  // namespace
}  // namespace ros2s::control
