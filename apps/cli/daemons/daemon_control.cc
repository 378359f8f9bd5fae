#include "daemon_control.h"

#include <fmt/format.h>

#include <chrono>

#include "output/describe.h"
#include "ros2s/api/server_address.h"
#include "ros2s/control/control_client.h"
#include "ros2s/pki/certificate.h"

namespace ros2s::cli {
namespace {

// A status of hanging daemons must be printed, too.
constexpr Duration answer_max = std::chrono::seconds(5);

Task<Result<control::ServerFacts>> ask(CommandContext context, control::ClientOptions options,
                                       Report& report) {
    ROS2S_CO_TRY_ASSIGN(
        const auto client,
        control::ControlClient::create(context.environment.reactor, std::move(options), report));
    Call call = context.call;
    call.deadline = context.environment.reactor.now() + answer_max;
    co_return co_await client->query_server(call, report);
}

// The problem that it reports; empty: none.
std::string trouble_of(const control::ServerFacts& facts) {
    if (!facts.serving) return "it is stopping, and accepts no new sessions";
    if (facts.absent.empty()) return {};
    const auto& [pool, since] = facts.absent.front();
    return fmt::format(
        "the engine or cluster of the pool '{}' has been unreachable since {}; its log has the "
        "reason",
        pool, time_text(since, true));
}

// Uses the client's certificate of the directory.
control::ClientOptions control_of(const std::string& directory, api::Uri::Transport way) {
    const api::ServerAddress server = api::server_in(directory, way);
    return {.address = server.control,
            .identity = pki::identity_in(server.certificates, "client"),
            .server_name = server.name};
}

}  // namespace

Task<Result<>> ask_services(CommandContext context, std::string directory,
                            std::vector<Service>& services) {
    for (Service& service : services) {
        if (service.running.pid == 0) continue;
        const auto way = service.paths.program == pool::engine_program ? api::Uri::Transport::direct
                                                                       : api::Uri::Transport::dpu;
        Report why;
        const auto facts = co_await ask(context, control_of(directory, way), why);
        ROS2S_CO_TRY(context.call.check(context.environment.reactor));
        if (!facts && facts.error().code == Code::deadline) {
            service.trouble =
                fmt::format("it has not answered for {} seconds",
                            std::chrono::floor<std::chrono::seconds>(answer_max).count());
        } else if (facts) {
            service.sessions = facts->sessions;
            service.trouble = trouble_of(*facts);
        } else {
            service.trouble = why.empty() ? describe(facts.error()) : why.text();
        }
    }
    co_return Result<>{};
}

}  // namespace ros2s::cli
