// The engine keeps the object contract: on simulated disks with an ordered-map index, with one
// device and several, one group in flight and three, one core and several.
#include "ros2s/object/contract/contract.h"
#include "test_support/engine.h"

namespace ros2s::engine {
namespace {

using object::contract::Needs;

struct Shape {
    size_t devices = 1;
    uint32_t groups_in_flight = 1;
    size_t cores = 1;
    uint64_t memory_bytes = 512 << 20;
};

class EngineSetup final : public object::contract::Setup {
  public:
    EngineSetup(const Needs& needs, Shape shape)
        : bench_(needs.seed, shape.devices, device_bytes(needs, shape), shape.cores) {
        bench_.create_options.journal_bytes = journal_bytes;
        bench_.options.groups_in_flight = shape.groups_in_flight;
        bench_.options.memory_bytes = shape.memory_bytes;
        bench_.world.run(set_up());
    }
    ~EngineSetup() override { bench_.world.run(tear_down()); }
    object::ObjectStore& store() override { return *bench_.store; }
    Reactor& reactor() override { return bench_.world.core(); }
    void run(Task<> task) override { bench_.world.run(std::move(task)); }
    Task<bool> reopen() override {
        expect(co_await bench_.reopen());
        co_return true;
    }
    bool make_read_only() override {
        bench_.options.read_only = true;
        bench_.world.run(again());
        return true;
    }

  private:
    static constexpr uint64_t journal_bytes = 16 << 20;
    static uint64_t device_bytes(const Needs& needs, const Shape& shape) {
        return round_up(needs.capacity_bytes / shape.devices, block_bytes) + journal_bytes +
               16 * block_bytes;
    }
    void expect(const Result<>& result) {
        EXPECT_TRUE(result.has_value()) << describe(result.error()) << ": " << bench_.report.text();
    }
    Task<> set_up() {
        expect(co_await bench_.create());
        expect(co_await bench_.open());
    }
    Task<> again() { expect(co_await bench_.reopen()); }
    Task<> tear_down() { expect(co_await bench_.close()); }

    Bench bench_;
};

ROS2S_OBJECT_STORE_CONTRACT(Engine, [](const Needs& needs) {
    return std::make_unique<EngineSetup>(needs, Shape{});
});
ROS2S_OBJECT_STORE_CONTRACT(EngineOfThreeDevices, [](const Needs& needs) {
    return std::make_unique<EngineSetup>(needs, Shape{.devices = 3, .groups_in_flight = 3});
});
ROS2S_OBJECT_STORE_CONTRACT(EngineOnTwoCores, [](const Needs& needs) {
    return std::make_unique<EngineSetup>(needs, Shape{.cores = 2});
});
ROS2S_OBJECT_STORE_CONTRACT(EngineOnFiveCores, [](const Needs& needs) {
    return std::make_unique<EngineSetup>(needs,
                                         Shape{.devices = 2, .groups_in_flight = 3, .cores = 5});
});

}  // namespace
}  // namespace ros2s::engine
