#include "name_turn.h"

namespace ros2s::control {

void NameTurn::end() {
    ServerState* const state = std::exchange(state_, nullptr);
    if (state == nullptr || state->parts.admission == nullptr) return;
    if (place_) place_.correct_cost(more_ns_);
    place_.release();
    const auto line = state->name_lines.find(tenant_);
    if (line == state->name_lines.end()) return;
    if (arrived_ != Time{}) {
        const Duration took = state->parts.reactor.now() - arrived_;
        line->second.metrics().latency.add(static_cast<uint64_t>(took.count()));
    }
    if (line->second.is_idle()) state->name_lines.erase(line);
}

Task<Result<>> NameTurn::begin(const Call& call) {
    if (state_->parts.admission == nullptr) co_return Result<>();
    auto& line =
        state_->name_lines.try_emplace(tenant_, *state_->parts.admission, tenant_).first->second;
    arrived_ = state_->parts.reactor.now();
    place_ = co_await line.enter(0, call.stop, arrived_);
    if (!place_) co_return fail(Code::cancelled);
    co_return Result<>();
}

}  // namespace ros2s::control
