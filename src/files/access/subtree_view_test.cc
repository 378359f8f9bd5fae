// SubtreeView: the contract suite on a view of a whole container; what a host with rights on
// directories sees; and the errors for names and nodes outside of them.
#include "subtree_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ros2s/fs/contract/contract.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/fs/path_walk.h"
#include "ros2s/object/test_support/memory_store.h"
#include "test_support/checked_dfs.h"

namespace ros2s::access {
namespace {

using fs::NodeId;
using fs::root_node;
using testing::ElementsAre;
using testing::HasSubstr;

// A container as a DPU has it.
class Container {
  public:
    explicit Container(uint64_t seed) : world(seed), memory_(world.core(), {}) {
        world.run(start());
    }
    sim::World world;
    CountingStore& store() { return counted_; }
    fs::FileSystem& all() { return *checked_; }

    Result<std::unique_ptr<SubtreeView>> view(std::vector<Subtree> subtrees, Report& report) {
        return world.run(SubtreeView::open(Call{}, world.core(), *checked_, std::move(subtrees),
                                           "pool/c", report));
    }

  private:
    Task<> start() {
        const Call call;
        Report report;
        const auto made = co_await counted_.create_container(call, {.label = "c"});
        EXPECT_TRUE(co_await fs::Dfs::format(call, counted_, made->id, world.core(), {}, report));
        auto mounted = co_await fs::Dfs::mount(call, counted_, made->id, world.core(), {}, report);
        checked_ = std::make_unique<CheckedFileSystem>(world.core(), std::move(*mounted));
    }
    object::MemoryStore memory_;
    CountingStore counted_{memory_};
    std::unique_ptr<CheckedFileSystem> checked_;
};

class ViewOfAll final : public fs::contract::Subject {
  public:
    explicit ViewOfAll(uint64_t seed) : container_(seed) {
        Report report;
        view_ = std::move(*container_.view({{.path = "", .writable = true}}, report));
    }
    // The cases close their files through this.
    ~ViewOfAll() override { container_.world.run(container_.all().close_all()); }
    fs::FileSystem& file_system() override { return *view_; }
    sim::World& world() override { return container_.world; }

  private:
    Container container_;
    std::unique_ptr<SubtreeView> view_;
};

const bool registered_through_a_view = fs::contract::register_contract(
    "SubtreeView", {.property_runs = 3},
    [](uint64_t seed) { return std::make_unique<ViewOfAll>(seed); });

// /a/b/c/f and /a/b/link, /a/x/secret, /y.
class SubtreeViewAccess : public testing::Test {
  protected:
    SubtreeViewAccess() {
        a = directory(root_node, "a");
        b = directory(a, "b");
        c = directory(b, "c");
        f = file(c, "f");
        x = directory(a, "x");
        secret = file(x, "secret");
        y = directory(root_node, "y");
    }
    ~SubtreeViewAccess() override {
        view.reset();
        run(all.close_all());
    }
    template <class T>
    T run(Task<T> task) {
        return container.world.run(std::move(task));
    }
    NodeId directory(NodeId parent, std::string_view name) {
        return run(all.mkdir(call, parent, name, 0755, {}))->node;
    }
    NodeId file(NodeId parent, std::string_view name) {
        return run(all.mknod(call, parent, name, S_IFREG | 0644, 0, {}))->node;
    }
    void mount(std::vector<Subtree> subtrees) {
        Report report;
        auto opened = container.view(std::move(subtrees), report);
        ASSERT_TRUE(opened) << report.text();
        view = std::move(*opened);
    }
    // Longer than the lifetime of cached entries.
    void wait() { container.world.run(pass()); }
    Task<> pass() { co_await sleep_for(container.world.core(), SeenParents::lifetime * 3 / 2); }
    template <class T>
    static std::optional<Code> code(const Result<T>& result) {
        return result ? std::optional<Code>() : result.error().code;
    }
    std::optional<Code> stat(NodeId node) { return code(run(view->get_attributes(call, node))); }
    Result<fs::Attributes> find(std::string_view path) {
        return run(fs::resolve(*view, call, path));
    }
    std::vector<std::string> names(NodeId node) {
        std::vector<std::string> names;
        const auto opened = run(view->open(call, node, {}));
        if (!opened) return {"?"};
        for (uint64_t cookie = 0;;) {
            const auto some = run(view->readdir(call, opened->handle, cookie, 1));
            if (!some || some->empty()) break;
            names.push_back(some->front().name);
            cookie = some->front().cookie;
        }
        EXPECT_TRUE(run(view->close(call, opened->handle)));
        return names;
    }

    Container container{1};
    fs::FileSystem& all = container.all();
    std::unique_ptr<SubtreeView> view;
    const Call call;
    NodeId a, b, c, f, x, secret, y;
};

TEST_F(SubtreeViewAccess, RootShowsOnlyDirectoriesOnThePath) {
    mount({{.path = "a/b", .writable = true}});
    EXPECT_THAT(names(root_node), ElementsAre("a"));
    const NodeId way = find("/a")->node;
    EXPECT_NE(way, a) << "its own number, not the directory's";
    EXPECT_THAT(names(way), ElementsAre("b"));
    EXPECT_EQ(find("/a/b")->node, b);
    EXPECT_THAT(names(b), ElementsAre("c"));
    EXPECT_EQ(find("/a/b/c/f")->node, f);
    EXPECT_EQ(find("/a/b/../b/c/..")->node, b);
    EXPECT_EQ(find("/a/b/../..")->node, root_node);
    EXPECT_EQ(code(find("/y")), Code::not_found);
    EXPECT_EQ(code(find("/a/x")), Code::not_found);
    EXPECT_EQ(code(find("/a/b/../x/secret")), Code::not_found);
    EXPECT_EQ(run(view->lookup(call, b, ".."))->node, way);
    EXPECT_EQ(run(view->lookup(call, way, ".."))->node, root_node);
    EXPECT_EQ(run(view->lookup(call, root_node, ".."))->node, root_node);
    // The directories on the way do not change.
    EXPECT_EQ(code(run(view->mkdir(call, root_node, "new", 0755, {}))), Code::read_only);
    EXPECT_EQ(code(run(view->rmdir(call, way, "b"))), Code::read_only);
    EXPECT_EQ(code(run(view->rename(call, way, "b", b, "b", {}))), Code::read_only);
    EXPECT_EQ(code(run(view->set_attributes(call, way, {.mode = 0777}))), Code::read_only);
    EXPECT_EQ(code(run(view->set_xattr(call, root_node, "user.a", {}, {}))), Code::read_only);
    EXPECT_EQ(code(run(view->open(call, way, {.write = true}))), Code::is_directory);
    // Directories elsewhere do change.
    EXPECT_TRUE(run(view->mkdir(call, b, "new", 0755, {})));
    EXPECT_TRUE(run(view->rename(call, b, "new", c, "moved", {})));
}

// The attack: every call, with the number of a node outside of the view.
TEST_F(SubtreeViewAccess, NodeOutsideIsStale) {
    mount({{.path = "a/b", .writable = true}});
    for (const NodeId outside : {secret, x, a, y, NodeId{0}, NodeId{2}, NodeId{3}, NodeId{4711},
                                 NodeId{uint64_t{1} << 62}, NodeId{UINT64_MAX}}) {
        SCOPED_TRACE(outside.value);
        EXPECT_EQ(stat(outside), Code::stale);
        EXPECT_EQ(code(run(view->lookup(call, outside, "secret"))), Code::stale);
        EXPECT_EQ(code(run(view->lookup(call, outside, "."))), Code::stale);
        EXPECT_EQ(code(run(view->lookup(call, outside, ".."))), Code::stale);
        EXPECT_EQ(code(run(view->mkdir(call, outside, "n", 0755, {}))), Code::stale);
        EXPECT_EQ(code(run(view->mknod(call, outside, "n", S_IFREG, 0, {}))), Code::stale);
        EXPECT_EQ(code(run(view->symlink(call, outside, "n", "t", {}))), Code::stale);
        EXPECT_EQ(code(run(view->link(call, outside, b, "n"))), Code::stale);
        EXPECT_EQ(code(run(view->link(call, f, outside, "n"))), Code::stale);
        EXPECT_EQ(code(run(view->unlink(call, outside, "secret"))), Code::stale);
        EXPECT_EQ(code(run(view->rmdir(call, outside, "b"))), Code::stale);
        EXPECT_EQ(code(run(view->rename(call, outside, "secret", b, "n", {}))), Code::stale);
        EXPECT_EQ(code(run(view->rename(call, c, "f", outside, "n", {}))), Code::stale);
        EXPECT_EQ(code(run(view->readlink(call, outside))), Code::stale);
        EXPECT_EQ(code(run(view->set_attributes(call, outside, {.mode = 0777}))), Code::stale);
        EXPECT_EQ(code(run(view->set_attributes(call, outside, {.size = 0}))), Code::stale);
        EXPECT_EQ(code(run(view->get_xattr(call, outside, "user.a"))), Code::stale);
        EXPECT_EQ(code(run(view->set_xattr(call, outside, "user.a", {}, {}))), Code::stale);
        EXPECT_EQ(code(run(view->remove_xattr(call, outside, "user.a"))), Code::stale);
        EXPECT_EQ(code(run(view->list_xattrs(call, outside))), Code::stale);
        EXPECT_EQ(code(run(view->open(call, outside, {}))), Code::stale);
        EXPECT_EQ(code(run(view->create(call, outside, "n", 0644, {}, {}))), Code::stale);
        const std::string_view many[] = {"secret", "n"};
        EXPECT_EQ(code(run(view->lookup_many(call, outside, many)).at(0)), Code::stale);
        EXPECT_EQ(code(run(view->create_many(call, outside, many, 0644, {})).at(1)), Code::stale);
        EXPECT_EQ(code(run(view->unlink_many(call, outside, many)).at(0)), Code::stale);
        EXPECT_EQ(code(run(view->look_up_names(call, outside, many)).at(0)), Code::stale);
        std::vector<fs::ReadManyItem> items(1);
        items[0].name = "secret";
        EXPECT_EQ(code(run(view->read_many(call, outside, items))), Code::stale);
    }
    EXPECT_TRUE(run(all.lookup(call, x, "secret")));
    EXPECT_TRUE(run(all.lookup(call, c, "f")));
}

// After a restart of the DPU, a host uses node numbers from an earlier mount. For the parent of a
// granted directory it gets the same as from lookup(): a directory on the way if nothing above is
// granted, without its real number.
TEST_F(SubtreeViewAccess, LookupManyDoesNotLeadOut) {
    mount({{.path = "a/b", .writable = true}});
    const std::string_view names[] = {"c", "..", "."};
    const auto found = run(view->lookup_many(call, b, names));
    ASSERT_EQ(found.size(), 3U);
    EXPECT_EQ(found[0]->node, c);
    ASSERT_TRUE(found[1]);
    EXPECT_NE(found[1]->node, a);
    EXPECT_EQ(found[2]->node, b);
    EXPECT_EQ(stat(a), Code::stale);
    EXPECT_EQ(code(run(view->lookup(call, a, "x"))), Code::stale);
    EXPECT_EQ(code(run(view->mkdir(call, a, "new", 0755, {}))), Code::stale);
    EXPECT_EQ(stat(x), Code::stale);
}

TEST_F(SubtreeViewAccess, NewMountAcceptsNodesInside) {
    mount({{.path = "a/b"}});
    wait();
    EXPECT_EQ(stat(f), std::nullopt);
    const auto opened = run(view->open(call, f, {}));
    ASSERT_TRUE(opened);
    EXPECT_TRUE(run(view->close(call, opened->handle)));
    const NodeId way = find("/a")->node;
    mount({{.path = "a/b"}});
    EXPECT_EQ(stat(way), std::nullopt);
}

TEST_F(SubtreeViewAccess, NodeMovedOutIsStaleAfterASecond) {
    mount({{.path = "a/b", .writable = true}});
    ASSERT_EQ(find("/a/b/c/f")->node, f);
    const auto listing = run(view->open(call, c, {}));
    const auto reading = run(view->open(call, f, {.write = true}));
    ASSERT_TRUE(listing);
    ASSERT_TRUE(reading);
    // A directory, with all that is in it.
    ASSERT_TRUE(run(all.rename(call, b, "c", y, "c", {})));
    const NodeId later = file(c, "later");
    wait();
    EXPECT_EQ(stat(later), Code::stale);
    EXPECT_EQ(code(run(view->lookup(call, c, "later"))), Code::stale);
    EXPECT_EQ(code(run(view->lookup(call, c, ".."))), Code::stale);
    EXPECT_EQ(code(run(view->readdir(call, listing->handle, 0, 10))), Code::stale);
    EXPECT_EQ(code(run(view->open(call, f, {}))), Code::stale);
    // An open file stays usable. It gives no access to the directory, and no other rights.
    EXPECT_EQ(stat(f), std::nullopt);
    EXPECT_EQ(stat(c), std::nullopt);
    EXPECT_TRUE(run(view->set_attributes(call, f, {.size = 7})));
    EXPECT_EQ(code(run(view->set_attributes(call, f, {.mode = 0777}))), Code::stale);
    EXPECT_EQ(code(run(view->set_xattr(call, f, "user.a", {}, {}))), Code::stale);
    EXPECT_EQ(code(run(view->link(call, f, b, "f"))), Code::stale);
    EXPECT_TRUE(run(view->close(call, reading->handle)));
    EXPECT_TRUE(run(view->close(call, listing->handle)));
    EXPECT_EQ(stat(f), Code::stale);
    EXPECT_EQ(stat(c), Code::stale);
    // And it is there again when it is moved back.
    ASSERT_TRUE(run(all.rename(call, y, "c", b, "c", {})));
    wait();
    EXPECT_EQ(stat(f), std::nullopt);
    // A file alone.
    ASSERT_TRUE(run(all.rename(call, c, "f", y, "f", {})));
    wait();
    EXPECT_EQ(stat(f), Code::stale);
}

TEST_F(SubtreeViewAccess, GrantFollowsThePathNotTheDirectory) {
    mount({{.path = "a/b", .writable = true}});
    ASSERT_EQ(find("/a/b/c")->node, c);
    ASSERT_TRUE(run(all.rename(call, a, "b", y, "kept", {})));
    const NodeId other = directory(a, "b");
    wait();
    EXPECT_EQ(stat(b), Code::stale);
    EXPECT_EQ(stat(c), Code::stale);
    EXPECT_EQ(find("/a/b")->node, other);
    ASSERT_TRUE(run(all.rmdir(call, a, "b")));
    wait();
    EXPECT_EQ(stat(other), Code::stale);
    EXPECT_EQ(code(find("/a/b")), Code::not_found);
    EXPECT_THAT(names(find("/a")->node), ElementsAre());
    // A user with write permission above could link files of others into the directory.
    ASSERT_TRUE(run(all.symlink(call, a, "b", "x", {})));
    wait();
    EXPECT_EQ(code(find("/a/b")), Code::not_found);
    EXPECT_EQ(code(find("/a/b/secret")), Code::not_found);
    EXPECT_EQ(stat(secret), Code::stale);
    ASSERT_TRUE(run(all.unlink(call, a, "b")));
    const NodeId third = directory(a, "b");
    wait();
    EXPECT_EQ(find("/a/b")->node, third);
    EXPECT_TRUE(run(view->mkdir(call, third, "new", 0755, {})));
}

TEST_F(SubtreeViewAccess, SymbolicLinksDoNotLeadOut) {
    mount({{.path = "a/b", .writable = true}});
    for (const auto& [name, target] : std::initializer_list<std::pair<const char*, const char*>>{
             {"up", "../x/secret"},
             {"far", "../../../../a/x/secret"},
             {"absolute", "/a/x/secret"},
             {"through", "c/../../x/secret"}}) {
        ASSERT_TRUE(run(view->symlink(call, b, name, target, {})));
        EXPECT_EQ(code(find(std::string("/a/b/") + name)), Code::not_found) << target;
        EXPECT_EQ(code(run(view->open_path(call, std::string("a/b/") + name, {}))),
                  Code::not_found);
    }
    ASSERT_TRUE(run(view->symlink(call, b, "good", "/a/b/c/f", {})));
    EXPECT_EQ(find("/a/b/good")->node, f);
}

TEST_F(SubtreeViewAccess, HardLinkInsideIsAccessible) {
    mount({{.path = "a/b", .writable = true}});
    // A link from outside into it, made by a user with rights on both.
    ASSERT_TRUE(run(all.link(call, secret, b, "given")));
    EXPECT_EQ(find("/a/b/given")->node, secret);
    EXPECT_EQ(stat(secret), std::nullopt);
    const auto opened = run(view->open(call, secret, {}));
    ASSERT_TRUE(opened);
    wait();
    EXPECT_EQ(stat(secret), std::nullopt) << "while it is open";
    EXPECT_TRUE(run(view->close(call, opened->handle)));
    EXPECT_EQ(find("/a/b/given")->node, secret);
    // Another mount finds it by its other name.
    Report report;
    auto others = container.view({{.path = "a/x"}}, report);
    EXPECT_EQ(run(fs::resolve(**others, call, "a/x/secret"))->node, secret);
    EXPECT_EQ(stat(secret), std::nullopt);
    // A link from inside to outside. Then the name inside is removed.
    ASSERT_TRUE(run(all.link(call, f, x, "taken")));
    wait();
    EXPECT_EQ(stat(f), std::nullopt);
    ASSERT_TRUE(run(view->unlink(call, c, "f")));
    wait();
    EXPECT_EQ(stat(f), Code::stale);
}

TEST_F(SubtreeViewAccess, UnlinkedOpenFileCanBeReopened) {
    mount({{.path = "a/b", .writable = true}});
    const auto opened = run(view->open(call, f, {}));
    ASSERT_TRUE(run(view->unlink(call, c, "f")));
    wait();
    EXPECT_EQ(stat(f), std::nullopt);
    mount({{.path = "a/b", .writable = true}});
    EXPECT_TRUE(run(view->open(call, f, {})));
    EXPECT_TRUE(run(all.close(call, opened->handle)));
}

TEST_F(SubtreeViewAccess, SeveralDirectoriesKeepTheirRights) {
    mount({{.path = "a/b"}, {.path = "y", .writable = true}, {.path = "a/b/c", .writable = true}});
    EXPECT_THAT(names(root_node), ElementsAre("a", "y"));
    EXPECT_EQ(code(run(view->mkdir(call, b, "n", 0755, {}))), Code::read_only);
    EXPECT_TRUE(run(view->mkdir(call, c, "n", 0755, {})));
    EXPECT_TRUE(run(view->mkdir(call, y, "n", 0755, {})));
    EXPECT_EQ(run(view->lookup(call, c, ".."))->node, b);
    // A link or a move does not make a read-only file writable.
    const NodeId only_read = file(b, "only-read");
    EXPECT_EQ(code(run(view->link(call, only_read, y, "mine"))), Code::read_only);
    EXPECT_EQ(code(run(view->rename(call, b, "only-read", y, "mine", {}))), Code::read_only);
    EXPECT_EQ(code(run(view->rename(call, y, "n", b, "only-read", {.exchange = true}))),
              Code::read_only);
    EXPECT_EQ(code(run(view->open(call, only_read, {.write = true}))), Code::read_only);
    EXPECT_EQ(code(run(view->open(call, only_read, {.truncate = true}))), Code::read_only);
    EXPECT_EQ(code(run(view->set_attributes(call, only_read, {.mode = 0777}))), Code::read_only);
    EXPECT_TRUE(run(view->rename(call, c, "f", y, "moved", {})));
    mount({{.path = ""}, {.path = "y", .writable = true}});
    EXPECT_EQ(find("/a/x/secret")->node, secret);
    EXPECT_EQ(code(run(view->unlink(call, x, "secret"))), Code::read_only);
    EXPECT_TRUE(run(view->unlink(call, y, "moved")));
    // A granted directory that is created or replaced during the mount has its rights.
    mount({{.path = ""}, {.path = "y/later", .writable = true}});
    EXPECT_EQ(code(find("/y/later")), Code::not_found);
    const NodeId later = directory(y, "later");
    EXPECT_EQ(find("/y/later")->node, later);
    EXPECT_TRUE(run(view->mkdir(call, later, "n", 0755, {})));
    ASSERT_TRUE(run(all.rename(call, y, "later", y, "before", {})));
    const NodeId other = directory(y, "later");
    EXPECT_EQ(run(view->lookup(call, y, "later"))->node, other);
    EXPECT_TRUE(run(view->mkdir(call, other, "n", 0755, {})));
    wait();
    EXPECT_EQ(code(run(view->mkdir(call, later, "m", 0755, {}))), Code::read_only);
}

TEST_F(SubtreeViewAccess, ReadManyWorksFromTheRoot) {
    mount({{.path = "a/b"}, {.path = "y"}});
    file(y, "g");
    std::vector<fs::ReadManyItem> items(8);
    const char* const wanted[] = {"a/b/c/f", "y/g",      "a/x/secret", "a",
                                  "a/b",     "a/b/../x", "../y/g",     "y/none"};
    for (size_t i = 0; i < items.size(); ++i) items[i].name = wanted[i];
    ASSERT_TRUE(run(view->read_many(call, root_node, items)));
    const std::optional<Code> expected[] = {std::nullopt,       std::nullopt,       Code::not_found,
                                            Code::is_directory, Code::is_directory, Code::invalid,
                                            Code::invalid,      Code::not_found};
    for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(code(items[i].status), expected[i]) << i;
}

TEST_F(SubtreeViewAccess, MissingDirectoryIsRefused) {
    struct Case {
        std::vector<Subtree> subtrees;
        Code code;
        std::string_view says;
    };
    ASSERT_TRUE(run(all.symlink(call, a, "link", "b", {})));
    for (const Case& each : std::initializer_list<Case>{
             {{{.path = "a/none"}},
              Code::not_found,
              "pool/c/a/none, to which the server's settings give rights, does not exist"},
             {{{.path = "a/b/c/f"}}, Code::not_directory, "pool/c/a/b/c/f, to which the server's"},
             {{{.path = "a/b/c/f/g"}}, Code::not_directory, "is not a directory"},
             {{{.path = "a/link"}}, Code::not_directory, "or a symbolic link leads to it"},
             {{{.path = "a/link/c"}}, Code::not_directory, "or a symbolic link leads to it"}}) {
        Report report;
        EXPECT_EQ(code(container.view(each.subtrees, report)), each.code);
        EXPECT_THAT(report.text(), HasSubstr(each.says));
    }
    mount({{.path = "a/none"}, {.path = "y"}});
    EXPECT_THAT(names(root_node), ElementsAre("a", "y"));
    EXPECT_THAT(names(find("/a")->node), ElementsAre());
}

TEST_F(SubtreeViewAccess, NodeBelowDepthLimitIsStale) {
    NodeId deep = c;
    for (int i = 0; i < SubtreeView::levels_max - 2; ++i) deep = directory(deep, "d");
    const NodeId deeper = directory(directory(deep, "d"), "d");
    mount({{.path = "a/b"}});
    EXPECT_EQ(stat(deep), std::nullopt);
    EXPECT_EQ(stat(deeper), Code::stale);
}

// As a kernel does: it looks up a path name by name, and then uses the node.
TEST_F(SubtreeViewAccess, UseAfterLookupNeedsNoRequest) {
    mount({{.path = "a/b", .writable = true}});
    const auto requests = [&](auto task) {
        const uint64_t before = container.store().requests;
        EXPECT_TRUE(run(std::move(task)));
        return container.store().requests - before;
    };
    EXPECT_EQ(requests(view->get_attributes(call, b)), 1u);
    EXPECT_EQ(requests(view->lookup(call, root_node, "a")), 0u);
    EXPECT_EQ(requests(view->lookup(call, b, "c")), 1u);
    EXPECT_EQ(requests(view->lookup(call, c, "f")), 1u);
    EXPECT_EQ(requests(view->get_attributes(call, f)), 1u);
    EXPECT_EQ(requests(view->mkdir(call, c, "d", 0755, {})), 1u);
    EXPECT_EQ(requests(fs::resolve(*view, call, "a/b/c/f")), 1u);
    wait();
    EXPECT_EQ(requests(fs::resolve(*view, call, "a/b/c/f")), 2u) << "and the grant's path";
    wait();
    EXPECT_EQ(requests(view->get_attributes(call, f)), 6u)
        << "2 for each directory above, the grant's path";
}

}  // namespace
}  // namespace ros2s::access
