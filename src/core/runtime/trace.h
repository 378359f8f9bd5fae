// Trace: what one request did, step by step. Most requests have none (Call::trace is null) and pay
// one branch per step. Owned by the party that requested it (`ros2store why`). Used on one core.
#pragma once
#include <string_view>
#include <vector>

#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/time.h"

namespace ros2s {

struct TraceStep {
    std::string_view name;  // "engine.fetch"; outlives the trace
    int depth;
    Time begin;
    Time end;
};

class Trace {
  public:
    [[nodiscard]] const std::vector<TraceStep>& steps() const { return steps_; }
    // Adds a completed step inside the current one. It was measured elsewhere, for several
    // requests.
    void add(std::string_view name, Time begin, Time end) { add_below(name, 0, begin, end); }
    // The same, `levels` deeper: the steps of another process, in their order.
    void add_below(std::string_view name, int levels, Time begin, Time end) {
        steps_.push_back({name, depth_ + levels, begin, end});
    }

  private:
    friend class Span;
    std::vector<TraceStep> steps_;
    int depth_ = 0;
};

// One step, from construction to destruction. `name` must outlive the trace (a literal).
class Span {
  public:
    Span(Trace* trace, const Reactor& reactor, std::string_view name)
        : trace_(trace), reactor_(reactor) {
        if (trace_ == nullptr) [[likely]]
            return;
        index_ = trace_->steps_.size();
        trace_->steps_.push_back({name, trace_->depth_++, reactor_.now(), {}});
    }
    Span& operator=(Span&&) = delete;
    ~Span() {
        if (trace_ == nullptr) [[likely]]
            return;
        --trace_->depth_;
        trace_->steps_[index_].end = reactor_.now();
    }

  private:
    Trace* trace_;
    const Reactor& reactor_;
    size_t index_ = 0;
};

}  // namespace ros2s
