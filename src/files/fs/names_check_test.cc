// Each fault of a file system's names is found and named, and nothing else.
#include "names_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "test_support/counted_dfs.h"

namespace ros2s::fs {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// /file (two links: /hard), /d/below/deep, /d/link -> "target", a file with data.
class NamesCheck : public DfsMounts {
  protected:
    void SetUp() override {
        DfsMounts::SetUp();
        start();
        const Opened opened = create("file");
        file_ = opened.attributes.node;
        write(opened.handle, 20'000, 0);
        ASSERT_TRUE(world_.run(fs_->close(call_, opened.handle)));
        ASSERT_TRUE(world_.run(fs_->link(call_, file_, root_node, "hard")));
        d_ = world_.run(fs_->mkdir(call_, root_node, "d", 0755, {}))->node;
        below_ = world_.run(fs_->mkdir(call_, d_, "below", 0755, {}))->node;
        deep_ = world_.run(fs_->mknod(call_, below_, "deep", S_IFREG | 0644, 0, {}))->node;
        link_ = world_.run(fs_->symlink(call_, d_, "link", "target", {}))->node;
        unmount();
    }
    void check(size_t nodes_at_once = size_t{1} << 20) {
        problems_.clear();
        NamesCheckOptions options{.nodes_at_once = nodes_at_once};
        options.problem = [this](const std::string& sentence) { problems_.push_back(sentence); };
        const auto done = world_.run(check_names(call_, store_, container_, options));
        ASSERT_TRUE(done.has_value()) << describe(done.error());
        checked_ = *done;
    }
    // With all nodes in one part and with many parts.
    void expect(const testing::Matcher<const std::vector<std::string>&>& problems) {
        for (const size_t nodes : {size_t{1} << 20, size_t{1}}) {
            check(nodes);
            EXPECT_THAT(problems_, problems) << nodes << " nodes at once";
        }
    }
    void update(std::vector<Operation> operations) {
        object::Transaction transaction{.operations = std::move(operations)};
        ASSERT_TRUE(world_.run(store_.update(call_, container_, transaction)));
    }
    InodeRecord inode_of(NodeId node) {
        InodeRecord record;
        FetchItem item = record_item(object_of(node), record_dkey(), inode_akey(), record);
        EXPECT_TRUE(world_.run(store_.fetch(call_, container_, {&item, 1})));
        return record_of(item, record).value();
    }
    void change_inode(NodeId node, const std::function<void(InodeRecord&)>& change) {
        InodeRecord record = inode_of(node);
        change(record);
        put_record(node, inode_akey(), record);
    }
    void put_entry(NodeId directory, std::string_view name, const EntryRecord& record) {
        update({put(object_of(directory), name_dkey(name), entry_akey(), record)});
    }
    void remove_entry(NodeId directory, std::string_view name) {
        update({punch_entry(directory, name)});
    }
    void put_orphan(NodeId node) {
        const OrphanRecord record;
        update({put(object_of(orphan_node), Dkey::integer(node.value), orphan_akey(), record)});
    }
    std::string text(NodeId node) { return fmt::format("node {}", node.value); }

    NodeId file_, d_, below_, deep_, link_;
    std::vector<std::string> problems_;
    CheckedNames checked_;
};

TEST_F(NamesCheck, SoundFileSystemHasNoProblem) {
    expect(IsEmpty());
    EXPECT_EQ(checked_.directories, 3U);
    EXPECT_EQ(checked_.files, 2U);
    EXPECT_EQ(checked_.others, 1U);
    EXPECT_EQ(checked_.names, 6U);
    EXPECT_EQ(checked_.orphans, 0U);
    EXPECT_FALSE(checked_.is_encrypted);
}

TEST_F(NamesCheck, FileWithoutNameThatIsOpenIsAnOrphan) {
    ASSERT_EQ(mount(), std::nullopt);
    ASSERT_TRUE(world_.run(fs_->unlink(call_, below_, "deep")));
    expect(IsEmpty());
    EXPECT_EQ(checked_.orphans, 1U);
    unmount();
}

TEST_F(NamesCheck, NameToNowhereIsNamed) {
    put_entry(below_, "lost", EntryRecord::of({4711}, S_IFREG));
    expect(ElementsAre(HasSubstr("/d/below/lost leads to node 4711, which does not exist")));
}

TEST_F(NamesCheck, NameOfAnotherTypeIsNamed) {
    put_entry(below_, "deep", EntryRecord::of(deep_, S_IFLNK));
    expect(ElementsAre(HasSubstr("/d/below/deep is the name of a symbolic link, and its node")));
}

TEST_F(NamesCheck, NodeWithoutANameIsNamed) {
    remove_entry(below_, "deep");
    expect(ElementsAre(AllOf(HasSubstr("no name leads to " + text(deep_) + ", a file of /d/below"),
                             HasSubstr("counts 1 links"))));
    change_inode(deep_, [](InodeRecord& inode) { inode.links = 0; });
    expect(ElementsAre(AllOf(HasSubstr("no name leads to " + text(deep_)),
                             HasSubstr("not on the list of nodes to be removed"))));
    put_orphan(deep_);
    expect(IsEmpty());
}

TEST_F(NamesCheck, NodeWithANameThatIsToBeRemovedIsNamed) {
    put_orphan(deep_);
    expect(ElementsAre(
        AllOf(HasSubstr(text(deep_)), HasSubstr("may be removed while it has a name"))));
}

TEST_F(NamesCheck, WrongLinkCountIsNamed) {
    for (const uint32_t links : {1U, 3U}) {
        change_inode(file_, [&](InodeRecord& inode) { inode.links = links; });
        expect(ElementsAre(HasSubstr(
            fmt::format("{}, a file of / counts {} links, and has 2 names", text(file_), links))));
    }
}

TEST_F(NamesCheck, DirectoryInAnotherThanItsParentIsNamed) {
    change_inode(below_, [](InodeRecord& inode) { inode.parent = root_node.value; });
    expect(ElementsAre(AllOf(HasSubstr(text(below_)), HasSubstr("names another directory"))));
}

TEST_F(NamesCheck, DirectoriesInsideThemselvesAreNamed) {
    // /d moves into /d/below.
    remove_entry(root_node, "d");
    put_entry(below_, "d", EntryRecord::of(d_, S_IFDIR));
    change_inode(d_, [&](InodeRecord& inode) { inode.parent = below_.value; });
    check();
    EXPECT_THAT(problems_, ElementsAre(HasSubstr("is inside itself, through 2 directories")));
}

TEST_F(NamesCheck, ObjectWithoutAnInodeIsNamed) {
    update({{.kind = Operation::Kind::punch_akey,
             .object = object_of(deep_),
             .dkey = record_dkey(),
             .akey = inode_akey()}});
    remove_entry(below_, "deep");
    expect(IsEmpty());  // nothing is left of it
    const std::string bytes(5000, 'x');
    update({{.kind = Operation::Kind::write,
             .object = object_of(deep_),
             .dkey = chunk_dkey(0),
             .akey = data_akey(),
             .extent = {0, bytes.size()},
             .window = Window::local(as_bytes(bytes))}});
    expect(ElementsAre(AllOf(HasSubstr(text(deep_)), HasSubstr("has no inode"),
                             HasSubstr("container check --free"))));
    // It is being removed.
    put_orphan(deep_);
    expect(IsEmpty());
}

TEST_F(NamesCheck, KeyThatIsNoNameIsNamed) {
    put_entry(d_, "a/b", EntryRecord::of(file_, S_IFREG));
    expect(ElementsAre(HasSubstr("/d/ has a key that is no name of a file")));
}

TEST_F(NamesCheck, InodeThatIsNoneIsNamedOnce) {
    put_record(deep_, inode_akey(), EntryRecord{});
    expect(ElementsAre(HasSubstr("the inode of " + text(deep_) + " cannot be used")));
}

TEST_F(NamesCheck, CounterBelowANodeIsNamed) {
    put_record(counter_node, {"next"}, NumberRecord{.number = link_.value});
    expect(ElementsAre(HasSubstr(
        fmt::format("counter of node ids is {0}, and there is a node {0}", link_.value))));
}

TEST_F(NamesCheck, WrongTargetOfALinkIsNamed) {
    change_inode(link_, [](InodeRecord& inode) { inode.target_bytes = 5; });
    expect(ElementsAre(AllOf(HasSubstr(text(link_)), HasSubstr("target of 6 bytes"))));
}

TEST_F(NamesCheck, ChunkThatIsTooLargeIsNamed) {
    update({{.kind = Operation::Kind::set_size,
             .object = object_of(file_),
             .dkey = chunk_dkey(2),
             .akey = data_akey(),
             .size = 8193}});
    expect(ElementsAre(HasSubstr("has 8193 bytes, more than the 8192 of a chunk")));
}

TEST_F(NamesCheck, RootWithALinkTooManyIsNamed) {
    change_inode(root_node, [](InodeRecord& inode) { inode.links = 2; });
    expect(ElementsAre(HasSubstr("the root directory has 0 names and 2 links")));
}

TEST_F(NamesCheck, SeveralFaultsAreAllNamed) {
    put_entry(d_, "x", EntryRecord::of({5000}, S_IFREG));
    change_inode(file_, [](InodeRecord& inode) { inode.links = 9; });
    remove_entry(below_, "deep");
    expect(UnorderedElementsAre(HasSubstr("/d/x leads to node 5000"), HasSubstr("counts 9 links"),
                                HasSubstr("no name leads to " + text(deep_))));
}

TEST_F(NamesCheck, ContainerWithoutFileSystemIsNotFound) {
    const auto made = world_.run(store_.create_container(call_, {.label = "plain"}));
    NamesCheckOptions options;
    EXPECT_EQ(outcome_of(world_.run(check_names(call_, store_, made->id, options))),
              Code::not_found);
    put_record(root_node, superblock_akey(),
               Superblock{.features_needed = Superblock::is_cache, .chunk_bytes = 8192});
    EXPECT_EQ(outcome_of(world_.run(check_names(call_, store_, container_, options))),
              Code::not_found);
    put_record(root_node, superblock_akey(),
               Superblock{.features_needed = 1U << 31, .chunk_bytes = 8192});
    EXPECT_EQ(outcome_of(world_.run(check_names(call_, store_, container_, options))),
              Code::bad_version);
}

}  // namespace
}  // namespace ros2s::fs
