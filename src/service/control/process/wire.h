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
    std::string text;             // the sentence of an error
    OpenedSession session;        // issue_ticket: its ticket; keep_alive: its idle_max
    Duration delegate_after{-1};  // negative: never
    MountedAt mount;
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
    io.text("who has the container alone", request.how.exclusive_as, helper_text_max);
    io("rights", request.use.rights.bits);
    io("directories", request.use.directories);
    io.text("containers of the rights", request.use.container.text, helper_text_max);
};

inline constexpr auto duration_fields = []<class Io>(Io& io, auto& duration) {
    int64_t nanoseconds = duration.count();
    io("nanoseconds", nanoseconds);
    if constexpr (Io::reads) duration = Duration(nanoseconds);
};

inline constexpr auto helper_reply_fields = [](auto& io, auto& reply) {
    io.part("status", reply.status, rpc::status_fields);
    io.text("sentence", reply.text, helper_text_max);
    io("session", reply.session.id.value);
    io.bytes("ticket", reply.session.ticket.ticket.bytes);
    io.part("lifetime of the ticket", reply.session.ticket.lifetime, duration_fields);
    io.text("nonce", reply.session.nonce, helper_text_max);
    io.text("provider", reply.session.provider, helper_text_max);
    io.text("address", reply.session.address, helper_text_max);
    io.part("idle time of the session", reply.session.idle_max, duration_fields);
    io.part("time of the next delegation", reply.delegate_after, duration_fields);
    io("mount", reply.mount.id.value);
    io.text("storage", reply.mount.storage, helper_text_max);
    io("lends leases", reply.mount.lends_leases);
    io("squashes root", reply.mount.squashes_root);
    io("deferred", reply.mount.is_deferred);
    io("alone", reply.mount.is_exclusive);
};

}  // namespace ros2s::control
