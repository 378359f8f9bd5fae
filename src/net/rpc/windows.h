// Windows: the memory that one request grants to the server until it ends. If the provider cannot
// expose the caller's memory, Staging replaces it.
//
// Invariants: grants cover exactly the request's bytes, source ranges to be read, sink ranges to be
// written. revoke() precedes any further use of the memory. free() follows the last access to it.
#pragma once
#include <deque>
#include <span>

#include "ros2s/base/inline_vector.h"
#include "ros2s/fabric/endpoint.h"
#include "ros2s/rpc/frame.h"
#include "ros2s/rpc/rpc_metrics.h"
#include "ros2s/runtime/slices.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::rpc {

// Of all pieces together.
template <class Pieces>
uint64_t bytes_of(const Pieces& pieces) {
    uint64_t bytes = 0;
    for (const auto& piece : pieces) bytes += piece.size();
    return bytes;
}

// Memory of one endpoint that can be granted, first come, first served.
class Staging {
  public:
    Staging(Reactor& reactor, fabric::Endpoint& endpoint)
        : endpoint_(endpoint), changed_(endpoint.memory_event()), copying_(reactor) {}
    // Suspends while other requests have it. Errors: no_memory (more than there is), disconnected,
    // cancelled.
    Task<Result<Bytes>> take(uint64_t size, StopToken stop);
    void give(Bytes memory) noexcept;
    // Of requests and replies: the server begins with the first request while the next one is
    // copied.
    [[nodiscard]] SliceTurns& copying() noexcept { return copying_; }
    // The connection has ended, or is about to end: all waits end.
    void end() noexcept {
        ended_ = true;
        changed_.wake_all();
    }

  private:
    fabric::Endpoint& endpoint_;
    Event& changed_;  // woken by the endpoint, too
    SliceTurns copying_;
    size_t taken_ = 0;
    bool ended_ = false;
    std::deque<const StopToken*> queue_;  // the waiting requests, each by its own token
};

class Windows {
  public:
    Windows(fabric::Endpoint& endpoint, Staging& staging, ChannelMetrics& metrics)
        : endpoint_(endpoint), staging_(staging), metrics_(metrics) {}
    Windows& operator=(Windows&&) = delete;
    ~Windows();

    // Grants `source` to be read and `sink` to be written; either may be empty. Errors: of
    // Staging::take() and fabric::Endpoint::grant(); then revoke() and free() are still due.
    Task<Result<>> open(std::span<const ConstBytes> source, std::span<const Bytes> sink,
                        StopToken stop);
    [[nodiscard]] std::span<const WindowDescriptor> source() const { return source_; }
    [[nodiscard]] std::span<const WindowDescriptor> sink() const { return sink_; }
    // True when the server writes to staged_sink() and not to the caller's memory.
    [[nodiscard]] bool stages_sink() const { return stages_sink_; }
    [[nodiscard]] ConstBytes staged_sink() const { return staged_sink_; }

    // After the return the server cannot access any of it.
    Task<> revoke();
    void free() noexcept;

  private:
    // One: what most requests have.
    using Ranges = InlineVector<Bytes, 1>;
    using Descriptors = InlineVector<WindowDescriptor, 1>;
    // True if all of it was granted in place.
    Result<bool> grant_in_place(const Ranges& ranges, fabric::Rights rights, Descriptors& windows);
    Result<> grant(Bytes range, fabric::Rights rights, Descriptors& windows);
    // Merges adjacent ranges.
    static Ranges join(const auto& pieces);

    fabric::Endpoint& endpoint_;
    Staging& staging_;
    ChannelMetrics& metrics_;
    InlineVector<fabric::MemoryRegion, 1> regions_;
    Descriptors source_, sink_;
    Bytes staged_;
    Bytes staged_sink_;
    bool stages_sink_ = false;
};

}  // namespace ros2s::rpc
