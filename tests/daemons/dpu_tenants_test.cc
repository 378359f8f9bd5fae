// Two tenants of one real ros2store-dpu, with two certificates. Tickets, sessions and keys of one
// tenant are useless to the other, although both work in the same container. Theft, guesses and
// forgeries are refused, counted and logged. They do not affect the other tenant. Each tenant has
// the rights in the settings.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "control_clients.h"
#include "dpu_process.h"
#include "dpu_tenant.h"
#include "raw_connection.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/fs/caller.h"
#include "ros2s/hostlink/fields.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::tests {
namespace {

using connection::Connection;
using testing::HasSubstr;

const Call call;
constexpr uint64_t mib = 1 << 20;

using Tenant = DpuTenant;

// It works as if it were the only tenant.
Task<> expect_undisturbed(Tenant& tenant) {
    std::string read(mib, '\0');
    EXPECT_EQ(co_await tenant.link->pread(
                  call, tenant.file, fs::Window::local(std::as_writable_bytes(std::span(read))), 0),
              Result<uint64_t>(mib));
    EXPECT_EQ(read, std::string(mib, 'a'));
    EXPECT_TRUE(co_await tenant.names->get_attributes(call, fs::root_node));
    EXPECT_EQ(tenant.connection->channel().metrics().connections_lost.value(), 0U);
}

class DpuTenants : public testing::Test {
  protected:
    DpuTenants() {
        std::filesystem::create_directory(directory.path("served"));
        reactor = started_reactor("hosts");
        issue_certificates(dpu, {"alice", "bob"});
    }
    void give(const std::string& access) { dpu.give(access); }
    [[nodiscard]] connection::Options options(const std::string& name) const {
        return tenant_options(dpu, name, "lustre");
    }
    // Connects both, runs `attack`, and checks that nothing changed. Each line must be in the log.
    void run(Task<> (*attack)(OsReactor&, Tenant& alice, Tenant& bob),
             const std::vector<std::string>& lines, const std::vector<std::string>& counters);

    TemporaryDirectory directory;
    DpuProcess dpu{directory.path("dpu"),
                   fmt::format("directories: {{lustre/train: {}}}\n", directory.path("served"))};
    std::unique_ptr<OsReactor> reactor;
};

void DpuTenants::run(Task<> (*attack)(OsReactor&, Tenant&, Tenant&),
                     const std::vector<std::string>& lines,
                     const std::vector<std::string>& counters) {
    give(R"("CN=alice": {write: lustre/train}, "CN=bob": {write: lustre/train})");
    ASSERT_TRUE(dpu.start());
    Tenant alice, bob;
    run_blocking(*reactor,
                 [&] { return alice.open(*reactor, options("alice"), "train", "alices", mib); });
    run_blocking(*reactor,
                 [&] { return bob.open(*reactor, options("bob"), "train", "bobs", mib); });
    run_blocking(*reactor, [&] { return attack(*reactor, alice, bob); });
    run_blocking(*reactor, [&] { return expect_undisturbed(alice); });
    const std::string metrics = dpu.metrics();
    for (const std::string& counter : counters) EXPECT_THAT(metrics, HasSubstr(counter));
    EXPECT_THAT(metrics, HasSubstr("\nros2store_shm_segments_bytes "));
    EXPECT_THAT(metrics, testing::Not(HasSubstr("\nros2store_shm_segments_bytes 0\n")));
    run_blocking(*reactor, [&] { return bob.close(); });
    run_blocking(*reactor, [&] { return alice.close(); });
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    for (const std::string& line : lines) EXPECT_THAT(dpu.log(), HasSubstr(line));
}

// ---- sessions, mounts and handles

class ReadNothing final : public rpc::ReplyReader {
  public:
    Result<> read(const rpc::Reply&) override { return {}; }
};

// Over the data plane, on the caller's own connection.
Task<Result<>> read_file(Tenant& tenant, hostlink::FileBody file) {
    hostlink::Buffer body;
    std::vector<std::byte> memory(4096);
    const Bytes sink[] = {memory};
    ReadNothing reader;
    const rpc::CallRequest request{.method = static_cast<uint16_t>(hostlink::Method::read),
                                   .body = rpc::build(body, hostlink::file_fields, file),
                                   .sink = sink,
                                   .reply_body_bytes_max = 64};
    co_return co_await tenant.connection->channel().call(call, request, reader);
}

Task<> use_what_is_anothers(OsReactor&, Tenant& alice, Tenant& bob) {
    control::ControlClient& control = control_of(*bob.connection);
    const session::MountLocation hers = alice.location();
    Report report;
    EXPECT_EQ((co_await control.keep_alive(call, hers.session, report)).error().code, Code::stale);
    EXPECT_EQ((co_await control.issue_ticket(call, hers.session, report)).error().code,
              Code::stale);
    EXPECT_EQ((co_await control.close_session(call, hers.session, report)).error().code,
              Code::stale);
    EXPECT_EQ((co_await control.mount(call, hers.session, "train", {}, report)).error().code,
              Code::stale);
    for (const session::SessionId session : {hers.session, bob.location().session}) {
        session::FixedMountLocator locator({session, hers.mount});
        control::RemoteNamespace names(control, locator, bob.connection->client());
        EXPECT_EQ((co_await names.lookup(call, fs::root_node, "alices")).error().code, Code::stale);
    }
    EXPECT_EQ((co_await bob.names->close(call, alice.at_server)).error().code, Code::stale);
    EXPECT_EQ(
        (co_await read_file(bob, {.mount = hers.mount, .handle = alice.at_server})).error().code,
        Code::stale);
    EXPECT_EQ((co_await read_file(bob, {.mount = bob.location().mount, .handle = alice.at_server}))
                  .error()
                  .code,
              Code::stale);
    // His own is good.
    EXPECT_TRUE(co_await read_file(bob, {.mount = bob.location().mount, .handle = bob.at_server}));
}

TEST_F(DpuTenants, SessionsMountsAndHandlesBelongToTheirOwner) {
    run(use_what_is_anothers,
        {"audit: CN=bob (unix:) requested session ", "which is CN=alice's: refused",
         " of CN=bob requested mount ", " of CN=bob requested handle ", "'s of CN=alice: refused"},
        {"ros2store_sessions_foreign_total 9"});
}

// ---- tickets and listeners

class Stolen final : public rpc::TicketSource {
  public:
    explicit Stolen(std::string ticket) : ticket_(std::move(ticket)) {}
    Task<Result<std::string>> take(Report&) override { co_return ticket_; }

  private:
    std::string ticket_;
};

Task<Code> enter(Reactor& reactor, Tenant& whose, std::string listener) {
    Report report;
    const auto stolen =
        co_await whose.connection->control().issue_ticket(call, whose.location().session, report);
    EXPECT_TRUE(stolen) << report.text();
    const auto domain = fabric::shm::open_domain(reactor);
    Stolen tickets(std::string(stolen->ticket.view()));
    auto channel = co_await rpc::Channel::open(
        reactor, *domain, std::move(listener), tickets,
        {.service = hostlink::file_service, .client = whose.connection->client()}, report);
    const Code code = channel ? Code::exists : channel.error().code;
    if (channel) co_await (*channel)->close();
    co_await domain->close();
    co_return code;
}

Task<> enter_by_anothers_listener(OsReactor& reactor, Tenant& alice, Tenant& bob) {
    const std::string hers = alice.connection->channel().address();
    const std::string his = bob.connection->channel().address();
    EXPECT_NE(hers, his);
    EXPECT_EQ(co_await enter(reactor, alice, his), Code::denied);
    // No tenant's listener has the address in the settings.
    EXPECT_EQ(co_await enter(reactor, alice, his.substr(0, his.rfind('.'))), Code::denied);
    EXPECT_EQ(co_await enter(reactor, bob, his), Code::exists);
}

TEST_F(DpuTenants, TicketWorksOnlyAtItsTenantsListener) {
    run(enter_by_anothers_listener,
        {"audit: a connection to the data plane of CN=bob by process ",
         "was refused: its ticket is CN=alice's, for another",
         "audit: a connection to the data plane of nobody by process "},
        {"ros2store_tickets_refused_tenant_total 2",
         R"(ros2store_server_refused_ticket_total{provider="shm",tenant="CN=bob"} 1)",
         R"(ros2store_fabric_connections_total{provider="shm",tenant="CN=alice"} 1)"});
    // The listeners are gone with their tenants.
    for (const auto& entry : std::filesystem::directory_iterator(dpu.places().run)) {
        EXPECT_FALSE(entry.is_socket()) << entry.path();
    }
}

// ---- keys

// In a domain of its own.
struct Raw : RawConnection {
    std::unique_ptr<fabric::Domain> domain;

    Task<> open(Reactor& reactor, Tenant& tenant);
    Task<Result<>> ask(const fabric::RemoteKey& key, hostlink::FileBody file);
    Task<> close();
};

Task<> Raw::open(Reactor& reactor, Tenant& tenant) {
    domain = fabric::shm::open_domain(reactor);
    EXPECT_TRUE(co_await RawConnection::open(*domain, *tenant.connection));
}

// Reads 1 MiB of a file into the memory of that key.
Task<Result<>> Raw::ask(const fabric::RemoteKey& key, hostlink::FileBody file) {
    hostlink::Buffer body;
    std::vector<std::byte> memory(4096);
    rpc::WindowDescriptor window{.length = mib};
    std::ranges::copy(object_bytes(key), window.key.begin());
    rpc::FrameHeader header;
    header.kind = rpc::Kind::request;
    header.method = static_cast<uint16_t>(hostlink::Method::read);
    header.session = session;
    header.request = 1U << 16;
    header.sink_bytes = mib;
    EXPECT_TRUE(co_await endpoint->send(rpc::encode_frame(
        header, {}, {&window, 1}, rpc::build(body, hostlink::file_fields, file), memory)));
    const auto answer = co_await endpoint->receive();
    if (!answer) co_return fail(answer.error());
    const auto frame = rpc::decode_frame(answer->bytes());
    if (!frame) co_return fail(frame.error());
    if (frame->header.kind == rpc::Kind::reply) co_return Result<>{};
    const auto failure = rpc::decode_failure(frame->body);
    co_return fail(failure ? failure->error : failure.error());
}

Task<> Raw::close() {
    co_await RawConnection::close();
    co_await domain->close();
}

Task<> use_anothers_key(OsReactor& reactor, Tenant& alice, Tenant& bob) {
    Raw hers, his;
    co_await hers.open(reactor, alice);
    co_await his.open(reactor, bob);
    const auto memory = hers.endpoint->allocate(mib);
    EXPECT_TRUE(memory);
    auto region = hers.endpoint->grant(*memory, fabric::Rights::write);
    EXPECT_TRUE(region);
    const hostlink::FileBody file{.mount = bob.location().mount, .handle = bob.at_server};
    const auto asked = co_await his.ask(region->key(), file);
    EXPECT_EQ(asked.error().code, Code::denied);
    EXPECT_TRUE(std::ranges::all_of(*memory, [](std::byte each) { return each == std::byte{0}; }));
    // To her it is a key.
    EXPECT_TRUE(co_await hers.ask(region->key(),
                                  {.mount = alice.location().mount, .handle = alice.at_server}));
    EXPECT_TRUE(
        std::ranges::all_of(*memory, [](std::byte each) { return each == std::byte{'a'}; }));
    co_await region->revoke();
    hers.endpoint->free(*memory);
    co_await hers.close();
    co_await his.close();
}

TEST_F(DpuTenants, KeyOfAnotherTenantIsRefused) {
    run(use_anothers_key, {"of CN=bob (process ", "named memory of another session in a request"},
        {R"(ros2store_fabric_refused_domain_total{provider="shm",tenant="CN=bob"} 1)",
         R"(ros2store_fabric_refused_domain_total{provider="shm",tenant="CN=alice"} 0)"});
}

// ---- who may do what

// One request of the host link, made by hand, without checks on this side.
Task<Result<>> change_file(Tenant& tenant, hostlink::Method method, fs::FileHandle handle) {
    static const std::string content(4096, '!');
    const ConstBytes payload[] = {as_bytes(content)};
    const bool writes = method == hostlink::Method::write;
    hostlink::Buffer body;
    ReadNothing reader;
    const rpc::CallRequest request{
        .method = static_cast<uint16_t>(method),
        .id = {.client = tenant.connection->client(), .slot = 4000, .sequence = 1},
        .body = rpc::build(body, hostlink::file_fields,
                           hostlink::FileBody{.mount = tenant.location().mount,
                                              .handle = handle,
                                              .length = content.size(),
                                              .crc = writes ? crc32c(payload[0]) : 0}),
        .payload = writes ? std::span<const ConstBytes>(payload) : std::span<const ConstBytes>(),
        .reply_body_bytes_max = 64};
    co_return co_await tenant.connection->channel().call(call, request, reader);
}

// He requests a mount for writing, and gets one for reading.
Task<> read_and_try_to_write(OsReactor& reactor, connection::Options options, Tenant& bob) {
    Report report;
    auto opened = co_await Connection::open(reactor, std::move(options), report);
    EXPECT_TRUE(opened) << report.text();
    bob.connection = std::move(*opened);
    const session::SessionId id = *bob.connection->tickets().session();
    const auto mounted = co_await bob.connection->control().mount(call, id, "train", {}, report);
    EXPECT_TRUE(mounted) << report.text();
    bob.locator =
        std::make_unique<session::FixedMountLocator>(session::MountLocation{id, mounted->id});
    bob.names = std::make_unique<control::RemoteNamespace>(control_of(*bob.connection),
                                                           *bob.locator, bob.connection->client());
    bob.link = std::make_unique<hostlink::LinkClient>(
        reactor, bob.connection->channel(), *bob.locator,
        hostlink::LinkClient::Options{.client = bob.connection->client(), .behind = "the DPU"});
    // Names.
    control::RemoteNamespace& names = *bob.names;
    const auto hers = co_await names.lookup(call, fs::root_node, "alices");
    EXPECT_TRUE(hers);
    const fs::NodeId node = hers->node;
    const auto code = [](const auto& result) {
        return result ? Code::exists : result.error().code;
    };
    EXPECT_EQ(code(co_await names.open(call, node, {.write = true})), Code::read_only);
    EXPECT_EQ(code(co_await names.open(call, node, {.truncate = true})), Code::read_only);
    EXPECT_EQ(code(co_await names.create(call, fs::root_node, "new", 0644, {}, {})),
              Code::read_only);
    EXPECT_EQ(code(co_await names.mkdir(call, fs::root_node, "new", 0755, {})), Code::read_only);
    EXPECT_EQ(code(co_await names.unlink(call, fs::root_node, "alices")), Code::read_only);
    EXPECT_EQ(code(co_await names.rename(call, fs::root_node, "alices", fs::root_node, "bobs", {})),
              Code::read_only);
    const fs::SetAttributes own{.mode = 0666, .uid = 7};
    EXPECT_EQ(code(co_await names.set_attributes(call, node, own)), Code::read_only);
    EXPECT_EQ(code(co_await names.set_xattr(call, node, "user.x", {}, fs::SetXattr::any)),
              Code::read_only);
    // Writes bytes through a handle for reading.
    const auto file = co_await names.open(call, node, {});
    EXPECT_TRUE(file);
    bob.at_server = file->handle;
    EXPECT_TRUE(co_await read_file(bob, {.mount = bob.location().mount, .handle = bob.at_server}));
    EXPECT_EQ(code(co_await change_file(bob, hostlink::Method::write, bob.at_server)),
              Code::read_only);
    EXPECT_EQ(code(co_await change_file(bob, hostlink::Method::punch_hole, bob.at_server)),
              Code::read_only);
    EXPECT_TRUE(co_await names.close(call, file->handle));
}

TEST_F(DpuTenants, ReaderCannotWriteOnEitherPlane) {
    give(R"("CN=alice": {write: lustre/train}, "CN=bob": {read: lustre/*})");
    ASSERT_TRUE(dpu.start());
    Tenant alice, bob;
    run_blocking(*reactor,
                 [&] { return alice.open(*reactor, options("alice"), "train", "alices", mib); });
    run_blocking(*reactor, [&] { return read_and_try_to_write(*reactor, options("bob"), bob); });
    run_blocking(*reactor, [&] { return expect_undisturbed(alice); });
    run_blocking(*reactor, [&] { return bob.close(); });
    run_blocking(*reactor, [&] { return alice.close(); });
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    EXPECT_THAT(dpu.log(), HasSubstr("audit: CN=bob (unix:) mounted lustre/train for reading, "
                                     "because it may not write"));
    EXPECT_THAT(dpu.log(), HasSubstr("audit: CN=alice (unix:) mounted lustre/train for reading and "
                                     "writing"));
}

// ---- for whom a host acts

// Files of user 500, created by a host that may act for all users.
Task<> make_private_files(Tenant& alice) {
    const fs::Caller owner{.uid = 500, .gid = 500};
    const Call for_owner{.caller = &owner};
    hostlink::LinkClient& link = *alice.link;
    // A host whose root has all rights except those over files of others: the sticky bit, as in
    // /tmp.
    EXPECT_TRUE(co_await link.set_attributes(call, fs::root_node, {.mode = 01777}));
    const auto secret = co_await link.create(for_owner, fs::root_node, "secret", 0600, {}, {});
    EXPECT_TRUE(secret && co_await link.close(call, secret->handle));
    const auto closed = co_await link.mkdir(for_owner, fs::root_node, "closed", 0700, {});
    EXPECT_TRUE(closed);
    EXPECT_EQ(closed->uid, 500U);
    const auto inside = co_await link.create(for_owner, closed->node, "inside", 0644, {}, {});
    EXPECT_TRUE(inside && co_await link.close(call, inside->handle));
    // Rights that no setting gives.
    EXPECT_FALSE(co_await link.set_attributes(call, secret->attributes.node, {.mode = 04755}));
    EXPECT_FALSE(co_await link.mknod(call, fs::root_node, "disk", S_IFBLK | 0600, 1, {}));
    EXPECT_FALSE(co_await link.set_xattr(call, secret->attributes.node, "security.capability", {},
                                         fs::SetXattr::any));
}

// All claims, on one plane.
Task<> act_for_others(fs::Namespace& names) {
    const auto code = [](const auto& result) { return result ? 0 : to_errno(result.error()); };
    const std::vector<std::string_view> others{"absent", "secret"}, inner{"inside", "new"};
    for (const uint32_t uid : {0U, 500U, 999U, 2000U}) {
        const fs::Caller forbidden{.uid = uid, .gid = 1000};
        const Call as_other{.caller = &forbidden};
        EXPECT_EQ(code(co_await names.lookup(as_other, fs::root_node, "secret")), EPERM) << uid;
        EXPECT_EQ(code(co_await names.mkdir(as_other, fs::root_node, "d", 0755, {})), EPERM);
        EXPECT_EQ(code(co_await names.open(as_other, fs::root_node, {})), EPERM);
        EXPECT_EQ(code(co_await names.open_path(as_other, "secret", {})), EPERM);
        EXPECT_EQ(code((co_await names.lookup_many(as_other, fs::root_node, others)).back()),
                  EPERM);
        EXPECT_EQ(code((co_await names.create_many(as_other, fs::root_node, others, 0644, {}))[1]),
                  EPERM);
        EXPECT_EQ(code((co_await names.unlink_many(as_other, fs::root_node, others))[1]), EPERM);
    }
    EXPECT_EQ(code(co_await names.get_attributes(call, fs::root_node)), EPERM);
    // He may act for user 1000. Groups that he may not use are dropped.
    const std::vector<uint32_t> groups{0, 500};
    const fs::Caller own{.uid = 1000, .gid = 500, .groups = groups};
    const Call as_own{.caller = &own};
    const auto secret = co_await names.lookup(as_own, fs::root_node, "secret");
    const auto closed = co_await names.lookup(as_own, fs::root_node, "closed");
    EXPECT_TRUE(secret && closed);
    EXPECT_EQ(code(co_await names.open(as_own, secret->node, {})), EACCES);
    EXPECT_EQ(code(co_await names.open(as_own, secret->node, {.write = true, .truncate = true})),
              EACCES);
    EXPECT_EQ(code(co_await names.lookup(as_own, closed->node, "inside")), EACCES);
    EXPECT_EQ(code(co_await names.walk(as_own, "closed/inside", fs::LastLink::follow)), EACCES);
    EXPECT_EQ(code(co_await names.unlink(as_own, fs::root_node, "secret")), EPERM);
    for (const bool creates : {false, true}) {
        const fs::PathOpen how{.flags = {.write = creates}, .creates = creates, .mode = 0600};
        EXPECT_EQ(code(co_await names.open_path(as_own, "secret", how)), EACCES);
        EXPECT_EQ(code(co_await names.open_path(as_own, "closed/inside", how)), EACCES);
        EXPECT_EQ(code(co_await names.open_path(as_own, "closed/new", how)), EACCES);
    }
    for (const auto& each : co_await names.lookup_many(as_own, closed->node, inner)) {
        EXPECT_EQ(code(each), EACCES);
    }
    for (const auto& each : co_await names.create_many(as_own, closed->node, inner, 0644, {})) {
        EXPECT_EQ(code(each), EACCES);
    }
    for (const auto& each : co_await names.unlink_many(as_own, closed->node, inner)) {
        EXPECT_EQ(code(each), EACCES);
    }
    const auto removed = co_await names.unlink_many(as_own, fs::root_node, others);
    EXPECT_EQ(code(removed[0]), ENOENT);
    EXPECT_EQ(code(removed[1]), EPERM);
    EXPECT_EQ(code(co_await names.rename(as_own, fs::root_node, "secret", fs::root_node, "x", {})),
              EPERM);
    EXPECT_EQ(code(co_await names.set_attributes(as_own, secret->node, {.mode = 0666})), EPERM);
    EXPECT_EQ(code(co_await names.set_attributes(as_own, secret->node, {.uid = 1000})), EPERM);
    EXPECT_EQ(code(co_await names.set_attributes(as_own, secret->node, {.size = 0})), EACCES);
    EXPECT_EQ(code(co_await names.link(as_own, secret->node, closed->node, "mine")), EACCES);
    // The owner is his user, whichever owner he names.
    const auto made = co_await names.mkdir(as_own, fs::root_node, "own", 0700, {.uid = 500});
    EXPECT_TRUE(made);
    EXPECT_EQ(made->uid, 1000U);
    EXPECT_EQ(made->gid, fs::nobody);
    EXPECT_TRUE(co_await names.rmdir(as_own, fs::root_node, "own"));
    // So is the owner of many files created in one call, on either plane.
    const auto many = co_await names.create_many(as_own, fs::root_node, inner, 0600, {.uid = 500});
    EXPECT_TRUE(many[0] && many[1]);
    for (const auto& each : co_await names.lookup_many(as_own, fs::root_node, inner)) {
        EXPECT_TRUE(each && each->uid == 1000);
    }
    // A listing shows names of others, but nothing of a directory without permission.
    const auto top = co_await names.open(as_own, fs::root_node, {});
    EXPECT_TRUE(top);
    const auto listed = co_await names.readdir_many(as_own, fs::root_node, top->handle, 0, 10);
    EXPECT_TRUE(listed && listed->size() == 5);
    const auto into = co_await names.readdir_many(as_own, closed->node, top->handle, 0, 10);
    EXPECT_TRUE(into && into->size() == 5);
    for (const auto& [entry, attributes] : *into) EXPECT_EQ(code(attributes), EACCES);
    EXPECT_TRUE(co_await names.close(as_own, top->handle));
    const auto gone = co_await names.unlink_many(as_own, fs::root_node, inner);
    EXPECT_TRUE(gone[0] && gone[1]);
}

Task<> read_many_of_others(hostlink::LinkClient& link) {
    const fs::Caller own{.uid = 1000, .gid = 1000};
    std::array<std::byte, 16> memory{};
    std::array items{fs::ReadManyItem{.name = "secret", .window = fs::Window::local(Bytes(memory))},
                     fs::ReadManyItem{.name = "closed/inside", .window = {}}};
    EXPECT_TRUE(co_await link.read_many({.caller = &own}, fs::root_node, items));
    for (const auto& item : items) {
        EXPECT_EQ(item.status, Result<>(fail_errno(EACCES))) << item.name;
        EXPECT_EQ(item.bytes, 0U);
    }
    EXPECT_EQ((co_await link.read_many({}, fs::root_node, items)).error().code, Code::denied);
}

Task<> act_for_others_on_both_planes(OsReactor& reactor, connection::Options options, Tenant& bob) {
    if (!co_await bob.connect(reactor, std::move(options), "train")) co_return;
    co_await act_for_others(*bob.names);
    co_await act_for_others(*bob.link);
    co_await read_many_of_others(*bob.link);
}

TEST_F(DpuTenants, HostActsOnlyForItsUsersOnEitherPlane) {
    give(R"("CN=alice": {write: lustre/train}, )"
         R"("CN=bob": {write: lustre/train, users: 1000-1999, groups: 1000-1999})");
    ASSERT_TRUE(dpu.start());
    Tenant alice, bob;
    run_blocking(*reactor,
                 [&] { return alice.open(*reactor, options("alice"), "train", "alices", mib); });
    run_blocking(*reactor, [&] { return make_private_files(alice); });
    run_blocking(*reactor,
                 [&] { return act_for_others_on_both_planes(*reactor, options("bob"), bob); });
    run_blocking(*reactor, [&] { return expect_undisturbed(alice); });
    run_blocking(*reactor, [&] { return bob.close(); });
    run_blocking(*reactor, [&] { return alice.close(); });
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    EXPECT_THAT(dpu.log(), HasSubstr("CN=bob requested access to lustre/train as user 500, for "
                                     "whom it may not act: refused"));
}

// A valid certificate without an entry in the settings.
TEST_F(DpuTenants, SubjectWithoutRightsGetsNoSession) {
    give(R"("CN=alice": {write: lustre/train})");
    ASSERT_TRUE(dpu.start());
    Report report;
    const auto opened =
        run_blocking(*reactor, [&] { return Connection::open(*reactor, options("bob"), report); });
    EXPECT_EQ(opened.error().code, Code::denied);
    EXPECT_THAT(report.text(),
                HasSubstr("CN=bob may not use the pool 'lustre', or it does not exist"));
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    EXPECT_THAT(dpu.log(),
                HasSubstr("audit: CN=bob (unix:) may not use the pool 'lustre': refused; "
                          "to allow it, the settings need: access: {\"CN=bob\": {read: "
                          "lustre/CONTAINER}} [tenant=\"CN=bob\" peer=unix: action=use pool=lustre "
                          "decision=refused reason=EPERM]"));
}

// Both clients are destroyed on the core.
Task<> try_all(std::unique_ptr<control::ControlClient>& owner,
               std::unique_ptr<control::ControlClient>& bob, std::string engine_data,
               Report& report) {
    EXPECT_TRUE(co_await owner->create_container(call, "pool", {.label = "secret"}, {}, report));
    EXPECT_EQ((co_await bob->destroy_container(call, "pool", "secret", report)).error().code,
              Code::denied);
    EXPECT_EQ(
        (co_await bob->create_container(call, "pool", {.label = "x"}, {}, report)).error().code,
        Code::denied);
    const auto seen = co_await bob->list_containers(call, "pool", report);
    EXPECT_TRUE(seen && seen->empty());
    const auto facts = co_await bob->query_pool(call, "pool", report);
    EXPECT_TRUE(facts) << report.text();
    EXPECT_EQ(facts->containers, 0U);
    EXPECT_THAT(facts->path, HasSubstr("shm to its engine"));
    EXPECT_THAT(facts->path, testing::Not(HasSubstr(engine_data)));
    EXPECT_TRUE(co_await owner->destroy_container(call, "pool", "secret", report));
    bob.reset();
    owner.reset();
}

// In front of an engine, whose containers can be created and destroyed.
TEST(DpuAccess, SubjectWithoutRightsChangesAndLearnsNothing) {
    EngineProcess engine;
    DpuProcess dpu(engine, "shm");
    issue_certificates(dpu, {"bob"});
    dpu.give(R"("CN=client": {write: pool/*, create: pool/*, destroy: pool/*}, )"
             R"("CN=bob": {read: pool/images})");
    ASSERT_TRUE(engine.start() && dpu.start());
    Report report;
    const auto started = started_reactor("hosts");
    OsReactor& reactor = *started;
    auto bob = dpu_client(reactor, dpu.places(), "bob");
    auto owner = dpu_client(reactor, dpu.places(), "client");
    run_blocking(reactor, [&] { return try_all(owner, bob, engine.places().engine_data, report); });
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    EXPECT_EQ(engine.stop(), 0) << engine.log();
    for (const char* line :
         {"audit: CN=bob (unix:) may not destroy the container pool/secret: refused",
          "audit: CN=bob (unix:) may not create the container pool/x: refused",
          "audit: CN=client (unix:) created the container pool/secret (",
          "audit: CN=client (unix:) destroyed the container pool/secret ("}) {
        EXPECT_THAT(dpu.log(), HasSubstr(line));
    }
    // The engine also logs it, with the subject that it knows: the DPU's.
    for (const char* line : {"audit: CN=client (unix:) created the container 'secret' (",
                             "audit: CN=client (unix:) destroyed the container "}) {
        EXPECT_THAT(engine.log(), HasSubstr(line));
    }
}

}  // namespace
}  // namespace ros2s::tests
