// CachedFileSystem and changes: its own, those of others, and replies and requests that they
// overtake.
#include "test_support/caches.h"

namespace ros2s::cache {
namespace {

class CachedChanges : public Caches {
  protected:
    Task<> sees_changes_of_others();
    Task<> drops_own_changes();
    Task<> knows_names_of_new_directory();
    Task<> knows_times_of_changed_directory();
    Task<> rename_of_a_name_that_is_just_made();
    Task<> recall_overtakes();
    Task<> write_beside_attributes();
    Task<> entry_of_a_later_reply();
    Task<> removal_beside_change_of_another();
    Task<> rename_beside_change_of_another();
    Task<> removal_beside_own_rename();
    Task<> unknown_outcome();
    Task<> removal_of_an_unknown_name();
};

Task<> CachedChanges::sees_changes_of_others() {
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
TEST_F(CachedChanges, ChangesOfOthersAreSeen) { world.run(sees_changes_of_others()); }

Task<> CachedChanges::drops_own_changes() {
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
TEST_F(CachedChanges, OwnChangesAreSeen) { world.run(drops_own_changes()); }

Task<> CachedChanges::knows_names_of_new_directory() {
    const NodeId top = co_await directory(a, root_node, "top");
    const NodeId node = co_await file(a, top, "f");
    a.lending.requests = 0;
    EXPECT_EQ(code(co_await a.cached->lookup(call, top, "g")), Code::not_found);
    EXPECT_EQ((co_await a.cached->lookup(call, top, "f"))->node, node);
    EXPECT_EQ(a.lending.requests, 0U);
    EXPECT_NE(code(co_await a.cached->lookup(call, top, "..")), Code::not_found);
    EXPECT_EQ(code(co_await a.cached->rename(call, top, "f", top, "g", {})), fine);
    EXPECT_EQ(code(co_await a.cached->unlink(call, top, "g")), fine);
    a.lending.requests = 0;
    for (const char* name : {"f", "g", "h"}) {
        EXPECT_EQ(code(co_await a.cached->lookup(call, top, name)), Code::not_found);
    }
    EXPECT_EQ(a.lending.requests, 0U);
    // The other client's name, and one of many, which are not kept.
    co_await file(b, top, "i");
    EXPECT_EQ(code(co_await a.cached->lookup(call, top, "i")), fine);
    const std::vector<std::string_view> many{"j", "k"};
    const NodeId other = co_await directory(a, top, "other");
    EXPECT_EQ((co_await a.cached->create_many(call, other, many, 0644, {})).size(), 2U);
    EXPECT_EQ(code(co_await a.cached->lookup(call, other, "j")), fine);
}
TEST_F(CachedChanges, AbsentNamesOfNewDirectoryNeedNoRequest) {
    world.run(knows_names_of_new_directory());
}

Task<> CachedChanges::knows_times_of_changed_directory() {
    const NodeId top = co_await directory(a, root_node, "top");
    const auto expect_known = [&](const char* what) -> Task<> {
        co_await sleep_for(world.core(), std::chrono::milliseconds(20));
        const uint64_t before = a.lending.requests;
        const auto kept = co_await a.cached->get_attributes(call, top);
        EXPECT_EQ(a.lending.requests, before) << what;
        const auto truth = co_await dfs.dfs->get_attributes(call, top);
        CO_ASSERT(kept && truth);
        EXPECT_EQ(kept->modified, truth->modified) << what;
        EXPECT_EQ(kept->changed, truth->changed) << what;
        EXPECT_EQ(kept->links, truth->links) << what;
    };
    co_await file(a, top, "f");
    co_await expect_known("a new file");
    co_await directory(a, top, "d");
    co_await expect_known("a new directory");
    EXPECT_EQ(code(co_await a.cached->rename(call, top, "f", top, "g", {})), fine);
    co_await expect_known("a new name");
    EXPECT_EQ(code(co_await a.cached->unlink(call, top, "g")), fine);
    co_await expect_known("a removed name");
    co_await file(b, top, "h");
    const auto now = co_await a.cached->get_attributes(call, top);
    const auto truth = co_await dfs.dfs->get_attributes(call, top);
    EXPECT_EQ(now->modified, truth->modified) << "another client's name";
}
TEST_F(CachedChanges, AttributesOfDirectoryWithOwnNewNameNeedNoRequest) {
    world.run(knows_times_of_changed_directory());
}

// Two threads of a program. The rename begins when its old name is known to be absent.
Task<> CachedChanges::rename_of_a_name_that_is_just_made() {
    const NodeId top = co_await directory(a, root_node, "top");
    const NodeId node = co_await file(a, top, "y");
    Result<> moved;
    const auto move = [](CachedFileSystem& files, NodeId in, Result<>& done) -> Task<> {
        const Call call;
        done = co_await files.rename(call, in, "x", in, "y", {});
    };
    Held held(world.core(), a.lending.request);
    co_await held.begin(move(*a.cached, top, moved));
    const NodeId made = co_await file(a, top, "x");
    co_await held.end();
    EXPECT_EQ(code(moved), fine);
    EXPECT_NE(made, node);
    EXPECT_EQ((co_await a.cached->lookup(call, top, "y"))->node, made);
    EXPECT_EQ(code(co_await a.cached->lookup(call, top, "x")), Code::not_found);
}
TEST_F(CachedChanges, RenamedNameThatWasJustMadeIsSeen) {
    world.run(rename_of_a_name_that_is_just_made());
}

Task<> look_up_into(CachedFileSystem& files, NodeId parent, Result<Attributes>& found) {
    const Call call;
    found = co_await files.lookup(call, parent, "f");
}
Task<> attributes_into(CachedFileSystem& files, NodeId node, Result<Attributes>& found) {
    const Call call;
    found = co_await files.get_attributes(call, node);
}

// The reply was read before the change, and arrives after the recall.
Task<> CachedChanges::recall_overtakes() {
    const NodeId node = co_await file(a, root_node, "f");
    Result<Attributes> found = fail(Code::io);
    Held held(world.core(), b.lending.reply);
    co_await held.begin(look_up_into(*b.cached, root_node, found), true);
    EXPECT_EQ(co_await write(a, node, "text"), 4U);
    co_await held.end();
    CO_ASSERT(found.has_value());
    EXPECT_EQ(found->size, 0U) << "it was true when it was asked";
    EXPECT_EQ((co_await b.cached->lookup(call, root_node, "f"))->size, 4U);
}
TEST_F(CachedChanges, ReplyOlderThanRecallIsNotKept) { world.run(recall_overtakes()); }

Task<> CachedChanges::write_beside_attributes() {
    const NodeId node = co_await file(a, root_node, "f");
    const auto opened = co_await a.cached->open(call, node, {.write = true});
    CO_ASSERT(opened.has_value());
    const std::string text = "text";
    const auto window = fs::Window::local(as_bytes(text));
    EXPECT_EQ(*co_await a.cached->pwrite(call, opened->handle, window, 0), 4U);
    Result<Attributes> found = fail(Code::io);
    Held held(world.core(), a.lending.reply);
    co_await held.begin(attributes_into(*a.cached, node, found));
    EXPECT_EQ(*co_await a.cached->pwrite(call, opened->handle, window, 4), 4U);
    co_await held.end();
    CO_ASSERT(found.has_value());
    EXPECT_EQ(found->size, 4U);
    EXPECT_EQ((co_await a.cached->get_attributes(call, node))->size, 8U);
    EXPECT_EQ(code(co_await a.cached->close(call, opened->handle)), fine);
}
TEST_F(CachedChanges, ReplyBesideOwnWriteIsNotKept) { world.run(write_beside_attributes()); }

// The reply came without a lease. A lease of a later reply does not cover it.
Task<> CachedChanges::entry_of_a_later_reply() {
    const NodeId node = co_await file(a, root_node, "f");
    Result<Attributes> found = fail(Code::io);
    table.gives = false;
    Held held(world.core(), b.lending.reply);
    co_await held.begin(attributes_into(*b.cached, node, found));
    table.gives = true;
    EXPECT_EQ(co_await write(a, node, "text"), 4U);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->size, 4U);
    co_await held.end();
    CO_ASSERT(found.has_value());
    EXPECT_EQ(found->size, 0U);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->size, 4U);
}
TEST_F(CachedChanges, LeaseOfLaterReplyDoesNotCoverEarlierOne) {
    world.run(entry_of_a_later_reply());
}

Task<> unlink_at(CachedFileSystem& files, NodeId parent, Result<>& done) {
    const Call call;
    done = co_await files.unlink(call, parent, "f");
}
Task<> rename_at(CachedFileSystem& files, NodeId parent, Result<>& done) {
    const Call call;
    done = co_await files.rename(call, parent, "f", parent, "g", {});
}

// The name leads to another node when the removal is done.
Task<> CachedChanges::removal_beside_change_of_another() {
    EXPECT_TRUE(co_await file(a, root_node, "f") != NodeId{});
    const NodeId node = co_await file(a, root_node, "m");
    EXPECT_EQ(code(co_await a.cached->link(call, node, root_node, "other")), fine);
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    Result<> done = fail(Code::io);
    Held held(world.core(), b.lending.request);
    co_await held.begin(unlink_at(*b.cached, root_node, done));
    EXPECT_EQ(code(co_await a.cached->rename(call, root_node, "m", root_node, "f", {})), fine);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->links, 2U);
    co_await held.end();
    EXPECT_EQ(code(done), fine);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->links, 1U);
}
TEST_F(CachedChanges, RemovalOfNameThatOthersReplacedIsSeen) {
    world.run(removal_beside_change_of_another());
}

Task<> CachedChanges::rename_beside_change_of_another() {
    const NodeId old = co_await file(a, root_node, "f");
    const NodeId node = co_await file(a, root_node, "m");
    EXPECT_EQ(code(co_await a.cached->link(call, old, root_node, "other")), fine);
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "f")), fine);
    EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, "g")), Code::not_found);
    Result<> done = fail(Code::io);
    Held held(world.core(), b.lending.request);
    co_await held.begin(rename_at(*b.cached, root_node, done));
    EXPECT_EQ(code(co_await a.cached->rename(call, root_node, "m", root_node, "f", {})), fine);
    co_await held.end();
    EXPECT_EQ(code(done), fine);
    EXPECT_EQ((co_await b.cached->lookup(call, root_node, "other"))->node, old);
    EXPECT_EQ((co_await b.cached->lookup(call, root_node, "g"))->node, node);
}
TEST_F(CachedChanges, RenameOfNameThatOthersReplacedIsSeen) {
    world.run(rename_beside_change_of_another());
}

Task<> CachedChanges::removal_beside_own_rename() {
    EXPECT_TRUE(co_await file(a, root_node, "f") != NodeId{});
    const NodeId node = co_await file(a, root_node, "m");
    EXPECT_EQ(code(co_await a.cached->link(call, node, root_node, "other")), fine);
    for (const char* const name : {"f", "m"}) {
        EXPECT_EQ(code(co_await b.cached->lookup(call, root_node, name)), fine);
    }
    Result<> done = fail(Code::io);
    Held held(world.core(), b.lending.request);
    co_await held.begin(unlink_at(*b.cached, root_node, done));
    EXPECT_EQ(code(co_await b.cached->rename(call, root_node, "m", root_node, "f", {})), fine);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->links, 2U);
    co_await held.end();
    EXPECT_EQ(code(done), fine);
    EXPECT_EQ((co_await b.cached->get_attributes(call, node))->links, 1U);
}
TEST_F(CachedChanges, RemovalBesideOwnRenameIsSeen) { world.run(removal_beside_own_rename()); }

Task<> CachedChanges::unknown_outcome() {
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
TEST_F(CachedChanges, ChangeWithUnknownOutcomeKeepsNothingForAWhile) {
    world.run(unknown_outcome());
}

// Its node loses a name: attributes that were kept for any node are not used.
Task<> CachedChanges::removal_of_an_unknown_name() {
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
TEST_F(CachedChanges, RemovalOfUnknownNameIsSeen) { world.run(removal_of_an_unknown_name()); }

}  // namespace
}  // namespace ros2s::cache
