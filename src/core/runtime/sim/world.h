// World: reactors, time and a blocking pool in one thread, all controlled by one seed.
//
// Model
// - Time stands still while anything is ready. Then it jumps to the next timer.
// - The next handle is drawn at random among the ready handles of all cores. Handles of one core
//   keep their order, as on a real reactor. Cores interleave but do not reorder.
// - A post from one core to another arrives after up to 20 microseconds, sometimes a millisecond.
//   Posts of one core to another arrive in order. Posts of two cores to a third have no defined
//   order.
// - A blocking job runs after a random delay of up to a millisecond of virtual time. The same seed
//   gives the same run.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::sim {

class World {
  public:
    explicit World(uint64_t seed, size_t cores = 1);
    ~World();
    World& operator=(World&&) = delete;

    [[nodiscard]] Reactor& core(size_t index = 0);
    [[nodiscard]] BlockingPool& blocking();
    [[nodiscard]] Random& random() { return random_; }
    [[nodiscard]] const Secrets& secrets() const { return secrets_; }
    [[nodiscard]] Time now() const { return now_; }
    // Sets the machine's clock: wall time jumps, in either direction. Monotonic time does not.
    void step_clock(Duration by) {
        wall_offset_ += by;
        ++clock_steps_;
    }
    [[nodiscard]] uint64_t clock_steps() const { return clock_steps_; }

    // The handle that runs computes for this long.
    void compute(Duration by) {
        now_ += by;
        has_computed_ = true;
    }

    // Runs the task on core 0, and all other work, until the task is done. If nothing can run any
    // more and the task is unfinished, a CHECK fails.
    template <class T>
    T run(Task<T> task) {
        std::optional<T> result;
        run_void(store(std::move(task), result));
        return std::move(*result);
    }
    void run(Task<> task) { run_void(std::move(task)); }

  private:
    class SimReactor;
    class SimBlockingPool;
    struct ByTime {
        bool operator()(const Timer* a, const Timer* b) const {
            return a->at != b->at ? a->at < b->at : a->order < b->order;
        }
    };

    template <class T>
    static Task<> store(Task<T> task, std::optional<T>& result) {
        result.emplace(co_await std::move(task));
    }
    // A handle that is being posted from one core to another.
    struct Message {
        SimReactor* to = nullptr;
        std::coroutine_handle<> handle;
    };
    void send(SimReactor& to, std::coroutine_handle<> handle);
    void run_void(Task<> task);
    bool step();
    void fire_first();
    void fire_due();  // false if nothing is ready and no timer is armed

    Random random_;
    const Secrets secrets_{random_};
    Time now_{};
    Duration wall_offset_{};
    uint64_t clock_steps_ = 0;
    uint64_t timers_armed_ = 0;
    bool has_computed_ = false;  // so timers may have become due
    SimReactor* current_ = nullptr;
    std::set<std::pair<Timer*, SimReactor*>,
             bool (*)(const std::pair<Timer*, SimReactor*>&, const std::pair<Timer*, SimReactor*>&)>
        timers_;
    std::map<std::pair<Time, uint64_t>, Message> messages_;  // by time of arrival, then in the
                                                             // order of sending
    uint64_t messages_sent_ = 0;
    std::vector<std::unique_ptr<SimReactor>> cores_;
    std::unique_ptr<SimBlockingPool> blocking_;
};

}  // namespace ros2s::sim
