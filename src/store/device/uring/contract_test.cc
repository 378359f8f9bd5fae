// Files keep the contract of a device, over io_uring and over threads, with O_DIRECT and without,
// and in memory.
#include <stdlib.h>

#include <filesystem>

#include "ros2s/device/contract/contract.h"
#include "ros2s/device/uring/file_device.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s::device {
namespace {

class FileSetup final : public contract::Setup {
  public:
    // `place`: by default the working directory, because /tmp may not be on a disk.
    FileSetup(RingChoice ring, FileDeviceOptions options, const std::string& place = {})
        : options_(options), directory_(place + "ros2store-test-XXXXXX") {
        reactor_ = made_reactor({.ring = ring});
        if (mkdtemp(directory_.data()) == nullptr) std::abort();
        reactor_->run(create());
    }
    ~FileSetup() override { std::filesystem::remove_all(directory_); }
    Reactor& reactor() override { return *reactor_; }
    void run(Task<> task) override { reactor_->run(std::move(task)); }
    Task<Result<std::unique_ptr<BlockDevice>>> open(Report& report) override {
        return FileDevice::open(*reactor_, path(), options_, report);
    }

  private:
    std::string path() const { return directory_ + "/device-0"; }
    Task<> create() {
        Report report;
        const auto created =
            co_await create_file_device(*reactor_, path(), least_size, options_, {}, {}, report);
        if (!created) std::fprintf(stderr, "%s\n", report.text().c_str());
    }
    FileDeviceOptions options_;
    std::string directory_;
    std::unique_ptr<OsReactor> reactor_;
};

ROS2S_BLOCK_DEVICE_CONTRACT(FileOnUring, [] {
    return std::make_unique<FileSetup>(RingChoice::io_uring, FileDeviceOptions{});
});
ROS2S_BLOCK_DEVICE_CONTRACT(FileOnThreads, [] {
    return std::make_unique<FileSetup>(RingChoice::threads, FileDeviceOptions{});
});
ROS2S_BLOCK_DEVICE_CONTRACT(BufferedFileOnUring, [] {
    return std::make_unique<FileSetup>(RingChoice::io_uring, FileDeviceOptions{.buffered = true});
});
ROS2S_BLOCK_DEVICE_CONTRACT(FileInMemory, [] {
    return std::make_unique<FileSetup>(RingChoice::threads, FileDeviceOptions{}, "/dev/shm/");
});

}  // namespace
}  // namespace ros2s::device
