#include "scrape.h"

#include <gtest/gtest.h>

namespace ros2s::cli {
namespace {

TEST(MetricScrape, PasswordIsEncodedInHeader) {
    // base64 of "ros2store:", and of one and two more bytes.
    EXPECT_EQ(authorization(""), "Authorization: Basic cm9zMnN0b3JlOg==");
    EXPECT_EQ(authorization("a"), "Authorization: Basic cm9zMnN0b3JlOmE=");
    EXPECT_EQ(authorization("ab"), "Authorization: Basic cm9zMnN0b3JlOmFi");
}

TEST(MetricScrape, PageIsExtractedFromReply) {
    Report report;
    const auto page = page_in(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\na 1\n", report);
    ASSERT_TRUE(page) << report.text();
    EXPECT_EQ(*page, "a 1\n");
}

TEST(MetricScrape, ReplyWithoutPageIsRefused) {
    const auto refused = [](std::string_view reply, Code code, std::string_view sentence) {
        Report report;
        const auto page = page_in(reply, report);
        ASSERT_FALSE(page) << reply;
        EXPECT_EQ(page.error().code, code) << reply;
        EXPECT_EQ(report.text(), sentence) << reply;
    };
    for (const std::string_view reply :
         {"", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 200 OK\r\n", "HTTP/1.\r\n\r\n"}) {
        refused(reply, Code::corrupt, "its reply is not HTTP");
    }
    refused("HTTP/1.1 401 Unauthorized\r\n\r\n", Code::denied, "it refuses the password");
    refused("HTTP/1.1 404 Not Found\r\n\r\n", Code::corrupt, "it replies with HTTP status 404");
    refused("HTTP/1.1 200\r\nContent-Length: 5\r\n\r\na 1\n", Code::corrupt,
            "its reply is not complete");
    refused("HTTP/1.1 200\r\n\r\na 1\n", Code::corrupt, "its reply is not complete");
    refused("HTTP/1.1 200\r\nContent-Length: x\r\n\r\n", Code::corrupt,
            "its reply is not complete");
}

}  // namespace
}  // namespace ros2s::cli
