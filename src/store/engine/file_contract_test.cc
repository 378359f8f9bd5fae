// The engine keeps the object contract in the product's set-up: files by O_DIRECT, RocksDB, real
// reactors and helper threads.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "engine_store.h"
#include "ros2s/base/check.h"
#include "ros2s/device/uring/file_device.h"
#include "ros2s/engine/index/rocksdb/rocksdb_index.h"
#include "ros2s/object/contract/contract.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::engine {
namespace {

using object::contract::Needs;

struct FileShape {
    size_t reactors = 1;
    // For tests that do not depend on the disk, which costs half a second a test.
    bool in_memory = false;
};

class FileSetup final : public object::contract::Setup {
  public:
    [[nodiscard]] bool is_in_real_time() const override { return true; }
    FileSetup(const Needs& needs, FileShape shape) : device_options_{.buffered = shape.in_memory} {
        // Beside the program: /tmp may be a file system without O_DIRECT.
        const std::filesystem::path parent =
            shape.in_memory ? "/dev/shm" : std::filesystem::current_path();
        std::string name = parent / "engine-test-XXXXXX";
        ROS2S_CHECK(::mkdtemp(name.data()) != nullptr);
        directory_ = name;
        reactor_ = OsReactor::create({}, report_).value();
        for (size_t i = 1; i < shape.reactors; ++i) {
            others_.push_back(OsReactor::create({}, report_).value());
            expect(others_.back()->start(report_));
            more_reactors_.push_back(others_.back().get());
        }
        blocking_ = std::make_unique<ThreadPool>(2);
        // Not fully written before, which only costs time later.
        const int fd = ::open(device_path().c_str(), O_RDWR | O_CREAT, 0600);
        const auto bytes = static_cast<off_t>(round_up(needs.capacity_bytes, block_bytes) +
                                              journal_bytes + 16 * block_bytes);
        ROS2S_CHECK(fd >= 0 && ::ftruncate(fd, bytes) == 0 && ::close(fd) == 0);
        expect(reactor_->run(make()));
        expect(reactor_->run(open()));
    }
    ~FileSetup() override {
        expect(reactor_->run(close()));
        blocking_.reset();
        others_.clear();
        reactor_.reset();
        std::filesystem::remove_all(directory_);
    }
    object::ObjectStore& store() override { return *store_; }
    Reactor& reactor() override { return *reactor_; }
    void run(Task<> task) override { reactor_->run(std::move(task)); }
    Task<bool> reopen() override {
        expect(co_await close());
        expect(co_await open());
        co_return true;
    }

  private:
    static constexpr uint64_t journal_bytes = 16 << 20;
    [[nodiscard]] std::string device_path() const { return directory_ + "/device-0"; }
    IndexFactory factory() {
        return [this](std::string_view name, bool create, Report& report) {
            const std::string path = directory_ + "/" + std::string(name);
            return create ? create_rocksdb_index(path, {}, report)
                          : open_rocksdb_index(path, {}, report);
        };
    }
    Task<Result<>> make() {
        const Environment env{*reactor_, *blocking_, {}, more_reactors_};
        ROS2S_CO_TRY_ASSIGN(auto device, co_await device::FileDevice::open(
                                             *reactor_, device_path(), device_options_, report_));
        device::BlockDevice* const pointer = device.get();
        const Result<> made =
            co_await EngineStore::create(env, {&pointer, 1}, factory(),
                                         {.journal_bytes = journal_bytes, .progress = {}}, report_);
        co_await device->close();
        co_return made;
    }
    Task<Result<>> open() {
        const Environment env{*reactor_, *blocking_, {}, more_reactors_};
        EngineStore::Devices devices;
        ROS2S_CO_TRY_ASSIGN(
            devices.emplace_back(),
            co_await device::FileDevice::open(*reactor_, device_path(), device_options_, report_));
        ROS2S_CO_TRY_ASSIGN(store_, co_await EngineStore::open(env, std::move(devices), factory(),
                                                               options_, report_));
        co_return Result<>();
    }
    Task<Result<>> close() {
        const Result<> closed = co_await store_->close();
        store_.reset();
        co_return closed;
    }
    void expect(const Result<>& result) {
        if (result) return;
        ADD_FAILURE() << describe(result.error()) << ": " << report_.text();
        std::abort();
    }

    Report report_;
    std::string directory_;
    device::FileDeviceOptions device_options_;
    EngineOptions options_;
    std::unique_ptr<OsReactor> reactor_;
    std::vector<std::unique_ptr<OsReactor>> others_;
    std::unique_ptr<ThreadPool> blocking_;
    std::vector<Reactor*> more_reactors_;
    std::unique_ptr<EngineStore> store_;
};

ROS2S_OBJECT_STORE_CONTRACT(EngineOnFiles, [](const Needs& needs) {
    return std::make_unique<FileSetup>(needs, FileShape{});
});
// Two threads. ThreadSanitizer checks the data that crosses between them.
ROS2S_OBJECT_STORE_CONTRACT(EngineOnTwoReactors, [](const Needs& needs) {
    return std::make_unique<FileSetup>(needs, FileShape{.reactors = 2, .in_memory = true});
});

}  // namespace
}  // namespace ros2s::engine
