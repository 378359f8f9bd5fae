#include "check.h"

#include <cstdio>
#include <cstdlib>

namespace ros2s {
void check_failed(const char* expression, const char* file, int line) noexcept {
    std::fprintf(stderr, "%s:%d: CHECK failed: %s\nThis is a bug in ros2store; please report it.\n",
                 file, line, expression);
    std::abort();
}
}  // namespace ros2s
