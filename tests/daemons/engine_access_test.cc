// `access:` of a real ros2store-engine: what direct clients and a DPU may do with containers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client.h"
#include "dpu_process.h"
#include "ros2s/control/control_client.h"
#include "ros2s/pki/certificate.h"

namespace ros2s::tests {
namespace {

using connection::DirectPool;
using fs::Window;
using object::ContainerId;
using testing::HasSubstr;

constexpr size_t bytes = 4096;
const Call call;

// A direct client with a certificate of its own.
class Subject {
  public:
    Subject(OsReactor& reactor, const EngineProcess& engine, const std::string& name)
        : reactor_(reactor), options_(engine.options("shm")) {
        const std::string certificates = engine.places().storage_certs;
        std::string said;
        EXPECT_EQ(run_program(fmt::format("'{}' certs issue --replace '{}' {}", PROGRAM_CLI,
                                          certificates, name),
                              said),
                  0)
            << said;
        options_.engine.identity = pki::identity_in(certificates, name);
        name_.client = Uuid::make(reactor.secrets());
    }
    ~Subject() {
        if (pool_) (void)run_blocking(reactor_, [&] { return pool_->close(); });
    }
    Subject(const Subject&) = delete;
    Subject& operator=(const Subject&) = delete;

    Result<> open() {
        return run_blocking(reactor_, [&]() -> Task<Result<>> { return open_here(*this); });
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
    // Finds and reads that file, and how many bytes it has.
    Result<uint64_t> read(ContainerId container) {
        return run_blocking(reactor_, [&] { return read_here(*this, container); });
    }
    Result<> fetch(ContainerId container) {
        return run_blocking(reactor_, [&] { return fetch_here(*this, container); });
    }

  private:
    static Task<Result<>> open_here(Subject& self) {
        ROS2S_CO_TRY_ASSIGN(
            self.pool_, co_await DirectPool::open(self.reactor_, self.options_, {}, self.report_));
        co_return Result<>{};
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
    connection::DirectOptions options_;
    std::unique_ptr<DirectPool> pool_;
    UpdateName name_{.slot = 1};
    Report report_;
};

class EngineAccess : public testing::Test {
  protected:
    EngineAccess() {
        Report report;
        auto made = OsReactor::create({.thread_name = "clients"}, report);
        EXPECT_TRUE(made && (*made)->start(report)) << report.text();
        reactor = std::move(*made);
    }
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
    EngineProcess engine;
    std::unique_ptr<OsReactor> reactor;
};

constexpr auto denied = [](const auto& result) {
    return !result && result.error().code == Code::denied;
};

TEST_F(EngineAccess, WhoHasNoEntryOpensNoSession) {
    start();
    Subject stranger(*reactor, engine, "stranger");
    EXPECT_TRUE(denied(stranger.open()));
    EXPECT_THAT(stranger.said(), HasSubstr("under 'access' in its settings"));
    EXPECT_THAT(engine.log(), HasSubstr("access: {\"CN=stranger\": {read: pool/CONTAINER}}"));
    EXPECT_EQ(engine.stop(), 0) << engine.log();
}

TEST_F(EngineAccess, EachUseOfAContainerNeedsItsRight) {
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

        // Her own containers are hers from the first byte to the last.
        EXPECT_TRUE(denied(owner.create("other")));
        const auto own = owner.create("own-1");
        ASSERT_TRUE(own);
        EXPECT_TRUE(owner.write(*own)) << owner.said();
        EXPECT_EQ(owner.read(*own), Result<uint64_t>(bytes));
        EXPECT_EQ(owner.labels(), std::vector<std::string>{"own-1"});

        // Nobody else's, although the numbers are known.
        EXPECT_TRUE(denied(owner.fetch(main)));
        EXPECT_TRUE(denied(owner.write(main)));
        EXPECT_TRUE(denied(owner.destroy(main)));
        EXPECT_TRUE(denied(reader.fetch(*own)));
        EXPECT_TRUE(denied(reader.destroy(*own)));
        EXPECT_TRUE(denied(reader.create("main-2")));
        // A container that does not exist is said to be so.
        EXPECT_EQ(reader.fetch({Uuid::make(reactor->secrets())}).error().code, Code::not_found);

        // A reader reads, and changes nothing.
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

TEST_F(EngineAccess, WhoMakesAContainerOwnsIt) {
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
        // Nobody creates in another's name.
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
    EXPECT_EQ(engine.stop(), 0) << engine.log();
}

Task<> make_tenant(control::ControlClient& client, config::Entries settings, Report& report) {
    (void)co_await client.change_tenant(call, "pool", tenancy::Change::create, "alice",
                                        std::move(settings), report);
}

TEST_F(EngineAccess, ATenantAtItsCapDoesNotHinderAnother) {
    engine.give("CN=alice", "create: pool/a-*");
    engine.give("CN=bob", "create: pool/b-*");
    start("administrators: CN=client\n");
    Report report;
    const auto admin = engine.options("shm").engine;
    auto control = control::ControlClient::create(
        *reactor,
        {.address = admin.control, .identity = admin.identity, .server_name = admin.server_name},
        report);
    ASSERT_TRUE(control) << report.text();
    run_blocking(*reactor, [&] {
        return make_tenant(**control, {{"subjects", "CN=alice"}, {"space", "16KiB"}}, report);
    });
    ASSERT_EQ(report.text(), "");
    {
        Subject alice(*reactor, engine, "alice"), bob(*reactor, engine, "bob");
        ASSERT_TRUE(alice.open() && bob.open());
        const auto first = alice.create("a-1"), second = alice.create("a-2");
        const auto of_bob = bob.create("b-1");
        ASSERT_TRUE(first && second && of_bob) << alice.said();
        // Her containers share the cap. Each has a block for a file, besides names and inodes.
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

// The DPU gives its host everything in the pool, and has less itself.
TEST_F(EngineAccess, ADpuReachesWhatTheEngineGivesIt) {
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
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    EXPECT_EQ(engine.stop(), 0) << engine.log();
}

}  // namespace
}  // namespace ros2s::tests
