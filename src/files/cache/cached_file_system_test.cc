// CachedFileSystem: the contract suite, with and without leases below; what costs no request; own
// changes, changes by others, lost leases, rights, references and bounds.
#include "cached_file_system.h"

#include <fmt/format.h>

#include "ros2s/fs/contract/contract.h"
#include "ros2s/runtime/nursery.h"
#include "test_support/cached_dfs.h"

namespace ros2s::cache {
namespace {

using fs::Attributes;
using fs::NodeId;
using fs::root_node;

// ---- the contract ---------------------------------------------------------------------------

class WithoutLeases final : public fs::contract::Subject {
  public:
    explicit WithoutLeases(uint64_t seed) : dfs_(seed), cached_(dfs_.world.core(), *dfs_.dfs) {}
    fs::FileSystem& file_system() override { return cached_; }
    sim::World& world() override { return dfs_.world; }

  private:
    OneDfs dfs_;
    CachedFileSystem cached_;
};

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
    "CachedWithoutLeases", {.property_runs = 3},
    [](uint64_t seed) { return std::make_unique<WithoutLeases>(seed); });
const bool registered_with_leases = fs::contract::register_contract(
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

class Caches : public testing::Test {
  protected:
    ~Caches() override {
        for (CacheClient* const each : {&a, &b}) world.run(each->cached->close_all());
        for (const CacheClient* const each : {&a, &b}) {
            if (!counts_references) continue;
            for (const auto& [node, count] : each->lending.references) {
                EXPECT_EQ(count, 0) << "references to node " << node;
            }
        }
    }
    Task<NodeId> file(CacheClient& client, NodeId parent, std::string name, mode_t mode = 0644) {
        const auto made = co_await client.cached->mknod(call, parent, name, S_IFREG | mode, 0, {});
        EXPECT_TRUE(made);
        co_return made ? made->node : NodeId{};
    }
    Task<NodeId> directory(CacheClient& client, NodeId parent, std::string name,
                           mode_t mode = 0755) {
        const auto made = co_await client.cached->mkdir(call, parent, name, mode, {});
        EXPECT_TRUE(made);
        co_return made ? made->node : NodeId{};
    }
    Task<uint64_t> write(CacheClient& client, NodeId node, std::string text) {
        const auto opened = co_await client.cached->open(call, node, {.write = true});
        EXPECT_TRUE(opened);
        if (!opened) co_return 0;
        const auto written = co_await client.cached->pwrite(call, opened->handle,
                                                            fs::Window::local(as_bytes(text)), 0);
        EXPECT_TRUE(co_await client.cached->close(call, opened->handle));
        co_return written ? *written : 0;
    }
    Task<Result<std::string>> read(CacheClient& client, fs::FileHandle handle) {
        std::string text(100, '?');
        const auto bytes = co_await client.cached->pread(
            call, handle, fs::Window::local(std::as_writable_bytes(std::span(text))), 0);
        if (!bytes) co_return fail(bytes.error());
        text.resize(*bytes);
        co_return text;
    }
    template <class T>
    static std::optional<Code> code(const Result<T>& result) {
        return result ? std::optional<Code>{} : result.error().code;
    }

    OneDfs dfs{1, std::chrono::microseconds(50)};
    sim::World& world = dfs.world;
    LeaseTable table{world.core()};
    CacheClient a{world, table, *dfs.checked}, b{world, table, *dfs.checked};
    Call call;
    bool counts_references = false;  // the test forgets all that it looked up

    Task<> looks_up_again();
    Task<> opens_again();
    Task<> walks_again();
    Task<> lists_and_looks_up();
    Task<> covers_results();
    Task<> sees_changes_of_others();
    Task<> drops_own_changes();
    Task<> recall_overtakes();
    Task<> write_beside_attributes();
    Task<> entry_of_a_later_reply();
    Task<> removal_beside_change_of_another();
    Task<> rename_beside_change_of_another();
    Task<> removal_beside_own_rename();
    Task<> unknown_outcome();
    Task<> removal_of_an_unknown_name();
    Task<> keeps_open_file();
    Task<> keeps_open_file_of_own_removal();
    Task<> loses_open_file();
    Task<> loses_leases_while_opening();
    Task<> expires();
    Task<> checks_rights();
    Task<> balances_references();
    Task<> stays_small(CacheClient& small);
};

constexpr std::optional<Code> fine{};
#define CO_ASSERT(...)                     \
    do {                                   \
        if (!(__VA_ARGS__)) {              \
            ADD_FAILURE() << #__VA_ARGS__; \
            co_return;                     \
        }                                  \
    } while (false)

Task<> Caches::looks_up_again() {
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
TEST_F(Caches, WarmLookUpsCostNothing) { world.run(looks_up_again()); }

Task<> Caches::opens_again() {
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
TEST_F(Caches, FileOpensWithoutRequest) { world.run(opens_again()); }

Task<> Caches::walks_again() {
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
TEST_F(Caches, WarmPathCostsNothing) { world.run(walks_again()); }

Task<> Caches::lists_and_looks_up() {
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
TEST_F(Caches, ListingFillsTheCache) { world.run(lists_and_looks_up()); }

// With and without requests.
Task<> Caches::covers_results() {
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
TEST_F(Caches, CallersGetTheLeases) { world.run(covers_results()); }

// ---- changes --------------------------------------------------------------------------------

Task<> Caches::sees_changes_of_others() {
    const NodeId top = co_await directory(a, root_node, "top");
    const NodeId node = co_await file(a, top, "f");
    const auto size = [](const Result<Attributes>& found) { return found ? found->size : 99; };
    const auto links = [](const Result<Attributes>& found) { return found ? found->links : 99; };
    EXPECT_EQ(size(co_await b.cached->lookup(call, top, "f")), 0U);
    EXPECT_EQ(co_await write(a, node, "text"), 4U);
    EXPECT_EQ(size(co_await b.cached->lookup(call, top, "f")), 4U);
    EXPECT_EQ(size(co_await b.cached->get_attributes(call, node)), 4U);
    EXPECT_EQ(code(co_await a.cached->set_attributes(call, node, {.size = 2})), fine);
    EXPECT_EQ(size(co_await b.cached->get_attributes(call, node)), 2U);
    EXPECT_EQ(code(co_await b.cached->lookup(call, top, "g")), Code::not_found);
    EXPECT_EQ(code(co_await a.cached->link(call, node, top, "g")), fine);
    EXPECT_EQ(links(co_await b.cached->lookup(call, top, "g")), 2U);
    EXPECT_EQ(links(co_await b.cached->lookup(call, top, "f")), 2U);
    EXPECT_EQ(code(co_await a.cached->unlink(call, top, "g")), fine);
    EXPECT_EQ(links(co_await b.cached->get_attributes(call, node)), 1U);
    EXPECT_EQ(code(co_await b.cached->lookup(call, top, "g")), Code::not_found);
    EXPECT_EQ(code(co_await a.cached->rename(call, top, "f", root_node, "h", {})), fine);
    EXPECT_EQ(code(co_await b.cached->lookup(call, top, "f")), Code::not_found);
    EXPECT_EQ(size(co_await b.cached->lookup(call, root_node, "h")), 2U);
    EXPECT_EQ(code(co_await a.cached->rmdir(call, root_node, "top")), fine);
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "top")), Code::not_found);
    EXPECT_NE(code(co_await b.cached->lookup(call, top, "f")), fine);
}
TEST_F(Caches, ChangesOfOthersAreSeen) { world.run(sees_changes_of_others()); }

Task<> Caches::drops_own_changes() {
    const NodeId top = co_await directory(a, root_node, "top");
    const NodeId node = co_await file(a, top, "f");
    const auto opened = co_await a.cached->open(call, node, {.write = true});
    CO_ASSERT(opened.has_value());
    const auto size = [&]() { return a.cached->get_attributes(call, node); };
    EXPECT_EQ((co_await size())->size, 0U);
    const std::string text = "text";
    const auto window = fs::Window::local(as_bytes(text));
    EXPECT_EQ(*co_await a.cached->pwrite(call, opened->handle, window, 10), 4U);
    EXPECT_EQ((co_await size())->size, 14U);
    EXPECT_EQ(code(co_await a.cached->allocate(call, opened->handle, 0, 20, false)), fine);
    EXPECT_EQ((co_await size())->size, 20U);
    const auto before = (co_await size())->changed;
    co_await sleep_for(world.core(), std::chrono::milliseconds(20));
    EXPECT_EQ(
        code(co_await a.cached->set_xattr(call, node, "user.a", as_bytes(text), fs::SetXattr::any)),
        fine);
    EXPECT_GT((co_await size())->changed, before);
    EXPECT_EQ(code(co_await a.cached->close(call, opened->handle)), fine);

    // The new name is known without a request, and so is the old one's end.
    EXPECT_EQ(code(co_await a.cached->lookup(call, top, "f")), fine);
    EXPECT_EQ(code(co_await a.cached->lookup(call, top, "g")), Code::not_found);
    EXPECT_EQ(code(co_await a.cached->rename(call, top, "f", top, "g", {})), fine);
    a.lending.requests = 0;
    EXPECT_EQ(code(co_await a.cached->lookup(call, top, "f")), Code::not_found);
    EXPECT_EQ(a.lending.requests, 0U);
    EXPECT_EQ((co_await a.cached->lookup(call, top, "g"))->node, node);
    EXPECT_EQ(code(co_await a.cached->link(call, node, top, "f")), fine);
    EXPECT_EQ(code(co_await a.cached->rename(call, top, "f", top, "g", {})), fine);
    EXPECT_EQ((co_await a.cached->lookup(call, top, "f"))->node, node) << "both names stay";
}
TEST_F(Caches, OwnChangesAreSeen) { world.run(drops_own_changes()); }

Task<> look_up_into(CachedFileSystem& files, NodeId parent, Result<Attributes>& found) {
    const Call call;
    found = co_await files.lookup(call, parent, "f");
}
Task<> attributes_into(CachedFileSystem& files, NodeId node, Result<Attributes>& found) {
    const Call call;
    found = co_await files.get_attributes(call, node);
}

// The reply was read before the change, and arrives after the recall.
Task<> Caches::recall_overtakes() {
    const NodeId node = co_await file(a, root_node, "f");
    Event may_reply(world.core());
    Result<Attributes> found = fail(Code::io);
    Nursery nursery(world.core(), 1);
    b.lending.reply = &may_reply;
    co_await nursery.spawn(look_up_into(*b.cached, root_node, found));
    co_await sleep_for(world.core(), std::chrono::milliseconds(10));
    EXPECT_EQ(co_await write(a, node, "text"), 4U);
    b.lending.reply = nullptr;
    may_reply.set();
    co_await nursery.join();
    CO_ASSERT(found.has_value());
    EXPECT_EQ(found->size, 0U) << "it was true when it was asked";
    EXPECT_EQ((co_await b.cached->lookup(call, root_node, "f"))->size, 4U);
}
TEST_F(Caches, ReplyOlderThanRecallIsNotKept) { world.run(recall_overtakes()); }

Task<> Caches::write_beside_attributes() {
    const NodeId node = co_await file(a, root_node, "f");
    const auto opened = co_await a.cached->open(call, node, {.write = true});
    CO_ASSERT(opened.has_value());
    const std::string text = "text";
    const auto window = fs::Window::local(as_bytes(text));
    EXPECT_EQ(*co_await a.cached->pwrite(call, opened->handle, window, 0), 4U);
    Event may_reply(world.core());
    Result<Attributes> found = fail(Code::io);
    Nursery nursery(world.core(), 1);
    a.lending.reply = &may_reply;
    co_await nursery.spawn(attributes_into(*a.cached, node, found));
    co_await sleep_for(world.core(), std::chrono::milliseconds(10));
    a.lending.reply = nullptr;
    EXPECT_EQ(*co_await a.cached->pwrite(call, opened->handle, window, 4), 4U);
    may_reply.set();
    co_await nursery.join();
    CO_ASSERT(found.has_value());
    EXPECT_EQ(found->size, 4U);
    EXPECT_EQ((co_await a.cached->get_attributes(call, node))->size, 8U);
    EXPECT_EQ(code(co_await a.cached->close(call, opened->handle)), fine);
}
TEST_F(Caches, ReplyBesideOwnWriteIsNotKept) { world.run(write_beside_attributes()); }

// The reply came without a lease. A lease of a later reply does not cover it.
Task<> Caches::entry_of_a_later_reply() {
    const NodeId node = co_await file(a, root_node, "f");
    Event may_reply(world.core());
    Result<Attributes> found = fail(Code::io);
    Nursery nursery(world.core(), 1);
    table.gives = false;
    b.lending.reply = &may_reply;
    co_await nursery.spawn(attributes_into(*b.cached, node, found));
    co_await sleep_for(world.core(), std::chrono::milliseconds(10));
    table.gives = true;
    b.lending.reply = nullptr;
    EXPECT_EQ(co_await write(a, node, "text"), 4U);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->size, 4U);
    may_reply.set();
    co_await nursery.join();
    CO_ASSERT(found.has_value());
    EXPECT_EQ(found->size, 0U);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->size, 4U);
}
TEST_F(Caches, LeaseOfLaterReplyDoesNotCoverEarlierOne) { world.run(entry_of_a_later_reply()); }

Task<> unlink_at(CachedFileSystem& files, NodeId parent, Result<>& done) {
    const Call call;
    done = co_await files.unlink(call, parent, "f");
}
Task<> rename_at(CachedFileSystem& files, NodeId parent, Result<>& done) {
    const Call call;
    done = co_await files.rename(call, parent, "f", parent, "g", {});
}

// The name leads to another node when the removal is done.
Task<> Caches::removal_beside_change_of_another() {
    EXPECT_TRUE(co_await file(a, root_node, "f") != NodeId{});
    const NodeId node = co_await file(a, root_node, "m");
    EXPECT_EQ(code(co_await a.cached->link(call, node, root_node, "other")), fine);
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    Event may_begin(world.core());
    Result<> done = fail(Code::io);
    Nursery nursery(world.core(), 1);
    b.lending.request = &may_begin;
    co_await nursery.spawn(unlink_at(*b.cached, root_node, done));
    co_await sleep_for(world.core(), std::chrono::milliseconds(10));
    b.lending.request = nullptr;
    EXPECT_EQ(code(co_await a.cached->rename(call, root_node, "m", root_node, "f", {})), fine);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->links, 2U);
    may_begin.set();
    co_await nursery.join();
    EXPECT_EQ(code(done), fine);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->links, 1U);
}
TEST_F(Caches, RemovalOfNameThatOthersReplacedIsSeen) {
    world.run(removal_beside_change_of_another());
}

Task<> Caches::rename_beside_change_of_another() {
    const NodeId old = co_await file(a, root_node, "f");
    const NodeId node = co_await file(a, root_node, "m");
    EXPECT_EQ(code(co_await a.cached->link(call, old, root_node, "other")), fine);
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "g")), Code::not_found);
    Event may_begin(world.core());
    Result<> done = fail(Code::io);
    Nursery nursery(world.core(), 1);
    b.lending.request = &may_begin;
    co_await nursery.spawn(rename_at(*b.cached, root_node, done));
    co_await sleep_for(world.core(), std::chrono::milliseconds(10));
    b.lending.request = nullptr;
    EXPECT_EQ(code(co_await a.cached->rename(call, root_node, "m", root_node, "f", {})), fine);
    may_begin.set();
    co_await nursery.join();
    EXPECT_EQ(code(done), fine);
    EXPECT_EQ((co_await b.cached->lookup(call, root_node, "other"))->node, old);
    EXPECT_EQ((co_await b.cached->lookup(call, root_node, "g"))->node, node);
}
TEST_F(Caches, RenameOfNameThatOthersReplacedIsSeen) {
    world.run(rename_beside_change_of_another());
}

Task<> Caches::removal_beside_own_rename() {
    EXPECT_TRUE(co_await file(a, root_node, "f") != NodeId{});
    const NodeId node = co_await file(a, root_node, "m");
    EXPECT_EQ(code(co_await a.cached->link(call, node, root_node, "other")), fine);
    for (const char* const name : {"f", "m"}) {
        EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, name)), fine);
    }
    Event may_begin(world.core());
    Result<> done = fail(Code::io);
    Nursery nursery(world.core(), 1);
    b.lending.request = &may_begin;
    co_await nursery.spawn(unlink_at(*b.cached, root_node, done));
    co_await sleep_for(world.core(), std::chrono::milliseconds(10));
    b.lending.request = nullptr;
    EXPECT_EQ(code(co_await b.cached->rename(call, root_node, "m", root_node, "f", {})), fine);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->links, 2U);
    may_begin.set();
    co_await nursery.join();
    EXPECT_EQ(code(done), fine);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->links, 1U);
}
TEST_F(Caches, RemovalBesideOwnRenameIsSeen) { world.run(removal_beside_own_rename()); }

Task<> Caches::unknown_outcome() {
    const NodeId node = co_await file(a, root_node, "f");
    EXPECT_EQ(code(co_await a.cached->get_attributes(call, node)), fine);
    a.lending.loses_replies = true;
    a.lending.lost_reply = Code::deadline;
    EXPECT_EQ(code(co_await a.cached->set_attributes(call, node, {.size = 4})), Code::deadline);
    a.lending.loses_replies = false;
    a.lending.requests = 0;
    EXPECT_EQ((co_await a.cached->get_attributes(call, node))->size, 4U);
    EXPECT_EQ((co_await a.cached->get_attributes(call, node))->size, 4U);
    EXPECT_EQ(a.lending.requests, 2U) << "the change may still run";
    co_await sleep_for(world.core(), std::chrono::seconds(31));
    for (int i = 0; i < 3; ++i) (void)co_await a.cached->get_attributes(call, node);
    EXPECT_EQ(a.lending.requests, 3U);
}
TEST_F(Caches, ChangeWithUnknownOutcomeKeepsNothingForAWhile) { world.run(unknown_outcome()); }

// Its node loses a name: attributes that were kept for any node are not used.
Task<> Caches::removal_of_an_unknown_name() {
    const NodeId node = co_await file(a, root_node, "f");
    EXPECT_EQ(code(co_await a.cached->link(call, node, root_node, "g")), fine);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->links, 2U);
    EXPECT_EQ(code(co_await b.cached->unlink(call, root_node, "g")), fine);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->links, 1U);
    EXPECT_EQ(code(co_await a.cached->link(call, node, root_node, "g")), fine);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->links, 2U);
    const std::vector<std::string_view> names{"g"};
    EXPECT_EQ(code((co_await b.cached->unlink_many(call, root_node, names))[0]), fine);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->links, 1U);
}
TEST_F(Caches, RemovalOfUnknownNameIsSeen) { world.run(removal_of_an_unknown_name()); }

// ---- files that are open only in the cache --------------------------------------------------

Task<> Caches::keeps_open_file() {
    const NodeId node = co_await file(a, root_node, "f");
    EXPECT_EQ(co_await write(a, node, "text"), 4U);
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    const auto opened = co_await b.cached->open(call, node, {});
    CO_ASSERT(opened.has_value());
    EXPECT_EQ(b.cached->metrics().opens.value(), 1U);
    EXPECT_EQ(code(co_await a.cached->unlink(call, root_node, "f")), fine);
    EXPECT_EQ(b.cached->metrics().opened.value(), 1U) << "before the file was removed";
    co_await sleep_for(world.core(), std::chrono::seconds(10));
    const auto text = co_await read(b, opened->handle);
    CO_ASSERT(text.has_value());
    EXPECT_EQ(*text, "text");
    EXPECT_EQ(code(co_await b.cached->close(call, opened->handle)), fine);
}
TEST_F(Caches, OpenFileSurvivesRemovalByOthers) { world.run(keeps_open_file()); }

Task<> Caches::keeps_open_file_of_own_removal() {
    const std::vector<std::string> names{"f", "g", "h", "i"};
    std::vector<fs::FileHandle> handles;
    std::vector<NodeId> nodes;
    for (const std::string& name : names) {
        nodes.push_back(co_await file(a, root_node, name));
        EXPECT_EQ(co_await write(a, nodes.back(), "text"), 4U);
        EXPECT_EQ(code(co_await a.cached->lookup(call, root_node, name)), fine);
        const auto opened = co_await a.cached->open(call, nodes.back(), {});
        CO_ASSERT(opened.has_value());
        handles.push_back(opened->handle);
    }
    EXPECT_EQ(a.cached->metrics().opens.value(), 4U);
    EXPECT_EQ(code(co_await a.cached->unlink(call, root_node, "f")), fine);
    EXPECT_EQ(code(co_await a.cached->rename(call, root_node, "h", root_node, "g", {})), fine);
    const std::vector<std::string_view> many{"i"};
    EXPECT_EQ(code((co_await a.cached->unlink_many(call, root_node, many))[0]), fine);
    co_await sleep_for(world.core(), std::chrono::seconds(10));
    for (const fs::FileHandle handle : handles) {
        const auto text = co_await read(a, handle);
        EXPECT_EQ(code(text), fine);
        EXPECT_EQ(code(co_await a.cached->close(call, handle)), fine);
    }

    // The names are not kept.
    const std::vector<std::string_view> unknown{"u", "v", "w"};
    handles.clear();
    for (const std::string_view name : unknown) {
        const NodeId node = co_await file(a, root_node, std::string(name));
        EXPECT_EQ(code(co_await b.cached->get_attributes(call, node)), fine);
        const auto opened = co_await b.cached->open(call, node, {});
        CO_ASSERT(opened.has_value());
        handles.push_back(opened->handle);
    }
    EXPECT_EQ(b.cached->metrics().opened.value(), 0U);
    EXPECT_EQ(code(co_await b.cached->unlink(call, root_node, "u")), fine);
    EXPECT_EQ(code(co_await b.cached->rename(call, root_node, "v", root_node, "w", {})), fine);
    co_await sleep_for(world.core(), std::chrono::seconds(10));
    for (const fs::FileHandle handle : handles) {
        EXPECT_EQ(code(co_await read(b, handle)), fine);
        EXPECT_EQ(code(co_await b.cached->close(call, handle)), fine);
    }
}
TEST_F(Caches, OpenFileSurvivesOwnRemoval) { world.run(keeps_open_file_of_own_removal()); }

// The server has ended the lease without asking.
Task<> Caches::loses_open_file() {
    const NodeId node = co_await file(a, root_node, "f");
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    const auto opened = co_await b.cached->open(call, node, {});
    const auto closed = co_await b.cached->open(call, node, {});
    CO_ASSERT(opened && closed);
    table.given.clear();
    EXPECT_EQ(code(co_await a.cached->unlink(call, root_node, "f")), fine);
    co_await sleep_for(world.core(), std::chrono::seconds(10));
    co_await b.lending.leases()->lose_all();
    EXPECT_EQ(code(co_await read(b, opened->handle)), Code::stale);
    EXPECT_EQ(code(b.cached->path_report(opened->handle)), Code::stale);
    EXPECT_EQ(code(co_await b.cached->close(call, opened->handle)), fine);
    EXPECT_EQ(code(co_await b.cached->close(call, closed->handle)), fine);
    EXPECT_EQ(b.cached->nodes(), 0U);
    EXPECT_EQ(b.cached->names(), 0U);
}
TEST_F(Caches, FileThatIsGoneIsStale) { world.run(loses_open_file()); }

Task<> read_at(CachedFileSystem& files, fs::FileHandle handle, Result<uint64_t>& done) {
    const Call call;
    std::string text(10, '?');
    done = co_await files.pread(call, handle,
                                fs::Window::local(std::as_writable_bytes(std::span(text))), 0);
}

// As when the connection is lost: the file cannot be opened below before the leases have ended.
Task<> Caches::loses_leases_while_opening() {
    const NodeId node = co_await file(a, root_node, "f");
    EXPECT_EQ(co_await write(a, node, "x"), 1U);
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    const auto opened = co_await b.cached->open(call, node, {});
    CO_ASSERT(opened.has_value());
    Event may_reply(world.core());
    Result<uint64_t> done = fail(Code::io);
    Nursery nursery(world.core(), 1);
    b.lending.reply = &may_reply;
    co_await nursery.spawn(read_at(*b.cached, opened->handle, done));
    co_await sleep_for(world.core(), std::chrono::milliseconds(10));
    const Time before = world.now();
    co_await b.lending.leases()->lose_all();
    EXPECT_LE(world.now() - before, std::chrono::seconds(2));
    b.lending.reply = nullptr;
    may_reply.set();
    co_await nursery.join();
    EXPECT_EQ(code(done), fine);
    EXPECT_EQ(code(co_await b.cached->close(call, opened->handle)), fine);
}
TEST_F(Caches, LossOfLeasesDoesNotWaitForOpens) { world.run(loses_leases_while_opening()); }

// ---- leases, rights, references, bounds -----------------------------------------------------

Task<> Caches::expires() {
    EXPECT_TRUE(co_await file(a, root_node, "f") != NodeId{});
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    b.lending.requests = 0;
    co_await sleep_for(world.core(), std::chrono::hours(2));
    table.given.clear();
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    EXPECT_EQ(b.lending.requests, 2U);
}
TEST_F(Caches, ExpiredLeaseIsNotUsed) { world.run(expires()); }

Task<> Caches::checks_rights() {
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
TEST_F(Caches, RightsAreThoseBelow) { world.run(checks_rights()); }

Task<> Caches::balances_references() {
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
TEST_F(Caches, ReferencesAreBalanced) { world.run(balances_references()); }

Task<> Caches::stays_small(CacheClient& small) {
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
TEST_F(Caches, SizeIsBounded) {
    CacheClient small(world, table, *dfs.checked, {.nodes_max = 100, .names_max = 50});
    world.run(stays_small(small));
}

}  // namespace
}  // namespace ros2s::cache
