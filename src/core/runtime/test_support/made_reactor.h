// A reactor for a test, a bench or a fuzzer.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "ros2s/runtime/os_reactor.h"

namespace ros2s {

// Ends the program if there is none.
inline std::unique_ptr<OsReactor> made_reactor(OsReactorOptions options = {}) {
    Report report;
    auto made = OsReactor::create(std::move(options), report);
    if (made) return std::move(*made);
    std::fprintf(stderr, "no reactor: %s\n", report.text().c_str());
    std::abort();
}

}  // namespace ros2s
