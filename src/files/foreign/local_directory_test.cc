// The contract of FileSystem on the machine's own file system: it tests the suite as well as
// LocalDirectory.
#include "open_local_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

#include "ros2s/fs/contract/contract.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::foreign {
namespace {

using namespace std::chrono_literals;

class TemporaryDirectory {
  public:
    TemporaryDirectory() {
        std::string pattern = std::filesystem::temp_directory_path() / "ros2store-test-XXXXXX";
        EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
        path_ = pattern;
    }
    TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
    ~TemporaryDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

Task<> open_into(std::string path, sim::World& world, std::unique_ptr<fs::FileSystem>& fs,
                 LocalDirectoryOptions options = {}) {
    Report report;
    auto opened =
        co_await open_local_directory(path, world.core(), world.blocking(), report, options);
    EXPECT_TRUE(opened.has_value()) << report.text();
    if (opened) fs = std::move(*opened);
}

class LocalSubject final : public fs::contract::Subject {
  public:
    explicit LocalSubject(uint64_t seed, LocalDirectoryOptions options = {}) : world_(seed) {
        world_.run(open_into(directory_.path(), world_, fs_, options));
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
    "LocalDirectory",
    {.clears_set_ids = false,
     .exact_space = false,
     .xattr_bytes = 2000,
     .whiteouts = fs::contract::directories_have_whiteouts(),
     .node_flags = false,
     .access_lists = false,
     .locks = false,
     .property_runs = 5},
    [](uint64_t seed) { return std::make_unique<LocalSubject>(seed); });

const char* const too_few = "the node's descriptor is closed when another node is used";

const bool registered_with_few_descriptors = fs::contract::register_contract(
    "LocalDirectoryFewDescriptors",
    {.clears_set_ids = false,
     .exact_space = false,
     .xattr_bytes = 2000,
     .lacks = {{"ReplacedFileIsUsableForAWhile", too_few},
               {"RemovedFileIsUsableForAWhile", too_few},
               {"ReplacedDirectoryIsUsableForAWhile", too_few},
               {"RemovedDirectoryIsUsableForAWhile", too_few}},
     .whiteouts = fs::contract::directories_have_whiteouts(),
     .node_flags = false,
     .access_lists = false,
     .locks = false,
     .property_runs = 1},
    [](uint64_t seed) {
        return std::make_unique<LocalSubject>(seed, LocalDirectoryOptions{.descriptors_max = 1});
    });

// ---- only LocalDirectory: tenants share threads

class LocalDirectoryTenantThreads : public testing::Test {
  protected:
    static constexpr uint64_t other = 1, mine = 2;
    static std::optional<Code> error_of(const Result<>& done) {
        return done ? std::nullopt : std::optional(done.error().code);
    }
    static Task<> open(LocalDirectoryTenantThreads& self, Call call, Result<>& done) {
        Report report;
        auto opened = co_await open_local_directory(self.directory.path(), self.world.core(),
                                                    self.world.blocking(), report,
                                                    {.turns = &self.turns}, call);
        if (opened) self.fs = std::move(*opened);
        done = opened ? Result<>() : fail(opened.error());
    }
    static Task<> make(LocalDirectoryTenantThreads& self, Call call, Result<>& done) {
        const auto made = co_await self.fs->mkdir(call, fs::root_node, "made", 0755, {});
        done = made ? Result<>() : fail(made.error());
    }
    static Task<> open_root(LocalDirectoryTenantThreads& self, fs::FileHandle& handle) {
        const auto opened = co_await self.fs->open({}, fs::root_node, {.read = true});
        EXPECT_TRUE(opened);
        if (opened) handle = opened->handle;
    }
    static Task<> close(LocalDirectoryTenantThreads& self, Call call, fs::FileHandle handle,
                        Result<>& done) {
        done = co_await self.fs->close(call, handle);
    }
    Task<> let_pass() { (void)co_await sleep_for(world.core(), 100ms); }
    // Runs `work` while another tenant has the only thread, and for long.
    Task<> beside_a_hung_call(Task<> work, Result<>& done, Code meanwhile = Code::busy) {
        done = fail(Code::busy);
        {
            const auto place = co_await turns.enter({}, other);
            co_await calls.spawn(std::move(work));
            co_await let_pass();
            EXPECT_EQ(error_of(done), meanwhile) << "busy: it waits for a thread";
        }
        co_await calls.join();
    }
    [[nodiscard]] Call soon() { return {.deadline = world.core().now() + 10ms, .tenant = mine}; }

    TemporaryDirectory directory;
    sim::World world{1};
    ThreadTurns turns{world.core(), 1};
    Nursery calls{world.core(), 16};
    std::unique_ptr<fs::FileSystem> fs;

  public:
    Task<> waits_to_open() {
        Result<> done;
        co_await beside_a_hung_call(open(*this, {.tenant = mine}, done), done);
        EXPECT_TRUE(done);
    }
    Task<> does_not_begin_late() {
        Result<> done;
        co_await beside_a_hung_call(open(*this, soon(), done), done, Code::deadline);
        EXPECT_EQ(error_of(done), Code::deadline);
        co_await open(*this, {.tenant = mine}, done);
        EXPECT_TRUE(done);
        co_await beside_a_hung_call(make(*this, soon(), done), done, Code::deadline);
        EXPECT_EQ(error_of(done), Code::deadline);
        EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
    }
    // It does not wait until the hung call ends.
    Task<> ends_when_it_is_stopped() {
        Result<> done;
        co_await open(*this, {.tenant = mine}, done);
        EXPECT_TRUE(done);
        done = fail(Code::busy);
        StopSource stop;
        {
            const auto hung = co_await turns.enter({}, other);
            co_await calls.spawn(make(*this, {.stop = stop.token(), .tenant = mine}, done));
            co_await let_pass();
            EXPECT_EQ(error_of(done), Code::busy) << "it did not wait for a thread";
            stop.request_stop();
            co_await let_pass();
            EXPECT_EQ(error_of(done), Code::cancelled);
        }
        co_await calls.join();
        EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
    }
    Task<> closes_late() {
        Result<> done;
        fs::FileHandle handle{};
        co_await open(*this, {.tenant = mine}, done);
        co_await open_root(*this, handle);
        co_await beside_a_hung_call(close(*this, soon(), handle, done), done);
        EXPECT_TRUE(done);
    }
};

TEST_F(LocalDirectoryTenantThreads, OpenUsesAThreadOfItsTenant) {
    world.run(waits_to_open());
    world.run(fs->close_all());
}
// A request that ended while it waited for a thread.
TEST_F(LocalDirectoryTenantThreads, RequestEndedBeforeItsThreadIsNotDone) {
    world.run(does_not_begin_late());
    world.run(fs->close_all());
}
TEST_F(LocalDirectoryTenantThreads, StoppedRequestLeavesTheQueue) {
    world.run(ends_when_it_is_stopped());
    world.run(fs->close_all());
}
TEST_F(LocalDirectoryTenantThreads, LateCloseStillClosesTheFile) {
    world.run(closes_late());
    world.run(fs->close_all());
}

// ---- only LocalDirectory: changes from outside

Task<Result<std::unique_ptr<fs::FileSystem>>> try_open(std::string path, sim::World& world,
                                                       Report& report) {
    return open_local_directory(std::move(path), world.core(), world.blocking(), report);
}

TEST(LocalDirectory, MissingDirectoryIsReported) {
    const TemporaryDirectory directory;
    sim::World world(1);
    Report report;
    const auto opened = world.run(try_open(directory.path() + "/none", world, report));
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code, Code::not_found);
    EXPECT_NE(report.text().find("/none"), std::string::npos);
}

// The owner of a directory that is served could have others read /etc.
TEST(LocalDirectory, LinkOfAnotherUserIsNotFollowed) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
    const TemporaryDirectory directory;
    sim::World world(1);
    const std::string theirs = directory.path() + "/theirs", link = theirs + "/link";
    ASSERT_EQ(::mkdir(theirs.c_str(), 0777), 0);
    ASSERT_EQ(::chown(theirs.c_str(), 12345, 12345), 0);
    ASSERT_EQ(::symlink("/etc", link.c_str()), 0);
    Report report;
    for (const std::string& path : {theirs, link}) {
        const auto opened = world.run(try_open(path, world, report));
        ASSERT_TRUE(opened.has_value()) << report.text();
        world.run((*opened)->close_all());
    }
    ASSERT_EQ(::lchown(link.c_str(), 12345, 12345), 0);
    EXPECT_EQ(world.run(try_open(link, world, report)).error().code, Code::denied);
    EXPECT_NE(report.text().find("belongs to another user (uid 12345)"), std::string::npos);
}

Task<> descend(fs::FileSystem& fs, size_t& depth) {
    const Call call;
    fs::NodeId node = fs::root_node;
    for (;; ++depth) {
        const auto below = co_await fs.lookup(call, node, "d");
        if (!below) {
            EXPECT_EQ(below.error().code, Code::name_too_long);
            break;
        }
        node = below->node;
    }
    EXPECT_EQ((co_await fs.mkdir(call, node, "e", 0755, {})).error().code, Code::name_too_long);
    EXPECT_TRUE(co_await fs.get_attributes(call, node));
    const auto shallow = co_await fs.mkdir(call, fs::root_node, "shallow", 0755, {});
    EXPECT_TRUE(shallow);
    EXPECT_EQ((co_await fs.rename(call, fs::root_node, "shallow", node, "s", {})).error().code,
              Code::name_too_long);
    const fs::FileSystem::RenameFlags exchange{.exchange = true};
    EXPECT_EQ(
        (co_await fs.rename(call, node, "d", fs::root_node, "shallow", exchange)).error().code,
        Code::name_too_long);
    EXPECT_TRUE(co_await fs.lookup(call, fs::root_node, "shallow"));
    // What is there can be removed.
    EXPECT_EQ((co_await fs.rmdir(call, node, "d")).error().code, Code::not_empty);
    co_await fs.close_all();
}

// 1,200 directories, each in the one before.
void make_deep(const std::string& path) {
    int above = ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 1200; ++i) {
        ASSERT_EQ(::mkdirat(above, "d", 0755), 0);
        const int below = ::openat(above, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
        ::close(above);
        above = below;
    }
    ::close(above);
}

// Otherwise each node of a tenant's deep tree would cost as many system calls as it has parents, on
// threads that all tenants share.
TEST(LocalDirectory, TreeDepthIsBounded) {
    const TemporaryDirectory directory;
    make_deep(directory.path());
    sim::World world(1);
    std::unique_ptr<fs::FileSystem> fs;
    world.run(open_into(directory.path(), world, fs, {.descriptors_max = 1}));
    size_t depth = 0;
    world.run(descend(*fs, depth));
    EXPECT_EQ(depth, 1024U);
}

// The root and three others.
Task<> find_more_than_fits(fs::FileSystem& fs, const std::string& path) {
    const Call call;
    std::vector<fs::NodeId> found;
    for (const char* const name : {"0", "1", "2"}) {
        const auto there = co_await fs.lookup(call, fs::root_node, name);
        EXPECT_TRUE(there);
        if (there) found.push_back(there->node);
    }
    EXPECT_EQ(found.size(), 3U);
    if (found.size() != 3) co_return;
    const auto refused = co_await fs.lookup(call, fs::root_node, "3");
    EXPECT_EQ(refused.error().code, Code::busy);
    EXPECT_EQ(refused.error().detail, 4U);
    const std::vector<std::string_view> names{"3"};
    EXPECT_EQ((co_await fs.lookup_many(call, fs::root_node, names))[0].error().code, Code::busy);
    EXPECT_EQ((co_await fs.look_up_names(call, fs::root_node, names))[0].error().code, Code::busy);
    // A directory that has a node can be found and renamed.
    EXPECT_TRUE(co_await fs.lookup(call, fs::root_node, "1"));
    EXPECT_TRUE(co_await fs.link(call, found[0], fs::root_node, "linked"));
    const auto opened = co_await fs.create(call, fs::root_node, "1", 0644, {.write = true}, {});
    EXPECT_TRUE(opened);
    if (opened) {
        EXPECT_TRUE(co_await fs.close(call, opened->handle));
        fs.forget(opened->attributes.node, 1);
    }
    // Nothing is created whose path would be too long.
    EXPECT_EQ((co_await fs.mkdir(call, fs::root_node, "new", 0755, {})).error().code, Code::busy);
    EXPECT_EQ((co_await fs.mknod(call, fs::root_node, "new", S_IFREG, 0, {})).error().code,
              Code::busy);
    EXPECT_EQ((co_await fs.symlink(call, fs::root_node, "new", "0", {})).error().code, Code::busy);
    EXPECT_EQ(
        (co_await fs.create(call, fs::root_node, "new", 0644, {.write = true}, {})).error().code,
        Code::busy);
    EXPECT_FALSE(std::filesystem::exists(path + "/new"));
    fs.forget(found[2], 1);
    EXPECT_TRUE(co_await fs.mkdir(call, fs::root_node, "new", 0755, {}));
    co_await fs.close_all();
}

// Only this counts the directories above those that a client refers to.
TEST(LocalDirectory, NumberOfNodesIsBounded) {
    const TemporaryDirectory directory;
    for (const char* const name : {"0", "1", "2", "3"}) {
        std::ofstream(directory.path() + "/" + name) << name;
    }
    sim::World world(1);
    std::unique_ptr<fs::FileSystem> fs;
    world.run(open_into(directory.path(), world, fs, {.nodes_max = 4}));
    world.run(find_more_than_fits(*fs, directory.path()));
}

Task<> read_past_a_swapped_link(fs::FileSystem& fs, const std::string& path) {
    const Call call;
    const auto dir = co_await fs.lookup(call, fs::root_node, "dir");
    EXPECT_TRUE(dir.has_value());
    // Another program replaces the directory by a link out of the tree: the node stays the same.
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

// Mounts below are not entered unless requested. /proc is mounted wherever this runs.
Task<> look_into_a_mount(fs::FileSystem& fs, bool enters) {
    const Call call;
    const auto proc = co_await fs.lookup(call, fs::root_node, "proc");
    fs::ReadManyItem item{.name = "proc/version"};
    EXPECT_TRUE((co_await fs.read_many(call, fs::root_node, {&item, 1})).has_value());
    if (enters) {
        EXPECT_TRUE(proc.has_value() && item.status.has_value());
        co_return;
    }
    EXPECT_EQ(proc.error().os_errno, EXDEV);
    EXPECT_EQ(item.status.error().os_errno, EXDEV);
}

TEST(LocalDirectory, MountPointIsEnteredOnlyIfAllowed) {
    for (const bool enters : {false, true}) {
        sim::World world(1);
        std::unique_ptr<fs::FileSystem> fs;
        world.run(open_into("/", world, fs, {.enters_mounts = enters}));
        world.run(look_into_a_mount(*fs, enters));
        world.run(fs->close_all());
    }
}

Task<> ask_what_was_sent_before(fs::FileSystem& fs) {
    const UpdateName name{.client = {}, .slot = 1, .sequence = 1};
    const Call again{.update = &name, .repeated = true};
    const Call first;
    EXPECT_EQ((co_await fs.mkdir(again, fs::root_node, "d", 0755, {})).error().code, Code::stale);
    EXPECT_EQ((co_await fs.unlink(again, fs::root_node, "f")).error().code, Code::stale);
    const auto file =
        co_await fs.create(first, fs::root_node, "f", 0644, {.write = true, .append = true}, {});
    EXPECT_TRUE(file.has_value());
    const auto bytes = fs::Window::local(as_bytes("x"));
    EXPECT_TRUE((co_await fs.pwrite(first, file->handle, bytes, 0)).has_value());
    EXPECT_EQ((co_await fs.pwrite(again, file->handle, bytes, 0)).error().code, Code::stale);
    EXPECT_EQ((co_await fs.get_attributes(first, file->attributes.node))->size, 1U);
}

// It is unknown whether the change was made. A repeated append would write twice, and a repeated
// removal might remove another program's new file.
TEST(LocalDirectory, RepeatedChangeIsRefused) {
    const TemporaryDirectory directory;
    sim::World world(1);
    std::unique_ptr<fs::FileSystem> fs;
    world.run(open_into(directory.path(), world, fs));
    world.run(ask_what_was_sent_before(*fs));
    world.run(fs->close_all());
}

Task<> keep_a_node(fs::FileSystem& fs, fs::NodeId& node) {
    const Call call;
    const auto made = co_await fs.mkdir(call, fs::root_node, "kept", 0755, {});
    EXPECT_TRUE(made.has_value());
    node = made->node;
}
Task<> ask_for_a_node(fs::FileSystem& fs, fs::NodeId node) {
    const Call call;
    EXPECT_TRUE((co_await fs.lookup(call, fs::root_node, "other")).has_value());
    EXPECT_EQ((co_await fs.get_attributes(call, node)).error().code, Code::stale);
}

// The number of an earlier process's node must not lead to another file.
TEST(LocalDirectory, NodeOfAnotherProcessIsStale) {
    const TemporaryDirectory directory;
    std::filesystem::create_directory(directory.path() + "/other");
    fs::NodeId node{};
    for (const uint64_t seed : {1, 2}) {
        sim::World world(seed);
        std::unique_ptr<fs::FileSystem> fs;
        world.run(open_into(directory.path(), world, fs));
        world.run(seed == 1 ? keep_a_node(*fs, node) : ask_for_a_node(*fs, node));
        world.run(fs->close_all());
    }
}

TEST(LocalDirectory, FileSystemKindComesFromKernel) {
    EXPECT_EQ(file_system_kind("/proc"), Result<std::string>("proc"));
    EXPECT_EQ(file_system_kind("/none/such").error().code, Code::not_found);
}

TEST(LocalDirectory, SwappedLinkNeverLeavesTheDirectory) {
    const TemporaryDirectory directory;
    std::filesystem::create_directory(directory.path() + "/dir");
    sim::World world(1);
    std::unique_ptr<fs::FileSystem> fs;
    world.run(open_into(directory.path(), world, fs));
    world.run(read_past_a_swapped_link(*fs, directory.path()));
    world.run(fs->close_all());
}

// ---- descriptors

size_t descriptors() {
    const auto listed = std::filesystem::directory_iterator("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(listed), end(listed)));
}

Task<> look_up_many(fs::FileSystem& fs, uint32_t count) {
    const Call call;
    const auto below = co_await fs.mkdir(call, fs::root_node, "below", 0755, {});
    std::vector<fs::NodeId> nodes;
    for (uint32_t i = 0; i < count; ++i) {
        const auto made =
            co_await fs.mknod(call, below->node, std::to_string(i), S_IFREG | 0644, 0, {});
        EXPECT_TRUE(made.has_value()) << describe(made.error());
        if (!made) co_return;
        nodes.push_back(made->node);
    }
    for (const fs::NodeId node : nodes) {
        const auto attributes = co_await fs.get_attributes(call, node);
        EXPECT_TRUE(attributes && attributes->node == node);
    }
    // Names change; the nodes stay the same.
    EXPECT_TRUE(co_await fs.rename(call, fs::root_node, "below", fs::root_node, "moved", {}));
    EXPECT_TRUE(co_await fs.rename(call, below->node, "0", fs::root_node, "first", {}));
    EXPECT_TRUE(co_await fs.rename(call, below->node, "1", below->node, "2", {.exchange = true}));
    for (const fs::NodeId node : nodes) {
        EXPECT_EQ((co_await fs.get_attributes(call, node))->node, node);
    }
    EXPECT_EQ((co_await fs.lookup(call, below->node, "1"))->node, nodes[2]);
    for (const fs::NodeId node : nodes) fs.forget(node, 2);
}

// Earlier, each look-up took a descriptor, until there were none left.
TEST(LocalDirectory, LookupsUseBoundedDescriptors) {
    const TemporaryDirectory directory;
    sim::World world(1);
    std::unique_ptr<fs::FileSystem> fs;
    world.run(open_into(directory.path(), world, fs, {.descriptors_max = 50}));
    const size_t before = descriptors();
    world.run(look_up_many(*fs, 1000));
    EXPECT_LE(descriptors(), before + 52);
    world.run(fs->close_all());
}

Task<> replace_a_file(fs::FileSystem& fs, const std::string& path) {
    const Call call;
    const auto old = co_await fs.mknod(call, fs::root_node, "f", S_IFREG | 0644, 0, {});
    EXPECT_TRUE(co_await fs.mknod(call, fs::root_node, "g", S_IFREG | 0644, 0, {}));
    EXPECT_TRUE(co_await fs.get_attributes(call, old->node));
    // A later file with its name, perhaps with its inode number, which some file systems reuse at
    // once.
    for (int i = 0; i < 20; ++i) {
        std::filesystem::remove(path + "/f");
        std::ofstream(path + "/f") << "another one";
        EXPECT_TRUE(co_await fs.lookup(call, fs::root_node, "g"));
        EXPECT_EQ((co_await fs.get_attributes(call, old->node)).error().code, Code::stale);
        EXPECT_NE((co_await fs.lookup(call, fs::root_node, "f"))->node, old->node);
    }
}

TEST(LocalDirectory, ReplacedFileIsAnotherNode) {
    const TemporaryDirectory directory;
    sim::World world(1);
    std::unique_ptr<fs::FileSystem> fs;
    world.run(open_into(directory.path(), world, fs, {.descriptors_max = 1}));
    world.run(replace_a_file(*fs, directory.path()));
    world.run(fs->close_all());
}

// Limits the size of the process's files, as on a full disk.
class FileBytesMax {
  public:
    explicit FileBytesMax(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
        const rlimit less{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
        EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &less), 0);
    }
    ~FileBytesMax() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        (void)std::signal(SIGXFSZ, handler_);
    }
    FileBytesMax& operator=(FileBytesMax&&) = delete;

  private:
    void (*handler_)(int);
    rlimit before_{};
};

Task<> append_more_than_fits(fs::FileSystem& fs) {
    constexpr size_t most = 100 << 10;
    const Call call;
    const auto log =
        co_await fs.create(call, fs::root_node, "log", 0644, {.write = true, .append = true}, {});
    EXPECT_TRUE(log.has_value());
    if (!log) co_return;
    const std::string text(2 * most, 'x');
    const auto append = [&](size_t from) {
        const std::string_view rest = std::string_view(text).substr(from);
        return fs.pwrite(call, log->handle, fs::Window::local(as_bytes(rest)), 0);
    };
    Result<uint64_t> whole, rest;
    {
        const FileBytesMax limit(most);
        whole = co_await append(0);
        rest = co_await append(most);
    }
    EXPECT_EQ(whole, Result<uint64_t>(most));
    EXPECT_TRUE(!rest && rest.error().os_errno == EFBIG);
    EXPECT_EQ((co_await fs.get_attributes(call, log->attributes.node))->size, most);
    EXPECT_TRUE(co_await fs.close(call, log->handle));
}

// A caller that got only the error would append the beginning again.
TEST(LocalDirectory, PartialWriteReportsBytesWritten) {
    const TemporaryDirectory directory;
    sim::World world(1);
    std::unique_ptr<fs::FileSystem> fs;
    world.run(open_into(directory.path(), world, fs));
    world.run(append_more_than_fits(*fs));
    world.run(fs->close_all());
}

// A host that chooses the owner of a new file must not get a file of this process's user, who may
// be root.
Task<> give_owners(fs::FileSystem& fs) {
    const Call call;
    const fs::Owner owners[] = {{0, 0}, {UINT32_MAX, UINT32_MAX}, {7, UINT32_MAX}, {UINT32_MAX, 7}};
    for (size_t i = 0; i < std::size(owners); ++i) {
        const std::string name = std::to_string(i);
        const auto made =
            co_await fs.mknod(call, fs::root_node, name, S_IFREG | 0755, 0, owners[i]);
        EXPECT_TRUE(made) << describe(made.error());
        if (!made) co_return;
        EXPECT_EQ(made->uid, owners[i].uid == 7 ? 7 : fs::nobody) << i;
        EXPECT_EQ(made->gid, owners[i].gid == 7 ? 7 : fs::nobody) << i;
        const auto again = co_await fs.set_attributes(call, made->node,
                                                      {.uid = owners[i].uid, .gid = owners[i].gid});
        EXPECT_TRUE(again && again->uid != 0 && again->gid != 0) << i;
    }
}

TEST(LocalDirectory, DaemonPrivilegesAreNotPassedOn) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
    const TemporaryDirectory directory;
    sim::World world(1);
    std::unique_ptr<fs::FileSystem> fs;
    world.run(open_into(directory.path(), world, fs, {.gives_no_power = true}));
    world.run(give_owners(*fs));
    world.run(fs->close_all());
}

}  // namespace
}  // namespace ros2s::foreign
