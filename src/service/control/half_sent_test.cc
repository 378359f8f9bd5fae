// Requests that are begun and never finished, and replies that are never read, use only their
// client's resources. The attacker's HTTP/2 is written by hand.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>

#include "test_support/test_rig.h"

namespace ros2s::control {
namespace {

// One connection with a valid certificate, and streams on it.
class HalfSender {
  public:
    // `reply_window`: how many bytes of each reply the server may send.
    static constexpr uint32_t window_default = 65'535;
    HalfSender(int port, const pki::Identity& identity, uint32_t reply_window = window_default) {
        context_ = SSL_CTX_new(TLS_client_method());
        SSL_CTX_use_certificate_chain_file(context_, identity.certificate_file.c_str());
        SSL_CTX_use_PrivateKey_file(context_, identity.key_file.c_str(), SSL_FILETYPE_PEM);
        ssl_ = SSL_new(context_);
        constexpr unsigned char h2[] = {2, 'h', '2'};
        SSL_set_alpn_protos(ssl_, h2, sizeof h2);
        socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const sockaddr_in address{.sin_family = AF_INET,
                                  .sin_port = htons(static_cast<uint16_t>(port)),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
        EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address),
                  0);
        SSL_set_fd(ssl_, socket_);
        EXPECT_EQ(SSL_connect(ssl_), 1);
        write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        std::string window("\0\4\0\0\0\0", 6);  // INITIAL_WINDOW_SIZE
        reply_window = htonl(reply_window);
        window.replace(2, 4, reinterpret_cast<const char*>(&reply_window), 4);
        frame(settings, 0, 0, window);
    }
    HalfSender& operator=(HalfSender&&) = delete;
    ~HalfSender() {
        SSL_free(ssl_);
        SSL_CTX_free(context_);
        ::close(socket_);
    }

    // Begins a request of `bytes`, and sends none of them yet.
    void begin(const std::string& path, uint32_t bytes) {
        const uint32_t stream = open(path);
        frame(data, 0, stream, prefix_of(bytes));
        Stream& sending = streams_[stream];
        sending.left = bytes - 1;  // one byte is never sent
        sending.window -= 5;
        window_ -= 5;
    }
    // Sends a complete request, which is short.
    void ask(const std::string& path, const std::string& message = "") {
        const uint32_t stream = open(path);
        frame(data, end_stream, stream, prefix_of(static_cast<uint32_t>(message.size())) + message);
        streams_[stream];
        window_ -= static_cast<int64_t>(5 + message.size());
    }
    // Sends what the server accepts, until it accepts no more for a while, or closes the
    // connection.
    void send_all() {
        for (bool quiet = false; !quiet && !ended_;) {
            for (auto& [stream, sending] : streams_) {
                while (!ended_) {
                    const int64_t part =
                        std::min<int64_t>({16'384, sending.left, sending.window, window_});
                    if (part <= 0) break;
                    frame(data, 0, stream, std::string(static_cast<size_t>(part), 'x'));
                    sending.left -= part;
                    sending.window -= part;
                    window_ -= part;
                    sent_ += static_cast<uint64_t>(part);
                }
            }
            quiet = !hear(100);
        }
    }
    // The number of streams that the server has ended.
    [[nodiscard]] size_t refused() {
        while (hear(0)) {
        }
        return refused_;
    }
    [[nodiscard]] uint64_t sent() const { return sent_; }

  private:
    static constexpr uint8_t data = 0, headers = 1, reset = 3, settings = 4, go_away = 7,
                             window_update = 8;
    static constexpr uint8_t end_stream = 1;  // a flag
    struct Stream {
        int64_t left = 0;
        int64_t window = 65'535;
    };
    // The length of a message, as gRPC has it.
    static std::string prefix_of(uint32_t bytes) {
        std::string prefix(5, '\0');
        const uint32_t length = htonl(bytes);
        prefix.replace(1, 4, reinterpret_cast<const char*>(&length), 4);
        return prefix;
    }
    // Sends the headers of a call. Returns its stream.
    uint32_t open(const std::string& path) {
        const uint32_t stream = next_stream_;
        next_stream_ += 2;
        std::string headers;
        const auto add = [&headers](std::string_view name, std::string_view value) {
            headers += '\0';  // a literal, not to be indexed
            headers += static_cast<char>(name.size());
            headers += name;
            headers += static_cast<char>(value.size());
            headers += value;
        };
        add(":method", "POST");
        add(":scheme", "https");
        add(":path", path);
        add(":authority", "localhost");
        add("te", "trailers");
        add("content-type", "application/grpc");
        constexpr uint8_t end_headers = 4;
        frame(1, end_headers, stream, headers);
        return stream;
    }
    void write(std::string_view bytes) {
        while (!ended_ && !bytes.empty()) {
            const int done = SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
            if (done <= 0) {
                ended_ = true;
                return;
            }
            bytes.remove_prefix(static_cast<size_t>(done));
        }
    }
    void frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
        std::string bytes(9, '\0');
        const uint32_t length = htonl(static_cast<uint32_t>(payload.size()) << 8);
        bytes.replace(0, 3, reinterpret_cast<const char*>(&length), 3);
        bytes[3] = static_cast<char>(type);
        bytes[4] = static_cast<char>(flags);
        const uint32_t number = htonl(stream);
        bytes.replace(5, 4, reinterpret_cast<const char*>(&number), 4);
        bytes += payload;
        write(bytes);
    }
    std::string read(size_t count) {
        std::string bytes(count, '\0');
        for (size_t have = 0; have < count;) {
            const int got = SSL_read(ssl_, bytes.data() + have, static_cast<int>(count - have));
            if (got <= 0) {
                ended_ = true;
                return {};
            }
            have += static_cast<size_t>(got);
        }
        return bytes;
    }
    static uint32_t number_at(std::string_view bytes, size_t at) {
        uint32_t number = 0;
        std::copy_n(bytes.data() + at, 4, reinterpret_cast<char*>(&number));
        return ntohl(number);
    }
    // Receives one frame from the server. False: none came.
    bool hear(int timeout_ms) {
        if (ended_) return false;
        pollfd readable{.fd = socket_, .events = POLLIN, .revents = 0};
        if (SSL_pending(ssl_) == 0 && ::poll(&readable, 1, timeout_ms) <= 0) return false;
        const std::string head = read(9);
        if (ended_) return false;
        const uint32_t length = number_at(std::string(1, '\0') + head.substr(0, 3), 0);
        const uint32_t stream = number_at(head, 5) & 0x7fffffff;
        const std::string payload = read(length);
        if (ended_) return false;
        switch (static_cast<uint8_t>(head[3])) {
            case window_update: {
                const int64_t more = number_at(payload, 0);
                if (stream == 0) {
                    window_ += more;
                } else if (const auto found = streams_.find(stream); found != streams_.end()) {
                    found->second.window += more;
                }
                break;
            }
            case headers:
                // Others are those before a reply.
                if ((head[4] & end_stream) != 0) refused_ += streams_.erase(stream);
                break;
            case reset: refused_ += streams_.erase(stream); break;
            case go_away: ended_ = true; break;
            case settings:
                if ((head[4] & 1) == 0) frame(settings, 1, 0, "");
                break;
            default: break;
        }
        return true;
    }
    SSL_CTX* context_ = nullptr;
    SSL* ssl_ = nullptr;
    int socket_ = -1;
    bool ended_ = false;
    uint32_t next_stream_ = 1;
    int64_t window_ = 65'535;
    std::map<uint32_t, Stream> streams_;
    size_t refused_ = 0;
    uint64_t sent_ = 0;
};

class HalfSentRequests : public testing::Test {
  protected:
    // Makes `calls` as another client; returns how many succeeded.
    static int calls_of_bystander(Rig& rig, int calls, const std::string& name = "alice") {
        int succeeded = 0;
        std::unique_ptr<ControlClient> client;
        for (int i = 0; i < calls; ++i) {
            // Ten on each connection.
            if (i % 10 == 0) client = rig.client(name);
            const Call call{.deadline = rig.client_reactor->now() + 20s};
            Report report;
            if (rig.here([&] { return client->list_pools(call, report); })) ++succeeded;
        }
        return succeeded;
    }
};

// gRPC used to read each request before the sender was checked: 1,000 of them took its memory.
// Later each certificate of a tenant had a bound of its own: eight of them took all there is.
TEST_F(HalfSentRequests, RequestsOfOneTenantLeaveRoomForOthers) {
    for (const char* path : {"/ros2s.control.v1.Files/SetXattr", "/grpc.health.v1.Health/Check",
                             "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
        const auto flood = [path](Rig& rig, const std::vector<std::string>& names, int calls) {
            std::vector<std::unique_ptr<HalfSender>> senders;
            uint64_t sent = 0;
            for (const std::string& name : names) {
                HalfSender& sender = *senders.emplace_back(
                    std::make_unique<HalfSender>(rig.port(), rig.certificates.of(name)));
                // As large as the server accepts.
                for (int k = 0; k < 100; ++k) {
                    sender.begin(path, ControlOptions{}.message_bytes_max);
                }
                sender.send_all();
                sent += sender.sent();
            }
            EXPECT_EQ(calls_of_bystander(rig, calls), calls) << path;
            EXPECT_LT(sent, uint64_t{64} << 20) << path;
            const auto refused = rig.lines.with("requests are being received");
            if (std::string_view(path).contains("Files")) EXPECT_FALSE(refused.empty());
            for (const std::string& line : refused) {
                EXPECT_THAT(line, testing::HasSubstr(" (ipv4:127.0.0.1:"));
                EXPECT_THAT(line, testing::HasSubstr(" peer=ipv4:127.0.0.1:"));
            }
            EXPECT_EQ(calls_of_bystander(rig, 10, "operator"), 10) << path;
        };
        Rig one;
        one.certificates.add("operator");
        flood(one, std::vector<std::string>(10, "mallory"), 160);
        Rig many({.control = {.requests_max = 512, .calls_per_subject_max = 64}});
        many.certificates.add("operator");
        // Eight take all if each has a limit alone, and sixteen if each has a share of the rest.
        flood(many, many.hosts_of_one_tenant(16), 50);
    }
}

// Calls of Watch do not end by themselves.
TEST_F(HalfSentRequests, CallsOfOneTenantLeaveRoomForOthers) {
    constexpr size_t hosts = 10, of_each = 32, most = 64;
    Rig rig({.control = {.calls_max = 2 * most, .calls_per_subject_max = of_each}});
    rig.certificates.add("operator");
    std::vector<std::unique_ptr<HalfSender>> senders;
    for (const std::string& host : rig.hosts_of_one_tenant(hosts)) {
        HalfSender& sender = *senders.emplace_back(
            std::make_unique<HalfSender>(rig.port(), rig.certificates.of(host)));
        for (size_t k = 0; k < of_each; ++k) sender.ask("/grpc.health.v1.Health/Watch");
    }
    EXPECT_TRUE(eventually(*rig.client_reactor, [&] {
        size_t refused = 0;
        for (const auto& sender : senders) refused += sender->refused();
        return refused == hosts * of_each - most;
    }));
    EXPECT_EQ(calls_of_bystander(rig, 10), 10);
    EXPECT_EQ(calls_of_bystander(rig, 10, "operator"), 10);
    EXPECT_EQ(calls_of_bystander(rig, 1, "host-0"), 0);
    // Calls in progress count where their subject belongs now.
    rig.do_there([&] { rig.accounts.set({}); });
    EXPECT_EQ(calls_of_bystander(rig, 1, "host-7"), 1);
    senders.clear();
    EXPECT_TRUE(
        eventually(*rig.client_reactor, [&] { return calls_of_bystander(rig, 1, "host-0") == 1; }));
}

TEST_F(HalfSentRequests, IncompleteRequestTimesOut) {
    Rig rig({.control = {.request_max = 1s}});
    HalfSender sender(rig.port(), rig.certificates.of("mallory"));
    for (int i = 0; i < 5; ++i) sender.begin("/ros2s.control.v1.Pools/List", 1000);
    sender.send_all();
    EXPECT_TRUE(eventually(*rig.client_reactor, [&] { return sender.refused() == 5; }));
    EXPECT_TRUE(
        eventually(*rig.client_reactor, [&] { return rig.server->counters().refused_late == 5; }));
    EXPECT_EQ(calls_of_bystander(rig, 1), 1);
}

// gRPC keeps a reply until it is taken, and calls used to count until their handlers were done: one
// tenant could have replies for all its streams in memory.
TEST_F(HalfSentRequests, UntakenRepliesCountAndTimeOut) {
    constexpr uint64_t most = 8, asked = 200;
    // Long enough to send all requests before the first are ended.
    Rig rig({.control = {.request_max = 5s, .calls_per_subject_max = most}});
    std::vector<std::unique_ptr<HalfSender>> senders;
    for (int i = 0; i < 2; ++i) {
        HalfSender& sender = *senders.emplace_back(
            std::make_unique<HalfSender>(rig.port(), rig.certificates.of("mallory"), 0));
        for (uint64_t k = 0; k < asked / 2; ++k) sender.ask("/ros2s.control.v1.Pools/List");
    }
    const auto counters = [&] { return rig.server->counters(); };
    EXPECT_TRUE(eventually(*rig.client_reactor,
                           [&] { return counters().served + counters().refused_busy >= asked; }));
    EXPECT_GT(counters().served, 0u);
    EXPECT_LE(counters().served, most);
    EXPECT_GE(counters().refused_busy, asked - most);
    EXPECT_EQ(calls_of_bystander(rig, 1), 1);
    EXPECT_TRUE(eventually(*rig.client_reactor,
                           [&] { return senders[0]->refused() + senders[1]->refused() == asked; }));
    // They do not count any more.
    const auto again = rig.client("mallory");
    EXPECT_TRUE(eventually(*rig.client_reactor, [&] {
        const Call call{.deadline = rig.client_reactor->now() + 20s};
        Report report;
        return rig.here([&] { return again->list_pools(call, report); }).has_value();
    }));
}

TEST_F(HalfSentRequests, ServerStopsWithUntakenReplies) {
    Rig rig;
    HalfSender sender(rig.port(), rig.certificates.of("mallory"), 0);
    for (int i = 0; i < 5; ++i) sender.ask("/ros2s.control.v1.Pools/List");
    EXPECT_TRUE(
        eventually(*rig.client_reactor, [&] { return rig.server->counters().served == 5; }));
    rig.there([&] { return rig.server->stop(10ms); });
}

TEST_F(HalfSentRequests, UntakenReflectionReplyTimesOut) {
    Rig rig({.control = {.request_max = 1s}});
    HalfSender sender(rig.port(), rig.certificates.of("mallory"), 0);
    // ServerReflectionRequest.list_services = "*"
    for (int i = 0; i < 20; ++i) {
        sender.ask("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "\x3a\x01*");
    }
    EXPECT_TRUE(eventually(*rig.client_reactor, [&] { return sender.refused() == 20; }));
    EXPECT_EQ(calls_of_bystander(rig, 1), 1);
}

}  // namespace
}  // namespace ros2s::control
