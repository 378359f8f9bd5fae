#include "own_changes.h"

#include <algorithm>

#include "ros2s/base/check.h"

namespace ros2s::cache {

void OwnChanges::set_unknown(Mark& mark) {
    if (mark.is_unknown) return;
    mark.is_unknown = true;
    ++any_.running;
    any_.changed = ++clock_;
}

void OwnChanges::lost(fs::NodeId directory) {
    if (Mark& mark = of(directory); mark.naming > 0) set_unknown(mark);
}

void OwnChanges::lost_all() {
    if (naming_ == 0) return;
    for (Mark& mark : nodes_) {
        if (mark.naming > 0) set_unknown(mark);
    }
}

void OwnChanges::Change::add(Mark& mark, bool is_name) {
    ++mark.running;
    mark.changed = began_;
    if (is_name) {
        ++mark.naming;
        ++all_.naming_;
    }
    touched_.push_back({.mark = &mark, .is_name = is_name});
}

// A name that another change makes or removes at the same time may lead to any node.
void OwnChanges::Change::touch(fs::NodeId directory, std::string_view name) {
    add(all_.of(directory), true);
    Mark& mark = all_.of(directory, name);
    const bool is_shared = mark.naming > 0;
    add(mark, true);
    if (is_shared) all_.set_unknown(mark);
}

void OwnChanges::Change::end(bool is_certain) {
    if (is_ended_) return;
    is_ended_ = true;
    for (Touched& each : touched_) {
        const auto own = std::ranges::count(touched_, each.mark, &Touched::mark);
        each.was_alone = each.mark->changed == began_ && std::cmp_equal(each.mark->running, own);
    }
    const Moment ended = ++all_.clock_;
    for (const Touched& each : touched_) {
        Mark& mark = *each.mark;
        --mark.running;
        mark.changed = ended;
        if (!is_certain) mark.unknown_until = all_.reactor_.now() + all_.unknown_for_;
        if (!each.is_name) continue;
        --all_.naming_;
        if (--mark.naming > 0 || !mark.is_unknown) continue;
        mark.is_unknown = false;
        --all_.any_.running;
        all_.any_.changed = ++all_.clock_;
    }
}

bool OwnChanges::Change::was_alone(const Mark& mark) const {
    const auto found = std::ranges::find(touched_, &mark, &Touched::mark);
    if (found == touched_.end()) return all_.is_quiet(mark, began_);
    return found->was_alone && all_.is_over(mark);
}

}  // namespace ros2s::cache
