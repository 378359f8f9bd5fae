// A tenant of a real ros2store-dpu in this process: it has its own core and certificate.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>

#include "dpu_process.h"
#include "ros2s/connection/connection.h"
#include "ros2s/control/test_support/remote_namespace.h"
#include "ros2s/hostlink/link_client.h"
#include "ros2s/session/test_support/fixed_mount.h"

namespace ros2s::tests {

inline void issue_certificate(const std::string& authority, const std::string& name) {
    std::string said;
    EXPECT_EQ(
        run_program(fmt::format("'{}' certs issue '{}' {}", PROGRAM_CLI, authority, name), said), 0)
        << said;
}
// Makes certificates of hosts with these names. Call it before their tenants connect.
inline void issue_certificates(const DpuProcess& dpu, std::initializer_list<const char*> names) {
    for (const char* name : names) issue_certificate(dpu.places().host_certs, name);
}

// The options of the tenant with this certificate.
[[nodiscard]] inline connection::Options tenant_options(const DpuProcess& dpu,
                                                        const std::string& name,
                                                        const std::string& pool) {
    connection::ServerAccess server = dpu.options(pool).dpu;
    server.identity = pki::identity_in(dpu.places().host_certs, name);
    return {.server = std::move(server),
            .purpose = session::Purpose::link,
            .service = hostlink::file_service};
}

// The process of a test has not forked: it calls the control plane itself.
[[nodiscard]] inline control::ControlClient& control_of(connection::Connection& connection) {
    return dynamic_cast<control::ControlClient&>(connection.control());
}

// A session, a mount of a container, and a file in it. Use it on the reactor's core.
struct DpuTenant {
    std::unique_ptr<connection::Connection> connection;
    std::unique_ptr<session::FixedMountLocator> locator;
    std::unique_ptr<control::RemoteNamespace> names;
    std::unique_ptr<hostlink::LinkClient> link;
    fs::FileHandle file;       // the link's own number
    fs::FileHandle at_server;  // what the DPU calls it

    [[nodiscard]] session::MountLocation location() const { return locator->location(); }
    // Opens a session and mounts. False: it failed, and the test has failed.
    Task<bool> connect(Reactor& reactor, connection::Options options, std::string container);
    // Makes a file of `size` bytes. Each byte is the first letter of its name.
    Task<> open(Reactor& reactor, connection::Options options, std::string container,
                std::string name, uint64_t size);
    // Open files are closed with the session.
    Task<> close();
};

inline Task<bool> DpuTenant::connect(Reactor& reactor, connection::Options options,
                                     std::string container) {
    const Call call;
    Report report;
    const std::string pool = options.server.pool;
    auto opened = co_await connection::Connection::open(reactor, std::move(options), report);
    EXPECT_TRUE(opened) << report.text();
    if (!opened) co_return false;
    connection = std::move(*opened);
    const session::SessionId id = *connection->tickets().session();
    // For a delegated DPU.
    const auto delegated = co_await connection->control().delegate(
        call, pool,
        {.rights = {rights::Right::read, rights::Right::write},
         .directories = false,
         .container = {container}},
        report);
    EXPECT_TRUE(delegated) << report.text();
    const auto mounted = co_await connection->control().mount(call, id, container, {}, report);
    EXPECT_TRUE(mounted) << report.text();
    if (!mounted) co_return false;
    locator = std::make_unique<session::FixedMountLocator>(session::MountLocation{id, mounted->id});
    names = std::make_unique<control::RemoteNamespace>(control_of(*connection), *locator,
                                                       connection->client());
    link = std::make_unique<hostlink::LinkClient>(
        reactor, connection->channel(), *locator,
        hostlink::LinkClient::Options{.client = connection->client(), .behind = "the DPU"});
    co_return true;
}

inline Task<> DpuTenant::open(Reactor& reactor, connection::Options options, std::string container,
                              std::string name, uint64_t size) {
    const Call call;
    if (!co_await connect(reactor, std::move(options), std::move(container))) co_return;
    const auto created =
        co_await link->create(call, fs::root_node, name, 0600, {.write = true}, {});
    EXPECT_TRUE(created);
    file = created->handle;
    const std::string content(size, name.front());
    EXPECT_TRUE(co_await link->pwrite(call, file, fs::Window::local(as_bytes(content)), 0));
    const auto again = co_await names->open(call, created->attributes.node, {.write = true});
    EXPECT_TRUE(again);
    at_server = again->handle;
}

inline Task<> DpuTenant::close() {
    co_await link->close_all();
    link.reset();
    names.reset();
    locator.reset();
    co_await connection->close();
    connection.reset();
}

}  // namespace ros2s::tests
