// The server with a real kernel: Dfs over memory is mounted, and used from other processes.
#include "server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "mount_point.h"
#include "ros2s/foreign/open_local_directory.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/test_support/made_reactor.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::fuse {
namespace {

bool can_mount() { return ::access("/dev/fuse", R_OK | W_OK) == 0; }

class TemporaryDirectory {
  public:
    TemporaryDirectory() {
        char name[] = "/tmp/ros2store-fuse.XXXXXX";
        path_ = ::mkdtemp(name);
    }
    ~TemporaryDirectory() { ::rmdir(path_.c_str()); }
    TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

// Requests of the last mount.
uint64_t requests_taken = 0;

// Mounts `file_system`, runs the shell command with $MOUNT set, and unmounts. Returns the command's
// exit status.
Task<int> run_in_mount(OsReactor& reactor, BlockingPool& blocking, fs::FileSystem& file_system,
                       Sharing sharing, std::string command) {
    const TemporaryDirectory directory;
    Report report;
    Server server(file_system, reactor, blocking,
                  {.mount_point = directory.path(),
                   .source = "test,with comma",
                   .sharing = sharing,
                   .allow_other = ::geteuid() == 0});
    EXPECT_EQ(::chmod(directory.path().c_str(), 0755), 0);
    const auto mounted = server.mount(report);
    EXPECT_TRUE(mounted) << report.text();
    if (!mounted) co_return -1;
    Nursery nursery(reactor, 1);
    co_await nursery.spawn(server.serve());
    co_await server.ready();
    const std::string line = "MOUNT=" + directory.path() + "; " + command;
    const auto status =
        co_await blocking.run(reactor, [&line] { return Result<int>(std::system(line.c_str())); });
    const auto unmounted =
        co_await blocking.run(reactor, [&directory] { return unmount_cleanly(directory.path()); });
    EXPECT_TRUE(unmounted) << "the mount point is still in use";
    if (!unmounted) server.stop();
    co_await nursery.join();
    requests_taken = server.requests_taken();
    EXPECT_GT(requests_taken, 0u);
    co_return status.value_or(-1);
}

// Just before the file is extended, another client writes its byte 9999.
class OvertakenStore final : public object::ForwardingStore {
  public:
    using ForwardingStore::ForwardingStore;
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override {
        using Kind = object::Operation::Kind;
        for (const object::Operation& operation : transaction.operations) {
            const bool last_byte = operation.kind == Kind::write && operation.extent.length == 1;
            if (overtaken_ || (operation.kind != Kind::set_size && !last_byte)) continue;
            overtaken_ = true;
            object::Transaction others;
            others.operations.push_back({.kind = Kind::write,
                                         .object = operation.object,
                                         .dkey = operation.dkey,
                                         .akey = operation.akey,
                                         .extent = {9999, 1},
                                         .window = object::Window::local(as_bytes("x"))});
            ROS2S_CO_TRY(co_await below().update(call, container, others));
        }
        co_return co_await below().update(call, container, transaction);
    }

  private:
    bool overtaken_ = false;
};

// Writes of 8 bytes take 300 ms.
class SlowWrites final : public object::ForwardingStore {
  public:
    SlowWrites(object::ObjectStore& below, Reactor& reactor)
        : ForwardingStore(below), reactor_(reactor) {}
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override {
        const auto is_slow = [](const object::Operation& operation) {
            return operation.kind == object::Operation::Kind::write && operation.extent.length == 8;
        };
        if (std::ranges::any_of(transaction.operations, is_slow)) {
            co_await sleep_for(reactor_, std::chrono::milliseconds(300));
        }
        co_return co_await below().update(call, container, transaction);
    }

  private:
    Reactor& reactor_;
};

enum class Below : uint8_t { memory, overtaken, slow_writes };

Task<int> run_on_memory(OsReactor& reactor, BlockingPool& blocking, Sharing sharing, Below below,
                        std::string command) {
    const Call call;
    Report report;
    object::MemoryStore memory(reactor);
    OvertakenStore overtaken_store(memory);
    SlowWrites slow_writes(memory, reactor);
    object::ObjectStore* const stores[] = {&memory, &overtaken_store, &slow_writes};
    object::ObjectStore& store = *stores[static_cast<size_t>(below)];
    const auto container = co_await store.create_container(call, {.label = "main"});
    const auto formatted = co_await fs::Dfs::format(call, store, container->id, reactor,
                                                    {::getuid(), ::getgid()}, report);
    EXPECT_TRUE(formatted) << report.text();
    auto dfs = co_await fs::Dfs::mount(call, store, container->id, reactor, {}, report);
    EXPECT_TRUE(dfs) << report.text();
    const int status = co_await run_in_mount(reactor, blocking, **dfs, sharing, std::move(command));
    co_await (*dfs)->close_all();
    co_return status;
}

// A file system that counts the kernel's references, over a directory of the machine.
Task<int> run_on_directory(OsReactor& reactor, BlockingPool& blocking, std::string command) {
    Report report;
    const TemporaryDirectory below;
    auto local = co_await foreign::open_local_directory(below.path(), reactor, blocking, report);
    EXPECT_TRUE(local) << report.text();
    const int status =
        co_await run_in_mount(reactor, blocking, **local, Sharing::shared, std::move(command));
    co_await (*local)->close_all();
    co_return status;
}

int run(Sharing sharing, RingChoice ring, std::string command, Below below = Below::memory) {
    Report report;
    auto reactor = OsReactor::create({.ring = ring}, report);
    EXPECT_TRUE(reactor) << report.text();
    ThreadPool blocking(2);
    return (*reactor)->run(run_on_memory(**reactor, blocking, sharing, below, std::move(command)));
}

class FuseServer : public testing::Test {
  protected:
    void SetUp() override {
        if (!can_mount()) GTEST_SKIP() << "SKIPPED: no access to /dev/fuse, nothing was mounted";
    }
};

TEST_F(FuseServer, PosixChecksPassWithKernelCache) {
    EXPECT_EQ(run(Sharing::none, RingChoice::automatic, "python3 -B " POSIX_CHECKS " $MOUNT"), 0);
}

TEST_F(FuseServer, PosixChecksPassWithoutKernelCache) {
    EXPECT_EQ(
        run(Sharing::shared, RingChoice::automatic, "python3 -B " POSIX_CHECKS " --shared $MOUNT"),
        0);
}

TEST_F(FuseServer, SetIdBitsAreKeptAndClearedAsInLinux) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can act as other users";
    for (const Sharing sharing : {Sharing::none, Sharing::shared}) {
        EXPECT_EQ(run(sharing, RingChoice::automatic, "python3 -B " SET_ID_CHECKS " $MOUNT"), 0);
    }
}

// Also where the kernel keeps pages, and so might look for file capabilities before each write.
TEST_F(FuseServer, WriteIsOneRequest) {
    for (const Sharing sharing : {Sharing::none, Sharing::shared}) {
        EXPECT_EQ(run(sharing, RingChoice::automatic,
                      "dd if=/dev/zero of=$MOUNT/a bs=4096 count=1000 status=none"),
                  0);
        EXPECT_GE(requests_taken, 1000U);
        EXPECT_LE(requests_taken, 1050U);
    }
}

TEST_F(FuseServer, ZeroRangeTruncatesNoOtherWrite) {
    EXPECT_EQ(run(Sharing::shared, RingChoice::automatic,
                  "touch $MOUNT/a && fallocate -z -o 0 -l 4096 $MOUNT/a && "
                  "stat -c %s $MOUNT/a && test $(stat -c %s $MOUNT/a) = 10000 && "
                  "fallocate -z -o 4096 -l 16384 $MOUNT/a && test $(stat -c %s $MOUNT/a) = 20480",
                  Below::overtaken),
              0);
}

// A page is touched while a write(2) of the same page is on its way.
TEST_F(FuseServer, StoreBesideWriteOfSamePageLosesNothing) {
    EXPECT_EQ(run(Sharing::shared, RingChoice::automatic,
                  "python3 -B - $MOUNT/a <<'end'\n"
                  "import mmap, os, sys, threading\n"
                  "file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
                  "os.ftruncate(file, 4096)\n"
                  "view = mmap.mmap(file, 4096)\n"
                  "writer = threading.Thread(target=os.pwrite, args=(file, b'w' * 8, 1024))\n"
                  "writer.start()\n"
                  "writer.join(0.1)\n"
                  "view[0:9] = b's' * 9\n"
                  "writer.join()\n"
                  "view.flush()\n"
                  "assert os.pread(file, 9, 0) == b's' * 9, 'the store was lost'\n"
                  "assert os.pread(file, 8, 1024) == b'w' * 8, 'the write was lost'\n"
                  "assert view[1024:1032] == b'w' * 8, 'the mapping lacks the write'\n"
                  "end\n",
                  Below::slow_writes),
              0);
}

// As one whose name another mount replaces between a look-up of link(2) and its request.
TEST_F(FuseServer, FileThatLostItsNameLatelyIsLinkedUnlessItIsOpen) {
    EXPECT_EQ(run(Sharing::shared, RingChoice::automatic,
                  "python3 -B - $MOUNT <<'end'\n"
                  "import errno, os, sys\n"
                  "os.chdir(sys.argv[1])\n"
                  "def link_after_unlink(flags, to):\n"
                  "    os.mknod('a')\n"
                  "    file = os.open('a', flags)\n"
                  "    os.unlink('a')\n"
                  "    links = os.fstat(file).st_nlink\n"
                  "    try: os.link(f'/proc/self/fd/{file}', to, src_dir_fd=file)\n"
                  "    except OSError as error: return links, error.errno\n"
                  "    return links, os.stat(to).st_nlink\n"
                  "assert link_after_unlink(os.O_PATH, 'b') == (1, 1)\n"
                  "assert link_after_unlink(os.O_RDONLY, 'c') == (0, errno.ENOENT)\n"
                  "end\n"),
              0);
}

TEST_F(FuseServer, AnotherFileSystemIsServed) {
    const auto reactor = made_reactor();
    ThreadPool blocking(2);
    EXPECT_EQ(
        reactor->run(run_on_directory(
            *reactor, blocking,
            "python3 -B " POSIX_CHECKS " --shared $MOUNT memory_maps appends_by_one_descriptor "
            "renames unlink_while_open hard_links symbolic_links holes "
            "truncation large_and_odd_transfers names_and_limits large_directory")),
        0);
}

TEST_F(FuseServer, WithoutIoUringFilesAreServed) {
    EXPECT_EQ(run(Sharing::none, RingChoice::threads,
                  "echo hello >$MOUNT/a && test \"$(cat $MOUNT/a)\" = hello && test $(stat -c %s "
                  "$MOUNT/a) = 6"),
              0);
}

Task<> forget_a_directory(OsReactor& reactor, BlockingPool& blocking) {
    Report report;
    const TemporaryDirectory directory;
    const std::string shared = directory.path() + "/shared";
    EXPECT_EQ(::mkdir(shared.c_str(), 0755), 0);
    EXPECT_EQ(::chmod(shared.c_str(), 02775), 0);
    auto local =
        co_await foreign::open_local_directory(directory.path(), reactor, blocking, report);
    EXPECT_TRUE(local) << report.text();
    if (!local) co_return;
    {
        Server server(**local, reactor, blocking,
                      {.mount_point = directory.path(), .source = "test"});
        const auto found = co_await (*local)->lookup({}, fs::root_node, "shared");
        EXPECT_TRUE(found);
        server.note_attributes(*found, true, server.acl_changes());
        EXPECT_EQ(server.inherited_group(found->node), std::optional(found->gid));
        server.forget(found->node, 1);
        EXPECT_EQ(server.inherited_group(found->node), std::nullopt);
        EXPECT_EQ((co_await (*local)->get_attributes({}, found->node)).error().code, Code::stale);
    }
    co_await (*local)->close_all();
    EXPECT_EQ(::rmdir(shared.c_str()), 0);
}

// Otherwise each node that was ever seen would be kept until the mount ends.
TEST(FuseServerNodes, ForgottenDirectoriesAreReleased) {
    const auto reactor = made_reactor();
    ThreadPool blocking(1);
    reactor->run(forget_a_directory(*reactor, blocking));
}

TEST(MountPoint, UnusableDirectoryIsReported) {
    const auto refused = [](const std::string& path) {
        Report report;
        const auto result = prepare_mount_point(path, false, report);
        EXPECT_FALSE(result) << path;
        return report.text();
    };
    EXPECT_NE(refused("/nowhere/at/all").find("mkdir -p /nowhere/at/all"), std::string::npos);
    EXPECT_NE(refused("/etc/passwd").find("not a directory"), std::string::npos);
    EXPECT_NE(refused("/etc").find("not empty"), std::string::npos);
    EXPECT_NE(refused("/proc").find("mount point already"), std::string::npos);
}

TEST(ReadBuffers, BuffersAreReused) {
    ReadBuffers buffers(2);
    auto large = buffers.take(transfer_bytes_max);
    EXPECT_EQ(large.size(), transfer_bytes_max);
    const auto* const address = large.data();
    buffers.give(std::move(large));
    EXPECT_EQ(buffers.take(100'000).data(), address);
    EXPECT_GE(buffers.take(1).size(), 1u);
}

}  // namespace
}  // namespace ros2s::fuse
