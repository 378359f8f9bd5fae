// A tree in the machine's own file system, and the operations on it whose results are compared with
// those of CheckedFileSystem (kernel_answers_test.cc).
#pragma once
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
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/fs/acl.h"
#include "ros2s/fs/contract/acl_text.h"
#include "ros2s/runtime/time.h"

namespace ros2s::access {

inline constexpr uint32_t directory_owner = 1000, file_owner = 1001;
inline constexpr uint32_t directory_group = 2000, file_group = 2001;

struct User {
    const char* name;
    uint32_t uid, gid;
    std::vector<uint32_t> groups;
};
inline const std::array users{
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
    std::string list{}, default_list{};  // access lists as text; empty: none
    friend bool operator==(const Answer&, const Answer&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Answer& answer) {
        return out << fmt::format("{} mode {:o} owner {}:{} lists '{}' '{}'",
                                  answer.error == 0 ? "done" : ::strerror(answer.error),
                                  answer.mode, answer.uid, answer.gid, answer.list,
                                  answer.default_list);
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
    make_whiteout,
    symlink,
    link,
    unlink,
    remove_directory,
    rename,
    exchange,
    rename_to_whiteout,
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
    get_list,
    set_list,
    set_default_list,
    remove_list,
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
inline const std::array steps{
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
    Step{"make a whiteout", What::make_whiteout, "d/new", "", 0600, "d/new"},
    Step{"make a whiteout of what exists", What::make_whiteout, "d/f", "", 0600},
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
    Step{"leave a whiteout", What::rename_to_whiteout, "d/f", "e/new", 0, "d/f"},
    Step{"leave a whiteout and replace", What::rename_to_whiteout, "d/f", "e/g", 0, "d/f"},
    Step{"leave a whiteout of a directory", What::rename_to_whiteout, "d/sub", "d/new", 0, "d/sub"},
    Step{"leave a whiteout of what is not there", What::rename_to_whiteout, "d/absent", "e/new"},
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
    Step{"read the list", What::get_list, "d/f"},
    Step{"set a list", What::set_list, "d/f", "u::rwx,u:1004:r--,g::r-x,m::r-x,o::---", 0, "d/f"},
    Step{"set a list of a mode", What::set_list, "d/f", "u::rw-,g::r--,o::r--", 0, "d/f"},
    Step{"set an invalid list", What::set_list, "d/f", "u::rw-,u:7:r--,g::r--,o::r--"},
    Step{"set a list of a directory", What::set_list, "d/sub",
         "u::rwx,g::r-x,g:5000:-wx,m::rwx,o::--x", 0, "d/sub"},
    Step{"set a default list", What::set_default_list, "d/sub", "u::rwx,g::r-x,o::---", 0, "d/sub"},
    Step{"set a default list of a file", What::set_default_list, "d/f", "u::rwx,g::r-x,o::---"},
    Step{"remove the list", What::remove_list, "d/f", "", 0, "d/f"},
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
inline constexpr WallTime long_ago{std::chrono::seconds(1'000'000'000)};
inline constexpr dev_t a_device = 0x103;
inline constexpr const char* user_attribute = "user.a";
inline constexpr const char* trusted_attribute = "trusted.a";

struct Modes {
    mode_t directory = 0755, file = 0644;
    // Access lists as text; empty: none. `default_list` is that of the directories.
    std::string_view directory_list{}, file_list{}, default_list{};
    friend bool operator==(Modes, Modes) = default;
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
    KernelTree& operator=(KernelTree&&) = delete;
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
            set_attributes(each, modes.file, file_owner, file_group);
        }
        directory("d/empty", 0755);
        set_attributes("d/empty", modes.file, file_owner, file_group);
        set_attributes("d/sub", modes.file, file_owner, file_group);
        set_attributes("e", 0777, directory_owner, directory_group);
        set_attributes("d", modes.directory, directory_owner, directory_group);
        for (const char* each : {"d/f", "e/g", "d/sub/inner", "d/empty", "d/sub"}) {
            set_list(each, fs::access_acl_name, modes.file_list);
        }
        set_list("d/sub", fs::default_acl_name, modes.default_list);
        set_list("d", fs::default_acl_name, modes.default_list);
        set_list("d", fs::access_acl_name, modes.directory_list);
    }
    // The file system of the temporary directory has access lists.
    [[nodiscard]] bool has_lists() {
        make({});
        const std::string list = fs::contract::acl("u::rwx,u:1:r--,g::r-x,m::r-x,o::---");
        return ::setxattr(below("d/f").c_str(), fs::access_acl_name.data(), list.data(),
                          list.size(), 0) == 0;
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
            answer.list = list_of(step.shown, fs::access_acl_name);
            answer.default_list = list_of(step.shown, fs::default_acl_name);
        }
        return answer;
    }

  private:
    void directory(const char* path, mode_t mode) {
        EXPECT_EQ(::mkdirat(root_, path, mode), 0) << path;
        (void)::setxattr((path_ / path).c_str(), user_attribute, "v", 1, 0);
    }
    void set_attributes(const char* path, mode_t mode, uint32_t uid, uint32_t gid) const {
        EXPECT_EQ(::fchownat(root_, path, uid, gid, 0), 0);
        EXPECT_EQ(::fchmodat(root_, path, mode, 0), 0);
    }
    void set_list(const char* path, std::string_view name, std::string_view text) const {
        if (text.empty()) return;
        const std::string list = fs::contract::acl(text);
        EXPECT_EQ(::setxattr(below(path).c_str(), name.data(), list.data(), list.size(), 0), 0);
    }
    [[nodiscard]] std::string list_of(const char* path, std::string_view name) const {
        std::string bytes(fs::acl_bytes_max, '\0');
        const ssize_t size =
            ::lgetxattr(below(path).c_str(), name.data(), bytes.data(), bytes.size());
        if (size <= 0) return {};
        bytes.resize(static_cast<size_t>(size));
        const auto list = fs::Acl::decode(as_bytes(bytes));
        EXPECT_TRUE(list);
        return list ? fs::contract::acl_text(*list) : "invalid";
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
        const auto set_attribute = [&](std::string_view name) {
            const std::string list = fs::contract::acl(step.other);
            return ::setxattr(below(path).c_str(), name.data(), list.data(), list.size(), 0);
        };
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
            case What::make_whiteout: return ::mknodat(root_, path, S_IFCHR | mode, 0);
            case What::symlink: return ::symlinkat(step.other, root_, path);
            case What::link: return ::linkat(root_, path, root_, step.other, 0);
            case What::unlink_many:
            case What::unlink: return ::unlinkat(root_, path, 0);
            case What::remove_directory: return ::unlinkat(root_, path, AT_REMOVEDIR);
            case What::rename: return ::renameat2(root_, path, root_, step.other, 0);
            case What::exchange:
                return ::renameat2(root_, path, root_, step.other, RENAME_EXCHANGE);
            case What::rename_to_whiteout:
                return ::renameat2(root_, path, root_, step.other, RENAME_WHITEOUT);
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
            case What::get_list:
                return static_cast<int>(
                    ::getxattr(below(path).c_str(), fs::access_acl_name.data(), nullptr, 0));
            case What::set_list: return set_attribute(fs::access_acl_name);
            case What::set_default_list: return set_attribute(fs::default_acl_name);
            case What::remove_list:
                return ::removexattr(below(path).c_str(), fs::access_acl_name.data());
        }
        return -1;
    }
    std::filesystem::path path_;
    int root_ = -1;
};

}  // namespace ros2s::access
