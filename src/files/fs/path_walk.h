// For users of Namespace::walk(): paths whose last name must exist, and the references of a result.
#pragma once
#include "ros2s/fs/file_system.h"

namespace ros2s::fs {

// Runs the work of a call that has paths, and runs it again if a node was removed or replaced after
// its name was looked up (`stale`). Bounded, because other programs may go on with that.
template <class Work>
auto by_name(Work work) -> decltype(work()) {
    constexpr int attempts_max = 16;
    for (int attempt = 1;; ++attempt) {
        auto done = co_await work();
        if (done || done.error().code != Code::stale || attempt == attempts_max) co_return done;
    }
}

// The node that the path leads to; its reference is the caller's. Errors: those of walk();
// not_found also if only the last name is missing.
[[nodiscard]] Task<Result<Attributes>> resolve(Namespace& fs, const Call& call,
                                               std::string_view path,
                                               LastLink last = LastLink::follow);
// Returns the references that walk() added.
void forget(Namespace& fs, const Walked& walked);

}  // namespace ros2s::fs
