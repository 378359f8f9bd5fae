#include "rocksdb_index.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "ros2s/engine/index/test_support/contract.h"
#include "status.h"

namespace ros2s::engine {
namespace {

namespace stdfs = std::filesystem;

class TemporaryDirectory {
  public:
    TemporaryDirectory() {
        std::string name = (stdfs::temp_directory_path() / "ros2store-index-XXXXXX").string();
        ROS2S_CHECK(mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
    ~TemporaryDirectory() { stdfs::remove_all(path_); }
    const stdfs::path& path() const { return path_; }

  private:
    stdfs::path path_;
};

class RocksDbUnderTest final : public IndexUnderTest {
  public:
    std::unique_ptr<Index> open() override {
        const std::string directory = directory_.path() / "index";
        const RocksDbOptions options{.memory_bytes = 2 * 1024 * 1024};
        Report report;
        auto index = stdfs::exists(directory) ? open_rocksdb_index(directory, options, report)
                                              : create_rocksdb_index(directory, options, report);
        EXPECT_TRUE(index) << report.text();
        return index ? std::move(*index) : nullptr;
    }
    // Each flush syncs a real disk.
    int rounds() const override { return 4; }

  private:
    TemporaryDirectory directory_;
};
std::unique_ptr<IndexUnderTest> make_rocksdb() { return std::make_unique<RocksDbUnderTest>(); }
INSTANTIATE_TEST_SUITE_P(RocksDb, IndexContract,
                         testing::Values(MakeIndexUnderTest{"RocksDB", make_rocksdb}));

class RocksDbIndexTest : public testing::Test {
  protected:
    Result<std::unique_ptr<Index>> create() {
        report_ = Report();
        return create_rocksdb_index(path_, {}, report_);
    }
    Result<std::unique_ptr<Index>> open() {
        report_ = Report();
        return open_rocksdb_index(path_, {}, report_);
    }
    // An index with a few flushed entries, closed.
    void make() {
        auto index = create();
        ASSERT_TRUE(index) << report_.text();
        IndexBatch batch;
        for (int i = 0; i < 100; ++i) batch.put("key" + std::to_string(i), std::string(3000, 'v'));
        ASSERT_TRUE((*index)->apply(std::move(batch)));
        ASSERT_TRUE((*index)->flush());
        ASSERT_TRUE((*index)->close());
    }
    stdfs::path only(std::string_view extension) {
        for (const auto& entry : stdfs::directory_iterator(path_))
            if (entry.path().extension() == extension) return entry.path();
        return {};
    }
    void expect_failure(const Result<std::unique_ptr<Index>>& index, Code code,
                        std::string_view sentence) {
        ASSERT_FALSE(index);
        EXPECT_EQ(index.error().code, code) << report_.text();
        EXPECT_NE(report_.text().find(sentence), std::string::npos) << report_.text();
        EXPECT_NE(report_.text().find(path_), std::string::npos) << report_.text();
    }
    static void write(const stdfs::path& file, std::string_view text) {
        std::ofstream(file, std::ios::binary) << text;
    }
    static void flip_bit(const stdfs::path& file, uint64_t offset) {
        std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
        stream.seekg(static_cast<std::streamoff>(offset));
        const int byte = stream.get();
        stream.seekp(static_cast<std::streamoff>(offset));
        stream.put(static_cast<char>(byte ^ 1));
    }

    const TemporaryDirectory directory_;
    const std::string path_ = directory_.path() / "index";
    Report report_;
};

TEST_F(RocksDbIndexTest, CreationOverExistingIndexIsRefused) {
    make();
    expect_failure(create(), Code::exists, "is not empty");
    auto index = open();
    ASSERT_TRUE(index) << report_.text();
    EXPECT_TRUE((*index)->get("key1")->has_value()) << "the refused create altered nothing";
}

TEST_F(RocksDbIndexTest, CreationInEmptyDirectorySucceeds) {
    stdfs::create_directory(path_);
    EXPECT_TRUE(create()) << report_.text();
}

// More tables than may be open: RocksDB says OK for a key of one that is closed.
TEST_F(RocksDbIndexTest, KeyOfClosedTableIsNotAnsweredFromMemory) {
    constexpr int tables = 400;
    auto index = create_rocksdb_index(path_, {.compaction = false}, report_);
    ASSERT_TRUE(index) << report_.text();
    for (int i = 0; i < tables; ++i) {
        IndexBatch batch;
        batch.put("key" + std::to_string(i), "v");
        ASSERT_TRUE((*index)->apply(std::move(batch)));
        ASSERT_TRUE((*index)->flush());
    }
    int answered = 0;
    for (int i = 0; i < tables; ++i) {
        const std::string key = "key" + std::to_string(i);
        if (const auto cached = (*index)->get_cached(key)) {
            ++answered;
            EXPECT_EQ(*cached, "v") << key;
        }
        const IndexScan scan{.from = key, .to = key + '\0', .limit = IndexScan::few};
        if (const auto cached = (*index)->scan_cached(scan)) {
            EXPECT_EQ(cached->entries.size(), 1U) << key;
        }
        EXPECT_EQ((*index)->get(key), "v") << key;
    }
    EXPECT_LT(answered, tables);
}

// A core would step over all of a directory's removed names.
TEST_F(RocksDbIndexTest, CachedScanStopsAtManyErasedKeys) {
    auto index = create();
    ASSERT_TRUE(index) << report_.text();
    IndexBatch batch;
    for (int i = 0; i < 1000; ++i) batch.put("a" + std::to_string(i), "v");
    for (int i = 0; i < 1000; ++i) batch.erase("a" + std::to_string(i));
    batch.put("b", "v");
    ASSERT_TRUE((*index)->apply(std::move(batch)));
    const IndexScan scan{.from = "a", .limit = IndexScan::few};
    EXPECT_FALSE((*index)->scan_cached(scan));
    const auto page = (*index)->scan(scan);
    ASSERT_TRUE(page);
    EXPECT_EQ(page->entries.size(), 1U);
    EXPECT_TRUE((*index)->scan_cached({.from = "b", .limit = IndexScan::few}));
}

TEST_F(RocksDbIndexTest, DirectoryIsClosedToOtherUsers) {
    const auto mode = [&] { return stdfs::status(path_).permissions(); };
    make();
    EXPECT_EQ(mode(), stdfs::perms::owner_all);
    stdfs::permissions(path_, stdfs::perms{0755});
    EXPECT_TRUE(open()) << report_.text();
    EXPECT_EQ(mode(), stdfs::perms::owner_all);
    stdfs::remove_all(path_);
    stdfs::create_directory(path_);
    stdfs::permissions(path_, stdfs::perms{0755});
    EXPECT_TRUE(create()) << report_.text();
    EXPECT_EQ(mode(), stdfs::perms::owner_all);
}

TEST_F(RocksDbIndexTest, MissingParentIsNamed) {
    Report report;
    const auto index = create_rocksdb_index(path_ + "/deeper", {}, report);
    ASSERT_FALSE(index);
    EXPECT_EQ(index.error().code, Code::not_found);
    EXPECT_NE(report.text().find(path_ + " does not exist; make it first"), std::string::npos)
        << report.text();
}

TEST_F(RocksDbIndexTest, MissingDirectoryIsNamed) {
    expect_failure(open(), Code::not_found, "there is no index directory");
    EXPECT_FALSE(stdfs::exists(path_)) << "opening made something";
}

TEST_F(RocksDbIndexTest, ForeignDirectoryIsRefused) {
    stdfs::create_directory(path_);
    write(path_ + "/letter.txt", "dear …");
    expect_failure(open(), Code::not_found, "is not an index of ros2store");
    EXPECT_EQ(std::distance(stdfs::directory_iterator(path_), {}), 1) << "it stays as it was";
}

TEST_F(RocksDbIndexTest, InterruptedCreationIsRefused) {
    make();
    stdfs::remove(path_ + "/FORMAT");
    expect_failure(open(), Code::not_found, "creation was interrupted");
}

TEST_F(RocksDbIndexTest, UnknownVersionIsRefused) {
    make();
    write(path_ + "/FORMAT", "ros2store index, version 7\n");
    const auto index = open();
    expect_failure(index, Code::bad_version,
                   "has format version 7, this program supports version 1");
    EXPECT_EQ(index.error().detail, 7u);
}

TEST_F(RocksDbIndexTest, DamagedFormatFileIsRefused) {
    make();
    write(path_ + "/FORMAT", "ros2store indeX, version 1\n");
    expect_failure(open(), Code::corrupt, "/FORMAT is damaged");
}

TEST_F(RocksDbIndexTest, SecondOpenerInThisProcessIsRefused) {
    auto first = create();
    ASSERT_TRUE(first) << report_.text();
    expect_failure(open(), Code::busy, "is open in another program");
    ASSERT_TRUE((*first)->close());
    EXPECT_TRUE(open()) << report_.text();
}

TEST_F(RocksDbIndexTest, SecondOpenerInAnotherProcessIsRefused) {
    make();
    // The other program holds the lock in the same way as RocksDB: a POSIX record lock on LOCK.
    int ready[2], leave[2];
    ASSERT_EQ(pipe(ready), 0);
    ASSERT_EQ(pipe(leave), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        struct flock lock{};
        lock.l_type = F_WRLCK;
        lock.l_whence = SEEK_SET;
        const int file = ::open((path_ + "/LOCK").c_str(), O_RDWR);
        char byte = fcntl(file, F_SETLK, &lock) == 0 ? 'y' : 'n';
        if (::write(ready[1], &byte, 1) == 1 && ::read(leave[0], &byte, 1) == 1) _exit(0);
        _exit(1);
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    ASSERT_EQ(byte, 'y');
    expect_failure(open(), Code::busy, "close that program");
    ASSERT_EQ(::write(leave[1], &byte, 1), 1);
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    for (const int fd : {ready[0], ready[1], leave[0], leave[1]}) ::close(fd);
    EXPECT_TRUE(open()) << report_.text();
}

TEST_F(RocksDbIndexTest, MissingFileIsCorruption) {
    for (const auto* what : {"CURRENT", "MANIFEST", "sst"}) {
        SCOPED_TRACE(what);
        stdfs::remove_all(path_);
        make();
        for (const auto& entry : stdfs::directory_iterator(path_)) {
            const auto name = entry.path().filename().string();
            if (name.starts_with(what) || name.ends_with(what)) stdfs::remove(entry.path());
        }
        expect_failure(open(), Code::corrupt, "is damaged");
    }
}

TEST_F(RocksDbIndexTest, TruncatedTableIsCorruption) {
    make();
    const auto table = only(".sst");
    stdfs::resize_file(table, stdfs::file_size(table) / 2);
    expect_failure(open(), Code::corrupt, "is damaged");
}

TEST_F(RocksDbIndexTest, FlippedBitInTableIsNeverReturnedAsData) {
    make();
    const auto table = only(".sst");
    const auto size = stdfs::file_size(table);
    int caught = 0;
    constexpr int places = 25;
    for (int i = 0; i < places; ++i) {
        const auto offset = size * static_cast<uint64_t>(i) / places;
        flip_bit(table, offset);
        bool wrong = false;
        if (auto index = open()) {
            for (int key = 0; key < 100 && !wrong; ++key) {
                const auto value = (*index)->get("key" + std::to_string(key));
                if (value) {
                    ASSERT_EQ(*value, std::string(3000, 'v')) << "bit " << offset;
                } else {
                    EXPECT_EQ(value.error().code, Code::corrupt);
                    wrong = true;
                }
            }
        } else {
            EXPECT_EQ(index.error().code, Code::corrupt);
            wrong = true;
        }
        caught += wrong ? 1 : 0;
        flip_bit(table, offset);
    }
    // The rest is in bytes that no reader uses: padding, statistics.
    EXPECT_GT(caught, places * 3 / 4);
}

TEST_F(RocksDbIndexTest, FlippedBitInManifestIsCorruption) {
    make();
    stdfs::path manifest;
    for (const auto& entry : stdfs::directory_iterator(path_))
        if (entry.path().filename().string().starts_with("MANIFEST")) manifest = entry.path();
    flip_bit(manifest, 20);
    expect_failure(open(), Code::corrupt, "is damaged");
}

TEST_F(RocksDbIndexTest, NoLogFilesAreWritten) {
    make();
    for (const auto& entry : stdfs::directory_iterator(path_)) {
        const auto name = entry.path().filename().string();
        EXPECT_FALSE(name.starts_with("LOG") && name != "LOCK") << name;
        if (entry.path().extension() == ".log") {
            EXPECT_EQ(entry.file_size(), 0u) << name;
        }
    }
}

TEST_F(RocksDbIndexTest, RocksDbMessagesReachTheLog) {
    std::string said;
    RocksDbOptions options;
    options.log = Log([&](LogLevel, std::string_view line) { said += line; }, LogLevel::debug);
    const auto index = create_rocksdb_index(path_, options, report_);
    ASSERT_TRUE(index) << report_.text();
    EXPECT_NE(said.find("index: RocksDB version"), std::string::npos) << said;
}

// Otherwise a limit of this process would be reported as damage of the disk.
TEST(RocksDbStatus, FailedSystemCallKeepsItsErrno) {
    for (const int each : {EACCES, EROFS, EMFILE, ENFILE, EAGAIN, ENOMEM, EFBIG}) {
        const auto status =
            rocksdb::Status::IOError("While open a file for appending: x", std::strerror(each));
        EXPECT_EQ(to_errno(error_of(status)), each) << status.ToString();
    }
    EXPECT_EQ(to_errno(error_of(rocksdb::Status::IOError("x", "y"))), EIO);
}

TEST(RocksDbStatus, FailedThreadStartIsNotADiskError) {
    const auto status = guarded(
        []() -> rocksdb::Status { throw std::system_error(EAGAIN, std::generic_category()); });
    EXPECT_EQ(to_errno(error_of(status)), EAGAIN) << status.ToString();
}

}  // namespace
}  // namespace ros2s::engine
