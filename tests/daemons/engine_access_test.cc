// `access:` of a real ros2store-engine: what direct clients and a DPU may do with containers.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "client.h"
#include "control_clients.h"
#include "dpu_process.h"
#include "eventually.h"

namespace ros2s::tests {
namespace {

using namespace std::chrono_literals;
using connection::DirectPool;
using fs::Window;
using object::ContainerId;
using std::chrono::steady_clock;
using std::chrono::system_clock;
using tenancy::Change;
using testing::HasSubstr;

constexpr size_t bytes = 4096;
const Call call;

void issue_certificate(const EngineProcess& engine, const std::string& name) {
    std::string said;
    EXPECT_EQ(run_program(fmt::format("'{}' certs issue --replace '{}' {}", PROGRAM_CLI,
                                      engine.places().storage_certs, name),
                          said),
              0)
        << said;
}

// A direct client with its own certificate.
class Subject {
  public:
    Subject(OsReactor& reactor, const EngineProcess& engine, const std::string& name)
        : reactor_(reactor), options_(engine.options("shm")) {
        issue_certificate(engine, name);
        options_.server.identity = pki::identity_in(engine.places().storage_certs, name);
        name_.client = Uuid::make(reactor.secrets());
    }
    ~Subject() {
        run_blocking(reactor_, [&] { return writing_.join(); });
        if (files_) run_blocking(reactor_, [&] { return files_->close_all(); });
        files_.reset();
        if (pool_) (void)run_blocking(reactor_, [&] { return pool_->close(); });
    }
    Subject& operator=(Subject&&) = delete;

    Result<> open() {
        return run_blocking(reactor_, [&]() -> Task<Result<>> { return open_here(*this); });
    }
    // Opens another session, and closes it at once.
    Result<> open_another() {
        return run_blocking(reactor_, [&]() -> Task<Result<>> { return open_another_here(*this); });
    }
    [[nodiscard]] object::ObjectStore& store() { return pool_->store(); }
    [[nodiscard]] std::string said() const { return report_.text(); }

    [[nodiscard]] std::vector<std::string> labels() {
        std::vector<std::string> labels;
        const auto all = run_blocking(reactor_, [&] { return store().list_containers(call); });
        EXPECT_TRUE(all) << describe(all.error());
        if (!all) return {"?"};
        for (const auto& each : *all) labels.push_back(each.properties.label);
        return labels;
    }
    Result<ContainerId> create(const std::string& label, const std::string& owner = {}) {
        return run_blocking(reactor_, [&] { return create_here(*this, label, owner); });
    }
    Result<> destroy(ContainerId container) {
        return run_blocking(reactor_, [&] { return destroy_here(*this, container); });
    }
    // Makes a file in the container, or replaces its bytes.
    Result<> write(ContainerId container, size_t blocks = 1) {
        return run_blocking(reactor_, [&] { return write_here(*this, container, blocks); });
    }
    // Looks up and reads that file. Returns its size.
    Result<uint64_t> read(ContainerId container) {
        return run_blocking(reactor_, [&] { return read_here(*this, container); });
    }
    Result<> fetch(ContainerId container) {
        return run_blocking(reactor_, [&] { return fetch_here(*this, container); });
    }
    // Opens the file of the container for begin_writing().
    Result<> hold_open(ContainerId container) {
        return run_blocking(reactor_, [&] { return hold_open_here(*this, container); });
    }
    // Starts writes, one after the other, until one fails or a minute has passed.
    void begin_writing() {
        run_blocking(reactor_, [&] { return begin_writing_here(*this); });
    }
    // Waits for the end of begin_writing(). Returns the result of its last write.
    Result<> end_of_writing() {
        run_blocking(reactor_, [&] { return writing_.join(); });
        return written_;
    }

  private:
    static Task<Result<>> open_here(Subject& self) {
        ROS2S_CO_TRY_ASSIGN(
            self.pool_, co_await DirectPool::open(self.reactor_, self.options_, {}, self.report_));
        co_return Result<>{};
    }
    static Task<Result<>> open_another_here(Subject& self) {
        ROS2S_CO_TRY_ASSIGN(
            const auto another,
            co_await DirectPool::open(self.reactor_, self.options_, {}, self.report_));
        co_return co_await another->close();
    }
    static Task<Result<>> hold_open_here(Subject& self, ContainerId container) {
        ROS2S_CO_TRY_ASSIGN(self.files_, co_await fs::Dfs::mount(call, self.store(), container,
                                                                 self.reactor_, {}, self.report_));
        ROS2S_CO_TRY_ASSIGN(
            const auto opened,
            co_await self.files_->create(call, fs::root_node, "held", 0644, {.write = true}, {}));
        self.held_ = opened.handle;
        co_return Result<>{};
    }
    static Task<> begin_writing_here(Subject& self) {
        co_await self.writing_.spawn(write_until_it_fails(self));
    }
    static Task<> write_until_it_fails(Subject& self) {
        const std::vector<std::byte> zeros(bytes);
        const Window from = Window::local(ConstBytes(zeros));
        const Call bounded{.deadline = self.reactor_.now() + 1min};
        for (self.written_ = {}; self.written_;) {
            const auto written = co_await self.files_->pwrite(bounded, self.held_, from, 0);
            if (!written) self.written_ = fail(written.error());
        }
    }
    static Task<Result<ContainerId>> create_here(Subject& self, std::string label,
                                                 std::string owner) {
        ++self.name_.sequence;
        const Call named{.update = &self.name_};
        ROS2S_CO_TRY_ASSIGN(const auto record, co_await self.store().create_container(
                                                   named, {.label = label, .owner = owner}));
        ROS2S_CO_TRY(co_await fs::Dfs::format(call, self.store(), record.id, self.reactor_, {},
                                              self.report_));
        co_return record.id;
    }
    static Task<Result<>> destroy_here(Subject& self, ContainerId container) {
        ++self.name_.sequence;
        const Call named{.update = &self.name_};
        co_return co_await self.store().destroy_container(named, container);
    }
    static Task<Result<>> write_here(Subject& self, ContainerId container, size_t blocks) {
        ROS2S_CO_TRY_ASSIGN(auto files, co_await fs::Dfs::mount(call, self.store(), container,
                                                                self.reactor_, {}, self.report_));
        const auto done = co_await write_file(*files, blocks);
        co_await files->close_all();
        co_return done;
    }
    static Task<Result<>> write_file(fs::FileSystem& files, size_t blocks) {
        ROS2S_CO_TRY_ASSIGN(const auto opened, co_await files.create(call, fs::root_node, "file",
                                                                     0644, {.write = true}, {}));
        const std::vector<std::byte> zeros(blocks * bytes);
        const auto written =
            co_await files.pwrite(call, opened.handle, Window::local(ConstBytes(zeros)), 0);
        ROS2S_CO_TRY(co_await files.close(call, opened.handle));
        if (!written) co_return fail(written.error());
        co_return Result<>{};
    }
    static Task<Result<uint64_t>> read_here(Subject& self, ContainerId container) {
        ROS2S_CO_TRY_ASSIGN(auto files, co_await fs::Dfs::mount(call, self.store(), container,
                                                                self.reactor_, {}, self.report_));
        const auto done = co_await read_file(*files);
        co_await files->close_all();
        co_return done;
    }
    static Task<Result<uint64_t>> read_file(fs::FileSystem& files) {
        ROS2S_CO_TRY_ASSIGN(const auto found, co_await files.lookup(call, fs::root_node, "file"));
        ROS2S_CO_TRY_ASSIGN(const auto opened,
                            co_await files.open(call, found.node, {.read = true}));
        std::vector<std::byte> into(bytes + 1);
        const auto read = co_await files.pread(call, opened.handle, Window::local(Bytes(into)), 0);
        ROS2S_CO_TRY(co_await files.close(call, opened.handle));
        co_return read;
    }
    static Task<Result<>> fetch_here(Subject& self, ContainerId container) {
        std::vector<std::byte> into(bytes);
        object::FetchItem item{.extent = {.offset = 0, .length = bytes},
                               .window = Window::local(Bytes(into))};
        co_return co_await self.store().fetch(call, container, {&item, 1});
    }

    OsReactor& reactor_;
    connection::Options options_;
    std::unique_ptr<DirectPool> pool_;
    std::unique_ptr<fs::FileSystem> files_;
    fs::FileHandle held_;
    Nursery writing_{reactor_, 1};
    Result<> written_;
    UpdateName name_{.slot = 1};
    Report report_;
};

class EngineAccess : public testing::Test {
  protected:
    EngineAccess() { reactor = started_reactor("clients"); }
    void start(const std::string& more = {}) {
        engine.write_settings(more);
        ASSERT_TRUE(engine.start()) << engine.log();
    }
    // The container "main".
    ContainerId main_of(Subject& subject) {
        const auto all =
            run_blocking(*reactor, [&] { return subject.store().list_containers(call); });
        EXPECT_TRUE(all && !all->empty());
        return all->front().id;
    }
    std::unique_ptr<control::ControlClient> control_as(const std::string& name) {
        return engine_client(*reactor, engine.places(), name);
    }
    // Sends the request as the administrator CN=client.
    std::string change(Change what, config::Entries settings = {},
                       const std::string& tenant = "alice") {
        const auto admin = control_as("client");
        Report report;
        (void)run_blocking(*reactor, [&] {
            return admin->change_tenant(call, "pool", what, tenant, std::move(settings), report);
        });
        return report.text();
    }
    // Alice and Bob have the same rights in the settings. One of Alice's writes waits for minutes
    // at the engine.
    void begin_tenant(Subject& alice, Subject& bob, ContainerId& main) {
        ASSERT_TRUE(alice.open() && bob.open()) << alice.said() << bob.said();
        main = main_of(alice);
        ASSERT_EQ(change(Change::create, {{"subjects", "CN=alice"}}), "");
        EXPECT_TRUE(alice.write(main)) << alice.said();
        EXPECT_EQ(alice.read(main), Result<uint64_t>(bytes));
        ASSERT_TRUE(alice.hold_open(main)) << alice.said();
        ASSERT_EQ(change(Change::set, {{"bytes", "16"}}), "");
        alice.begin_writing();
        constexpr std::string_view delayed =
            R"(ros2store_tenant_delayed_total{tenant="CN=alice"} )";
        ASSERT_TRUE(eventually([&] {
            const std::string metrics = engine.metrics();
            const size_t at = metrics.find(delayed);
            return at != metrics.npos && metrics[at + delayed.size()] != '0';
        })) << engine.metrics();
    }
    [[nodiscard]] bool has_ended_alice() const {
        return engine.log().find(ended_) != std::string::npos;
    }
    void expect_alice_without_rights(Subject& alice, Subject& bob, ContainerId main);

    static constexpr std::string_view ended_ =
        " of CN=alice is ended: the tenant of its subject was revoked or has expired";
    EngineProcess engine;
    std::unique_ptr<OsReactor> reactor;
};

constexpr auto denied = [](const auto& result) {
    return !result && result.error().code == Code::denied;
};

void EngineAccess::expect_alice_without_rights(Subject& alice, Subject& bob, ContainerId main) {
    const auto begun = steady_clock::now();
    const auto in_flight = alice.end_of_writing();
    EXPECT_TRUE(denied(in_flight)) << describe(in_flight.error());
    EXPECT_TRUE(denied(alice.read(main)));
    EXPECT_TRUE(denied(alice.write(main)));
    EXPECT_TRUE(denied(alice.open_another()));
    EXPECT_THAT(alice.said(),
                HasSubstr("its tenant in the pool 'pool' was revoked or has expired"));
    EXPECT_LT(steady_clock::now() - begun, 10s);
    // The control plane refuses her, too.
    const auto control = control_as("alice");
    Report report;
    const auto pools = run_blocking(*reactor, [&] { return control->list_pools(call, report); });
    ASSERT_TRUE(pools) << report.text();
    EXPECT_THAT(*pools, testing::IsEmpty());
    EXPECT_TRUE(denied(
        run_blocking(*reactor, [&] { return control->list_containers(call, "pool", report); })));
    EXPECT_TRUE(denied(
        run_blocking(*reactor, [&] { return control->list_tenants(call, "pool", 0, report); })));

    EXPECT_TRUE(bob.write(main)) << bob.said();
    EXPECT_EQ(bob.read(main), Result<uint64_t>(bytes));
    const std::string log = engine.log();
    EXPECT_THAT(log, testing::Not(HasSubstr("of CN=bob is ended")));
    EXPECT_EQ(log.find(ended_), log.rfind(ended_));  // one session, one line
}

TEST_F(EngineAccess, SubjectWithoutEntryOpensNoSession) {
    start();
    Subject stranger(*reactor, engine, "stranger");
    EXPECT_TRUE(denied(stranger.open()));
    EXPECT_THAT(stranger.said(), HasSubstr("under 'access' in its settings"));
    EXPECT_THAT(engine.log(), HasSubstr("access: {\"CN=stranger\": {read: pool/CONTAINER}}"));
}

TEST_F(EngineAccess, EachUseOfContainerNeedsItsRight) {
    engine.give("CN=writer", "write: pool/main");
    engine.give("CN=reader", "read: pool/main");
    engine.give("CN=maker", "create: pool/own-*, write: pool/own-*, destroy: pool/own-*");
    start();
    {
        Subject writer(*reactor, engine, "writer"), owner(*reactor, engine, "maker"),
            reader(*reactor, engine, "reader");
        ASSERT_TRUE(writer.open() && owner.open() && reader.open());
        EXPECT_EQ(owner.labels(), std::vector<std::string>{});
        EXPECT_EQ(reader.labels(), std::vector<std::string>{"main"});
        const ContainerId main = main_of(reader);

        // She has all rights on her own containers.
        EXPECT_TRUE(denied(owner.create("other")));
        const auto own = owner.create("own-1");
        ASSERT_TRUE(own);
        EXPECT_TRUE(owner.write(*own)) << owner.said();
        EXPECT_EQ(owner.read(*own), Result<uint64_t>(bytes));
        EXPECT_EQ(owner.labels(), std::vector<std::string>{"own-1"});

        // She reaches no container of others, although she knows their numbers.
        EXPECT_TRUE(denied(owner.fetch(main)));
        EXPECT_TRUE(denied(owner.write(main)));
        EXPECT_TRUE(denied(owner.destroy(main)));
        EXPECT_TRUE(denied(reader.fetch(*own)));
        EXPECT_TRUE(denied(reader.destroy(*own)));
        EXPECT_TRUE(denied(reader.create("main-2")));
        // For a container that does not exist the error is `not_found`.
        EXPECT_EQ(reader.fetch({Uuid::make(reactor->secrets())}).error().code, Code::not_found);

        // A reader can read, and cannot change anything.
        EXPECT_TRUE(writer.write(main)) << writer.said();
        EXPECT_EQ(reader.read(main), Result<uint64_t>(bytes));
        EXPECT_TRUE(denied(reader.write(main)));
        EXPECT_TRUE(owner.destroy(*own));
    }
    EXPECT_EQ(engine.stop(), 0) << engine.log();
    for (const char* line :
         {"access: {\"CN=maker\": {read: pool/main}}",
          "access: {\"CN=maker\": {create: pool/other}}",
          "access: {\"CN=maker\": {destroy: pool/main}}",
          "access: {\"CN=reader\": {write: pool/main}}", "created the container 'own-1'"}) {
        EXPECT_THAT(engine.log(), HasSubstr(line));
    }
}

TEST_F(EngineAccess, CreatorOwnsItsContainer) {
    engine.give("CN=maker", "create: pool/own-*");
    engine.give("CN=other", "create: pool/more-*");
    start();
    ContainerId own;
    {
        Subject maker(*reactor, engine, "maker"), other(*reactor, engine, "other");
        ASSERT_TRUE(maker.open() && other.open());
        const auto made = maker.create("own-1");
        ASSERT_TRUE(made) << maker.said();
        own = *made;
        EXPECT_TRUE(maker.write(own)) << maker.said();
        EXPECT_EQ(maker.labels(), std::vector<std::string>{"own-1"});
        EXPECT_EQ(other.labels(), std::vector<std::string>{});
        EXPECT_TRUE(denied(other.fetch(own)));
        EXPECT_TRUE(denied(other.destroy(own)));
        // A client cannot create a container for another owner.
        EXPECT_TRUE(denied(other.create("more-1", "CN=maker")));
    }
    EXPECT_EQ(engine.stop(), 0) << engine.log();
    ASSERT_TRUE(engine.start()) << engine.log();
    {
        Subject maker(*reactor, engine, "maker"), other(*reactor, engine, "other");
        ASSERT_TRUE(maker.open() && other.open());
        EXPECT_EQ(maker.read(own), Result<uint64_t>(bytes));
        EXPECT_TRUE(denied(other.fetch(own)));
        EXPECT_TRUE(maker.destroy(own));
    }
}

TEST_F(EngineAccess, TenantAtItsCapDoesNotHinderAnother) {
    engine.give("CN=alice", "create: pool/a-*");
    engine.give("CN=bob", "create: pool/b-*");
    start("administrators: CN=client\n");
    ASSERT_EQ(change(Change::create, {{"subjects", "CN=alice"}, {"space", "16KiB"}}), "");
    {
        Subject alice(*reactor, engine, "alice"), bob(*reactor, engine, "bob");
        ASSERT_TRUE(alice.open() && bob.open());
        const auto first = alice.create("a-1"), second = alice.create("a-2");
        const auto of_bob = bob.create("b-1");
        ASSERT_TRUE(first && second && of_bob) << alice.said();
        // Her containers share the cap. Each has a block for a file, and names and inodes.
        EXPECT_TRUE(alice.write(*first, 1)) << alice.said();
        EXPECT_TRUE(alice.write(*second, 1)) << alice.said();
        const auto refused = alice.write(*first, 8);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, Code::over_cap);
        EXPECT_EQ(to_errno(refused.error()), EDQUOT);
        EXPECT_TRUE(alice.write(*second, 1)) << alice.said();
        EXPECT_TRUE(bob.write(*of_bob, 100)) << bob.said();
    }
    EXPECT_EQ(engine.stop(), 0) << engine.log();
    EXPECT_THAT(engine.log(), HasSubstr("all containers of 'alice'"));
}

TEST_F(EngineAccess, ContainersOfRemovedTenantHaveNoOwner) {
    engine.give("CN=alice", "create: pool/a-*");
    engine.give("CN=bob", "create: pool/a-*");
    start("administrators: CN=client\n");
    ASSERT_EQ(change(Change::create, {{"subjects", "CN=alice"}}), "");
    ContainerId hers, his;
    {
        Subject alice(*reactor, engine, "alice");
        ASSERT_TRUE(alice.open()) << alice.said();
        const auto made = alice.create("a-1", "alice");
        ASSERT_TRUE(made) << alice.said();
        hers = *made;
        EXPECT_TRUE(alice.write(hers, 8)) << alice.said();
    }
    ASSERT_EQ(change(Change::revoke), "");
    ASSERT_EQ(change(Change::remove), "");
    {
        // Her certificate is a client like any other. Its container belongs to the tenant.
        Subject alice(*reactor, engine, "alice");
        ASSERT_TRUE(alice.open()) << alice.said();
        EXPECT_TRUE(denied(alice.fetch(hers)));
        EXPECT_TRUE(denied(alice.destroy(hers)));
    }
    ASSERT_EQ(change(Change::create, {{"subjects", "CN=bob"}, {"space", "16KiB"}}), "");
    {
        Subject bob(*reactor, engine, "bob");
        ASSERT_TRUE(bob.open()) << bob.said();
        // Data of the other one does not count for its cap.
        const auto made = bob.create("a-2", "alice");
        ASSERT_TRUE(made) << bob.said();
        his = *made;
        EXPECT_TRUE(bob.write(his)) << bob.said();
        EXPECT_EQ(bob.write(his, 8).error().code, Code::over_cap);
        const auto control = control_as("bob");
        Report report;
        EXPECT_TRUE(denied(run_blocking(
            *reactor, [&] { return control->destroy_container(call, "pool", "a-1", report); })));
    }
    EXPECT_THAT(engine.metrics(),
                HasSubstr(R"(ros2store_cap_bytes{pool="pool",tenant="alice"} 16384)"));
    EXPECT_EQ(engine.stop(), 0) << engine.log();
    ASSERT_TRUE(engine.start()) << engine.log();
    {
        Subject bob(*reactor, engine, "bob");
        ASSERT_TRUE(bob.open()) << bob.said();
        EXPECT_TRUE(bob.fetch(his));
        EXPECT_TRUE(denied(bob.fetch(hers)));
        EXPECT_TRUE(denied(bob.destroy(hers)));
    }
}

// A direct client has the rights in the engine's settings.
TEST_F(EngineAccess, RevokedTenantLosesRightsAndSessions) {
    engine.give("CN=alice", "write: pool/main");
    engine.give("CN=bob", "write: pool/main");
    start("administrators: CN=client\n");
    {
        Subject alice(*reactor, engine, "alice"), bob(*reactor, engine, "bob");
        ContainerId main;
        ASSERT_NO_FATAL_FAILURE(begin_tenant(alice, bob, main));
        ASSERT_EQ(change(Change::revoke), "");
        EXPECT_TRUE(has_ended_alice()) << engine.log();  // before the command returned
        ASSERT_NO_FATAL_FAILURE(expect_alice_without_rights(alice, bob, main));

        // The program that still runs has all its access back.
        ASSERT_EQ(change(Change::set, {{"bytes", ""}}), "");
        EXPECT_TRUE(alice.open_another()) << alice.said();
        EXPECT_TRUE(eventually([&] { return alice.write(main).has_value(); })) << alice.said();
        EXPECT_EQ(alice.read(main), Result<uint64_t>(bytes));
    }
}

TEST_F(EngineAccess, ExpiredTenantLosesRightsByEngineClock) {
    engine.give("CN=alice", "write: pool/main");
    engine.give("CN=bob", "write: pool/main");
    start("administrators: CN=client\n");
    {
        Subject alice(*reactor, engine, "alice"), bob(*reactor, engine, "bob");
        ContainerId main;
        ASSERT_NO_FATAL_FAILURE(begin_tenant(alice, bob, main));
        const auto until = std::chrono::floor<std::chrono::seconds>(system_clock::now()) + 3s;
        ASSERT_EQ(change(Change::set, {{"until", fmt::format("{:%FT%TZ}", until)}}), "");
        EXPECT_TRUE(eventually([&] { return has_ended_alice(); })) << engine.log();
        EXPECT_GE(system_clock::now(), until);
        EXPECT_LT(system_clock::now(), until + 10s);
        ASSERT_NO_FATAL_FAILURE(expect_alice_without_rights(alice, bob, main));
    }
    EXPECT_EQ(engine.stop(), 0) << engine.log();
    ASSERT_TRUE(engine.start()) << engine.log();
    {
        Subject alice(*reactor, engine, "alice");
        EXPECT_TRUE(denied(alice.open()));
    }
}

// An administrator can undo it, even for its own tenant.
TEST_F(EngineAccess, AdministratorsOwnTenantCanBeReactivated) {
    start("administrators: CN=client\n");
    {
        Subject client(*reactor, engine, "client");
        ASSERT_TRUE(client.open()) << client.said();
        const ContainerId main = main_of(client);
        ASSERT_EQ(change(Change::create, {{"subjects", "CN=client"}}), "");
        ASSERT_EQ(change(Change::revoke), "");
        EXPECT_TRUE(denied(client.open_another()));
        EXPECT_THAT(client.said(),
                    HasSubstr("its tenant in the pool 'pool' was revoked or has expired"));
        ASSERT_EQ(change(Change::set), "");
        EXPECT_TRUE(client.open_another()) << client.said();
        EXPECT_TRUE(eventually([&] { return client.write(main).has_value(); })) << client.said();
    }
}

TEST_F(EngineAccess, TenantSeesOnlyItself) {
    for (const char* each : {"alice", "bob", "carol", "dpu"}) issue_certificate(engine, each);
    engine.give("CN=alice", "read: pool/main");
    engine.give("CN=bob", "read: pool/main");
    start("administrators: CN=client\ncapabilities: {delegates: CN=dpu}\n");
    // The administrator and the DPU also belong to a tenant.
    ASSERT_EQ(change(Change::create, {{"subjects", "CN=alice"}}), "");
    ASSERT_EQ(change(Change::create, {{"subjects", "CN=carol; CN=client; CN=dpu"}}, "carol"), "");
    const auto seen_by = [&](const std::string& name) {
        const auto control = control_as(name);
        Report report;
        std::vector<std::string> names;
        const auto listed =
            run_blocking(*reactor, [&] { return control->list_tenants(call, "pool", 0, report); });
        if (denied(listed)) return std::vector<std::string>{"denied"};
        EXPECT_TRUE(listed) << report.text();
        if (!listed) return names;
        for (const auto& [tenant, seen] : *listed->tenants) names.push_back(tenant);
        EXPECT_EQ(listed->own_only, name == names.front());
        return names;
    };
    using testing::ElementsAre;
    EXPECT_THAT(seen_by("client"), ElementsAre("alice", "carol"));
    EXPECT_THAT(seen_by("dpu"), ElementsAre("alice", "carol"));
    // A DPU with its own rights has such an entry, and no tenant.
    EXPECT_THAT(seen_by("bob"), ElementsAre("alice", "carol"));
    EXPECT_THAT(seen_by("alice"), ElementsAre("alice"));
    EXPECT_THAT(seen_by("carol"), ElementsAre("denied"));
    // From the time at which it has a tenant.
    ASSERT_EQ(change(Change::create, {{"subjects", "CN=bob"}}, "bob"), "");
    EXPECT_THAT(seen_by("bob"), ElementsAre("bob"));
}

// The DPU's settings give its host all rights in the pool. The DPU itself has fewer.
TEST_F(EngineAccess, DpuReachesOnlyWhatTheEngineGrants) {
    engine.give("CN=client", "write: pool/main");
    engine.give("CN=maker", "create: pool/*, write: pool/*");
    start();
    {
        Subject maker(*reactor, engine, "maker");
        ASSERT_TRUE(maker.open()) << maker.said();
        ASSERT_TRUE(maker.create("hidden"));
    }
    DpuProcess dpu(engine, "shm");
    ASSERT_TRUE(dpu.start()) << dpu.log();
    Report report;
    Client host;
    ASSERT_TRUE(host.open(*reactor, dpu.options("pool", "main"), report)) << report.text();
    host.close(*reactor);
    Client other;
    EXPECT_FALSE(other.open(*reactor, dpu.options("pool", "hidden"), report));
    EXPECT_THAT(report.text(), HasSubstr("has no container 'hidden'"));
}

}  // namespace
}  // namespace ros2s::tests
