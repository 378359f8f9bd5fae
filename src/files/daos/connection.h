// Connection: the DaosPool behind DaosPool::connect(), and what its file systems use of it.
#pragma once
#include <coroutine>

#include "daos_pool.h"
#include "libdfs.h"
#include "names_memory.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::daos {

class Connection final : public DaosPool, private Poller {
  public:
    Connection(Reactor& reactor, BlockingPool& blocking, Libdfs libdfs, PoolOptions options);
    ~Connection() override;
    // Blocks.
    Result<> begin(Report& report);
    // Polls from now on.
    void attach();
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(Call call, std::string container,
                                                       Report& report) override;
    Task<Result<std::vector<std::string>>> containers(Call call) override;
    Task<> close() override;

    const Libdfs dfs;
    [[nodiscard]] Reactor& reactor() const { return reactor_; }
    [[nodiscard]] BlockingPool& blocking() const { return blocking_; }
    [[nodiscard]] NamesMemory& names() { return names_; }
    [[nodiscard]] const PoolOptions& options() const { return options_; }
    [[nodiscard]] daos_handle_t handle() const { return pool_; }

    // Runs `function`, which blocks, on a helper thread. Returns its result.
    template <class F>
    Task<std::invoke_result_t<F&>> run(const Call& call, F function) {
        return run_in_turn(options_.turns, blocking_, reactor_, call, std::move(function));
    }
    // A helper thread for a whole operation that takes locks. An operation that holds or waits for
    // a lock therefore already has a thread, so the holder of a lock never waits for threads of its
    // tenant.
    Task<Result<ThreadTurns::Permit>> enter(const Call& call) {
        return enter_in_time(options_.turns, call);
    }
    template <class F>
    [[nodiscard]] auto run(const ThreadTurns::Permit& /*held*/, F function) {
        return blocking_.run(reactor_, std::move(function));
    }
    // co_await connection.transfer(start): start(event) starts a request of libdfs with this event,
    // and returns its errno. The task ends when the request is done.
    template <class Start>
    Task<Result<>> transfer(Start start) {
        Request request;
        ROS2S_CO_TRY(checked_der(dfs.daos_event_init(&request.event, queue_, nullptr)));
        const int rc = start(&request.event);
        if (rc == 0) {
            ++in_flight_;
            busy_.set();
            co_await Waiting{request};
        }
        const int error = rc == 0 ? request.event.ev_error : rc;
        (void)dfs.daos_event_fini(&request.event);
        // libdfs returns a positive errno. A request that failed in its library may have a DAOS
        // number.
        co_return error < 0 ? checked_der(error) : checked(error);
    }

  private:
    // The event is the first member: the queue returns its address.
    struct Request {
        daos_event_t event{};
        std::coroutine_handle<> waiter{};
    };
    struct Waiting {
        Request& request;
        bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<> handle) noexcept { request.waiter = handle; }
        void await_resume() const noexcept {}
    };
    bool poll() noexcept override;
    bool prepare_sleep() noexcept override { return !poll(); }
    static Task<> keep_waking(Connection& self);

    static constexpr Duration poll_interval = std::chrono::microseconds(50);
    Reactor& reactor_;
    BlockingPool& blocking_;
    const PoolOptions options_;
    NamesMemory names_;
    daos_handle_t pool_{};
    daos_handle_t queue_{};
    bool is_initialized_ = false;
    bool is_attached_ = false;
    size_t in_flight_ = 0;
    Event busy_;  // set while requests are in flight, and at the end
    bool stopping_ = false;
    Nursery waking_;
};

}  // namespace ros2s::daos
