// The contract suite: the requirements for every BlockDevice, as tests over a factory.
//
//     ROS2S_BLOCK_DEVICE_CONTRACT(FileOnThreads, [] { return std::make_unique<…>(…); });
//
// Use it in a *_test.cc of a program that links GTest's main. It registers every case as
// FileOnThreads.<case>.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "ros2s/device/block_device.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::device::contract {

// A medium of at least least_size bytes, and a reactor on whose core it is opened.
class Setup {
  public:
    static constexpr uint64_t least_size = uint64_t{8} << 20;

    virtual ~Setup() = default;
    [[nodiscard]] virtual Reactor& reactor() = 0;
    // Runs the task on that core and returns when the task is done.
    virtual void run(Task<> task) = 0;
    // Opens the medium. Each call opens the same one.
    [[nodiscard]] virtual Task<Result<std::unique_ptr<BlockDevice>>> open(Report& report) = 0;
};

using Factory = std::function<std::unique_ptr<Setup>()>;

// Called once, before GTest runs.
bool register_contract(const std::string& name, const Factory& factory);

}  // namespace ros2s::device::contract

#define ROS2S_BLOCK_DEVICE_CONTRACT(name, factory)           \
    [[maybe_unused]] static const bool name##_has_contract = \
        ::ros2s::device::contract::register_contract(#name, factory)
