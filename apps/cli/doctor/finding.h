// Finding: one thing that doctor looked at, and what to do about it.
#pragma once
#include <cstdint>
#include <string>

namespace ros2s::cli {

enum class Grade : uint8_t {
    good,
    absent,   // not here, and not needed unless one wants it
    slower,   // works, at a cost in speed or safety; or will not for long
    missing,  // what is needed is not here
    wrong,    // it is here, and does not do
};

struct Finding {
    std::string what;
    Grade grade = Grade::good;
    std::string found;
    std::string remedy;  // a command or a sentence; empty when good
};

}  // namespace ros2s::cli
