#include "rocksdb_index.h"

#include <fcntl.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/iterator.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstring>

#include "rename_order.h"
#include "ros2s/base/descriptor.h"
#include "status.h"

namespace ros2s::engine {
namespace {

constexpr uint64_t format_version = 1;
// A scan from memory gives up at so many erased keys between two entries: it must not take long.
constexpr uint64_t erased_most = 64;
constexpr std::string_view format_magic = "ros2store index, version ";

// RocksDB appends whole dumps of its state to some of its messages.
std::string_view first_line(std::string_view text) {
    constexpr size_t bytes_max = 300;
    return text.substr(0, std::min(text.find('\n'), bytes_max));
}

std::string words_of(const rocksdb::Status& status) {
    return std::string(first_line(status.ToString()));
}

// The remedy for a failure in `directory`, and RocksDB's own message.
std::string remedy_for(const rocksdb::Status& status, const std::string& directory) {
    const std::string said = " (" + words_of(status) + ")";
    const Error error = error_of(status);
    switch (error.code) {
        case Code::no_space:
            return "the file system that holds the index " + directory +
                   " is full; free some space there and try again" + said;
        case Code::denied:
            return "no permission to use the index " + directory +
                   "; run as the user who made the pool" + said;
        case Code::io:
            if (error.os_errno == EMFILE || error.os_errno == ENFILE) {
                return "too many files are open to use the index " + directory +
                       "; raise the limit on open files (ulimit -n)" + said;
            }
            if (error.os_errno == EAGAIN) {
                return "no thread can be started for the index " + directory +
                       "; raise the limit on processes (ulimit -u) or tasks (TasksMax=, pids.max)" +
                       said;
            }
            return "the disk under the index " + directory +
                   " reported an error; look at the kernel's log, and copy the directory before "
                   "trying repairs" +
                   said;
        case Code::too_large:
            return "a file of the index " + directory +
                   " would be larger than this process may write; raise the limit on file sizes "
                   "(ulimit -f)" +
                   said;
        case Code::read_only:
            return "the file system that holds the index " + directory +
                   " is mounted read-only; remount it with: mount -o remount,rw" + said;
        case Code::no_memory:
            return "not enough memory for the index " + directory +
                   "; free memory or lower the pool's memory option" + said;
        default:
            return "the index " + directory +
                   " is damaged: a file in it is missing or altered; restore the directory from a "
                   "copy made while the pool was closed" +
                   said;
    }
}

class LogAdapter final : public rocksdb::Logger {
  public:
    explicit LogAdapter(Log log) : Logger(rocksdb::INFO_LEVEL), log_(std::move(log)) {}
    using Logger::Logv;
    void Logv(const char* format, va_list arguments) override {
        Logv(rocksdb::INFO_LEVEL, format, arguments);
    }
    void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
        // Useful only for finding a fault in RocksDB itself: each failure is also the status of
        // this call or the next one, and is reported there.
        const auto ours = level >= rocksdb::FATAL_LEVEL ? LogLevel::error : LogLevel::debug;
        char line[1024];
        const int length = std::vsnprintf(line, sizeof line, format, arguments);
        if (length <= 0) return;
        log_.say(ours, "index: " + std::string(first_line(line)));
    }

  private:
    Log log_;
};

rocksdb::Options rocksdb_options(const RocksDbOptions& options, rocksdb::Env& env) {
    rocksdb::Options o;
    o.env = &env;
    o.info_log = std::make_shared<LogAdapter>(options.log);

    o.paranoid_checks = true;
    o.paranoid_file_checks = false;  // would read every new table back; its blocks carry CRCs
    o.avoid_flush_during_shutdown = true;
    o.max_open_files = options.open_files_max;  // of tables; the others are reopened when read
    // More threads end the process if one of them cannot be started.
    o.max_file_opening_threads = 1;
    o.skip_stats_update_on_db_open = true;
    o.max_background_jobs = 2;
    o.avoid_unnecessary_blocking_io = true;  // a core reads: it must not remove old tables
    o.max_bgerror_resume_count = 0;          // a failure is not retried in the background
    o.stats_dump_period_sec = 0;
    o.stats_persist_period_sec = 0;
    o.max_manifest_file_size = 16 * 1024 * 1024;
    o.manifest_preallocation_size = 64 * 1024;  // the default would use up the reserve
    o.bytes_per_sync = 1024 * 1024;

    o.write_buffer_size = std::max<uint64_t>(options.memory_bytes / 4, 64 * 1024);
    o.max_write_buffer_number = 2;
    o.disable_auto_compactions = !options.compaction;
    o.level_compaction_dynamic_level_bytes = true;
    o.target_file_size_base = 32 * 1024 * 1024;
    o.max_bytes_for_level_base = 128 * 1024 * 1024;
    o.ttl = 0;
    o.periodic_compaction_seconds = 0;
    // Block maps are addresses and CRCs: LZ4 makes them 8 % smaller and cached reads slower.
    o.compression = rocksdb::kNoCompression;

    rocksdb::BlockBasedTableOptions table;
    rocksdb::LRUCacheOptions cache;
    cache.capacity = options.memory_bytes / 2;
    cache.num_shard_bits = 2;
    cache.strict_capacity_limit = false;
    cache.high_pri_pool_ratio = 0.5;
    table.block_cache = rocksdb::NewLRUCache(cache);
    table.block_size = 8 * 1024;
    table.format_version = 5;
    table.checksum = rocksdb::kXXH3;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
    table.partition_filters = true;
    table.cache_index_and_filter_blocks = true;
    table.cache_index_and_filter_blocks_with_high_priority = true;
    // The cache does not bound pinned blocks.
    table.pin_l0_filter_and_index_blocks_in_cache = false;
    table.pin_top_level_index_and_filter = false;
    o.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    return o;
}

class RocksDbIndex final : public Index {
  public:
    RocksDbIndex(std::unique_ptr<rocksdb::DB> db, std::shared_ptr<rocksdb::Cache> cache,
                 std::shared_ptr<rocksdb::Env> env, Log log)
        : env_(std::move(env)),
          db_(std::move(db)),
          cache_(std::move(cache)),
          log_(std::move(log)) {}
    ~RocksDbIndex() override { static_cast<void>(close()); }

    Result<std::optional<std::string>> get(std::string_view key) override {
        if (!db_) return fail(Code::closed);
        std::optional<std::string> value(std::in_place);
        const auto status = get(key, rocksdb::kReadAllTier, *value);
        if (status.IsNotFound()) return std::optional<std::string>();
        if (!status.ok()) return failed("reading", status);
        return value;
    }

    std::optional<std::optional<std::string>> get_cached(std::string_view key) override {
        if (!db_) return std::nullopt;
        std::optional<std::string> value(std::in_place);
        const auto status = get(key, rocksdb::kBlockCacheTier, *value);
        if (status.IsNotFound()) return std::optional<std::string>();
        // For a table that is not open RocksDB returns OK without a value.
        if (!status.ok() || value->empty()) return std::nullopt;
        return value;
    }

    Result<IndexPage> scan(const IndexScan& scan) override {
        if (!db_) return fail(Code::closed);
        IndexPage page;
        const auto status = guarded([&] { return fill(scan, rocksdb::kReadAllTier, page); });
        if (!status.ok()) return failed("scanning", status);
        return page;
    }
    std::optional<IndexPage> scan_cached(const IndexScan& scan) override {
        if (!db_) return std::nullopt;
        IndexPage page;
        const auto status = guarded([&] { return fill(scan, rocksdb::kBlockCacheTier, page); });
        if (!status.ok()) return std::nullopt;
        return page;
    }

    Result<> apply(IndexBatch batch) override {
        if (!db_) return fail(Code::closed);
        const auto status = guarded([&] {
            rocksdb::WriteBatch writes(batch.bytes());
            batch.consume([&](std::string_view key, const std::string_view* value) {
                const rocksdb::Slice name(key.data(), key.size());
                // Neither can fail: the lengths were checked when the batch was filled.
                if (value == nullptr) {
                    writes.Delete(name).PermitUncheckedError();
                } else {
                    writes.Put(name, rocksdb::Slice(value->data(), value->size()))
                        .PermitUncheckedError();
                }
            });
            rocksdb::WriteOptions write;
            write.disableWAL = true;
            return db_->Write(write, &writes);
        });
        if (!status.ok()) return failed("writing", status);
        return {};
    }

    Result<> flush() override {
        if (!db_) return fail(Code::closed);
        const auto status = guarded([&] {
            rocksdb::FlushOptions flush;
            flush.wait = true;
            flush.allow_write_stall = true;
            return db_->Flush(flush);
        });
        if (!status.ok()) return failed("flushing", status);
        return {};
    }

    uint64_t memory_bytes() const override {
        if (!db_) return 0;
        return cache_->GetUsage() + property(rocksdb::DB::Properties::kSizeAllMemTables) +
               property(rocksdb::DB::Properties::kEstimateTableReadersMem);
    }

    uint64_t disk_bytes() const override {
        return db_ ? property(rocksdb::DB::Properties::kTotalSstFilesSize) : 0;
    }

    Result<> close() override {
        if (!db_) return {};
        const std::string directory = db_->GetName();
        const auto status = guarded([&] {
            rocksdb::CancelAllBackgroundWork(db_.get(), true);
            const auto closed = db_->Close();
            db_.reset();
            return closed;
        });
        db_.reset();
        if (!status.ok()) return failed("closing", status, directory);
        return {};
    }

  private:
    rocksdb::Status get(std::string_view key, rocksdb::ReadTier tier, std::string& value) {
        rocksdb::ReadOptions read;
        read.read_tier = tier;
        return guarded(
            [&] { return db_->Get(read, rocksdb::Slice(key.data(), key.size()), &value); });
    }

    rocksdb::Status fill(const IndexScan& scan, rocksdb::ReadTier tier, IndexPage& page) {
        ROS2S_CHECK(scan.limit > 0);
        if (!scan.to.empty() && scan.to <= scan.from) return rocksdb::Status::OK();
        rocksdb::ReadOptions read;
        read.read_tier = tier;
        if (tier == rocksdb::kBlockCacheTier) read.max_skippable_internal_keys = erased_most;
        // A listing must not displace from the cache what point reads use.
        read.fill_cache = scan.limit <= IndexScan::few;
        const rocksdb::Slice from(scan.from), to(scan.to);
        read.iterate_lower_bound = &from;
        if (!scan.to.empty()) read.iterate_upper_bound = &to;
        const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(read));
        size_t bytes = 0;
        if (scan.reverse) {
            at->SeekToLast();
        } else {
            at->Seek(from);
        }
        for (; at->Valid(); scan.reverse ? at->Prev() : at->Next()) {
            const size_t size = at->key().size() + (scan.keys_only ? 0 : at->value().size());
            if (page.entries.size() == scan.limit ||
                (!page.entries.empty() && bytes + size > scan.bytes_max)) {
                page.more = true;
                break;
            }
            bytes += size;
            page.entries.push_back(
                {at->key().ToString(), scan.keys_only ? std::string() : at->value().ToString()});
        }
        return at->status();
    }

    uint64_t property(const std::string& name) const {
        uint64_t value = 0;
        static_cast<void>(guarded([&] {
            db_->GetIntProperty(name, &value);
            return rocksdb::Status::OK();
        }));
        return value;
    }

    std::unexpected<Error> failed(std::string_view what, const rocksdb::Status& status) const {
        return failed(what, status, db_->GetName());
    }
    std::unexpected<Error> failed(std::string_view what, const rocksdb::Status& status,
                                  const std::string& directory) const {
        log_.error("index: " + std::string(what) + " failed: " + remedy_for(status, directory));
        return fail(error_of(status));
    }

    const std::shared_ptr<rocksdb::Env> env_;  // the database uses it until it is destroyed
    std::unique_ptr<rocksdb::DB> db_;
    const std::shared_ptr<rocksdb::Cache> cache_;
    const Log log_;
};

std::string format_path(const std::string& directory) { return directory + "/FORMAT"; }

// The sentence for a failure of RocksDB at opening or making `directory`.
std::unexpected<Error> explain(const rocksdb::Status& status, const std::string& directory,
                               Report& report) {
    if (is_locked(status))
        return report.fail(Code::busy, "the index " + directory +
                                           " is open in another program; close that program, or "
                                           "use the pool through it (" +
                                           words_of(status) + ")");
    const Error error = error_of(status);
    const bool is_damage = error.code != Code::no_space && error.code != Code::denied &&
                           error.code != Code::io && error.code != Code::no_memory &&
                           error.code != Code::too_large && error.code != Code::read_only;
    return report.fail(is_damage ? Error{Code::corrupt, 0, 0} : error,
                       remedy_for(status, directory));
}

Result<std::unique_ptr<Index>> open_database(const std::string& directory,
                                             const RocksDbOptions& options,
                                             std::shared_ptr<rocksdb::Env> env, bool create,
                                             Report& report) {
    auto rocks = rocksdb_options(options, *env);
    rocks.create_if_missing = create;
    rocks.error_if_exists = create;
    rocksdb::DB* opened = nullptr;
    const auto status = guarded([&] {
        return options.read_only ? rocksdb::DB::OpenForReadOnly(rocks, directory, &opened)
                                 : rocksdb::DB::Open(rocks, directory, &opened);
    });
    std::unique_ptr<rocksdb::DB> db(opened);
    if (!status.ok()) return explain(status, directory, report);
    auto cache = rocks.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>()->block_cache;
    return std::make_unique<RocksDbIndex>(std::move(db), std::move(cache), std::move(env),
                                          options.log);
}

// Refuses a directory that is not an index of a known version.
Result<> check_format(const std::string& directory, rocksdb::FileSystem& files, Report& report) {
    std::vector<std::string> children;
    if (auto status = guarded([&] { return files.GetChildren(directory, {}, &children, nullptr); });
        !status.ok()) {
        if (error_of(status).code != Code::not_found) return explain(status, directory, report);
        return report.fail(Code::not_found,
                           "there is no index directory " + directory +
                               ", which the pool needs to find its contents: put it back "
                               "where it was, or restore it from a copy made while the pool was "
                               "closed");
    }
    std::string format;
    auto status =
        guarded([&] { return rocksdb::ReadFileToString(&files, format_path(directory), &format); });
    if (!status.ok() && error_of(status).code != Code::not_found)
        return explain(status, directory, report);
    if (!status.ok()) {
        const bool made = std::ranges::count(children, "CURRENT") != 0;
        return report.fail(Code::not_found,
                           made ? directory +
                                      " holds an index whose creation was interrupted "
                                      "(it has no file FORMAT); remove the directory "
                                      "and make the pool again"
                                : directory +
                                      " is not an index of ros2store (it has no file "
                                      "FORMAT); check the pool's path");
    }
    uint64_t version = 0;
    const bool ours = format.starts_with(format_magic);
    const char* const digits = format.data() + std::min(format.size(), format_magic.size());
    const auto parsed = std::from_chars(digits, format.data() + format.size(), version);
    if (!ours || parsed.ec != std::errc())
        return report.fail(Code::corrupt, "the file " + format_path(directory) +
                                              " is damaged; restore it from a copy, or write \"" +
                                              std::string(format_magic) +
                                              "1\" into it if the "
                                              "directory is known to be an index of ros2store");
    if (version != format_version) {
        report.say("the index " + directory + " has format version " + std::to_string(version) +
                   ", this program supports version " + std::to_string(format_version) +
                   "; open it with the version of ros2store that made it or a newer one");
        return fail(Code::bad_version, version);
    }
    return {};
}

// Makes the directory if necessary; refuses one with entries.
Result<> make_directory(const std::string& directory, rocksdb::FileSystem& files, Report& report) {
    std::vector<std::string> children;
    auto status = guarded([&] { return files.GetChildren(directory, {}, &children, nullptr); });
    if (status.ok()) {
        std::erase_if(children, [](const auto& name) { return name == "." || name == ".."; });
        if (children.empty()) return {};
        return report.fail(Code::exists, "the directory " + directory +
                                             " is not empty; an index is made in a new or empty "
                                             "directory, choose another or remove it");
    }
    const auto parent = directory.substr(0, directory.find_last_of('/'));
    status = guarded([&]() -> rocksdb::Status { return files.CreateDir(directory, {}, nullptr); });
    if (status.ok()) status = guarded([&] { return sync_directory(files, parent); });
    if (status.ok()) return {};
    if (error_of(status).code == Code::not_found)
        return report.fail(Code::not_found, "cannot make the directory " + directory + ": " +
                                                parent + " does not exist; make it first");
    return explain(status, directory, report);
}

// RocksDB's files have the modes that the umask leaves, and contain names and attributes of the
// pool's files. So the directory is closed to other users, also if it existed before.
Result<> keep_others_out(const std::string& directory, const RocksDbOptions& options,
                         Report& report) {
    if (options.env) return {};  // a simulated file system has no modes
    struct stat status{};
    if (::stat(directory.c_str(), &status) == 0 && (status.st_mode & 07777U) == S_IRWXU) return {};
    if (::chmod(directory.c_str(), S_IRWXU) == 0) return {};
    const int cause = errno;
    return report.fail(fail_errno(cause).error(), "others may read the index " + directory +
                                                      ", and its mode cannot be changed (" +
                                                      std::strerror(cause) +
                                                      "); as its owner: chmod 700 " + directory);
}

// Space that a pool on a full disk needs for opening, for removals and for closing. RocksDB leaves
// the file alone.
constexpr off_t reserve_bytes = off_t{4} << 20;

std::string reserve_path(const std::string& directory) { return directory + "/reserve"; }

// Only where the disk has room for much more. Without a reserve the pool works, too.
void keep_reserve(const std::string& directory, const RocksDbOptions& options) {
    constexpr uint64_t room = 16;
    struct statvfs space{};
    if (options.env || ::access(reserve_path(directory).c_str(), F_OK) == 0 ||
        ::statvfs(directory.c_str(), &space) != 0 ||
        uint64_t{space.f_bavail} * space.f_frsize < room * uint64_t{reserve_bytes}) {
        return;
    }
    const Descriptor file(
        ::open(reserve_path(directory).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() >= 0 && ::fallocate(file.get(), 0, 0, reserve_bytes) != 0) {
        ::unlink(reserve_path(directory).c_str());
    }
}

std::string without_slash(std::string directory) {
    while (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
    return directory.contains('/') ? directory : "./" + directory;
}

}  // namespace

Result<std::unique_ptr<Index>> create_rocksdb_index(const std::string& directory,
                                                    const RocksDbOptions& options, Report& report) {
    const std::string path = without_slash(directory);
    auto env = env_with_rename_order(options.env);
    auto& files = *env->GetFileSystem();
    ROS2S_TRY(make_directory(path, files, report));
    ROS2S_TRY(keep_others_out(path, options, report));
    ROS2S_TRY_ASSIGN(auto index, open_database(path, options, env, true, report));
    const auto status = guarded([&]() -> rocksdb::Status {
        const auto text = std::string(format_magic) + std::to_string(format_version) + "\n";
        const auto unfinished = format_path(path) + ".new";
        rocksdb::Status written = rocksdb::WriteStringToFile(&files, text, unfinished, true);
        if (written.ok()) written = files.RenameFile(unfinished, format_path(path), {}, nullptr);
        if (written.ok()) written = sync_directory(files, path);
        return written;
    });
    if (!status.ok()) return explain(status, path, report);
    keep_reserve(path, options);
    return index;
}

Result<std::unique_ptr<Index>> open_rocksdb_index(const std::string& directory,
                                                  const RocksDbOptions& options, Report& report) {
    const std::string path = without_slash(directory);
    auto env = env_with_rename_order(options.env);
    ROS2S_TRY(check_format(path, *env->GetFileSystem(), report));
    if (options.read_only) return open_database(path, options, env, false, report);
    // Another user with access must not make the pool fail; its owner restores the mode.
    if (Report refusal; !keep_others_out(path, options, refusal))
        options.log.warning("index: " + refusal.text());
    Report full;
    auto opened = open_database(path, options, env, false, full);
    if (!opened && opened.error().code == Code::no_space &&
        ::unlink(reserve_path(path).c_str()) == 0) {
        options.log.warning("index: " + full.text() +
                            "; its reserve of 4 MiB is used: files can be removed");
        return open_database(path, options, env, false, report);
    }
    if (!opened) return report.fail(opened.error(), full.text());
    keep_reserve(path, options);
    return opened;
}

}  // namespace ros2s::engine
