// The contract of FileSystem on DAOS: DaosFs over the library of plugins/daos, whose pool is
// embedded; and over DAOS's own libraries, where an agent answers.
//
// ROS2STORE_TEST_LIBDFS: the library. ROS2STORE_TEST_DAOS_POOL: the label of the pool, whose
// containers the test makes and removes. daos_contract.py sets them.
#include <daos.h>
#include <daos_fs.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cstdlib>

#include "ros2s/daos/daos_pool.h"
#include "ros2s/fs/contract/contract.h"

namespace ros2s::daos {
namespace {

std::string setting(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

const std::string library = setting("ROS2STORE_TEST_LIBDFS");
const std::string pool_label = setting("ROS2STORE_TEST_DAOS_POOL");
const bool is_real = !setting("ROS2STORE_TEST_REAL_DAOS").empty();

// Makes and removes containers, which DaosPool does not.
class Containers {
  public:
    static Containers& instance() {
        static Containers containers;
        return containers;
    }
    bool make(const std::string& label) {
        const auto create =
            function<decltype(&dfs_cont_create_with_label)>("dfs_cont_create_with_label");
        return create(pool_, label.c_str(), nullptr, nullptr, nullptr, nullptr) == 0;
    }
    void remove(const std::string& label) {
        // The name of the symbol since DAOS 1.3.
        const auto destroy = function<decltype(&daos_cont_destroy)>("daos_cont_destroy2");
        EXPECT_EQ(destroy(pool_, label.c_str(), 1, nullptr), 0);
    }

  private:
    Containers() : library_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        if (library_ == nullptr) std::abort();
        if (function<decltype(&daos_init)>("daos_init")() != 0) std::abort();
        const auto connect = function<decltype(&daos_pool_connect)>("daos_pool_connect2");
        if (connect(pool_label.c_str(), "daos_server", DAOS_PC_RW, &pool_, nullptr, nullptr) != 0) {
            std::abort();
        }
    }
    template <class F>
    F function(const char* name) {
        return reinterpret_cast<F>(::dlsym(library_, name));
    }
    void* library_;
    daos_handle_t pool_{};
};

class DaosSubject final : public fs::contract::Subject {
  public:
    explicit DaosSubject(uint64_t seed) : world_(seed) {
        static int count = 0;
        label_ = "contract" + std::to_string(::getpid()) + "-" + std::to_string(++count);
        EXPECT_TRUE(Containers::instance().make(label_));
        world_.run(start());
    }
    ~DaosSubject() override {
        fs_.reset();
        world_.run(pool_->close());
        Containers::instance().remove(label_);
    }
    fs::FileSystem& file_system() override { return *fs_; }
    sim::World& world() override { return world_; }
    // DAOS's servers have clocks of their own.
    void let_time_pass() override { (void)::poll(nullptr, 0, 5); }

  private:
    Task<> start() {
        Report report;
        auto connected = co_await DaosPool::connect(
            world_.core(), world_.blocking(), {.pool = pool_label, .library = library}, report);
        EXPECT_TRUE(connected) << report.text();
        pool_ = std::move(connected.value());
        auto opened = co_await pool_->open(label_, report);
        EXPECT_TRUE(opened) << report.text();
        fs_ = std::move(opened.value());
    }
    sim::World world_;
    std::string label_;
    std::unique_ptr<DaosPool> pool_;
    std::unique_ptr<fs::FileSystem> fs_;
};

fs::contract::Traits traits() {
    return {.clears_set_ids = false,
            .exact_space = false,
            .lacks = {},
            .hard_links = false,
            .nameless_files = false,
            .property_runs = 2};
}

const bool registered = fs::contract::register_contract(
    "DaosFs", traits(), [](uint64_t seed) { return std::make_unique<DaosSubject>(seed); });

}  // namespace
}  // namespace ros2s::daos
