// Waiting for a container that an exclusive mount had, and has left: the store may not know that
// yet.
#pragma once
#include <type_traits>
#include <utility>

#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::fs {

// Asks until `is_taken` says no of the answer, or it was asked for long enough.
template <class Ask, class IsTaken>
auto when_free(const Call& call, Reactor& reactor, Ask ask, IsTaken is_taken)
    -> std::invoke_result_t<Ask> {
    // The store notices the end of a process on its machine within a second. After a restart it
    // waits longer for who had the container, and says that.
    constexpr Duration freed_within = std::chrono::seconds(2);
    constexpr Duration claimed_within = std::chrono::seconds(6);
    constexpr Duration asked_every = std::chrono::milliseconds(100);
    const Time begun = reactor.now();
    for (;;) {
        auto done = co_await ask();
        const bool is_restarted = !done && done.error().detail != 0;
        const Duration patience = is_restarted ? claimed_within : freed_within;
        if (!is_taken(done) || reactor.now() >= begun + patience) co_return done;
        co_await sleep_for(reactor, asked_every, call.stop);
    }
}
// The same for a request that fails with `busy`.
template <class Ask>
auto when_free(const Call& call, Reactor& reactor, Ask ask) -> std::invoke_result_t<Ask> {
    return when_free(call, reactor, ask,
                     [](const auto& done) { return !done && done.error().code == Code::busy; });
}

}  // namespace ros2s::fs
