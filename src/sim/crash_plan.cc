#include "crash_plan.h"

#include <iterator>

namespace ros2s::sim {

// Mostly early: the first groups after an opening are the interesting ones, and a short round is
// cheap.
CrashPlan draw_crash(Random& random, bool after_process_crash) {
    CrashPlan plan;
    plan.kind = random.one_in(3) ? CrashKind::process : CrashKind::power;
    if (after_process_crash && !random.one_in(4)) plan.kind = CrashKind::power;
    const uint64_t spans[] = {4, 20, 100, 400};
    plan.operations = random.below(spans[random.below(std::size(spans))]);
    plan.unflushed_writes = random.one_in(8) ? 0 : 2;
    plan.at_checkpoint = random.one_in(8);
    return plan;
}

CrashPlan draw_recovery_crash(Random& random, bool after_process_crash) {
    CrashPlan plan = draw_crash(random, after_process_crash);
    plan.operations = random.below(random.one_in(2) ? 12 : 60);
    plan.unflushed_writes = 0;
    plan.at_checkpoint = false;
    plan.at_flush = random.one_in(2);
    return plan;
}

}  // namespace ros2s::sim
