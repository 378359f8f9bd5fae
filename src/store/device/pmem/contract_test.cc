// Persistent memory keeps the contract of a device: on an ordinary file everywhere, and on real
// memory if there is some (ROS2STORE_TEST_PMEM names a devdax device or a folder on DAX).
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "ros2s/device/contract/contract.h"
#include "ros2s/device/pmem/pmem_device.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s::device {
namespace {

class PmemSetup final : public contract::Setup {
  public:
    PmemSetup(const std::string& where, PmemDeviceOptions options) : options_(options) {
        reactor_ = made_reactor({.ring = RingChoice::threads});
        if (std::filesystem::is_directory(where)) {
            std::string name = where + "/ros2store-test-XXXXXX";
            directory_ = mkdtemp(name.data());
            path_ = directory_ + "/device-0";
            std::ofstream(path_) << std::string(least_size, '\0');
        } else {
            path_ = where;
        }
    }
    ~PmemSetup() override {
        if (!directory_.empty()) std::filesystem::remove_all(directory_);
    }
    Reactor& reactor() override { return *reactor_; }
    void run(Task<> task) override { reactor_->run(std::move(task)); }
    Task<Result<std::unique_ptr<BlockDevice>>> open(Report& report) override {
        return PmemDevice::open(*reactor_, path_, options_, report);
    }

  private:
    PmemDeviceOptions options_;
    std::unique_ptr<OsReactor> reactor_;
    std::string directory_, path_;
};

ROS2S_BLOCK_DEVICE_CONTRACT(OrdinaryFile, [] {
    return std::make_unique<PmemSetup>(".", PmemDeviceOptions{.ordinary_file = true});
});

[[maybe_unused]] const bool memory_has_contract = [] {
    const char* const where = std::getenv("ROS2STORE_TEST_PMEM");
    return where == nullptr || contract::register_contract("Pmem", [where] {
               return std::make_unique<PmemSetup>(where, PmemDeviceOptions{});
           });
}();

}  // namespace
}  // namespace ros2s::device
