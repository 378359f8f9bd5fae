// Handles of a parent in its forked children, through libros2store.so as programs have it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "forked.h"

namespace ros2s::tests {
namespace {

INSTANTIATE_TEST_SUITE_P(, Fork, testing::Values("ros2s", "ros2s+dpu", "ros2s+local"), set_up_of);

TEST_P(Fork, ChildUsesFilesOfTheParent) {
    const Container fs(uri());
    const OpenFile file(fs, "a", O_RDWR | O_CREAT | O_EXCL);
    ASSERT_EQ(ros2s_pwrite(file, "parent", 6, 0), 6);
    expect_child([&] {
        char text[8] = {};
        struct stat st{};
        CHILD_CHECK(ros2s_pread(file, text, sizeof text, 0) == 6);
        CHILD_CHECK(std::string(text) == "parent");
        CHILD_CHECK(ros2s_fstat(file, &st) == 0 && st.st_size == 6);
        CHILD_CHECK(ros2s_pwrite(file, " child", 6, 6) == 6);
        CHILD_CHECK(ros2s_ftruncate(file, 11) == 0);
        CHILD_CHECK(ros2s_stat(fs, "a", &st) == 0 && st.st_size == 11);
        CHILD_CHECK(ros2s_close(fs) == -EBUSY);
        CHILD_CHECK(ros2s_file_close(file) == 0);
        CHILD_CHECK(ros2s_mkdir(fs, "of child", 0755) == 0);
        CHILD_CHECK(ros2s_close(fs) == 0);
        return 0;
    });
    char text[16] = {};
    EXPECT_EQ(ros2s_pread(file, text, sizeof text, 0), 11);
    EXPECT_STREQ(text, "parent chil");
    EXPECT_EQ(ros2s_pwrite(file, "P", 1, 0), 1);
    EXPECT_EQ(read_text(fs, "a"), "Parent chil");
    EXPECT_EQ(ros2s_rmdir(fs, "of child"), 0);
}

TEST_P(Fork, ChildClosesUnusedHandlesWithoutARequest) {
    const Container fs(uri());
    ros2s_file* file = nullptr;
    ros2s_dir* directory = nullptr;
    ros2s_queue* queue = nullptr;
    ASSERT_EQ(write_file(fs, "a", "text"), 0);
    ASSERT_EQ(ros2s_file_open(fs, "a", O_RDONLY, 0, &file), 0);
    ASSERT_EQ(ros2s_opendir(fs, "", &directory), 0);
    ASSERT_EQ(ros2s_queue_create(fs, 4, &queue), 0);
    expect_child([&] {
        CHILD_CHECK(ros2s_queue_destroy(queue) == 0);
        CHILD_CHECK(ros2s_closedir(directory) == 0);
        CHILD_CHECK(ros2s_file_close(file) == 0);
        CHILD_CHECK(ros2s_close(fs) == 0);
        return 0;
    });
    char text[8] = {};
    ros2s_dirent entry;
    const ros2s_request nop{};
    ros2s_completion completion;
    EXPECT_EQ(ros2s_pread(file, text, sizeof text, 0), 4);
    EXPECT_EQ(ros2s_readdir(directory, &entry), 1);
    EXPECT_EQ(ros2s_queue_submit(queue, &nop, 1), 1);
    EXPECT_EQ(ros2s_queue_reap(queue, &completion, 1, 1, -1), 1);
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
    EXPECT_EQ(ros2s_closedir(directory), 0);
    EXPECT_EQ(ros2s_file_close(file), 0);
}

TEST_P(Fork, ChildAndGrandchildOpenAnew) {
    for (const bool closes : {false, true}) {
        ros2s_fs* fs = open_container(uri());
        if (closes) EXPECT_EQ(ros2s_close(fs), 0);
        const auto use = [&](const char* name) { return write_anew(uri(), name, name); };
        expect_child([&] {
            CHILD_CHECK(use("child") == 0);
            return in_child([&] {
                CHILD_CHECK(use("grandchild") == 0);
                return 0;
            });
        });
        if (closes) fs = open_container(uri());
        EXPECT_EQ(read_text(fs, "child"), "child");
        EXPECT_EQ(read_text(fs, "grandchild"), "grandchild");
        EXPECT_EQ(ros2s_close(fs), 0);
    }
}

TEST_P(Fork, GrandchildUsesHandlesOfBothAncestors) {
    const Container fs(uri());
    const OpenFile file(fs, "a", O_RDWR | O_CREAT);
    expect_child([&] {
        ros2s_file* own = nullptr;
        CHILD_CHECK(ros2s_pwrite(file, "1", 1, 0) == 1);
        CHILD_CHECK(ros2s_file_open(fs, "b", O_RDWR | O_CREAT, 0644, &own) == 0);
        const int grandchild = in_child([&] {
            CHILD_CHECK(ros2s_pwrite(file, "2", 1, 1) == 1);
            CHILD_CHECK(ros2s_pwrite(own, "2", 1, 0) == 1);
            return 0;
        });
        CHILD_CHECK(ros2s_pwrite(own, "1", 1, 1) == 1);
        return grandchild;
    });
    EXPECT_EQ(ros2s_pwrite(file, "0", 1, 2), 1);
    EXPECT_EQ(read_text(fs, "a"), "120");
    EXPECT_EQ(read_text(fs, "b"), "21");
}

// Operations of two processes under one name would be taken for repetitions.
TEST_P(Fork, NoWriteOfAnyProcessIsLost) {
    constexpr int children = 4;
    constexpr int rounds = 100;
    const Container fs(uri());
    const auto write_all = [&](int who) {
        ros2s_file* file = nullptr;
        const std::string name = "of " + std::to_string(who);
        CHILD_CHECK(ros2s_file_open(fs, name.c_str(), O_RDWR | O_CREAT, 0644, &file) == 0);
        for (int i = 0; i < rounds; ++i) {
            const std::string text = std::to_string(who) + ":" + std::to_string(i) + "\n";
            CHILD_CHECK(
                ros2s_pwrite(file, text.data(), text.size(), static_cast<uint64_t>(i) * 16) ==
                static_cast<ssize_t>(text.size()));
        }
        CHILD_CHECK(ros2s_file_close(file) == 0);
        return 0;
    };
    ASSERT_EQ(write_all(0), 0);
    std::vector<pid_t> started;
    for (int who = 1; who <= children; ++who) {
        started.push_back(start_child([&] { return write_all(who); }));
    }
    EXPECT_EQ(write_all(children + 1), 0);
    for (const pid_t each : started) EXPECT_EQ(end_of(each), 0);
    for (int who = 0; who <= children + 1; ++who) {
        const std::string text = read_text(fs, "of " + std::to_string(who));
        for (int i = 0; i < rounds; ++i) {
            const std::string wanted = std::to_string(who) + ":" + std::to_string(i) + "\n";
            ASSERT_EQ(text.substr(static_cast<size_t>(i) * 16, wanted.size()), wanted);
        }
    }
}

TEST_P(Fork, ChildContinuesADirectoryWhereTheParentWas) {
    constexpr int files = 600;  // more than two batches
    const Container fs(uri());
    ros2s_dir* directory = nullptr;
    for (int i = 0; i < files; ++i) {
        ros2s_file* file = nullptr;
        const std::string name = "f" + std::to_string(i);
        ASSERT_EQ(ros2s_file_open(fs, name.c_str(), O_RDWR | O_CREAT, 0644, &file), 0);
        ASSERT_EQ(ros2s_file_close(file), 0);
    }
    ASSERT_EQ(ros2s_opendir(fs, "", &directory), 0);
    const auto read_on = [&](std::set<std::string>& into, size_t most) {
        ros2s_dirent entry;
        for (; most > 0 && ros2s_readdir(directory, &entry) == 1; --most) {
            if (!into.insert(entry.name).second) return false;
        }
        return true;
    };
    std::set<std::string> seen;
    for (const size_t before : {size_t{0}, size_t{1}, size_t{255}, size_t{1}, size_t{300}}) {
        ASSERT_TRUE(read_on(seen, before));
        EXPECT_EQ(in_child([&] {
                      std::set<std::string> all = seen;
                      CHILD_CHECK(read_on(all, SIZE_MAX));
                      CHILD_CHECK(all.size() == files);
                      CHILD_CHECK(ros2s_closedir(directory) == 0);
                      return 0;
                  }),
                  0)
            << seen.size();
    }
    // The name where the child continues can be gone.
    ros2s_dirent last;
    ASSERT_EQ(ros2s_readdir(directory, &last), 1);
    seen.insert(last.name);
    ASSERT_EQ(ros2s_unlink(fs, last.name), 0);
    expect_child([&] {
        std::set<std::string> all = seen;
        CHILD_CHECK(read_on(all, SIZE_MAX));
        CHILD_CHECK(all.size() == files);
        return 0;
    });
    ASSERT_TRUE(read_on(seen, SIZE_MAX));
    EXPECT_EQ(seen.size(), files);
    EXPECT_EQ(ros2s_closedir(directory), 0);
}

TEST_P(Fork, QueuedRequestsAreCancelledInTheChildOnly) {
    constexpr uint32_t depth = 8;
    const Container fs(uri());
    ros2s_queue* queue = nullptr;
    ros2s_file* file = nullptr;
    ASSERT_EQ(ros2s_queue_create(fs, depth, &queue), 0);
    ASSERT_EQ(ros2s_file_open(fs, "a", O_RDWR | O_CREAT, 0644, &file), 0);
    std::array<ros2s_completion, depth> completions{};
    uint64_t next = 0;
    std::set<uint64_t> pending;
    const auto submit = [&](uint32_t count) {
        for (uint32_t i = 0; i < count; ++i, ++next) {
            static char byte = 'x';
            const bool writes = next % 3 == 0;
            ros2s_request request{};
            request.opcode = writes ? ROS2S_OP_WRITE : ROS2S_OP_NOP;
            request.file = writes ? file : nullptr;
            request.address = writes ? &byte : nullptr;
            request.bytes = writes ? 1 : 0;
            request.user_data = next;
            ASSERT_EQ(ros2s_queue_submit(queue, &request, 1), 1);
            pending.insert(next);
        }
    };
    const auto reap = [&](uint32_t count) {
        ASSERT_EQ(ros2s_queue_reap(queue, completions.data(), count, count, -1),
                  static_cast<int>(count));
        for (uint32_t i = 0; i < count; ++i) {
            ASSERT_EQ(pending.erase(completions.at(i).user_data), 1U);
            ASSERT_GE(completions.at(i).result, 0);
        }
    };
    for (uint32_t i = 0; i < 20; ++i) {
        submit(depth - static_cast<uint32_t>(pending.size()));
        reap(1 + i % 5);
    }
    expect_child([&] {
        const auto count = static_cast<uint32_t>(pending.size());
        CHILD_CHECK(ros2s_queue_reap(queue, completions.data(), depth, depth, -1) ==
                    static_cast<int>(count));
        for (uint32_t i = 0; i < count; ++i) {
            CHILD_CHECK(completions.at(i).result == -ECANCELED);
            CHILD_CHECK(pending.erase(completions.at(i).user_data) == 1);
        }
        char text = 0;
        ros2s_request request{
            .opcode = ROS2S_OP_READ, .file = file, .address = &text, .bytes = 1, .user_data = 77};
        CHILD_CHECK(ros2s_queue_submit(queue, &request, 1) == 1);
        CHILD_CHECK(ros2s_queue_reap(queue, completions.data(), 1, 1, -1) == 1);
        CHILD_CHECK(completions[0].user_data == 77 && completions[0].result == 1);
        pollfd readable{.fd = ros2s_queue_fd(queue), .events = POLLIN, .revents = 0};
        request.opcode = ROS2S_OP_NOP;
        CHILD_CHECK(ros2s_queue_submit(queue, &request, 1) == 1);
        CHILD_CHECK(poll(&readable, 1, 30'000) == 1);
        CHILD_CHECK(ros2s_queue_reap(queue, completions.data(), 1, 1, -1) == 1);
        CHILD_CHECK(ros2s_queue_destroy(queue) == 0);
        return 0;
    });
    reap(static_cast<uint32_t>(pending.size()));
    EXPECT_TRUE(pending.empty());
    EXPECT_EQ(ros2s_queue_destroy(queue), 0);
    EXPECT_EQ(ros2s_file_close(file), 0);
}

TEST_P(Fork, LocksStayTheParents) {
    const Container fs(uri());
    const OpenFile file(fs, "a", O_RDWR | O_CREAT);
    ASSERT_EQ(ros2s_flock(file, LOCK_EX), 0) << ros2s_last_error();
    expect_child([&] {
        CHILD_CHECK(ros2s_flock(file, LOCK_UN) == -ENOLCK);
        CHILD_CHECK(std::string_view(ros2s_last_error()).contains("opened before fork()"));
        struct flock range{};
        range.l_type = F_WRLCK;
        CHILD_CHECK(ros2s_lock(file, F_OFD_SETLK, &range) == -ENOLCK);
        CHILD_CHECK(ros2s_pwrite(file, "x", 1, 0) == 1);
        ros2s_file* own = nullptr;
        CHILD_CHECK(ros2s_file_open(fs, "a", O_RDWR, 0, &own) == 0);
        CHILD_CHECK(ros2s_flock(own, LOCK_EX | LOCK_NB) == -EWOULDBLOCK);
        CHILD_CHECK(ros2s_file_close(own) == 0);
        CHILD_CHECK(ros2s_file_close(file) == 0);
        return 0;
    });
    // The child has released nothing.
    ros2s_file* other = nullptr;
    ASSERT_EQ(ros2s_file_open(fs, "a", O_RDWR, 0, &other), 0);
    EXPECT_EQ(ros2s_flock(other, LOCK_EX | LOCK_NB), -EWOULDBLOCK);
    EXPECT_EQ(ros2s_file_close(other), 0);
    EXPECT_EQ(ros2s_flock(file, LOCK_UN), 0);
}

TEST_P(Fork, UnlinkedFileStaysOpenInTheChild) {
    const Container fs(uri());
    const OpenFile file(fs, "a", O_RDWR | O_CREAT);
    ASSERT_EQ(ros2s_pwrite(file, "text", 4, 0), 4);
    ASSERT_EQ(ros2s_unlink(fs, "a"), 0);
    expect_child([&] {
        char text[8] = {};
        CHILD_CHECK(ros2s_pread(file, text, sizeof text, 0) == 4);
        return 0;
    });
}

TEST_P(Fork, ForkDuringIoOfOtherThreads) {
    constexpr int threads = 3;
    const int forks = turns(10);
    const Container fs(uri());
    std::atomic<bool> stops = false;
    std::atomic<int> wrong = 0;
    std::vector<std::thread> writers;
    for (int who = 0; who < threads; ++who) {
        writers.emplace_back([&, who] {
            ros2s_file* file = nullptr;
            const std::string name = "t" + std::to_string(who);
            if (ros2s_file_open(fs, name.c_str(), O_RDWR | O_CREAT, 0644, &file) != 0) ++wrong;
            for (uint64_t i = 0; !stops; ++i) {
                uint64_t back = 0;
                if (ros2s_pwrite(file, &i, sizeof i, 0) != sizeof i ||
                    ros2s_pread(file, &back, sizeof back, 0) != sizeof back || back != i) {
                    ++wrong;
                }
            }
            if (ros2s_file_close(file) != 0) ++wrong;
        });
    }
    for (int i = 0; i < forks; ++i) {
        expect_child([&] { return write_file(fs, "c" + std::to_string(i), "child"); });
        EXPECT_EQ(read_text(fs, "c" + std::to_string(i)), "child");
    }
    stops = true;
    for (std::thread& each : writers) each.join();
    EXPECT_EQ(wrong, 0);
}

TEST_P(Fork, ThreadsOfAChildRenewAHandleOnce) {
    const Container fs(uri());
    const OpenFile file(fs, "a", O_RDWR | O_CREAT);
    expect_child([&] {
        std::atomic<int> right = 0;
        std::vector<std::thread> writers;
        for (uint64_t i = 0; i < 8; ++i) {
            writers.emplace_back([&, i] {
                if (ros2s_pwrite(file, "x", 1, i) == 1) ++right;
            });
        }
        for (std::thread& each : writers) each.join();
        CHILD_CHECK(right == 8);
        CHILD_CHECK(ros2s_file_close(file) == 0);
        CHILD_CHECK(ros2s_close(fs) == 0);
        return 0;
    });
    EXPECT_EQ(read_text(fs, "a"), "xxxxxxxx");
}

}  // namespace
}  // namespace ros2s::tests
