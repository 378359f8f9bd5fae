// CachedFileSystem: the contract suite; what costs no request; leases, rights, references and
// bounds.
#include <fmt/format.h>

#include "ros2s/fs/contract/acl_text.h"
#include "ros2s/fs/contract/contract.h"
#include "test_support/caches.h"

namespace ros2s::cache {
namespace {

// ---- the contract ---------------------------------------------------------------------------

class WithLeases final : public fs::contract::Subject {
  public:
    WithLeases(uint64_t seed, bool checks, CachedFileSystem::Options options = {})
        : dfs_(seed),
          table_(dfs_.world.core()),
          client_(dfs_.world, table_, checks ? *dfs_.checked : *dfs_.dfs, std::move(options)) {
        client_.lending.checks_references = false;
        if (checks)
            caller_ = fs::Caller{.uid = 0,
                                 .gid = 0,
                                 .may_make_devices = true,
                                 .may_set_ids = true,
                                 .may_change_privileged = true};
    }
    fs::FileSystem& file_system() override { return *client_.cached; }
    sim::World& world() override { return dfs_.world; }
    [[nodiscard]] const fs::Caller* caller() const override {
        return caller_ ? &*caller_ : nullptr;
    }

  private:
    OneDfs dfs_;
    LeaseTable table_;
    CacheClient client_;
    std::optional<fs::Caller> caller_;
};

const bool registered = fs::contract::register_contract(
    "Cached", {.property_runs = 5},
    [](uint64_t seed) { return std::make_unique<WithLeases>(seed, false); });
const bool registered_as_root = fs::contract::register_contract(
    "CachedAsRoot", {.property_runs = 3},
    [](uint64_t seed) { return std::make_unique<WithLeases>(seed, true); });
const bool registered_small =
    fs::contract::register_contract("CachedSmall", {.property_runs = 3}, [](uint64_t seed) {
        return std::make_unique<WithLeases>(
            seed, false, CachedFileSystem::Options{.nodes_max = 3, .names_max = 2});
    });

// ---- what costs no request ------------------------------------------------------------------

class CachedUse : public Caches {
  protected:
    Task<> looks_up_again();
    Task<> opens_again();
    Task<> walks_again();
    Task<> walks_as_user();
    Task<> creates_deep();
    Task<> lists_and_looks_up();
    Task<> looks_up_ahead();
    Task<> covers_results();
    Task<> expires();
    Task<> checks_rights();
    Task<> knows_lists();
    Task<> knows_absent_attributes();
    Task<> balances_references();
    Task<> stays_small(CacheClient& small);
};

Task<> CachedUse::looks_up_again() {
    const NodeId top = co_await directory(a, root_node, "top");
    const NodeId node = co_await file(a, top, "f");
    const auto link = co_await a.cached->symlink(call, top, "l", "f", {});
    CO_ASSERT(link.has_value());
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "top")), fine);
    EXPECT_EQ(code(co_await b.cached->lookup(call, top, "f")), fine);
    EXPECT_EQ(code(co_await b.cached->lookup(call, top, "l")), fine);
    EXPECT_EQ(code(co_await b.cached->lookup(call, top, "absent")), Code::not_found);
    EXPECT_EQ(*co_await b.cached->readlink(call, link->node), "f");
    b.lending.requests = 0;
    const auto found = co_await b.cached->lookup(call, top, "f");
    CO_ASSERT(found.has_value());
    EXPECT_EQ(found->node, node);
    EXPECT_EQ(code(co_await b.cached->lookup(call, top, "absent")), Code::not_found);
    EXPECT_EQ(code(co_await b.cached->get_attributes(call, node)), fine);
    EXPECT_EQ(*co_await b.cached->readlink(call, link->node), "f");
    const std::vector<std::string_view> names{"f", "absent", "l"};
    const auto many = co_await b.cached->lookup_many(call, top, names);
    CO_ASSERT(many.size() == 3);
    EXPECT_EQ(code(many[1]), Code::not_found);
    EXPECT_EQ(many[2]->node, link->node);
    EXPECT_EQ(b.lending.requests, 0U);
    const std::vector<std::string_view> some{"f", "other", "l"};
    EXPECT_EQ(code((co_await b.cached->lookup_many(call, top, some))[2]), fine);
    EXPECT_EQ(b.lending.requests, 1U) << "for the name that is not kept";
}
TEST_F(CachedUse, WarmLookUpsCostNothing) { world.run(looks_up_again()); }

Task<> CachedUse::opens_again() {
    const NodeId node = co_await file(a, root_node, "f");
    EXPECT_EQ(co_await write(a, node, "text"), 4U);
    EXPECT_EQ(code(co_await a.cached->lookup(call, root_node, "f")), fine);
    a.lending.requests = 0;
    const auto opened = co_await a.cached->open(call, node, {});
    CO_ASSERT(opened.has_value());
    EXPECT_EQ(opened->attributes.size, 4U);
    EXPECT_EQ(code(a.cached->path_report(opened->handle)), fine);
    EXPECT_EQ(code(co_await a.cached->close(call, opened->handle)), fine);
    EXPECT_EQ(a.lending.requests, 0U);
    EXPECT_EQ(code(co_await a.cached->close(call, opened->handle)), Code::stale);
    EXPECT_EQ(code(co_await read(a, opened->handle)), Code::stale);

    const auto again = co_await a.cached->open(call, node, {});
    CO_ASSERT(again.has_value());
    a.lending.requests = 0;
    EXPECT_EQ(*co_await read(a, again->handle), "text");
    EXPECT_EQ(a.lending.requests, 2U) << "opened and read";
    EXPECT_EQ(*co_await read(a, again->handle), "text");
    EXPECT_EQ(a.lending.requests, 3U);
    EXPECT_EQ(code(co_await a.cached->close(call, again->handle)), fine);
    EXPECT_EQ(a.lending.requests, 4U);

    EXPECT_EQ(code(co_await a.cached->get_attributes(call, root_node)), fine);
    const auto listing = co_await a.cached->open(call, root_node, {});
    CO_ASSERT(listing.has_value());
    a.lending.requests = 0;
    const auto entries = co_await a.cached->readdir(call, listing->handle, 0, 10);
    CO_ASSERT(entries.has_value());
    EXPECT_EQ(entries->size(), 1U);
    EXPECT_EQ(a.lending.requests, 2U);
    EXPECT_EQ(code(co_await a.cached->close(call, listing->handle)), fine);
    EXPECT_EQ(a.cached->metrics().opens.value(), 3U);
    EXPECT_EQ(a.cached->metrics().opened.value(), 2U);
}
TEST_F(CachedUse, FileOpensWithoutRequest) { world.run(opens_again()); }

Task<> CachedUse::walks_again() {
    const NodeId top = co_await directory(a, root_node, "top");
    const NodeId inner = co_await directory(a, top, "inner");
    const NodeId node = co_await file(a, inner, "f");
    const fs::PathOpen how{};
    auto opened = co_await b.cached->open_path(call, "top/inner/f", how);
    CO_ASSERT(opened.has_value());
    EXPECT_EQ(code(co_await b.cached->close(call, opened->handle)), fine);
    b.lending.requests = 0;
    opened = co_await b.cached->open_path(call, "top/inner/f", how);
    CO_ASSERT(opened.has_value());
    EXPECT_EQ(opened->attributes.node, node);
    EXPECT_EQ(code(co_await b.cached->close(call, opened->handle)), fine);
    const auto walked = co_await b.cached->walk(call, "top/inner/f", fs::LastLink::keep);
    CO_ASSERT(walked.has_value());
    EXPECT_EQ(walked->attributes->node, node);
    EXPECT_EQ(b.lending.requests, 0U);
}
TEST_F(CachedUse, WarmPathCostsNothing) { world.run(walks_again()); }

Task<> CachedUse::walks_as_user() {
    const fs::Caller user{.uid = 1000, .gid = 1000};
    const Call as_user{.caller = &user};
    EXPECT_TRUE(co_await file(a, root_node, "f") != NodeId{});
    for (int i = 0; i < 3; ++i) {
        b.lending.requests = 0;
        EXPECT_EQ(code(co_await b.cached->walk(as_user, "f", fs::LastLink::keep)), fine);
    }
    EXPECT_EQ(b.lending.requests, 0U) << "the rights of the root are kept";
}
TEST_F(CachedUse, WarmPathOfAUserCostsNothing) { world.run(walks_as_user()); }

// A creation changes the directory's times, which the next path does not need.
Task<> CachedUse::creates_deep() {
    const NodeId top = co_await directory(a, root_node, "top");
    EXPECT_TRUE(co_await directory(a, top, "inner") != NodeId{});
    const fs::PathOpen how{
        .flags = {.write = true, .exclusive = true}, .creates = true, .mode = 0644};
    for (int i = 0; i < 3; ++i) {
        a.lending.requests = 0;
        const auto opened =
            co_await a.cached->open_path(call, fmt::format("top/inner/f{}", i), how);
        CO_ASSERT(opened.has_value());
        EXPECT_EQ(a.lending.requests, 1U);
        EXPECT_EQ(code(co_await a.cached->close(call, opened->handle)), fine);
    }
}
TEST_F(CachedUse, CreationInKnownDirectoryIsOneRequest) { world.run(creates_deep()); }

Task<> CachedUse::lists_and_looks_up() {
    const NodeId top = co_await directory(a, root_node, "top");
    for (int i = 0; i < 5; ++i) co_await file(a, top, fmt::format("f{}", i));
    const auto opened = co_await b.cached->open(call, top, {});
    CO_ASSERT(opened.has_value());
    const auto listed = co_await b.cached->readdir_many(call, top, opened->handle, 0, 100);
    CO_ASSERT(listed && listed->size() == 5);
    EXPECT_EQ(code(co_await b.cached->close(call, opened->handle)), fine);
    b.lending.requests = 0;
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(code(co_await b.cached->lookup(call, top, fmt::format("f{}", i))), fine);
    }
    EXPECT_EQ(b.lending.requests, 0U);
}
TEST_F(CachedUse, ListingFillsTheCache) { world.run(lists_and_looks_up()); }

// As a program that reads names first, and then looks up each.
Task<> CachedUse::looks_up_ahead() {
    constexpr int count = 200;
    const NodeId top = co_await directory(a, root_node, "top");
    for (int i = 0; i < count; ++i) co_await file(a, top, fmt::format("f{}", i));
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "top")), fine);
    const auto opened = co_await b.cached->open(call, top, {});
    CO_ASSERT(opened.has_value());
    const auto listed = co_await b.cached->readdir(call, opened->handle, 0, 1000);
    CO_ASSERT(listed && listed->size() == count);
    EXPECT_EQ(code(co_await b.cached->close(call, opened->handle)), fine);
    b.lending.requests = 0;
    for (const fs::DirectoryEntry& each : *listed) {
        const auto found = co_await b.cached->lookup(call, top, each.name);
        CO_ASSERT(found.has_value());
        EXPECT_EQ(found->node, each.node);
        b.cached->forget(found->node, 1);
    }
    EXPECT_LE(b.lending.requests, 2U + count / 64U);
    // Others of another directory, and in another order.
    b.lending.requests = 0;
    const NodeId other = co_await directory(a, root_node, "other");
    b.lending.requests = 0;
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(code(co_await b.cached->lookup(call, other, fmt::format("f{}", i))),
                  Code::not_found);
    }
    EXPECT_EQ(b.lending.requests, 10U);
}
TEST_F(CachedUse, ListedNamesAreLookedUpTogether) { world.run(looks_up_ahead()); }

// With and without requests.
Task<> CachedUse::covers_results() {
    const NodeId node = co_await file(a, root_node, "f");
    for (int i = 0; i < 2; ++i) {
        std::vector<Leased> leases;
        const Call covered{.leases = &leases};
        EXPECT_EQ(code(co_await b.cached->lookup(covered, root_node, "f")), fine);
        EXPECT_NE(b.cached->leases()->held(leases, root_node), 0U);
        EXPECT_NE(b.cached->leases()->held(leases, node), 0U);
        leases.clear();
        EXPECT_EQ(code(co_await b.cached->lookup(covered, root_node, "g")), Code::not_found);
        EXPECT_NE(b.cached->leases()->held(leases, root_node), 0U);
        leases.clear();
        EXPECT_EQ(code(co_await b.cached->get_attributes(covered, node)), fine);
        EXPECT_NE(b.cached->leases()->held(leases, node), 0U);
    }
    EXPECT_EQ(b.lending.requests, 2U);
}
TEST_F(CachedUse, CallersGetTheLeases) { world.run(covers_results()); }

// ---- leases, rights, references, bounds -----------------------------------------------------

Task<> CachedUse::expires() {
    EXPECT_TRUE(co_await file(a, root_node, "f") != NodeId{});
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    b.lending.requests = 0;
    co_await sleep_for(world.core(), std::chrono::hours(2));
    table.given.clear();
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    EXPECT_EQ(b.lending.requests, 2U);
}
TEST_F(CachedUse, ExpiredLeaseIsNotUsed) { world.run(expires()); }

Task<> CachedUse::checks_rights() {
    const fs::Caller owner{.uid = 1000, .gid = 1000}, other{.uid = 1001, .gid = 1001};
    const Call as_owner{.caller = &owner}, as_other{.caller = &other};
    const auto top = co_await a.cached->mkdir(call, root_node, "top", 0700, {1000, 1000});
    CO_ASSERT(top.has_value());
    const auto node = co_await a.cached->mknod(as_owner, top->node, "f", S_IFREG | 0600, 0, {});
    CO_ASSERT(node.has_value());
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(code(co_await a.cached->get_attributes(call, top->node)), fine);
        EXPECT_EQ(code(co_await a.cached->lookup(as_owner, top->node, "f")), fine);
        EXPECT_EQ(code(co_await a.cached->lookup(as_owner, top->node, "no")), Code::not_found);
        EXPECT_EQ(code(co_await a.cached->lookup(as_other, top->node, "f")), Code::denied);
        EXPECT_EQ(code(co_await a.cached->lookup(as_other, top->node, "no")), Code::denied);
        EXPECT_EQ(code(co_await a.cached->walk(as_other, "top/f", fs::LastLink::keep)),
                  Code::denied);
        EXPECT_EQ(code(co_await a.cached->walk(as_other, "top/..", fs::LastLink::keep)),
                  Code::denied);
        EXPECT_EQ(code(co_await a.cached->open(as_other, node->node, {})), Code::denied);
    }
    a.lending.requests = 0;
    EXPECT_EQ(code(co_await a.cached->lookup(as_owner, top->node, "f")), fine);
    const auto opened = co_await a.cached->open(as_owner, node->node, {});
    CO_ASSERT(opened.has_value());
    EXPECT_EQ(a.lending.requests, 0U);
    // It is opened with the rights that it was opened with.
    EXPECT_EQ(code(co_await a.cached->set_attributes(call, node->node, {.mode = 0})), fine);
    EXPECT_EQ(code(co_await read(a, opened->handle)), fine);
    EXPECT_EQ(code(co_await a.cached->close(call, opened->handle)), fine);

    EXPECT_EQ(code(co_await a.cached->set_attributes(call, top->node, {.mode = 0755})), fine);
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(code(co_await a.cached->lookup(as_other, top->node, "f")), fine);
    }
    EXPECT_EQ(code(co_await a.cached->set_attributes(call, top->node, {.mode = 0700})), fine);
    EXPECT_EQ(code(co_await a.cached->lookup(as_other, top->node, "f")), Code::denied);
}
TEST_F(CachedUse, RightsAreThoseBelow) { world.run(checks_rights()); }

Task<> CachedUse::knows_lists() {
    const fs::Caller owner{.uid = 1000, .gid = 1000}, named{.uid = 1001, .gid = 1001};
    const Call as_owner{.caller = &owner}, as_named{.caller = &named};
    const auto top = co_await a.cached->mkdir(call, root_node, "top", 0770, {1000, 1000});
    CO_ASSERT(top.has_value());
    const NodeId node = co_await file(a, top->node, "f");
    EXPECT_EQ(code(co_await a.cached->get_attributes(call, top->node)), fine);
    EXPECT_EQ(code(co_await a.cached->lookup(call, top->node, "f")), fine);
    a.lending.requests = 0;
    for (const NodeId each : {top->node, node}) {
        EXPECT_EQ(code(co_await a.cached->get_xattr(call, each, fs::access_acl_name)),
                  Code::no_attribute);
        EXPECT_EQ(code(co_await a.cached->get_xattr(call, each, fs::default_acl_name)),
                  Code::no_attribute);
    }
    EXPECT_EQ(a.lending.requests, 0U);
    // Another client's list counts at once, although the mode that is kept would refuse.
    const std::string list = fs::contract::acl("u::rwx,u:1001:--x,g::---,m::--x,o::---");
    EXPECT_EQ(code(co_await a.cached->lookup(as_named, top->node, "f")), Code::denied);
    EXPECT_EQ(code(co_await b.cached->set_xattr(call, top->node, fs::access_acl_name,
                                                as_bytes(list), fs::SetXattr::any)),
              fine);
    EXPECT_EQ(code(co_await a.cached->lookup(as_named, top->node, "f")), fine);
    EXPECT_EQ(code(co_await a.cached->get_xattr(call, top->node, fs::access_acl_name)), fine);
    EXPECT_EQ(code(co_await b.cached->remove_xattr(call, top->node, fs::access_acl_name)), fine);
    EXPECT_EQ(code(co_await a.cached->get_xattr(call, top->node, fs::access_acl_name)),
              Code::no_attribute);
    // And a list forbids what the mode would permit.
    const std::string none = fs::contract::acl("u::rwx,u:1001:---,g::rwx,m::rwx,o::rwx");
    EXPECT_EQ(code(co_await b.cached->set_xattr(call, top->node, fs::access_acl_name,
                                                as_bytes(none), fs::SetXattr::any)),
              fine);
    EXPECT_EQ(code(co_await a.cached->lookup(as_owner, top->node, "f")), fine);
    EXPECT_EQ(code(co_await a.cached->lookup(as_named, top->node, "f")), Code::denied);
}
TEST_F(CachedUse, AccessListsOfOthersCountAtOnce) { world.run(knows_lists()); }

Task<> CachedUse::knows_absent_attributes() {
    const NodeId node = co_await file(a, root_node, "f");
    const std::string_view label = "security.label", hidden = "trusted.a";
    EXPECT_EQ(code(co_await a.cached->get_xattr(call, node, label)), Code::no_attribute);
    a.lending.requests = 0;
    EXPECT_EQ(code(co_await a.cached->get_xattr(call, node, label)), Code::no_attribute);
    EXPECT_EQ(a.lending.requests, 0U);
    for (const uint64_t requests : {1U, 2U}) {
        EXPECT_EQ(code(co_await a.cached->get_xattr(call, node, hidden)), Code::no_attribute);
        EXPECT_EQ(a.lending.requests, requests) << "whether it is seen depends on the user";
    }
    const auto set = [&](CacheClient& client) {
        return client.cached->set_xattr(call, node, label, as_bytes(std::string_view("x")),
                                        fs::SetXattr::any);
    };
    for (CacheClient* const client : {&b, &a}) {
        EXPECT_EQ(code(co_await set(*client)), fine);
        EXPECT_EQ(co_await a.cached->get_xattr(call, node, label), Result<std::string>("x"));
        EXPECT_EQ(code(co_await client->cached->remove_xattr(call, node, label)), fine);
        EXPECT_EQ(code(co_await a.cached->get_xattr(call, node, label)), Code::no_attribute);
    }
}
TEST_F(CachedUse, AbsentAttributeIsKeptUntilItIsSet) { world.run(knows_absent_attributes()); }

Task<> CachedUse::balances_references() {
    counts_references = true;
    const NodeId top = co_await directory(a, root_node, "top");
    const NodeId node = co_await file(a, top, "f");
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(code(co_await a.cached->lookup(call, top, "f")), fine);
    }
    a.cached->forget(node, 4);
    EXPECT_GE(a.lending.references[node.value], 1);
    const auto opened = co_await a.cached->open(call, node, {});
    CO_ASSERT(opened.has_value());
    a.cached->forget(node, 2);
    EXPECT_GE(a.lending.references[node.value], 1) << "it is open";
    EXPECT_EQ(code(co_await a.cached->lookup(call, top, "f")), fine);
    EXPECT_EQ(co_await write(b, node, "text"), 4U);  // the lease ends
    EXPECT_GE(a.lending.references[node.value], 1);
    EXPECT_EQ(code(co_await a.cached->lookup(call, top, "f")), fine);
    a.cached->forget(node, 2);
    EXPECT_EQ(code(co_await a.cached->close(call, opened->handle)), fine);
    EXPECT_EQ(a.lending.references[node.value], 1) << "that of the cache";
    const auto walked = co_await a.cached->walk(call, "top/f", fs::LastLink::keep);
    CO_ASSERT(walked.has_value());
    a.cached->forget(node, 1);
    a.cached->forget(top, 2);
    EXPECT_EQ(code(co_await a.cached->unlink(call, top, "f")), fine);
}
TEST_F(CachedUse, ReferencesAreBalanced) { world.run(balances_references()); }

Task<> CachedUse::stays_small(CacheClient& small) {
    const NodeId top = co_await directory(small, root_node, "top");
    for (int i = 0; i < 1000; ++i) {
        const NodeId node = co_await file(small, top, fmt::format("f{}", i));
        small.cached->forget(node, 1);
        EXPECT_EQ(code(co_await small.cached->lookup(call, top, fmt::format("no{}", i))),
                  Code::not_found);
    }
    EXPECT_LE(small.cached->nodes(), 100U);
    EXPECT_LE(small.cached->names(), 50U);
    small.lending.requests = 0;
    EXPECT_EQ(code(co_await small.cached->lookup(call, top, "f999")), fine);
    EXPECT_EQ(small.lending.requests, 0U) << "the newest are kept";
    small.cached->forget((co_await small.cached->lookup(call, top, "f999"))->node, 2);
    small.cached->forget(top, 1);
    co_await small.cached->close_all();
    for (const auto& [node, count] : small.lending.references) EXPECT_EQ(count, 0) << node;
    std::erase(table.clients, &small.lending);
}
TEST_F(CachedUse, SizeIsBounded) {
    CacheClient small(world, table, *dfs.checked, {.nodes_max = 100, .names_max = 50});
    world.run(stays_small(small));
}

}  // namespace
}  // namespace ros2s::cache
