// A batch of blocks that a cache puts, gets or looks for, and where its end is told.
//
// The threads of the cache and its callers share a job. `memory` decides who may touch the memory
// of the caller: a thread of the cache holds it shared while it copies, and the end takes it alone.
// So nothing is copied after the end, whatever the thread still waits for.
//
// Invariants
//  - A job ends once: when all items have a result, at its deadline, or when the cache closes.
//  - Before the end only the cache uses the items. After it they do not change.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

namespace blocks {

enum class Operation : uint8_t { put, get, exists, touch, pin, unpin, remove };

struct Item {
    static constexpr int64_t no_result = INT64_MIN;

    std::string name;      // of the block's file, or the key in a container of blocks
    char* data = nullptr;  // of the caller: what is put, or room for what is got
    uint64_t bytes = 0;
    int64_t result = no_result;  // of a get: the bytes of the block; else 0, or a negative errno
};

class Job;

// Ended jobs, and a descriptor that is readable while there are any.
class Completions {
  public:
    Completions();
    Completions& operator=(Completions&&) = delete;
    ~Completions();

    [[nodiscard]] int descriptor() const { return descriptor_; }
    void add(std::span<const std::shared_ptr<Job>> jobs);
    std::vector<std::shared_ptr<Job>> take();

  private:
    int descriptor_;
    std::mutex mutex_;
    std::vector<std::shared_ptr<Job>> ended_;
};

class Job {
  public:
    using Time = std::chrono::steady_clock::time_point;

    // `completions` may be null: then somebody calls wait().
    Job(Operation operation, std::vector<Item> items, std::shared_ptr<Completions> completions)
        : operation(operation),
          items(std::move(items)),
          completions(std::move(completions)),
          left_(this->items.size()) {}

    const Operation operation;
    std::vector<Item> items;
    const std::shared_ptr<Completions> completions;
    std::chrono::nanoseconds pinned_for{};
    uint64_t id = 0;
    Time deadline;

    // Calls work() unless the job has ended. It does not end meanwhile.
    template <class Work>
    bool use_memory(const Work& work) {
        const std::shared_lock lock(memory_);
        if (ended_) return false;
        work();
        return true;
    }
    // Counts items whose result is set. True: they were the last.
    bool is_last(size_t count) { return left_.fetch_sub(count) == count; }
    // Items without a result get the error. False: it had ended before.
    bool end(int error);
    [[nodiscard]] bool has_ended() {
        const std::shared_lock lock(memory_);
        return ended_;
    }
    void tell() { told_.release(); }
    void wait() { told_.acquire(); }

  private:
    std::shared_mutex memory_;
    bool ended_ = false;
    std::atomic<size_t> left_;
    std::binary_semaphore told_{0};
};

}  // namespace blocks
