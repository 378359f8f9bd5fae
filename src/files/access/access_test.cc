// CheckedFileSystem: the contract suite, for the program itself and for root; many names in one
// call; and the cost of checks.
#include <vector>

#include "ros2s/fs/contract/acl_text.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/checked_dfs.h"

namespace ros2s::access {
namespace {

const bool registered = fs::contract::register_contract(
    "CheckedDfs", {.property_runs = 3},
    [](uint64_t seed) { return std::make_unique<CheckedDfs>(seed); });
const bool registered_as_root = fs::contract::register_contract(
    "CheckedDfsAsRoot", {.property_runs = 3},
    [](uint64_t seed) { return std::make_unique<CheckedDfs>(seed, as_user(0)); });

Task<int> change_mode(fs::FileSystem& fs, const Call& call, fs::NodeId node, mode_t mode) {
    const auto changed = co_await fs.set_attributes(call, node, {.mode = mode});
    co_return changed ? 0 : to_errno(changed.error());
}

// A host's kernel drops set-id bits for the user who writes.
CO_TEST(CheckedFileSystem, WriterMayDropSetIdBits, CheckedDfs, subject, 1, std::nullopt,
        {1000, 1000}) {
    fs::FileSystem& fs = subject.file_system();
    const Caller owner = as_user(1000), other = as_user(1001);
    const Call as_owner{.caller = &owner}, as_other{.caller = &other};
    const auto file =
        (co_await fs.mknod(as_owner, fs::root_node, "f", S_IFREG | 0666, 0, {}))->node;
    EXPECT_EQ(co_await change_mode(fs, {}, file, 06776), 0);
    EXPECT_EQ(co_await change_mode(fs, as_other, file, 06776), EPERM) << "drops nothing";
    EXPECT_EQ(co_await change_mode(fs, as_other, file, 0766), EPERM) << "drops other bits, too";
    EXPECT_EQ(co_await change_mode(fs, as_other, file, 0776), 0);
    EXPECT_EQ(co_await change_mode(fs, as_other, file, 04776), EPERM) << "sets one";
    UpdateName name{.client = Uuid::make(subject.world().secrets()), .sequence = 1};
    Call named{.update = &name, .caller = &other};
    EXPECT_EQ(co_await change_mode(fs, {}, file, 04776), 0);
    EXPECT_EQ(co_await change_mode(fs, named, file, 0776), 0);
    EXPECT_EQ(co_await change_mode(fs, named, file, 0776), EPERM);
    named.repeated = true;
    EXPECT_EQ(co_await change_mode(fs, named, file, 0776), 0) << "it was done";
    EXPECT_EQ(co_await change_mode(fs, {}, file, 04774), 0);
    EXPECT_EQ(co_await change_mode(fs, as_other, file, 0774), EPERM) << "may not write";
}

// ---- many names -----------------------------------------------------------------------------

using Errnos = std::vector<int>;
template <class T>
Errnos errnos(const std::vector<Result<T>>& results) {
    Errnos errnos;
    for (const auto& result : results) errnos.push_back(result ? 0 : to_errno(result.error()));
    return errnos;
}

// Each name of a call gets the result that it would get alone.
CO_TEST(CheckedFileSystem, EachNameOfBatchIsChecked, CheckedDfs, subject, 1, std::nullopt,
        {1000, 1000}) {
    fs::FileSystem& fs = subject.file_system();
    const Caller owner = as_user(1000), other = as_user(1001);
    const Call as_owner{.caller = &owner}, as_other{.caller = &other};
    using Names = std::vector<std::string_view>;
    const Names own{"a", "b"}, some{"a", "absent", "b"}, fresh{"x", "a", "y"}, mine{"m", "n"};
    const auto top = (co_await fs.mkdir(as_owner, fs::root_node, "top", 0755, {}))->node;
    EXPECT_EQ(errnos(co_await fs.create_many(as_owner, top, own, 0600, {})), (Errnos{0, 0}));

    // Search permission, without write permission.
    EXPECT_EQ(errnos(co_await fs.lookup_many(as_other, top, some)), (Errnos{0, ENOENT, 0}));
    EXPECT_EQ(errnos(co_await fs.create_many(as_other, top, fresh, 0600, {})),
              (Errnos{EACCES, EEXIST, EACCES}));
    EXPECT_EQ(errnos(co_await fs.unlink_many(as_other, top, some)),
              (Errnos{EACCES, ENOENT, EACCES}));
    const fs::PathOpen creating{.flags = {.write = true}, .creates = true, .mode = 0600};
    const auto created = co_await fs.open_path(as_other, "top/x", creating);
    EXPECT_EQ(created ? 0 : to_errno(created.error()), EACCES);
    const auto opened = co_await fs.open_path(as_other, "top/a", {});
    EXPECT_EQ(opened ? 0 : to_errno(opened.error()), EACCES);

    // Only the names can be read.
    EXPECT_EQ(co_await change_mode(fs, as_owner, top, 0744), 0);
    const auto directory = co_await fs.open(as_other, top, {});
    EXPECT_TRUE(directory);
    const auto listed = co_await fs.readdir_many(as_other, top, directory->handle, 0, 10);
    EXPECT_TRUE(listed && listed->size() == 2);
    for (const auto& [entry, attributes] : *listed) {
        EXPECT_EQ(attributes ? 0 : to_errno(attributes.error()), EACCES) << entry.name;
    }
    const Errnos refused{EACCES, EACCES, EACCES};
    EXPECT_EQ(errnos(co_await fs.lookup_many(as_other, top, some)), refused);
    EXPECT_EQ(errnos(co_await fs.create_many(as_other, top, fresh, 0600, {})), refused);
    EXPECT_EQ(errnos(co_await fs.unlink_many(as_other, top, some)), refused);
    // All permissions except reading the names.
    EXPECT_EQ(co_await change_mode(fs, as_owner, top, 0733), 0);
    const auto unread = co_await fs.open(as_other, top, {});
    EXPECT_EQ(unread ? 0 : to_errno(unread.error()), EACCES);

    // In a sticky directory each user can remove only their own files. A new file belongs to its
    // creator, and has the group of a set-gid directory.
    EXPECT_TRUE(co_await fs.set_attributes({}, top, {.gid = 77}));
    EXPECT_TRUE(co_await fs.set_attributes({}, top, {.mode = 03777}));
    EXPECT_EQ(errnos(co_await fs.create_many(as_other, top, mine, 0600, {.uid = 1000})),
              (Errnos{0, 0}));
    for (const auto& made : co_await fs.lookup_many(as_other, top, mine)) {
        EXPECT_TRUE(made && made->uid == 1001 && made->gid == 77);
    }
    const Names of_both{"a", "m", "absent", "b", "n"};
    EXPECT_EQ(errnos(co_await fs.unlink_many(as_other, top, of_both)),
              (Errnos{EPERM, 0, ENOENT, EPERM, 0}));
    EXPECT_EQ(errnos(co_await fs.unlink_many(as_owner, top, of_both)),
              (Errnos{0, ENOENT, ENOENT, 0, ENOENT}));
    // Set-id bits need the grant.
    Caller plain = other;
    plain.may_set_ids = false;
    EXPECT_EQ(errnos(co_await fs.create_many({.caller = &plain}, top, mine, 04755, {})),
              (Errnos{EPERM, EPERM}));
    EXPECT_TRUE((co_await fs.lookup_many(as_other, top, {})).empty());
    EXPECT_TRUE((co_await fs.create_many(as_other, top, {}, 0600, {})).empty());
    EXPECT_TRUE((co_await fs.unlink_many(as_other, top, {})).empty());
    co_await fs.close_all();
}

// ---- repetitions

// A user removes own files of a sticky directory of another user, moves one to another directory,
// and the DPU restarts before each reply.
CO_TEST(CheckedFileSystem, RepeatedRemovalIsNotRefused, CheckedDfs, subject, 1, std::nullopt,
        {1000, 1000}) {
    fs::FileSystem& fs = subject.file_system();
    const Caller owner = as_user(1000), other = as_user(1001);
    const Call as_owner{.caller = &owner};
    const std::vector<std::string_view> many{"a", "b"};
    const auto top = (co_await fs.mkdir(as_owner, fs::root_node, "top", 01777, {}))->node;
    const auto second = (co_await fs.mkdir(as_owner, fs::root_node, "second", 0777, {}))->node;
    const Call as_other{.caller = &other};
    for (const char* name : {"a", "b", "f", "g"}) {
        EXPECT_TRUE(co_await fs.mknod(as_other, top, name, S_IFREG | 0600, 0, {}));
    }
    const Caller third = as_user(1002);
    const Call as_third{.caller = &third};
    EXPECT_TRUE(co_await fs.mknod(as_third, second, "theirs", S_IFREG | 0600, 0, {}));
    UpdateName name{.client = Uuid::make(subject.world().secrets()), .sequence = 1};
    Call named{.update = &name, .caller = &other};
    for (const bool repeated : {false, true}) {
        named.repeated = repeated;
        SCOPED_TRACE(repeated);
        name.slot = 1;
        EXPECT_TRUE(co_await fs.unlink(named, top, "f"));
        name.slot = 2;
        EXPECT_TRUE(co_await fs.rename(named, top, "g", second, "h", {}));
        name.slot = 3;
        EXPECT_EQ(errnos(co_await fs.unlink_many(named, top, many)), (Errnos{0, 0}));
        name.slot = 4;
        EXPECT_FALSE(co_await fs.unlink(named, top, "absent"));
        // Another user's file gets a name in a sticky directory, where it is guarded from then on.
        name.slot = 5;
        EXPECT_TRUE(co_await fs.rename(named, second, "theirs", top, "theirs", {}));
        name.slot = 6;
        EXPECT_FALSE(co_await fs.rename(named, top, "theirs", second, "theirs", {}));
    }
    co_await fs.close_all();
}

// ---- the cost, in requests to the store

// Each operation runs after its names were looked up, as by a host's kernel.
Task<> count_requests(CheckedDfs& subject, const Caller* caller, std::vector<uint64_t>& counts) {
    fs::FileSystem& fs = subject.file_system();
    const Call call{.caller = caller};
    uint64_t before = 0;
    const auto counted = [&](const auto& result) {
        EXPECT_TRUE(result) << counts.size();
        counts.push_back(subject.requests() - before);
        before = subject.requests();
    };
    const auto top = co_await fs.mkdir(call, fs::root_node, "top", 0700, {1000, 1000});
    // Requests that lease node ids do not count.
    for (const char* name : {"a", "b"}) {
        EXPECT_TRUE(co_await fs.mknod(call, top->node, name, S_IFREG | 0600, 0, {1000, 1000}));
    }
    EXPECT_TRUE(co_await fs.lookup(call, fs::root_node, "top"));
    before = subject.requests();
    const auto file = co_await fs.lookup(call, top->node, "a");
    counted(file);
    counted(co_await fs.walk(call, "top/a", fs::LastLink::follow));
    counted(co_await fs.open(call, file->node, {.write = true}));
    counted(co_await fs.create(call, top->node, "new", 0600, {.write = true}, {1000, 1000}));
    counted(co_await fs.mkdir(call, top->node, "directory", 0700, {1000, 1000}));
    counted(co_await fs.set_attributes(call, file->node, {.mode = 0640}));
    counted(co_await fs.rename(call, top->node, "a", top->node, "c", {}));
    counted(co_await fs.unlink(call, top->node, "b"));
    counted(co_await fs.rmdir(call, top->node, "directory"));
    counted(co_await fs.open_path(call, "top/c", {.flags = {.write = true}}));
    counted(co_await fs.open_path(call, "top/path", {.flags = {.write = true}, .creates = true}));
    const std::vector<std::string_view> names{"many", "names"};
    counted((co_await fs.create_many(call, top->node, names, 0600, {1000, 1000})).back());
    counted((co_await fs.lookup_many(call, top->node, names)).back());
    counted((co_await fs.unlink_many(call, top->node, names)).back());
    co_await fs.close_all();
}

TEST(CheckedFileSystem, CheckAfterLookupNeedsNoRequest) {
    std::vector<uint64_t> unchecked, as_owner;
    const Caller owner = as_user(1000);
    for (const auto& [caller, counts] :
         {std::pair<const Caller*, std::vector<uint64_t>*>{nullptr, &unchecked},
          {&owner, &as_owner}}) {
        CheckedDfs subject(1, std::nullopt, {1000, 1000});
        subject.world().run(count_requests(subject, caller, *counts));
    }
    // A look-up, a walk, an open; a creation, a new directory, a change of mode, a new name, and
    // the removal of a file and of a directory; opening and creating a path; creating, looking up
    // and removing many names.
    EXPECT_EQ(unchecked, (std::vector<uint64_t>{1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 1, 2}));
    EXPECT_EQ(as_owner, unchecked);
}

// After a second without a look-up, a check queries the mode again: another DPU may have changed
// it.
CO_TEST(CheckedFileSystem, ModesAreCachedForASecond, CheckedDfs, subject, 1, std::nullopt,
        {1000, 1000}) {
    fs::FileSystem& fs = subject.file_system();
    const Caller owner = as_user(1000), other = as_user(1001);
    const Call as_owner{.caller = &owner}, as_other{.caller = &other};
    const auto top = co_await fs.mkdir(as_owner, fs::root_node, "top", 0700, {});
    EXPECT_EQ(to_errno((co_await fs.lookup(as_other, top->node, "x")).error()), EACCES);
    const uint64_t before = subject.requests();
    EXPECT_EQ(to_errno((co_await fs.lookup(as_other, top->node, "x")).error()), EACCES);
    EXPECT_EQ(subject.requests(), before);
    co_await sleep_for(subject.world().core(), SeenNodes::lifetime);
    EXPECT_EQ(to_errno((co_await fs.lookup(as_other, top->node, "x")).error()), EACCES);
    EXPECT_GT(subject.requests(), before);
    // Its own change is effective at once.
    EXPECT_TRUE(co_await fs.set_attributes(as_owner, top->node, {.mode = 0755}));
    EXPECT_EQ(to_errno((co_await fs.lookup(as_other, top->node, "x")).error()), ENOENT);
    EXPECT_TRUE(co_await fs.set_attributes(as_owner, top->node, {.mode = 0700}));
    EXPECT_EQ(to_errno((co_await fs.lookup(as_other, top->node, "x")).error()), EACCES);
}

// A client that may write to an open file may change its size, whatever the mode is. Others may
// not.
CO_TEST(CheckedFileSystem, OpenFileCanChangeItsSize, CheckedDfs, subject, 1, std::nullopt,
        {1000, 1000}) {
    fs::FileSystem& fs = subject.file_system();
    Caller writer = as_user(1000), other = as_user(1001), elsewhere = writer;
    elsewhere.holder = 7;
    const Call as_writer{.caller = &writer};
    const auto made = co_await fs.create(as_writer, fs::root_node, "f", 0400, {.write = true}, {});
    EXPECT_TRUE(made);
    const fs::NodeId node = made->attributes.node;
    EXPECT_TRUE(co_await fs.set_attributes(as_writer, node, {.size = 5}));
    for (const Caller* caller : {&other, &elsewhere}) {
        const auto changed = co_await fs.set_attributes({.caller = caller}, node, {.size = 6});
        EXPECT_EQ(changed ? 0 : to_errno(changed.error()), EACCES);
    }
    EXPECT_TRUE(co_await fs.close(as_writer, made->handle));
    const auto changed = co_await fs.set_attributes(as_writer, node, {.size = 6});
    EXPECT_EQ(changed ? 0 : to_errno(changed.error()), EACCES);
}

Task<int> open_and_read(fs::FileSystem& fs, const Call& call, fs::NodeId node,
                        fs::OpenFlags flags) {
    const auto opened = co_await fs.open(call, node, flags);
    if (!opened) co_return to_errno(opened.error());
    std::byte into[1];
    EXPECT_TRUE(co_await fs.pread(call, opened->handle, fs::Window::local(Bytes(into)), 0));
    EXPECT_TRUE(co_await fs.close(call, opened->handle));
    co_return 0;
}
CO_TEST(CheckedFileSystem, ExecutionNeedsTheExecuteRight, CheckedDfs, subject, 1, std::nullopt,
        {1000, 1000}) {
    fs::FileSystem& fs = subject.file_system();
    const Caller owner = as_user(1000), other = as_user(1001);
    const Call as_owner{.caller = &owner}, as_other{.caller = &other};
    const auto file =
        (co_await fs.mknod(as_owner, fs::root_node, "f", S_IFREG | 0755, 0, {}))->node;
    struct Case {
        mode_t mode;
        int executed, read;
    };
    for (const Case& each : {Case{0711, 0, EACCES}, Case{0111, 0, EACCES}, Case{0755, 0, 0},
                             Case{0744, EACCES, 0}, Case{0700, EACCES, EACCES}}) {
        EXPECT_EQ(co_await change_mode(fs, as_owner, file, each.mode), 0);
        EXPECT_EQ(co_await open_and_read(fs, as_other, file, {.execute = true}), each.executed)
            << each.mode;
        EXPECT_EQ(co_await open_and_read(fs, as_other, file, {}), each.read) << each.mode;
        EXPECT_EQ(co_await open_and_read(fs, as_other, file, {.write = true, .execute = true}),
                  EACCES);
    }
}

// ---- access lists

// What kernel_answers_test.cc does not ask: files in one call, and how long a list is remembered.
CO_TEST(CheckedFileSystem, AccessListDecides, CheckedDfs, subject, 1, std::nullopt, {1000, 1000}) {
    fs::FileSystem& fs = subject.file_system();
    const Caller owner = as_user(1000), named = as_user(1001), other = as_user(1002);
    const Call as_owner{.caller = &owner}, as_named{.caller = &named}, as_other{.caller = &other};
    const auto top = (co_await fs.mkdir(as_owner, fs::root_node, "top", 0700, {}))->node;
    const auto file = (co_await fs.mknod(as_owner, top, "f", S_IFREG | 0600, 0, {}))->node;
    const auto set = [&fs](const Call& call, fs::NodeId node, std::string text) -> Task<int> {
        const std::string list = fs::contract::acl(text);
        const auto done = co_await fs.set_xattr(call, node, fs::access_acl_name, as_bytes(list),
                                                fs::SetXattr::any);
        co_return done ? 0 : to_errno(done.error());
    };
    const auto read = [&fs](const Call& call) -> Task<int> {
        std::byte into[1];
        fs::ReadManyItem item{.name = "top/f", .window = fs::Window::local(Bytes(into))};
        EXPECT_TRUE(co_await fs.read_many(call, fs::root_node, {&item, 1}));
        co_return item.status ? 0 : to_errno(item.status.error());
    };
    EXPECT_EQ(co_await set(as_named, top, "u::rwx,g::---,o::rwx"), EPERM);
    EXPECT_EQ(co_await set(as_owner, top, "u::rwx,u:1001:--x,g::---,m::--x,o::---"), 0);
    EXPECT_EQ(co_await read(as_named), EACCES);
    EXPECT_EQ(co_await set(as_owner, file, "u::rw-,u:1001:r--,g::---,m::r--,o::---"), 0);
    EXPECT_EQ(co_await read(as_named), 0);
    EXPECT_EQ(co_await read(as_other), EACCES);
    // The group bits of both modes are masks.
    const Caller member{.uid = 1003, .gid = 1000};
    EXPECT_EQ(co_await read({.caller = &member}), EACCES);

    EXPECT_EQ(to_errno((co_await fs.lookup(as_other, top, "f")).error()), EACCES);
    uint64_t before = subject.requests();
    EXPECT_EQ(to_errno((co_await fs.lookup(as_other, top, "f")).error()), EACCES);
    EXPECT_EQ(subject.requests(), before);
    co_await sleep_for(subject.world().core(), SeenNodes::lifetime);
    EXPECT_EQ(to_errno((co_await fs.lookup(as_other, top, "f")).error()), EACCES);
    EXPECT_EQ(subject.requests(), before + 2) << "the attributes, and the list";
    // Its own change is effective at once.
    EXPECT_EQ(co_await set(as_owner, top, "u::rwx,u:1002:--x,g::---,m::--x,o::---"), 0);
    EXPECT_TRUE(co_await fs.lookup(as_other, top, "f"));
    EXPECT_EQ(co_await change_mode(fs, as_owner, top, 0700), 0);
    EXPECT_EQ(to_errno((co_await fs.lookup(as_other, top, "f")).error()), EACCES);
    co_await fs.close_all();
}

Task<mode_t> mode_of(fs::FileSystem& fs, fs::NodeId node) {
    co_return (co_await fs.get_attributes({}, node))->mode & 07777;
}
// Of what hosts say about set-id bits, only root may keep them, with the grant.
CO_TEST(CheckedFileSystem, OnlyRootWithTheGrantKeepsSetIdBits, CheckedDfs, subject, 1, std::nullopt,
        {1000, 1000}) {
    fs::FileSystem& fs = subject.file_system();
    const Caller owner = as_user(1000), other = as_user(1001), root = as_user(0);
    Caller plain_root = root;
    plain_root.may_set_ids = false;
    const auto file =
        (co_await fs.mknod({.caller = &owner}, fs::root_node, "f", S_IFREG | 0666, 0, {}))->node;
    struct Case {
        const Caller* caller;
        mode_t left;
    };
    for (const auto& [caller, left] :
         {Case{&owner, 0777}, Case{&other, 0777}, Case{&plain_root, 0777}, Case{&root, 06777}}) {
        const Call call{.caller = caller};
        EXPECT_EQ(co_await change_mode(fs, {}, file, 06777), 0);
        const auto opened = co_await fs.open(call, file, {.write = true, .keeps_set_ids = true});
        EXPECT_TRUE(opened);
        EXPECT_TRUE(co_await fs.pwrite({}, opened->handle, fs::Window::local(as_bytes("x")), 0));
        EXPECT_EQ(co_await mode_of(fs, file), left);
        EXPECT_TRUE(co_await fs.close(call, opened->handle));
        EXPECT_EQ(co_await change_mode(fs, {}, file, 06777), 0);
        EXPECT_TRUE(co_await fs.set_attributes(call, file, {.size = 0, .keeps_set_ids = true}));
        EXPECT_EQ(co_await mode_of(fs, file), left);
        EXPECT_EQ(co_await change_mode(fs, {}, file, 06777), 0);
        const auto truncated =
            co_await fs.create(call, fs::root_node, "f", 0,
                               {.write = true, .truncate = true, .keeps_set_ids = true}, {});
        EXPECT_TRUE(truncated);
        EXPECT_EQ(co_await mode_of(fs, file), left);
        EXPECT_TRUE(co_await fs.close(call, truncated->handle));
    }
    // A user who may not write clears nothing. It is no error: a kernel asks before each write.
    EXPECT_EQ(co_await change_mode(fs, {}, file, 06755), 0);
    EXPECT_TRUE(co_await fs.set_attributes({.caller = &other}, file, {.clears_set_ids = true}));
    EXPECT_EQ(co_await mode_of(fs, file), 06755U);
    EXPECT_TRUE(co_await fs.set_attributes({.caller = &owner}, file, {.clears_set_ids = true}));
    EXPECT_EQ(co_await mode_of(fs, file), 0755U);
    co_await fs.close_all();
}

CO_TEST(CheckedFileSystem, LinkNeedsOnlyDirectoryRights, CheckedDfs, subject, 1, std::nullopt,
        {1000, 1000}) {
    fs::FileSystem& fs = subject.file_system();
    const Caller owner = as_user(1000), other = as_user(1001);
    const Call as_owner{.caller = &owner}, as_other{.caller = &other};
    const auto code = [](const auto& result) { return result ? 0 : to_errno(result.error()); };
    const auto file =
        (co_await fs.mknod(as_owner, fs::root_node, "f", S_IFREG | 0600, 0, {}))->node;
    const auto open = (co_await fs.mkdir(as_owner, fs::root_node, "open", 0777, {}));
    const auto closed = (co_await fs.mkdir(as_owner, fs::root_node, "closed", 0755, {}));
    EXPECT_EQ(code(co_await fs.set_attributes(as_owner, open->node, {.mode = 0777})), 0);
    EXPECT_EQ(code(co_await fs.link(as_other, file, open->node, "f")), 0);
    EXPECT_EQ(code(co_await fs.link(as_other, file, open->node, "f")), EEXIST);
    EXPECT_EQ(code(co_await fs.link(as_other, file, closed->node, "f")), EACCES);
}

// Rights that the root of a host has only if its grant gives them.
CO_TEST(CheckedFileSystem, RootNeedsGrantForPrivilegedActions, CheckedDfs, subject, 1) {
    fs::FileSystem& fs = subject.file_system();
    Caller root{.uid = 0, .gid = 0};
    const Call call{.caller = &root};
    const auto code = [](const auto& result) { return result ? 0 : to_errno(result.error()); };
    const auto file = co_await fs.mknod(call, fs::root_node, "f", S_IFREG | 0600, 0, {});
    EXPECT_EQ(code(co_await fs.mknod(call, fs::root_node, "w", fs::whiteout_mode, 0, {})), 0);
    for (const int expected : {EPERM, 0}) {
        EXPECT_EQ(code(co_await fs.mknod(call, fs::root_node, "d", S_IFBLK | 0600, 1, {})),
                  expected);
        EXPECT_EQ(code(co_await fs.set_attributes(call, file->node, {.mode = 04755})), expected);
        EXPECT_EQ(code(co_await fs.create(call, fs::root_node, "s", 02755, {}, {})), expected);
        EXPECT_EQ(code(co_await fs.set_xattr(call, file->node, "trusted.a", {}, fs::SetXattr::any)),
                  expected);
        EXPECT_EQ(
            code(co_await fs.set_xattr(call, file->node, "security.a", {}, fs::SetXattr::any)),
            expected);
        root = as_user(0);
    }
    co_await fs.close_all();
}

}  // namespace
}  // namespace ros2s::access
