#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kill_test.h"

namespace ros2s::kill_test {
namespace {

[[noreturn]] void die(const char* what) {
    std::fprintf(stderr, "kill_writer: %s: %s\n", what, ros2s_last_error());
    std::_Exit(1);
}

// `result`: the result of a write, negative or short.
[[noreturn]] void die_of(int64_t result) {
    const char* what = result < 0 ? std::strerror(static_cast<int>(-result)) : "it was cut short";
    std::fprintf(stderr, "kill_writer: a write failed: %s\n", what);
    std::_Exit(1);
}

// Both threads report through one pipe.
void acknowledge(const std::vector<Acknowledged>& done) {
    static std::mutex mutex;
    const std::scoped_lock lock(mutex);
    const char* from = reinterpret_cast<const char*>(done.data());
    size_t left = done.size() * sizeof(Acknowledged);
    while (left > 0) {
        const ssize_t written = write(STDOUT_FILENO, from, left);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) std::_Exit(1);  // nobody listens any more
        from += written;
        left -= static_cast<size_t>(written);
    }
}

void open_file(ros2s_fs* fs, const std::string& name, int flags, ros2s_file** file) {
    if (ros2s_file_open(fs, name.c_str(), flags, 0644, file) != 0) die(name.c_str());
}

// Creates and renames files, and unlinks each some files later. Each step runs once for each
// sequence, in order.
[[noreturn]] void churn_names(ros2s_fs* fs, uint64_t first_sequence) {
    for (uint64_t sequence = first_sequence;; ++sequence) {
        ros2s_file* file = nullptr;
        open_file(fs, new_name(sequence), O_RDWR | O_CREAT | O_EXCL, &file);
        if (ros2s_pwrite(file, &sequence, sizeof sequence, 0) != sizeof sequence) die("pwrite");
        if (ros2s_file_close(file) != 0) die("close");
        acknowledge({{.kind = Acknowledged::created, .sequence = sequence}});
        if (ros2s_rename(fs, new_name(sequence).c_str(), kept_name(sequence).c_str(), 0) != 0) {
            die("rename");
        }
        acknowledge({{.kind = Acknowledged::renamed, .sequence = sequence}});
        if (sequence < first_sequence + names_kept) continue;
        if (ros2s_unlink(fs, kept_name(sequence - names_kept).c_str()) != 0) die("unlink");
        acknowledge({{.kind = Acknowledged::unlinked, .sequence = sequence - names_kept}});
    }
}

class Writer {
  public:
    Writer(ros2s_fs* fs, ros2s_file* file, uint64_t blocks, uint32_t depth, uint64_t first_sequence)
        : file_(file),
          blocks_(blocks),
          next_sequence_(first_sequence),
          random_(first_sequence * 0x9e3779b97f4a7c15U + 1),
          slots_(depth),
          busy_(blocks, false) {
        if (ros2s_queue_create(fs, depth, &queue_) != 0) die("queue");
        buffers_ = std::make_unique<Block[]>(depth);
    }
    [[noreturn]] void run() {
        std::vector<ros2s_completion> completions(slots_.size());
        for (uint64_t slot = 0; slot < slots_.size(); ++slot) submit(slot);
        while (true) {
            const int count = ros2s_queue_reap(queue_, completions.data(), 1,
                                               static_cast<uint32_t>(completions.size()), -1);
            if (count < 0) die("reap");
            std::vector<Acknowledged> done;
            for (int i = 0; i < count; ++i) {
                const Write& slot = slots_[completions[i].user_data];
                if (completions[i].result != static_cast<int64_t>(block_size)) {
                    die_of(completions[i].result);
                }
                done.push_back({.kind = Acknowledged::written,
                                .sequence = slot.sequence,
                                .block = slot.block});
                busy_[slot.block] = false;
            }
            acknowledge(done);
            for (int i = 0; i < count; ++i) submit(completions[i].user_data);
        }
    }

  private:
    struct Write {
        uint64_t sequence = 0, block = 0;
    };
    // One write of a block at a time, so that the acknowledged order is the order on the media.
    uint64_t choose_block() {
        while (true) {
            random_ ^= random_ << 13;
            random_ ^= random_ >> 7;
            random_ ^= random_ << 17;
            const uint64_t block = random_ % blocks_;
            if (!busy_[block]) return block;
        }
    }
    void submit(uint64_t index) {
        Write& slot = slots_[index];
        slot = {.sequence = next_sequence_++, .block = choose_block()};
        busy_[slot.block] = true;
        buffers_[index].fill(slot.sequence, slot.block);
        const ros2s_request request{.opcode = ROS2S_OP_WRITE,
                                    .memory = ROS2S_MEMORY_HOST,
                                    .device = 0,
                                    .file = file_,
                                    .address = &buffers_[index],
                                    .bytes = block_size,
                                    .offset = slot.block * block_size,
                                    .user_data = index,
                                    .buffer = nullptr,
                                    .reserved = 0};
        if (ros2s_queue_submit(queue_, &request, 1) != 1) die("submit");
    }

    ros2s_file* file_;
    uint64_t blocks_;
    uint64_t next_sequence_;
    uint64_t random_;
    std::vector<Write> slots_;
    std::vector<bool> busy_;
    std::unique_ptr<Block[]> buffers_;
    ros2s_queue* queue_ = nullptr;
};

}  // namespace

int write_until_killed(ros2s_fs* fs, uint64_t blocks, uint32_t depth, uint64_t first_sequence) {
    ros2s_file* file = nullptr;
    open_file(fs, data_name, O_RDWR | O_CREAT, &file);
    std::jthread names([&] { churn_names(fs, first_sequence); });
    Writer(fs, file, blocks, depth, first_sequence).run();
}

}  // namespace ros2s::kill_test
