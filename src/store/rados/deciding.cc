// Transactions of RadosStore that one of their objects decides: docs/formats/rados.md.
#include <algorithm>

#include "updating.h"

namespace ros2s::rados {
namespace {

// Decisions that wait for the next change of their object.
constexpr size_t ended_of_one_max = 64, ended_deciders_max = 1024, ended_at_once = 32;

}  // namespace

using namespace object;

// The object that decides is never locked. So it is the one with the most entries, such as a
// directory, which others probably use. It must have entries, so that nothing removes it.
std::vector<Participant>::const_iterator RadosStore::decider_of(
    const std::vector<Participant>& participants) {
    const auto entries_of = [](const Participant& each) {
        Head head;
        const auto after = std::ranges::find(each.pending.set, head_key, &Pending::Set::key);
        ROS2S_CHECK(after != each.pending.set.end() && decode(after->value, head));
        return each.view->exists() ? head.entries : 0;
    };
    const auto most = std::ranges::max_element(participants, {}, entries_of);
    return participants.size() > 1 && entries_of(*most) > 0 ? most : participants.end();
}

// Done when one object is changed. The others are changed afterwards; until then, later
// transactions of this store on them wait, and those of others see the decision.
Task<Result<>> RadosStore::publish_at(const Call& call, std::string space, Coordination record,
                                      std::vector<Participant>& participants, size_t decider,
                                      KeyMutexes::Hold& hold, bool even_if_full) {
    Participant& deciding = participants[decider];
    const ObjectName object{space, object_name(deciding.view->object())};
    const std::string key = decision_key(deciding.view->head().change, record.transaction);
    // Its decisions that are not needed any more go with the change.
    std::vector<std::string> ended;
    if (const auto found = ended_decisions_.extract(object); !found.empty()) {
        ended = std::move(found.mapped());
    }
    for (const std::string& each : ended) deciding.pending.remove.push_back({each});
    deciding.pending.set.push_back({key, encode(record)});
    const auto decided = co_await coordinator_.decide(call, space, key, record.transaction,
                                                      participants, decider, even_if_full);
    if (!decided) {
        note_ended(object, std::move(ended));
        co_return decided;
    }
    start_tidying(space, deciding.view->object(), deciding.pending);
    std::vector<Unapplied> rest;
    std::vector<std::string> names;
    for (const Participant& each : participants) {
        if (&each == &deciding) continue;
        rest.push_back({*each.view, Coordinator::unapplied(each)});
        names.push_back(space + rest.back().rest.name);
    }
    co_await applying_.spawn(apply_rest(space, std::move(rest), object, key, hold.split(names)));
    co_return Result<>{};
}

Task<> RadosStore::apply_rest(std::string space, std::vector<Unapplied> objects, ObjectName decider,
                              std::string key, KeyMutexes::Hold) {
    std::vector<Coordinator::Unapplied> rest;
    for (const Unapplied& each : objects) rest.push_back(each.rest);
    // If not all are, whoever meets their locks needs the decision, until a sweep ends it.
    if (!co_await coordinator_.apply_all(space, std::move(rest))) co_return;
    for (Unapplied& each : objects) {
        start_tidying(space, each.view.object(), each.rest.pending);
        // Not before: a transaction that begins with it and decides here names its head in locks.
        remember(space, std::move(each.view), each.rest.pending);
    }
    note_ended(decider, {key});
}

void RadosStore::note_ended(const ObjectName& decider, std::vector<std::string> keys) {
    if (keys.empty()) return;
    std::vector<std::string>& all = ended_decisions_[decider];
    std::ranges::move(keys, std::back_inserter(all));
    if (all.size() >= ended_of_one_max && leave(decider, {.garbage = all, .dead_head = {}})) {
        ended_decisions_.erase(decider);
    }
    if (ended_decisions_.size() < ended_deciders_max) return;
    for (size_t i = 0; i < ended_at_once; ++i) {
        const auto first = ended_decisions_.begin();
        if (!leave(first->first, {.garbage = first->second, .dead_head = {}})) return;
        ended_decisions_.erase(first);
    }
}

}  // namespace ros2s::rados
