// The answers of CheckedFileSystem, compared with those of the machine's kernel for the same tree,
// the same user and the same operation.
#include <memory>
#include <optional>

#include "ros2s/fs/path_walk.h"
#include "test_support/checked_dfs.h"
#include "test_support/kernel_tree.h"

namespace ros2s::access {
namespace {

// A tree that is rebuilt only if an operation changed it.
template <class Tree>
class KeptTree {
  public:
    Answer run(Modes modes, const User& user, const Step& step) {
        if (modes_ != modes) tree_.make(modes);
        modes_ = modes;
        const Answer answer = tree_.run(user, step);
        if (answer.error == 0 && changes(step.what)) modes_.reset();
        return answer;
    }

  private:
    static bool changes(What what) {
        return what != What::stat && what != What::open_read && what != What::get_xattr &&
               what != What::get_trusted && what != What::get_list && what != What::open_path &&
               what != What::stat_many;
    }
    Tree tree_;
    std::optional<Modes> modes_;
};

// The same tree in a CheckedFileSystem.
class CheckedTree {
  public:
    void make(Modes modes) {
        subject_ = std::make_unique<CheckedDfs>(1);
        subject_->world().run(fill(*this, modes));
    }
    Answer run(const User& user, const Step& step) {
        Answer answer;
        subject_->world().run(act_and_show(*this, user, step, answer));
        return answer;
    }

  private:
    struct NodeAtName {
        fs::NodeId parent{};
        std::string name;
        std::optional<fs::NodeId> node;
    };
    [[nodiscard]] fs::FileSystem& fs() const { return subject_->file_system(); }
    static Task<> set_list(fs::FileSystem& fs, fs::NodeId node, std::string_view name,
                           std::string_view text) {
        if (text.empty()) co_return;
        const std::string list = fs::contract::acl(text);
        EXPECT_TRUE(co_await fs.set_xattr({}, node, name, as_bytes(list), fs::SetXattr::any));
    }
    static Task<std::string> list_of(fs::FileSystem& fs, fs::NodeId node, std::string_view name) {
        const auto bytes = co_await fs.get_xattr({}, node, name);
        if (!bytes) co_return "";
        const auto list = fs::Acl::decode(as_bytes(*bytes));
        EXPECT_TRUE(list);
        co_return list ? fs::contract::acl_text(*list) : "invalid";
    }
    static Task<> fill(CheckedTree& self, Modes modes) {
        const Call call;
        fs::FileSystem& fs = self.fs();
        const fs::Owner of_directory{directory_owner, directory_group};
        const fs::Owner of_file{file_owner, file_group};
        const auto d = co_await fs.mkdir(call, fs::root_node, "d", modes.directory, of_directory);
        const auto e = co_await fs.mkdir(call, fs::root_node, "e", 0777, of_directory);
        const auto sub = co_await fs.mkdir(call, d->node, "sub", modes.file, of_file);
        const auto empty = co_await fs.mkdir(call, d->node, "empty", modes.file, of_file);
        const auto f = co_await fs.mknod(call, d->node, "f", S_IFREG | modes.file, 0, of_file);
        const auto g = co_await fs.mknod(call, e->node, "g", S_IFREG | modes.file, 0, of_file);
        const auto inner =
            co_await fs.mknod(call, sub->node, "inner", S_IFREG | modes.file, 0, of_file);
        const std::string value = "v";
        for (const auto& each : {d, e, sub, empty, f, g, inner}) {
            EXPECT_TRUE(co_await fs.set_xattr(call, each->node, user_attribute, as_bytes(value),
                                              fs::SetXattr::any));
        }
        for (const auto& each : {f, g, inner}) {
            EXPECT_TRUE(co_await fs.set_xattr(call, each->node, trusted_attribute, as_bytes(value),
                                              fs::SetXattr::any));
            // They got the group and the bit from a set-gid directory.
            EXPECT_TRUE(co_await fs.set_attributes(
                call, each->node, {.mode = modes.file, .uid = file_owner, .gid = file_group}));
        }
        for (const auto& each : {sub, empty}) {
            EXPECT_TRUE(co_await fs.set_attributes(
                call, each->node, {.mode = modes.file, .uid = file_owner, .gid = file_group}));
        }
        for (const auto& each : {f, g, inner, empty, sub}) {
            co_await set_list(fs, each->node, fs::access_acl_name, modes.file_list);
        }
        for (const auto& each : {sub, d}) {
            co_await set_list(fs, each->node, fs::default_acl_name, modes.default_list);
        }
        co_await set_list(fs, d->node, fs::access_acl_name, modes.directory_list);
    }
    Task<Result<NodeAtName>> find(const Call& call, std::string_view path) {
        ROS2S_CO_TRY_ASSIGN(const fs::Walked walked,
                            co_await fs().walk(call, path, fs::LastLink::keep));
        NodeAtName named{.parent = walked.parent, .name = walked.name, .node = {}};
        if (walked.attributes) named.node = walked.attributes->node;
        co_return named;
    }
    Task<Result<fs::NodeId>> find_node(const Call& call, std::string_view path) {
        ROS2S_CO_TRY_ASSIGN(const NodeAtName named, co_await find(call, path));
        if (!named.node) co_return fail(Code::not_found);
        co_return *named.node;
    }
    Task<Result<NodeAtName>> find_place(const Call& call, std::string_view path) {
        ROS2S_CO_TRY_ASSIGN(const fs::Walked walked,
                            co_await fs().walk(call, path, fs::LastLink::unasked));
        co_return NodeAtName{.parent = walked.parent, .name = walked.name, .node = {}};
    }
    static Task<> act_and_show(CheckedTree& self, const User& user, const Step& step,
                               Answer& answer) {
        Caller caller = as_user(user.uid);
        caller.gid = user.gid;
        caller.groups = user.groups;
        const auto done = co_await self.act(Call{.caller = &caller}, step);
        if (!done) answer.error = to_errno(done.error());
        if (!done || *step.shown == '\0') co_return;
        const auto shown = co_await fs::resolve(self.fs(), Call{}, step.shown, fs::LastLink::keep);
        EXPECT_TRUE(shown);
        answer.mode = shown->mode, answer.uid = shown->uid, answer.gid = shown->gid;
        answer.list = co_await list_of(self.fs(), shown->node, fs::access_acl_name);
        answer.default_list = co_await list_of(self.fs(), shown->node, fs::default_acl_name);
    }
    Task<Result<>> act(const Call& call, const Step& step) {
        switch (step.what) {
            case What::stat: {
                ROS2S_CO_TRY(co_await find_node(call, step.path));
                co_return Result<>{};
            }
            case What::create:
            case What::create_new:
            case What::make_directory:
            case What::make_fifo:
            case What::make_device:
            case What::make_whiteout:
            case What::symlink: co_return co_await add(call, step);
            case What::link:
            case What::unlink:
            case What::remove_directory:
            case What::rename:
            case What::exchange:
            case What::rename_to_whiteout: co_return co_await move(call, step);
            case What::open_path:
            case What::create_path:
            case What::create_path_new: co_return co_await open_by_path(call, step);
            case What::stat_many:
            case What::create_many:
            case What::unlink_many: co_return co_await act_on_many(call, step);
            default: co_return co_await use(call, step);
        }
    }
    Task<Result<>> add(const Call& call, const Step& step) {
        ROS2S_CO_TRY_ASSIGN(const NodeAtName at, co_await find_place(call, step.path));
        const fs::Owner given = given_owner(call);
        if (step.what == What::create || step.what == What::create_new) {
            ROS2S_CO_TRY_ASSIGN(
                const fs::Opened opened,
                co_await fs().create(call, at.parent, at.name, step.number,
                                     {.write = true, .exclusive = step.what == What::create_new},
                                     given));
            co_return co_await fs().close(call, opened.handle);
        }
        if (step.what == What::make_directory) {
            ROS2S_CO_TRY(co_await fs().mkdir(call, at.parent, at.name, step.number, given));
        } else if (step.what == What::symlink) {
            ROS2S_CO_TRY(co_await fs().symlink(call, at.parent, at.name, step.other, given));
        } else {
            const mode_t type = step.what == What::make_fifo ? S_IFIFO : S_IFCHR;
            const dev_t device = step.what == What::make_whiteout ? 0 : a_device;
            ROS2S_CO_TRY(
                co_await fs().mknod(call, at.parent, at.name, type | step.number, device, given));
        }
        co_return Result<>{};
    }
    Task<Result<>> open_by_path(const Call& call, const Step& step) {
        const bool creates = step.what != What::open_path;
        const fs::PathOpen how{
            .flags = {.write = creates, .exclusive = step.what == What::create_path_new},
            .creates = creates,
            .follows = false,
            .mode = step.number,
            .owner = given_owner(call)};
        ROS2S_CO_TRY_ASSIGN(const fs::Opened opened, co_await fs().open_path(call, step.path, how));
        co_return co_await fs().close(call, opened.handle);
    }
    Task<Result<>> act_on_many(const Call& call, const Step& step) {
        ROS2S_CO_TRY_ASSIGN(const NodeAtName at, co_await find_place(call, step.path));
        const std::string_view name = at.name;
        if (step.what == What::stat_many) {
            const auto found = co_await fs().lookup_many(call, at.parent, {&name, 1});
            ROS2S_CO_TRY(found.front());
            co_return Result<>{};
        }
        if (step.what == What::create_many) {
            const auto made = co_await fs().create_many(call, at.parent, {&name, 1}, step.number,
                                                        given_owner(call));
            co_return made.front();
        }
        const auto gone = co_await fs().unlink_many(call, at.parent, {&name, 1});
        co_return gone.front();
    }
    // The caller's own is used instead, unless the caller is root.
    static fs::Owner given_owner(const Call& call) {
        const fs::Owner own{call.caller->uid, call.caller->gid};
        return call.caller->is_root() ? own : fs::Owner{7, 7};
    }
    Task<Result<>> move(const Call& call, const Step& step) {
        if (step.what == What::link) {
            ROS2S_CO_TRY_ASSIGN(const fs::NodeId node, co_await find_node(call, step.path));
            ROS2S_CO_TRY_ASSIGN(const NodeAtName to, co_await find_place(call, step.other));
            ROS2S_CO_TRY(co_await fs().link(call, node, to.parent, to.name));
            co_return Result<>{};
        }
        ROS2S_CO_TRY_ASSIGN(const NodeAtName at, co_await find_place(call, step.path));
        if (step.what == What::unlink) co_return co_await fs().unlink(call, at.parent, at.name);
        if (step.what == What::remove_directory) {
            co_return co_await fs().rmdir(call, at.parent, at.name);
        }
        ROS2S_CO_TRY_ASSIGN(const NodeAtName to, co_await find_place(call, step.other));
        co_return co_await fs().rename(call, at.parent, at.name, to.parent, to.name,
                                       {.exchange = step.what == What::exchange,
                                        .whiteout = step.what == What::rename_to_whiteout,
                                        .owner = given_owner(call)});
    }
    Task<Result<>> change(const Call& call, fs::NodeId node, fs::SetAttributes changes) {
        ROS2S_CO_TRY(co_await fs().set_attributes(call, node, changes));
        co_return Result<>{};
    }
    Task<Result<>> open(const Call& call, fs::NodeId node, fs::OpenFlags flags) {
        ROS2S_CO_TRY_ASSIGN(const fs::Opened opened, co_await fs().open(call, node, flags));
        co_return co_await fs().close(call, opened.handle);
    }
    Task<Result<>> use(const Call& call, const Step& step) {
        ROS2S_CO_TRY_ASSIGN(const fs::NodeId node, co_await find_node(call, step.path));
        const WallTime now = subject_->world().core().wall_time();
        const std::string value = "w";
        switch (step.what) {
            case What::open_read: co_return co_await open(call, node, {});
            case What::open_write:
                co_return co_await open(call, node, {.read = false, .write = true});
            case What::open_both: co_return co_await open(call, node, {.write = true});
            case What::open_truncate:
                co_return co_await open(call, node,
                                        {.read = false, .write = true, .truncate = true});
            case What::chmod: co_return co_await change(call, node, {.mode = step.number});
            case What::chown: co_return co_await change(call, node, {.uid = step.number});
            case What::chgrp: co_return co_await change(call, node, {.gid = step.number});
            case What::truncate: co_return co_await change(call, node, {.size = 1});
            case What::touch:
                co_return co_await change(call, node, {.accessed = now, .modified = now});
            case What::set_times:
                co_return co_await change(call, node, {.accessed = long_ago, .modified = long_ago});
            case What::set_xattr:
                co_return co_await fs().set_xattr(call, node, user_attribute, as_bytes(value),
                                                  fs::SetXattr::any);
            case What::set_trusted:
                co_return co_await fs().set_xattr(call, node, trusted_attribute, as_bytes(value),
                                                  fs::SetXattr::any);
            case What::remove_xattr:
                co_return co_await fs().remove_xattr(call, node, user_attribute);
            case What::get_list: {
                ROS2S_CO_TRY(co_await fs().get_xattr(call, node, fs::access_acl_name));
                co_return Result<>{};
            }
            case What::set_list:
            case What::set_default_list: {
                const std::string list = fs::contract::acl(step.other);
                const auto name =
                    step.what == What::set_list ? fs::access_acl_name : fs::default_acl_name;
                co_return co_await fs().set_xattr(call, node, name, as_bytes(list),
                                                  fs::SetXattr::any);
            }
            case What::remove_list: {
                const auto done = co_await fs().remove_xattr(call, node, fs::access_acl_name);
                // For a kernel that is no error.
                const bool had_none = !done && done.error().code == Code::no_attribute;
                co_return had_none ? Result<>{} : done;
            }
            default: break;
        }
        const bool trusted = step.what == What::get_trusted;
        ROS2S_CO_TRY(
            co_await fs().get_xattr(call, node, trusted ? trusted_attribute : user_attribute));
        co_return Result<>{};
    }
    std::unique_ptr<CheckedDfs> subject_;
};

// Operations that this kernel, or the file system of the temporary directory, does not support.
bool is_asked(const Step& step, Modes modes, const Answer& of_root) {
    if (of_root.error == EOPNOTSUPP || of_root.error == EPERM) return false;  // as in a container
    // fs.protected_regular refuses more.
    const bool is_sticky = (modes.directory & S_ISVTX) != 0;
    // tmpfs then clears the bit, ext4 does not.
    if (step.what == What::remove_list && (modes.file & S_ISGID) != 0) return false;
    // A whiteout that a rename leaves inherits no list here.
    if (step.what == What::rename_to_whiteout && !modes.default_list.empty()) return false;
    const bool creates = step.what == What::create || step.what == What::create_path;
    return !(is_sticky && creates && std::string_view(step.path) == "d/f");
}

// Compares each step of each user in each of the trees.
void compare_with_kernel(const std::vector<Modes>& trees, int least) {
    const mode_t umask_before = ::umask(0);
    KeptTree<KernelTree> kernel;
    KeptTree<CheckedTree> checked;
    int compared = 0;
    int differences = 0;
    for (const Modes& modes : trees) {
        for (const Step& step : steps) {
            const Answer of_root = kernel.run(modes, users.back(), step);
            if (!is_asked(step, modes, of_root)) continue;
            for (const User& user : users) {
                const Answer expected = kernel.run(modes, user, step);
                // fs.protected_hardlinks of this machine.
                if (step.what == What::link && expected.error == EPERM) continue;
                const Answer answer = checked.run(modes, user, step);
                ++compared;
                if (answer == expected) continue;
                if (++differences > 40) continue;
                ADD_FAILURE() << fmt::format(
                                     "{} by {}, in a directory of mode {:o} '{}' '{}', of mode "
                                     "{:o} '{}': ",
                                     step.name, user.name, modes.directory, modes.directory_list,
                                     modes.default_list, modes.file, modes.file_list)
                              << answer << "; the kernel: " << expected;
            }
        }
    }
    ::umask(umask_before);
    EXPECT_EQ(differences, 0);
    EXPECT_GT(compared, least);
}

TEST(CheckedFileSystem, AnswersMatchTheKernel) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can act as other users";
    std::vector<Modes> trees;
    for (const mode_t directory : {0755, 0777, 01777, 02775, 0750, 0711, 0070, 0007, 0500}) {
        for (const mode_t file : {0644, 0600, 0755, 0662, 0046, 0400}) {
            trees.push_back({.directory = directory, .file = file});
        }
    }
    compare_with_kernel(trees, 10'000);
}

TEST(CheckedFileSystem, AnswersMatchTheKernelWithAccessLists) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can act as other users";
    if (!KernelTree().has_lists()) GTEST_SKIP() << "the temporary directory has no access lists";
    std::vector<Modes> trees;
    const std::string_view none;
    for (const std::string_view directory :
         {none, std::string_view("u::rwx,u:1001:rwx,u:1004:--x,g::r-x,m::rwx,o::---"),
          std::string_view("u::rwx,u:1002:---,g::rwx,g:3000:rwx,m::r-x,o::rwx"),
          std::string_view("u::r-x,g::---,g:4000:-wx,g:2001:r--,m::rwx,o::r-x")}) {
        for (const std::string_view file :
             {none, std::string_view("u::rw-,u:1004:rw-,g::r--,m::rw-,o::---"),
              std::string_view("u::rwx,u:1000:r-x,g::---,g:2000:rwx,m::r-x,o::--x")}) {
            for (const std::string_view inherited :
                 {none, std::string_view("u::rwx,u:1004:rwx,g::r-x,m::rwx,o::---"),
                  std::string_view("u::rw-,g::r--,o::--x")}) {
                for (const mode_t bits : {0, S_ISGID}) {
                    trees.push_back({.directory = 0775 | bits,
                                     .file = 0755 | bits,
                                     .directory_list = directory,
                                     .file_list = file,
                                     .default_list = inherited});
                }
            }
        }
    }
    compare_with_kernel(trees, 10'000);
}

}  // namespace
}  // namespace ros2s::access
