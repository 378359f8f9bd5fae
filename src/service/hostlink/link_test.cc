// Cases that only the link has: lost connections, other hosts, and false data.
#include <algorithm>
#include <array>

#include "link_ask.h"
#include "names_wire.h"
#include "test_support/link.h"

namespace ros2s::hostlink {
namespace {

using fs::FileHandle;
using fs::Window;

// ---- revoked while requests wait --------------------------------------------------------------

template <class T>
Task<> note_end(Task<Result<T>> work, Result<>& done) {
    const Result<T> result = co_await std::move(work);
    done = result ? Result<>() : fail(result.error());
}

// What the store holds up for a minute ends at once, also an update that has begun.
Task<> revoked_while_they_wait(Stage& stage) {
    using namespace std::chrono_literals;
    auto& wire = static_cast<DfsSource&>(*stage.dpu.source).wire();
    fs::FileSystem& files = *stage.host.link;
    const FileHandle file = co_await stage.create("f", {.read = true, .write = true});
    std::vector<std::byte> bytes(4096, std::byte{1});
    EXPECT_TRUE(co_await files.pwrite({}, file, Window::local(ConstBytes(bytes)), 0));
    const std::vector<std::byte> others(4096, std::byte{2});
    wire.held_on = &stage.world.core();
    std::array<Result<>, 3> done;
    done.fill(fail(Code::busy));
    Nursery waiting(stage.world.core(), done.size());
    co_await waiting.spawn(
        note_end(files.pwrite({}, file, Window::local(ConstBytes(others)), 0), done[0]));
    co_await waiting.spawn(note_end(files.mkdir({}, fs::root_node, "d", 0755, {}), done[1]));
    co_await waiting.spawn(
        note_end(files.pread({}, file, Window::local(Bytes(bytes)), 0), done[2]));
    (void)co_await sleep_for(stage.world.core(), 100ms);
    for (const Result<>& each : done) EXPECT_EQ(each, Result<>(fail(Code::busy)));

    stage.dpu.sessions.evict(stage.host.session, "its tenant was revoked");
    stage.dpu.sessions.evict(stage.host.session, "once more");
    (void)co_await sleep_for(stage.world.core(), 1s);
    EXPECT_EQ(stage.dpu.sessions.look(stage.host.session), nullptr) << "it waits for its requests";
    EXPECT_NE(stage.dpu.sessions.look(stage.other.session), nullptr);
    for (const Result<>& each : done) EXPECT_EQ(each, Result<>(fail(Code::denied)));
    wire.held_on = nullptr;
    co_await waiting.join();
    (void)co_await sleep_for(stage.world.core(), WireToStore::held_for);

    fs::FileSystem& theirs = *stage.other.link;
    EXPECT_EQ((co_await theirs.lookup({}, fs::root_node, "d")).error().code, Code::not_found);
    const auto found = co_await theirs.lookup({}, fs::root_node, "f");
    EXPECT_TRUE(found);
    if (!found) co_return;
    const auto again = co_await theirs.open({}, found->node, {.read = true});
    EXPECT_TRUE(again);
    if (!again) co_return;
    EXPECT_TRUE(co_await theirs.pread({}, again->handle, Window::local(Bytes(bytes)), 0));
    EXPECT_EQ(bytes, std::vector<std::byte>(4096, std::byte{1}));
    EXPECT_TRUE(co_await theirs.close({}, again->handle));
}
TEST(HostLink, RevokedSessionEndsWaitingRequests) { Stage().run(revoked_while_they_wait); }

// ---- rights that go and come back ---------------------------------------------------------------

Task<session::MountId> mount_again(Stage& stage, bool read_only) {
    auto session = stage.dpu.sessions.use(stage.host.session);
    EXPECT_TRUE(session);
    const auto mounted = co_await stage.dpu.mounts.mount(
        {}, **session, "container", {.read_only = read_only}, stage.dpu.report);
    EXPECT_TRUE(mounted) << stage.dpu.report.text();
    co_return mounted.value_or(session::MountId{});
}

Task<> rights_that_come_back(Stage& stage) {
    Host& host = stage.host;
    co_await host.link->close_all();
    host.link.reset();
    auto locator =
        std::make_unique<MovingLocator>(session::MountLocation{host.session, host.mount});
    MovingLocator& mount = *locator;
    host.locator = std::move(locator);
    host.link = std::make_unique<LinkClient>(stage.world.core(), *host.channel, *host.locator,
                                             LinkClient::Options{.client = host.client});
    const FileHandle file = co_await stage.create("f", {.read = true, .write = true});
    const std::vector<std::byte> bytes(4096, std::byte{1});
    const Call call;
    const auto write = [&] {
        return host.link->pwrite(call, file, Window::local(ConstBytes(bytes)), 0);
    };
    EXPECT_TRUE(co_await write());
    mount.move_to(co_await mount_again(stage, true));
    co_await host.link->reopen_all({});
    EXPECT_EQ((co_await write()).error().code, Code::read_only);
    EXPECT_EQ((co_await write()).error().code, Code::read_only);
    mount.move_to(co_await mount_again(stage, false));
    EXPECT_TRUE(co_await write());
}
TEST(HostLink, FileIsUsableAgainWhenRightReturns) { Stage().run(rights_that_come_back); }

// As flock(1) opens a file. The request may be repeated although nothing of it arrived.
Task<> open_to_create(Stage& stage) {
    EXPECT_TRUE(co_await stage.host.link->close({}, co_await stage.create("f", {.write = true})));
    session::MountNames& read_only = *stage.other.names;
    const fs::PathOpen creating{.creates = true, .mode = 0644};
    for (const bool repeated : {false, true}) {
        const UpdateName name{.client = stage.other.client, .sequence = 1};
        const auto opened =
            co_await read_only.open_path({.update = &name, .repeated = repeated}, "f", creating);
        EXPECT_TRUE(opened) << repeated;
        if (opened) EXPECT_TRUE(co_await read_only.close({}, opened->handle));
        const auto absent =
            co_await read_only.open_path({.update = &name, .repeated = repeated}, "g", creating);
        EXPECT_EQ(absent.error().code, Code::read_only);
    }
}
TEST(HostLink, ReadOnlyMountOpensExistingFile) { Stage().run(open_to_create); }

// Refused requests are in the audit log, and a flood of them is not.
Task<> refused_requests(Stage& stage) {
    std::vector<std::string>& log = stage.dpu.log;
    fs::FileSystem& read_only = *stage.other.link;
    const Call call;
    const auto refused = [&] { return read_only.mkdir(call, fs::root_node, "d", 0755, {}); };
    log.clear();
    EXPECT_TRUE(co_await read_only.list_xattrs({}, fs::root_node));
    EXPECT_TRUE(log.empty()) << log.back();
    EXPECT_EQ((co_await refused()).error().code, Code::read_only);
    const std::string session = std::to_string(stage.other.session.value);
    EXPECT_EQ(log.size(), 1U);
    if (log.empty()) co_return;
    EXPECT_EQ(log.back(),
              "audit: the request make_directory of CN=host () in pool/container was refused: "
              "read-only [session=" +
                  session +
                  " tenant=\"CN=host\" action=change pool=pool container=container node=" +
                  std::to_string(fs::root_node.value) + " decision=refused reason=EROFS]");
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(co_await refused());
    EXPECT_LE(log.size(), 2 * session::audit_lines_per_second_max) << "of two seconds at most";
    (void)co_await sleep_for(stage.world.core(), std::chrono::seconds(1));
    EXPECT_FALSE(co_await refused());
    EXPECT_TRUE(log.back().contains(" earlier ones were not logged)")) << log.back();
}
TEST(HostLink, RefusedRequestsAreAudited) { Stage().run(refused_requests); }

Task<> refused_path(Stage& stage) {
    stage.dpu.log.clear();
    const std::string path(40, 'a');
    const auto refused =
        co_await stage.other.link->open_path({}, path, {.creates = true, .mode = 0644});
    EXPECT_EQ(refused.error().code, Code::read_only);
    EXPECT_EQ(stage.dpu.log.size(), 1U);
    if (stage.dpu.log.empty()) co_return;
    const std::string& line = stage.dpu.log.back();
    EXPECT_TRUE(line.contains("container=container decision=refused")) << line;
}
TEST(HostLink, RefusedPathIsAuditedWithoutNode) { Stage().run(refused_path); }

// A session that its client ends waits for its updates, until it is revoked as well.
Task<> revoked_while_it_ends(Stage& stage) {
    using namespace std::chrono_literals;
    const FileHandle file = co_await stage.create("f", {.write = true});
    const std::vector<std::byte> bytes(4096);
    static_cast<DfsSource&>(*stage.dpu.source).wire().held_on = &stage.world.core();
    Result<> done = fail(Code::busy);
    Nursery waiting(stage.world.core(), 2);
    co_await waiting.spawn(
        note_end(stage.host.link->pwrite({}, file, Window::local(ConstBytes(bytes)), 0), done));
    (void)co_await sleep_for(stage.world.core(), 100ms);
    co_await waiting.spawn(stage.dpu.sessions.close(stage.host.session));
    (void)co_await sleep_for(stage.world.core(), 10s);
    EXPECT_NE(stage.dpu.sessions.look(stage.host.session), nullptr);
    stage.dpu.sessions.evict(stage.host.session, "its tenant was revoked");
    (void)co_await sleep_for(stage.world.core(), 1s);
    EXPECT_EQ(stage.dpu.sessions.look(stage.host.session), nullptr);
    static_cast<DfsSource&>(*stage.dpu.source).wire().held_on = nullptr;
    co_await waiting.join();
    EXPECT_FALSE(done);
}
TEST(HostLink, EndingSessionCanBeRevoked) { Stage().run(revoked_while_it_ends); }

// ---- exactly once ---------------------------------------------------------------------------

constexpr size_t record_bytes = 300;

// Appends records with its own number, one after the other.
Task<> append_all(Stage& stage, FileHandle file, uint8_t number, int count) {
    const std::vector<std::byte> record(record_bytes, std::byte{number});
    for (int i = 0; i < count; ++i) {
        const auto written =
            co_await stage.host.link->pwrite({}, file, Window::local(ConstBytes(record)), 0);
        EXPECT_TRUE(written) << describe(written.error());
    }
}

Task<> appends_with_losses(Stage& stage) {
    constexpr uint8_t writers = 6;
    constexpr int each = 20;
    const FileHandle file = co_await stage.create("log", {.write = true, .append = true});
    Nursery nursery(stage.world.core(), writers);
    for (uint8_t number = 1; number <= writers; ++number) {
        co_await nursery.spawn(append_all(stage, file, number, each));
    }
    Random& random = stage.world.random();
    for (int i = 0; i < 20; ++i) {
        co_await sleep_for(stage.world.core(), std::chrono::microseconds(20 + random.below(400)));
        stage.network.kill(stage.host.name());
    }
    co_await nursery.join();
    std::vector<std::byte> all(record_bytes * writers * each + 1);
    const auto read = co_await stage.host.link->pread({}, file, Window::local(Bytes(all)), 0);
    EXPECT_EQ(read, Result<uint64_t>(all.size() - 1));
    std::array<int, writers + 1> found{};
    for (size_t at = 0; at + 1 < all.size(); at += record_bytes) {
        const Bytes record = std::span(all).subspan(at, record_bytes);
        EXPECT_TRUE(std::ranges::all_of(record, [&](std::byte b) { return b == record[0]; }));
        ++found[std::min<size_t>(static_cast<size_t>(record[0]), writers)];
    }
    for (size_t number = 1; number <= writers; ++number) EXPECT_EQ(found[number], each) << number;
}

TEST(HostLink, AppendsDuringLossesAreDoneOnce) {
    uint64_t returned = 0;
    for (uint64_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Stage stage(seed);
        stage.run(appends_with_losses);
        returned += stage.dpu.service.replies_returned();
    }
    EXPECT_GT(returned, 0U);
}

Task<> slots_of_updates(Stage& stage) {
    Buffer body;
    const FileHandle file = co_await stage.create_there("f");
    ReadNothing reader;
    const auto punch = [&](Uuid client, uint32_t slot, uint64_t sequence, uint64_t length = 1) {
        return rpc::CallRequest{
            .method = static_cast<uint16_t>(Method::punch_hole),
            .id = {.client = client, .slot = slot, .sequence = sequence},
            .body =
                rpc::build(body, file_fields,
                           FileBody{.mount = stage.host.mount, .handle = file, .length = length})};
    };
    rpc::Channel& channel = *stage.host.channel;
    const Uuid own = stage.host.client;
    EXPECT_TRUE(co_await channel.call({}, punch(own, 4000, 7), reader));
    EXPECT_TRUE(co_await channel.call({}, punch(own, 4000, 7), reader));
    EXPECT_EQ(stage.dpu.service.replies_returned(), 1U);
    EXPECT_EQ(co_await channel.call({}, punch(own, 4000, 7, 2), reader),
              Result<>(fail(Code::name_taken)));
    EXPECT_EQ(co_await channel.call({}, punch(own, 4000, 6), reader), Result<>(fail(Code::stale)));
    EXPECT_EQ(co_await channel.call({}, punch(own, 4096, 1), reader),
              Result<>(fail(Code::invalid)));
    EXPECT_EQ(co_await channel.call({}, punch(client_of(9), 0, 1), reader),
              Result<>(fail(Code::invalid)));
}
TEST(HostLink, UpdateIsIdentifiedBySlotAndNumber) { Stage().run(slots_of_updates); }

// Another subject opens a session as the same client instance. It uses the victim's next names
// first, and also the last possible ones. The victim is not affected.
Task<> anothers_instance(Stage& stage) {
    Host thief(stage.dpu, 8);
    thief.client = stage.host.client;
    thief.subject = "CN=thief";
    co_await thief.start();
    const fs::OpenFlags appending{.write = true, .append = true};
    const auto loot = co_await thief.link->create({}, fs::root_node, "loot", 0644, appending, {});
    EXPECT_TRUE(loot);
    const FileHandle log = co_await stage.create("log", appending);
    const Window byte = Window::local(as_bytes("x"));
    for (uint64_t size = 1; size <= 3; ++size) {
        EXPECT_EQ(co_await thief.link->pwrite({}, loot->handle, byte, 0), Result<uint64_t>(1));
        EXPECT_EQ(co_await stage.host.link->pwrite({}, log, byte, 0), Result<uint64_t>(1));
        const auto found = co_await stage.host.link->lookup({}, fs::root_node, "log");
        EXPECT_TRUE(found && found->size == size) << size;
        Buffer body;
        ReadNothing reader;
        const rpc::CallRequest leap{
            .method = static_cast<uint16_t>(Method::punch_hole),
            .id = {.client = thief.client,
                   .slot = static_cast<uint32_t>(size),
                   .sequence = ~uint64_t{0}},
            .body =
                rpc::build(body, file_fields,
                           FileBody{.mount = thief.mount, .handle = loot->handle, .length = 1})};
        (void)co_await thief.channel->call({}, leap, reader);
    }
    EXPECT_TRUE(co_await thief.link->close({}, loot->handle));
    co_await thief.stop();
}
TEST(HostLink, SameInstanceOfAnotherSubjectIsSeparate) { Stage().run(anothers_instance); }

// ---- several hosts --------------------------------------------------------------------------

Task<> seen_by_others(Stage& stage) {
    const FileHandle file = co_await stage.create("shared", {.write = true});
    std::vector<std::byte> written(200'000, std::byte{7}), read(200'000);
    EXPECT_TRUE(co_await stage.host.link->pwrite({}, file, Window::local(ConstBytes(written)), 0));
    fs::FileSystem& other = *stage.other.link;
    const auto node = co_await other.lookup({}, fs::root_node, "shared");
    EXPECT_TRUE(node);
    EXPECT_EQ(node->size, written.size());
    const auto opened = co_await other.open({}, node->node, {});
    EXPECT_TRUE(opened);
    EXPECT_EQ(co_await other.pread({}, opened->handle, Window::local(Bytes(read)), 0),
              Result<uint64_t>(read.size()));
    EXPECT_TRUE(read == written);
    const auto report = other.path_report(opened->handle);
    EXPECT_TRUE(report);
    EXPECT_EQ(report->path, "host link over sim to a simulated DPU");
    EXPECT_EQ(report->read_bytes, read.size());
    // Mounted for reading only.
    EXPECT_EQ(co_await other.pwrite({}, opened->handle, Window::local(ConstBytes(read)), 0),
              Result<uint64_t>(fail(Code::read_only)));
}
TEST(HostLink, AcknowledgedWriteIsSeenByAnotherHost) { Stage().run(seen_by_others); }

Task<> somebody_elses(Stage& stage) {
    const FileHandle file = co_await stage.create_there("mine");
    Buffer body;
    const FileBody there{.mount = stage.host.mount, .handle = file};
    // The other host knows the numbers, which mean nothing in its session.
    EXPECT_EQ(co_await ask(stage.other, Method::read, rpc::build(body, file_fields, there)),
              Result<>(fail(Code::stale)));
    const FileBody own_mount{.mount = stage.other.mount, .handle = file};
    EXPECT_EQ(co_await ask(stage.other, Method::read, rpc::build(body, file_fields, own_mount)),
              Result<>(fail(Code::stale)));
    EXPECT_EQ(co_await ask(stage.other, Method::sync, rpc::build(body, file_fields, own_mount)),
              Result<>(fail(Code::stale)));
    EXPECT_EQ(co_await ask(stage.other, Method::readdir,
                           rpc::build(body, readdir_fields,
                                      ReaddirBody{.mount = stage.other.mount, .handle = file})),
              Result<>(fail(Code::stale)));
    EXPECT_TRUE(co_await ask(stage.host, Method::read, rpc::build(body, file_fields, there)));
}
TEST(HostLink, HandlesOfAnotherSessionAreStale) { Stage().run(somebody_elses); }

// Names: each request by hand, so that no code of the host's side checks it.
Task<Code> ask_about(Host& host, Method method, ConstBytes body, uint64_t sequence) {
    ReadNothing reader;
    const rpc::CallRequest request{
        .method = static_cast<uint16_t>(method),
        .id = {.client = host.client, .slot = 3001, .sequence = sequence},
        .body = body};
    const auto done = co_await host.channel->call({}, request, reader);
    co_return done ? Code::exists : done.error().code;
}

Task<> names_of_others(Stage& stage) {
    const FileHandle file = co_await stage.create_there("mine");
    Buffer body;
    uint64_t sequence = 0;
    Host& thief = stage.other;
    const session::MountId hers = stage.host.mount, own = thief.mount;
    const auto code = [&](Method method, auto fields, const auto& what) {
        return ask_about(thief, method, rpc::build(body, with_user(fields), fs::UserClaim{}, what),
                         ++sequence);
    };
    using enum Code;
    // The mount of the one subject, in the session of the other.
    EXPECT_EQ(co_await code(Method::lookup, node_fields,
                            NodeBody{.mount = hers, .node = fs::root_node, .name = "mine"}),
              stale);
    EXPECT_EQ(co_await code(Method::unlink, node_fields,
                            NodeBody{.mount = hers, .node = fs::root_node, .name = "mine"}),
              stale);
    EXPECT_EQ(co_await code(Method::open, open_fields, OpenBody{.mount = hers, .node = {2}}),
              stale);
    EXPECT_EQ(co_await code(Method::walk, walk_fields, WalkBody{.mount = hers, .path = "mine"}),
              stale);
    EXPECT_EQ(co_await code(Method::space, mount_fields, MountBody{.mount = hers}), stale);
    // The handle of the one subject, in the mount of the other.
    EXPECT_EQ(co_await code(Method::close, handle_fields, HandleBody{.mount = own, .handle = file}),
              stale);
    // The second mount is for reading.
    EXPECT_EQ(co_await code(Method::unlink, node_fields,
                            NodeBody{.mount = own, .node = fs::root_node, .name = "mine"}),
              read_only);
    EXPECT_EQ(co_await code(Method::create, create_fields,
                            CreateBody{.mount = own, .parent = fs::root_node, .name = "new"}),
              read_only);
    EXPECT_EQ(co_await code(Method::make_directory, make_fields,
                            MakeBody{.mount = own, .parent = fs::root_node, .name = "new"}),
              read_only);
    EXPECT_EQ(co_await code(Method::open, open_fields,
                            OpenBody{.mount = own, .node = {2}, .flags = {.truncate = true}}),
              read_only);
    const SetAttributesBody owned{.mount = own, .node = {2}, .changes = {.uid = 7}};
    EXPECT_EQ(co_await code(Method::set_attributes, set_attributes_fields, owned), read_only);
    EXPECT_EQ(co_await code(Method::set_xattr, set_xattr_fields,
                            SetXattrBody{.mount = own, .node = {2}, .name = "user.x"}),
              read_only);
    // References that this subject does not have.
    const ForgetBody many{.mount = own, .nodes = {{{2}, UINT64_MAX}, {{3}, 1}, {{2}, UINT64_MAX}}};
    EXPECT_EQ(co_await code(Method::forget, forget_fields, many), exists);
    EXPECT_TRUE(co_await stage.host.link->lookup({}, fs::root_node, "mine"));
    EXPECT_TRUE(co_await stage.host.names->close({}, file));
}
TEST(HostLink, NamesOfAnotherSessionAreRefused) { Stage().run(names_of_others); }

Task<> false_names(Stage& stage) {
    Buffer body;
    uint64_t sequence = 0;
    const auto code = [&](Method method, auto fields, const auto& what) {
        return ask_about(stage.host, method,
                         rpc::build(body, with_user(fields), fs::UserClaim{}, what), ++sequence);
    };
    const session::MountId mount = stage.host.mount;
    const std::string longest(fs::name_bytes_max, 'x'), too_long = longest + 'x';
    const std::pair<std::string_view, Code> wrong[] = {{"", Code::invalid},
                                                       {".", Code::invalid},
                                                       {"..", Code::invalid},
                                                       {"a/b", Code::invalid},
                                                       {"/", Code::invalid},
                                                       {std::string_view("a\0b", 3), Code::invalid},
                                                       {too_long, Code::name_too_long}};
    for (const auto& [name, refusal] : wrong) {
        SCOPED_TRACE(name);
        const NodeBody node{.mount = mount, .node = fs::root_node, .name = name};
        EXPECT_EQ(co_await code(Method::unlink, node_fields, node), refusal);
        EXPECT_EQ(co_await code(Method::remove_directory, node_fields, node), refusal);
        const MakeBody make{.mount = mount, .parent = fs::root_node, .name = name, .target = "t"};
        EXPECT_EQ(co_await code(Method::make_directory, make_fields, make), refusal);
        EXPECT_EQ(co_await code(Method::symlink, make_fields, make), refusal);
        MakeBody fifo = make;
        fifo.mode = S_IFIFO;
        EXPECT_EQ(co_await code(Method::make_node, make_fields, fifo), refusal);
        const CreateBody file{.mount = mount, .parent = fs::root_node, .name = name};
        EXPECT_EQ(co_await code(Method::create, create_fields, file), refusal);
        const LinkBody link{.mount = mount, .node = {2}, .parent = fs::root_node, .name = name};
        EXPECT_EQ(co_await code(Method::link, link_fields, link), refusal);
        RenameBody rename{.mount = mount,
                          .parent = fs::root_node,
                          .name = name,
                          .new_parent = fs::root_node,
                          .new_name = "new"};
        EXPECT_EQ(co_await code(Method::rename, rename_fields, rename), refusal);
        std::swap(rename.name, rename.new_name);
        EXPECT_EQ(co_await code(Method::rename, rename_fields, rename), refusal);
    }
    for (const std::string_view name : {std::string_view("a/b"), std::string_view("../x")}) {
        const NodeBody node{.mount = mount, .node = fs::root_node, .name = name};
        EXPECT_EQ(co_await code(Method::lookup, node_fields, node), Code::invalid);
    }
    const MakeBody type{.mount = mount, .parent = fs::root_node, .name = "d", .mode = S_IFCHR};
    EXPECT_EQ(co_await code(Method::make_directory, make_fields, type), Code::invalid);
    const CreateBody file_type{
        .mount = mount, .parent = fs::root_node, .name = "f", .mode = S_IFLNK | 0777};
    EXPECT_EQ(co_await code(Method::create, create_fields, file_type), Code::invalid);
    MakeBody directory = type;
    directory.mode = S_IFDIR | 0755;
    EXPECT_EQ(co_await code(Method::make_node, make_fields, directory), Code::invalid);
    const NodeBody good{.mount = mount, .node = fs::root_node, .name = longest};
    EXPECT_EQ(co_await code(Method::lookup, node_fields, good), Code::not_found);
}
TEST(HostLink, InvalidNamesAndModesAreRefused) { Stage().run(false_names); }

// What is refused has one line, and counts once for its tenant.
Task<> refused_once(Stage& stage) {
    std::vector<std::string>& log = stage.dpu.log;
    Host limited(stage.dpu, 3);
    limited.subject = "CN=limited";
    co_await limited.start({.users = {.users = {{1000, 1999}}}});
    const Counter& refused = stage.dpu.accounts.open("CN=limited", "pool")->metrics.refused;
    log.clear();
    Buffer body;
    const NodeBody asked{.mount = limited.mount, .node = fs::root_node, .name = "f"};
    const auto found = co_await ask(
        limited, Method::lookup,
        rpc::build(body, with_user(node_fields), fs::UserClaim{.uid = 7, .gid = 7}, asked));
    EXPECT_EQ(found.error().code, Code::denied);
    EXPECT_EQ(log.size(), 1U);
    if (!log.empty()) EXPECT_TRUE(log.back().contains("as user 7")) << log.back();
    EXPECT_EQ(refused.value(), 1U);
    co_await limited.stop();
}
TEST(HostLink, RefusedRequestIsLoggedAndCountedOnce) { Stage().run(refused_once); }

Task<Result<>> create_named(Host& host, UpdateName id, std::string_view name,
                            rpc::ReplyReader& reader) {
    Buffer body;
    const CreateBody create{.mount = host.mount,
                            .parent = fs::root_node,
                            .name = name,
                            .flags = {.write = true, .exclusive = true}};
    const rpc::CallRequest request{
        .method = static_cast<uint16_t>(Method::create),
        .id = id,
        .body = rpc::build(body, with_user(create_fields), fs::UserClaim{}, create)};
    co_return co_await host.channel->call({}, request, reader);
}

// A change of names that is repeated gets the reply of the first time. Another change under its
// name, or under another client's, is refused.
Task<> changes_that_come_again(Stage& stage) {
    const auto send = [&](Uuid client, uint64_t sequence, std::string_view name,
                          rpc::ReplyReader& reader) {
        return create_named(stage.host, {.client = client, .slot = 3002, .sequence = sequence},
                            name, reader);
    };
    const Uuid own = stage.host.client;
    ReadLeased<fs::Opened> first, second;
    EXPECT_TRUE(co_await send(own, 1, "f", first));
    EXPECT_TRUE(co_await send(own, 1, "f", second));
    EXPECT_EQ(first.value.handle, second.value.handle);
    EXPECT_EQ(stage.dpu.service.replies_returned(), 1U);
    ReadNothing reader;
    EXPECT_EQ(co_await send(own, 1, "g", reader), Result<>(fail(Code::name_taken)));
    EXPECT_EQ(co_await send(stage.other.client, 2, "g", reader), Result<>(fail(Code::invalid)));
    EXPECT_EQ(co_await send(Uuid{}, 2, "g", reader), Result<>(fail(Code::invalid)));
    // A refusal is repeated, too.
    EXPECT_EQ(co_await send(own, 2, "f", reader), Result<>(fail(Code::exists)));
    EXPECT_EQ(co_await send(own, 2, "f", reader), Result<>(fail(Code::exists)));
    EXPECT_TRUE(co_await stage.host.names->close({}, first.value.handle));
}
TEST(HostLink, RepeatedNameChangeIsDoneOnce) { Stage().run(changes_that_come_again); }

// ---- false data -----------------------------------------------------------------------------

Task<> nonsense(Stage& stage) {
    constexpr uint16_t last = method_count;
    for (uint16_t method = 0; method <= last + 1; ++method) {
        const auto refused = co_await ask(stage.host, static_cast<Method>(method), as_bytes("?"));
        EXPECT_FALSE(refused) << method;
        if (refused) continue;
        const bool known = method >= 1 && method <= last;
        EXPECT_EQ(refused.error().code, known ? Code::corrupt : Code::unsupported) << method;
    }
    Buffer body;
    std::vector<fs::ReadManyItem> items(1);
    items[0] = {.name = "x", .window = {.length = 101}};  // more than the sink has
    EXPECT_EQ(
        co_await ask(stage.host, Method::read_many,
                     rpc::build(body, with_user(read_many_fields), fs::Caller{.uid = 0, .gid = 0},
                                ReadManyBody{stage.host.mount, fs::root_node}, items)),
        Result<>(fail(Code::invalid)));
    EXPECT_EQ(stage.host.channel->metrics().connections.value(), 1U);
}
TEST(HostLink, MalformedRequestKeepsTheConnection) { Stage().run(nonsense); }

// An update hangs below the DPU, and its caller does not wait any longer. The next update, about
// another file, does not wait for it either.
Task<> after_one_that_hangs(Stage& stage) {
    using namespace std::chrono_literals;
    WireToStore& wire = static_cast<DfsSource&>(*stage.dpu.source).wire();
    wire.held_on = &stage.world.core();
    const Call call{.deadline = stage.world.core().now() + 1s};
    const auto made = co_await stage.host.link->mkdir(call, fs::root_node, "a", 0755, {});
    EXPECT_EQ(made.error().code, Code::deadline);
    wire.held_on = nullptr;
    const Time begun = stage.world.core().now();
    EXPECT_TRUE(co_await stage.host.link->mkdir({}, fs::root_node, "b", 0755, {}));
    EXPECT_LT(stage.world.core().now() - begun, 1s);
}
TEST(HostLink, HangingUpdateDoesNotDelayTheNext) { Stage().run(after_one_that_hangs); }

// ---- closing -------------------------------------------------------------------------------

// The caller cannot close it again. Until it is closed, the file keeps its space, and the handle
// counts against the bounds of the mount.
Task<> closed_too_late(Stage& stage) {
    using namespace std::chrono_literals;
    const FileHandle file = co_await stage.create("f", {.write = true});
    const std::vector<std::byte> block(4096, std::byte{7});
    EXPECT_TRUE(co_await stage.host.link->pwrite({}, file, Window::local(ConstBytes(block)), 0));
    EXPECT_TRUE(co_await stage.host.link->unlink({}, fs::root_node, "f"));
    const auto open = co_await stage.host.link->space({});
    stage.network.stall("dpu", true);
    stage.network.kill(stage.host.name());
    const Call call{.deadline = stage.world.core().now() + 1s};
    EXPECT_EQ(co_await stage.host.link->close(call, file), Result<>(fail(Code::deadline)));
    stage.network.stall("dpu", false);
    co_await sleep_for(stage.world.core(), 60s);
    const auto closed = co_await stage.host.link->space({});
    EXPECT_TRUE(open && closed && closed->free_bytes >= open->free_bytes + block.size());
}
TEST(HostLink, UnansweredCloseIsSentAgain) { Stage().run(closed_too_late); }

// More files than are closed side by side. They have no names, so their space shows that they are
// closed.
Task<> closed_while_away(Stage& stage) {
    using namespace std::chrono_literals;
    const std::vector<std::byte> block(4096, std::byte{7});
    const auto before = co_await stage.host.link->space({});
    std::vector<FileHandle> files;
    for (int i = 0; i < 200; ++i) {
        const std::string name = "f" + std::to_string(i);
        const FileHandle file = files.emplace_back(co_await stage.create(name, {.write = true}));
        EXPECT_TRUE(
            co_await stage.host.link->pwrite({}, file, Window::local(ConstBytes(block)), 0));
        EXPECT_TRUE(co_await stage.host.link->fsync({}, file));
        EXPECT_TRUE(co_await stage.host.link->unlink({}, fs::root_node, name));
    }
    stage.network.stall("dpu", true);
    const Time begun = stage.world.core().now();
    for (const FileHandle file : files) EXPECT_TRUE(co_await stage.host.link->close({}, file));
    EXPECT_LT(stage.world.core().now() - begun, 1ms);
    co_await sleep_for(stage.world.core(), 20s);
    stage.network.stall("dpu", false);
    co_await sleep_for(stage.world.core(), 60s);
    const auto after = co_await stage.host.link->space({});
    EXPECT_TRUE(before && after && after->free_bytes == before->free_bytes);
}
TEST(HostLink, CloseDoesNotWaitForOtherCloses) { Stage().run(closed_while_away); }

// The server does not come back. Its handles end with the session.
Task<> ended_while_away(Stage& stage) {
    using namespace std::chrono_literals;
    std::vector<FileHandle> files;
    for (int i = 0; i < 200; ++i) {
        files.push_back(co_await stage.create("f" + std::to_string(i), {.write = true}));
    }
    stage.network.stall("dpu", true);
    for (const FileHandle file : files) EXPECT_TRUE(co_await stage.host.link->close({}, file));
    const Time begun = stage.world.core().now();
    co_await stage.host.link->close_all();
    EXPECT_LE(stage.world.core().now() - begun, LinkClient::Options::close_within + 1s);
    stage.network.stall("dpu", false);
}
TEST(HostLink, CloseAllWaitsOnlySecondsForAbsentServer) { Stage().run(ended_while_away); }

}  // namespace
}  // namespace ros2s::hostlink
