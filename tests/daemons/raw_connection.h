// A connection to a daemon on which a test sends any frames after the greeting.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dpu_tenant.h"
#include "ros2s/fabric/domain.h"
#include "ros2s/rpc/frame.h"

namespace ros2s::tests {

struct RawConnection {
    std::unique_ptr<fabric::Endpoint> endpoint;
    uint32_t session = 0;
    std::string refusal;  // the server's sentence, if it let nobody in

    // Connects as the client of that connection, with a ticket of its session.
    Task<Result<>> open(fabric::Domain& domain, connection::Connection& of,
                        uint32_t service = hostlink::file_service);
    // Connects with any ticket to any listener. Errors: those of Domain::connect(); corrupt (the
    // answer).
    Task<Result<>> greet(fabric::Domain& domain, std::string listener, Uuid client,
                         std::string ticket, uint32_t service = hostlink::file_service);
    // Closes the connection but not its session. Does nothing without a connection.
    Task<> close();
};

inline Task<Result<>> RawConnection::open(fabric::Domain& domain, connection::Connection& of,
                                          uint32_t service) {
    Report report;
    ROS2S_CO_TRY_ASSIGN(std::string ticket, co_await of.tickets().take(report));
    co_return co_await greet(domain, of.channel().address(), of.client(), std::move(ticket),
                             service);
}

inline Task<Result<>> RawConnection::greet(fabric::Domain& domain, std::string listener,
                                           Uuid client, std::string ticket, uint32_t service) {
    std::vector<std::byte> memory(rpc::hello_bytes_max), verdict;
    const ConstBytes body =
        rpc::encode(rpc::HelloBody{.service = service, .client = client, .ticket = ticket}, memory);
    std::vector<std::byte> hello(rpc::frame_bytes(0, body.size()));
    rpc::FrameHeader header;
    header.kind = rpc::Kind::hello;
    rpc::encode_frame(header, {}, {}, body, hello);
    Report report;
    auto connected = co_await domain.connect(
        std::move(listener), {.credential = std::move(hello), .verdict = &verdict}, report);
    if (!connected) {
        refusal = report.text();
        refusal += as_text(verdict);
        co_return fail(connected.error());
    }
    endpoint = std::move(*connected);
    const auto frame = rpc::decode_frame(verdict);
    if (!frame || frame->header.kind != rpc::Kind::welcome) co_return fail(Code::corrupt);
    session = frame->header.session;
    co_return Result<>{};
}

inline Task<> RawConnection::close() {
    if (endpoint) co_await endpoint->close();
    endpoint.reset();
}

}  // namespace ros2s::tests
