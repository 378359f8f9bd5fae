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
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"

namespace ros2s::daos {
namespace {

std::string setting(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

const std::string library = setting("ROS2STORE_TEST_LIBDFS");
const std::string pool_label = setting("ROS2STORE_TEST_DAOS_POOL");

// Makes and removes containers. DaosPool does not.
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
        auto opened = co_await pool_->open({}, label_, report);
        EXPECT_TRUE(opened) << report.text();
        fs_ = std::move(opened.value());
    }
    sim::World world_;
    std::string label_;
    std::unique_ptr<DaosPool> pool_;
    std::unique_ptr<fs::FileSystem> fs_;
};

// docs/daos.md has the reasons.
std::map<std::string, std::string> lacks() {
    std::map<std::string, std::string> cases;
    for (const char* name :
         {"LinkCountFollowsTheNames", "LinkUpdatesTheChangeTime", "LinkToASymlinkIsNotFollowed",
          "ConcurrentLinksAreAllCounted", "LinkedNamesShareOneFile",
          "UnlinkOfLinkedAndOpenFilesSucceeds", "RenameOntoALinkOfTheFileKeepsBothNames",
          "ReplacedFileKeepsItsOtherName", "RenameAndLinkKeepAttributes"}) {
        cases[name] = "DAOS has no hard links";
    }
    for (const char* name :
         {"DeviceNumbersAreStored", "MknodCreatesEachType", "OpenOfASpecialNodeIsRefused"}) {
        cases[name] = "DAOS has no FIFOs, sockets and devices";
    }
    // The library of plugins/daos counts written bytes.
    if (!setting("ROS2STORE_TEST_REAL_DAOS").empty()) {
        for (const char* name :
             {"WriteAtOneTebibyteUsesLittleSpace", "PunchFreesSpace", "OnlyWrittenBytesUseSpace"}) {
            cases[name] = "DAOS tells a file's size as its used bytes";
        }
        for (const char* name : {"RenameUpdatesTheChangeTime", "NewFileHasTheCurrentTime",
                                 "TruncateFlagUpdatesTheTimesOfAnEmptyFile"}) {
            cases[name] = "DAOS has times of its own";
        }
    }
    for (const char* name : {"SettingOneTimeKeepsTheOther", "TimesKeepNanoseconds"}) {
        cases[name] = "DAOS keeps no times of access";
    }
    for (const char* name : {"RemovedOpenDirectoryIsUsable", "ReplacedOpenDirectoryIsUsable",
                             "LinkToAnUnlinkedFileIsRefused", "UnlinkedOpenFileIsUsable",
                             "UnlinkedFileEndsWithItsLastHandle", "OpenDuringUnlinkIsWholeOrStale",
                             "ReplacedOpenFileIsUsable"}) {
        cases[name] = "an object of DAOS ends with its name";
    }
    return cases;
}

fs::contract::Traits traits() {
    return {.clears_set_ids = false,
            .exact_space = false,
            .finds_holes = false,
            .lacks = lacks(),
            .hard_links = false,
            .special_nodes = false,
            .whiteouts = false,
            .node_flags = false,
            .access_lists = false,
            .sticky_bit = false,
            .locks = false,
            .nameless_files = false,
            .property_runs = 2};
}

const bool registered = fs::contract::register_contract(
    "DaosFs", traits(), [](uint64_t seed) { return std::make_unique<DaosSubject>(seed); });

CO_TEST(DaosFs, MissingDaosFeatureIsRefused, DaosSubject, subject, 1) {
    const Call call;
    auto& fs = subject.file_system();
    using namespace fs;
    const auto file = co_await fs.create(call, root_node, "file", 0644, {.write = true}, {});
    EXPECT_TRUE(file);
    const NodeId node = file->attributes.node;
    EXPECT_EQ((co_await fs.link(call, node, root_node, "other")).error().code, Code::unsupported);
    for (const mode_t type : {S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK}) {
        EXPECT_EQ((co_await fs.mknod(call, root_node, "node", type | 0644, 0, {})).error().code,
                  Code::unsupported);
    }
    EXPECT_EQ((co_await fs.set_attributes(call, node, {.mode = 01644})).error().code,
              Code::unsupported);
    EXPECT_EQ((co_await fs.mkdir(call, root_node, "sticky", 01777, {})).error().code,
              Code::unsupported);
    EXPECT_EQ((co_await fs.lookup(call, root_node, "sticky")).error().code, Code::not_found);
    // An object without a name cannot be written or read.
    std::string text = "text";
    const Window window = Window::local(std::as_writable_bytes(std::span(text)));
    EXPECT_EQ(co_await fs.pwrite(call, file->handle, window, 0), Result<uint64_t>(4));
    EXPECT_TRUE(co_await fs.unlink(call, root_node, "file"));
    EXPECT_EQ((co_await fs.pwrite(call, file->handle, window, 0)).error().code, Code::stale);
    EXPECT_EQ((co_await fs.pread(call, file->handle, window, 0)).error().code, Code::stale);
    EXPECT_EQ((co_await fs.punch_hole(call, file->handle, 0, 1)).error().code, Code::stale);
    EXPECT_EQ((co_await fs.get_attributes(call, node)).error().code, Code::stale);
    EXPECT_TRUE(co_await fs.close(call, file->handle));
    co_await fs.close_all();
}

Task<> set_size(fs::FileSystem& fs, fs::NodeId node, uint64_t size) {
    const Call call;
    const fs::SetAttributes changes{.size = size};
    EXPECT_TRUE(co_await fs.set_attributes(call, node, changes));
}

Task<> write_byte(fs::FileSystem& fs, fs::FileHandle file, std::string byte) {
    const Call call;
    const auto window = fs::Window::local(std::as_writable_bytes(std::span(byte)));
    EXPECT_EQ(co_await fs.pwrite(call, file, window, 0), Result<uint64_t>(1));
}

// libdfs loses the first byte of a chunk when the file is truncated behind it, so the byte is read
// and written again.
CO_TEST(DaosFs, WriteSurvivesTruncationBehindIt, DaosSubject, subject, 1) {
    const Call call;
    auto& fs = subject.file_system();
    using namespace fs;
    const auto file =
        co_await fs.create(call, root_node, "file", 0644, {.read = true, .write = true}, {});
    EXPECT_TRUE(file);
    const NodeId node = file->attributes.node;
    for (int i = 0; i < 200; ++i) {
        co_await write_byte(fs, file->handle, "a");
        co_await set_size(fs, node, 10'000);
        {
            Nursery nursery(subject.world().core(), 2);
            if (i % 2 == 0) co_await nursery.spawn(set_size(fs, node, 1));
            co_await nursery.spawn(write_byte(fs, file->handle, "b"));
            if (i % 2 != 0) co_await nursery.spawn(set_size(fs, node, 1));
            co_await nursery.join();
        }
        std::string byte(1, ' ');
        const auto window = Window::local(std::as_writable_bytes(std::span(byte)));
        EXPECT_EQ(co_await fs.pread(call, file->handle, window, 0), Result<uint64_t>(1));
        EXPECT_EQ(byte, "b") << i;
    }
    EXPECT_TRUE(co_await fs.close(call, file->handle));
    co_await fs.close_all();
}

Task<Code> code_of_connecting(sim::World& world, PoolOptions options, Report& report) {
    const auto opened =
        co_await DaosPool::connect(world.core(), world.blocking(), std::move(options), report);
    co_return opened ? Code::exists : opened.error().code;
}

TEST(DaosFs, FailedConnectIsExplained) {
    sim::World world(1);
    Report none;
    EXPECT_EQ(world.run(code_of_connecting(
                  world, {.pool = pool_label, .library = "/nowhere/libdfs.so"}, none)),
              Code::unsupported);
    EXPECT_NE(none.text().find("DAOS needs the library /nowhere/libdfs.so, which cannot be loaded"),
              std::string::npos)
        << none.text();
    Report other;
    EXPECT_EQ(
        world.run(code_of_connecting(world, {.pool = pool_label, .library = "libm.so.6"}, other)),
        Code::unsupported);
    EXPECT_NE(other.text().find("has no function daos_init"), std::string::npos) << other.text();
    Report label;
    EXPECT_EQ(world.run(code_of_connecting(world, {.pool = "no:label", .library = library}, label)),
              Code::not_found);
    EXPECT_NE(label.text().find("'no:label' of the system 'daos_server' cannot be opened"),
              std::string::npos)
        << label.text();
}

}  // namespace
}  // namespace ros2s::daos
