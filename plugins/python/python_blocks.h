// The cache of blocks as Python has it: ros2store.cache.
#pragma once
#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "block_cache.h"
#include "buffers.h"

class PythonBlockCache {
  public:
    PythonBlockCache(const std::string& uri, const std::string& directory, double deadline_s,
                     unsigned threads);
    PythonBlockCache& operator=(PythonBlockCache&&) = delete;
    ~PythonBlockCache();

    // Waits for the end of the job, and returns what PythonBlockQueue::completions() has for it.
    pybind11::list run(blocks::Operation operation, const pybind11::sequence& keys,
                       const pybind11::object& buffers, double pin_s = 0);
    void close();
    [[nodiscard]] pybind11::dict counters() const;
    [[nodiscard]] blocks::BlockCache& cache() const { return *cache_; }
    [[nodiscard]] bool is_closed() const { return cache_->is_closed(); }

  private:
    std::unique_ptr<blocks::BlockCache> cache_;
};

// Jobs whose end a descriptor tells. Keeps the memory of their buffers.
class PythonBlockQueue {
  public:
    explicit PythonBlockQueue(PythonBlockCache& cache) : cache_(cache) {}
    PythonBlockQueue& operator=(PythonBlockQueue&&) = delete;
    ~PythonBlockQueue();

    uint64_t submit(blocks::Operation operation, const pybind11::sequence& keys,
                    const pybind11::object& buffers, double pin_s = 0);
    [[nodiscard]] int descriptor() const { return completions_->descriptor(); }
    // (id, results) of each ended job. A result is, of a get, the bytes of the block, or None; of a
    // put None, or an OSError; else a bool.
    pybind11::list completions();

  private:
    struct Submitted {
        std::shared_ptr<blocks::Job> job;
        std::vector<View> views;
    };
    PythonBlockCache& cache_;
    std::shared_ptr<blocks::Completions> completions_ = std::make_shared<blocks::Completions>();
    std::unordered_map<uint64_t, Submitted> submitted_;
};

void add_blocks(pybind11::module_& m);
