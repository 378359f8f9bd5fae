// Makes a ClientConnection: connects with a hello that has a ticket, and receives a welcome.

#include <algorithm>

#include "client_connection.h"
#include "ros2s/runtime/call.h"

namespace ros2s::rpc {
namespace {

constexpr Duration connect_within = std::chrono::seconds(5);

// The fabric's credential.
std::vector<std::byte> make_hello(const HelloBody& hello) {
    std::vector<std::byte> body_memory(hello_bytes_max);
    const ConstBytes body = encode(hello, body_memory);
    std::vector<std::byte> memory(frame_bytes(0, body.size()));
    FrameHeader header;
    header.kind = Kind::hello;
    encode_frame(header, {}, {}, body, memory);
    return memory;
}

}  // namespace

// The server's answer to the hello. Errors: the reason for its refusal, bad_version, corrupt.
Result<ClientConnection::Welcome> ClientConnection::read_verdict(ConstBytes verdict,
                                                                 const std::string& address,
                                                                 Report& report) {
    const auto frame = decode_frame(verdict);
    if (!frame && frame.error().code == Code::bad_version) {
        return report.fail(frame.error(),
                           "{} has version {} of the protocol, this program {}: use the same "
                           "release on both sides",
                           address, frame.error().detail, FrameHeader::current_version);
    }
    if (frame && frame->header.kind == Kind::failure) {
        if (const auto failure = decode_failure(frame->body)) {
            return report.fail(failure->error, "{}: {}", address, failure->text);
        }
    }
    const bool is_welcome = frame && frame->header.kind == Kind::welcome;
    const auto welcome = is_welcome ? decode_welcome(frame->body) : fail(Code::corrupt);
    if (!welcome || welcome->version != FrameHeader::current_version) {
        return report.fail(
            Code::corrupt,
            "the answer of {} is not a welcome: does a ros2store server listen there?", address);
    }
    return Welcome{.body = *welcome, .session = frame->header.session};
}

Task<Result<std::unique_ptr<ClientConnection>>> ClientConnection::open(
    Reactor& reactor, fabric::Domain& domain, const std::string& address, std::string ticket,
    const ChannelOptions& options, ChannelMetrics& metrics, const Call& call, Report& report) {
    if (ticket.size() > HelloBody::ticket_bytes_max) {
        co_return report.fail(Code::invalid, "the ticket for " + address + " is too long");
    }
    std::vector<std::byte> verdict;
    fabric::ConnectOptions connect{
        .limits = options.limits(),
        .within = std::min(connect_within, call.deadline - reactor.now()),
        .stop = call.stop,
        .credential =
            make_hello({.service = options.service, .client = options.client, .ticket = ticket}),
        .verdict = &verdict};
    Report connecting;
    auto endpoint = co_await domain.connect(address, std::move(connect), connecting);
    if (!endpoint && verdict.empty()) {
        co_return report.fail(endpoint.error(), connecting.text());
    }
    const auto welcome = read_verdict(verdict, address, report);
    if (!welcome && welcome.error().code == Code::corrupt) metrics.malformed.add();
    if (endpoint && welcome) {
        co_return std::unique_ptr<ClientConnection>(
            new ClientConnection(reactor, std::move(*endpoint), *welcome, options, metrics));
    }
    // The server admitted us, but the set-up failed.
    if (!endpoint && welcome) co_return report.fail(endpoint.error(), connecting.text());
    if (endpoint) {
        (*endpoint)->abandon();
        co_await (*endpoint)->close();
    }
    co_return fail(welcome.error());
}

}  // namespace ros2s::rpc
