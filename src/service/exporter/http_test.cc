#include "http.h"

#include <gtest/gtest.h>

namespace ros2s::exporter {
namespace {

TEST(MetricsHttp, OnlyMetricsGetWithPasswordIsAnswered) {
    // base64 of any:secret, other:secret, any:wrong, any:secre, secret, any:, any:a:b
    constexpr std::string_view right = "Authorization: Basic YW55OnNlY3JldA==\r\n\r\n";
    const auto verdict = [](std::string_view line, std::string_view fields,
                            std::string_view password = "secret") {
        return verdict_on(std::string(line) + "\r\nHost: here:9400\r\n" + std::string(fields),
                          password);
    };
    EXPECT_EQ(verdict("GET /metrics HTTP/1.1", right), Verdict::metrics);
    EXPECT_EQ(verdict("GET /metrics?collect=all HTTP/1.1", right), Verdict::metrics);
    EXPECT_EQ(verdict("GET /metrics HTTP/1.0",
                      "authorization:basic   b3RoZXI6c2VjcmV0  \r\nAccept: x\r\n\r\n"),
              Verdict::metrics);
    EXPECT_EQ(verdict("GET /metrics HTTP/1.1", "Authorization: Basic YW55OmE6Yg==\r\n\r\n", "a:b"),
              Verdict::metrics);
    EXPECT_EQ(verdict("GET /traces HTTP/1.1", right), Verdict::traces);
    EXPECT_EQ(verdict("GET /traces HTTP/1.1", "\r\n"), Verdict::unknown_password);
    EXPECT_EQ(verdict("GET / HTTP/1.1", right), Verdict::other_path);
    EXPECT_EQ(verdict("GET /metricsx HTTP/1.1", right), Verdict::other_path);
    EXPECT_EQ(verdict("POST /metrics HTTP/1.1", right), Verdict::other_method);
    EXPECT_EQ(verdict("", ""), Verdict::other_method);
    for (const char* field :
         {"", "Authorization: Basic YW55Ondyb25n", "Authorization: Basic YW55OnNlY3Jl",
          "Authorization: Basic c2VjcmV0", "Authorization: Basic YW55Og==", "Authorization: Basic ",
          "Authorization:", "Authorization: Bearer YW55OnNlY3JldA==",
          "X-Authorization: Basic YW55OnNlY3JldA==", "Authorization: Basic =YW55OnNlY3JldA=="}) {
        EXPECT_EQ(verdict("GET /metrics HTTP/1.1", std::string(field) + "\r\n\r\n"),
                  Verdict::unknown_password)
            << field;
    }
    EXPECT_EQ(verdict("GET /metrics HTTP/1.1", "Authorization: Basic YW55Og==\r\n\r\n", ""),
              Verdict::unknown_password)
        << "no password is no permission";
}

TEST(MetricsHttp, ReplyStatesItsLength) {
    EXPECT_EQ(http_reply("404 Not Found", "text/plain", "A: b\r\n", "no\n"),
              "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n"
              "Connection: close\r\nA: b\r\n\r\nno\n");
}

}  // namespace
}  // namespace ros2s::exporter
