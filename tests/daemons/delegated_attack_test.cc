// Attacks on the rights of a delegated DPU: by a compromised DPU, and by hosts. With a real
// ros2store-engine and ros2store-dpu.
#include "attacker.h"
#include "ros2s/pki/signature.h"
#include "ros2s/pki/watched_identity.h"

namespace ros2s::tests {
namespace {

INSTANTIATE_TEST_SUITE_P(Shm, DelegatedDpu, testing::Values("shm"));

TEST_P(DelegatedDpu, EngineRefusesDpuWithoutCapability) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    ASSERT_EQ(change(Change::create, "bob", {{"subjects", "CN=bob"}, {"read", "main"}}), "");
    Attacker attacker(*reactor, engine_as("client"));
    // Its own certificate gives no access.
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
    const capability::Use main = reading_main();
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

    // A capability for another DPU.
    const SigningKey other(SigningKey::make_seed(Secrets()));
    holder.links = alice.delegate(*root, other.shown());
    EXPECT_TRUE(denied(attacker.show(holder)));
    // The tenant's own capability, whose key its program has.
    holder.links = {*root};
    EXPECT_TRUE(denied(attacker.show(holder)));
    // More rights than the program has, with any signer.
    holder.links = alice.delegate(*root, attacker.key().shown(), [](capability::Capability& c) {
        c.use.rights = rights::every_right;
    });
    EXPECT_TRUE(denied(attacker.show(holder)));
    holder.links = alice.delegate(*root, attacker.key().shown(),
                                  [](capability::Capability& c) { c.use.container.text = "*"; });
    EXPECT_TRUE(denied(attacker.show(holder)));
    holder.links = alice.delegate(*root, attacker.key().shown(),
                                  [](capability::Capability& c) { c.tenant = "bob"; });
    EXPECT_TRUE(denied(attacker.show(holder)));
    holder.links = alice.delegate(*root, attacker.key().shown(),
                                  [](capability::Capability& c) { c.expires += 1h; });
    EXPECT_TRUE(denied(attacker.show(holder)));
    // An expired capability that is valid otherwise: its DPU is told to get another one.
    const auto audited = testing::ContainsRegex(
        "showed a capability of the pool 'pool': refused: it has expired [^\n]*"
        "action=capability [^\n]*decision=refused");
    holder.links = alice.delegate(*root, attacker.key().shown(), [](capability::Capability& c) {
        c.expires = c.not_before + std::chrono::milliseconds(1);
    });
    EXPECT_THAT(engine.log(), testing::Not(audited));
    EXPECT_EQ(attacker.show(holder).error().code, Code::stale);
    EXPECT_THAT(engine.log(), audited);
    // The same without a proof, and an unsigned one.
    holder.session_off = 1;
    EXPECT_TRUE(denied(attacker.show(holder)));
    holder.session_off = 0;
    const std::string before = engine.log();
    holder.links[1].back() = static_cast<char>(holder.links[1].back() ^ 1);
    EXPECT_TRUE(denied(attacker.show(holder)));
    EXPECT_THAT(engine.log().substr(before.size()), audited);
    // A third link, and fields that are too large.
    holder.links = alice.delegate(*root, attacker.key().shown());
    const Chain good = holder.links;
    holder.links.push_back(good[1]);
    EXPECT_FALSE(attacker.show(holder));
    holder.links = {good[0], std::string(1 << 16, 'x')};
    EXPECT_FALSE(attacker.show(holder));
    holder.links = {good[1]};
    EXPECT_TRUE(denied(attacker.show(holder)));

    // The DPU requests a capability for a tenant itself: with its own certificate, which another
    // authority signed; and with a changed request of alice's.
    Program self(*reactor, engine_as("client"));
    EXPECT_TRUE(denied(self.issue(pool, main)));
    const capability::CapabilityRequest requested{
        .use = main, .audience = pool, .holder = attacker.key().shown()};
    const pki::Pem files = pki::read_pem(pki::identity_in(dpu.places().host_certs, "alice"));
    const auto relay = [&](const std::string& wanted, const std::string& signature) {
        return on(*reactor, [&] {
            return attacker.engine().relay_capability_request(
                call, "pool",
                {.wanted = wanted, .certificates = files.certificate, .signature = signature},
                report);
        });
    };
    const capability::CapabilityRequest hers{
        .use = main, .audience = pool, .holder = alice.key.shown()};
    const auto signature =
        pki::sign(files.key, capability::request_message(capability::encode(hers), "pool"), report);
    ASSERT_TRUE(signature);
    EXPECT_TRUE(relay(capability::encode(hers), *signature));
    // A request for a pool with another name, but with the UUID of this pool.
    const auto elsewhere = pki::sign(
        files.key, capability::request_message(capability::encode(hers), "other"), report);
    ASSERT_TRUE(elsewhere);
    EXPECT_TRUE(denied(relay(capability::encode(hers), *elsewhere)));
    EXPECT_TRUE(denied(relay(capability::encode(requested), *signature)));
    EXPECT_FALSE(relay(std::string(1 << 12, 'x'), *signature));

    // A session without a capability gets no ticket.
    const control::SessionOptions none{.client = Uuid::make(reactor->secrets()),
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

    // Valid capabilities become invalid when the tenant is changed.
    holder.links = good;
    EXPECT_TRUE(attacker.show(holder)) << attacker.said();
    ASSERT_EQ(change(Change::set, "alice", {{"weight", "3"}}), "");
    EXPECT_EQ(attacker.show(holder).error().code, Code::stale);
    EXPECT_THAT(attacker.said(), HasSubstr("its tenant was changed since"));
}

// It can read `main` while it shows a valid capability, and nothing else.
TEST_P(DelegatedDpu, DpuReachesOnlyWhatItsCapabilityShows) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    ASSERT_TRUE(create("alice", "alice-1")) << said.text();
    Attacker attacker(*reactor, engine_as("client"));
    Report report;
    const auto listed =
        on(*reactor, [&] { return attacker.engine().list_tenants(call, "pool", 0, report); });
    ASSERT_TRUE(listed) << report.text();
    Program alice(*reactor, dpu_as("alice"));
    const auto root = alice.issue(listed->audience, reading_main());
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
    // From the time at which the revocation returns.
    ASSERT_EQ(change(Change::revoke, "alice", {}), "");
    EXPECT_FALSE(fetch(main));
    EXPECT_TRUE(on(*reactor, [&] { return (*pool)->close(); }));
}

// Two DPUs that ignore the limits of a tenant get no more than the tenant's limits. Other tenants
// do not wait.
TEST_P(DelegatedDpu, TenantRateHoldsOverAllDpus) {
    start();
    auto limited = alices;
    limited.insert({{"names", "100"}, {"burst", "10ms"}});
    ASSERT_EQ(change(Change::create, "alice", limited), "");
    ASSERT_EQ(change(Change::create, "bob", {{"subjects", "CN=bob"}, {"read", "main"}}), "");
    const Attacker one(*reactor, engine_as("client")), other(*reactor, engine_as("client"));
    Program alice(*reactor, dpu_as("alice")), bob(*reactor, dpu_as("bob"));
    Report report;
    const object::ContainerId main = record("main").id;
    struct Reading {
        explicit Reading(const Attacker& dpu) : holder(dpu.key()) {}
        Attacker::Holder holder;
        std::unique_ptr<connection::DirectPool> pool;
    };
    Reading first(one), second(other), bobs(one);
    const auto open = [&](Reading& reading, const Attacker& dpu, Program& program) {
        const auto root = program.issue(reading_main());
        ASSERT_TRUE(root) << program.report.text();
        reading.holder.links = program.delegate(*root, dpu.key().shown());
        auto pool = open_with(reading.holder, report);
        ASSERT_TRUE(pool) << report.text();
        reading.pool = std::move(*pool);
    };
    const auto close = [&](Reading& reading) {
        EXPECT_TRUE(on(*reactor, [&] { return reading.pool->close(); }));
        reading.pool.reset();
    };
    const auto read = [&](std::initializer_list<Reading*> in_turn) {
        for (int i = 0; i < 30; ++i) {
            for (Reading* each : in_turn) EXPECT_TRUE(fetch_from(each->pool->store(), main));
        }
    };
    const auto delayed = [&](const std::string& tenant) {
        const std::string name =
            fmt::format("ros2store_tenant_delayed_total{{tenant=\"{}\"}} ", tenant);
        const std::string seen = engine.metrics();
        const size_t at = seen.find(name);
        EXPECT_NE(at, std::string::npos) << seen;
        return at == std::string::npos ? 0 : std::stoull(seen.substr(at + name.size()));
    };
    ASSERT_NO_FATAL_FAILURE(open(first, one, alice));
    ASSERT_NO_FATAL_FAILURE(open(second, other, alice));
    ASSERT_NO_FATAL_FAILURE(open(bobs, one, bob));
    // 100 fetches without data at 60 per second. The burst is one.
    const auto begun = std::chrono::steady_clock::now();
    read({&first, &second});
    EXPECT_GE(std::chrono::steady_clock::now() - begun, 550ms);
    EXPECT_GT(delayed("alice"), 0U);
    read({&bobs});
    EXPECT_EQ(delayed("bob"), 0U);

    ASSERT_EQ(change(Change::set, "alice", {{"names", "none"}, {"burst", "none"}}), "");
    close(first);
    ASSERT_NO_FATAL_FAILURE(open(first, one, alice));
    const auto before = delayed("alice");
    read({&first});
    EXPECT_EQ(delayed("alice"), before);
    for (Reading* each : {&first, &second, &bobs}) close(*each);
}

// A program of a tenant that is a direct client of the engine.
TEST_P(DelegatedDpu, DirectClientShowsItsOwnCapability) {
    for (const char* name : {"carol", "dave"}) issue(engine.places().storage_certs, name);
    start("5min", engine.places().storage_certs);
    ASSERT_EQ(change(Change::create, "carol", {{"subjects", "CN=carol"}, {"read", "main"}}), "");
    ASSERT_EQ(change(Change::create, "dave", {{"subjects", "CN=dave"}, {"read", "main/directory"}}),
              "");
    Report report;
    Program carol(*reactor, engine_as("carol")), dave(*reactor, engine_as("dave"));
    const capability::Use main = reading_main();
    const auto hers = carol.issue(main), his = dave.issue(main);
    ASSERT_TRUE(hers && his) << carol.report.text() << dave.report.text();
    EXPECT_FALSE(capability::decode(*hers)->use.directories);
    EXPECT_TRUE(capability::decode(*his)->use.directories);

    Attacker as_carol(*reactor, engine_as("carol")), as_dave(*reactor, engine_as("dave"));
    Attacker::Holder holder(carol.key), other(dave.key);
    holder.links = {*hers};
    EXPECT_TRUE(as_carol.show(holder)) << as_carol.said();
    // In the name of another tenant: with a stolen key, and with its own key.
    EXPECT_TRUE(denied(as_dave.show(holder)));
    EXPECT_THAT(as_dave.said(), HasSubstr("another tenant's"));
    other.links = {*hers};
    EXPECT_TRUE(denied(as_dave.show(other)));
    // An engine cannot restrict a client to a directory.
    other.links = {*his};
    EXPECT_TRUE(denied(as_dave.show(other)));
    EXPECT_THAT(as_dave.said(), HasSubstr("cannot check directories"));
    // A direct client is not a DPU.
    holder.links = carol.delegate(*hers, carol.key.shown());
    EXPECT_TRUE(denied(as_carol.show(holder)));
    EXPECT_THAT(as_carol.said(), HasSubstr("it is for a DPU"));
    // A client that is neither a DPU nor a tenant's cannot show a capability.
    Attacker as_admin(*reactor, engine_as("admin"));
    EXPECT_TRUE(denied(as_admin.show(holder)));
}

TEST_P(DelegatedDpu, DpuRefusesFalseCapabilitiesOfHosts) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    ASSERT_EQ(change(Change::create, "bob", {{"subjects", "CN=bob"}, {"read", "main"}}), "");
    Report report;
    Program alice(*reactor, dpu_as("alice")), bob(*reactor, dpu_as("bob"));
    const auto described =
        on(*reactor, [&] { return bob.control->describe_capabilities(call, "pool", report); });
    ASSERT_TRUE(described && described->delegate) << report.text();
    const capability::Use main = reading_main();
    const auto root = alice.issue(described->audience, main);
    ASSERT_TRUE(root) << alice.report.text();
    // More rights than the tenant has, and rights of other tenants.
    EXPECT_TRUE(denied(bob.issue(
        described->audience,
        {.rights = rights::Right::destroy, .directories = false, .container = {"main"}})));
    EXPECT_TRUE(denied(bob.issue(
        described->audience,
        {.rights = rights::Right::read, .directories = false, .container = {"alice-1"}})));
    EXPECT_TRUE(denied(bob.issue(Uuid::make(reactor->secrets()), main)));

    const auto hand_over = [&](Program& by, const Chain& chain) {
        return on(*reactor, [&] { return by.control->hand_over(call, "pool", chain, report); });
    };
    // For the key of another DPU; only the tenant's link; a forged one.
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
}

}  // namespace
}  // namespace ros2s::tests
