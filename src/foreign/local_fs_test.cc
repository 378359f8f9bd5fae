// The contract of FileSystem on the machine's own file system: it checks the suite as much as it
// checks LocalFs.
#include "local_fs.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "ros2s/fs/contract/contract.h"

namespace ros2s::foreign {
namespace {

class TemporaryDirectory {
  public:
    TemporaryDirectory() {
        std::string pattern = std::filesystem::temp_directory_path() / "ros2store-test-XXXXXX";
        EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
        path_ = pattern;
    }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    ~TemporaryDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

Task<> open_into(std::string path, sim::World& world, std::unique_ptr<fs::FileSystem>& fs) {
    Report report;
    auto opened = co_await open_local_fs(path, world.core(), world.blocking(), report);
    EXPECT_TRUE(opened.has_value()) << report.text();
    if (opened) fs = std::move(*opened);
}

class LocalSubject final : public fs::contract::Subject {
  public:
    explicit LocalSubject(uint64_t seed) : world_(seed) {
        world_.run(open_into(directory_.path(), world_, fs_));
    }
    fs::FileSystem& file_system() override { return *fs_; }
    sim::World& world() override { return world_; }
    // The kernel stamps times by its tick.
    void let_time_pass() override { (void)::poll(nullptr, 0, 12); }

  private:
    TemporaryDirectory directory_;
    sim::World world_;
    std::unique_ptr<fs::FileSystem> fs_;
};

const bool registered = fs::contract::register_contract(
    "LocalFs",
    {.clears_set_ids = false, .exact_space = false, .xattr_bytes = 2000, .property_runs = 5},
    [](uint64_t seed) { return std::make_unique<LocalSubject>(seed); });

// ---- what only LocalFs has: a world outside

Task<Result<std::unique_ptr<fs::FileSystem>>> try_open(std::string path, sim::World& world,
                                                       Report& report) {
    return open_local_fs(std::move(path), world.core(), world.blocking(), report);
}

TEST(LocalFs, SaysWhyADirectoryCannotBeOpened) {
    const TemporaryDirectory directory;
    sim::World world(1);
    Report report;
    const auto opened = world.run(try_open(directory.path() + "/none", world, report));
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code, Code::not_found);
    EXPECT_NE(report.text().find("/none"), std::string::npos);
}

Task<> read_past_a_swapped_link(fs::FileSystem& fs, const std::string& path) {
    const Call call;
    const auto dir = co_await fs.lookup(call, fs::root_node, "dir");
    EXPECT_TRUE(dir.has_value());
    // Somebody replaces the directory by a link out of the tree: the node stays what it was.
    std::filesystem::rename(path + "/dir", path + "/moved");
    std::filesystem::create_symlink("/etc", path + "/dir");
    EXPECT_EQ((co_await fs.lookup(call, dir->node, "passwd")).error().code, Code::not_found);
    const auto link = co_await fs.lookup(call, fs::root_node, "dir");
    EXPECT_TRUE(S_ISLNK(link->mode));
    EXPECT_EQ((co_await fs.lookup(call, link->node, "passwd")).error().code, Code::not_directory);
    fs::ReadManyItem item{.name = "dir/passwd"};
    EXPECT_TRUE((co_await fs.read_many(call, fs::root_node, {&item, 1})).has_value());
    EXPECT_EQ(item.status.error().code, Code::loop);
}

TEST(LocalFs, NeverLeavesItsDirectory) {
    const TemporaryDirectory directory;
    std::filesystem::create_directory(directory.path() + "/dir");
    sim::World world(1);
    std::unique_ptr<fs::FileSystem> fs;
    world.run(open_into(directory.path(), world, fs));
    world.run(read_past_a_swapped_link(*fs, directory.path()));
    world.run(fs->close_all());
}

}  // namespace
}  // namespace ros2s::foreign
