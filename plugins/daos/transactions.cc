// daos_tx_*: changes and reads of a container that are committed as one request. Changes are
// collected here, and nobody sees them before the commit, also not the transaction itself. Each
// read becomes a condition: what was read is unchanged.
#include "events.h"
#include "store_access.h"

#include "daos_api.h"

using namespace ros2s;
using namespace ros2s::daos;
using State = DaosTransaction::State;

int daos_tx_open(daos_handle_t coh, daos_handle_t* th, uint64_t flags, daos_event_t* ev) {
    if (th == nullptr) return -DER_INVAL;
    auto transaction = std::make_shared<DaosTransaction>();
    transaction->container = Handles::table().find<Container>(coh);
    transaction->flags = flags;
    if (transaction->container == nullptr) return finish_call(ev, -DER_NO_HDL);
    const int rc = access_of(*transaction->container, transaction->access);
    if (rc == 0) {
        ++transaction->container->mounts;
        *th = Handles::table().add(std::move(transaction));
    }
    return finish_call(ev, rc);
}

int daos_tx_commit(daos_handle_t th, daos_event_t* ev) {
    const auto transaction = Handles::table().find<DaosTransaction>(th);
    if (transaction == nullptr) return finish_call(ev, -DER_NO_HDL);
    const std::lock_guard locked(transaction->lock);
    if (transaction->state == State::committed) return finish_call(ev, -DER_ALREADY);
    if (transaction->state != State::open) return finish_call(ev, -DER_NO_PERM);
    int rc = 0;
    if (!transaction->collected.is_empty()) {
        auto& access = *transaction->access;
        rc = access.run([&] { return transaction->collected.commit(access, transaction->epoch); });
    }
    transaction->state = rc == 0 ? State::committed : State::failed;
    transaction->collected.clear();
    return finish_call(ev, rc);
}

int daos_tx_abort(daos_handle_t th, daos_event_t* ev) {
    const auto transaction = Handles::table().find<DaosTransaction>(th);
    if (transaction == nullptr) return finish_call(ev, -DER_NO_HDL);
    const std::lock_guard locked(transaction->lock);
    if (transaction->state == State::committed) return finish_call(ev, -DER_NO_PERM);
    if (transaction->state == State::aborted) return finish_call(ev, -DER_ALREADY);
    transaction->state = State::aborted;
    transaction->collected.clear();
    return finish_call(ev, 0);
}

int daos_tx_restart(daos_handle_t th, daos_event_t* ev) {
    const auto transaction = Handles::table().find<DaosTransaction>(th);
    if (transaction == nullptr) return finish_call(ev, -DER_NO_HDL);
    const std::lock_guard locked(transaction->lock);
    // A transaction that has failed to commit.
    if (transaction->state != State::failed) return finish_call(ev, -DER_NO_PERM);
    transaction->state = State::open;
    transaction->collected.clear();
    return finish_call(ev, 0);
}

int daos_tx_close(daos_handle_t th, daos_event_t* ev) {
    const auto transaction = Handles::table().remove<DaosTransaction>(th);
    if (transaction == nullptr) return finish_call(ev, -DER_NO_HDL);
    --transaction->container->mounts;
    return finish_call(ev, 0);
}

int daos_tx_hdl2epoch(daos_handle_t th, daos_epoch_t* epoch) {
    const auto transaction = Handles::table().find<DaosTransaction>(th);
    if (transaction == nullptr) return -DER_NO_HDL;
    if (epoch == nullptr) return -DER_INVAL;
    const std::lock_guard locked(transaction->lock);
    if (transaction->state != State::committed) return -DER_UNINIT;
    *epoch = transaction->epoch.value;
    return 0;
}
