// Work through a DPU that has only what tenants hand to it, with a real ros2store-engine and
// ros2store-dpu.
#include "delegated.h"

namespace ros2s::tests {
namespace {

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

}  // namespace
}  // namespace ros2s::tests
