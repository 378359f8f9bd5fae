// A mount that lends files, and hostile programs on it. The mount runs on a thread of its own.
#include "borrowed_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "mount_point.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/hostlink/link_client.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/rpc/channel.h"
#include "ros2s/runtime/stack.h"
#include "ros2s/runtime/test_support/made_reactor.h"
#include "ros2s/runtime/thread_pool.h"
#include "ros2s/session/test_support/fixed_mount.h"
#include "server.h"

namespace ros2s::fuse {
namespace {

using hostlink::BorrowedFile;
using hostlink::LendingSession;

// A descriptor of a file in the mount.
class File {
  public:
    File(const std::string& path, int flags) : fd_(::open(path.c_str(), flags, 0644)) {
        EXPECT_GE(fd_, 0) << path;
    }
    ~File() { close(); }
    File& operator=(File&&) = delete;
    void close() {
        if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    }
    [[nodiscard]] int get() const { return fd_; }

  private:
    int fd_;
};

class Lending : public ::testing::Test {
  protected:
    void SetUp() override {
        if (::access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "cannot mount";
        char name[] = "/tmp/ros2store-fuse.XXXXXX";
        directory_ = ::mkdtemp(name);
        ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
        mounting_ = std::thread([this] { reactor_->run(serve(*this)); });
        while (!is_ready_) std::this_thread::yield();
        const File file(path(), O_WRONLY | O_CREAT);
        const std::string text(10'000, 'x');
        ASSERT_EQ(::write(file.get(), text.data(), text.size()), 10'000);
    }
    void TearDown() override {
        if (!mounting_.joinable()) return;
        EXPECT_TRUE(unmount_cleanly(directory_));
        mounting_.join();
        ::rmdir(directory_.c_str());
    }
    [[nodiscard]] const std::string& mount_point() const { return directory_; }
    [[nodiscard]] std::string path() const { return directory_ + "/file"; }

  private:
    static Task<> serve(Lending& self) {
        OsReactor& reactor = *self.reactor_;
        object::MemoryStore store(reactor, {});
        Report report;
        const auto container = co_await store.create_container({}, {.label = "main"});
        EXPECT_TRUE(container);
        EXPECT_TRUE(co_await fs::Dfs::format({}, store, container->id, reactor, {}, report));
        auto files = co_await fs::Dfs::mount({}, store, container->id, reactor, {}, report);
        EXPECT_TRUE(files) << report.text();
        Server server(**files, reactor, self.blocking_,
                      {.mount_point = self.directory_,
                       .source = "test",
                       .sharing = Sharing::none,
                       .allow_other = ::geteuid() == 0});
        EXPECT_TRUE(server.mount(report)) << report.text();
        Nursery nursery(reactor, 1);
        co_await nursery.spawn(server.serve());
        co_await server.ready();
        self.is_ready_ = true;
        co_await nursery.join();
        co_await (*files)->close_all();
    }
    std::string directory_;
    std::unique_ptr<OsReactor> reactor_ = made_reactor();
    ThreadPool blocking_{2};
    std::atomic<bool> is_ready_ = false;
    std::thread mounting_;
};

// errno of the ioctl; 0: it succeeded.
template <class T>
int ask(int fd, unsigned long command, T& body) {
    return ::ioctl(fd, command, &body) == 0 ? 0 : errno;
}

LendingSession begin_session(int fd) {
    LendingSession session{.client = Uuid::make(Secrets())};
    EXPECT_EQ(ask(fd, hostlink::begin_lending, session), 0);
    return session;
}

BorrowedFile borrow_file(const LendingSession& session, int fd) {
    BorrowedFile file{.session = session.session, .mount = session.mount};
    EXPECT_EQ(ask(fd, hostlink::lend, file), 0);
    return file;
}

class OneTicket final : public rpc::TicketSource {
  public:
    explicit OneTicket(const session::Ticket& ticket) : ticket_(ticket) {}
    Task<Result<std::string>> take(Report&) override { co_return std::string(ticket_.view()); }

  private:
    session::Ticket ticket_;
};

// A connection with a ticket, and a client that takes any number for a handle. It closes the
// handles that it used.
struct Program {
    Program(OsReactor& core, const LendingSession& session)
        : reactor(core),
          asked(session),
          ticket(session.ticket),
          locator({{session.session}, {session.mount}}) {}
    Task<Result<>> connect() {
        auto* const domain = stack.push("Domain", fabric::shm::open_domain(reactor));
        Report report;
        ROS2S_CO_TRY_ASSIGN(
            auto* const channel,
            stack.push("Channel",
                       co_await rpc::Channel::open(
                           reactor, *domain, asked.at.data(), ticket,
                           {.service = hostlink::file_service, .client = asked.client}, report)));
        client = stack.push(
            "LinkClient",
            std::make_unique<hostlink::LinkClient>(
                reactor, *channel, locator, hostlink::LinkClient::Options{.client = asked.client}));
        co_return Result<>{};
    }
    OsReactor& reactor;
    LendingSession asked;
    OneTicket ticket;
    session::FixedMountLocator locator;
    Stack stack;
    hostlink::LinkClient* client = nullptr;
};

// Connects, calls `use`, and disconnects. Returns the error of connecting.
template <class... Facts, class... Given>
Task<Result<>> use_program(Program& program, Task<> (*use)(hostlink::LinkClient&, Facts...),
                           Given&... facts) {
    const auto connected = co_await program.connect();
    if (connected) co_await use(*program.client, facts...);
    std::ignore = co_await program.stack.close();
    co_return connected;
}
template <class... Facts, class... Given>
Result<> with_program(const LendingSession& session, Task<> (*use)(hostlink::LinkClient&, Facts...),
                      Given&&... facts) {
    const auto reactor = made_reactor({.ring = RingChoice::threads});
    Program program(*reactor, session);
    return reactor->run(use_program(program, use, facts...));
}

Task<Result<uint64_t>> read_some(hostlink::LinkClient& client, uint64_t handle) {
    std::byte memory[64];
    const Call call;
    const auto file = client.adopt({handle}, {1}, {});
    co_return co_await client.pread(call, file, fs::Window::local(Bytes(memory)), 0);
}

Task<Result<uint64_t>> write_some(hostlink::LinkClient& client, uint64_t handle) {
    std::byte memory[64]{};
    const Call call;
    const auto file = client.adopt({handle}, {1}, {.write = true});
    co_return co_await client.pwrite(call, file, fs::Window::local(Bytes(memory)), 0);
}

Task<> nothing(hostlink::LinkClient&) { co_return; }
Task<> reads(hostlink::LinkClient& client, uint64_t handle) {
    EXPECT_TRUE(co_await read_some(client, handle));
}

// In a child with another user.
void as_nobody(const std::function<bool()>& check) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::setuid(fs::nobody) == 0 && check() ? 0 : 1);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST_F(Lending, TicketWorksOnce) {
    const File file(path(), O_RDONLY);
    const LendingSession session = begin_session(file.get());
    const BorrowedFile borrowed = borrow_file(session, file.get());
    EXPECT_TRUE(with_program(session, reads, borrowed.handle));
    const auto again = with_program(session, nothing);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, Code::denied);
}

TEST_F(Lending, TicketWithAnotherSecretIsRefused) {
    const File file(path(), O_RDONLY);
    LendingSession session = begin_session(file.get());
    session.ticket.bytes.back() ^= 1;
    EXPECT_FALSE(with_program(session, nothing));
    session.ticket.bytes.back() ^= 1;
    EXPECT_TRUE(with_program(session, nothing));
}

TEST_F(Lending, TicketOfAnotherClientIsRefused) {
    const File file(path(), O_RDONLY);
    LendingSession session = begin_session(file.get());
    session.client = Uuid::make(Secrets());
    EXPECT_FALSE(with_program(session, nothing));
}

TEST_F(Lending, TicketOfAnotherUserIsRefused) {
    if (::geteuid() != 0) GTEST_SKIP() << "it needs root";
    const File file(path(), O_RDONLY);
    const LendingSession session = begin_session(file.get());
    as_nobody([&] {
        const auto stolen = with_program(session, nothing);
        return !stolen && stolen.error().code == Code::denied;
    });
}

TEST_F(Lending, SessionOfAnotherUserDoesNotExist) {
    if (::geteuid() != 0) GTEST_SKIP() << "it needs root";
    const File file(path(), O_RDONLY);
    const LendingSession session = begin_session(file.get());
    as_nobody([&] {
        BorrowedFile body{.session = session.session, .mount = session.mount};
        return ask(file.get(), hostlink::lend, body) == ESTALE;
    });
}

Task<> only_reads(hostlink::LinkClient& client, uint64_t handle) {
    EXPECT_FALSE(co_await write_some(client, handle));
    EXPECT_TRUE(co_await read_some(client, handle));
}

TEST_F(Lending, HandleForReadingDoesNotWrite) {
    const File file(path(), O_RDONLY);
    const LendingSession session = begin_session(file.get());
    EXPECT_TRUE(with_program(session, only_reads, borrow_file(session, file.get()).handle));
}

Task<> does_not_read(hostlink::LinkClient& client, uint64_t handle) {
    EXPECT_FALSE(co_await read_some(client, handle));
}

TEST_F(Lending, HandleForWritingDoesNotRead) {
    const File file(path(), O_WRONLY);
    const LendingSession session = begin_session(file.get());
    EXPECT_TRUE(with_program(session, does_not_read, borrow_file(session, file.get()).handle));
}

// The kernel releases a closed descriptor a little later.
Task<> loses_first(hostlink::LinkClient& client, File& first, std::array<uint64_t, 2> handles) {
    constexpr int attempts_most = 10'000;
    EXPECT_TRUE(co_await read_some(client, handles[0]));
    first.close();
    int attempts = 0;
    while (co_await read_some(client, handles[0]) && attempts < attempts_most) ++attempts;
    EXPECT_LT(attempts, attempts_most) << "it can still be read";
    EXPECT_TRUE(co_await read_some(client, handles[1]));
}

TEST_F(Lending, HandleEndsWithItsDescriptor) {
    File file(path(), O_RDONLY);
    const File other(path(), O_RDONLY);
    const LendingSession session = begin_session(file.get());
    const std::array<uint64_t, 2> handles{borrow_file(session, file.get()).handle,
                                          borrow_file(session, other.get()).handle};
    EXPECT_TRUE(with_program(session, loses_first, file, handles));
}

Task<> finds_none(hostlink::LinkClient& client, uint64_t others) {
    for (uint64_t number = 0; number <= others + 2; ++number) {
        const auto got = co_await read_some(client, number);
        EXPECT_FALSE(got);
        if (!got) EXPECT_EQ(got.error().code, Code::stale);
    }
}

TEST_F(Lending, HandleOfAnotherSessionIsStale) {
    const File file(path(), O_RDONLY);
    const LendingSession first = begin_session(file.get()), second = begin_session(file.get());
    EXPECT_TRUE(with_program(second, finds_none, borrow_file(first, file.get()).handle));
}

Task<> has_no_names(hostlink::LinkClient& client, fs::NodeId node) {
    const Call call;
    EXPECT_FALSE(co_await client.lookup(call, fs::root_node, "file"));
    EXPECT_FALSE(co_await client.get_attributes(call, node));
    EXPECT_FALSE(co_await client.open(call, node, {}));
    EXPECT_FALSE(co_await client.open_path(call, "file", {}));
    EXPECT_FALSE(co_await client.walk(call, "file", fs::LastLink::follow));
    EXPECT_FALSE(co_await client.mkdir(call, fs::root_node, "made", 0755, {}));
    EXPECT_FALSE(co_await client.create(call, fs::root_node, "made", 0644, {.write = true}, {}));
    EXPECT_FALSE(co_await client.unlink(call, fs::root_node, "file"));
    EXPECT_FALSE(co_await client.rename(call, fs::root_node, "file", fs::root_node, "g", {}));
    EXPECT_FALSE(co_await client.set_attributes(call, node, {.size = 0}));
    EXPECT_FALSE(co_await client.get_xattr(call, node, "user.a"));
    EXPECT_FALSE(co_await client.space(call));
    // A read by a node's number, which needs no handle.
    const auto by_node = co_await client.open(call, node, {.leased = true});
    EXPECT_TRUE(by_node);
    std::byte memory[64];
    const fs::Window window = fs::Window::local(Bytes(memory));
    EXPECT_FALSE(co_await client.pread(call, by_node->handle, window, 0));
}

TEST_F(Lending, NamesAreRefused) {
    const File file(path(), O_RDWR);
    const LendingSession session = begin_session(file.get());
    EXPECT_TRUE(
        with_program(session, has_no_names, fs::NodeId{borrow_file(session, file.get()).node}));
}

TEST_F(Lending, DirectoryIsRefused) {
    const File directory(mount_point(), O_RDONLY | O_DIRECTORY);
    const LendingSession session = begin_session(directory.get());
    BorrowedFile body{.session = session.session, .mount = session.mount};
    EXPECT_EQ(ask(directory.get(), hostlink::lend, body), EINVAL);
}

TEST_F(Lending, InventedSessionIsRefused) {
    const File file(path(), O_RDONLY);
    const LendingSession session = begin_session(file.get());
    for (const BorrowedFile& each :
         {BorrowedFile{}, BorrowedFile{.session = session.session + 1, .mount = session.mount},
          BorrowedFile{.session = session.session, .mount = session.mount + 1}}) {
        BorrowedFile body = each;
        EXPECT_EQ(ask(file.get(), hostlink::lend, body), ESTALE);
    }
}

// Each user has room of its own.
TEST_F(Lending, TooManySessionsOfAUserAreRefused) {
    if (::geteuid() != 0) GTEST_SKIP() << "it needs root";
    const File file(path(), O_RDONLY);
    as_nobody([&] {
        int refused = 0;
        for (int i = 0; i < 200 && refused == 0; ++i) {
            LendingSession session{.client = Uuid::make(Secrets())};
            refused = ask(file.get(), hostlink::begin_lending, session);
        }
        return refused == EBUSY;
    });
    EXPECT_TRUE(with_program(begin_session(file.get()), nothing));
}

Task<> writes_past_end(hostlink::LinkClient& client, uint64_t handle) {
    std::string text = "last";
    const Call call;
    const auto file = client.adopt({handle}, {1}, {.write = true});
    const fs::Window window = fs::Window::local(Bytes(std::as_writable_bytes(std::span(text))));
    EXPECT_EQ(co_await client.pwrite(call, file, window, 9'998), 4u);
}

// It knows the file's end from its own writes.
TEST_F(Lending, KernelAppendsBehindWhatWasWrittenPastIt) {
    const File file(path(), O_RDWR), log(path(), O_WRONLY | O_APPEND);
    char text[20];
    EXPECT_EQ(::pread(file.get(), text, sizeof text, 9'990), 10);
    const LendingSession session = begin_session(file.get());
    EXPECT_TRUE(with_program(session, writes_past_end, borrow_file(session, file.get()).handle));
    EXPECT_EQ(::write(log.get(), "more", 4), 4);
    EXPECT_EQ(::pread(file.get(), text, sizeof text, 9'990), 16);
    EXPECT_EQ(std::string_view(text, 16), "xxxxxxxxlastmore");
}

}  // namespace
}  // namespace ros2s::fuse
