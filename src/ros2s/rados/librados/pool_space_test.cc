#include "pool_space.h"

#include <gtest/gtest.h>

namespace ros2s::rados {
namespace {

using object::PoolSpace;

std::string answer(std::string_view total, std::string_view pools) {
    return R"({"stats":{"total_bytes":)" + std::string(total) + R"(},"pools":[)" +
           std::string(pools) + "]}";
}
std::string pool(std::string_view name, std::string_view stored, std::string_view free,
                 std::string_view quota) {
    return R"({"name":")" + std::string(name) + R"(","id":1,"stats":{"stored":)" +
           std::string(stored) + R"(,"bytes_used":99,"percent_used":0.1,"max_avail":)" +
           std::string(free) + R"(,"quota_objects":0,"quota_bytes":)" + std::string(quota) + "}}";
}

TEST(RadosPoolSpace, IsWhatFitsIntoThePool) {
    const std::string two = pool("other", "7", "7", "0") + "," + pool("data", "10", "90", "0");
    EXPECT_EQ(parse_space(answer("1000", two), "data"), Result<PoolSpace>({100, 90}));
    EXPECT_EQ(parse_space(answer("1000", two), "absent").error().code, Code::not_found);
    // A quota, used in part, as a whole and beyond.
    for (const auto& [quota, free] : {std::pair("50", 40U), {"10", 0U}, {"5", 0U}, {"500", 90U}}) {
        EXPECT_EQ(parse_space(answer("1000", pool("data", "10", "90", quota)), "data"),
                  Result<PoolSpace>({10 + free, free}))
            << quota;
    }
}

TEST(RadosPoolSpace, IsUnknownWithoutAManager) {
    const auto space = parse_space(answer("0", pool("data", "0", "0", "0")), "data");
    EXPECT_EQ(space, Result<PoolSpace>({uint64_t{1} << 50, uint64_t{1} << 50}));
}

TEST(RadosPoolSpace, OtherAnswersAreCorrupt) {
    const std::string whole = answer("1000", pool("data", "10", "90", "0"));
    for (const std::string& text :
         {std::string(), std::string("[]"), std::string("{}"), std::string("{"), std::string("x"),
          whole.substr(0, whole.size() / 2), answer("-1", ""), answer("1", "3"),
          answer("1", R"({"name":"data"})"), answer("1", pool("data", "many", "1", "0"))}) {
        EXPECT_EQ(parse_space(text, "data").error().code, Code::corrupt) << text;
    }
}

}  // namespace
}  // namespace ros2s::rados
