// Rights: a second subject with a valid certificate has the rights in the settings. The log shows
// its refused and its executed calls.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ros2s/control/test_support/remote_namespace.h"
#include "ros2s/rights/settings.h"
#include "ros2s/session/test_support/fixed_mount.h"
#include "test_support/test_rig.h"

namespace ros2s::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

rights::Subjects access(const rights::AccessSettings& settings) {
    Report report;
    auto parsed = rights::parse_access(settings, "test", report);
    EXPECT_TRUE(parsed) << report.text();
    return std::move(*parsed);
}

class ControlAccess : public testing::Test {
  protected:
    // Alice may do everything in the pool.
    void start(std::map<std::string, std::string> mallorys) {
        rig_.emplace(RigOptions{
            .access = access(
                {{"CN=alice", {{"write", "pool/*"}, {"create", "pool/*"}, {"destroy", "pool/*"}}},
                 {"CN=mallory", std::move(mallorys)}})});
        alice_ = rig_->client("alice");
        mallory_ = rig_->client("mallory");
    }
    template <class F>
    Code code(F call) {
        report_ = {};
        const auto result = rig_->here(call);
        return result ? done : result.error().code;
    }
    Code mount(session::SessionId session, const std::string& container, bool read_only) {
        return code([&] {
            return mallory_->mount(call_, session, container, {.read_only = read_only}, report_);
        });
    }
    Code create(ControlClient& client, const std::string& label) {
        return code(
            [&] { return client.create_container(call_, "pool", {.label = label}, {}, report_); });
    }
    Code destroy(ControlClient& client, const std::string& label) {
        return code([&] { return client.destroy_container(call_, "pool", label, report_); });
    }
    std::vector<std::string> labels(ControlClient& client) {
        std::vector<std::string> labels;
        const auto all = rig_->here([&] { return client.list_containers(call_, "pool", report_); });
        EXPECT_TRUE(all) << report_.text();
        if (!all) return labels;
        for (const auto& each : *all) labels.push_back(each.properties.label);
        return labels;
    }

    static constexpr Code done = Code::exists;
    std::optional<Rig> rig_;
    std::unique_ptr<ControlClient> alice_, mallory_;
    const Call call_;
    Report report_;
};

TEST_F(ControlAccess, SubjectWithoutEntryHasNoRights) {
    start({});
    const auto pools = rig_->here([&] { return mallory_->list_pools(call_, report_); });
    ASSERT_TRUE(pools) << report_.text();
    EXPECT_THAT(*pools, IsEmpty());
    EXPECT_EQ(code([&] { return mallory_->open_session(call_, Rig::wanted(), report_); }),
              Code::denied);
    EXPECT_THAT(report_.text(), HasSubstr("CN=mallory may not use the pool 'pool', or it does "
                                          "not exist; the administrator of the server can"));
    const std::string refusal = report_.text();
    // Something that does not exist is refused with the same message.
    SessionOptions other = Rig::wanted();
    other.pool = "none";
    EXPECT_EQ(code([&] { return mallory_->open_session(call_, other, report_); }), Code::denied);
    EXPECT_EQ(report_.text().size(), refusal.size());
    EXPECT_EQ(code([&] { return mallory_->query_pool(call_, "pool", report_); }), Code::denied);
    EXPECT_EQ(code([&] { return mallory_->list_containers(call_, "pool", report_); }),
              Code::denied);
    EXPECT_EQ(code([&] { return mallory_->query_container(call_, "pool", "c", report_); }),
              Code::denied);
    EXPECT_EQ(create(*mallory_, "mallorys"), Code::denied);
    EXPECT_EQ(destroy(*mallory_, "c"), Code::denied);
    EXPECT_THAT(labels(*alice_), ElementsAre("c"));
    EXPECT_THAT(rig_->lines.with("audit: CN=mallory (ipv4:127.0.0.1:"), SizeIs(7));
    EXPECT_THAT(rig_->lines.with("may not use the pool 'pool': refused; to allow it, the settings "
                                 "need: access: {\"CN=mallory\": {read: pool/CONTAINER}} "
                                 "[tenant=\"CN=mallory\" peer=ipv4:127.0.0.1:"),
                SizeIs(6));
}

TEST_F(ControlAccess, ContainerCallsNeedTheirRight) {
    start({{"read", "pool/shared"}, {"create", "pool/mallory-*"}});
    ASSERT_EQ(create(*alice_, "shared"), done) << report_.text();
    ASSERT_EQ(create(*mallory_, "mallory-1"), done) << report_.text();
    EXPECT_EQ(create(*mallory_, "other"), Code::denied);
    EXPECT_THAT(labels(*mallory_), ElementsAre("mallory-1", "shared"));
    EXPECT_THAT(labels(*alice_), ElementsAre("c", "mallory-1", "shared"));
    const auto facts = rig_->here([&] { return mallory_->query_pool(call_, "pool", report_); });
    ASSERT_TRUE(facts) << report_.text();
    EXPECT_EQ(facts->containers, 2u);
    EXPECT_EQ(code([&] { return mallory_->query_container(call_, "pool", "shared", report_); }),
              done);
    // One exists and one does not: a subject without a right cannot tell which.
    for (const char* label : {"c", "none"}) {
        EXPECT_EQ(code([&] { return mallory_->query_container(call_, "pool", label, report_); }),
                  Code::denied);
        EXPECT_EQ(destroy(*mallory_, label), Code::denied);
        EXPECT_THAT(report_.text(), HasSubstr("CN=mallory may not destroy the container pool/"));
    }
    EXPECT_EQ(destroy(*mallory_, "mallory-1"), Code::denied) << "made by it, and yet";
    EXPECT_EQ(destroy(*alice_, "mallory-1"), done) << report_.text();
    EXPECT_THAT(rig_->lines.with("may not destroy the container pool/c: refused; to allow it, the "
                                 "settings need: access: {\"CN=mallory\": {destroy: pool/c}}"),
                SizeIs(1));
    EXPECT_THAT(rig_->lines.with(") created the container pool/mallory-1 ("), SizeIs(1));
    EXPECT_THAT(rig_->lines.with(") destroyed the container pool/mallory-1 ("), SizeIs(1));
}

// They take turns with the tenant's other requests, and count for the tenant.
TEST_F(ControlAccess, ContainerCallsCountForTheirTenant) {
    start({{"read", "pool/c"}});
    const auto counted = [this](const std::string& name) {
        uint64_t names = 0;
        rig_->do_there([&] {
            for (const auto& each : rig_->accounts.all()) {
                if (each->name == name) names = each->metrics.names.value();
            }
        });
        return names;
    };
    EXPECT_EQ(code([&] { return mallory_->query_container(call_, "pool", "c", report_); }), done);
    EXPECT_EQ(code([&] { return mallory_->query_pool(call_, "pool", report_); }), done);
    EXPECT_THAT(labels(*mallory_), ElementsAre("c"));
    EXPECT_EQ(counted("CN=mallory"), 3U);
    EXPECT_EQ(counted("CN=alice"), 0U);
    EXPECT_EQ(create(*alice_, "made"), done);
    EXPECT_EQ(destroy(*alice_, "made"), done);
    EXPECT_EQ(counted("CN=alice"), 2U);
    // Refused calls have not used a turn.
    EXPECT_EQ(create(*mallory_, "other"), Code::denied);
    EXPECT_EQ(counted("CN=mallory"), 3U);
    uint64_t inside = 1;
    rig_->do_there([&] { inside = rig_->admission.inside().requests; });
    EXPECT_EQ(inside, 0U);
}

TEST_F(ControlAccess, MountNeedsRightOfItsSubject) {
    start({{"read", "pool/c"}, {"create", "pool/made"}});
    ASSERT_EQ(create(*mallory_, "made"), done);
    ASSERT_EQ(create(*alice_, "alices"), done);
    const session::SessionId session = rig_->open(*mallory_).id;
    for (const char* container : {"alices", "made", "none"}) {
        EXPECT_EQ(mount(session, container, true), Code::denied) << container;
        EXPECT_EQ(mount(session, container, false), Code::denied) << container;
    }
    EXPECT_THAT(rig_->lines.with("may not read the container pool/alices: refused"), SizeIs(2));
    // It requested reading and writing, and got only the access that it has a right to.
    const session::MountId mounted = rig_->mount(*mallory_, session, "c");
    session::FixedMountLocator locator({session, mounted});
    RemoteNamespace names(*mallory_, locator, alice);
    EXPECT_EQ(code([&] { return names.mkdir(call_, fs::root_node, "d", 0755, {}); }),
              Code::read_only);
    const fs::SetAttributes to_me{.uid = 7};
    EXPECT_EQ(code([&] { return names.set_attributes(call_, fs::root_node, to_me); }),
              Code::read_only);
    EXPECT_EQ(
        code([&] { return names.create(call_, fs::root_node, "f", 0644, {.write = true}, {}); }),
        Code::read_only);
    EXPECT_EQ(code([&] { return names.get_attributes(call_, fs::root_node); }), done);
    const auto mount_lines = [&](session::SessionId in, const char* subject, const char* how) {
        return rig_->lines.with(fmt::format(") mounted pool/c for {} [session={} tenant=\"{}\"",
                                            how, in.value, subject));
    };
    EXPECT_THAT(mount_lines(session, "CN=mallory", "reading, because it may not write"), SizeIs(1));
    // Writing, by a subject with the right.
    const session::SessionId alices = rig_->open(*alice_).id;
    rig_->mount(*alice_, alices, "c");
    EXPECT_THAT(mount_lines(alices, "CN=alice", "reading and writing"), SizeIs(1));
}

}  // namespace
}  // namespace ros2s::control
