// An NVMe namespace keeps the contract of a device. ROS2STORE_TEST_NVME names the character device
// of one that may be overwritten (/dev/ng0n1); without it nothing runs here. `./dev lab nvme` has
// one.
#include <gtest/gtest.h>

#include <cstdlib>

#include "ros2s/device/contract/contract.h"
#include "ros2s/device/nvme/nvme_device.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s::device {
namespace {

class NamespaceSetup final : public contract::Setup {
  public:
    explicit NamespaceSetup(std::string path) : path_(std::move(path)) {
        reactor_ = made_reactor({.ring = RingChoice::io_uring});
    }
    Reactor& reactor() override { return *reactor_; }
    void run(Task<> task) override { reactor_->run(std::move(task)); }
    Task<Result<std::unique_ptr<BlockDevice>>> open(Report& report) override {
        return NvmeDevice::open(*reactor_, path_, {}, report);
    }

  private:
    std::string path_;
    std::unique_ptr<OsReactor> reactor_;
};

const bool has_contract = [] {
    const char* path = std::getenv("ROS2STORE_TEST_NVME");
    return path != nullptr &&
           contract::register_contract("NvmeNamespace", [path = std::string(path)] {
               return std::make_unique<NamespaceSetup>(path);
           });
}();

TEST(NvmeContract, MissingNamespaceSkipsTheSuite) {
    if (!has_contract) {
        GTEST_SKIP()
            << "ROS2STORE_TEST_NVME names no namespace: not run here, `./dev lab nvme` does";
    }
}

}  // namespace
}  // namespace ros2s::device
