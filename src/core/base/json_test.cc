#include "ros2s/base/json.h"

#include <gtest/gtest.h>

namespace ros2s {
namespace {

TEST(Json, NestedValuesAreWritten) {
    const Json value = Json::object({{"name", "a\"b\\c\n"},
                                     {"yes", true},
                                     {"n", -3},
                                     {"x", 1.5},
                                     {"none", Json()},
                                     {"list", Json::array({1, "two"})}});
    EXPECT_EQ(value.text(),
              R"({"name": "a\"b\\c\u000a", "yes": true, "n": -3, "x": 1.5, "none": null, )"
              R"("list": [1, "two"]})");
}

TEST(Json, InvalidUtf8BecomesSurrogates) {
    EXPECT_EQ(Json("gr\u00fc\u00df \U0001f600").text(), "\"gr\u00fc\u00df \U0001f600\"");
    EXPECT_EQ(Json("a\xff"
                   "b")
                  .text(),
              R"("a\udcffb")");
    EXPECT_EQ(Json("\xc0\x80").text(), R"("\udcc0\udc80")") << "overlong";
    EXPECT_EQ(Json("\xed\xa0\x80").text(), R"("\udced\udca0\udc80")") << "a surrogate itself";
    EXPECT_EQ(Json("\xe2\x82").text(), R"("\udce2\udc82")") << "cut short";
    EXPECT_EQ(Json("a\xff", NotUtf8::replaced).text(), R"("a\ufffd")");
}

}  // namespace
}  // namespace ros2s
