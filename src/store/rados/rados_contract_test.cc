// RadosStore on a simulated cluster keeps the contract of object stores.
#include "ros2s/object/contract/contract.h"
#include "ros2s/rados/rados_store.h"
#include "ros2s/rados/sim/sim_rados.h"
#include "ros2s/runtime/sim/world.h"
#include "test_support/open_store.h"

#include <gtest/gtest.h>

namespace ros2s::rados {
namespace {

class SimSetup final : public object::contract::Setup {
  public:
    SimSetup(const object::contract::Needs& needs, Duration delay_max, bool keeps_replies = true)
        : keeps_replies_(keeps_replies),
          world_(needs.seed),
          cluster_(world_.core()),
          pool_(cluster_, {.delay_max = delay_max, .dies_at = {}}) {
        world_.run(open());
    }
    ~SimSetup() override { world_.run(close()); }
    object::ObjectStore& store() override { return *store_; }
    Reactor& reactor() override { return world_.core(); }
    void run(Task<> task) override { world_.run(std::move(task)); }
    Task<bool> reopen() override {
        co_await store_->close();
        co_await open();
        co_return true;
    }

  private:
    Task<> open() {
        store_ = co_await open_store(world_.core(), pool_, {.keeps_replies = keeps_replies_});
    }
    Task<> close() {
        co_await store_->close();
        co_await cluster_.close();
    }
    const bool keeps_replies_;
    sim::World world_;
    SimRados cluster_;
    SimPool pool_;
    std::unique_ptr<RadosStore> store_;
};

ROS2S_OBJECT_STORE_CONTRACT(Rados, [](const object::contract::Needs& needs) {
    return std::make_unique<SimSetup>(needs, Duration{});
});
ROS2S_OBJECT_STORE_CONTRACT(SlowRados, [](const object::contract::Needs& needs) {
    return std::make_unique<SimSetup>(needs, std::chrono::milliseconds(2));
});

// As a URI composes it.
ROS2S_OBJECT_STORE_CONTRACT(RadosWithoutReplies, [](const object::contract::Needs& needs) {
    return std::make_unique<SimSetup>(needs, std::chrono::milliseconds(2), false);
});

}  // namespace
}  // namespace ros2s::rados
