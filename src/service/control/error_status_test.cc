// Every error arrives unchanged.
#include "error_status.h"

#include <gtest/gtest.h>

#include <set>

namespace ros2s::control {
namespace {

constexpr int codes = static_cast<int>(Code::expired) + 1;

TEST(ErrorStatus, EveryErrorRoundTrips) {
    std::set<grpc::StatusCode> used;
    for (int i = 0; i < codes; ++i) {
        const Error error{static_cast<Code>(i), i * 3, 1'000'000'000'000ULL + i};
        const grpc::Status status = to_status(error, "the sentence");
        EXPECT_FALSE(status.ok());
        EXPECT_EQ(status.error_message(), "the sentence");
        used.insert(status.error_code());
        Report report;
        EXPECT_EQ(to_error(status, report), error) << describe(error.code);
        EXPECT_EQ(report.text(), "the sentence");
    }
    EXPECT_GT(used.size(), 10u) << "generic clients see what it is like, too";
}

TEST(ErrorStatus, NegativeErrnoIsDropped) {
    Report report;
    const Error sent{.code = Code::denied, .os_errno = -5, .detail = 7};
    EXPECT_EQ(to_error(to_status(sent, ""), report), (Error{Code::denied, 0, 7}));
}

TEST(ErrorStatus, MissingTextIsReplacedByDescription) {
    EXPECT_EQ(to_status({Code::not_empty}, "").error_message(), "the directory is not empty");
}

TEST(ErrorStatus, GrpcStatusMapsToNearestCode) {
    Report report;
    EXPECT_EQ(to_error({grpc::StatusCode::UNAVAILABLE, "no route"}, report).code,
              Code::disconnected);
    EXPECT_EQ(report.text(), "no route");
    EXPECT_EQ(to_error({grpc::StatusCode::UNIMPLEMENTED, ""}, report).code, Code::unsupported);
    EXPECT_EQ(to_error({grpc::StatusCode::UNKNOWN, ""}, report).code, Code::io);
}

TEST(ErrorStatus, GarbageDetailsAreIgnored) {
    Report report;
    for (const std::string& details :
         {std::string("\xff\xff\xff garbage"), std::string(4096, 'x')}) {
        const grpc::Status status(grpc::StatusCode::DATA_LOSS, "m", details);
        EXPECT_EQ(to_error(status, report).code, Code::corrupt);
    }
}

}  // namespace
}  // namespace ros2s::control
