// Rows of who may do what. Each is decided by decide() and by the reference.
#include "ros2s/rights/decide.h"

#include <gtest/gtest.h>

#include "ros2s/rights/sources/tenants.h"
#include "test_support/model.h"

namespace ros2s::rights::test {
namespace {

using namespace std::chrono_literals;

struct Row {
    const char* who;
    const char* what;
    const char* where;  // POOL/CONTAINER@OWNER
    const char* decision;
    Duration later{};
};

void expect(const Model& model, std::initializer_list<Row> rows) {
    PolicyDecider decider(model);
    const ReferenceDecider reference(model);
    for (const Row& row : rows) {
        const Request request = Request::of(row.who, row.what, row.where, row.later);
        EXPECT_EQ(decider.decide(request).text(), row.decision) << request.text();
        EXPECT_EQ(decider.outcome(request), reference.outcome(request)) << request.text();
    }
}

constexpr auto no = "none: not granted";
constexpr auto over = "none: the policy is over";
constexpr auto ended = "none: its tenant was revoked or has expired";
constexpr auto all = "whole";
constexpr auto read_only = "whole, read only";
constexpr auto owned = "whole, owned";

TEST(Decide, WithoutAGrantNothingIsAllowed) {
    expect({}, {{"CN=a", "see the pool", "p", no},
                {"CN=a", "see", "p/c", no},
                {"CN=a", "read", "p/c", no},
                {"CN=a", "write", "p/c", no},
                {"CN=a", "create", "p/c", no},
                {"CN=a", "destroy", "p/c", no},
                {"", "read", "p/c", no},
                {"", "see the pool", "", no}});
}

TEST(Decide, SettingsGiveRightsToTheirSubject) {
    const Model dpu{
        .access = {
            {"CN=a", {{"read", "p/images, q/x"}, {"write", "p/a-*, p/main"}, {"create", "p/a-*"}}},
            {"CN=root,O=site", {{"destroy", "p/*"}}},
            {"CN=any", {{"write", "p/*"}}}}};
    expect(dpu, {{"CN=a", "read", "p/images", read_only},
                 {"CN=a", "write", "p/images", read_only},  // then writes fail with EROFS
                 {"CN=a", "create", "p/images", no},
                 {"CN=a", "destroy", "p/images", no},
                 {"CN=a", "see", "p/images", read_only},
                 {"CN=a", "read", "p/image", no},
                 {"CN=a", "read", "p/images2", no},
                 {"CN=a", "see", "p/images2", no},
                 {"CN=a", "read", "p/Images", no},
                 {"CN=a", "read", "q/x", read_only},
                 {"CN=a", "read", "q/images", no},
                 {"CN=a", "read", "p/x", no},
                 {"CN=a", "write", "p/main", all},
                 {"CN=a", "read", "p/main", all},  // writing includes reading
                 {"CN=a", "create", "p/main", no},
                 {"CN=a", "destroy", "p/main", no},
                 {"CN=a", "write", "p/a-1", all},
                 {"CN=a", "write", "p/a-", all},
                 {"CN=a", "write", "p/a", no},
                 {"CN=a", "write", "q/a-1", no},
                 {"CN=a", "create", "p/a-1", all},
                 {"CN=a", "create", "q/a-1", no},
                 {"CN=a", "destroy", "p/a-1", no},
                 {"CN=a", "see the pool", "p", read_only},
                 {"CN=a", "see the pool", "q", read_only},
                 {"CN=a", "see the pool", "r", no},
                 {"CN=root,O=site", "destroy", "p/main", all},
                 {"CN=root,O=site", "read", "p/main", no},  // it removes what it may not read
                 {"CN=root,O=site", "see", "p/main", read_only},
                 {"CN=root,O=site", "create", "p/main", no},
                 {"CN=root", "destroy", "p/main", no},
                 {"CN=root,O=site,OU=x", "destroy", "p/main", no},
                 {"CN=an", "write", "p/main", no},
                 {"CN=any", "write", "p/anything", all},
                 {"CN=any", "destroy", "p/anything", no},
                 {"CN=any", "write", "pp/anything", no},
                 {"cn=any", "write", "p/anything", no}});
}

TEST(Decide, DirectoryRightsCoverPartOfAContainer) {
    const Model dpu{
        .access = {{"CN=d", {{"read", "p/c/a b/d, p/r/x"}, {"write", "p/c/w, p/w/x"}}},
                   {"CN=both", {{"read", "p/c"}, {"write", "p/c/w, p/c/v/u"}}},
                   {"CN=more", {{"read", "p/c/w"}, {"write", "p/*"}, {"destroy", "p/c"}}},
                   {"CN=in", {{"read", "p/c/a, p/c/a/b"}}}}};
    expect(dpu, {{"CN=d", "read", "p/c", "a b/d (read), w (write)"},
                 {"CN=d", "write", "p/c", "a b/d (read), w (write)"},
                 {"CN=d", "see", "p/c", read_only},
                 {"CN=d", "create", "p/c", no},
                 {"CN=d", "destroy", "p/c", no},
                 {"CN=d", "read", "p/r", "x (read)"},
                 {"CN=d", "write", "p/r", "x (read)"},  // a mount of it is read only
                 {"CN=d", "write", "p/w", "x (write)"},
                 {"CN=d", "read", "p/w", "x (write)"},
                 {"CN=d", "read", "p/cc", no},
                 {"CN=d", "see", "p/cc", no},
                 {"CN=d", "read", "q/c", no},
                 {"CN=d", "see the pool", "p", read_only},
                 {"CN=both", "read", "p/c", all},  // of which a part may be written
                 {"CN=both", "write", "p/c", "w (write), v/u (write), / (read)"},
                 {"CN=both", "destroy", "p/c", no},
                 {"CN=more", "write", "p/c", all},
                 {"CN=more", "read", "p/c", all},
                 {"CN=more", "destroy", "p/c", all},
                 {"CN=more", "destroy", "p/d", no},
                 {"CN=in", "read", "p/c", "a (read), a/b (read)"}});
}

TEST(Decide, DpuAddsTheRightsOfTheTenant) {
    Model dpu{.access = {{"CN=alice", {{"read", "p/old, lustre/*"}}},
                         {"CN=bob", {{"read", "p/images"}}},
                         {"CN=dir", {{"read", "p/c"}}}}};
    dpu.add_tenant(
        "p", "alice",
        {{"subjects", "CN=alice; CN=alice-2"}, {"write", "alice-*"}, {"create", "alice-*"}});
    dpu.add_tenant("p", "dir", {{"subjects", "CN=dir"}, {"write", "c/mine"}, {"read", "d/x"}});
    dpu.add_tenant("q", "other", {{"subjects", "CN=alice"}, {"destroy", "*"}});
    expect(dpu, {{"CN=alice", "write", "p/alice-1", all},
                 {"CN=alice-2", "write", "p/alice-1", all},
                 {"CN=alice", "write", "q/alice-1", no},
                 {"CN=alice", "destroy", "q/alice-1", all},
                 {"CN=alice-2", "destroy", "q/alice-1", no},
                 {"CN=alice", "create", "p/alice-2", all},
                 {"CN=alice", "destroy", "p/alice-1", no},
                 {"CN=alice", "read", "p/old", read_only},
                 {"CN=alice", "write", "p/old", read_only},
                 {"CN=alice-2", "read", "p/old", no},
                 {"CN=alice", "read", "lustre/x", read_only},
                 {"CN=alice-2", "read", "lustre/x", no},
                 {"CN=alice", "see the pool", "lustre", read_only},
                 {"CN=bob", "read", "p/images", read_only},
                 {"CN=bob", "read", "p/alice-1", no},
                 {"CN=bob", "see", "p/alice-1", no},
                 {"CN=dir", "write", "p/c", "mine (write), / (read)"},
                 {"CN=dir", "read", "p/c", all},
                 {"CN=dir", "read", "p/d", "x (read)"},
                 // It owns what was created for it, until that is gone.
                 {"CN=alice", "destroy", "p/b@alice", owned},
                 {"CN=alice-2", "destroy", "p/b@alice", owned},
                 {"CN=alice", "see", "p/b@alice", owned},
                 {"CN=alice", "destroy", "p/b", no},
                 {"CN=alice", "create", "p/b@alice", no},
                 {"CN=alice", "destroy", "p/b@alice#7", no},
                 {"CN=alice", "destroy", "q/b@alice", all},
                 {"CN=alice-2", "destroy", "q/b@alice", no},
                 {"CN=bob", "destroy", "p/b@alice", no},
                 {"CN=bob", "destroy", "p/b@CN=bob", no}});
}

TEST(Decide, EndedTenantLosesTheRightsOfSettings) {
    Model dpu{.access = {{"CN=r", {{"write", "p/*, q/*"}}}, {"CN=e", {{"read", "p/*, q/*"}}}}};
    dpu.add_tenant("p", "r", {{"subjects", "CN=r; CN=r2"}, {"write", "*"}}).revoked = true;
    dpu.add_tenant("p", "e", {{"subjects", "CN=e"}, {"until", "2027-01-15T08:00:10Z"}});
    dpu.add_tenant("p", "x", {{"subjects", "CN=x"}, {"read", "*"}}).expired = true;
    expect(dpu, {{"CN=r", "read", "p/c", ended},
                 {"CN=r", "write", "p/c", ended},
                 {"CN=r", "create", "p/c", ended},
                 {"CN=r", "see", "p/c", ended},
                 {"CN=r", "see the pool", "p", ended},
                 {"CN=r", "destroy", "p/c@r", ended},  // also what it owns
                 {"CN=r", "write", "q/c", all},
                 {"CN=r2", "write", "p/c", ended},
                 {"CN=r2", "write", "q/c", no},
                 {"CN=x", "read", "p/c", ended},
                 {"CN=e", "read", "p/c", read_only},
                 {"CN=e", "read", "p/c", read_only, 10s - 1ns},
                 {"CN=e", "destroy", "p/c@e", owned, 10s - 1ns},
                 {"CN=e", "read", "p/c", ended, 10s},
                 {"CN=e", "destroy", "p/c@e", ended, 10s},
                 {"CN=e", "see the pool", "p", ended, 10s},
                 {"CN=e", "read", "q/c", read_only, 10s}});
}

TEST(Decide, SilentEngineEndsThePolicyOfItsPool) {
    Model dpu{.access = {{"CN=a", {{"write", "p/*, local/*"}}}},
              .valid_for = {{"p", 750ms}, {"q", 9s}}};
    dpu.add_tenant("q", "a", {{"subjects", "CN=a"}, {"write", "*"}});
    expect(dpu, {{"CN=a", "write", "p/c", all},
                 {"CN=a", "write", "p/c", all, 750ms},
                 {"CN=a", "write", "p/c", over, 750ms + 1ns},
                 {"CN=a", "read", "p/c", over, 1s},
                 {"CN=a", "see the pool", "p", over, 1s},
                 {"CN=a", "see", "p/c", over, 1s},
                 {"CN=a", "create", "p/c", over, 1s},
                 {"CN=b", "read", "p/c", over, 1s},
                 {"CN=a", "write", "q/c", all, 1s},
                 {"CN=a", "destroy", "q/c@a", owned, 9s},
                 {"CN=a", "destroy", "q/c@a", over, 9s + 1ns},
                 {"CN=a", "write", "q/c", over, 1h},
                 {"CN=a", "write", "local/c", all, 1h}});  // the server's own rights do not end
}

TEST(Decide, EngineGivesSubjectsOnlySettingsRights) {
    Model engine{.is_engine = true,
                 .access = {{"CN=dpu", {{"write", "p/*"}, {"create", "p/*"}, {"destroy", "p/*"}}},
                            {"CN=t", {{"read", "p/given"}}},
                            {"CN=gone", {{"write", "p/*, q/*"}}}}};
    engine.add_tenant("p", "t", {{"subjects", "CN=t"}, {"write", "*"}, {"destroy", "*"}});
    engine.add_tenant("p", "dpus", {{"subjects", "CN=dpu"}});  // a DPU that is itself a tenant
    engine.add_tenant("p", "gone", {{"subjects", "CN=gone"}}).revoked = true;
    tenancy::Tenant& again = engine.add_tenant("p", "again", {{"subjects", "CN=again"}});
    again.first_generation = again.generation = 7;  // another one had its name before
    expect(engine, {{"CN=dpu", "write", "p/c", all},
                    {"CN=dpu", "write", "p/c@t", all},
                    {"CN=dpu", "create", "p/c", all},
                    {"CN=dpu", "destroy", "p/c@t", all},
                    {"CN=dpu", "destroy", "p/c@dpus", owned},
                    {"CN=dpu", "read", "q/c", no},
                    {"CN=dpu", "read", "q/c@dpus", no},
                    {"CN=dpu", "read", "q/c@CN=dpu", owned},  // there it has no tenant
                    {"CN=dpu", "read", "p/c@CN=dpu", all},
                    {"CN=t", "read", "p/given", read_only},
                    {"CN=t", "write", "p/given", read_only},
                    {"CN=t", "write", "p/c", no},
                    {"CN=t", "see", "p/c", no},
                    {"CN=t", "write", "p/c@t", owned},
                    {"CN=t", "see", "p/c@t", owned},
                    {"CN=t", "destroy", "p/c@t", owned},
                    {"CN=t", "create", "p/c@t", no},
                    {"CN=t", "read", "p/c@CN=t", no},
                    {"CN=gone", "read", "p/c", ended},
                    {"CN=gone", "write", "p/c@gone", ended},
                    {"CN=gone", "write", "q/c", all},
                    {"CN=gone", "read", "q/x@CN=gone", owned},
                    {"CN=again", "read", "p/c@again#7", owned},
                    {"CN=again", "read", "p/c@again", no},  // its predecessor's
                    {"CN=none", "read", "p/c@CN=none", owned},
                    {"CN=none", "see the pool", "p/c@CN=none", no},
                    {"CN=none", "read", "p/c@CN=non", no},
                    {"CN=none", "read", "p/c", no}});
}

constexpr auto lacks = "none: the capability lacks it";
constexpr auto late = "none: it is out of its time";
constexpr auto revoked = "none: it was revoked";
constexpr auto changed = "none: its tenant was changed since";
constexpr auto others = "none: it is another tenant's";
constexpr auto behind =
    "none: by the engine's clock, capabilities of its tenant are valid that were revoked: set the "
    "clock right or, if it is right now, run `ros2store tenant set` for the tenant, which ends all "
    "of its capabilities; its programs get new ones";
constexpr auto for_dpu = "none: it is for a DPU, and the sender is not one";

Model with_capabilities() {
    Model engine{
        .is_engine = true, .access = {{"CN=wide", {{"write", "p/*"}}}}, .delegates = {"CN=dpu"}};
    const tenancy::Tenant alice = engine.add_tenant("p", "alice",
                                                    {{"subjects", "CN=alice; CN=wide"},
                                                     {"write", "a-*, s/dir"},
                                                     {"read", "images, r/x"},
                                                     {"create", "a-*"},
                                                     {"destroy", "a-*"}});
    const tenancy::Tenant bob =
        engine.add_tenant("p", "bob", {{"subjects", "CN=bob"}, {"read", "a-1"}});
    engine.add_capability("own", alice, use_of(Right::write, "a-*"), 1);
    engine.add_capability("read", alice, use_of(Right::read, "images"), 2);
    engine.add_capability("write", alice, use_of(Right::write, "a-1"), 2);
    engine.add_capability("create", alice, use_of(Right::create, "a-*"), 2);
    engine.add_capability("destroy", alice, use_of(Right::destroy, "a-*"), 2);
    engine.add_capability("see", alice, use_of({}, "*"), 2);
    engine.add_capability("directories", alice, use_of(Right::write, "s", true), 2);
    engine.add_capability("some", alice, use_of(Right::read, "r", true), 2);
    engine.add_capability("all of it", alice, use_of(every_right, "a-1", true), 2);
    engine.add_capability("label", alice, use_of({Right::write, Right::destroy}, "mine"), 2);
    engine.add_capability("bob", bob, use_of(Right::read, "a-1"), 1);
    return engine;
}

TEST(Decide, CapabilityGivesPartOfTheTenantsRights) {
    expect(with_capabilities(),
           {{"CN=dpu by read", "read", "p/images", read_only},
            {"CN=dpu by read", "write", "p/images", lacks},
            {"CN=dpu by read", "see", "p/images", read_only},
            {"CN=dpu by read", "read", "p/a-1", lacks},  // which the tenant may
            {"CN=dpu by read", "see", "p/a-1", lacks},
            {"CN=dpu by read", "create", "p/images", lacks},
            {"CN=dpu by read", "destroy", "p/images", lacks},
            {"CN=dpu by read", "destroy", "p/images@alice", lacks},
            {"CN=dpu by read", "read", "p/images@alice", "whole, read only, owned"},
            {"CN=dpu by write", "write", "p/a-1", all},
            {"CN=dpu by write", "read", "p/a-1", all},
            {"CN=dpu by write", "write", "p/a-2", lacks},
            {"CN=dpu by write", "destroy", "p/a-1", lacks},
            {"CN=dpu by create", "create", "p/a-9", all},
            {"CN=dpu by create", "create", "p/b", lacks},
            {"CN=dpu by create", "write", "p/a-9", lacks},
            // With the right to create, its tenant may use what it has made.
            {"CN=dpu by create", "write", "p/a-9@alice", owned},
            {"CN=dpu by create", "destroy", "p/a-9@alice", owned},
            {"CN=dpu by create", "write", "p/a-9@bob", lacks},
            {"CN=dpu by create", "write", "p/b@alice", lacks},
            {"CN=dpu by destroy", "destroy", "p/a-1", all},
            {"CN=dpu by destroy", "destroy", "p/a-1@bob", all},
            {"CN=dpu by destroy", "read", "p/a-1", lacks},
            {"CN=dpu by see", "see", "p/a-1", read_only},
            {"CN=dpu by see", "see", "p/s", read_only},
            {"CN=dpu by see", "see", "p/none", no},
            {"CN=dpu by see", "see", "p/none@alice", "whole, read only, owned"},
            {"CN=dpu by see", "read", "p/none@alice", lacks},
            {"CN=dpu by see", "read", "p/a-1", lacks}});
}

TEST(Decide, OwnerCapabilityEndsWithTheContainer) {
    expect(with_capabilities(), {{"CN=dpu by label", "write", "p/mine@alice", owned},
                                 {"CN=dpu by label", "destroy", "p/mine@alice", owned},
                                 {"CN=dpu by label", "write", "p/mine@bob", no},
                                 {"CN=dpu by label", "destroy", "p/mine@bob", no},
                                 {"CN=dpu by label", "see", "p/mine@bob", no},
                                 {"CN=dpu by label", "write", "p/mine", no}});
}

TEST(Decide, CapabilityForDirectoriesReturnsThem) {
    expect(with_capabilities(), {{"CN=dpu by directories", "write", "p/s", "dir (write)"},
                                 {"CN=dpu by directories", "read", "p/s", "dir (write)"},
                                 {"CN=dpu by directories", "see", "p/s", read_only},
                                 {"CN=dpu by directories", "destroy", "p/s", lacks},
                                 {"CN=dpu by some", "read", "p/r", "x (read)"},
                                 {"CN=dpu by some", "write", "p/r", lacks},
                                 {"CN=dpu by some", "read", "p/s", lacks},
                                 {"CN=dpu by all of it", "write", "p/a-1", all},
                                 {"CN=dpu by all of it", "destroy", "p/a-1", lacks},
                                 {"CN=dpu by all of it", "destroy", "p/a-1@alice", owned},
                                 {"CN=dpu by all of it", "create", "p/a-1", all}});
}

TEST(Decide, CapabilityOfAnotherHolderIsRefused) {
    expect(with_capabilities(),
           {{"CN=alice by own", "write", "p/a-1", all},
            {"CN=wide by own", "write", "p/a-1", all},
            {"CN=wide by own", "write", "p/b", lacks},  // no settings' rights
            {"CN=wide", "write", "p/b", all},
            {"CN=bob by own", "write", "p/a-1", others},
            {"CN=dpu by own", "write", "p/a-1", others},
            {"CN=none by own", "write", "p/a-1", others},
            {"CN=alice by write", "write", "p/a-1", for_dpu},
            {"CN=bob by write", "write", "p/a-1", for_dpu},
            {"CN=bob by bob", "read", "p/a-1", read_only},
            {"CN=alice by bob", "read", "p/a-1", others},
            {"CN=dpu by write", "write", "q/a-1", "none: there is no such tenant"},
            {"CN=dpu", "read", "p/a-1", no},
            {"CN=alice", "write", "p/a-1", no}});
}

TEST(Decide, ExpiredOrRevokedCapabilityIsRefused) {
    Model engine = with_capabilities();
    expect(engine, {{"CN=dpu by write", "write", "p/a-1", all, 30min - 1ns},
                    {"CN=dpu by write", "write", "p/a-1", late, 30min},
                    {"CN=dpu by write", "write", "p/a-1", late, -1ns}});
    tenancy::Tenant& alice = engine.tenants["p"]["alice"];
    const VerifiedCapability write = engine.capabilities["write"];
    alice.revoked_capabilities[write.last.id] = {};
    expect(engine, {{"CN=dpu by write", "write", "p/a-1", revoked},
                    {"CN=dpu by write", "see", "p/a-1", revoked},
                    {"CN=dpu by write", "write", "p/a-1@alice", revoked},
                    {"CN=dpu by read", "read", "p/images", read_only},
                    {"CN=bob by bob", "read", "p/a-1", read_only}});
    alice.revoked_capabilities = {{write.first.id, {}}};
    expect(engine, {{"CN=dpu by write", "write", "p/a-1", revoked},
                    {"CN=dpu by create", "create", "p/a-1", all}});
    // Its program gets no other one, and what it narrowed ends.
    alice.revoked_capabilities = {{numbered(99), {.program = write.first.holder}}};
    expect(engine, {{"CN=dpu by write", "write", "p/a-1", revoked},
                    {"CN=dpu by read", "read", "p/images", read_only}});
    alice.revoked_capabilities.clear();
    alice.generation = 2;
    expect(engine, {{"CN=dpu by write", "write", "p/a-1", changed},
                    {"CN=alice by own", "write", "p/a-1", changed},
                    {"CN=bob by bob", "read", "p/a-1", read_only}});
    alice.generation = 1;
    alice.revoked = true;
    expect(engine, {{"CN=dpu by write", "write", "p/a-1", ended},
                    {"CN=dpu by create", "create", "p/a-1", ended},
                    {"CN=dpu by write", "see", "p/a-1@alice", ended},
                    {"CN=bob by bob", "read", "p/a-1", read_only}});
    // The clock was set back behind a revocation that was dropped.
    alice.revoked = false;
    alice.clock_min = WallTime(std::chrono::seconds(1'800'000'001));
    expect(engine, {{"CN=dpu by write", "write", "p/a-1", behind},
                    {"CN=dpu by write", "write", "p/a-1", all, 1s},
                    {"CN=bob by bob", "read", "p/a-1", read_only}});
    engine.tenants["p"].erase("alice");
    expect(engine, {{"CN=dpu by write", "write", "p/a-1", "none: there is no such tenant"}});
}

TEST(Decide, DelegatedDpuUsesCapabilitiesOfItsHosts) {
    Model dpu;
    dpu.add_tenant("p", "alice", {{"subjects", "CN=alice; CN=a2"}, {"read", "r/x, images"}});
    dpu.add_tenant("p", "bob", {{"subjects", "CN=bob"}, {"read", "images"}});
    dpu.handed_over[{"p", "alice"}] = {use_of(Right::write, "mine"), use_of(Right::read, "run-*"),
                                       use_of(Right::write, "s", true), use_of(Right::create, "n")};
    expect(dpu, {{"CN=alice", "write", "p/mine", all},
                 {"CN=a2", "write", "p/mine", all},
                 {"CN=alice", "read", "p/mine", all},
                 {"CN=bob", "read", "p/mine", no},  // another tenant's host
                 {"CN=none", "read", "p/mine", no},
                 {"CN=alice", "write", "p/run-1", read_only},
                 {"CN=alice", "read", "p/run-1", read_only},
                 {"CN=alice", "write", "p/s", no},  // the record names no directory in it
                 {"CN=alice", "read", "p/n", no},
                 {"CN=alice", "create", "p/n", no},
                 {"CN=alice", "destroy", "p/mine", no},
                 {"CN=alice", "see", "p/mine", no},
                 {"CN=alice", "see", "p/mine@alice", owned},
                 {"CN=alice", "read", "p/r", "x (read)"},
                 {"CN=alice", "write", "p/images", read_only},
                 {"CN=alice", "write", "q/mine", no}});
}

TEST(Decide, DecisionIsCurrentUntilTheEpochChanges) {
    Model dpu{.access = {{"CN=a", {{"write", "p/*"}}}}, .valid_for = {{"p", 1s}}};
    PolicyDecider decider(dpu);
    const Decision kept = decider.decide(Request::of("CN=a", "write", "p/c"));
    EXPECT_TRUE(kept.is_current(decider.policy()));
    // An answer without news.
    const Policy renewed = decider.policy().renewed("p", Time::max());
    EXPECT_TRUE(kept.is_current(renewed));
    EXPECT_EQ(renewed.end_of("p"), Time::max());
    EXPECT_EQ(decider.policy().end_of("p"), Time(5001s));
    EXPECT_FALSE(kept.is_current(renewed.next({})));
    EXPECT_EQ(renewed.next({}).end_of("p"), Time::max());
    EXPECT_TRUE(decide(renewed.next({}), {.subject = "CN=a"}, {"p", "c"}, Wanted::see).is_none());
}

// The users of a host, by the settings or, in a pool where it has a tenant, by the tenant.
struct UserRow {
    const char* who;
    const char* pool;
    fs::UserClaim claim;
    std::vector<uint32_t> acts_as;  // user, group, other groups; empty: it is refused
};

TEST(Decide, UsersFollowSettingsOrTenant) {
    constexpr uint32_t nobody = fs::nobody;
    Model dpu{.access = {{"CN=any", {{"read", "p/*"}}},
                         {"CN=users", {{"users", "1000-1999, 5000"}, {"groups", "100-199"}}},
                         {"CN=root", {{"root_squash", "yes"}, {"users", "1000"}}},
                         {"CN=strict", {{"root_squash", "no"}, {"users", "1000"}}},
                         {"CN=squash", {{"squash", "1:2"}, {"users", "1000"}}},
                         {"CN=maps",
                          {{"uid_map", "1000:501000:10, 7:0:1"},
                           {"gid_map", "5:50:1"},
                           {"users", "7, 1000-1003"},
                           {"root_squash", "yes"}}},
                         {"CN=both", {{"squash", "3:4"}}},
                         {"CN=ended", {{"squash", "3:4"}}}}};
    dpu.add_tenant("p", "t", {{"subjects", "CN=both; CN=new"}, {"squash", "5:6"}});
    dpu.add_tenant("q", "t", {{"subjects", "CN=plain"}});
    dpu.add_tenant("p", "e", {{"subjects", "CN=ended"}, {"squash", "5:6"}}).revoked = true;
    const UserRow rows[] = {
        {"CN=any", "p", {0, 0, {0, 5}}, {0, 0, 0, 5}},
        {"CN=none", "p", {7, 8, {9}}, {7, 8, 9}},
        {"CN=users", "p", {1000, 100, {1, 150, 200, 199}}, {1000, 100, 150, 199}},
        {"CN=users", "p", {1999, 99, {}}, {1999, nobody}},
        {"CN=users", "p", {5000, 0, {0}}, {5000, nobody}},
        {"CN=users", "p", {2000, 100, {}}, {}},
        {"CN=users", "q", {0, 100, {}}, {}},
        // Root is squashed before `users` is looked at.
        {"CN=root", "p", {0, 0, {0, 5}}, {nobody, nobody}},
        {"CN=root", "p", {1000, 0, {0, 5}}, {1000, nobody, 5}},
        {"CN=root", "p", {nobody, 5, {}}, {}},
        {"CN=strict", "p", {0, 0, {}}, {}},
        {"CN=strict", "p", {1000, 0, {0}}, {1000, 0, 0}},
        {"CN=squash", "p", {7, 7, {7}}, {1, 2}},
        {"CN=squash", "p", {0, 0, {0}}, {1, 2}},
        // `users` has numbers of the host, before the map.
        {"CN=maps", "p", {1003, 5, {5, 6}}, {501003, 50, 50}},
        {"CN=maps", "p", {1004, 5, {}}, {}},
        {"CN=maps", "p", {501003, 5, {}}, {}},
        {"CN=maps", "p", {7, 6, {}}, {nobody, nobody}},  // no map gives root
        {"CN=maps", "p", {0, 5, {}}, {nobody, nobody}},
        {"CN=both", "p", {7, 7, {}}, {5, 6}},
        {"CN=both", "q", {7, 7, {}}, {3, 4}},
        {"CN=new", "p", {7, 7, {}}, {5, 6}},
        {"CN=new", "q", {7, 7, {}}, {7, 7}},
        {"CN=plain", "q", {0, 0, {}}, {nobody, nobody}},  // root is squashed for tenants
        {"CN=plain", "p", {0, 0, {}}, {0, 0}},
        {"CN=ended", "p", {7, 7, {}}, {3, 4}},
    };
    const PolicyDecider decider(dpu);
    for (const UserRow& row : rows) {
        const UserMapping users = decider.policy().principal(row.who, row.pool).users;
        fs::UserClaim claim = row.claim;
        std::vector<uint32_t> acts_as;
        if (const auto caller = users.caller_for(claim)) {
            acts_as = {caller->uid, caller->gid};
            acts_as.insert(acts_as.end(), caller->groups.begin(), caller->groups.end());
        }
        EXPECT_EQ(acts_as, row.acts_as) << row.who << " " << row.pool << " " << row.claim.uid;
    }
}

TEST(Decide, MaySettingsLimitRootOfAHost) {
    const Model dpu{.access = {{"CN=d", {{"may", "devices"}}},
                               {"CN=s", {{"may", "set_ids, privileged_attributes"}}}}};
    const PolicyDecider decider(dpu);
    EXPECT_TRUE(decider.policy().principal("CN=d", "p").users.may_make_devices);
    EXPECT_FALSE(decider.policy().principal("CN=d", "p").users.may_set_ids);
    EXPECT_TRUE(decider.policy().principal("CN=s", "p").users.may_set_ids);
    EXPECT_TRUE(decider.policy().principal("CN=s", "p").users.may_change_privileged);
    EXPECT_FALSE(decider.policy().principal("CN=n", "p").users.may_make_devices);
}

// Such a DPU owns at the engine what it creates for its hosts.
TEST(Decide, TenantOwnsNothingAtADpuWithRightsOfItsOwn) {
    Model dpu;
    const tenancy::Tenant alice = dpu.add_tenant("p", "alice", {{"subjects", "CN=alice"}});
    Parties parties;
    add_pushed(parties, "p", {{"alice", {.tenant = alice, .active = true}}}, false);
    const Policy policy(std::move(parties), 1);
    const Principal host = policy.principal("CN=alice", "p");
    EXPECT_EQ(host.tenant, "alice");
    EXPECT_EQ(host.owner, "");
    EXPECT_TRUE(decide(policy, host, {"p", "c", "alice"}, Wanted::destroy).is_none());
}

Policy policy_of(const AccessSettings& settings) {
    Report report;
    auto subjects = parse_access(settings, "f", report);
    EXPECT_TRUE(subjects) << report.text();
    return {{.subjects = std::move(*subjects)}, 1};
}

// A session ends if it does not.
TEST(Policy, WideRightsCoverNarrowOnes) {
    const auto of = [](const char* right, std::string_view place) {
        return policy_of({{"CN=a", {{right, std::string(place)}}}});
    };
    struct Case {
        std::string_view wide, narrow;
        bool covers, back;
    };
    for (const Case& each : std::initializer_list<Case>{{"pool/*", "pool/run-*", true, false},
                                                        {"pool/run-*", "pool/run-1", true, false},
                                                        {"pool/run-1", "pool/run-1", true, true},
                                                        {"pool/run-1", "poo/run-1", false, false},
                                                        {"pool/c", "pool/c/a", true, false},
                                                        {"pool/*", "pool/c/a", true, false},
                                                        {"pool/c/a", "pool/c/a/b", true, false},
                                                        {"pool/c/a", "pool/c/a", true, true},
                                                        {"pool/c/a", "pool/c/ab", false, false},
                                                        {"pool/c/a", "pool/d/a", false, false},
                                                        {"pool/c*", "pool/c/a", true, false}}) {
        const Policy wide = of("read", each.wide), narrow = of("read", each.narrow);
        const std::string_view pool = each.narrow.substr(0, each.narrow.find('/'));
        EXPECT_EQ(wide.covers(narrow, "CN=a", pool), each.covers) << each.wide << each.narrow;
        EXPECT_EQ(narrow.covers(wide, "CN=a", "pool"), each.back) << each.wide << each.narrow;
        EXPECT_TRUE(narrow.covers(wide, "CN=b", "pool"));
        EXPECT_TRUE(narrow.covers(wide, "CN=a", "other"));
        // The right to write includes reading.
        EXPECT_EQ(of("write", each.wide).covers(narrow, "CN=a", pool), each.covers);
        EXPECT_FALSE(wide.covers(of("write", each.narrow), "CN=a", pool));
    }
    const Policy squashed = policy_of({{"CN=a", {{"read", "pool/c"}, {"squash", "1:1"}}}});
    EXPECT_FALSE(squashed.covers(of("read", "pool/c"), "CN=a", "pool"));
    EXPECT_FALSE(Policy().covers(squashed, "CN=a", "pool"));
}

}  // namespace
}  // namespace ros2s::rights::test
