// Hosts of a real ros2store-dpu that have rights on directories of a container: what they reach by
// path and by node number, on both planes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control_clients.h"
#include "dpu_process.h"
#include "dpu_tenant.h"
#include "eventually.h"
#include "ros2s/connection/host_files.h"
#include "ros2s/fs/path_walk.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::tests {
namespace {

using fs::NodeId;
using fs::root_node;
using testing::HasSubstr;

const Call call;

class HostSubtrees : public testing::Test {
  protected:
    HostSubtrees() {
        reactor = started_reactor("hosts");
        issue_certificates(dpu, {"alice", "bob"});
        engine.write_settings("administrators: CN=client\n");
    }
    [[nodiscard]] connection::Options options(const std::string& name) const {
        return tenant_options(dpu, name, "pool");
    }
    // Runs on the reactor's core.
    template <class Operation>
    auto run(Operation operation) {
        return run_blocking(*reactor, std::move(operation));
    }
    void give(const std::string& alices) {
        dpu.give(fmt::format(R"("CN=bob": {{write: pool/main}}, "CN=alice": {})", alices));
    }
    void start() { ASSERT_TRUE(engine.start() && dpu.start()) << engine.log() << dpu.log(); }

    EngineProcess engine;
    DpuProcess dpu{engine, "shm"};
    std::unique_ptr<OsReactor> reactor;
};

// Makes /a/b/f, which is granted, and /a/x/secret, which is not, as bob.
struct Tree {
    NodeId a, b, f, x, secret;
};

Task<> make_tree(OsReactor& reactor, connection::Options options, DpuTenant& tenant, Tree& tree) {
    if (!co_await tenant.connect(reactor, std::move(options), "main")) co_return;
    hostlink::LinkClient& bob = *tenant.link;
    const auto node = [](const Result<fs::Attributes>& made) {
        EXPECT_TRUE(made);
        return made ? made->node : NodeId{};
    };
    tree.a = node(co_await bob.mkdir(call, root_node, "a", 0755, {}));
    tree.b = node(co_await bob.mkdir(call, tree.a, "b", 0755, {}));
    tree.f = node(co_await bob.mknod(call, tree.b, "f", S_IFREG | 0644, 0, {}));
    tree.x = node(co_await bob.mkdir(call, tree.a, "x", 0755, {}));
    tree.secret = node(co_await bob.mknod(call, tree.x, "secret", S_IFREG | 0644, 0, {}));
}

template <class T>
void expect_stale(const Result<T>& result, const char* what) {
    EXPECT_FALSE(result) << what;
    if (!result) EXPECT_EQ(result.error().code, Code::stale) << what;
}

// The checks on one plane: the host link, or the control plane.
Task<> attack(fs::Namespace& alice, Tree tree) {
    EXPECT_TRUE(co_await fs::resolve(alice, call, "/a/b/f"));
    EXPECT_FALSE(co_await fs::resolve(alice, call, "/a/x/secret"));
    EXPECT_FALSE(co_await fs::resolve(alice, call, "/a/b/../x/secret"));
    EXPECT_TRUE(co_await alice.get_attributes(call, tree.f));
    for (const NodeId outside : {tree.a, tree.x, tree.secret, NodeId{2}, NodeId{3}}) {
        SCOPED_TRACE(outside.value);
        expect_stale(co_await alice.get_attributes(call, outside), "attributes");
        expect_stale(co_await alice.lookup(call, outside, "secret"), "lookup");
        expect_stale(co_await alice.lookup(call, outside, ".."), "lookup of ..");
        expect_stale(co_await alice.open(call, outside, {}), "open");
        expect_stale(co_await alice.create(call, outside, "n", 0644, {}, {}), "create");
        expect_stale(co_await alice.unlink(call, outside, "secret"), "unlink");
        expect_stale(co_await alice.link(call, outside, tree.b, "mine"), "link");
        expect_stale(co_await alice.rename(call, outside, "secret", tree.b, "mine", {}), "rename");
        expect_stale(co_await alice.rename(call, tree.b, "f", outside, "f", {}), "rename out");
        expect_stale(co_await alice.set_attributes(call, outside, {.mode = 0777}), "chmod");
        expect_stale(co_await alice.list_xattrs(call, outside), "xattrs");
        const std::string_view names[] = {"secret"};
        expect_stale((co_await alice.lookup_many(call, outside, names)).front(), "many");
    }
    // A parent's name or a link that she makes does not lead there either.
    const std::string_view parents[] = {"..", "../x"};
    const auto above = co_await alice.lookup_many(call, tree.b, parents);
    EXPECT_TRUE(!above[0] || above[0]->node != tree.a);
    EXPECT_FALSE(above[1]);
    expect_stale(co_await alice.get_attributes(call, tree.a), "the parent");
    EXPECT_EQ((co_await alice.mkdir(call, root_node, "new", 0755, {})).error().code,
              Code::read_only);
    const auto up = co_await alice.symlink(call, tree.b, "up", "../x/secret", {});
    EXPECT_TRUE(up);
    EXPECT_FALSE(co_await fs::resolve(alice, call, "/a/b/up"));
    EXPECT_TRUE(co_await alice.unlink(call, tree.b, "up"));
}

TEST_F(HostSubtrees, NodeOutsideIsStaleOnBothPlanes) {
    give("{write: pool/main/a/b}");
    start();
    DpuTenant alice, bob;
    Tree tree;
    run([&] { return make_tree(*reactor, options("bob"), bob, tree); });
    ASSERT_TRUE(run([&] { return alice.connect(*reactor, options("alice"), "main"); }));
    run([&] { return attack(*alice.link, tree); });
    run([&] { return attack(*alice.names, tree); });
    // It is still there.
    EXPECT_TRUE(run([&] { return fs::resolve(*bob.link, call, "/a/x/secret"); }));
    EXPECT_TRUE(run([&] { return fs::resolve(*bob.link, call, "/a/b/f"); }));
    // A file that bob moves out of it is gone for her, also by its node number.
    EXPECT_TRUE(run([&] { return bob.link->rename(call, tree.b, "f", tree.x, "f", {}); }));
    EXPECT_TRUE(eventually([&] {
        const auto found = run([&] { return alice.link->get_attributes(call, tree.f); });
        return !found && found.error().code == Code::stale;
    }));
    run([&] { return alice.close(); });
    run([&] { return bob.close(); });
    EXPECT_THAT(dpu.log(), HasSubstr("audit: CN=alice (unix:) mounted directories of pool/main for "
                                     "reading and writing"));
}

// Node numbers and open files of a host stay valid over a restart of the DPU.
TEST_F(HostSubtrees, OpenFilesSurviveADpuRestart) {
    give("{write: pool/main/a/b}");
    start();
    DpuTenant bob;
    Tree tree;
    run([&] { return make_tree(*reactor, options("bob"), bob, tree); });
    run([&] { return bob.close(); });
    connection::HostOptions host = dpu.options("pool");
    host.dpu.identity = pki::identity_in(dpu.places().host_certs, "alice");
    host.container = "main";
    Report report;
    auto opened = run([&] { return connection::HostFiles::open(*reactor, host, report); });
    ASSERT_TRUE(opened) << report.text();
    fs::FileSystem& alice = (*opened)->file_system();
    const auto file = run([&] { return alice.open(call, tree.f, {.write = true}); });
    ASSERT_TRUE(file);
    dpu.kill_hard();
    ASSERT_TRUE(dpu.start()) << dpu.log();
    const std::string text = "x";
    EXPECT_TRUE(run(
        [&] { return alice.pwrite(call, file->handle, fs::Window::local(as_bytes(text)), 0); }));
    EXPECT_EQ(run([&] { return alice.get_attributes(call, tree.f); })->size, 1U);
    expect_stale(run([&] { return alice.get_attributes(call, tree.secret); }), "outside");
    EXPECT_TRUE(run([&] { return alice.close(call, file->handle); }));
    EXPECT_TRUE(run([&] { return (*opened)->close(); }));
}

Task<> try_to_mount(OsReactor& reactor, connection::Options options, Report& report) {
    auto opened = co_await connection::Connection::open(reactor, std::move(options), report);
    EXPECT_TRUE(opened) << report.text();
    if (!opened) co_return;
    auto& control = (*opened)->control();
    const session::SessionId id = *(*opened)->tickets().session();
    (void)co_await control.mount(call, id, "main", {}, report);
    co_await (*opened)->close();
}

TEST_F(HostSubtrees, MissingDirectoryIsReported) {
    give("{read: pool/main/a/none}");
    start();
    Report report;
    run([&] { return try_to_mount(*reactor, options("alice"), report); });
    EXPECT_THAT(report.text(), HasSubstr("pool/main/a/none, to which the server's settings give "
                                         "rights, does not exist"));
}

Task<> try_to_connect(OsReactor& reactor, connection::Options options, bool& connected) {
    Report refusal;
    auto opened = co_await connection::Connection::open(reactor, std::move(options), refusal);
    connected = opened.has_value();
    if (opened) co_await (*opened)->close();
}

Task<> ask_whether_alive(const DpuTenant& tenant, bool& alive) {
    Report report;
    alive = bool(
        co_await tenant.connection->control().keep_alive(call, tenant.location().session, report));
}

// Rights in the tenant record at the engine.
TEST_F(HostSubtrees, TenantMayHaveADirectory) {
    dpu.give(R"("CN=bob": {write: pool/main})");
    start();
    DpuTenant alice, bob;
    Tree tree;
    run([&] { return make_tree(*reactor, options("bob"), bob, tree); });
    // Sends the request as the engine's administrator.
    const auto change = [&](tenancy::Change what, const config::Entries& settings) {
        Report report;
        const auto client = engine_client(*reactor, engine.places(), "client");
        (void)run(
            [&] { return client->change_tenant(call, "pool", what, "alice", settings, report); });
        return report.text();
    };
    EXPECT_THAT(change(tenancy::Change::create, {{"subjects", "CN=alice"}, {"read", "main/a//b"}}),
                HasSubstr("read: 'main/a//b': a name in its path is empty"));
    EXPECT_EQ(change(tenancy::Change::create, {{"subjects", "CN=alice"}, {"read", "main/a"}}), "");
    EXPECT_TRUE(eventually([&] {
        bool connected = false;
        run([&] { return try_to_connect(*reactor, options("alice"), connected); });
        return connected;
    }));
    ASSERT_TRUE(run([&] { return alice.connect(*reactor, options("alice"), "main"); }));
    EXPECT_TRUE(run([&] { return fs::resolve(*alice.link, call, "/a/x/secret"); }));
    const auto removed = run([&] { return alice.link->unlink(call, tree.x, "secret"); });
    EXPECT_EQ(removed.error().code, Code::read_only);
    // Fewer rights than before: her session ends.
    EXPECT_EQ(change(tenancy::Change::set, {{"read", "main/a/b"}}), "");
    EXPECT_TRUE(eventually([&] {
        bool alive = true;
        run([&] { return ask_whether_alive(alice, alive); });
        return !alive;
    }));
    run([&] { return alice.close(); });
    ASSERT_TRUE(run([&] { return alice.connect(*reactor, options("alice"), "main"); }));
    EXPECT_TRUE(run([&] { return alice.link->get_attributes(call, tree.f); }));
    expect_stale(run([&] { return alice.link->get_attributes(call, tree.secret); }), "outside");
    run([&] { return alice.close(); });
    run([&] { return bob.close(); });
}

}  // namespace
}  // namespace ros2s::tests
