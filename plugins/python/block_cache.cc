#include "block_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "ros2s/base/crc32c.h"
#include "ros2s/base/staging_memory.h"

namespace blocks {

namespace {

using Clock = std::chrono::steady_clock;

// Of one call of the library, which has as much memory. A larger block is moved alone. What is more
// leaves the caches of the processors before it is copied on, and waits for its last block.
constexpr uint64_t bytes_together_max = uint64_t{1} << 20;
// With so many, further jobs end at once. Reached where the server does not answer.
constexpr size_t items_waiting_max = 1 << 16;
constexpr size_t alignment = 4096;  // the library reads and writes such memory without a copy

// docs/formats/blocks.md
struct Header {
    char magic[8];
    uint32_t version;
    uint32_t checksum;  // CRC32C of name, bytes and block
    uint64_t bytes;
    uint64_t reserved;
};
static_assert(sizeof(Header) == 32);
constexpr char magic[8] = {'r', 'o', 's', '2', 's', 'b', 'l', 'k'};
constexpr uint32_t version = 1;

ros2s::ConstBytes bytes_of(const void* data, size_t bytes) {
    return {static_cast<const std::byte*>(data), bytes};
}

Header header_of(const std::string& name, const char* block, uint64_t bytes) {
    Header header{};
    std::memcpy(header.magic, magic, sizeof magic);
    header.version = version;
    header.bytes = bytes;
    header.checksum = ros2s::crc32c(bytes_of(name.data(), name.size()));
    header.checksum =
        ros2s::crc32c_extend(header.checksum, bytes_of(&header.bytes, sizeof header.bytes));
    header.checksum = ros2s::crc32c_extend(header.checksum, bytes_of(block, bytes));
    return header;
}

bool is_block(const Header& header) {
    return std::memcmp(header.magic, magic, sizeof magic) == 0 && header.version == version;
}

size_t stride_of(uint64_t block_bytes) {
    return (sizeof(Header) + block_bytes + alignment - 1) / alignment * alignment;
}

// The errno of the library's error that `call` throws, or 0.
template <class Call>
int error_of(const Call& call) {
    try {
        call();
        return 0;
    } catch (const ros2store::Error& error) {
        return error.code().value();
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    }
}

}  // namespace

// Memory of one thread, for whole files. Huge pages: a disk's read of a block has one address then.
class Staging {
  public:
    char* room(size_t bytes) {
        if (bytes > memory_.size()) {
            memory_ = {};
            memory_ = ros2s::StagingMemory(
                ros2s::round_up<size_t>(bytes, ros2s::StagingMemory::huge_page_bytes));
        }
        return reinterpret_cast<char*>(memory_.data());
    }

  private:
    ros2s::StagingMemory memory_;
};

// An item, and what becomes of it.
struct BlockCache::Entry {
    Item* item;
    int64_t result = -ETIMEDOUT;
    char* file = nullptr;  // in staging memory: the header, if there is one, and the block
    char* block = nullptr;
    bool is_present = false;  // the key was there before the put
};

// The items of some pieces.
class BlockCache::Batch {
  public:
    explicit Batch(const Pieces& pieces) : pieces(pieces) {
        for (const Piece& piece : pieces) {
            for (size_t i = piece.begin; i < piece.end; ++i) {
                entries.push_back({.item = &piece.job->items[i]});
            }
        }
    }
    // Gives each entry its part of the staging memory.
    void stage(Staging& staging, size_t header_bytes) {
        size_t all = 0;
        for (const Entry& entry : entries) all += stride_of(entry.item->bytes);
        char* at = staging.room(all);
        for (Entry& entry : entries) {
            entry.file = at;
            entry.block = at + header_bytes;
            at += stride_of(entry.item->bytes);
        }
    }
    void fail(int error) {
        for (Entry& entry : entries) entry.result = -error;
    }
    // Calls work(entries of the piece, job) for each.
    template <class Work>
    void for_each_piece(const Work& work) {
        Entry* at = entries.data();
        for (const Piece& piece : pieces) {
            const size_t count = piece.end - piece.begin;
            work(std::span(at, count), piece.job);
            at += count;
        }
    }

    const Pieces& pieces;
    std::vector<Entry> entries;
};

namespace {

std::vector<ros2s_read_item> read_files(const ros2store::FileSystem& fs,
                                        const std::string& directory,
                                        std::vector<ros2s_read_item> items) {
    ros2store::detail::checked(ros2s_read_many(fs.get(), ros2store::detail::c_string(directory),
                                               items.data(), items.size()));
    for (ros2s_read_item& item : items) {
        if (item.result < 0) continue;
        // A false server must not make the result longer than the memory.
        const auto bytes = static_cast<uint64_t>(item.result);
        if (bytes > item.capacity || bytes != std::min(item.size, item.capacity)) {
            item.result = -EIO;
        }
    }
    return items;
}

// What a file is that was read: the bytes of its block, or a negative errno.
template <class Entry>
int64_t checked(const Entry& entry, const ros2s_read_item& read) {
    Header header{};
    if (read.size >= sizeof header) std::memcpy(&header, entry.file, sizeof header);
    if (!is_block(header)) return -EINVAL;
    if (header.bytes != read.size - sizeof header) return -EBADMSG;
    if (header.bytes > entry.item->bytes) return -EMSGSIZE;
    const Header right = header_of(entry.item->name, entry.block, header.bytes);
    return header.checksum == right.checksum ? static_cast<int64_t>(header.bytes) : -EBADMSG;
}

}  // namespace

void Counters::add_got(int64_t result) {
    if (result >= 0) {
        ++hits;
        bytes_got += static_cast<uint64_t>(result);
    } else {
        ++(result == -EBADMSG || result == -EIO ? corrupt : result == -ENOENT ? misses : failed);
    }
}

void Counters::add_put(int64_t result, uint64_t bytes, bool is_present) {
    if (result < 0) {
        ++(result == -EEXIST ? refused : failed);
    } else if (is_present) {
        ++present;
    } else {
        ++stored;
        bytes_put += bytes;
    }
}

uint64_t BlockCache::Piece::bytes() const {
    uint64_t all = 0;
    for (size_t i = begin; i < end; ++i) all += stride_of(job->items[i].bytes);
    return all;
}

BlockCache::BlockCache(const Options& options)
    : options_(options), process_(getpid()), fs_(std::in_place, options.uri, "cache") {
    // Only a container of blocks has it, and who may only read gets it, too.
    is_of_blocks_ = ros2s_getxattr(fs_->get(), "", "user.ros2store.cache", nullptr, 0) >= 0;
    if (is_of_blocks_) options_.directory.clear();
    open_directory();
    try {
        for (unsigned i = 0; i < options.threads; ++i) threads_.emplace_back([this] { work(); });
        threads_.emplace_back([this] { watch_deadlines(); });
    } catch (const std::system_error& error) {
        close();
        throw ros2store::Error(error.code().value(), "a cache cannot start its threads");
    }
}

// Who may not make it may use it.
void BlockCache::open_directory() {
    const std::string& path = options_.directory;
    std::optional<ros2store::Error> not_made;
    for (size_t end = 0; end != std::string::npos && !path.empty();) {
        end = path.find('/', end + 1);
        const int error = error_of([&] { fs_->mkdir(path.substr(0, end)); });
        if (error != 0 && error != EEXIST) not_made.emplace(error, ros2s_last_error());
    }
    try {
        directory_.emplace(fs_->open_directory(path));
    } catch (const ros2store::Error&) {
        if (not_made) throw *not_made;
        throw;
    }
}

std::string BlockCache::name_of(std::string_view key) const {
    static constexpr char digits[] = "0123456789abcdef";
    if (is_of_blocks_) return std::string(key);
    std::string name = "%";
    for (const char each : key) {
        name += digits[static_cast<unsigned char>(each) >> 4];
        name += digits[static_cast<unsigned char>(each) & 15];
    }
    return name;
}

bool BlockCache::is_closed() const {
    if (!is_of_this_process()) return true;  // the parent's lock may be held for ever
    const std::scoped_lock lock(mutex_);
    return closed_;
}

bool BlockCache::is_of_this_process() const { return process_ == getpid(); }

void BlockCache::close() {
    std::call_once(closed_once_, [&] {
        std::map<uint64_t, std::shared_ptr<Job>> active;
        {
            const std::scoped_lock lock(mutex_);
            closed_ = true;
            active = std::move(active_);
            active_.clear();
            waiting_.clear();
        }
        has_work_.notify_all();
        has_deadline_.notify_all();
        for (const auto& [id, job] : active) finish(job, ECANCELED);
        for (std::thread& thread : threads_) thread.join();
        directory_.reset();
        fs_.reset();
    });
}

BlockCache::Pieces BlockCache::split(const std::shared_ptr<Job>& job) {
    const bool moves = job->operation == Operation::put || job->operation == Operation::get;
    Pieces pieces;
    uint64_t bytes = 0;
    for (size_t i = 0; i < job->items.size(); ++i) {
        const uint64_t more = moves ? stride_of(job->items[i].bytes) : 0;
        bytes += more;
        if (pieces.empty() || i - pieces.back().begin == keys_together_max ||
            bytes > bytes_together_max) {
            pieces.push_back({job, i, i});
            bytes = more;
        }
        pieces.back().end = i + 1;
    }
    return pieces;
}

uint64_t BlockCache::submit(const std::shared_ptr<Job>& job) {
    if (!is_of_this_process()) {
        throw ros2store::Error(EBADF, "the cache is of the parent process: open it again");
    }
    const Pieces pieces = split(job);
    int refused = 0;
    bool watches = false;
    {
        const std::scoped_lock lock(mutex_);
        if (closed_) throw ros2store::Error(EBADF, "the cache is closed");
        job->id = next_id_++;
        if (items_waiting_ >= items_waiting_max) refused = EAGAIN;
        if (!pieces.empty() && refused == 0) {
            job->deadline = Clock::now() + options_.deadline;
            watches = !std::exchange(is_watching_, true);
            active_.emplace(job->id, job);
            waiting_.insert(waiting_.end(), pieces.begin(), pieces.end());
            items_waiting_ += job->items.size();
        }
    }
    if (watches) has_deadline_.notify_one();
    if (pieces.empty() || refused != 0) {
        finish(job, refused);
    } else if (pieces.size() == 1) {
        has_work_.notify_one();
    } else {
        has_work_.notify_all();
    }
    return job->id;
}

BlockCache::Pieces BlockCache::next() {
    std::unique_lock lock(mutex_);
    has_work_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    Pieces taken;
    uint64_t bytes = 0;
    size_t items = 0;
    for (; !waiting_.empty(); waiting_.pop_front()) {
        const Piece& piece = waiting_.front();
        bytes += piece.bytes();
        items += piece.end - piece.begin;
        if (!taken.empty() && (piece.job->operation != taken[0].job->operation ||
                               piece.job->pinned_for != taken[0].job->pinned_for ||
                               items > keys_together_max || bytes > bytes_together_max)) {
            break;
        }
        items_waiting_ -= piece.end - piece.begin;
        if (!piece.job->has_ended()) taken.push_back(piece);
    }
    return taken;
}

void BlockCache::work() {
    Staging staging;
    while (!is_closed()) {
        const Pieces pieces = next();
        if (pieces.empty()) continue;
        Batch batch(pieces);
        const int error = error_of([&] {
            is_of_blocks_ ? work_on_blocks(batch, staging) : work_on_files(batch, staging);
        });
        if (error != 0) batch.fail(error);
        hand_over(batch);
    }
}

void BlockCache::watch_deadlines() {
    std::unique_lock lock(mutex_);
    while (!closed_) {
        if (active_.empty()) {
            is_watching_ = false;
            has_deadline_.wait(lock, [this] { return closed_ || is_watching_; });
            continue;
        }
        const std::shared_ptr<Job> first = active_.begin()->second;
        if (Clock::now() < first->deadline) {
            has_deadline_.wait_until(lock, first->deadline);
            continue;
        }
        lock.unlock();
        finish(first, ETIMEDOUT);
        lock.lock();
    }
}

void BlockCache::work_on_files(Batch& batch, Staging& staging) {
    switch (batch.pieces[0].job->operation) {
        case Operation::put: return put(batch, staging);
        case Operation::get: return get(batch, staging);
        case Operation::exists: return look(batch);
        case Operation::touch: return touch(batch);
        case Operation::remove: return remove(batch);
        case Operation::pin:
        case Operation::unpin: return batch.fail(EOPNOTSUPP);
    }
}

// Entries of jobs that have ended keep their result, and are left out.
void BlockCache::copy_what_is_put(Batch& batch) {
    batch.for_each_piece([](std::span<Entry> entries, const std::shared_ptr<Job>& job) {
        job->use_memory([&] {
            for (Entry& entry : entries) {
                std::memcpy(entry.block, entry.item->data, entry.item->bytes);
                entry.result = -EINPROGRESS;
            }
        });
    });
}

void BlockCache::work_on_blocks(Batch& batch, Staging& staging) {
    static constexpr ros2s_opcode opcodes[] = {
        ROS2S_OP_PUT_BLOCKS, ROS2S_OP_GET_BLOCKS,   ROS2S_OP_FIND_BLOCKS,  ROS2S_OP_TOUCH_BLOCKS,
        ROS2S_OP_PIN_BLOCKS, ROS2S_OP_UNPIN_BLOCKS, ROS2S_OP_REMOVE_BLOCKS};
    const Job& job = *batch.pieces[0].job;
    const bool is_put = job.operation == Operation::put;
    if (is_put || job.operation == Operation::get) batch.stage(staging, 0);
    if (is_put) copy_what_is_put(batch);
    std::vector<ros2s_block> blocks;
    std::vector<Entry*> entries;
    for (Entry& entry : batch.entries) {
        if (is_put && entry.result != -EINPROGRESS) continue;
        const Item& item = *entry.item;
        blocks.push_back({item.name.data(), item.name.size(), entry.block, item.bytes, 0});
        entries.push_back(&entry);
    }
    fs_->blocks(opcodes[static_cast<size_t>(job.operation)], blocks, job.pinned_for);
    for (size_t i = 0; i < blocks.size(); ++i) {
        int64_t& result = entries[i]->result;
        result = blocks[i].result;
        if (job.operation == Operation::remove && result == -ENOENT) result = 0;
        // A false server must not make the result longer than the memory.
        if (result > static_cast<int64_t>(blocks[i].bytes)) result = -EIO;
    }
}

void BlockCache::put(Batch& batch, Staging& staging) {
    batch.stage(staging, sizeof(Header));
    copy_what_is_put(batch);
    std::vector<Entry*> left;
    for (Entry& entry : batch.entries) {
        if (entry.result != -EINPROGRESS) continue;
        left.push_back(&entry);
        const Header header = header_of(entry.item->name, entry.block, entry.item->bytes);
        std::memcpy(entry.file, &header, sizeof header);
    }
    // Once more where another put of the same key was first.
    for (int turn = 0; turn < 2 && !left.empty(); ++turn) {
        compare_with_present(left);
        write(left);
    }
}

// Sets the result of keys that are present, and leaves the others.
void BlockCache::compare_with_present(std::vector<Entry*>& left) {
    std::vector<Header> headers(left.size());
    std::vector<ros2s_read_item> items;
    for (size_t i = 0; i < left.size(); ++i) {
        items.push_back({left[i]->item->name.c_str(), &headers[i], sizeof(Header), 0, 0});
    }
    items = read_files(*fs_, options_.directory, std::move(items));
    std::vector<Entry*> absent;
    std::vector<std::string> damaged;
    for (size_t i = 0; i < left.size(); ++i) {
        Entry& entry = *left[i];
        if (items[i].result == -EIO) damaged.push_back(entry.item->name);
        if (items[i].result == -EIO || items[i].result == -ENOENT) {
            absent.push_back(&entry);
            continue;
        }
        entry.is_present = true;
        entry.result = items[i].result;
        if (entry.result < 0) continue;
        const bool is_same = items[i].size == sizeof(Header) + entry.item->bytes &&
                             std::memcmp(&headers[i], entry.file, sizeof(Header)) == 0;
        entry.result = is_same ? 0 : -EEXIST;
    }
    drop(damaged);
    left = std::move(absent);
}

// Leaves those whose key another put has taken meanwhile.
void BlockCache::write(std::vector<Entry*>& left) {
    std::vector<ros2s_write_item> items;
    for (const Entry* entry : left) {
        items.push_back(
            {entry->item->name.c_str(), entry->file, sizeof(Header) + entry->item->bytes, 0});
    }
    directory_->write_many(items, ROS2S_WRITE_NEW | ROS2S_WRITE_PUBLISH);
    for (size_t i = 0; i < left.size(); ++i) left[i]->result = items[i].result;
    std::erase_if(left, [](const Entry* entry) { return entry->result != -EEXIST; });
}

void BlockCache::get(Batch& batch, Staging& staging) {
    batch.stage(staging, sizeof(Header));
    std::vector<ros2s_read_item> items;
    for (const Entry& entry : batch.entries) {
        items.push_back(
            {entry.item->name.c_str(), entry.file, sizeof(Header) + entry.item->bytes, 0, 0});
    }
    items = read_files(*fs_, options_.directory, std::move(items));
    std::vector<std::string> damaged;
    for (size_t i = 0; i < items.size(); ++i) {
        Entry& entry = batch.entries[i];
        entry.result = items[i].result >= 0 ? checked(entry, items[i]) : items[i].result;
        // Not what the server could not read: it may read it later.
        if (entry.result == -EBADMSG) damaged.push_back(entry.item->name);
    }
    drop(damaged);
}

void BlockCache::look(Batch& batch) {
    std::vector<std::string> names;
    std::vector<struct stat> stats;
    for (const Entry& entry : batch.entries) names.push_back(entry.item->name);
    const std::vector<int> errors = directory_->stat_many(names, stats);
    for (size_t i = 0; i < names.size(); ++i) batch.entries[i].result = -errors[i];
}

void BlockCache::touch(Batch& batch) {
    const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
    for (Entry& entry : batch.entries) {
        const std::string path =
            (options_.directory.empty() ? "" : options_.directory + "/") + entry.item->name;
        entry.result = ros2s_utimens(fs_->get(), path.c_str(), times);
    }
}

void BlockCache::remove(Batch& batch) {
    std::vector<std::string> names;
    for (const Entry& entry : batch.entries) names.push_back(entry.item->name);
    const std::vector<int> errors = directory_->unlink_many(names);
    for (size_t i = 0; i < names.size(); ++i) {
        batch.entries[i].result = errors[i] == ENOENT ? 0 : -errors[i];
    }
}

// A damaged block is a miss. Its place is for the next put; where it cannot be removed, it stays.
void BlockCache::drop(const std::vector<std::string>& names) {
    if (!names.empty()) (void)error_of([&] { (void)directory_->unlink_many(names); });
}

void BlockCache::hand_over(Batch& batch) {
    std::vector<std::shared_ptr<Job>> ended;
    batch.for_each_piece([&](std::span<Entry> entries, const std::shared_ptr<Job>& job) {
        const bool in_time = job->use_memory([&] {
            for (const Entry& entry : entries) {
                if (job->operation == Operation::get && entry.result > 0) {
                    std::memcpy(entry.item->data, entry.block, static_cast<size_t>(entry.result));
                }
                entry.item->result = entry.result;
            }
        });
        if (!in_time) return;
        for (const Entry& entry : entries) {
            if (job->operation == Operation::get) counters_.add_got(entry.result);
            if (job->operation == Operation::put) {
                counters_.add_put(entry.result, entry.item->bytes, entry.is_present);
            }
        }
        if (job->is_last(entries.size()) && job->end(0)) ended.push_back(job);
    });
    tell(ended);
}

void BlockCache::finish(const std::shared_ptr<Job>& job, int error) {
    if (!job->end(error)) return;
    if (error == ETIMEDOUT) ++counters_.late;
    tell({&job, 1});
}

// Jobs that have ended. Those of a queue that follow each other wake its reader once.
void BlockCache::tell(std::span<const std::shared_ptr<Job>> jobs) {
    {
        const std::scoped_lock lock(mutex_);
        for (const auto& job : jobs) active_.erase(job->id);
    }
    for (const auto& job : jobs) job->tell();
    while (!jobs.empty()) {
        const auto& queue = jobs.front()->completions;
        size_t count = 1;
        while (count < jobs.size() && jobs[count]->completions == queue) ++count;
        if (queue) queue->add(jobs.first(count));
        jobs = jobs.subspan(count);
    }
}

}  // namespace blocks
