// How a ClientConnection comes about: connect, hello with a ticket, welcome.
#include <fmt/format.h>

#include "client_connection.h"
#include "ros2s/base/check.h"
#include "ros2s/fabric/deadline.h"

namespace ros2s::rpc {

Task<Result<std::unique_ptr<ClientConnection>>> ClientConnection::open(
    Reactor& reactor, fabric::Domain& domain, const std::string& address, TicketSource& tickets,
    const ChannelOptions& options, ChannelMetrics& metrics, StopToken stop, Report& report) {
    auto endpoint = co_await domain.connect(
        address, {.limits = options.limits(), .within = options.connect_within, .stop = stop},
        report);
    if (!endpoint) {
        co_await tickets.nobody_there();
        co_return fail(endpoint.error());
    }
    std::unique_ptr<ClientConnection> connection(
        new ClientConnection(reactor, std::move(*endpoint), options, metrics));
    const Result<> greeted = co_await connection->greet(domain, address, tickets, stop, report);
    if (greeted) co_return connection;
    co_await connection->close();
    co_return fail(greeted.error());
}

Task<Result<>> ClientConnection::greet(fabric::Domain& domain, const std::string& address,
                                       TicketSource& tickets, StopToken stop, Report& report) {
    ROS2S_CO_TRY_ASSIGN(const std::string ticket, co_await tickets.take(report));
    if (const std::string now = tickets.address(); !now.empty() && now != address) {
        co_return report.fail(Code::disconnected, fmt::format("{} is the address of another server "
                                                              "now; ours listens at {}",
                                                              address, now));
    }
    if (ticket.size() > HelloBody::ticket_bytes_max) {
        co_return report.fail(Code::invalid, "the ticket for " + address + " is too long");
    }
    const HelloBody hello{.service = options_.service, .client = options_.client, .ticket = ticket};
    std::vector<std::byte> body_memory(hello_bytes_max);
    const ConstBytes body = encode(hello, body_memory);
    std::vector<std::byte> memory(frame_bytes(0, body.size()));
    FrameHeader header;
    header.kind = Kind::hello;
    const ConstBytes frame = encode_frame(header, {}, {}, body, memory);

    fabric::Deadline within(reactor_, reactor_.now() + options_.connect_within, stop);
    Result<> greeted = co_await endpoint_->send(frame, {}, within.token());
    Result<fabric::Message> message = fail(Code::disconnected);
    if (greeted) message = co_await endpoint_->receive(within.token());
    const bool too_late = within.passed();
    co_await within.finish();
    if (message) co_return take_welcome(message->bytes(), address, report);
    if (too_late) {
        co_return report.fail(Code::deadline, fmt::format("{} ({}) took the connection and does "
                                                          "not answer: is the server hung?",
                                                          address, domain.provider()));
    }
    if (greeted) greeted = fail(message.error());
    co_return report.fail(greeted.error(),
                          fmt::format("{} ({}) ended the connection without an answer: does a "
                                      "ros2store server listen there?",
                                      address, domain.provider()));
}

Result<> ClientConnection::take_welcome(ConstBytes message, const std::string& address,
                                        Report& report) {
    const auto frame = decode_frame(message);
    if (!frame && frame.error().code == Code::bad_version) {
        return report.fail(
            frame.error(),
            fmt::format("{} speaks version {} of the protocol, this program {}: "
                        "use the same release on both sides",
                        address, frame.error().detail, FrameHeader::current_version));
    }
    if (frame && frame->header.kind == Kind::failure) {
        if (const auto failure = decode_failure(frame->body)) {
            return report.fail(failure->error, fmt::format("{}: {}", address, failure->text));
        }
    }
    const bool is_welcome = frame && frame->header.kind == Kind::welcome;
    const auto welcome = is_welcome ? decode_welcome(frame->body) : fail(Code::corrupt);
    if (!welcome || welcome->version != FrameHeader::current_version) {
        metrics_.malformed.add();
        return report.fail(Code::corrupt, fmt::format("what {} answered is no welcome: does a "
                                                      "ros2store server listen there?",
                                                      address));
    }
    welcome_ = *welcome;
    session_ = frame->header.session;
    slots_.resize(welcome_.requests_max);
    for (uint32_t slot = welcome_.requests_max; slot-- > 0;) free_.push_back(slot);
    return {};
}

}  // namespace ros2s::rpc
