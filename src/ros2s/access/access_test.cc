// CheckedFileSystem: the contract suite, for the program itself, for root and for an owner; and the
// answers of the machine's kernel for the same tree, the same user and the same operation.
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <vector>

#include "checked_file_system.h"
#include "ros2s/fs/contract/contract.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/fs/path_walk.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/object/memory_store.h"

namespace ros2s::access {
namespace {

using fs::Caller;

class CountingStore final : public object::ForwardingStore {
  public:
    explicit CountingStore(object::ObjectStore& below) : ForwardingStore(below) {}
    uint64_t requests = 0;

    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items) override {
        ++requests;
        return below().fetch(call, container, items);
    }
    Task<Result<>> fetch_chain(const Call& call, object::ContainerId container,
                               const object::Holder& holder, std::span<object::FetchItem> items,
                               std::span<object::Link> links) override {
        ++requests;
        return below().fetch_chain(call, container, holder, items, links);
    }
    Task<Result<>> pin(const Call& call, object::ContainerId container,
                       const object::Holder& holder, object::FetchItem& item) override {
        ++requests;
        return below().pin(call, container, holder, item);
    }
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override {
        ++requests;
        return below().update(call, container, transaction);
    }
    Task<Result<object::QueryReply>> query(const Call& call, object::ContainerId container,
                                           object::ObjectId object,
                                           const object::Akey& akey) override {
        ++requests;
        return below().query(call, container, object, akey);
    }
};

class CheckedDfs final : public fs::contract::Subject {
  public:
    explicit CheckedDfs(uint64_t seed, std::optional<Caller> caller = {},
                        fs::Owner owner_of_root = {})
        : world_(seed), store_(world_.core(), {}), caller_(caller) {
        world_.run(start(owner_of_root));
    }
    fs::FileSystem& file_system() override { return *checked_; }
    sim::World& world() override { return world_; }
    [[nodiscard]] const Caller* caller() const override { return caller_ ? &*caller_ : nullptr; }
    [[nodiscard]] uint64_t requests() const { return counting_.requests; }

  private:
    Task<> start(fs::Owner owner_of_root) {
        const Call call;
        Report report;
        const auto container = co_await counting_.create_container(call, {.label = "c"});
        EXPECT_TRUE(container.has_value());
        EXPECT_TRUE(co_await fs::Dfs::format(call, counting_, container->id, world_.core(),
                                             owner_of_root, report));
        auto mounted =
            co_await fs::Dfs::mount(call, counting_, container->id, world_.core(), {}, report);
        EXPECT_TRUE(mounted.has_value()) << report.text();
        checked_ = std::make_unique<CheckedFileSystem>(world_.core(), std::move(*mounted));
    }
    sim::World world_;
    object::MemoryStore store_;
    CountingStore counting_{store_};
    std::optional<Caller> caller_;
    std::unique_ptr<CheckedFileSystem> checked_;
};

constexpr Caller as_user(uint32_t uid) {
    return {.uid = uid,
            .gid = uid,
            .may_make_devices = true,
            .may_set_ids = true,
            .may_change_privileged = true};
}

const bool registered = fs::contract::register_contract(
    "CheckedDfs", {.property_runs = 3},
    [](uint64_t seed) { return std::make_unique<CheckedDfs>(seed); });
const bool registered_as_root = fs::contract::register_contract(
    "CheckedDfsAsRoot", {.property_runs = 3},
    [](uint64_t seed) { return std::make_unique<CheckedDfs>(seed, as_user(0)); });

// ---- the kernel's answers -------------------------------------------------------------------

constexpr uint32_t directory_owner = 1000, file_owner = 1001;
constexpr uint32_t directory_group = 2000, file_group = 2001;

struct User {
    const char* name;
    uint32_t uid, gid;
    std::vector<uint32_t> groups;
};
const std::array users{
    User{"the directory's owner", directory_owner, 3000, {}},
    User{"the file's owner", file_owner, 3000, {}},
    User{"the file's owner in the directory's group", file_owner, directory_group, {}},
    User{"a member of the directory's group", 1002, directory_group, {}},
    User{"a member of both groups", 1003, 3000, {4000, file_group, directory_group}},
    User{"another user", 1004, 3000, {}},
    User{"root", 0, 0, {}},
};

// The result of an operation: errno, and the attributes of the node that it made or changed.
struct Answer {
    int error = 0;
    mode_t mode = 0;
    uint32_t uid = 0, gid = 0;
    friend bool operator==(const Answer&, const Answer&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Answer& answer) {
        return out << fmt::format("{} mode {:o} owner {}:{}",
                                  answer.error == 0 ? "done" : ::strerror(answer.error),
                                  answer.mode, answer.uid, answer.gid);
    }
};

enum class What : uint8_t {
    stat,
    open_read,
    open_write,
    open_both,
    open_truncate,
    create,
    create_new,
    make_directory,
    make_fifo,
    make_device,
    symlink,
    link,
    unlink,
    remove_directory,
    rename,
    exchange,
    chmod,
    chown,
    chgrp,
    truncate,
    touch,
    set_times,
    get_xattr,
    set_xattr,
    remove_xattr,
    set_trusted,
    get_trusted,
    // By path, or of many names: the same for the kernel.
    open_path,
    create_path,
    create_path_new,
    stat_many,
    create_many,
    unlink_many,
};
struct Step {
    const char* name;
    What what;
    const char* path;
    const char* other = "";  // the new name, or of a link
    uint32_t number = 0;     // mode, uid or gid
    const char* shown = "";  // whose attributes are compared
};
const std::array steps{
    Step{"look up", What::stat, "d/f"},
    Step{"look up what is not there", What::stat, "d/absent"},
    Step{"look up inside", What::stat, "d/sub/inner"},
    Step{"look up above", What::stat, "d/sub/../f"},
    Step{"look up inside a file", What::stat, "d/f/x"},
    Step{"read", What::open_read, "d/f"},
    Step{"write", What::open_write, "d/f"},
    Step{"read and write", What::open_both, "d/f"},
    Step{"truncate at open", What::open_truncate, "d/f"},
    Step{"list", What::open_read, "d"},
    Step{"list inside", What::open_read, "d/sub"},
    Step{"open a directory to write", What::open_write, "d/sub"},
    Step{"create", What::create, "d/new", "", 0640, "d/new"},
    Step{"create for reading alone", What::create, "d/new", "", 0000, "d/new"},
    Step{"create a set-id program", What::create, "d/new", "", 06755, "d/new"},
    Step{"create what exists", What::create, "d/f", "", 0600},
    Step{"create what must not exist", What::create_new, "d/f", "", 0600},
    Step{"create what does not exist", What::create_new, "d/new", "", 0600, "d/new"},
    Step{"make a directory", What::make_directory, "d/new", "", 0750, "d/new"},
    Step{"make a directory that exists", What::make_directory, "d/f", "", 0750},
    Step{"make a FIFO", What::make_fifo, "d/new", "", 0600, "d/new"},
    Step{"make a device", What::make_device, "d/new", "", 0600, "d/new"},
    Step{"make a link", What::symlink, "d/new", "f"},
    Step{"link out", What::link, "d/f", "e/new"},
    Step{"link in", What::link, "e/g", "d/new"},
    Step{"link over", What::link, "e/g", "d/f"},
    Step{"remove", What::unlink, "d/f"},
    Step{"remove what is not there", What::unlink, "d/absent"},
    Step{"remove a file as a directory", What::remove_directory, "d/f"},
    Step{"remove a directory as a file", What::unlink, "d/sub"},
    Step{"remove a directory", What::remove_directory, "d/empty"},
    Step{"remove a full directory", What::remove_directory, "d/sub"},
    Step{"rename", What::rename, "d/f", "d/new"},
    Step{"move out", What::rename, "d/f", "e/new"},
    Step{"move in", What::rename, "e/g", "d/new"},
    Step{"replace", What::rename, "e/g", "d/f"},
    Step{"move a directory out", What::rename, "d/sub", "e/new"},
    Step{"move a directory within", What::rename, "d/sub", "d/new"},
    Step{"move what is not there", What::rename, "d/absent", "e/new"},
    Step{"exchange", What::exchange, "d/f", "e/g"},
    Step{"exchange with a directory", What::exchange, "d/sub", "e/g"},
    Step{"chmod", What::chmod, "d/f", "", 0604, "d/f"},
    Step{"chmod with set-id bits", What::chmod, "d/f", "", 06755, "d/f"},
    Step{"chmod of a directory", What::chmod, "d/sub", "", 02775, "d/sub"},
    Step{"chown", What::chown, "d/f", "", 1004, "d/f"},
    Step{"chown to itself", What::chown, "d/f", "", file_owner, "d/f"},
    Step{"chgrp to an own group", What::chgrp, "d/f", "", directory_group, "d/f"},
    Step{"chgrp to another group", What::chgrp, "d/f", "", 5000, "d/f"},
    Step{"chgrp to the same", What::chgrp, "d/f", "", file_group, "d/f"},
    Step{"truncate", What::truncate, "d/f"},
    Step{"truncate a directory", What::truncate, "d/sub"},
    Step{"touch", What::touch, "d/f"},
    Step{"set times", What::set_times, "d/f"},
    Step{"read an attribute", What::get_xattr, "d/f"},
    Step{"set an attribute", What::set_xattr, "d/f"},
    Step{"set an attribute of a directory", What::set_xattr, "d/sub"},
    Step{"remove an attribute", What::remove_xattr, "d/f"},
    Step{"set a trusted attribute", What::set_trusted, "d/f"},
    Step{"read a trusted attribute", What::get_trusted, "d/f"},
    Step{"open a path", What::open_path, "d/f"},
    Step{"open a path above", What::open_path, "d/sub/../f"},
    Step{"open a path inside", What::open_path, "d/sub/inner"},
    Step{"create a path", What::create_path, "d/new", "", 0640, "d/new"},
    Step{"create a path inside", What::create_path, "d/sub/new", "", 0640, "d/sub/new"},
    Step{"create a path that exists", What::create_path, "d/f", "", 0600},
    Step{"create a path of a set-id program", What::create_path, "d/new", "", 06755, "d/new"},
    Step{"create a path that must not exist", What::create_path_new, "d/f", "", 0600},
    Step{"create a path that does not exist", What::create_path_new, "d/new", "", 0600, "d/new"},
    Step{"look up many", What::stat_many, "d/f"},
    Step{"look up many that are not there", What::stat_many, "d/absent"},
    Step{"look up many inside", What::stat_many, "d/sub/inner"},
    Step{"create many", What::create_many, "d/new", "", 0640, "d/new"},
    Step{"create many set-id programs", What::create_many, "d/new", "", 06755, "d/new"},
    Step{"create many that exist", What::create_many, "d/f", "", 0640},
    Step{"remove many", What::unlink_many, "d/f"},
    Step{"remove many that are not there", What::unlink_many, "d/absent"},
    Step{"remove many directories", What::unlink_many, "d/sub"},
};
constexpr WallTime long_ago{std::chrono::seconds(1'000'000'000)};
constexpr dev_t a_device = 0x103;
constexpr const char* user_attribute = "user.a";
constexpr const char* trusted_attribute = "trusted.a";

struct Modes {
    mode_t directory = 0755, file = 0644;
    friend bool operator==(Modes, Modes) = default;
};
// A tree that is made again only if something has changed in it.
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
               what != What::get_trusted && what != What::open_path && what != What::stat_many;
    }
    Tree tree_;
    std::optional<Modes> modes_;
};

// The tree in the machine's own file system. The calling thread plays the users.
class KernelTree {
  public:
    KernelTree() {
        // In memory if possible: trees are made thousands of times.
        const std::filesystem::path memory = "/dev/shm";
        const bool has_memory = ::access(memory.c_str(), W_OK) == 0;
        std::string pattern = (has_memory ? memory : std::filesystem::temp_directory_path()) /
                              "ros2store-test-XXXXXX";
        EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
        path_ = pattern;
        EXPECT_EQ(::chmod(path_.c_str(), 0755), 0);
        root_ = ::open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    KernelTree(const KernelTree&) = delete;
    KernelTree& operator=(const KernelTree&) = delete;
    ~KernelTree() {
        (void)::close(root_);
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    void make(Modes modes) {
        for (const char* each : {"d", "e"}) {
            std::error_code ignored;
            std::filesystem::remove_all(path_ / each, ignored);
            directory(each, 0755);
        }
        for (const char* each : {"d/f", "e/g", "d/sub/inner"}) {
            if (std::string_view(each) == "d/sub/inner") directory("d/sub", 0755);
            const int file = ::openat(root_, each, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
            EXPECT_GE(file, 0);
            (void)::fsetxattr(file, user_attribute, "v", 1, 0);
            (void)::fsetxattr(file, trusted_attribute, "v", 1, 0);
            (void)::close(file);
            settle(each, modes.file, file_owner, file_group);
        }
        directory("d/empty", 0755);
        settle("d/empty", modes.file, file_owner, file_group);
        settle("d/sub", modes.file, file_owner, file_group);
        settle("e", 0777, directory_owner, directory_group);
        settle("d", modes.directory, directory_owner, directory_group);
    }
    Answer run(const User& user, const Step& step) {
        become(user.uid, user.gid, user.groups);
        errno = 0;
        const int error = act(step) < 0 ? errno : 0;
        become(0, 0, {});
        Answer answer{.error = error};
        struct stat status{};
        if (error == 0 && *step.shown != '\0') {
            EXPECT_EQ(::fstatat(root_, step.shown, &status, AT_SYMLINK_NOFOLLOW), 0);
            answer.mode = status.st_mode, answer.uid = status.st_uid, answer.gid = status.st_gid;
        }
        return answer;
    }

  private:
    void directory(const char* path, mode_t mode) {
        EXPECT_EQ(::mkdirat(root_, path, mode), 0) << path;
        (void)::setxattr((path_ / path).c_str(), user_attribute, "v", 1, 0);
    }
    void settle(const char* path, mode_t mode, uint32_t uid, uint32_t gid) const {
        EXPECT_EQ(::fchownat(root_, path, uid, gid, 0), 0);
        EXPECT_EQ(::fchmodat(root_, path, mode, 0), 0);
    }
    // Of this thread alone: libc's functions change the whole process.
    static void become(uint32_t uid, uint32_t gid, const std::vector<uint32_t>& groups) {
        if (uid == 0) EXPECT_EQ(::syscall(SYS_setresuid, -1, 0, -1), 0);
        EXPECT_EQ(::syscall(SYS_setgroups, groups.size(), groups.data()), 0);
        EXPECT_EQ(::syscall(SYS_setresgid, -1, gid, -1), 0);
        if (uid != 0) EXPECT_EQ(::syscall(SYS_setresuid, -1, uid, -1), 0);
    }
    int open(const char* path, int flags, mode_t mode = 0) const {
        const int file = ::openat(root_, path, flags | O_CLOEXEC | O_NOFOLLOW, mode);
        if (file >= 0) (void)::close(file);
        return file;
    }
    // Extended attributes by path alone, through the descriptor of the root.
    [[nodiscard]] std::string below(const char* path) const {
        return fmt::format("/proc/self/fd/{}/{}", root_, path);
    }
    int act(const Step& step) {
        const char* const path = step.path;
        const mode_t mode = step.number;
        struct stat status{};
        char value[8];
        const timespec past[] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
        switch (step.what) {
            case What::stat_many:
            case What::stat: return ::fstatat(root_, path, &status, AT_SYMLINK_NOFOLLOW);
            case What::open_path:
            case What::open_read: return open(path, O_RDONLY);
            case What::open_write: return open(path, O_WRONLY);
            case What::open_both: return open(path, O_RDWR);
            case What::open_truncate: return open(path, O_WRONLY | O_TRUNC);
            case What::create_path:
            case What::create: return open(path, O_RDWR | O_CREAT, mode);
            case What::create_path_new:
            case What::create_new: return open(path, O_RDWR | O_CREAT | O_EXCL, mode);
            case What::make_directory: return ::mkdirat(root_, path, mode);
            case What::create_many: return ::mknodat(root_, path, S_IFREG | mode, 0);
            case What::make_fifo: return ::mknodat(root_, path, S_IFIFO | mode, 0);
            case What::make_device: return ::mknodat(root_, path, S_IFCHR | mode, a_device);
            case What::symlink: return ::symlinkat(step.other, root_, path);
            case What::link: return ::linkat(root_, path, root_, step.other, 0);
            case What::unlink_many:
            case What::unlink: return ::unlinkat(root_, path, 0);
            case What::remove_directory: return ::unlinkat(root_, path, AT_REMOVEDIR);
            case What::rename: return ::renameat2(root_, path, root_, step.other, 0);
            case What::exchange:
                return ::renameat2(root_, path, root_, step.other, RENAME_EXCHANGE);
            case What::chmod: return ::fchmodat(root_, path, mode, 0);
            case What::chown: return ::fchownat(root_, path, step.number, -1, 0);
            case What::chgrp: return ::fchownat(root_, path, -1, step.number, 0);
            case What::truncate: return ::truncate(below(path).c_str(), 1);
            case What::touch: return ::utimensat(root_, path, nullptr, 0);
            case What::set_times: return ::utimensat(root_, path, past, 0);
            case What::get_xattr:
                return static_cast<int>(
                    ::getxattr(below(path).c_str(), user_attribute, value, sizeof value));
            case What::set_xattr: return ::setxattr(below(path).c_str(), user_attribute, "w", 1, 0);
            case What::remove_xattr: return ::removexattr(below(path).c_str(), user_attribute);
            case What::set_trusted:
                return ::setxattr(below(path).c_str(), trusted_attribute, "w", 1, 0);
            case What::get_trusted:
                return static_cast<int>(
                    ::getxattr(below(path).c_str(), trusted_attribute, value, sizeof value));
        }
        return -1;
    }
    std::filesystem::path path_;
    int root_ = -1;
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
    struct Named {
        fs::NodeId parent{};
        std::string name;
        std::optional<fs::NodeId> node;
    };
    [[nodiscard]] fs::FileSystem& fs() const { return subject_->file_system(); }
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
            // A directory with the set-gid bit gave them its group, and the bit.
            EXPECT_TRUE(co_await fs.set_attributes(
                call, each->node, {.mode = modes.file, .uid = file_owner, .gid = file_group}));
        }
        for (const auto& each : {sub, empty}) {
            EXPECT_TRUE(co_await fs.set_attributes(
                call, each->node, {.mode = modes.file, .uid = file_owner, .gid = file_group}));
        }
    }
    Task<Result<Named>> find(const Call& call, std::string_view path) {
        ROS2S_CO_TRY_ASSIGN(const fs::Walked walked,
                            co_await fs().walk(call, path, fs::LastLink::keep));
        Named named{.parent = walked.parent, .name = walked.name, .node = {}};
        if (walked.attributes) named.node = walked.attributes->node;
        co_return named;
    }
    Task<Result<fs::NodeId>> find_node(const Call& call, std::string_view path) {
        ROS2S_CO_TRY_ASSIGN(const Named named, co_await find(call, path));
        if (!named.node) co_return fail(Code::not_found);
        co_return *named.node;
    }
    Task<Result<Named>> find_place(const Call& call, std::string_view path) {
        ROS2S_CO_TRY_ASSIGN(const fs::Walked walked,
                            co_await fs().walk(call, path, fs::LastLink::unasked));
        co_return Named{.parent = walked.parent, .name = walked.name, .node = {}};
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
            case What::symlink: co_return co_await add(call, step);
            case What::link:
            case What::unlink:
            case What::remove_directory:
            case What::rename:
            case What::exchange: co_return co_await move(call, step);
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
        ROS2S_CO_TRY_ASSIGN(const Named at, co_await find_place(call, step.path));
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
            ROS2S_CO_TRY(
                co_await fs().mknod(call, at.parent, at.name, type | step.number, a_device, given));
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
        ROS2S_CO_TRY_ASSIGN(const Named at, co_await find_place(call, step.path));
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
            ROS2S_CO_TRY_ASSIGN(const Named to, co_await find_place(call, step.other));
            ROS2S_CO_TRY(co_await fs().link(call, node, to.parent, to.name));
            co_return Result<>{};
        }
        ROS2S_CO_TRY_ASSIGN(const Named at, co_await find_place(call, step.path));
        if (step.what == What::unlink) co_return co_await fs().unlink(call, at.parent, at.name);
        if (step.what == What::remove_directory) {
            co_return co_await fs().rmdir(call, at.parent, at.name);
        }
        ROS2S_CO_TRY_ASSIGN(const Named to, co_await find_place(call, step.other));
        co_return co_await fs().rename(call, at.parent, at.name, to.parent, to.name,
                                       {.exchange = step.what == What::exchange});
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
            default: break;
        }
        const bool trusted = step.what == What::get_trusted;
        ROS2S_CO_TRY(
            co_await fs().get_xattr(call, node, trusted ? trusted_attribute : user_attribute));
        co_return Result<>{};
    }
    std::unique_ptr<CheckedDfs> subject_;
};

// What this kernel, or the file system of its temporary directory, cannot be asked.
bool is_asked(const Step& step, Modes modes, const Answer& of_root) {
    if (of_root.error == EOPNOTSUPP || of_root.error == EPERM) return false;  // as in a container
    // fs.protected_regular refuses more.
    const bool is_sticky = (modes.directory & S_ISVTX) != 0;
    const bool creates = step.what == What::create || step.what == What::create_path;
    return !(is_sticky && creates && std::string_view(step.path) == "d/f");
}

bool protects_hard_links() {
    std::string text(8, '\0');
    const int file = ::open("/proc/sys/fs/protected_hardlinks", O_RDONLY | O_CLOEXEC);
    const bool known = file >= 0 && ::read(file, text.data(), text.size()) > 0;
    if (file >= 0) (void)::close(file);
    return known && text.front() == '1';
}

TEST(CheckedFileSystem, AnswersAsTheKernelDoes) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can act as other users";
    const mode_t umask_before = ::umask(0);
    KeptTree<KernelTree> kernel;
    KeptTree<CheckedTree> checked;
    const bool links = protects_hard_links();
    int compared = 0;
    int differences = 0;
    for (const mode_t directory : {0755, 0777, 01777, 02775, 0750, 0711, 0070, 0007, 0500}) {
        for (const mode_t file : {0644, 0600, 0755, 0662, 0046, 0400}) {
            const Modes modes{.directory = directory, .file = file};
            for (const Step& step : steps) {
                if (step.what == What::link && !links) continue;
                const Answer of_root = kernel.run(modes, users.back(), step);
                if (!is_asked(step, modes, of_root)) continue;
                for (const User& user : users) {
                    const Answer expected = kernel.run(modes, user, step);
                    const Answer answer = checked.run(modes, user, step);
                    ++compared;
                    if (answer == expected) continue;
                    if (++differences > 40) continue;
                    ADD_FAILURE() << fmt::format(
                                         "{} by {}, in a directory of mode {:o}, of mode "
                                         "{:o}: ",
                                         step.name, user.name, directory, file)
                                  << answer << "; the kernel: " << expected;
                }
            }
        }
    }
    ::umask(umask_before);
    EXPECT_EQ(differences, 0);
    EXPECT_GT(compared, 10'000);
}

Task<int> change_mode(fs::FileSystem& fs, const Call& call, fs::NodeId node, mode_t mode) {
    const auto changed = co_await fs.set_attributes(call, node, {.mode = mode});
    co_return changed ? 0 : to_errno(changed.error());
}

// A host's kernel drops set-id bits for the user who writes.
Task<> drop_set_ids(CheckedDfs& subject) {
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
    EXPECT_EQ(co_await change_mode(fs, {}, file, 04774), 0);
    EXPECT_EQ(co_await change_mode(fs, as_other, file, 0774), EPERM) << "may not write";
}
TEST(CheckedFileSystem, AWriterMayDropSetIdBits) {
    CheckedDfs subject(1, std::nullopt, {1000, 1000});
    subject.world().run(drop_set_ids(subject));
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
Task<> act_on_many(CheckedDfs& subject) {
    fs::FileSystem& fs = subject.file_system();
    const Caller owner = as_user(1000), other = as_user(1001);
    const Call as_owner{.caller = &owner}, as_other{.caller = &other};
    using Names = std::vector<std::string_view>;
    const Names own{"a", "b"}, some{"a", "absent", "b"}, fresh{"x", "a", "y"}, mine{"m", "n"};
    const auto top = (co_await fs.mkdir(as_owner, fs::root_node, "top", 0755, {}))->node;
    EXPECT_EQ(errnos(co_await fs.create_many(as_owner, top, own, 0600, {})), (Errnos{0, 0}));

    // Search, and no right to write.
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

    // The names can be read, and nothing else.
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
    // Everything but reading the names.
    EXPECT_EQ(co_await change_mode(fs, as_owner, top, 0733), 0);
    const auto unread = co_await fs.open(as_other, top, {});
    EXPECT_EQ(unread ? 0 : to_errno(unread.error()), EACCES);

    // In a sticky directory everybody removes what is their own. A new file has its creator, and
    // the group of a set-gid directory.
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
TEST(CheckedFileSystem, EachOfManyNamesIsCheckedAsIfAlone) {
    CheckedDfs subject(1, std::nullopt, {1000, 1000});
    subject.world().run(act_on_many(subject));
}

// ---- the cost, in requests to the store

// Each after its names were looked up, as a host's kernel does.
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
    // Node ids are leased: these do not count.
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

TEST(CheckedFileSystem, NeedsNoRequestsAfterLookUps) {
    std::vector<uint64_t> unchecked, as_owner;
    const Caller owner = as_user(1000);
    for (const auto& [caller, counts] :
         {std::pair<const Caller*, std::vector<uint64_t>*>{nullptr, &unchecked},
          {&owner, &as_owner}}) {
        CheckedDfs subject(1, std::nullopt, {1000, 1000});
        subject.world().run(count_requests(subject, caller, *counts));
    }
    // A look-up, a walk, an opening; a creation, a new directory, a change of mode, a new name, and
    // the removal of a file and of a directory. A path that is opened, and one that is created; of
    // many names, their creation, look-up and removal.
    EXPECT_EQ(unchecked, (std::vector<uint64_t>{1, 1, 1, 1, 1, 3, 2, 2, 2, 2, 2, 2, 1, 2}));
    EXPECT_EQ(as_owner, unchecked);
}

// After a second without a look-up, a check asks again: another DPU may have changed the mode.
Task<> wait_and_look(CheckedDfs& subject) {
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
    // Its own change counts at once.
    EXPECT_TRUE(co_await fs.set_attributes(as_owner, top->node, {.mode = 0755}));
    EXPECT_EQ(to_errno((co_await fs.lookup(as_other, top->node, "x")).error()), ENOENT);
    EXPECT_TRUE(co_await fs.set_attributes(as_owner, top->node, {.mode = 0700}));
    EXPECT_EQ(to_errno((co_await fs.lookup(as_other, top->node, "x")).error()), EACCES);
}
TEST(CheckedFileSystem, BelievesWhatItSawForASecond) {
    CheckedDfs subject(1, std::nullopt, {1000, 1000});
    subject.world().run(wait_and_look(subject));
}

// Whoever may write to an open file may change its size, whatever its mode, and nobody else.
Task<> change_sizes(CheckedDfs& subject) {
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
TEST(CheckedFileSystem, AnOpenFileCanChangeItsSize) {
    CheckedDfs subject(1, std::nullopt, {1000, 1000});
    subject.world().run(change_sizes(subject));
}

// What root of a host gets only where its grant says so.
Task<> make_as_root(CheckedDfs& subject) {
    fs::FileSystem& fs = subject.file_system();
    Caller root{.uid = 0, .gid = 0};
    const Call call{.caller = &root};
    const auto code = [](const auto& result) { return result ? 0 : to_errno(result.error()); };
    const auto file = co_await fs.mknod(call, fs::root_node, "f", S_IFREG | 0600, 0, {});
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
TEST(CheckedFileSystem, RootNeedsItsGrantForSomeThings) {
    CheckedDfs subject(1);
    subject.world().run(make_as_root(subject));
}

}  // namespace
}  // namespace ros2s::access
