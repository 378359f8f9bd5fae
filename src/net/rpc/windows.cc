#include "windows.h"

#include <cstring>

#include "ros2s/base/check.h"
#include "ros2s/runtime/slices.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::rpc {

Task<Result<Bytes>> Staging::take(uint64_t size, StopToken stop) {
    const WakeOnStop wake(stop, changed_);
    queue_.push_back(&stop);
    Result<Bytes> memory = fail(Code::disconnected);
    while (!ended_ && endpoint_.alive()) {
        if (stop.stop_requested()) {
            memory = fail(Code::cancelled);
            break;
        }
        if (queue_.front() == &stop) {
            memory = endpoint_.allocate(size);
            if (memory || memory.error().code != Code::no_memory) break;
            const auto asked = endpoint_.ask_for_memory(size);
            if (!asked && taken_ == 0) {
                memory = fail(asked.error());
                break;
            }
        }
        co_await changed_;
        memory = fail(Code::disconnected);
    }
    std::erase(queue_, &stop);
    if (memory) ++taken_;
    changed_.wake_all();
    co_return memory;
}

void Staging::give(Bytes memory) noexcept {
    endpoint_.free(memory);
    --taken_;
    changed_.wake_all();
}

Windows::Ranges Windows::join(const auto& pieces) {
    Ranges ranges;
    for (const auto& piece : pieces) {
        if (piece.empty()) continue;
        auto* data = const_cast<std::byte*>(piece.data());
        if (!ranges.empty() && ranges.back().data() + ranges.back().size() == data) {
            ranges.back() = {ranges.back().data(), ranges.back().size() + piece.size()};
        } else {
            ranges.push_back({data, piece.size()});
        }
    }
    return ranges;
}

Windows::~Windows() { ROS2S_CHECK(regions_.empty() && staged_.empty()); }

Result<> Windows::grant(Bytes range, fabric::Rights rights, Descriptors& windows) {
    ROS2S_TRY_ASSIGN(fabric::MemoryRegion region, endpoint_.grant(range, rights));
    WindowDescriptor& window = windows.emplace_back();
    static_assert(sizeof window.key == sizeof(fabric::RemoteKey));
    std::memcpy(window.key.data(), &region.key(), sizeof window.key);
    window.length = range.size();
    regions_.push_back(std::move(region));
    return {};
}

Result<bool> Windows::grant_in_place(const Ranges& ranges, fabric::Rights rights,
                                     Descriptors& windows) {
    if (ranges.size() > windows_max) return false;
    for (const Bytes range : ranges) {
        const Result<> granted = grant(range, rights, windows);
        if (granted) continue;
        // The provider cannot expose this memory. It refuses the first piece or none.
        if (granted.error().code == Code::invalid && windows.empty()) return false;
        return fail(granted.error());
    }
    metrics_.window_bytes.add(bytes_of(ranges));
    return true;
}

Task<Result<>> Windows::open(std::span<const ConstBytes> source, std::span<const Bytes> sink,
                             StopToken stop) {
    const Ranges sources = join(source);
    const Ranges sinks = join(sink);
    ROS2S_CO_TRY_ASSIGN(const bool source_lies,
                        grant_in_place(sources, fabric::Rights::read, source_));
    ROS2S_CO_TRY_ASSIGN(const bool sink_lies, grant_in_place(sinks, fabric::Rights::write, sink_));
    const uint64_t source_bytes = source_lies ? 0 : bytes_of(sources);
    const uint64_t sink_bytes = sink_lies ? 0 : bytes_of(sinks);
    if (source_bytes + sink_bytes == 0) co_return Result<>{};

    // One piece for both, so that no request holds one piece while it waits for another.
    ROS2S_CO_TRY_ASSIGN(staged_, co_await staging_.take(source_bytes + sink_bytes, stop));
    metrics_.staged_bytes.add(source_bytes + sink_bytes);
    const Bytes staged_source = staged_.first(source_bytes);
    if (!source_lies) {
        Bytes rest = staged_source;
        SlicedCopies copies;
        for (const Bytes range : sources) {
            copies.add(range, rest.first(range.size()));
            rest = rest.subspan(range.size());
        }
        if (!copies.done()) co_await copies.finish(staging_.copying());
        ROS2S_CO_TRY(grant(staged_source, fabric::Rights::read, source_));
    }
    if (!sink_lies) {
        stages_sink_ = true;
        staged_sink_ = staged_.subspan(source_bytes);
        ROS2S_CO_TRY(grant(staged_sink_, fabric::Rights::write, sink_));
    }
    co_return Result<>{};
}

Task<> Windows::revoke() {
    for (fabric::MemoryRegion& region : regions_) co_await region.revoke();
    regions_.clear();
}

void Windows::free() noexcept {
    if (!staged_.empty()) staging_.give(staged_);
    staged_ = {};
    staged_sink_ = {};
}

}  // namespace ros2s::rpc
