#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <functional>
#include <set>
#include <thread>

#include "test_support/test_pool.h"

namespace ros2s::api::c {
namespace {

using testing::HasSubstr;

class CApiFiles : public SharedPoolTest {
  protected:
    ros2s_file* open_file(const char* path, int flags = O_RDWR | O_CREAT) {
        ros2s_file* file = nullptr;
        EXPECT_EQ(ros2s_file_open(fs_, path, flags, 0644, &file), 0) << ros2s_last_error();
        return file;
    }
    void write_file(const char* path, std::string_view text) {
        ros2s_file* file = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
        EXPECT_EQ(ros2s_pwrite(file, text.data(), text.size(), 0),
                  static_cast<ssize_t>(text.size()));
        EXPECT_EQ(ros2s_file_close(file), 0);
    }
    std::string read_file(const char* path) {
        ros2s_file* file = open_file(path, O_RDONLY);
        std::string text(1 << 16, '?');
        const ssize_t size = ros2s_pread(file, text.data(), text.size(), 0);
        EXPECT_GE(size, 0) << ros2s_last_error();
        EXPECT_EQ(ros2s_file_close(file), 0);
        text.resize(static_cast<size_t>(size));
        return text;
    }
    std::vector<std::string> list(const char* path) {
        ros2s_dir* directory = nullptr;
        EXPECT_EQ(ros2s_opendir(fs_, path, &directory), 0) << ros2s_last_error();
        std::vector<std::string> names;
        ros2s_dirent entry;
        while (ros2s_readdir(directory, &entry) == 1) names.emplace_back(entry.name);
        EXPECT_EQ(ros2s_closedir(directory), 0);
        std::ranges::sort(names);
        return names;
    }
};

TEST_F(CApiFiles, WrittenDataIsReadBack) {
    ros2s_file* file = open_file("a");
    const std::string block(4096, 'x');
    EXPECT_EQ(ros2s_pwrite(file, block.data(), block.size(), 8192), 4096);
    EXPECT_EQ(ros2s_fsync(file), 0);
    std::string back(3 * 4096 + 5, '?');
    EXPECT_EQ(ros2s_pread(file, back.data(), back.size(), 0), 3 * 4096);
    EXPECT_TRUE(back.starts_with(std::string(8192, '\0') + block));
    struct stat st{};
    EXPECT_EQ(ros2s_fstat(file, &st), 0);
    EXPECT_EQ(st.st_size, 3 * 4096);
    EXPECT_EQ(st.st_mode, S_IFREG | 0644);
    EXPECT_EQ(ros2s_punch_hole(file, 8192, 4096), 0);
    EXPECT_EQ(ros2s_ftruncate(file, 8193), 0);
    EXPECT_EQ(ros2s_pread(file, back.data(), back.size(), 0), 8193);
    EXPECT_TRUE(back.starts_with(std::string(8193, '\0')));
    EXPECT_EQ(ros2s_file_close(file), 0);
}

TEST_F(CApiFiles, LocksOfTwoFilesExcludeEachOther) {
    ros2s_file* one = open_file("a");
    ros2s_file* other = open_file("a");
    EXPECT_EQ(ros2s_flock(one, LOCK_EX), 0);
    EXPECT_EQ(ros2s_flock(other, LOCK_SH | LOCK_NB), -EWOULDBLOCK);
    EXPECT_STREQ(ros2s_last_error(), "lock 'a': another lock is in the way");
    EXPECT_EQ(ros2s_flock(one, LOCK_UN), 0);
    EXPECT_EQ(ros2s_flock(other, LOCK_SH), 0);
    EXPECT_EQ(ros2s_flock(one, 77), -EINVAL);

    struct flock range{};
    range.l_type = F_WRLCK;
    range.l_start = 10;
    range.l_len = 5;
    EXPECT_EQ(ros2s_lock(one, F_OFD_SETLK, &range), 0);
    EXPECT_EQ(ros2s_lock(other, F_OFD_SETLK, &range), -EAGAIN);
    range.l_start = range.l_len = 0;
    EXPECT_EQ(ros2s_lock(other, F_OFD_GETLK, &range), 0);
    EXPECT_EQ(range.l_type, F_WRLCK);
    EXPECT_EQ(range.l_start, 10);
    EXPECT_EQ(range.l_len, 5);
    EXPECT_EQ(range.l_pid, ::getpid());
    EXPECT_EQ(ros2s_lock(one, F_SETLK, &range), -EINVAL);
    EXPECT_EQ(ros2s_file_close(one), 0);
    range.l_len = 0;
    EXPECT_EQ(ros2s_lock(other, F_OFD_SETLKW, &range), 0);
    EXPECT_EQ(ros2s_file_close(other), 0);
}

TEST_F(CApiFiles, SeekFindsDataAndHoles) {
    ros2s_file* file = open_file("a");
    const std::string block(4096, 'x');
    constexpr int64_t mib = 1 << 20;
    EXPECT_EQ(ros2s_seek(file, 0, SEEK_DATA), -ENXIO);
    EXPECT_EQ(ros2s_pwrite(file, block.data(), block.size(), 3 * mib), 4096);
    EXPECT_EQ(ros2s_ftruncate(file, 9 * mib), 0);
    EXPECT_EQ(ros2s_seek(file, 0, SEEK_DATA), 3 * mib);
    EXPECT_EQ(ros2s_seek(file, 0, SEEK_HOLE), 0);
    EXPECT_EQ(ros2s_seek(file, 3 * mib + 5, SEEK_DATA), 3 * mib + 5);
    EXPECT_EQ(ros2s_seek(file, 3 * mib, SEEK_HOLE), 4 * mib);
    EXPECT_EQ(ros2s_seek(file, 9 * mib, SEEK_HOLE), -ENXIO);
    EXPECT_EQ(ros2s_seek(file, 0, SEEK_SET), -EINVAL);
    EXPECT_EQ(ros2s_file_close(file), 0);
}

TEST_F(CApiFiles, OpenFlagsMatchOpen2) {
    ros2s_file* file = nullptr;
    const auto open_error = [&](const char* path, int flags) {
        const int rc = ros2s_file_open(fs_, path, flags, 0600, &file);
        if (rc == 0) ros2s_file_close(file);
        return rc;
    };
    EXPECT_EQ(open_error("a", O_RDONLY), -ENOENT);
    EXPECT_STREQ(ros2s_last_error(), "open 'a': not found");
    EXPECT_EQ(open_error("no/a", O_RDWR | O_CREAT), -ENOENT);
    EXPECT_EQ(open_error("a", O_RDWR | O_CREAT | O_EXCL), 0);
    EXPECT_EQ(open_error("a", O_RDWR | O_CREAT | O_EXCL), -EEXIST);
    EXPECT_EQ(open_error("a", O_RDWR | O_CREAT | O_CLOEXEC | O_DIRECT | O_SYNC), 0);
    EXPECT_EQ(open_error("a", O_RDWR | O_TMPFILE), -EINVAL);
    EXPECT_EQ(open_error("a", O_ACCMODE), -EINVAL);
    EXPECT_EQ(open_error("a/", O_RDONLY), -ENOTDIR);
    EXPECT_EQ(open_error("a/b", O_RDONLY), -ENOTDIR);
    EXPECT_EQ(open_error("/", O_RDONLY), -EISDIR);
    EXPECT_EQ(open_error("", O_RDONLY), -EISDIR);
    EXPECT_EQ(open_error(std::string(300, 'x').c_str(), O_RDONLY), -ENAMETOOLONG);
    EXPECT_EQ(ros2s_symlink(fs_, "a", "link"), 0);
    EXPECT_EQ(open_error("link", O_RDONLY | O_NOFOLLOW), -ELOOP);
    EXPECT_EQ(open_error("link", O_RDWR | O_CREAT | O_EXCL), -EEXIST);
    EXPECT_EQ(ros2s_symlink(fs_, "made", "dangling"), 0);
    EXPECT_EQ(open_error("dangling", O_RDWR | O_CREAT), 0);
    EXPECT_THAT(list(""), testing::ElementsAre("a", "dangling", "link", "made"));

    write_file("a", "0123456789");
    file = open_file("a", O_WRONLY | O_APPEND);
    EXPECT_EQ(ros2s_pwrite(file, "abc", 3, 0), 3);
    EXPECT_EQ(ros2s_file_close(file), 0);
    EXPECT_EQ(read_file("link"), "0123456789abc");
    EXPECT_EQ(open_error("a", O_WRONLY | O_TRUNC), 0);
    EXPECT_EQ(read_file("a"), "");
    file = open_file("a", O_RDONLY);
    EXPECT_EQ(ros2s_ftruncate(file, 1), -EINVAL);
    EXPECT_LT(ros2s_pwrite(file, "x", 1, 0), 0);
    EXPECT_EQ(ros2s_file_close(file), 0);
}

TEST_F(CApiFiles, PathsResolveAsInTheKernel) {
    ASSERT_EQ(ros2s_mkdir(fs_, "d", 0755), 0);
    ASSERT_EQ(ros2s_mkdir(fs_, "/d/e/", 0700), 0);
    EXPECT_EQ(ros2s_mkdir(fs_, "d", 0755), -EEXIST);
    EXPECT_EQ(ros2s_mkdir(fs_, "/", 0755), -EEXIST);
    EXPECT_EQ(ros2s_mkdir(fs_, "", 0755), -ENOENT);
    write_file("d/e/f", "f");
    EXPECT_EQ(read_file("//d/./e/../e//f"), "f");
    EXPECT_EQ(read_file("../../d/e/f"), "f");
    ASSERT_EQ(ros2s_symlink(fs_, "/d/e", "d/absolute"), 0);
    ASSERT_EQ(ros2s_symlink(fs_, "../d/e/f", "d/relative"), 0);
    ASSERT_EQ(ros2s_symlink(fs_, "loop2", "loop1"), 0);
    ASSERT_EQ(ros2s_symlink(fs_, "loop1", "loop2"), 0);
    EXPECT_EQ(read_file("d/absolute/f"), "f");
    EXPECT_EQ(read_file("d/relative"), "f");
    struct stat st{};
    EXPECT_EQ(ros2s_stat(fs_, "loop1", &st), -ELOOP);
    EXPECT_EQ(ros2s_lstat(fs_, "loop1", &st), 0);
    EXPECT_TRUE(S_ISLNK(st.st_mode));
    char target[64];
    EXPECT_EQ(ros2s_readlink(fs_, "d/relative", target, sizeof target), 8);
    EXPECT_EQ(std::string(target, 8), "../d/e/f");
    EXPECT_EQ(ros2s_readlink(fs_, "d/relative", target, 3), -ERANGE);
    EXPECT_EQ(ros2s_readlink(fs_, "d", target, sizeof target), -EINVAL);
    EXPECT_EQ(ros2s_rmdir(fs_, "d"), -ENOTEMPTY);
    EXPECT_EQ(ros2s_rmdir(fs_, "d/e/f"), -ENOTDIR);
    EXPECT_EQ(ros2s_unlink(fs_, "d/e"), -EISDIR);
    EXPECT_EQ(ros2s_rename(fs_, "d", "d/e/x", 0), -EINVAL);
    EXPECT_EQ(ros2s_rename(fs_, "d/e/f", "g", 0), 0);
    EXPECT_EQ(ros2s_link(fs_, "g", "h"), 0);
    EXPECT_EQ(ros2s_rename(fs_, "g", "d", ROS2S_RENAME_NOREPLACE), -EEXIST);
    EXPECT_EQ(ros2s_rename(fs_, "g", "d", 7), -EINVAL);
    EXPECT_EQ(ros2s_stat(fs_, "h", &st), 0);
    EXPECT_EQ(st.st_nlink, 2U);
    EXPECT_EQ(ros2s_unlink(fs_, "g"), 0);
    EXPECT_EQ(ros2s_rmdir(fs_, "d/e"), 0);
}

TEST_F(CApiFiles, AttributesAreSetAndReturned) {
    write_file("a", "hello");
    EXPECT_EQ(ros2s_chmod(fs_, "a", 0600), 0);
    EXPECT_EQ(ros2s_chown(fs_, "a", 12, static_cast<gid_t>(-1)), 0);
    const timespec times[2] = {{.tv_sec = -5, .tv_nsec = 7}, {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
    struct stat before{};
    ASSERT_EQ(ros2s_stat(fs_, "a", &before), 0);
    EXPECT_EQ(ros2s_utimens(fs_, "a", times), 0);
    EXPECT_EQ(ros2s_truncate(fs_, "a", 2), 0);
    struct stat st{};
    ASSERT_EQ(ros2s_stat(fs_, "a", &st), 0);
    EXPECT_EQ(st.st_mode, S_IFREG | 0600);
    EXPECT_EQ(st.st_uid, 12U);
    EXPECT_EQ(st.st_gid, getegid());
    EXPECT_EQ(st.st_size, 2);
    EXPECT_EQ(st.st_atim.tv_sec, -5);
    EXPECT_EQ(st.st_atim.tv_nsec, 7);
    const timespec bad[2] = {{.tv_sec = 0, .tv_nsec = -1}, {}};
    EXPECT_EQ(ros2s_utimens(fs_, "a", bad), -EINVAL);
    EXPECT_EQ(ros2s_truncate(fs_, "/", 2), -EISDIR);

    EXPECT_EQ(ros2s_setxattr(fs_, "a", "user.k", "value", 5, ROS2S_XATTR_REPLACE), -ENODATA);
    EXPECT_EQ(ros2s_setxattr(fs_, "a", "user.k", "value", 5, 0), 0);
    EXPECT_EQ(ros2s_setxattr(fs_, "a", "user.k", "value", 5, ROS2S_XATTR_CREATE), -EEXIST);
    char value[16];
    EXPECT_EQ(ros2s_getxattr(fs_, "a", "user.k", nullptr, 0), 5);
    EXPECT_EQ(ros2s_getxattr(fs_, "a", "user.k", value, 2), -ERANGE);
    EXPECT_EQ(ros2s_getxattr(fs_, "a", "user.k", value, sizeof value), 5);
    EXPECT_EQ(std::string(value, 5), "value");
    EXPECT_EQ(ros2s_listxattr(fs_, "a", value, sizeof value), 7);
    EXPECT_EQ(std::string(value, 7), std::string("user.k\0", 7));
    EXPECT_EQ(ros2s_removexattr(fs_, "a", "user.k"), 0);
    EXPECT_EQ(ros2s_getxattr(fs_, "a", "user.k", value, 1), -ENODATA);

    struct statvfs space{};
    EXPECT_EQ(ros2s_statfs(fs_, &space), 0);
    EXPECT_GT(space.f_blocks, space.f_bfree);
    EXPECT_EQ(space.f_namemax, 255U);
}

TEST_F(CApiFiles, LargeDirectoryIsListedCompletely) {
    std::vector<std::string> names;
    for (int i = 1000; i < 1600; ++i) {
        names.push_back("f" + std::to_string(i));
        write_file(names.back().c_str(), "");
    }
    EXPECT_EQ(list("/"), names);
}

TEST_F(CApiFiles, ReadManyReportsEachFile) {
    ASSERT_EQ(ros2s_mkdir(fs_, "d", 0755), 0);
    write_file("d/a", "first");
    write_file("d/b", "a longer second");
    char a[16];
    char b[8];
    ros2s_read_item items[3] = {{.path = "a", .buffer = a, .capacity = sizeof a},
                                {.path = "b", .buffer = b, .capacity = sizeof b},
                                {.path = "missing", .buffer = b, .capacity = 0}};
    ASSERT_EQ(ros2s_read_many(fs_, "d", items, 3), 0) << ros2s_last_error();
    EXPECT_EQ(items[0].result, 5);
    EXPECT_EQ(std::string_view(a, 5), "first");
    EXPECT_EQ(items[1].result, 8);
    EXPECT_EQ(items[1].size, 15U);
    EXPECT_EQ(std::string_view(b, 8), "a longer");
    EXPECT_EQ(items[2].result, -ENOENT);
    EXPECT_EQ(ros2s_read_many(fs_, "x", items, 3), -ENOENT);
}

TEST_F(CApiFiles, WriteManyWritesWholeFilesAndReportsEach) {
    ASSERT_EQ(ros2s_mkdir(fs_, "d", 0755), 0);
    ASSERT_EQ(ros2s_mkdir(fs_, "d/taken", 0755), 0);
    write_file("d/old", "longer than the new content");
    ros2s_dir* directory = nullptr;
    ASSERT_EQ(ros2s_opendir(fs_, "d", &directory), 0) << ros2s_last_error();
    const std::string large((3 << 20) + 5, 'x');
    for (const uint32_t flags : {0U, ROS2S_WRITE_PUBLISH}) {
        std::vector<std::string> names;
        for (int i = 0; i < 300; ++i) names.push_back("f" + std::to_string(i));
        std::vector<ros2s_write_item> items;
        for (const std::string& name : names) {
            items.push_back({.name = name.c_str(), .data = name.data(), .bytes = name.size()});
        }
        items.push_back({.name = "empty", .data = nullptr, .bytes = 0, .result = 1});
        items.push_back({.name = "large", .data = large.data(), .bytes = large.size()});
        items.push_back({.name = "old", .data = "new", .bytes = 3});
        items.push_back({.name = "taken", .data = "new", .bytes = 3});
        items.push_back({.name = "a/b", .data = "new", .bytes = 3});
        ASSERT_EQ(ros2s_write_many(directory, items.data(), 0640, flags, items.size()), 0);
        for (size_t i = 0; i < 303; ++i) EXPECT_EQ(items[i].result, 0) << items[i].name;
        EXPECT_EQ(items[303].result, -EISDIR);
        EXPECT_EQ(items[304].result, -EINVAL);
        EXPECT_EQ(read_file("d/f299"), "f299");
        EXPECT_EQ(read_file("d/empty"), "");
        EXPECT_EQ(read_file("d/large"), large.substr(0, 1 << 16));
        EXPECT_EQ(read_file("d/old"), "new");
        EXPECT_EQ(list("d").size(), 304U) << "a hidden name was left";
        struct stat st{};
        ASSERT_EQ(ros2s_stat(fs_, "d/large", &st), 0);
        EXPECT_EQ(st.st_mode, S_IFREG | 0640U);
        EXPECT_EQ(st.st_size, static_cast<off_t>(large.size()));

        ros2s_write_item again[2] = {{.name = "old", .data = "other", .bytes = 5},
                                     {.name = flags == 0 ? "n0" : "n1", .data = "1", .bytes = 1}};
        ASSERT_EQ(ros2s_write_many(directory, again, 0640, flags | ROS2S_WRITE_NEW, 2), 0);
        EXPECT_EQ(again[0].result, -EEXIST);
        EXPECT_EQ(again[1].result, 0);
        EXPECT_EQ(read_file("d/old"), "new");
        ASSERT_EQ(ros2s_unlink(fs_, flags == 0 ? "d/n0" : "d/n1"), 0);
    }
    ros2s_write_item bad{.name = nullptr};
    EXPECT_EQ(ros2s_write_many(directory, &bad, 0640, 0, 1), -EINVAL);
    bad = {.name = "x", .data = nullptr, .bytes = 1};
    EXPECT_EQ(ros2s_write_many(directory, &bad, 0640, 0, 1), -EINVAL);
    EXPECT_EQ(ros2s_write_many(directory, nullptr, 0640, 0, 1), -EINVAL);
    EXPECT_EQ(ros2s_write_many(directory, nullptr, 0640, 4, 0), -EINVAL);
    EXPECT_EQ(ros2s_write_many(directory, nullptr, 0640, 0, 0), 0);
    EXPECT_EQ(ros2s_closedir(directory), 0);
}

TEST_F(CApiFiles, ManyNamesAreHandledInOneCall) {
    ASSERT_EQ(ros2s_mkdir(fs_, "d", 0755), 0);
    write_file("d/old", "four");
    ros2s_dir* directory = nullptr;
    ASSERT_EQ(ros2s_opendir(fs_, "d", &directory), 0) << ros2s_last_error();
    // More than one call of the file system takes.
    std::vector<std::string> names{"old"};
    for (int i = 0; i < 300; ++i) names.push_back("f" + std::to_string(i));
    std::vector<ros2s_name_item> items;
    for (const std::string& name : names) items.push_back({.name = name.c_str(), .result = 1});
    ASSERT_EQ(ros2s_create_many(directory, items.data(), 0640, items.size()), 0);
    for (size_t i = 0; i < items.size(); ++i) {
        EXPECT_EQ(items[i].result, i == 0 ? -EEXIST : 0) << names[i];
    }
    names.emplace_back("missing");
    items.clear();
    for (const std::string& name : names) items.push_back({.name = name.c_str(), .result = 1});
    std::vector<struct stat> stats(items.size());
    ASSERT_EQ(ros2s_stat_many(directory, items.data(), stats.data(), items.size()), 0);
    EXPECT_EQ(stats[0].st_size, 4);
    EXPECT_EQ(stats[300].st_mode, S_IFREG | 0640U);
    EXPECT_EQ(items[300].result, 0);
    EXPECT_EQ(items[301].result, -ENOENT);

    // Both ways of reading share the position.
    std::set<std::string> seen;
    ros2s_dirent one{};
    ASSERT_EQ(ros2s_readdir(directory, &one), 1);
    seen.insert(one.name);
    std::vector<ros2s_dirent> entries(100);
    ssize_t got = 0;
    while ((got = ros2s_readdir_many(directory, entries.data(), stats.data(), 100)) > 0) {
        for (ssize_t i = 0; i < got; ++i) {
            EXPECT_TRUE(seen.insert(entries[i].name).second) << entries[i].name;
            EXPECT_EQ(stats[i].st_ino, entries[i].inode);
            EXPECT_EQ(stats[i].st_nlink, 1U);
        }
    }
    EXPECT_EQ(got, 0);
    EXPECT_EQ(seen, std::set<std::string>(names.begin(), names.end() - 1));

    ASSERT_EQ(ros2s_unlink_many(directory, items.data(), items.size()), 0);
    for (size_t i = 0; i < items.size(); ++i) {
        EXPECT_EQ(items[i].result, names[i] == "missing" ? -ENOENT : 0) << names[i];
    }
    items[0].name = nullptr;
    EXPECT_EQ(ros2s_unlink_many(directory, items.data(), 1), -EINVAL);
    EXPECT_EQ(ros2s_stat_many(directory, items.data(), nullptr, 1), -EINVAL);
    EXPECT_EQ(ros2s_readdir_many(directory, entries.data(), stats.data(), 0), -EINVAL);
    EXPECT_EQ(ros2s_closedir(directory), 0);
    EXPECT_EQ(ros2s_rmdir(fs_, "d"), 0) << ros2s_last_error();
}

TEST_F(CApiFiles, RelativePathsStartAtUriPath) {
    ASSERT_EQ(ros2s_mkdir(fs_, "d", 0755), 0);
    write_file("d/a", "below");
    ros2s_fs* below = pool_.open("/d");
    struct stat st{};
    EXPECT_EQ(ros2s_stat(below, "a", &st), 0);
    EXPECT_EQ(ros2s_stat(below, "/d/a", &st), 0);
    EXPECT_EQ(ros2s_stat(below, "/a", &st), -ENOENT);
    EXPECT_EQ(ros2s_close(below), 0);
    char error[256];
    EXPECT_EQ(ros2s_open(pool_.uri("/x").c_str(), nullptr, &below, error, sizeof error), -ENOENT);
    EXPECT_STREQ(error, "open the URI's path 'x': not found");
    EXPECT_EQ(below, nullptr);
    EXPECT_EQ(ros2s_open(pool_.uri("/d/a").c_str(), nullptr, &below, error, sizeof error),
              -ENOTDIR);
}

TEST_F(CApiFiles, PoolIsOpenedTwiceInOneProcess) {
    ros2s_fs* second = pool_.open();
    write_file("a", "seen by both");
    struct stat st{};
    EXPECT_EQ(ros2s_stat(second, "a", &st), 0);
    ros2s_file* file = nullptr;
    ASSERT_EQ(ros2s_file_open(second, "a", O_RDONLY, 0, &file), 0);
    EXPECT_EQ(ros2s_close(second), -EBUSY);
    EXPECT_THAT(ros2s_last_error(), HasSubstr("close them first"));
    EXPECT_EQ(ros2s_file_close(file), 0);
    EXPECT_EQ(ros2s_close(second), 0);
    EXPECT_EQ(read_file("a"), "seen by both");
}

TEST_F(CApiFiles, FailedOpenIsExplained) {
    const auto error_of = [&](const std::string& uri, int expected) {
        char error[512] = "";
        ros2s_fs* fs = nullptr;
        EXPECT_EQ(ros2s_open(uri.c_str(), nullptr, &fs, error, sizeof error), expected) << uri;
        EXPECT_EQ(fs, nullptr);
        EXPECT_STREQ(error, ros2s_last_error());
        return std::string(error);
    };
    const auto& dir = pool_.directory();
    EXPECT_THAT(error_of("x", -EINVAL), HasSubstr("it is written like"));
    EXPECT_THAT(error_of("ros2s+dpu:///p/c", -EINVAL), HasSubstr("names no server"));
    EXPECT_THAT(error_of("ros2s:///p/c?dir=/nowhere", -ENOENT),
                HasSubstr("`ros2store up /nowhere` makes one"));
    EXPECT_THAT(error_of("ros2s+local:///pool/main?dir=/nowhere", -ENOENT),
                HasSubstr("`ros2store up /nowhere`"));
    EXPECT_THAT(error_of("ros2s+local:///other/main?dir=" + dir, -ENOENT),
                HasSubstr("named 'pool', not 'other'; its URI is ros2s+local:///pool/main?dir="));
    EXPECT_THAT(error_of("ros2s+local:///pool/other?dir=" + dir, -ENOENT),
                HasSubstr("no container 'other' that this client may use; it may use: main"));
    char tiny[4];
    ros2s_fs* fs = nullptr;
    EXPECT_EQ(ros2s_open("x", nullptr, &fs, tiny, sizeof tiny), -EINVAL);
    EXPECT_STREQ(tiny, "bad");
    EXPECT_EQ(ros2s_open(nullptr, nullptr, &fs, nullptr, 0), -EINVAL);
    EXPECT_EQ(ros2s_open(pool_.uri().c_str(), nullptr, nullptr, nullptr, 0), -EINVAL);
    const ros2s_open_options options{.struct_bytes = 4};
    EXPECT_EQ(ros2s_open(pool_.uri().c_str(), &options, &fs, nullptr, 0), -EINVAL);
}

TEST_F(CApiFiles, ThreadsShareOneHandle) {
    constexpr int threads = 8;
    constexpr int rounds = 50;
    ros2s_file* shared = open_file("shared");
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t) {
        running.emplace_back([&, t] {
            const std::string name = "t" + std::to_string(t);
            ros2s_file* own = open_file(name.c_str());
            const std::string block(4096, static_cast<char>('a' + t));
            std::string back(4096, '?');
            for (int i = 0; i < rounds; ++i) {
                const auto offset = static_cast<uint64_t>(i * threads + t) * 4096;
                EXPECT_EQ(ros2s_pwrite(shared, block.data(), 4096, offset), 4096);
                EXPECT_EQ(ros2s_pread(shared, back.data(), 4096, offset), 4096);
                EXPECT_TRUE(back == block);
                // The sentence belongs to the thread.
                EXPECT_EQ(ros2s_unlink(fs_, (name + "missing").c_str()), -ENOENT);
                EXPECT_EQ(ros2s_last_error(), "unlink '" + name + "missing': not found");
            }
            EXPECT_EQ(ros2s_file_close(own), 0);
        });
    }
    for (auto& each : running) each.join();
    EXPECT_EQ(ros2s_file_close(shared), 0);
}

TEST_F(CApiFiles, PathReportAndReadTraceAreReturned) {
    write_file("a", std::string(8192, 'x'));
    ros2s_file* file = open_file("a", O_RDONLY);
    std::string text(16384, '\0');
    ssize_t size = ros2s_path_report(file, ROS2S_TEXT, text.data(), text.size());
    ASSERT_GT(size, 0);
    EXPECT_THAT(text.c_str(), HasSubstr("path "));
    EXPECT_EQ(ros2s_path_report(file, ROS2S_TEXT, nullptr, 0), size);
    size = ros2s_path_report(file, ROS2S_JSON, text.data(), text.size());
    EXPECT_THAT(text.c_str(), HasSubstr(R"({"file": "a", "set_up": )"));
    size = ros2s_trace_read(file, 4096, 4096, ROS2S_TEXT, text.data(), text.size());
    ASSERT_GT(size, 0) << ros2s_last_error();
    EXPECT_THAT(text.c_str(), HasSubstr("one read of 4096 bytes at 4096 of a"));
    EXPECT_THAT(text.c_str(), HasSubstr("api.pread"));
    size = ros2s_trace_read(file, 0, 0, ROS2S_JSON, text.data(), 10);
    EXPECT_EQ(std::string_view(text.c_str()).size(), 9U);
    EXPECT_EQ(ros2s_trace_read(file, 0, 1 << 30, ROS2S_JSON, nullptr, 0), -EINVAL);
    EXPECT_EQ(ros2s_file_close(file), 0);
}

TEST(CApiHandles, NullIsRefused) {
    EXPECT_EQ(ros2s_close(nullptr), -EINVAL);
    EXPECT_STREQ(ros2s_last_error(), "close: the handle is NULL");
    EXPECT_EQ(ros2s_file_close(nullptr), -EINVAL);
    EXPECT_EQ(ros2s_pread(nullptr, nullptr, 0, 0), -EINVAL);
    EXPECT_EQ(ros2s_queue_destroy(nullptr), -EINVAL);
    EXPECT_EQ(ros2s_closedir(nullptr), -EINVAL);
    EXPECT_EQ(ros2s_buffer_unregister(nullptr), -EINVAL);
}

// Also where the caller's thread does the library's work.
TEST_F(CApiFiles, CallsDoNotChangeErrno) {
    const std::string data(5000, 'x');
    for (int i = 0; i < 50; ++i) {
        errno = ENOTTY;
        ros2s_file* file = open_file("a");
        EXPECT_EQ(ros2s_pwrite(file, data.data(), data.size(), 0), 5000);
        EXPECT_EQ(ros2s_fsync(file), 0);
        EXPECT_EQ(ros2s_mkdir(fs_, "a", 0755), -EEXIST);
        EXPECT_EQ(ros2s_file_close(file), 0);
        EXPECT_EQ(ros2s_unlink(fs_, "missing"), -ENOENT);
        EXPECT_EQ(errno, ENOTTY);
    }
    const TestPool other;
    for (int i = 0; i < 3; ++i) {
        errno = ENOTTY;
        ros2s_fs* fs = other.open();
        EXPECT_EQ(ros2s_close(fs), 0);
        EXPECT_EQ(errno, ENOTTY);
    }
}

// A caller's thread runs the library's work on its own stack. The header states how much it needs.
#ifdef ROS2S_SANITIZED
constexpr size_t least_stack = size_t{1} << 20;  // frames are larger
#else
constexpr size_t least_stack = size_t{128} << 10;
#endif
TEST_F(CApiFiles, MinimalStackIsEnough) {
    const std::function<void()> body = [this] {
        for (int i = 0; i < 200; ++i) {
            const std::string name = "small-" + std::to_string(i);
            write_file(name.c_str(), std::string(10'000, 'x'));
            EXPECT_EQ(read_file(name.c_str()), std::string(10'000, 'x'));
            EXPECT_EQ(ros2s_rename(fs_, name.c_str(), "renamed", 0), 0) << ros2s_last_error();
            EXPECT_EQ(ros2s_unlink(fs_, "renamed"), 0) << ros2s_last_error();
        }
        EXPECT_EQ(list("/").size(), 0U);
    };
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&attributes, least_stack), 0);
    pthread_t thread{};
    const auto run = [](void* argument) -> void* {
        (*static_cast<const std::function<void()>*>(argument))();
        return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&body)),
              0);
    EXPECT_EQ(pthread_join(thread, nullptr), 0);
    pthread_attr_destroy(&attributes);
}

}  // namespace
}  // namespace ros2s::api::c
