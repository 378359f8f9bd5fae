// Who sees and evicts the holders of leases at a DPU.
#include <gmock/gmock.h>

#include "test_support/test_rig.h"

namespace ros2s::control {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class ControlLeases : public testing::Test {
  protected:
    void SetUp() override {
        rig_.there([&] {
            return rig_.pool.create_container(call_, "CN=client", "pool", {.label = "leased"}, {},
                                              report_);
        });
        session_ = rig_.open(*alice_).id;
        mount_ = rig_.mount(*alice_, session_, "leased");
    }
    // What the mount's client hears.
    session::LeaseNews hear(session::Listening listening) {
        return rig_.there([&] { return hear_there(*this, listening); });
    }
    static Task<session::LeaseNews> hear_there(ControlLeases& self, session::Listening listening) {
        const auto session = self.rig_.sessions.use(self.session_);
        EXPECT_TRUE(session);
        const auto mount = self.rig_.mounts.find(**session, self.mount_);
        EXPECT_TRUE(mount);
        co_return co_await (*mount)->leases()->listen({}, listening);
    }
    void begin() {
        ASSERT_TRUE(eventually(*rig_.server_reactor, [&] { return !hear({.begins = true}).lost; }));
    }
    SeenLeases seen_by(ControlClient& client, const std::string& container = "") {
        auto seen =
            rig_.here([&] { return client.list_leases(call_, "pool", container, report_); });
        EXPECT_TRUE(seen) << report_.text();
        return seen.value_or(SeenLeases{});
    }
    Result<> evict(ControlClient& client, const std::string& holder) {
        return rig_.here(
            [&] { return client.evict_holder(call_, "pool", "leased", holder, report_); });
    }

    Rig rig_{{.control = {.administrators = {"CN=host-0"}}}};
    std::unique_ptr<ControlClient> alice_ = rig_.client("alice"), mallory_ = rig_.client("mallory");
    session::SessionId session_{};
    session::MountId mount_{};
    const Call call_;
    Report report_;
};

TEST_F(ControlLeases, TenantSeesItsOwnHolders) {
    EXPECT_THAT(seen_by(*alice_).holders, IsEmpty()) << "it does not listen yet";
    begin();
    const auto seen = seen_by(*alice_, "leased");
    ASSERT_THAT(seen.holders, SizeIs(1));
    const SeenHolder& holder = seen.holders[0];
    EXPECT_EQ(holder.name, std::to_string(mount_.value));
    EXPECT_EQ(holder.container, "leased");
    EXPECT_EQ(holder.tenant, "CN=alice");
    EXPECT_EQ(holder.session, session_.value);
    EXPECT_EQ(holder.recalls, 0U);
    EXPECT_THAT(seen.barred, IsEmpty());
    EXPECT_THAT(seen_by(*alice_, "c").holders, IsEmpty());
    EXPECT_THAT(seen_by(*mallory_).holders, IsEmpty());
}

TEST_F(ControlLeases, OnlyItsTenantAndAdministratorsEvictAHolder) {
    begin();
    const std::string holder = std::to_string(mount_.value);
    EXPECT_EQ(evict(*mallory_, holder), Result<>(fail(Code::not_found)));
    EXPECT_THAT(report_.text(),
                HasSubstr("there is no holder '" + holder + "' of leases in pool/"));
    EXPECT_THAT(seen_by(*alice_).holders, SizeIs(1));
    EXPECT_TRUE(evict(*alice_, holder));
    EXPECT_TRUE(hear({.heard = 1}).lost);
    EXPECT_THAT(seen_by(*alice_).holders, IsEmpty());
    EXPECT_EQ(evict(*alice_, holder), Result<>(fail(Code::not_found)));
    begin();
    rig_.certificates.add("host-0");
    const auto administrator = rig_.client("host-0");
    EXPECT_THAT(seen_by(*administrator).holders, SizeIs(1));
    EXPECT_TRUE(evict(*administrator, holder)) << report_.text();
    EXPECT_THAT(rig_.lines.with("CN=host-0 ("), testing::Contains(HasSubstr("ended the leases")));
}

}  // namespace
}  // namespace ros2s::control
