// daos_eq_* and daos_event_*.
#include "events.h"

using namespace ros2s::daos;

int daos_eq_create(daos_handle_t* eqh) {
    if (eqh == nullptr) return -DER_INVAL;
    *eqh = Handles::table().add(std::make_shared<EventQueue>());
    return 0;
}

int daos_eq_destroy(daos_handle_t eqh, int flags) {
    const auto queue = Handles::table().find<EventQueue>(eqh);
    if (queue == nullptr) return -DER_NONEXIST;
    if ((flags & DAOS_EQ_DESTROY_FORCE) == 0 && queue->query(DAOS_EQR_ALL, {}) > 0) {
        return -DER_BUSY;
    }
    Handles::table().remove<EventQueue>(eqh);
    queue->drain();
    return 0;
}

int daos_eq_poll(daos_handle_t eqh, int wait_running, int64_t timeout, unsigned int nevents,
                 daos_event_t** events) {
    if (nevents == 0 || events == nullptr) return -DER_INVAL;
    const auto queue = Handles::table().find<EventQueue>(eqh);
    if (queue == nullptr) return -DER_NONEXIST;
    return static_cast<int>(queue->poll({events, nevents}, wait_running != 0, timeout));
}

int daos_eq_query(daos_handle_t eqh, daos_eq_query_t query, unsigned int nevents,
                  daos_event_t** events) {
    const auto queue = Handles::table().find<EventQueue>(eqh);
    if (queue == nullptr) return -DER_NONEXIST;
    return static_cast<int>(queue->query(query, {events, events == nullptr ? 0 : nevents}));
}

int daos_event_init(daos_event_t* ev, daos_handle_t eqh, daos_event_t* parent) {
    if (ev == nullptr) return -DER_INVAL;
    if (parent != nullptr) return -DER_NOTSUPPORTED;
    if (!daos_handle_is_inval(eqh) && Handles::table().find<EventQueue>(eqh) == nullptr) {
        return -DER_NONEXIST;
    }
    *ev = {};
    auto& state = state_in(*ev);
    state.magic = EventState::initialized;
    state.queue = eqh.cookie;
    return 0;
}

int daos_event_fini(daos_event_t* ev) {
    // Programs finalize an event twice, which DAOS allows.
    if (ev != nullptr && state_in(*ev).magic == EventState::finalized) return 0;
    auto* const state = state_of(ev);
    if (state == nullptr) return -DER_INVAL;
    const auto queue = EventQueue::of(*state);
    if (queue == nullptr) {
        state->magic = EventState::finalized;
        return 0;
    }
    return queue->forget(*ev) ? 0 : -DER_BUSY;
}

int daos_event_test(struct daos_event* ev, int64_t timeout, bool* flag) {
    auto* const state = state_of(ev);
    if (state == nullptr || flag == nullptr) return -DER_INVAL;
    const auto queue = EventQueue::of(*state);
    if (queue == nullptr) return -DER_NONEXIST;
    *flag = queue->test(*ev, timeout);
    return 0;
}
