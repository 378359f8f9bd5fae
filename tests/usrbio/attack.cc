// A hostile program on a mount that lends its files. usrbio_test.py runs it as root on a mount
// (argument 1) that others may use, with a file in it (argument 2).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <string>

#include "ros2s/fabric/shm/shm.h"
#include "ros2s/hostlink/lending.h"
#include "ros2s/hostlink/link_client.h"
#include "ros2s/rpc/channel.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/stack.h"
#include "ros2s/session/test_support/fixed_mount.h"

namespace ros2s {
namespace {

using hostlink::BorrowedFile;
using hostlink::LendingSession;

std::string mount_point, file_name;
constexpr uid_t nobody = 65534;

class File {
  public:
    explicit File(int flags, const std::string& path = file_name)
        : fd_(::open(path.c_str(), flags)) {
        EXPECT_GE(fd_, 0) << path;
    }
    ~File() { close(); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    void close() {
        if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    }
    [[nodiscard]] int get() const { return fd_; }

  private:
    int fd_;
};

// errno of the ioctl; 0: it succeeded.
template <class T>
int ask(int fd, unsigned long command, T& body) {
    return ::ioctl(fd, command, &body) == 0 ? 0 : errno;
}

LendingSession begin(int fd) {
    LendingSession session{.client = Uuid::make(Secrets())};
    EXPECT_EQ(ask(fd, hostlink::begin_lending, session), 0);
    return session;
}

BorrowedFile lend(const LendingSession& session, int fd) {
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

std::unique_ptr<OsReactor> make_reactor() {
    Report report;
    auto made = OsReactor::create({.ring = RingChoice::threads}, report);
    EXPECT_TRUE(made) << report.text();
    return std::move(*made);
}

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
    const auto reactor = make_reactor();
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
    if (child == 0) ::_exit(::setuid(nobody) == 0 && check() ? 0 : 1);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST(Ticket, WorksOnce) {
    const File file(O_RDONLY);
    const LendingSession session = begin(file.get());
    const BorrowedFile borrowed = lend(session, file.get());
    EXPECT_TRUE(with_program(session, reads, borrowed.handle));
    const auto again = with_program(session, nothing);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, Code::denied);
}

TEST(Ticket, WithAnotherSecretIsRefused) {
    const File file(O_RDONLY);
    LendingSession session = begin(file.get());
    session.ticket.bytes.back() ^= 1;
    EXPECT_FALSE(with_program(session, nothing));
    session.ticket.bytes.back() ^= 1;
    EXPECT_TRUE(with_program(session, nothing));
}

TEST(Ticket, OfAnotherClientIsRefused) {
    const File file(O_RDONLY);
    LendingSession session = begin(file.get());
    session.client = Uuid::make(Secrets());
    EXPECT_FALSE(with_program(session, nothing));
}

TEST(Ticket, OfAnotherUserIsRefused) {
    const File file(O_RDONLY);
    const LendingSession session = begin(file.get());
    as_nobody([&] {
        const auto stolen = with_program(session, nothing);
        return !stolen && stolen.error().code == Code::denied;
    });
}

TEST(Session, OfAnotherUserDoesNotExist) {
    const File file(O_RDONLY);
    const LendingSession session = begin(file.get());
    as_nobody([&] {
        BorrowedFile body{.session = session.session, .mount = session.mount};
        return ask(file.get(), hostlink::lend, body) == ESTALE;
    });
}

Task<> only_reads(hostlink::LinkClient& client, uint64_t handle) {
    EXPECT_FALSE(co_await write_some(client, handle));
    EXPECT_TRUE(co_await read_some(client, handle));
}

TEST(Handle, ForReadingDoesNotWrite) {
    const File file(O_RDONLY);
    const LendingSession session = begin(file.get());
    EXPECT_TRUE(with_program(session, only_reads, lend(session, file.get()).handle));
}

Task<> does_not_read(hostlink::LinkClient& client, uint64_t handle) {
    EXPECT_FALSE(co_await read_some(client, handle));
}

TEST(Handle, ForWritingDoesNotRead) {
    const File file(O_WRONLY);
    const LendingSession session = begin(file.get());
    EXPECT_TRUE(with_program(session, does_not_read, lend(session, file.get()).handle));
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

TEST(Handle, EndsWithItsDescriptor) {
    File file(O_RDONLY);
    const File other(O_RDONLY);
    const LendingSession session = begin(file.get());
    const std::array<uint64_t, 2> handles{lend(session, file.get()).handle,
                                          lend(session, other.get()).handle};
    EXPECT_TRUE(with_program(session, loses_first, file, handles));
}

Task<> finds_none(hostlink::LinkClient& client, uint64_t others) {
    for (uint64_t number = 0; number <= others + 2; ++number) {
        const auto got = co_await read_some(client, number);
        EXPECT_FALSE(got);
        if (!got) EXPECT_EQ(got.error().code, Code::stale);
    }
}

TEST(Handle, OfAnotherSessionIsStale) {
    const File file(O_RDONLY);
    const LendingSession first = begin(file.get()), second = begin(file.get());
    EXPECT_TRUE(with_program(second, finds_none, lend(first, file.get()).handle));
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

TEST(Names, AreNotThere) {
    const File file(O_RDWR);
    const LendingSession session = begin(file.get());
    EXPECT_TRUE(with_program(session, has_no_names, fs::NodeId{lend(session, file.get()).node}));
}

TEST(Lending, OfADirectoryIsRefused) {
    const File directory(O_RDONLY | O_DIRECTORY, mount_point);
    const LendingSession session = begin(directory.get());
    BorrowedFile body{.session = session.session, .mount = session.mount};
    EXPECT_EQ(ask(directory.get(), hostlink::lend, body), EINVAL);
}

TEST(Lending, WithInventedSessionIsRefused) {
    const File file(O_RDONLY);
    const LendingSession session = begin(file.get());
    for (const BorrowedFile& each :
         {BorrowedFile{}, BorrowedFile{.session = session.session + 1, .mount = session.mount},
          BorrowedFile{.session = session.session, .mount = session.mount + 1}}) {
        BorrowedFile body = each;
        EXPECT_EQ(ask(file.get(), hostlink::lend, body), ESTALE);
    }
}

// Each user has room of its own.
TEST(Lending, OfTooManySessionsIsRefused) {
    const File file(O_RDONLY);
    as_nobody([&] {
        int refused = 0;
        for (int i = 0; i < 200 && refused == 0; ++i) {
            LendingSession session{.client = Uuid::make(Secrets())};
            refused = ask(file.get(), hostlink::begin_lending, session);
        }
        return refused == EBUSY;
    });
    EXPECT_TRUE(with_program(begin(file.get()), nothing));
}

}  // namespace
}  // namespace ros2s

int main(int count, char** arguments) {
    ::testing::InitGoogleTest(&count, arguments);
    if (count != 3) return 2;
    ros2s::mount_point = arguments[1];
    ros2s::file_name = arguments[2];
    return RUN_ALL_TESTS();
}
