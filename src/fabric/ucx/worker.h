// Worker: the UCX worker of one domain on its reactor: it is progressed in each turn while there is
// anything to do, and armed otherwise, so that idle connections cost neither turns nor wake-ups.
// Routes the frames that come to the wires that they are for.
//
// Owned by the domain; used on its core. UCX's callbacks come from within poll(), and only note
// what they tell where acting on it could destroy what UCX is working on.
#pragma once
#include <unordered_map>
#include <vector>

#include "context.h"
#include "greeting.h"
#include "lane.h"
#include "ros2s/fabric/packet/packet_endpoint.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/ring.h"

namespace ros2s::fabric::ucx {

class UcxWire;

class Worker final : public Poller {
  public:
    Worker(Reactor& reactor, Counters& counters, Context context);
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    ~Worker() override;
    // After its wires are closed. Gives lanes that wind up a while to send what they have.
    Task<> close();

    [[nodiscard]] Reactor& reactor() noexcept { return reactor_; }
    [[nodiscard]] const Context& context() const noexcept { return context_; }
    [[nodiscard]] const std::vector<std::byte>& address() const noexcept {
        return context_.address();
    }
    [[nodiscard]] Flusher& flusher() noexcept { return flusher_; }

    // A channel for the wire: what comes for it goes there. Random, and not zero.
    [[nodiscard]] uint64_t add(UcxWire& wire);
    void remove(uint64_t channel) noexcept { wires_.erase(channel); }
    // UCX has something to do: look in the next turn.
    void rouse() noexcept;
    // The wire has something to tell its user: it is asked to in the next turn.
    void attend(UcxWire& wire);
    void forget(UcxWire& wire) noexcept { std::erase(attended_, &wire); }
    // A lane whose wire is closed: sends what it has, within a bound, and ends.
    void wind_up(std::unique_ptr<Lane> lane);
    // Returns when what had come in is taken in, at the latest after `within`.
    Task<> quiet(Duration within);

    bool poll() noexcept override;
    bool prepare_sleep() noexcept override;

  private:
    // Looks in vain before the worker is armed on a core that has other work. A look is a system
    // call on tcp.
    static constexpr uint32_t vain_looks_max = 1024;
    static constexpr int progress_per_turn = 16;
    // Lanes to peers that do not read and do not die. Each may hold some 2 MiB.
    static constexpr size_t winding_up_max = 32;
    static constexpr Duration winding_up_within = std::chrono::seconds(1);

    static Task<> watch(Worker& self);
    static ucs_status_t came(void* self, const void* header, size_t header_length, void* data,
                             size_t length, const ucp_am_recv_param_t* parameters) noexcept;
    static ucs_status_t came_for_nobody(void* self, const void* header, size_t header_length,
                                        void* data, size_t length,
                                        const ucp_am_recv_param_t* parameters) noexcept;
    void set_handlers() noexcept;
    [[nodiscard]] const UcxLibrary& ucx() const noexcept { return context_.ucx(); }
    [[nodiscard]] ucp_worker_h handle() const noexcept { return context_.worker(); }
    bool arm() noexcept;
    bool settle() noexcept;
    void step_lanes(bool force) noexcept;

    Reactor& reactor_;
    Counters& counters_;
    Context context_;
    Flusher flusher_;
    std::unordered_map<uint64_t, UcxWire*> wires_;
    std::vector<UcxWire*> attended_;
    std::vector<std::unique_ptr<Lane>> winding_up_;
    bool armed_ = false;
    uint32_t vain_looks_ = 0;
    bool called_back_ = false;  // a frame came: somebody may be ready to go on

    // The poll on the event descriptor: one at most is with the ring.
    Ring::Operation event_;
    bool event_submitted_ = false;
    std::coroutine_handle<> watcher_{};
    bool stopping_ = false;
    bool closed_ = false;
    Nursery watching_;
};

}  // namespace ros2s::fabric::ucx
