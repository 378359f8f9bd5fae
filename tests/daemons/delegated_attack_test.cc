// Attacks on the rights of a delegated DPU: by a compromised DPU, and by hosts. With a real
// ros2store-engine and ros2store-dpu.
#include <algorithm>

#include "delegated.h"
#include "eventually.h"
#include "ros2s/control/session_tickets.h"
#include "ros2s/pki/signature.h"
#include "ros2s/pki/watched_identity.h"

namespace ros2s::tests {
namespace {

using capability::Chain;
using capability::SigningKey;

INSTANTIATE_TEST_SUITE_P(Shm, DelegatedDpu, testing::Values("shm"));

// A compromised DPU. It has the DPU's certificate and all capabilities that tenants handed over.
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
    // The engine's answer to a session that shows the chain.
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
        const auto opened = co_await tickets.open({}, self.report_);
        if (!opened) co_return fail(opened.error());
        // Without a capability there is no ticket; with one, further tickets can be issued.
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

// A program of a tenant that signs any capability.
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

// The request of a program that only reads `main`.
capability::Use reading_main() {
    return {.rights = capability::right_read, .directories = false, .container = "main"};
}

TEST_P(DelegatedDpu, AnEngineBelievesNoDpu) {
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
    // A request for a pool with another name, but with the UUID of this pool.
    const auto elsewhere =
        pki::sign(files.key, capability::wish_message(capability::encode(hers), "other"), report);
    ASSERT_TRUE(elsewhere);
    EXPECT_TRUE(denied(relay(capability::encode(hers), *elsewhere)));
    EXPECT_TRUE(denied(relay(capability::encode(wished), *signature)));
    EXPECT_FALSE(relay(std::string(1 << 12, 'x'), *signature));

    // A session without a capability gets no ticket.
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

    // Valid capabilities become invalid when the tenant is changed.
    holder.links = good;
    EXPECT_TRUE(attacker.show(holder)) << attacker.said();
    ASSERT_EQ(change(Change::set, "alice", {{"weight", "3"}}), "");
    EXPECT_EQ(attacker.show(holder).error().code, Code::stale);
    EXPECT_THAT(attacker.said(), HasSubstr("its tenant was changed since"));
    stop();
}

// It can read `main` while it shows a valid capability, and nothing else.
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
    stop();
}

// Two DPUs that ignore the limits of a tenant get no more than the tenant's limits. Other tenants
// do not wait.
TEST_P(DelegatedDpu, ATenantHasItsRatesOverAllDpus) {
    start();
    auto limited = alices;
    limited.insert({{"names", "100"}, {"burst", "10ms"}});
    ASSERT_EQ(change(Change::create, "alice", limited), "");
    ASSERT_EQ(change(Change::create, "bob", {{"subjects", "CN=bob"}, {"read", "main"}}), "");
    const Attacker one(*reactor, engine_as("client")), other(*reactor, engine_as("client"));
    Program alice(*reactor, dpu_as("alice")), bob(*reactor, dpu_as("bob"));
    Report report;
    const auto known =
        on(*reactor, [&] { return alice.control->describe_capabilities(call, "pool", report); });
    ASSERT_TRUE(known) << report.text();
    const object::ContainerId main = record("main").id;
    struct Reading {
        explicit Reading(const Attacker& dpu) : holder(dpu.key()) {}
        Attacker::Holder holder;
        std::unique_ptr<connection::DirectPool> pool;
    };
    Reading first(one), second(other), bobs(one);
    const auto open = [&](Reading& reading, const Attacker& dpu, Program& program) {
        const auto root = program.issue(known->audience, reading_main());
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
    stop();
}

// A revoked capability is invalid from the return of the revocation: for its DPU, in another
// session, for another DPU, and after restarts. Other capabilities of the tenant stay valid.
TEST_P(DelegatedDpu, ARevokedCapabilityIsWorthNothing) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    ASSERT_EQ(change(Change::create, "bob", {{"subjects", "CN=bob"}, {"read", "main"}}), "");
    Attacker attacker(*reactor, engine_as("client"));
    Program one(*reactor, dpu_as("alice")), two(*reactor, dpu_as("alice"));
    Report report;
    const auto known =
        on(*reactor, [&] { return one.control->describe_capabilities(call, "pool", report); });
    ASSERT_TRUE(known) << report.text();
    const capability::Use main = reading_main();
    const auto first = one.issue(known->audience, main), other = two.issue(known->audience, main);
    ASSERT_TRUE(first && other) << one.report.text() << two.report.text();
    Attacker::Holder holder(attacker.key()), of_other(attacker.key());
    holder.links = one.delegate(*first, attacker.key().shown());
    of_other.links = two.delegate(*other, attacker.key().shown());
    auto pool = open_with(holder, report), other_pool = open_with(of_other, report);
    ASSERT_TRUE(pool && other_pool) << report.text();
    const object::ContainerId container = record("main").id;
    EXPECT_TRUE(fetch_from((*pool)->store(), container));
    EXPECT_TRUE(fetch_from((*other_pool)->store(), container));

    auto admin = engine_as("admin");
    const auto revoke = [&](const std::string& tenant, Uuid id) {
        report = {};
        return on(*reactor,
                  [&] { return admin->revoke_capability(call, "pool", tenant, id, report); });
    };
    const Uuid last = capability::decode(holder.links.back())->id;
    // Only an administrator, and only of its tenant.
    EXPECT_TRUE(denied(on(*reactor, [&] {
        return attacker.engine().revoke_capability(call, "pool", "alice", last, report);
    })));
    EXPECT_TRUE(denied(on(*reactor, [&] {
        return attacker.engine().list_capabilities(call, "pool", "alice", report);
    })));
    EXPECT_EQ(revoke("bob", capability::decode(*first)->id).error().code, Code::invalid);
    EXPECT_THAT(report.text(), HasSubstr("is of the tenant 'alice', and not of 'bob'"));
    EXPECT_EQ(revoke("carol", Uuid::make(reactor->secrets())).error().code, Code::not_found);
    EXPECT_TRUE(fetch_from((*pool)->store(), container));

    // A program of another tenant uses the same id for its capability. That has no effect.
    Program bobs(*reactor, dpu_as("bob"));
    const auto bobs_first = bobs.issue(known->audience, main);
    ASSERT_TRUE(bobs_first) << bobs.report.text();
    Attacker::Holder forged(attacker.key());
    forged.links = bobs.delegate(*bobs_first, attacker.key().shown(),
                                 [&](capability::Capability& c) { c.id = last; });
    auto forged_pool = open_with(forged, report);
    ASSERT_TRUE(forged_pool) << report.text();
    EXPECT_EQ(revoke("alice", last), Result<uint64_t>(1)) << report.text();
    EXPECT_TRUE(fetch_from((*forged_pool)->store(), container));
    EXPECT_TRUE(on(*reactor, [&] { return (*forged_pool)->close(); }));
    EXPECT_FALSE(fetch_from((*pool)->store(), container));
    EXPECT_TRUE(fetch_from((*other_pool)->store(), container));
    EXPECT_FALSE(attacker.show(holder));
    EXPECT_THAT(engine.log(), HasSubstr("refused: it was revoked"));
    // Another one derived from the same, and another one for the same program.
    holder.links = one.delegate(*first, attacker.key().shown(), [&](capability::Capability& c) {
        c.id = Uuid::make(reactor->secrets());
    });
    EXPECT_FALSE(attacker.show(holder));
    EXPECT_TRUE(denied(one.issue(known->audience, main)));
    EXPECT_TRUE(two.issue(known->audience, main)) << two.report.text();
    // The DPU of the test does not take it either.
    EXPECT_TRUE(denied(on(*reactor, [&] {
        return one.control->hand_over(call, "pool", one.delegate(*first, *known->delegate), report);
    })));
    EXPECT_THAT(report.text(), HasSubstr("it was revoked"));
    // A capability that no session uses.
    const auto unused = two.issue(known->audience, main);
    ASSERT_TRUE(unused);
    EXPECT_EQ(revoke("alice", capability::decode(*unused)->id), Result<uint64_t>(0));

    engine.kill_hard();
    ASSERT_TRUE(engine.start()) << engine.log();
    admin = engine_as("admin");
    EXPECT_FALSE(attacker.show(holder));
    holder.links = two.delegate(*unused, attacker.key().shown());
    EXPECT_FALSE(attacker.show(holder));
    EXPECT_TRUE(attacker.show(of_other)) << attacker.said();
    EXPECT_TRUE(fetch_from((*other_pool)->store(), container));
    // When the DPU has connected to the engine again.
    EXPECT_TRUE(eventually([&] { return denied(one.issue(known->audience, main)); }))
        << one.report.text();
    EXPECT_TRUE(on(*reactor, [&] { return (*pool)->close(); }));
    EXPECT_TRUE(on(*reactor, [&] { return (*other_pool)->close(); }));
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

TEST_P(DelegatedDpu, ATenantGetsNothingOfARemovedOneOfItsName) {
    start();
    const auto with = [](const char* subject) {
        return config::Entries{
            {"subjects", subject}, {"create", "run-*"}, {"read", "main"}, {"root_squash", "no"}};
    };
    ASSERT_EQ(change(Change::create, "alice", with("CN=alice")), "");
    ASSERT_TRUE(create("alice", "run-7")) << said.text();
    Attacker attacker(*reactor, engine_as("client"));
    Program alice(*reactor, dpu_as("alice"));
    Report report;
    const auto known =
        on(*reactor, [&] { return alice.control->describe_capabilities(call, "pool", report); });
    ASSERT_TRUE(known) << report.text();
    const auto root = alice.issue(known->audience, reading_main());
    ASSERT_TRUE(root) << alice.report.text();
    Attacker::Holder old(attacker.key());
    old.links = alice.delegate(*root, attacker.key().shown());
    ASSERT_TRUE(attacker.show(old)) << attacker.said();

    EXPECT_THAT(change(Change::remove, "alice", {}), HasSubstr("is not revoked"));
    EXPECT_TRUE(attacker.show(old)) << attacker.said();
    ASSERT_EQ(change(Change::revoke, "alice", {}), "");
    ASSERT_EQ(change(Change::remove, "alice", {}), "");
    EXPECT_THAT(engine.log(), HasSubstr("removed the tenant 'alice' of the pool 'pool', "
                                        "generation 2"));
    EXPECT_TRUE(denied(attacker.show(old)));
    EXPECT_FALSE(create("alice", "run-8"));

    // Another client gets the name. Capabilities issued before have not expired.
    ASSERT_EQ(change(Change::create, "alice", with("CN=eve")), "");
    EXPECT_FALSE(attacker.show(old));
    EXPECT_FALSE(create("alice", "run-8"));
    Program eve(*reactor, dpu_as("eve"));
    EXPECT_TRUE(denied(eve.issue(
        known->audience,
        {.rights = capability::right_write, .directories = false, .container = "run-7"})));
    ASSERT_TRUE(create("eve", "run-8")) << said.text();
    EXPECT_EQ(record("run-7").properties.owner, "alice");
    EXPECT_EQ(record("run-8").properties.owner, "alice#3");
    const auto eves = dpu_as("eve");
    const auto destroy = [&](const char* label) {
        return on(*reactor, [&] { return eves->destroy_container(call, "pool", label, report); });
    };
    EXPECT_EQ(destroy("run-7").error().code, Code::denied);
    // With a capability to create containers, a tenant uses its own.
    const auto creating =
        eve.issue(known->audience,
                  {.rights = capability::right_create, .directories = false, .container = "run-*"});
    ASSERT_TRUE(creating) << eve.report.text();
    Attacker::Holder holder(attacker.key());
    holder.links = eve.delegate(*creating, attacker.key().shown());
    auto pool = open_with(holder, report);
    ASSERT_TRUE(pool) << report.text();
    object::ObjectStore& store = (*pool)->store();
    EXPECT_TRUE(fetch_from(store, record("run-8").id));
    EXPECT_TRUE(denied(fetch_from(store, record("run-7").id)));
    // An administrator may give it to her.
    const auto admin = engine_as("admin");
    ASSERT_TRUE(on(*reactor, [&] {
        return admin->set_container(call, "pool", "run-7", {.owner = "alice"}, report);
    })) << report.text();
    EXPECT_EQ(record("run-7").properties.owner, "alice#3");
    EXPECT_TRUE(fetch_from(store, record("run-7").id));
    EXPECT_TRUE(on(*reactor, [&] { return (*pool)->close(); }));
    EXPECT_TRUE(destroy("run-8")) << report.text();
    EXPECT_TRUE(destroy("run-7")) << report.text();
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
    const auto root = alice.issue(known->audience, reading_main());
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
    // A DPU may bring another capability.
    const auto late = lists();
    ASSERT_FALSE(late);
    EXPECT_TRUE(late.error().code == Code::stale || late.error().code == Code::denied);
    EXPECT_THAT(engine.log(), HasSubstr("its capability expired"));
    EXPECT_TRUE(on(*reactor, [&] { return (*pool)->close(); }));
    stop();
}

// A program of a tenant that is a direct client of the engine.
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
    const capability::Use main = reading_main();
    const auto hers = carol.issue(known->audience, main), his = dave.issue(known->audience, main);
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
    const capability::Use main = reading_main();
    const auto root = alice.issue(described->audience, main);
    ASSERT_TRUE(root) << alice.report.text();
    // More rights than the tenant has, and rights of other tenants.
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
    stop();
}

// One host mounts and does not renew its capability. Only that host is affected.
TEST_P(DelegatedDpu, AChainThatIsNotRenewedEndsOnlyMountsOfItsContainer) {
    start();
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    ASSERT_TRUE(create("alice", "alice-1")) << said.text();
    Client other;
    Report report;
    ASSERT_TRUE(other.open(*reactor, host("alice", "alice-1"), report)) << report.text();
    Program lazy(*reactor, dpu_as("alice"));
    const auto described =
        on(*reactor, [&] { return lazy.control->describe_capabilities(call, "pool", report); });
    ASSERT_TRUE(described && described->delegate) << report.text();
    capability::Use main = reading_main();
    main.rights |= capability::right_write;
    const auto root = lazy.issue(described->audience, main);
    ASSERT_TRUE(root) << lazy.report.text();
    const auto narrow = [&](capability::Capability& c) {
        c.use.rights = capability::right_read;
        c.expires = reactor->wall_time() + 10s;
    };
    for (const Chain& chain : {lazy.delegate(*root, *described->delegate),
                               lazy.delegate(*root, *described->delegate, narrow)}) {
        ASSERT_TRUE(on(*reactor, [&] {
            return lazy.control->hand_over(call, "pool", chain, report);
        })) << report.text();
    }
    control::SessionTickets tickets(*reactor, *lazy.control,
                                    {.client = Uuid::make(reactor->secrets()),
                                     .purpose = session::Purpose::link,
                                     .pool = "pool",
                                     .program = "lazy",
                                     .providers = {"shm"}});
    const auto opened = on(*reactor, [&] { return tickets.open(call, report); });
    ASSERT_TRUE(opened) << report.text();
    ASSERT_TRUE(on(*reactor, [&] {
        return lazy.control->mount(call, opened->id, "main", true, report);
    })) << report.text();
    // A mount that only reads uses the chain that only reads, although the other one ends later.
    const auto admin = engine_as("admin");
    const auto used =
        on(*reactor, [&] { return admin->list_capabilities(call, "pool", "alice", report); });
    ASSERT_TRUE(used) << report.text();
    EXPECT_TRUE(
        std::ranges::any_of(*used, [](const auto& each) { return each.use == reading_main(); }));
    EXPECT_TRUE(std::ranges::none_of(*used, [&](const auto& each) { return each.use == main; }));

    constexpr std::string_view late = "is ended: a capability of its tenant is not valid now";
    EXPECT_TRUE(eventually([&] { return dpu.log().contains(late); })) << dpu.log();
    EXPECT_TRUE(write(other, "file", 'a')) << dpu.log();
    const std::string log = dpu.log();
    EXPECT_THAT(log, HasSubstr(fmt::format("session {} of CN=alice {}", opened->id.value, late)));
    EXPECT_EQ(log.find(late), log.rfind(late)) << log;
    other.close(*reactor);
    on(*reactor, [&] { return tickets.close(); });
    stop();
}

}  // namespace
}  // namespace ros2s::tests
