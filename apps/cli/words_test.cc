// The program's output: JSON, sizes, shell words, modes, the progress line.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "daemons/daemon_process.h"
#include "output/console.h"
#include "output/describe.h"
#include "output/progress.h"

namespace ros2s::cli {
namespace {

TEST(DaemonExit, LogLinesExplainTheEnd) {
    const auto words = [](const std::vector<std::string>& lines) {
        return last_words(lines, "ros2store-dpu");
    };
    const std::string at = "2026-11-21T00:31:02.123456Z ";
    EXPECT_EQ(words({}), "");
    // A message that the daemon survived is not the cause of its end.
    EXPECT_EQ(words({at + "info: ready", at + "warning: audit: a stranger", ""}), "");
    EXPECT_EQ(words({"info: ready", "debug: more"}), "");
    EXPECT_EQ(words({at + "error: the disk failed", at + "info: session 1 ended"}),
              "the disk failed");
    EXPECT_EQ(words({"error: one", "error: two"}), "two");
    EXPECT_EQ(words({at + "error: one", "sync.cc:7: CHECK failed: x > 0",
                     "This is a bug in ros2store; please report it.", at + "info: two"}),
              "sync.cc:7: CHECK failed: x > 0");
    EXPECT_EQ(words({at + "error: one", "ros2store-dpu: the port is taken", "free(): invalid"}),
              "the port is taken");
}

TEST(DaemonExit, SignalIsDistinguishedFromSilentEnd) {
    const std::string at = "2026-11-21T00:31:02.123456Z ";
    std::vector<std::string> lines{at + "info: ready"};
    const auto end = [&lines] { return how_it_ended(lines, "ros2store-dpu"); };
    EXPECT_EQ(end(), "it was killed, or exited without an error message");
    lines.push_back(at + "info: stopping (signal 15): draining");
    EXPECT_EQ(end(), "a signal stopped it, and it was killed, or ended, before all was closed");
    lines.push_back(at + "info: stopped; everything is closed");
    EXPECT_EQ(end(), "a signal stopped it, and it closed everything");
    lines.push_back("free(): invalid pointer");
    EXPECT_EQ(end(), "its last error was: free(): invalid pointer");
}

TEST(CliText, BytesAreFormatted) {
    EXPECT_EQ(human_bytes(7), "7 B");
    EXPECT_EQ(human_bytes(1536), "1.5 KiB");
    EXPECT_EQ(human_bytes(uint64_t{4} << 30), "4 GiB");
    EXPECT_EQ(human_bytes((uint64_t{1} << 20) - 1), "1 MiB");
}

TEST(CliText, SizesAreParsed) {
    Report report;
    EXPECT_EQ(size_of("4G", report), uint64_t{4} << 30);
    EXPECT_EQ(size_of("512MiB", report), uint64_t{512} << 20);
    EXPECT_FALSE(size_of("four", report));
    EXPECT_EQ(report.text(),
              "'four' is not a size; write a whole number and K, M, G or T, as in 512M or 4G");
}

TEST(CliText, ShellWordsAreQuoted) {
    EXPECT_EQ(shell_word("/srv/ros2s"), "/srv/ros2s");
    EXPECT_EQ(shell_word("ros2s+local:///pool/main?dir=/x"), "'ros2s+local:///pool/main?dir=/x'");
    EXPECT_EQ(shell_word("it's"), R"('it'\''s')");
    EXPECT_EQ(shell_word(""), "''");
}

TEST(CliText, ModesAreFormatted) {
    EXPECT_EQ(mode_text(S_IFREG | 0644), "-rw-r--r--");
    EXPECT_EQ(mode_text(S_IFDIR | 01777), "drwxrwxrwt");
    EXPECT_EQ(mode_text(S_IFREG | 04711), "-rws--x--x");
    EXPECT_EQ(mode_text(S_IFREG | 02600), "-rw---S---");
    EXPECT_EQ(mode_text(S_IFLNK | 0777), "lrwxrwxrwx");
}

TEST(CliText, ProgressLineIsFormatted) {
    EXPECT_EQ(progress_line("copying", Progress::Unit::bytes, uint64_t{512} << 20,
                            uint64_t{1} << 30, 2, 200),
              "copying  [##########----------]  50 %  512 MiB of 1 GiB  256 MiB/s  2 s left");
    EXPECT_EQ(progress_line("removing", Progress::Unit::files, 30, 0, 3, 200),
              "removing  30 files  10 files/s");
    EXPECT_EQ(progress_line("copying", Progress::Unit::bytes, 1, 2, 1, 7), "copying");
    EXPECT_EQ(progress_line("waiting", Progress::Unit::seconds, 0, 0, 3.9, 80), "waiting: 3 s");
}

}  // namespace
}  // namespace ros2s::cli
