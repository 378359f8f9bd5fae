// The control plane keeps working when strangers connect and when file descriptors run out.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "test_support/test_rig.h"
#include "tls.h"

namespace ros2s::control {
namespace {

size_t open_descriptors() {
    const auto listed = std::filesystem::directory_iterator("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(listed), end(listed)));
}

// While it exists, this process may have only `more` descriptors than it has now.
class FewDescriptors {
  public:
    explicit FewDescriptors(rlim_t more) {
        getrlimit(RLIMIT_NOFILE, &before_);
        const rlimit few{.rlim_cur = open_descriptors() + more, .rlim_max = before_.rlim_max};
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    }
    FewDescriptors& operator=(FewDescriptors&&) = delete;
    ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

  private:
    rlimit before_{};
};

// Takes all descriptors that are free now.
class AllDescriptors {
  public:
    AllDescriptors& operator=(AllDescriptors&&) = delete;
    ~AllDescriptors() { release(); }
    void take() {
        for (;;) {
            const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
            if (fd < 0) break;
            taken_.push_back(fd);
        }
    }
    void release() {
        for (const int fd : taken_) ::close(fd);
        taken_.clear();
    }

  private:
    std::vector<int> taken_;
};

bool connect_to(int socket, int port) {
    const sockaddr_in address{.sin_family = AF_INET,
                              .sin_port = htons(static_cast<uint16_t>(port)),
                              .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    return ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// Each from an address of its own, while there are some.
bool bind_to_own_address(int socket, int number) {
    const auto host = static_cast<in_addr_t>(0x7f000100 + number);
    const sockaddr_in address{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {.s_addr = htonl(host)}};
    return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// Connections of another process, which sends nothing.
class Strangers {
  public:
    enum class How : uint8_t { stay, reset, many_addresses };
    Strangers(int port, int count, How how = How::stay) {
        int ready[2];
        EXPECT_EQ(::pipe(ready), 0);
        EXPECT_EQ(::pipe(go_), 0);
        child_ = ::fork();
        if (child_ == 0) {
            rlimit all{};
            getrlimit(RLIMIT_NOFILE, &all);
            all.rlim_cur = all.rlim_max;
            setrlimit(RLIMIT_NOFILE, &all);
            for (int i = 0; i < count; ++i) {
                const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
                if (how == How::many_addresses) (void)bind_to_own_address(socket, i);
                (void)connect_to(socket, port);
                if (how != How::reset) continue;
                const linger at_once{.l_onoff = 1, .l_linger = 0};
                ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
                ::close(socket);
            }
            char byte = 0;
            (void)!::write(ready[1], &byte, 1);
            ::close(go_[1]);
            (void)!::read(go_[0], &byte, 1);
            ::_exit(0);
        }
        char byte = 0;
        EXPECT_EQ(::read(ready[0], &byte, 1), 1);
        ::close(ready[0]);
        ::close(ready[1]);
    }
    Strangers& operator=(Strangers&&) = delete;
    ~Strangers() {
        ::close(go_[0]);
        ::close(go_[1]);
        ::waitpid(child_, nullptr, 0);
    }

  private:
    pid_t child_ = -1;
    int go_[2];
};

class ControlConnections : public testing::Test {
  protected:
    static constexpr Duration soon = 20s;
    // A new client is served.
    [[nodiscard]] testing::AssertionResult gets_in(Rig& rig) {
        const auto client = rig.client();
        const Call call{.deadline = rig.client_reactor->now() + soon};
        const auto opened =
            rig.here([&] { return client->open_session(call, Rig::wanted(), report_); });
        if (opened) return testing::AssertionSuccess();
        return testing::AssertionFailure() << report_.text();
    }
    Report report_;
};

// In gRPC 1.51 one EMFILE of accept ended the listener for the life of the process.
TEST_F(ControlConnections, ExhaustedDescriptorsRecover) {
    Rig rig;
    ASSERT_TRUE(gets_in(rig));
    const FewDescriptors few(40);
    std::vector<int> strangers(20);
    for (int& socket : strangers) socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    AllDescriptors all;
    // gRPC may close descriptors of the first client late: a connection can get one of them.
    EXPECT_TRUE(eventually(*rig.client_reactor, [&, next = strangers.begin()]() mutable {
        all.take();
        if (next != strangers.end()) EXPECT_TRUE(connect_to(*next++, rig.port()));
        return rig.server->counters().without_descriptors >= 1;
    }));
    run_blocking(*rig.client_reactor, [&] { return wait_for(*rig.client_reactor, 300ms); });
    all.release();
    EXPECT_TRUE(gets_in(rig));
    // Once for each time that descriptors ran out.
    const size_t said = rig.lines.with("cannot be accepted").size();
    EXPECT_GE(said, 1u);
    EXPECT_LE(said, rig.lines.with("file descriptors are available again").size() + 1);
    for (const int socket : strangers) ::close(socket);
}

TEST_F(ControlConnections, UnauthenticatedPeersLeaveDescriptorsFree) {
    Certificates certificates;
    const FewDescriptors few(400);
    Rig rig;
    const auto known = rig.client();
    const auto session = rig.open(*known);
    const size_t before = open_descriptors();
    rlimit most{};
    getrlimit(RLIMIT_NOFILE, &most);
    {
        const Strangers strangers(rig.port(), 1000);
        // gRPC takes its time to close what it was told to end.
        EXPECT_TRUE(eventually(*rig.client_reactor,
                               [&] { return open_descriptors() <= before + most.rlim_cur / 4; }))
            << open_descriptors() << " descriptors, before " << before;
        EXPECT_TRUE(gets_in(rig));
        const Call call{.deadline = rig.client_reactor->now() + soon};
        EXPECT_TRUE(rig.here([&] { return known->keep_alive(call, session.id, report_); }))
            << "whoever was in stays in: " << report_.text();
        const int one_more = ::dup(0);
        EXPECT_GE(one_more, 0) << "and there are descriptors left";
        ::close(one_more);
    }
    EXPECT_TRUE(gets_in(rig));
}

TEST_F(ControlConnections, ResetPeersLeaveNoDescriptor) {
    Rig rig;
    ASSERT_TRUE(gets_in(rig));
    const size_t before = open_descriptors();
    const Strangers strangers(rig.port(), 1000, Strangers::How::reset);
    EXPECT_TRUE(gets_in(rig));
    constexpr size_t few = 20;  // gRPC opens and closes some itself
    EXPECT_TRUE(eventually(*rig.client_reactor, [&] { return open_descriptors() <= before + few; }))
        << open_descriptors() << " descriptors, before " << before;
}

// A call over a Unix socket does not show which socket it used.
TEST_F(ControlConnections, AuthenticatedUnixSocketIsNotEvicted) {
    const TemporaryDirectory directory;
    Rig rig({.control = {.listen = {"127.0.0.1:0", "unix:" + directory.path() + "/socket"},
                         .connections_max = 40,
                         .handshake_max = 1s}});
    std::vector<std::shared_ptr<grpc::Channel>> users;
    for (int i = 0; i < 3; ++i) {
        grpc::ChannelArguments arguments;
        arguments.SetSslTargetNameOverride("localhost");
        auto opened = open_channel(rig.server->addresses().back(), rig.certificates.of("alice"),
                                   arguments, report_);
        ASSERT_TRUE(opened) << report_.text();
        users.push_back(*opened);
        ASSERT_TRUE(users.back()->WaitForConnected(std::chrono::system_clock::now() + soon));
    }
    EXPECT_EQ(rig.server->counters().connections, 3u);
    EXPECT_TRUE(eventually(*rig.client_reactor,
                           [&] { return rig.server->counters().unproven_connections == 0; }));
    const Strangers strangers(rig.port(), 100, Strangers::How::many_addresses);
    EXPECT_TRUE(eventually(*rig.client_reactor,
                           [&] { return rig.server->counters().ended_for_room >= 70; }));
    for (const auto& user : users) {
        EXPECT_FALSE(
            user->WaitForStateChange(GRPC_CHANNEL_READY, std::chrono::system_clock::now() + 300ms));
    }
}

TEST_F(ControlConnections, ConnectionsPerSubjectAreBounded) {
    Rig rig({.control = {.connections_per_subject_max = 3}});
    std::vector<std::unique_ptr<ControlClient>> clients;
    for (int i = 0; i < 3; ++i) rig.open(*clients.emplace_back(rig.client()));
    const auto one_more = rig.client();
    const Call call{.deadline = rig.client_reactor->now() + soon};
    const auto refused =
        rig.here([&] { return one_more->open_session(call, Rig::wanted(), report_); });
    EXPECT_FALSE(refused);
    EXPECT_GT(rig.open(*rig.client("mallory")).id.value, 0u) << "others have their own";
    clients.pop_back();
    EXPECT_TRUE(eventually(*rig.client_reactor, [&] { return bool(gets_in(rig)); }));
}

TEST_F(ControlConnections, ConnectionsOfOneTenantLeaveRoomForOthers) {
    Rig rig({.control = {.connections_max = 32, .connections_per_subject_max = 8}});
    rig.certificates.add("operator");
    std::vector<std::unique_ptr<ControlClient>> clients;
    const auto calls = [&](const std::string& name) {
        const auto& client = clients.emplace_back(rig.client(name));
        const Call call{.deadline = rig.client_reactor->now() + soon};
        Report report;
        return rig.here([&] { return client->list_pools(call, report); }).has_value();
    };
    int connected = 0;
    for (const std::string& host : rig.hosts_of_one_tenant(8)) {
        for (int i = 0; i < 6; ++i) connected += calls(host) ? 1 : 0;
    }
    EXPECT_EQ(connected, 16);
    EXPECT_FALSE(rig.lines.with("tenant 'batch' has 16 connections").empty());
    EXPECT_TRUE(calls("alice"));
    EXPECT_TRUE(calls("operator"));
    EXPECT_FALSE(calls("host-7"));
    // Connections count where their subject belongs now.
    rig.do_there([&] { rig.accounts.set({}); });
    EXPECT_TRUE(calls("host-7"));
}

TEST_F(ControlConnections, ConfiguredAddressesAreServed) {
    const TemporaryDirectory directory;
    const std::string path = "unix:" + directory.path() + "/a socket#1";
    Rig rig({.control = {.listen = {"localhost:0", "[::1]:0", path}}});
    for (const std::string& address : rig.server->addresses()) {
        Report report;
        auto client = ControlClient::create(*rig.client_reactor,
                                            {.address = address,
                                             .identity = rig.certificates.of("alice"),
                                             .server_name = "localhost"},
                                            report);
        ASSERT_TRUE(client) << report.text();
        EXPECT_GT(rig.open(**client).id.value, 0u) << address;
    }
    EXPECT_EQ(rig.server->addresses().back(), path);
    EXPECT_NE(rig.server->addresses().front(), "localhost:0");
}

}  // namespace
}  // namespace ros2s::control
