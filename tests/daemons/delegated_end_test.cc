// How capabilities end: by a revocation, without renewal, or with their tenant or container. With a
// real ros2store-engine and ros2store-dpu.
#include <algorithm>

#include "attacker.h"
#include "eventually.h"

namespace ros2s::tests {
namespace {

INSTANTIATE_TEST_SUITE_P(Shm, DelegatedDpu, testing::Values("shm"));

// A revoked capability is invalid from the return of the revocation: for its DPU, in another
// session, for another DPU, and after restarts. Other capabilities of the tenant stay valid.
TEST_P(DelegatedDpu, RevokedCapabilityIsRefused) {
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
}

// A capability that was issued because the tenant owned a container is for a label.
TEST_P(DelegatedDpu, OwnerCapabilityEndsWithOwnership) {
    start();
    ASSERT_EQ(change(Change::create, "alice", {{"subjects", "CN=alice"}, {"create", "run-*"}}), "");
    ASSERT_EQ(change(Change::create, "bob", {{"subjects", "CN=bob"}, {"create", "run-*"}}), "");
    ASSERT_TRUE(create("alice", "run-7")) << said.text();
    Attacker attacker(*reactor, engine_as("client"));
    Program alice(*reactor, dpu_as("alice"));
    Report report;
    const auto root = alice.issue({.rights = {rights::Right::write, rights::Right::destroy},
                                   .directories = false,
                                   .container = {"run-7"}});
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
}

TEST_P(DelegatedDpu, RecreatedTenantInheritsNothing) {
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
    const auto root = alice.issue(reading_main());
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
    EXPECT_TRUE(denied(
        eve.issue({.rights = rights::Right::write, .directories = false, .container = {"run-7"}})));
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
        eve.issue({.rights = rights::Right::create, .directories = false, .container = {"run-*"}});
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
}

Task<> bring(Attacker::Holder& holder, Chain chain, connection::DirectPool& pool) {
    holder.links = std::move(chain);
    pool.try_again();
    co_return;
}

TEST_P(DelegatedDpu, CapabilityWithoutRenewalEnds) {
    start("2s");
    ASSERT_EQ(change(Change::create, "alice", alices), "");
    Attacker attacker(*reactor, engine_as("client"));
    Program alice(*reactor, dpu_as("alice"));
    Report report;
    const auto root = alice.issue(reading_main());
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
    const auto late = lists();
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Code::disconnected);
    // A DPU may bring another capability.
    const auto other = alice.issue(reading_main());
    ASSERT_TRUE(other) << alice.report.text();
    on(*reactor,
       [&] { return bring(holder, alice.delegate(*other, attacker.key().shown()), **pool); });
    EXPECT_TRUE(lists());
    EXPECT_THAT(engine.log(), HasSubstr("its capability expired"));
    EXPECT_TRUE(on(*reactor, [&] { return (*pool)->close(); }));
}

// One host mounts and does not renew its capability. Only that host is affected.
TEST_P(DelegatedDpu, UnrenewedChainEndsOnlyItsContainersMounts) {
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
    main.rights.add(rights::Right::write);
    const auto root = lazy.issue(described->audience, main);
    ASSERT_TRUE(root) << lazy.report.text();
    const auto narrow = [&](capability::Capability& c) {
        c.use.rights = rights::Right::read;
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
        return lazy.control->mount(call, opened->id, "main", {.read_only = true}, report);
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
}

}  // namespace
}  // namespace ros2s::tests
