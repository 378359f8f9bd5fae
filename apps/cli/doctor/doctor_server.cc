#include "doctor_server.h"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <array>

#include "doctor_certificates.h"
#include "output/console.h"
#include "output/describe.h"
#include "ros2s/control/control_client.h"
#include "ros2s/fabric/deadline.h"
#include "ros2s/fabric/providers/providers.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/pki/handshake.h"

namespace ros2s::cli {
namespace {

constexpr auto patience = std::chrono::seconds(5);  // for each answer
constexpr std::string_view unix_socket = "unix:";

// ---- a connection

// "192.0.2.7:7400", "[2001:db8::1]:7400": the addresses of a name. Blocks.
Result<std::vector<std::string>> addresses_of(const std::string& address, Report& report) {
    const size_t colon = address.rfind(':');
    std::string host = address.substr(0, colon);
    if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
    const addrinfo wanted{.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    addrinfo* found = nullptr;
    const int failed =
        getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &wanted, &found);
    if (failed != 0) {
        return report.fail(Code::not_found, "'{}' is not known here: {}", host,
                           gai_strerror(failed));
    }
    std::vector<std::string> all;
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
        std::array<char, NI_MAXHOST> number{};
        std::array<char, NI_MAXSERV> port{};
        if (getnameinfo(each->ai_addr, each->ai_addrlen, number.data(), number.size(), port.data(),
                        port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
            continue;
        }
        const bool v6 = each->ai_family == AF_INET6;
        all.push_back(
            fmt::format("{}{}{}:{}", v6 ? "[" : "", number.data(), v6 ? "]" : "", port.data()));
    }
    freeaddrinfo(found);
    return all;
}

// To a path, or a number with a port.
Task<Result<fabric::Descriptor>> connect(CommandContext context, std::string address,
                                         Report& report) {
    Reactor& reactor = context.environment.reactor;
    fabric::Deadline deadline(reactor, reactor.now() + patience, context.call.stop);
    auto socket = co_await fabric::connect_to(reactor, address, deadline.token(), report);
    if (!socket && socket.error().code == Code::cancelled) {
        socket = deadline.error();
        if (deadline.passed()) {
            report.say("{} does not answer within {} s", address, patience.count());
        }
    }
    co_await deadline.finish();
    co_return socket;
}

struct Reached {
    fabric::Descriptor socket;
    std::string address;
};

// The first address of the location that accepts a connection.
Task<Result<Reached>> reach(CommandContext context, std::string location, Report& report) {
    std::vector<std::string> addresses{
        location.substr(std::min(location.size(), unix_socket.size()))};
    if (!location.starts_with(unix_socket)) {
        ROS2S_CO_TRY_ASSIGN(addresses, co_await context.environment.blocking.run(
                                           context.environment.reactor, [&location, &report] {
                                               return addresses_of(location, report);
                                           }));
    }
    Result<Reached> reached = fail(Code::not_found);
    for (const std::string& address : addresses) {
        auto socket = co_await connect(context, address, report);
        if (socket) co_return Reached{std::move(*socket), address};
        reached = fail(socket.error());
        if (socket.error().code == Code::cancelled) break;
    }
    co_return reached;
}

std::string remedy_of_connecting(const ExaminedServer& server, const Error& error) {
    switch (error.code) {
        case Code::not_found: return "write a name that `getent hosts` finds, or an IP address";
        case Code::disconnected: return server.start;
        case Code::denied: return "use a user that may open the socket, or root";
        default:
            return "check the network path: firewalls, `ip route get ADDRESS`, and the server's "
                   "'control: listen', which is 127.0.0.1 by default";
    }
}

// ---- TLS

std::string remedy_of_handshake(const api::ServerAddress& location, const Error& error) {
    switch (error.code) {
        case Code::denied:
            return fmt::format(
                "the server's log has the reason (audit: …); issue {}/client.crt where the "
                "server's authority is: ros2store certs issue DIR client --replace, and copy it "
                "here",
                location.certificates);
        case Code::deadline:
            return "it may hang: see its log, and whether its process is stopped or busy (`top`), "
                   "and start it again; or name the port of the control plane (7400 of an engine, "
                   "7500 of a DPU)";
        case Code::disconnected:
            return "name the port of the control plane (7400 of an engine, 7500 of a DPU), not "
                   "that of the data plane";
        default:
            return fmt::format("ros2store doctor --certs {}", shell_word(location.certificates));
    }
}

std::string common_name(const pki::CertificateFacts& facts) {
    return facts.subject.starts_with("CN=") ? facts.subject.substr(3) : "server";
}

Finding judge(const api::ServerAddress& location, const pki::ServerShown& shown, pki::Seconds now) {
    const pki::CertificateFacts& facts = shown.certificate;
    Finding finding{.what = "TLS",
                    .found = fmt::format("1.3 with {} ({}), until {}", facts.subject,
                                         fmt::join(facts.alternative_names, ", "),
                                         pki::to_string(facts.expires)),
                    .remedy = {}};
    std::vector<std::string> names = facts.alternative_names;
    if (shown.doubt.empty()) {
        if (facts.expires - now > soon) return finding;
        finding.grade = Grade::slower;
        finding.remedy = "where its authority is: " + renewal("DIR", common_name(facts), names);
        return finding;
    }
    finding.grade = Grade::wrong;
    finding.found += fmt::format(": {}", shown.doubt);
    if (now > facts.expires || now < facts.begins) {
        finding.remedy = "where its authority is: " + renewal("DIR", common_name(facts), names);
    } else if (shown.doubt.contains("mismatch")) {
        names.push_back(shown.name);
        finding.found += fmt::format(" ('{}')", shown.name);
        finding.remedy = fmt::format("call it by a name that it has, or where its authority is: {}",
                                     renewal("DIR", common_name(facts), names));
    } else {
        finding.remedy = fmt::format("copy the ca.crt of the server's authority to {}/ca.crt",
                                     location.certificates);
    }
    return finding;
}

// ---- the server's answers

Finding describe(const Result<control::ServerFacts>& facts, const Report& report) {
    Finding finding{.what = "server"};
    if (!facts) {
        finding.found = report.text();
        finding.grade = facts.error().code == Code::unsupported ? Grade::slower : Grade::wrong;
        finding.remedy = facts.error().code == Code::unsupported
                             ? "an older version; use programs of one version on both sides"
                             : "see the server's log";
        return finding;
    }
    finding.found = fmt::format("{}, {}", facts->program, facts->serving ? "serving" : "draining");
    if (!facts->serving) {
        finding.grade = Grade::slower;
        finding.remedy = "it is being stopped; start it again when it has ended";
    } else if (!facts->program.ends_with(" " ROS2STORE_VERSION)) {
        finding.grade = Grade::slower;
        finding.remedy = "this program is " ROS2STORE_VERSION "; use one version on both sides";
    }
    return finding;
}

// Engines behind a DPU. `remedy` starts them, if this is their machine.
std::vector<Finding> describe_absent(const control::ServerFacts& facts,
                                     const ExaminedServer& server) {
    std::vector<Finding> findings;
    for (const auto& [pool, since] : facts.absent) {
        findings.push_back(
            {.what = "engine",
             .grade = Grade::wrong,
             .found =
                 fmt::format("of the pool '{}' behind this DPU: it has been unreachable since {}",
                             pool, time_text(since, true)),
             .remedy = server.engine_start});
    }
    return findings;
}

bool is_here(const std::vector<fabric::Availability>& providers, const std::string& name) {
    return std::ranges::any_of(
        providers, [&](const auto& each) { return each.here && each.provider == name; });
}

// One address of the data plane. `near`: the server is on this machine.
Task<Finding> look_at_data(CommandContext context, std::string provider, std::string address,
                           bool near) {
    Finding finding{
        .what = "data plane", .found = fmt::format("{} at {}", provider, address), .remedy = {}};
    if (fabric::is_local(provider) && !near) {
        finding.grade = Grade::absent;
        finding.remedy = "for programs on the server's machine";
        co_return finding;
    }
    if (!is_here(fabric::look_at_providers(), provider)) {
        finding.grade = Grade::absent;
        finding.remedy = fmt::format("this machine has no {}: see above", provider);
        co_return finding;
    }
    Report report;
    const auto socket = co_await connect(context, address, report);
    if (!socket) {
        finding.grade = Grade::wrong;
        finding.found += ": " + report.text();
        finding.remedy =
            "check that clients can reach it: 'data: listen' in its settings, and the firewall";
    }
    co_return finding;
}

Task<std::vector<Finding>> look_at_data_plane(CommandContext context, control::ServerFacts facts,
                                              bool near) {
    std::vector<Finding> findings;
    for (const auto& [provider, address] : facts.data) {
        findings.push_back(co_await look_at_data(context, provider, address, near));
    }
    if (std::ranges::none_of(findings,
                             [](const Finding& one) { return one.grade == Grade::good; }) &&
        std::ranges::none_of(findings,
                             [](const Finding& one) { return one.grade == Grade::wrong; })) {
        findings.push_back({.what = "data plane",
                            .grade = Grade::wrong,
                            .found = "the server has no provider that this machine can use",
                            .remedy = "add one to 'data: listen' in its settings: shm PATH on one "
                                      "machine; between machines tls IP:PORT, ofi+verbs IP:PORT, "
                                      "or ucx+tcp IP:PORT with trusted_network"});
    }
    co_return findings;
}

}  // namespace

Task<std::vector<Finding>> look_at_server(CommandContext context, ExaminedServer server) {
    const api::ServerAddress& location = server.location;
    std::vector<Finding> findings;
    Report connecting;
    auto reached = co_await reach(context, location.control, connecting);
    if (!reached) {
        findings.push_back({.what = "connect",
                            .grade = Grade::wrong,
                            .found = connecting.text(),
                            .remedy = remedy_of_connecting(server, reached.error())});
        co_return findings;
    }
    findings.push_back({.what = "connect", .found = reached->address, .remedy = {}});
    const bool near = location.control.starts_with(unix_socket) ||
                      reached->address.starts_with("127.") || reached->address.starts_with("[::1]");

    const pki::Identity identity = pki::identity_in(location.certificates, "client");
    Report meeting;
    const pki::Seconds now = now_by(context);
    const auto met = co_await context.environment.blocking.run(context.environment.reactor, [&] {
        return pki::shake_hands(reached->socket.get(), identity, location.name, now, patience,
                                meeting);
    });
    if (!met) {
        findings.push_back({.what = "TLS",
                            .grade = Grade::wrong,
                            .found = meeting.text(),
                            .remedy = remedy_of_handshake(location, met.error())});
        co_return findings;
    }
    findings.push_back(judge(location, *met, now));
    reached->socket.reset();
    if (findings.back().grade == Grade::wrong) co_return findings;

    // The address that accepted the connection, not another one of the same name.
    const std::string asked =
        location.control.starts_with(unix_socket) ? location.control : reached->address;
    Report asking;
    const Call call{.deadline = context.environment.reactor.now() + patience,
                    .stop = context.call.stop};
    Result<control::ServerFacts> facts = fail(Code::disconnected);
    const auto client = control::ControlClient::create(
        context.environment.reactor,
        {.address = asked, .identity = identity, .server_name = location.name}, asking);
    if (client) facts = co_await (*client)->query_server(call, asking);
    findings.push_back(describe(facts, asking));
    if (facts) {
        std::ranges::move(describe_absent(*facts, server), std::back_inserter(findings));
        std::ranges::move(co_await look_at_data_plane(context, *facts, near),
                          std::back_inserter(findings));
    }
    co_return findings;
}

}  // namespace ros2s::cli
