#include "ros2s/control/process/helper_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "ros2s/fabric/deadline.h"
#include "ros2s/runtime/ring.h"
#include "wire.h"

namespace ros2s::control {
namespace {

// The helper ends a call at its deadline, with the better sentence.
constexpr Duration helper_grace = std::chrono::seconds(1);

void make_absolute(std::string& path) {
    std::error_code failed;
    const auto whole = std::filesystem::absolute(path, failed);
    if (!failed && !path.empty()) path = whole.string();
}

}  // namespace

HelperClient::HelperClient(Reactor& reactor, ClientOptions options, ControlHelper& helper)
    : reactor_(reactor), options_(std::move(options)), helper_(helper) {
    make_absolute(options_.identity.authority_file);
    make_absolute(options_.identity.certificate_file);
    make_absolute(options_.identity.key_file);
    constexpr std::string_view unix = "unix:";
    if (!options_.address.starts_with(unix)) return;
    std::string path = options_.address.substr(unix.size());
    make_absolute(path);
    options_.address = std::string(unix) + path;
}

Task<Result<HelperReply>> HelperClient::ask(const Call& call, HelperRequest request,
                                            Report& report) {
    ROS2S_CO_TRY(call.check(reactor_));
    request.server = options_;
    Time until = Time::max();
    if (call.deadline != Time::max()) {
        request.left_ns = static_cast<uint64_t>((call.deadline - reactor_.now()).count());
        until = call.deadline + helper_grace;
    }
    const std::string sent = written(helper_request_fields, request);
    ROS2S_CO_TRY_ASSIGN(const fabric::Descriptor socket,
                        helper_.send(std::as_bytes(std::span(sent)), report));
    fabric::Deadline limit(reactor_, until, call.stop);
    const auto ready = co_await reactor_.ring()->poll(socket.get(), POLLIN, limit.token());
    co_await limit.finish();
    if (!ready && limit.passed()) {
        co_return report.fail(Code::deadline, "the control helper {} does not answer",
                              helper_.program());
    }
    if (!ready) co_return fail(ready.error());
    std::vector<std::byte> memory(helper_message_max);
    const ssize_t got = ::recv(socket.get(), memory.data(), memory.size(), MSG_DONTWAIT);
    if (got <= 0) {
        co_return report.fail(Code::disconnected,
                              "the control helper {} ended during a call; the next call starts it "
                              "again",
                              helper_.program());
    }
    HelperReply reply;
    ROS2S_CO_TRY(
        rpc::read(Bytes(memory).first(static_cast<size_t>(got)), helper_reply_fields, reply));
    if (!reply.status) co_return report.fail(reply.status.error(), std::move(reply.text));
    co_return std::move(reply);
}

Task<Result<OpenedSession>> HelperClient::open_session(const Call& call, SessionOptions wanted,
                                                       Report& report) {
    ROS2S_CHECK(wanted.holder == nullptr);
    ROS2S_CO_TRY_ASSIGN(
        auto reply,
        co_await ask(call, {.what = HelperCall::open_session, .wanted = std::move(wanted)},
                     report));
    co_return std::move(reply.session);
}

Task<Result<Duration>> HelperClient::keep_alive(const Call& call, session::SessionId id,
                                                Report& report) {
    ROS2S_CO_TRY_ASSIGN(
        const auto reply,
        co_await ask(call, {.what = HelperCall::keep_alive, .session = id}, report));
    co_return reply.session.idle_max;
}

Task<Result<GivenTicket>> HelperClient::issue_ticket(const Call& call, session::SessionId id,
                                                     Report& report) {
    ROS2S_CO_TRY_ASSIGN(
        const auto reply,
        co_await ask(call, {.what = HelperCall::issue_ticket, .session = id}, report));
    co_return reply.session.ticket;
}

Task<Result<ShownReply>> HelperClient::show_capability(const Call&, session::SessionId,
                                                       capability::Chain, std::string, Report&) {
    co_return fail(Code::unsupported);
}

Task<Result<>> HelperClient::close_session(const Call& call, session::SessionId id,
                                           Report& report) {
    ROS2S_CO_TRY(co_await ask(call, {.what = HelperCall::close_session, .session = id}, report));
    co_return Result<>{};
}

Task<Result<std::optional<Duration>>> HelperClient::delegate(const Call& call, std::string pool,
                                                             capability::Use use, Report& report) {
    HelperRequest request{.what = HelperCall::delegate, .use = std::move(use)};
    request.wanted.pool = std::move(pool);
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask(call, std::move(request), report));
    if (reply.delegate_after < Duration{}) co_return std::nullopt;
    co_return reply.delegate_after;
}

Task<Result<MountedAt>> HelperClient::mount(const Call& call, session::SessionId id,
                                            std::string container, MountAs how, Report& report) {
    ROS2S_CO_TRY_ASSIGN(auto reply, co_await ask(call,
                                                 {.what = HelperCall::mount,
                                                  .session = id,
                                                  .container = std::move(container),
                                                  .how = how},
                                                 report));
    co_return std::move(reply.mount);
}

Task<Result<>> HelperClient::unmount(const Call& call, session::SessionId id,
                                     session::MountId mount, Report& report) {
    ROS2S_CO_TRY(
        co_await ask(call, {.what = HelperCall::unmount, .session = id, .mount = mount}, report));
    co_return Result<>{};
}

}  // namespace ros2s::control
