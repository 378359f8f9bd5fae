#include "log_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "daemon_log.h"

namespace ros2s::daemon {
namespace {

using namespace std::chrono_literals;

// What writes the lines, and waits while it is closed.
class SlowReader {
  public:
    LogWriter::Write write() {
        return [this](LogLevel level, std::string_view line, WallTime) {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return open_; });
            text_ += fmt::format("{}: {}\n", to_string(level), line);
        };
    }
    void set_open(bool open) {
        {
            const std::lock_guard lock(mutex_);
            open_ = open;
        }
        changed_.notify_all();
    }
    std::string text() {
        const std::lock_guard lock(mutex_);
        return text_;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = true;
    std::string text_;
};

TEST(LogWriter, LinesAreWrittenInOrder) {
    SlowReader reader;
    Report report;
    auto writer = LogWriter::start(reader.write(), report);
    ASSERT_TRUE(writer) << report.text();
    const Log log = (*writer)->log();
    for (int i = 0; i < 3; ++i) log.info("line {}", i);
    log.warning("it");
    ASSERT_TRUE((*writer)->flush());
    EXPECT_EQ(reader.text(), "info: line 0\ninfo: line 1\ninfo: line 2\nwarning: it\n");
    log.info("last");
    writer->reset();
    EXPECT_TRUE(reader.text().ends_with("info: last\n")) << "the destructor flushes";
    log.info("nobody hears this");
    EXPECT_TRUE(reader.text().ends_with("info: last\n"));
}

TEST(LogWriter, FullQueueDropsAndCounts) {
    SlowReader reader;
    reader.set_open(false);
    Report report;
    const auto writer = LogWriter::start(reader.write(), report, 16 << 10);
    ASSERT_TRUE(writer) << report.text();
    const Log log = (*writer)->log();
    const std::string line(1000, 'x');
    for (int i = 0; i < 1000; ++i) log.info(line);
    const uint64_t dropped = (*writer)->dropped();
    EXPECT_GT(dropped, 980U) << "the queue is bounded";
    EXPECT_LT(dropped, 990U);
    reader.set_open(true);
    ASSERT_TRUE((*writer)->flush());
    EXPECT_NE(reader.text().find(fmt::format("warning: {} lines of the log were dropped", dropped)),
              std::string::npos)
        << reader.text();
    log.info("it is written again");
    ASSERT_TRUE((*writer)->flush());
    EXPECT_TRUE(reader.text().ends_with("info: it is written again\n"));
    EXPECT_EQ((*writer)->dropped(), dropped);
}

// A pipe that has no room: the next write(2) waits for a reader.
std::array<int, 2> full_pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    EXPECT_EQ(::fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    const std::string page(4096, '.');
    while (::write(ends[1], page.data(), page.size()) > 0) {
    }
    EXPECT_EQ(::fcntl(ends[1], F_SETFL, 0), 0);
    return ends;
}

TEST(LogWriter, UnreadPipeBlocksNobody) {
    const auto [read_end, write_end] = full_pipe();
    Report report;
    auto writer = LogWriter::start(daemon_log("test", write_end), report);
    ASSERT_TRUE(writer) << report.text();
    const Log log = (*writer)->log();
    const std::string line(1000, 'x');
    for (int i = 0; i < 5000; ++i) log.info(line);
    EXPECT_GT((*writer)->dropped(), 1000U);
    EXPECT_FALSE((*writer)->flush());
    writer->reset();    // not even the end
    ::close(read_end);  // the thread ends with EPIPE
}

// A line is put while the end waits for an earlier one, and its reader stalls.
TEST(LogWriter, LineDuringTheEndDoesNotDelayIt) {
    std::array<int, 2> stalled{};
    ASSERT_EQ(::pipe(stalled.data()), 0);
    const auto log = std::make_shared<Log>();
    Report report;
    auto writer = LogWriter::start(
        [log, from = stalled[0]](LogLevel, std::string_view line, WallTime) {
            if (line == "first") {
                ::poll(nullptr, 0, 100);  // the end begins meanwhile
                return log->info("second");
            }
            char none = 0;
            (void)!::read(from, &none, 1);
        },
        report);
    ASSERT_TRUE(writer) << report.text();
    *log = (*writer)->log();
    log->info("first");
    writer->reset();
    *log = Log();  // the thread's state has a share of it
    ::close(stalled[1]);
}

// A process that aborts with lines in its queue has written them.
TEST(LogWriterDeathTest, AbortFlushesTheQueue) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            Report report;
            const auto writer = LogWriter::start(
                [](LogLevel, std::string_view line, WallTime) {
                    ::poll(nullptr, 0, 20);
                    const std::string whole = fmt::format("{}\n", line);
                    (void)!::write(STDERR_FILENO, whole.data(), whole.size());
                },
                report);
            (*writer)->flush_at_abort();
            const Log log = (*writer)->log();
            for (int i = 0; i < 5; ++i) log.error("line {}", i);
            std::abort();
        },
        testing::KilledBySignal(SIGABRT), "line 4");
}

}  // namespace
}  // namespace ros2s::daemon
