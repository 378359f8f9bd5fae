// A cache of blocks in a container. In a container of blocks (`container create --cache`) the store
// keeps, compares and verifies them. In another one a block is a file in a directory, which appears
// when it is whole: docs/formats/blocks.md.
//
// Threads of the cache make the library's calls, with memory of their own. A job ends at its
// deadline also if the library's call does not return: what comes later is dropped. Nobody waits
// for more than `deadline`, except close(), which waits for the library's calls.
//
// Any thread may call. In a forked child all calls fail with EBADF, and nothing is closed.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ros2store/ros2store.hpp>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "block_job.h"

namespace blocks {

constexpr size_t keys_together_max = 1024;
constexpr uint64_t block_bytes_max = (uint64_t{64} << 20) - 4096;

struct Options {
    std::string uri;
    // Below the URI's path; made if it is missing. A container of blocks has none.
    std::string directory;
    std::chrono::nanoseconds deadline{std::chrono::seconds(1)};
    unsigned threads = 4;
};

// What happened since the cache was opened: blocks, and jobs that were late.
struct Counters {
    std::atomic<uint64_t> hits = 0, misses = 0, stored = 0, present = 0, refused = 0, corrupt = 0,
                          failed = 0, late = 0, bytes_got = 0, bytes_put = 0;

    void add_got(int64_t result);
    void add_put(int64_t result, uint64_t bytes, bool is_present);
};

class Staging;

class BlockCache {
  public:
    // Throws ros2store::Error.
    explicit BlockCache(const Options& options);
    BlockCache& operator=(BlockCache&&) = delete;
    ~BlockCache() { close(); }

    // Returns the job's id. The job may end before the call returns. The memory of its items must
    // stay valid until then. Throws EBADF after close().
    uint64_t submit(const std::shared_ptr<Job>& job);
    // Ends what is in progress with ECANCELED, and waits for the threads.
    void close();
    void cancel(const std::shared_ptr<Job>& job) { finish(job, ECANCELED); }
    [[nodiscard]] bool is_closed() const;
    [[nodiscard]] bool is_of_this_process() const;
    [[nodiscard]] const Counters& counters() const { return counters_; }
    [[nodiscard]] bool is_of_blocks() const { return is_of_blocks_; }
    // Item::name of a key.
    [[nodiscard]] std::string name_of(std::string_view key) const;

  private:
    // Items of a job that one call of the library takes, or of several jobs.
    struct Piece {
        std::shared_ptr<Job> job;
        size_t begin = 0, end = 0;
        [[nodiscard]] uint64_t bytes() const;
    };
    using Pieces = std::vector<Piece>;
    class Batch;
    struct Entry;

    void open_directory();
    void work();
    Pieces next();
    void watch_deadlines();
    void put(Batch& batch, Staging& staging);
    void compare_with_present(std::vector<Entry*>& left);
    void write(std::vector<Entry*>& left);
    void get(Batch& batch, Staging& staging);
    void look(Batch& batch);
    void touch(Batch& batch);
    void remove(Batch& batch);
    void work_on_files(Batch& batch, Staging& staging);
    // In a container of blocks.
    void work_on_blocks(Batch& batch, Staging& staging);
    static void copy_what_is_put(Batch& batch);
    void drop(const std::vector<std::string>& names);
    void hand_over(Batch& batch);
    void finish(const std::shared_ptr<Job>& job, int error);
    void tell(std::span<const std::shared_ptr<Job>> jobs);
    [[nodiscard]] static Pieces split(const std::shared_ptr<Job>& job);

    Options options_;
    const pid_t process_;
    std::optional<ros2store::FileSystem> fs_;
    bool is_of_blocks_ = false;
    std::optional<ros2store::Directory> directory_;
    Counters counters_;

    mutable std::mutex mutex_;  // of all below
    bool closed_ = false;
    uint64_t next_id_ = 1;
    std::map<uint64_t, std::shared_ptr<Job>> active_;  // the first has the next deadline
    std::deque<Piece> waiting_;
    size_t items_waiting_ = 0;
    bool is_watching_ = false;  // the next deadline, or an earlier one
    std::condition_variable has_work_, has_deadline_;

    std::once_flag closed_once_;
    std::vector<std::thread> threads_;
};

}  // namespace blocks
