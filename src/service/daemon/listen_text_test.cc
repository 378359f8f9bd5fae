#include "listen_text.h"

#include <gtest/gtest.h>

namespace ros2s::daemon {
namespace {

TEST(ListenText, ListenSettingIsParsed) {
    Report report;
    EXPECT_EQ(parse_listen("shm /run/x , ucx+tcp 127.0.0.1:1,", "x", report),
              Result<std::vector<Listen>>({{"shm", "/run/x"}, {"ucx+tcp", "127.0.0.1:1"}}));
    EXPECT_EQ(parse_listen("ofi+tcp;ofi_rxm 127.0.0.1:1, shm /run/x", "x", report),
              Result<std::vector<Listen>>({{"ofi+tcp;ofi_rxm", "127.0.0.1:1"}, {"shm", "/run/x"}}));
    for (const std::string_view wrong : {"", "tcp 1.2.3.4:5", "shm", "shm @data"}) {
        Report why;
        const auto refused = parse_listen(wrong, "'data: listen'", why);
        ASSERT_FALSE(refused) << wrong;
        EXPECT_EQ(refused.error().code, Code::invalid);
        EXPECT_TRUE(why.text().starts_with("'data: listen'")) << why.text();
    }
}

}  // namespace
}  // namespace ros2s::daemon
