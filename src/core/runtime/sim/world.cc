#include "ros2s/runtime/sim/world.h"

#include <algorithm>

#include "ros2s/base/check.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::sim {

class World::SimReactor final : public Reactor {
  public:
    SimReactor(World& world, size_t number, size_t cores)
        : number(number), told_upto(cores), world_(world) {}
    const size_t number;
    std::vector<Time> told_upto;  // when the last message to each core arrives there

    Time now() const noexcept override { return world_.now_; }
    WallTime wall_time() const noexcept override {
        // Any fixed date will do; this is 2025-01-01.
        return WallTime{std::chrono::seconds{1735689600} + world_.now_.time_since_epoch() +
                        world_.wall_offset_};
    }
    Random& random() noexcept override { return world_.random_; }
    const Secrets& secrets() const noexcept override { return world_.secrets_; }
    bool is_current() const noexcept override { return world_.current_ == this; }
    void post(std::coroutine_handle<> handle) noexcept override { ready_.push_back(handle); }
    void post_remote(RemotePost& post) noexcept override { world_.send(*this, post.handle); }
    void wake() noexcept override {}  // a simulated core polls before it lets time pass
    void relax() noexcept override { world_.compute(std::chrono::microseconds(1)); }
    void arm(Timer& timer) noexcept override {
        timer.order = ++world_.timers_armed_;
        timer.armed = true;
        world_.timers_.insert({&timer, this});
    }
    void disarm(Timer& timer) noexcept override {
        timer.armed = false;
        world_.timers_.erase({&timer, this});
    }
    void attach(Poller& poller) override { pollers_.push_back(&poller); }
    void detach(Poller& poller) noexcept override { std::erase(pollers_, &poller); }
    Ring* ring() noexcept override { return nullptr; }

    [[nodiscard]] bool ready() const { return !ready_.empty(); }
    void run_one() {
        const auto handle = ready_.front();
        ready_.pop_front();
        world_.current_ = this;
        handle.resume();
    }
    bool poll() {
        bool found = false;
        world_.current_ = this;
        for (auto* poller : pollers_) found |= poller->poll();
        return found;
    }

  private:
    World& world_;
    std::deque<std::coroutine_handle<>> ready_;
    std::vector<Poller*> pollers_;
};

class World::SimBlockingPool final : public BlockingPool {
  public:
    explicit SimBlockingPool(World& world) : world_(world), nursery_(world.core(0), 1 << 20) {}
    void submit(Job& job) noexcept override {
        const bool spawned = nursery_.try_spawn(perform(*this, job));
        ROS2S_CHECK(spawned);
    }

  private:
    static Task<> perform(SimBlockingPool& pool, Job& job) {
        Reactor& core = pool.world_.core(0);
        const Duration delay{pool.world_.random().below(1'000'000)};
        co_await sleep_for(core, delay);
        // A job without a home may be gone once its work is done.
        Reactor* const home = job.home;
        job.work(job);
        if (home != nullptr) home->post_remote(job.post);
    }
    World& world_;
    Nursery nursery_;
};

World::World(uint64_t seed, size_t cores)
    : random_(seed),
      timers_([](const auto& a, const auto& b) { return ByTime{}(a.first, b.first); }) {
    for (size_t i = 0; i < cores; ++i) {
        cores_.push_back(std::make_unique<SimReactor>(*this, i, cores));
    }
    blocking_ = std::make_unique<SimBlockingPool>(*this);
    current_ = cores_.front().get();
}

World::~World() = default;

Reactor& World::core(size_t index) { return *cores_.at(index); }
BlockingPool& World::blocking() { return *blocking_; }

void World::send(SimReactor& to, std::coroutine_handle<> handle) {
    if (current_ == &to) return to.post(handle);
    const uint64_t delay_ns_max = random_.one_in(16) ? 1'000'000 : 20'000;
    Time& arrival = current_->told_upto[to.number];
    arrival = std::max(arrival, now_ + Duration(random_.below(delay_ns_max)));
    messages_[{arrival, ++messages_sent_}] = {&to, handle};
}

void World::fire_first() {
    const auto [timer, core] = *timers_.begin();
    timers_.erase(timers_.begin());
    timer->armed = false;
    now_ = std::max(now_, timer->at);
    core->post(timer->waiter);
}

void World::fire_due() {
    has_computed_ = false;
    while (!timers_.empty() && timers_.begin()->first->at <= now_) fire_first();
}

bool World::step() {
    if (has_computed_) fire_due();
    size_t ready = 0;
    for (const auto& core : cores_) ready += core->ready() ? 1 : 0;
    if (ready > 0) {
        size_t pick = ready == 1 ? 0 : random_.below(ready);
        for (const auto& core : cores_) {
            if (!core->ready()) continue;
            if (pick-- == 0) {
                core->run_one();
                break;
            }
        }
        return true;
    }
    bool found = false;
    for (const auto& core : cores_) found |= core->poll();
    if (found) return true;
    const bool message = !messages_.empty();
    if (timers_.empty() && !message) return false;
    if (message &&
        (timers_.empty() || messages_.begin()->first.first <= timers_.begin()->first->at)) {
        const auto first = messages_.extract(messages_.begin());
        now_ = std::max(now_, first.key().first);
        first.mapped().to->post(first.mapped().handle);
        return true;
    }
    fire_first();
    return true;
}

void World::run_void(Task<> task) {
    current_ = cores_.front().get();
    Nursery nursery(core(0), 1);
    const bool spawned = nursery.try_spawn(std::move(task));
    ROS2S_CHECK(spawned);
    while (nursery.running() > 0) {
        const bool progress = step();
        // A deadlock: the task waits for what nothing will do.
        ROS2S_CHECK(progress);
    }
}

}  // namespace ros2s::sim
