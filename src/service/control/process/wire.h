// The messages between a forked child and the control helper: one request and one reply, each a
// message of its own on a socket of its own. Both ends are of one version of the package.
#pragma once
#include <cstdint>
#include <string>

#include "ros2s/base/fields.h"
#include "ros2s/control/control_client.h"
#include "ros2s/rpc/body.h"

namespace ros2s::control {

// The functions of SessionClient that a host needs.
enum class HelperCall : uint8_t {
    open_session,
    keep_alive,
    issue_ticket,
    close_session,
    delegate,
    mount,
    unmount,
};

inline constexpr uint64_t no_time_limit = UINT64_MAX;

// A call uses the fields of its arguments. The others are empty.
struct HelperRequest {
    HelperCall what{};
    uint64_t left_ns = no_time_limit;  // the time that the caller has
    ClientOptions server;
    SessionOptions wanted;  // without a holder
    session::SessionId session{};
    session::MountId mount{};
    std::string container;
    MountAs how;
    capability::Use use;
};

struct HelperReply {
    Result<> status;
    std::string text;  // the sentence of an error
    session::SessionId session{};
    std::string ticket, nonce, provider, address, storage;
    int64_t ticket_ns = 0;   // its lifetime
    int64_t period_ns = -1;  // idle_max, keep_alive's and delegate's result; -1: none
    session::MountId mount{};
    bool lends_leases = false, squashes_root = false, is_deferred = false;
};

inline constexpr size_t helper_text_max = 16 << 10;
inline constexpr size_t helper_message_max = 64 << 10;
inline constexpr size_t helper_providers_max = 64;

inline constexpr auto helper_server_fields = [](auto& io, auto& server) {
    io.text("address", server.address, helper_text_max);
    io.text("name", server.server_name, helper_text_max);
    io.text("authorities", server.identity.authority_file, helper_text_max);
    io.text("certificate", server.identity.certificate_file, helper_text_max);
    io.text("key", server.identity.key_file, helper_text_max);
};

inline constexpr auto helper_request_fields = [](auto& io, auto& request) {
    io.choice("call", request.what, HelperCall::unmount);
    io("nanoseconds left", request.left_ns);
    io.part("server", request.server, helper_server_fields);
    io("client instance", request.wanted.client);
    io.choice("purpose", request.wanted.purpose, session::Purpose::link);
    io.text("pool", request.wanted.pool, helper_text_max);
    io.text("program", request.wanted.program, helper_text_max);
    io.list("providers", request.wanted.providers, helper_providers_max,
            [](auto& each, auto& provider) { each.text("provider", provider, helper_text_max); });
    io("session", request.session.value);
    io("mount", request.mount.value);
    io.text("container", request.container, helper_text_max);
    io("read only", request.how.read_only);
    io("durable", request.how.durable);
    io("rights", request.use.rights.bits);
    io("directories", request.use.directories);
    io.text("containers of the rights", request.use.container.text, helper_text_max);
};

inline constexpr auto helper_reply_fields = [](auto& io, auto& reply) {
    io.part("status", reply.status, rpc::status_fields);
    io.text("sentence", reply.text, helper_text_max);
    io("session", reply.session.value);
    io.text("ticket", reply.ticket, helper_text_max);
    io.text("nonce", reply.nonce, helper_text_max);
    io.text("provider", reply.provider, helper_text_max);
    io.text("address", reply.address, helper_text_max);
    io.text("storage", reply.storage, helper_text_max);
    io("lends leases", reply.lends_leases);
    io("squashes root", reply.squashes_root);
    io("deferred", reply.is_deferred);
    io("lifetime of the ticket in nanoseconds", reply.ticket_ns);
    io("period in nanoseconds", reply.period_ns);
    io("mount", reply.mount.value);
};

}  // namespace ros2s::control
