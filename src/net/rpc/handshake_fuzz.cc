// A hostile peer on a real connection, from the hello on: as a client of a server, and as a server
// of a client. Frames are valid except as the input says. At worst the peer's connection ends, or
// the client gets an error with a sentence.
#include <algorithm>

#include "channel.h"
#include "ros2s/base/check.h"
#include "ros2s/fabric/sim/network.h"
#include "ros2s/fabric/test_support/fuzz_script.h"
#include "ros2s/runtime/sim/world.h"
#include "server.h"

using namespace ros2s;
using namespace ros2s::rpc;

namespace {

constexpr uint32_t service_number = 7;

class Echo final : public Service {
  public:
    [[nodiscard]] uint32_t number() const override { return service_number; }
    Task<> serve(Request& request) override {
        const PayloadMemory memory = request.memory(request.payload_bytes());
        if (!co_await request.receive_payload(memory.bytes())) {
            co_return co_await request.fail({.code = Code::invalid});
        }
        co_await request.reply(request.body());
    }
};

class OneTicket final : public Gate {
  public:
    Result<Guest> admit(const HelloBody& hello, const fabric::Peer& /*peer*/) override {
        ++asked;
        if (hello.ticket != "ticket") return fail(Code::denied);
        return Guest{.session = 1, .tenant = 1};
    }
    void left(const Guest& /*guest*/) override {}
    uint64_t asked = 0;
};

class GivenTickets final : public TicketSource {
  public:
    Task<Result<std::string>> take(Report& /*report*/) override { co_return "ticket"; }
};

class Trial : private fabric::PeerCheck {
  public:
    explicit Trial(ConstBytes input) : script_(input), world_(1), network_(world_.random()) {}

    void run() {
        const bool victim_is_server = (script_.take<uint8_t>() & 1) == 0;
        world_.run(victim_is_server ? meet_server() : meet_client());
    }

  private:
    // One message of the hostile peer: any bytes, or a frame.
    std::vector<std::byte> message() {
        const auto how = script_.take<uint8_t>();
        if (how < 16) {
            const ConstBytes any = script_.bytes(script_.take<uint8_t>());
            return {any.begin(), any.end()};
        }
        FrameHeader header;
        header.kind = static_cast<Kind>(how % 8);
        header.session = how < 32 ? script_.take<uint32_t>() : session_;
        if (header.kind == Kind::request || header.kind == Kind::cancel) {
            header.request = script_.take<uint8_t>();
            header.method = script_.take<uint8_t>();
            header.payload_bytes = script_.take<uint16_t>() % 2000;
            if (how >= 224) header.flags = script_.take<uint8_t>() % 16;
            if (how >= 224) header.sink_bytes = script_.take<uint16_t>();
        }
        std::vector<std::byte> body(hello_bytes_max);
        const ConstBytes written = make_body(header.kind, body);
        std::vector<std::byte> memory(frame_bytes(0, written.size()));
        encode_frame(header, {}, {}, written, memory);
        memory.resize(memory.size() + header.payload_bytes);
        return memory;
    }
    ConstBytes make_body(Kind kind, Bytes into) {
        const auto how = script_.take<uint8_t>();
        if (how < 64) {
            const ConstBytes any = script_.bytes(how);
            std::ranges::copy(any, into.begin());
            return ConstBytes(into).first(any.size());
        }
        if (kind == Kind::hello) {
            const bool right = how < 224;
            return encode(HelloBody{.version_least = static_cast<uint16_t>(right ? 1 : how - 224),
                                    .service = right ? service_number : how,
                                    .ticket = how < 128 ? "ticket" : as_text(script_.bytes(20))},
                          into);
        }
        if (kind == Kind::welcome) {
            return encode(WelcomeBody{.requests_max = script_.take<uint16_t>(),
                                      .inline_reply_max = script_.take<uint32_t>(),
                                      .payload_bytes_max =
                                          script_.take<uint64_t>() % (2 * payload_bytes_most),
                                      .incarnation = 1},
                          into);
        }
        return encode(
            FailureBody{.error = {.code = Code::denied}, .text = as_text(script_.bytes(how))},
            into);
    }

    Task<> meet_server() {
        Report report;
        Echo echo;
        OneTicket gate;
        auto domain = network_.open_domain(world_.core(), "server");
        auto server =
            co_await Server::listen(world_.core(), *domain, "here", echo, gate, {}, report);
        ROS2S_CHECK(server);
        auto theirs = network_.open_domain(world_.core(), "stranger");
        std::vector<std::byte> verdict;
        auto endpoint = co_await theirs->connect(
            "here", {.credential = message(), .verdict = &verdict}, report);
        hear(verdict);
        ROS2S_CHECK(endpoint.has_value() == (session_ != 0));
        ROS2S_CHECK(!endpoint || gate.asked == 1);
        while (endpoint && !script_.over() && (*endpoint)->alive()) {
            const std::vector<std::byte> bytes = message();
            if (!co_await (*endpoint)->send(bytes)) break;
            co_await sleep_for(world_.core(), std::chrono::microseconds(100));
        }
        if (endpoint) co_await (*endpoint)->close();
        co_await (*server)->close();
        server->reset();
        co_await theirs->close();
        co_await domain->close();
    }
    // A server sends valid frames only.
    void hear(ConstBytes verdict) {
        if (verdict.empty()) return;
        const auto frame = decode_frame(verdict);
        ROS2S_CHECK(frame &&
                    (frame->header.kind == Kind::welcome || frame->header.kind == Kind::failure));
        if (frame->header.kind == Kind::welcome) session_ = frame->header.session;
    }

    Task<> meet_client() {
        Report report;
        auto theirs = network_.open_domain(world_.core(), "stranger");
        auto listener = co_await theirs->listen("here", {.peer_check = this}, report);
        ROS2S_CHECK(listener);
        auto domain = network_.open_domain(world_.core(), "client");
        Nursery answering(world_.core(), 1);
        co_await answering.spawn(answer(*this, **listener));
        GivenTickets tickets;
        ChannelOptions options{.service = service_number,
                               .patience = std::chrono::milliseconds(100),
                               .answer_within = std::chrono::milliseconds(1)};
        options.client.bytes[0] = 1;
        auto channel =
            co_await Channel::open(world_.core(), *domain, "here", tickets, options, report);
        ROS2S_CHECK(channel || !report.empty());
        if (channel) co_await (*channel)->close();
        co_await (*listener)->close();
        co_await answering.join();
        co_await domain->close();
        co_await theirs->close();
    }
    // Answers the client's hello with any answer and any bytes.
    Verdict admit(uint64_t /*session*/, ConstBytes /*credential*/,
                  const fabric::Peer& /*peer*/) override {
        const bool admitted = (script_.take<uint8_t>() & 1) == 0;
        return {.admitted = admitted, .said = message()};
    }
    void withdraw(uint64_t /*session*/) noexcept override {}
    static Task<> answer(Trial& self, fabric::Listener& listener) {
        for (;;) {
            auto endpoint = co_await listener.accept();
            if (!endpoint) co_return;
            while (const auto heard = co_await (*endpoint)->receive()) {
                if (self.script_.over()) (*endpoint)->abandon();
                const std::vector<std::byte> bytes = self.message();
                if (!co_await (*endpoint)->send(bytes)) break;
            }
            co_await (*endpoint)->close();
        }
    }

    fabric::FuzzScript script_;
    sim::World world_;
    fabric::sim::Network network_;
    uint32_t session_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Trial(std::as_bytes(std::span(data, size))).run();
    return 0;
}
