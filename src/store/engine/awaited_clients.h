// AwaitedClients: the clients that deferred changes before the store was opened. A loss of power
// may have taken back some of these. Each client repeats its own, or finds that none is lost. Until
// then requests of others in its container wait: they must not see, or change, a state that lacks
// what was acknowledged.
//
//     opening: await ──► sync(): busy ──► it repeats its changes ──► sync() ─┬─► over
//                    └─► sync(): nothing is lost ────────────────────────────┤
//                    └─► patience has passed ────────────────────────────────┘
//
// A client that says who it is waits by itself, and asks again (`leased`): what it holds on its way
// here, those that are awaited may need.
//
// Part of an open pool, which owns it. Used on core 0; any() on every core. Bounded by the list of
// the holders of pins, which has them.
#pragma once
#include <map>
#include <set>
#include <span>

#include "ros2s/base/metrics.h"
#include "ros2s/object/vocabulary.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/sync.h"
#include "ros2s/runtime/task.h"

namespace ros2s::engine {

class AwaitedClients {
  public:
    // From the first request on. Shorter than the 10 s that the control plane has for a call, so
    // that a host can mount a container whose mounts are all gone.
    static constexpr Duration patience = std::chrono::seconds(8);
    // From a repetition on, but not longer than patience_most in all.
    static constexpr Duration patience_goes_on = std::chrono::seconds(3);
    static constexpr Duration patience_most = std::chrono::seconds(16);

    explicit AwaitedClients(Reactor& reactor) : reactor_(reactor), changed_(reactor) {}

    void await(std::span<const object::HolderName> clients);
    [[nodiscard]] size_t count() const { return count_.value(); }
    [[nodiscard]] bool any() const { return count() > 0; }
    // It may repeat its changes.
    [[nodiscard]] bool awaits(const object::HolderName& client) const;
    // A client has repeated a change.
    void note_repetition();
    // It has all that it was acknowledged.
    void over(const object::HolderName& client);
    [[nodiscard]] bool is_patience_over() const {
        return any() && until_ != Time{} && reactor_.now() >= until_;
    }
    // Nobody is awaited any more.
    void give_up();
    // Those that wait look at their deadlines. To be called about once a second.
    void look_again() { changed_.wake_all(); }
    // Waits while the container has other awaited clients than this one. Not for repetitions.
    // Errors: leased (the client waits by itself), cancelled, deadline.
    Task<Result<>> wait(const Call& call, object::ContainerId container);
    // The same, but a client that is awaited and names this incarnation waits for nobody: it reads
    // what its repetition changes in part, which others have not changed since.
    Task<Result<>> wait_to_fetch(const Call& call, object::ContainerId container);
    // As wait(), while any client of any container is awaited.
    Task<Result<>> wait_for_all(const Call& call);

  private:
    struct Container {
        std::set<object::HolderName> names;
        std::map<Uuid, size_t> clients;  // of these names
    };
    [[nodiscard]] bool repeats(object::ContainerId container, const StoreClient* client) const;
    [[nodiscard]] bool holds_off(object::ContainerId container, const StoreClient* client) const;
    template <class HoldsOff>
    Task<Result<>> wait_while(const Call& call, HoldsOff holds_off);

    Reactor& reactor_;
    std::map<object::ContainerId, Container> containers_;
    Time until_{};  // none: nobody has asked yet
    Time until_most_{};
    Counter count_;  // for other cores
    Event changed_;
};

}  // namespace ros2s::engine
