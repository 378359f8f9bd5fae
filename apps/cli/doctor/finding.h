// Finding: one thing that doctor checked, and what to do about it.
#pragma once
#include <cstdint>
#include <string>

namespace ros2s::cli {

enum class Grade : uint8_t {
    good,
    absent,   // not available, and only needed by some users
    slower,   // works, but less fast or less safe; or will stop working soon
    missing,  // something needed is missing
    wrong,    // it exists, and does not work
};

struct Finding {
    std::string what;
    Grade grade = Grade::good;
    std::string found;
    std::string remedy;  // a command or a sentence; empty when good
};

}  // namespace ros2s::cli
