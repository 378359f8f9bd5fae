#include "ros2s/runtime/bounded_end.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace ros2s {
namespace {

TEST(BoundedEnd, ProgramThatDoesNotEndIsEnded) {
    const auto hang = [] {
        prepare_bounded_end("a program");
        begin_bounded_end();
        for (;;) ::pause();
    };
    EXPECT_EXIT(hang(), testing::ExitedWithCode(exit_interrupted), "^a program: interrupted");
}

TEST(BoundedEnd, ProgramThatGoesOnIsNotEnded) {
    const auto go_on = [] {
        prepare_bounded_end("a program");
        begin_bounded_end();
        cancel_bounded_end();
        ::sleep(1);
        ::_exit(0);
    };
    EXPECT_EXIT(go_on(), testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace ros2s
