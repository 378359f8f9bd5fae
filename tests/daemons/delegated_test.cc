// A DPU that has only what tenants hand to it, with a real ros2store-engine and ros2store-dpu.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "client.h"
#include "dpu_process.h"
#include "ros2s/control/control_client.h"
#include "ros2s/control/session_tickets.h"
#include "ros2s/pki/signature.h"
#include "ros2s/pki/watched_identity.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::tests {
namespace {

using namespace std::chrono_literals;
using capability::Chain;
using capability::SigningKey;
using control::ControlClient;
using std::chrono::steady_clock;
using tenancy::Change;
using testing::HasSubstr;

const Call call;
constexpr size_t bytes = 4096;

// `run_blocking` for a coroutine of a test.
template <class Test>
auto on(OsReactor& reactor, Test test) {
    return run_blocking(reactor, test);
}

class Delegated : public testing::TestWithParam<const char*> {
  protected:
    Delegated() {
        Report report;
        auto made = OsReactor::create({.thread_name = "hosts"}, report);
        EXPECT_TRUE(made && (*made)->start(report)) << report.text();
        reactor = std::move(*made);
        for (const char* name : {"alice", "bob", "eve"}) issue(dpu.places().host_certs, name);
        issue(engine.places().storage_certs, "admin");
    }
    static void issue(const std::string& authority, const std::string& name) {
        std::string said;
        EXPECT_EQ(run_program(fmt::format("'{}' certs issue --replace '{}' {}", PROGRAM_CLI,
                                          authority, name),
                              said),
                  0)
            << said;
    }
    // The DPU's certificate, CN=client, has no entry under `access`.
    void start(std::string_view life = "5min", const std::string& authority = {}) {
        engine.take_all_from_the_client();
        engine.give("CN=admin", "write: pool/*, create: pool/*, destroy: pool/*");
        engine.write_settings(
            fmt::format("administrators: CN=admin\n"
                        "capabilities: {{delegates: CN=client, authority: "
                        "{}/ca.crt, life: {}}}\n",
                        authority.empty() ? dpu.places().host_certs : authority, life));
        dpu.use_delegated();
        if (dpu_listens_on_tls()) dpu.listen_on_tls();
        ASSERT_TRUE(engine.start()) << engine.log();
        ASSERT_TRUE(dpu.start()) << dpu.log();
    }
    [[nodiscard]] static bool dpu_listens_on_tls() { return std::string_view(GetParam()) == "tls"; }
    void stop() {
        EXPECT_EQ(dpu.stop(), 0) << dpu.log();
        EXPECT_EQ(engine.stop(), 0) << engine.log();
    }

    // The engine's control plane, as that subject of its authority.
    std::unique_ptr<ControlClient> engine_as(const std::string& name) {
        Report report;
        const auto access = engine.options("shm").engine;
        auto client = ControlClient::create(
            *reactor,
            {.address = access.control,
             .identity = pki::identity_in(engine.places().storage_certs, name),
             .server_name = access.server_name},
            report);
        EXPECT_TRUE(client) << report.text();
        return std::move(*client);
    }
    std::unique_ptr<ControlClient> dpu_as(const std::string& name) {
        Report report;
        const auto access = dpu.options().dpu;
        auto client =
            ControlClient::create(*reactor,
                                  {.address = access.control,
                                   .identity = pki::identity_in(dpu.places().host_certs, name),
                                   .server_name = access.server_name},
                                  report);
        EXPECT_TRUE(client) << report.text();
        return std::move(*client);
    }
    std::string change(Change what, const std::string& name, config::Entries settings) {
        const auto admin = engine_as("admin");
        Report report;
        (void)on(*reactor, [&] {
            return admin->change_tenant(call, "pool", what, name, std::move(settings), report);
        });
        return report.text();
    }
    connection::HostOptions host(const std::string& name, const std::string& container) {
        auto options = dpu.options("pool", container);
        options.dpu.identity = pki::identity_in(dpu.places().host_certs, name);
        return options;
    }
    Result<> create(const std::string& name, const std::string& label) {
        const auto client = dpu_as(name);
        said = {};
        const auto made = on(*reactor, [&] {
            return client->create_container(call, "pool", {.label = label}, {}, said);
        });
        if (!made) return fail(made.error());
        return {};
    }
    object::ContainerRecord record(const std::string& label) {
        const auto admin = engine_as("admin");
        Report report;
        const auto found =
            on(*reactor, [&] { return admin->query_container(call, "pool", label, report); });
        EXPECT_TRUE(found) << report.text();
        return found ? *found : object::ContainerRecord{};
    }
    template <class Condition>
    static bool within_a_second(Condition condition) {
        const auto begun = steady_clock::now();
        do {
            if (condition()) return true;
            std::this_thread::sleep_for(5ms);
        } while (steady_clock::now() - begun < 1s);
        return false;
    }
    static Task<Result<>> write_here(fs::FileSystem& files, std::string name, char with) {
        ROS2S_CO_TRY_ASSIGN(const auto opened, co_await files.create(call, fs::root_node, name,
                                                                     0644, {.write = true}, {}));
        const std::vector<std::byte> data(bytes, std::byte(with));
        const auto written =
            co_await files.pwrite(call, opened.handle, fs::Window::local(ConstBytes(data)), 0);
        (void)co_await files.close(call, opened.handle);
        if (!written) co_return fail(written.error());
        co_return Result<>{};
    }
    static Task<Result<char>> read_here(fs::FileSystem& files, std::string name) {
        ROS2S_CO_TRY_ASSIGN(const auto found, co_await files.lookup(call, fs::root_node, name));
        ROS2S_CO_TRY_ASSIGN(const auto opened,
                            co_await files.open(call, found.node, {.read = true}));
        std::vector<std::byte> into(bytes);
        const auto read =
            co_await files.pread(call, opened.handle, fs::Window::local(Bytes(into)), 0);
        (void)co_await files.close(call, opened.handle);
        if (!read) co_return fail(read.error());
        co_return static_cast<char>(into[bytes - 1]);
    }
    // The engine's pool, as a DPU that shows this chain.
    Result<std::unique_ptr<connection::DirectPool>> open_with(control::CapabilityHolder& holder,
                                                              Report& report) {
        auto options = engine.options("shm");
        options.holder = &holder;
        return on(*reactor,
                  [&] { return connection::DirectPool::open(*reactor, options, {}, report); });
    }
    Result<> fetch_from(object::ObjectStore& store, object::ContainerId container) {
        std::vector<std::byte> into(bytes);
        object::FetchItem item{.extent = {.offset = 0, .length = bytes},
                               .window = fs::Window::local(Bytes(into))};
        return on(*reactor, [&] { return store.fetch(call, container, {&item, 1}); });
    }
    Result<> write(Client& client, const std::string& name, char with) {
        return on(*reactor, [&] { return write_here(client.files(), name, with); });
    }
    Result<char> read(Client& client, const std::string& name) {
        return on(*reactor, [&] { return read_here(client.files(), name); });
    }

    EngineProcess engine;
    DpuProcess dpu{engine, GetParam()};
    std::unique_ptr<OsReactor> reactor;
    Report said;
};

const config::Entries alices{{"subjects", "CN=alice"},
                             {"write", "main, alice-*"},
                             {"create", "alice-*"},
                             {"destroy", "alice-*"},
                             {"root_squash", "no"}};

// Over both data planes: shared memory, and TLS between host and DPU and between DPU and engine.
TEST_P(Delegated, HostsWorkWithWhatTheirTenantHas) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    ASSERT_EQ(change(Change::create, "bob", {{"subjects", "CN=bob"}, {"read", "main"}}), "");
    Client alice, bob, eve;
    Report report;
    ASSERT_TRUE(alice.open(*reactor, host("alice", "main"), report)) << report.text() << dpu.log();
    EXPECT_TRUE(write(alice, "one", 'a'));
    ASSERT_TRUE(bob.open(*reactor, host("bob", "main"), report)) << report.text();
    EXPECT_EQ(read(bob, "one"), Result<char>('a'));
    EXPECT_EQ(write(bob, "two", 'b').error().code, Code::read_only);
    // Two tenants, each with a session of its own at the engine.
    EXPECT_TRUE(write(alice, "three", 'c'));
    EXPECT_EQ(read(bob, "three"), Result<char>('c'));
    EXPECT_FALSE(eve.open(*reactor, host("eve", "main"), report));

    // What hosts make is their tenant's.
    ASSERT_TRUE(create("alice", "alice-1")) << said.text() << engine.log();
    EXPECT_EQ(record("alice-1").properties.owner, "alice");
    EXPECT_EQ(create("bob", "bob-1").error().code, Code::denied);
    Client own;
    ASSERT_TRUE(own.open(*reactor, host("alice", "alice-1"), report)) << report.text();
    EXPECT_TRUE(write(own, "file", 'd'));
    EXPECT_FALSE(eve.open(*reactor, host("bob", "alice-1"), report));
    for (Client* each : {&alice, &bob, &own}) each->close(*reactor);
    const auto control = dpu_as("alice");
    const auto listed = on(*reactor, [&] { return control->list_containers(call, "pool", said); });
    ASSERT_TRUE(listed) << said.text();
    EXPECT_EQ(listed->size(), 2U);
    EXPECT_TRUE(on(*reactor, [&] {
        return control->destroy_container(call, "pool", "alice-1", said);
    })) << said.text();
    EXPECT_THAT(engine.log(), HasSubstr("is for the tenant 'alice': read, write main"));
    stop();
}
INSTANTIATE_TEST_SUITE_P(Planes, Delegated, testing::Values("shm", "tls"));

class DelegatedDpu : public Delegated {};
INSTANTIATE_TEST_SUITE_P(Shm, DelegatedDpu, testing::Values("shm"));

TEST_P(DelegatedDpu, ACapOfTheTenantBindsItsHosts) {
    start();
    auto capped = alices;
    capped.emplace("space", "64KiB");
    ASSERT_EQ(change(Change::create, "alice", capped), "");
    ASSERT_TRUE(create("alice", "alice-1")) << said.text();
    Client alice;
    Report report;
    ASSERT_TRUE(alice.open(*reactor, host("alice", "alice-1"), report)) << report.text();
    Result<> written;
    for (int i = 0; i < 64 && written; ++i) written = write(alice, fmt::format("f{}", i), 'x');
    ASSERT_FALSE(written);
    EXPECT_EQ(to_errno(written.error()), EDQUOT);
    alice.close(*reactor);
    stop();
}

TEST_P(DelegatedDpu, ARevocationEndsItWithinASecond) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    ASSERT_EQ(change(Change::create, "bob", {{"subjects", "CN=bob"}, {"read", "main"}}), "");
    Client alice, bob;
    Report report;
    ASSERT_TRUE(alice.open(*reactor, host("alice", "main"), report)) << report.text();
    ASSERT_TRUE(bob.open(*reactor, host("bob", "main"), report)) << report.text();
    ASSERT_TRUE(write(alice, "one", 'a'));
    // Changes that take nothing away: her program gets another capability each time and goes on.
    for (int i = 0; i < 5; ++i) {
        ASSERT_EQ(change(Change::set, "alice", {{"weight", fmt::format("{}", i + 2)}}), "");
        EXPECT_TRUE(write(alice, fmt::format("two-{}", i), 'b')) << dpu.log() << engine.log();
    }
    EXPECT_EQ(read(alice, "one"), Result<char>('a'));

    ASSERT_EQ(change(Change::revoke, "alice", {}), "");
    // The engine refuses from here on, whatever the DPU does.
    EXPECT_TRUE(within_a_second([&] {
        return engine.log().find("its capability: its tenant was revoked") != std::string::npos;
    })) << engine.log();
    // Her library may wait 30 s for a session that it does not get.
    EXPECT_FALSE(write(alice, "three", 'c'));
    EXPECT_EQ(read(bob, "one"), Result<char>('a'));
    alice.close(*reactor);
    bob.close(*reactor);
    stop();
}

TEST_P(DelegatedDpu, ProgramsRenewInTime) {
    start("2s");
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    Client alice;
    Report report;
    ASSERT_TRUE(alice.open(*reactor, host("alice", "main"), report)) << report.text();
    const auto admin = engine_as("admin");
    for (int i = 0; i < 6; ++i) {
        EXPECT_TRUE(write(alice, fmt::format("file-{}", i), 'a')) << dpu.log() << engine.log();
        // Another key of the engine changes nothing for those who use it.
        if (i == 2) {
            EXPECT_TRUE(on(*reactor, [&] {
                return admin->rotate_capability_key(call, "pool", report);
            })) << report.text();
        }
        std::this_thread::sleep_for(1s);
    }
    EXPECT_THAT(engine.log(), testing::Not(HasSubstr("its capability expired")));
    alice.close(*reactor);
    stop();
}

TEST_P(DelegatedDpu, RestartsOnEitherSideAreSurvived) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    Client alice;
    Report report;
    ASSERT_TRUE(alice.open(*reactor, host("alice", "main"), report)) << report.text();
    ASSERT_TRUE(write(alice, "one", 'a'));
    dpu.kill_hard();  // its key is gone
    ASSERT_TRUE(dpu.start()) << dpu.log();
    EXPECT_TRUE(write(alice, "two", 'b')) << dpu.log() << engine.log();
    engine.kill_hard();
    ASSERT_TRUE(engine.start()) << engine.log();
    EXPECT_TRUE(write(alice, "three", 'c')) << dpu.log() << engine.log();
    EXPECT_EQ(read(alice, "one"), Result<char>('a'));
    alice.close(*reactor);
    stop();
}

// ---- attacks ------------------------------------------------------------------------------------

// A DPU that is taken over: it has the DPU's certificate, and whatever tenants handed to it.
class Attacker {
  public:
    Attacker(OsReactor& reactor, std::unique_ptr<ControlClient> engine)
        : reactor_(reactor), engine_(std::move(engine)), key_(SigningKey::make_seed(Secrets())) {}
    class Holder final : public control::CapabilityHolder {
      public:
        explicit Holder(const SigningKey& key) : key_(key) {}
        [[nodiscard]] Chain chain() const override { return links; }
        [[nodiscard]] std::string prove(const Chain& chain, std::string_view nonce,
                                        session::SessionId session,
                                        std::string_view provider) const override {
            if (!replayed.empty()) return replayed;
            last = key_.sign(capability::proof_message(
                nonce_of ? *nonce_of : nonce, session.value + session_off, provider, chain));
            return last;
        }
        Chain links;
        std::string replayed;
        std::optional<std::string> nonce_of;
        uint64_t session_off = 0;
        mutable std::string last;

      private:
        const SigningKey& key_;
    };
    [[nodiscard]] const SigningKey& key() const { return key_; }
    // What the engine answers to a session that shows it.
    Result<> show(const Holder& holder) {
        report_ = {};
        const control::SessionWish wish{.client = Uuid::make(reactor_.secrets()),
                                        .purpose = session::Purpose::store,
                                        .pool = "pool",
                                        .program = "attack",
                                        .providers = {"shm"},
                                        .holder = &holder};
        return on(reactor_, [&] { return show_here(*this, wish); });
    }
    [[nodiscard]] std::string said() const { return report_.text(); }
    [[nodiscard]] ControlClient& engine() { return *engine_; }

  private:
    static Task<Result<>> show_here(Attacker& self, control::SessionWish wish) {
        control::SessionTickets tickets(self.reactor_, *self.engine_, std::move(wish));
        const auto opened = co_await tickets.open(self.report_);
        if (!opened) co_return fail(opened.error());
        // Without a capability there is no ticket; with one there are more.
        const auto more = co_await self.engine_->issue_ticket(call, opened->id, self.report_);
        co_await tickets.close();
        if (!more) co_return fail(more.error());
        co_return Result<>{};
    }
    OsReactor& reactor_;
    std::unique_ptr<ControlClient> engine_;
    SigningKey key_;
    Report report_;
};

// A program of a tenant that signs what it wants.
struct Program {
    Program(OsReactor& on_reactor, std::unique_ptr<ControlClient> dpu)
        : reactor(on_reactor), control(std::move(dpu)), key(SigningKey::make_seed(Secrets())) {}
    Result<std::string> issue(Uuid audience, capability::Use use) {
        report = {};
        return on(reactor, [&] {
            return control->issue_capability(
                call, "pool", {.use = use, .audience = audience, .holder = key.shown()}, report);
        });
    }
    // The second link, for this holder, after `change`.
    template <class Change>
    Chain delegate(const std::string& root, const capability::PublicKey& holder, Change change) {
        auto second = *capability::decode(root);
        second.depth = 2;
        second.issuer = key.shown();
        second.holder = holder;
        second.parent = capability::hash_of(root);
        change(second);
        return {root, capability::sign(second, key)};
    }
    Chain delegate(const std::string& root, const capability::PublicKey& holder) {
        return delegate(root, holder, [](capability::Capability&) {});
    }
    OsReactor& reactor;
    std::unique_ptr<ControlClient> control;
    SigningKey key;
    Report report;
};

constexpr auto denied = [](const auto& result) {
    return !result && result.error().code == Code::denied;
};

TEST_P(DelegatedDpu, AnEngineBelievesNoDpu) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    ASSERT_EQ(change(Change::create, "bob", {{"subjects", "CN=bob"}, {"read", "main"}}), "");
    Attacker attacker(*reactor, engine_as("client"));
    // Its own certificate opens nothing.
    Report report;
    auto plain = on(*reactor, [&] {
        return connection::DirectPool::open(*reactor, engine.options("shm"), {}, report);
    });
    EXPECT_TRUE(denied(plain));

    const auto listed =
        on(*reactor, [&] { return attacker.engine().list_tenants(call, "pool", 0, report); });
    ASSERT_TRUE(listed) << report.text();
    const Uuid pool = listed->audience;
    Program alice(*reactor, dpu_as("alice"));
    const capability::Use main{
        .rights = capability::right_read, .directories = false, .container = "main"};
    const auto root = alice.issue(pool, main);
    ASSERT_TRUE(root) << alice.report.text();

    Attacker::Holder holder(attacker.key());
    holder.links = alice.delegate(*root, attacker.key().shown());
    EXPECT_TRUE(attacker.show(holder)) << attacker.said();
    // The proof of an earlier session, of another session, or for another nonce.
    holder.replayed = holder.last;
    EXPECT_TRUE(denied(attacker.show(holder)));
    EXPECT_THAT(attacker.said(), HasSubstr("did not sign for this session"));
    holder.replayed.clear();
    holder.session_off = 1;
    EXPECT_TRUE(denied(attacker.show(holder)));
    holder.session_off = 0;
    holder.nonce_of = std::string(capability::nonce_bytes, '\0');
    EXPECT_TRUE(denied(attacker.show(holder)));
    holder.nonce_of.reset();
    holder.replayed = "short";
    EXPECT_FALSE(attacker.show(holder));
    holder.replayed.clear();

    // A capability that another DPU got.
    const SigningKey other(SigningKey::make_seed(Secrets()));
    holder.links = alice.delegate(*root, other.shown());
    EXPECT_TRUE(denied(attacker.show(holder)));
    // The tenant's own, which its program holds.
    holder.links = {*root};
    EXPECT_TRUE(denied(attacker.show(holder)));
    // More than the program has, whoever signs it.
    holder.links = alice.delegate(*root, attacker.key().shown(), [](capability::Capability& c) {
        c.use.rights = capability::rights_all;
    });
    EXPECT_TRUE(denied(attacker.show(holder)));
    holder.links = alice.delegate(*root, attacker.key().shown(),
                                  [](capability::Capability& c) { c.use.container = "*"; });
    EXPECT_TRUE(denied(attacker.show(holder)));
    holder.links = alice.delegate(*root, attacker.key().shown(),
                                  [](capability::Capability& c) { c.tenant = "bob"; });
    EXPECT_TRUE(denied(attacker.show(holder)));
    holder.links = alice.delegate(*root, attacker.key().shown(),
                                  [](capability::Capability& c) { c.expires += 1h; });
    EXPECT_TRUE(denied(attacker.show(holder)));
    // A third link, and fields that are too large.
    holder.links = alice.delegate(*root, attacker.key().shown());
    const Chain good = holder.links;
    holder.links.push_back(good[1]);
    EXPECT_FALSE(attacker.show(holder));
    holder.links = {good[0], std::string(1 << 16, 'x')};
    EXPECT_FALSE(attacker.show(holder));
    holder.links = {good[1]};
    EXPECT_TRUE(denied(attacker.show(holder)));

    // It asks for a tenant itself: with its own certificate, which is of another authority; and
    // with a wish of alice's that it changed.
    Program self(*reactor, engine_as("client"));
    EXPECT_TRUE(denied(self.issue(pool, main)));
    const capability::Wish wished{.use = main, .audience = pool, .holder = attacker.key().shown()};
    const pki::Pem files = pki::read_pem(pki::identity_in(dpu.places().host_certs, "alice"));
    const auto relay = [&](const std::string& wish, const std::string& signature) {
        return on(*reactor, [&] {
            return attacker.engine().relay_wish(
                call, "pool",
                {.wish = wish, .certificates = files.certificate, .signature = signature}, report);
        });
    };
    const capability::Wish hers{.use = main, .audience = pool, .holder = alice.key.shown()};
    const auto signature =
        pki::sign(files.key, capability::wish_message(capability::encode(hers), "pool"), report);
    ASSERT_TRUE(signature);
    EXPECT_TRUE(relay(capability::encode(hers), *signature));
    // A wish for a pool of another name, whose UUID the DPU gave as that of this pool.
    const auto elsewhere =
        pki::sign(files.key, capability::wish_message(capability::encode(hers), "other"), report);
    ASSERT_TRUE(elsewhere);
    EXPECT_TRUE(denied(relay(capability::encode(hers), *elsewhere)));
    EXPECT_TRUE(denied(relay(capability::encode(wished), *signature)));
    EXPECT_FALSE(relay(std::string(1 << 12, 'x'), *signature));

    // A session that shows nothing gets no ticket.
    const control::SessionWish none{.client = Uuid::make(reactor->secrets()),
                                    .purpose = session::Purpose::store,
                                    .pool = "pool",
                                    .program = "attack",
                                    .providers = {"shm"},
                                    .holder = &holder};
    const auto opened =
        on(*reactor, [&] { return attacker.engine().open_session(call, none, report); });
    ASSERT_TRUE(opened) << report.text();
    EXPECT_TRUE(denied(
        on(*reactor, [&] { return attacker.engine().issue_ticket(call, opened->id, report); })));

    // What was good is worth nothing when the tenant has changed.
    holder.links = good;
    EXPECT_TRUE(attacker.show(holder)) << attacker.said();
    ASSERT_EQ(change(Change::set, "alice", {{"weight", "3"}}), "");
    EXPECT_EQ(attacker.show(holder).error().code, Code::stale);
    EXPECT_THAT(attacker.said(), HasSubstr("its tenant was changed since"));
    stop();
}

// It reads `main` as long as it shows that it may, and nothing else.
TEST_P(DelegatedDpu, ADpuReachesWhatItShows) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    ASSERT_TRUE(create("alice", "alice-1")) << said.text();
    Attacker attacker(*reactor, engine_as("client"));
    Report report;
    const auto listed =
        on(*reactor, [&] { return attacker.engine().list_tenants(call, "pool", 0, report); });
    ASSERT_TRUE(listed) << report.text();
    Program alice(*reactor, dpu_as("alice"));
    const auto root =
        alice.issue(listed->audience,
                    {.rights = capability::right_read, .directories = false, .container = "main"});
    ASSERT_TRUE(root) << alice.report.text();
    Attacker::Holder holder(attacker.key());
    holder.links = alice.delegate(*root, attacker.key().shown());
    auto pool = open_with(holder, report);
    ASSERT_TRUE(pool) << report.text();
    object::ObjectStore& store = (*pool)->store();
    const auto seen = on(*reactor, [&] { return store.list_containers(call); });
    ASSERT_TRUE(seen);
    ASSERT_EQ(seen->size(), 1U);
    const object::ContainerId main = seen->front().id, hers = record("alice-1").id;
    const auto fetch = [&](object::ContainerId container) { return fetch_from(store, container); };
    EXPECT_TRUE(fetch(main));
    EXPECT_TRUE(denied(fetch(hers)));
    EXPECT_TRUE(denied(on(*reactor, [&] { return store.destroy_container(call, main); })));
    // From the moment at which the revocation has returned.
    ASSERT_EQ(change(Change::revoke, "alice", {}), "");
    EXPECT_FALSE(fetch(main));
    EXPECT_TRUE(on(*reactor, [&] { return (*pool)->close(); }));
    stop();
}

// A capability that was issued because the tenant owned a container is for a label.
TEST_P(DelegatedDpu, ACapabilityOfAnOwnerEndsWithTheOwnership) {
    start();
    ASSERT_EQ(change(Change::create, "alice", {{"subjects", "CN=alice"}, {"create", "run-*"}}), "");
    ASSERT_EQ(change(Change::create, "bob", {{"subjects", "CN=bob"}, {"create", "run-*"}}), "");
    ASSERT_TRUE(create("alice", "run-7")) << said.text();
    Attacker attacker(*reactor, engine_as("client"));
    Program alice(*reactor, dpu_as("alice"));
    Report report;
    const auto known =
        on(*reactor, [&] { return alice.control->describe_capabilities(call, "pool", report); });
    ASSERT_TRUE(known) << report.text();
    const auto root =
        alice.issue(known->audience, {.rights = capability::right_write | capability::right_destroy,
                                      .directories = false,
                                      .container = "run-7"});
    ASSERT_TRUE(root) << alice.report.text();
    Attacker::Holder holder(attacker.key());
    holder.links = alice.delegate(*root, attacker.key().shown());
    auto pool = open_with(holder, report);
    ASSERT_TRUE(pool) << report.text();
    object::ObjectStore& store = (*pool)->store();
    const auto fetch = [&](object::ContainerId container) { return fetch_from(store, container); };
    const object::ContainerId run = record("run-7").id;
    EXPECT_TRUE(fetch(run));
    const auto admin = engine_as("admin");
    ASSERT_TRUE(on(*reactor, [&] {
        return admin->set_container(call, "pool", "run-7", {.owner = "bob"}, report);
    })) << report.text();
    EXPECT_TRUE(denied(fetch(run)));
    EXPECT_TRUE(denied(on(*reactor, [&] { return store.destroy_container(call, run); })));
    // Another container of that label.
    ASSERT_TRUE(on(*reactor, [&] {
        return admin->destroy_container(call, "pool", "run-7", report);
    })) << report.text();
    ASSERT_TRUE(create("bob", "run-7")) << said.text();
    const object::ContainerId bobs = record("run-7").id;
    EXPECT_TRUE(denied(fetch(bobs)));
    EXPECT_TRUE(denied(on(*reactor, [&] { return store.destroy_container(call, bobs); })));
    EXPECT_TRUE(on(*reactor, [&] { return (*pool)->close(); }));
    stop();
}

TEST_P(DelegatedDpu, WhatIsNotRenewedEnds) {
    start("2s");
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    Attacker attacker(*reactor, engine_as("client"));
    Program alice(*reactor, dpu_as("alice"));
    Report report;
    const auto known =
        on(*reactor, [&] { return alice.control->describe_capabilities(call, "pool", report); });
    ASSERT_TRUE(known) << report.text();
    const auto root =
        alice.issue(known->audience,
                    {.rights = capability::right_read, .directories = false, .container = "main"});
    ASSERT_TRUE(root) << alice.report.text();
    Attacker::Holder holder(attacker.key());
    holder.links = alice.delegate(*root, attacker.key().shown());
    auto pool = open_with(holder, report);
    ASSERT_TRUE(pool) << report.text();
    const auto lists = [&] {
        return on(*reactor, [&] { return (*pool)->store().list_containers(call); });
    };
    EXPECT_TRUE(lists());
    std::this_thread::sleep_for(4500ms);
    EXPECT_TRUE(denied(lists()));
    EXPECT_THAT(engine.log(), HasSubstr("its capability expired"));
    EXPECT_TRUE(on(*reactor, [&] { return (*pool)->close(); }));
    stop();
}

// A tenant's program that is a client of the engine itself, without a DPU.
TEST_P(DelegatedDpu, ADirectClientShowsItsOwn) {
    for (const char* name : {"carol", "dave"}) issue(engine.places().storage_certs, name);
    start("5min", engine.places().storage_certs);
    ASSERT_EQ(change(Change::create, "carol", {{"subjects", "CN=carol"}, {"read", "main"}}), "");
    ASSERT_EQ(change(Change::create, "dave", {{"subjects", "CN=dave"}, {"read", "main/directory"}}),
              "");
    Report report;
    Program carol(*reactor, engine_as("carol")), dave(*reactor, engine_as("dave"));
    const auto known =
        on(*reactor, [&] { return carol.control->describe_capabilities(call, "pool", report); });
    ASSERT_TRUE(known) << report.text();
    const capability::Use main{
        .rights = capability::right_read, .directories = false, .container = "main"};
    const auto hers = carol.issue(known->audience, main), his = dave.issue(known->audience, main);
    ASSERT_TRUE(hers && his) << carol.report.text() << dave.report.text();
    EXPECT_FALSE(capability::decode(*hers)->use.directories);
    EXPECT_TRUE(capability::decode(*his)->use.directories);

    Attacker as_carol(*reactor, engine_as("carol")), as_dave(*reactor, engine_as("dave"));
    Attacker::Holder holder(carol.key), other(dave.key);
    holder.links = {*hers};
    EXPECT_TRUE(as_carol.show(holder)) << as_carol.said();
    // In the name of another tenant, with a stolen key; with one's own key.
    EXPECT_TRUE(denied(as_dave.show(holder)));
    EXPECT_THAT(as_dave.said(), HasSubstr("another tenant's"));
    other.links = {*hers};
    EXPECT_TRUE(denied(as_dave.show(other)));
    // An engine cannot keep a client in a directory.
    other.links = {*his};
    EXPECT_TRUE(denied(as_dave.show(other)));
    EXPECT_THAT(as_dave.said(), HasSubstr("cannot check directories"));
    // A direct client is no DPU.
    holder.links = carol.delegate(*hers, carol.key.shown());
    EXPECT_TRUE(denied(as_carol.show(holder)));
    EXPECT_THAT(as_carol.said(), HasSubstr("it is for a DPU"));
    // Who is neither a DPU nor of a tenant shows nothing.
    Attacker as_admin(*reactor, engine_as("admin"));
    EXPECT_TRUE(denied(as_admin.show(holder)));
    stop();
}

Task<Result<>> make_directory(fs::FileSystem& files) {
    ROS2S_CO_TRY(co_await files.mkdir(call, fs::root_node, "home", 0777, {}));
    co_return Result<>{};
}
Task<Result<>> write_in_directory(fs::FileSystem& files) {
    ROS2S_CO_TRY_ASSIGN(const auto home, co_await files.lookup(call, fs::root_node, "home"));
    ROS2S_CO_TRY_ASSIGN(const auto opened,
                        co_await files.create(call, home.node, "x", 0644, {.write = true}, {}));
    co_return co_await files.close(call, opened.handle);
}

TEST_P(DelegatedDpu, RightsOnDirectoriesPassThrough) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    ASSERT_EQ(change(Change::create, "bob",
                     {{"subjects", "CN=bob"}, {"write", "main/home"}, {"root_squash", "no"}}),
              "");
    Client alice, bob;
    Report report;
    ASSERT_TRUE(alice.open(*reactor, host("alice", "main"), report)) << report.text();
    ASSERT_TRUE(on(*reactor, [&] { return make_directory(alice.files()); }));
    ASSERT_TRUE(write(alice, "outside", 'o'));
    ASSERT_TRUE(bob.open(*reactor, host("bob", "main"), report)) << report.text();
    EXPECT_TRUE(on(*reactor, [&] { return write_in_directory(bob.files()); })) << dpu.log();
    EXPECT_EQ(read(bob, "outside").error().code, Code::not_found);
    EXPECT_FALSE(write(bob, "new", 'n'));
    EXPECT_THAT(engine.log(), HasSubstr("for the tenant 'bob': read, write directories of main"));
    alice.close(*reactor);
    bob.close(*reactor);
    stop();
}

TEST_P(DelegatedDpu, ADpuBelievesNoHost) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    ASSERT_EQ(change(Change::create, "bob", {{"subjects", "CN=bob"}, {"read", "main"}}), "");
    Report report;
    Program alice(*reactor, dpu_as("alice")), bob(*reactor, dpu_as("bob"));
    const auto described =
        on(*reactor, [&] { return bob.control->describe_capabilities(call, "pool", report); });
    ASSERT_TRUE(described && described->delegate) << report.text();
    const capability::Use main{
        .rights = capability::right_read, .directories = false, .container = "main"};
    const auto root = alice.issue(described->audience, main);
    ASSERT_TRUE(root) << alice.report.text();
    // More than the tenant has, and what others have.
    EXPECT_TRUE(denied(bob.issue(
        described->audience,
        {.rights = capability::right_destroy, .directories = false, .container = "main"})));
    EXPECT_TRUE(denied(bob.issue(
        described->audience,
        {.rights = capability::right_read, .directories = false, .container = "alice-1"})));
    EXPECT_TRUE(denied(bob.issue(Uuid::make(reactor->secrets()), main)));

    const auto hand_over = [&](Program& by, const Chain& chain) {
        return on(*reactor, [&] { return by.control->hand_over(call, "pool", chain, report); });
    };
    // For another key than this DPU's; the tenant's alone; a forged one.
    EXPECT_TRUE(denied(hand_over(alice, alice.delegate(*root, bob.key.shown()))));
    EXPECT_TRUE(denied(hand_over(alice, {*root})));
    EXPECT_FALSE(hand_over(alice, {*root, *root, *root}));
    EXPECT_FALSE(hand_over(alice, {std::string(1 << 16, 'x')}));
    const Chain good = alice.delegate(*root, *described->delegate);
    Chain forged = good;
    forged[1].back() = static_cast<char>(forged[1].back() ^ 1);
    EXPECT_TRUE(denied(hand_over(alice, forged)));
    // Hers in bob's name.
    EXPECT_TRUE(denied(hand_over(bob, good)));
    EXPECT_THAT(report.text(), HasSubstr("another tenant's"));
    EXPECT_TRUE(hand_over(alice, good)) << report.text();
    EXPECT_THAT(dpu.log(), HasSubstr("CN=bob handed over a capability of the pool 'pool'"));
    stop();
}

}  // namespace
}  // namespace ros2s::tests
