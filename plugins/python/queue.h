// Many reads and writes of open files at once: in one call that waits, or in a queue whose
// descriptor an event loop watches.
#pragma once
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <ros2store/ros2store.hpp>
#include <unordered_map>
#include <utility>

#include "buffers.h"
#include "file.h"
#include "many_files.h"

// Returns bytes, or an OSError, for each (file, name, offset, bytes).
pybind11::list read_ranges(SharedFileSystem& fs, const pybind11::sequence& ranges);

// The memory of a request: none, a buffer of the caller, or a bytes object that is made for it.
class Memory {
  public:
    Memory() = default;
    explicit Memory(View view) : view_(std::move(view)) {}
    explicit Memory(size_t bytes) : made_(new_bytes(bytes)) {}
    [[nodiscard]] void* data() const {
        return made_ ? PyBytes_AS_STRING(made_.ptr()) : view_ ? view_->data() : nullptr;
    }
    [[nodiscard]] size_t size() const {
        return made_   ? static_cast<size_t>(PyBytes_GET_SIZE(made_.ptr()))
               : view_ ? view_->size()
                       : 0;
    }
    // The bytes object, or else the count.
    pybind11::object take(int64_t count) {
        if (!made_ || count < 0) return pybind11::int_(count);
        return shortened(std::move(made_), static_cast<size_t>(count));
    }

  private:
    std::optional<View> view_;
    pybind11::object made_;
};

// Keeps what a request in a queue uses.
class QueuedRequest {
  public:
    QueuedRequest(const pybind11::object& file, Memory memory, const pybind11::object& token)
        : file_(file),
          memory_(std::move(memory)),
          token_(token),
          use_(pybind11::cast<PythonFile&>(file).handle()),
          queued_(pybind11::cast<PythonFile&>(file).queued_) {}
    QueuedRequest& operator=(QueuedRequest&&) = delete;
    [[nodiscard]] const pybind11::object& token() const { return token_; }
    [[nodiscard]] ros2s_file* handle() const { return use_.handle().get(); }
    [[nodiscard]] const Memory& memory() const { return memory_; }
    pybind11::object result_of(int64_t result) { return memory_.take(result); }

  private:
    pybind11::object file_;
    Memory memory_;
    pybind11::object token_;
    SharedHandle<ros2store::File>::Use use_;
    RunningCount::One queued_;
};

// Its calls keep the GIL, which makes one thread at a time submit and reap, and they do not wait,
// except close() and reap(true).
class PythonQueue {
  public:
    PythonQueue(SharedFileSystem& fs, uint32_t depth);
    PythonQueue& operator=(PythonQueue&&) = delete;
    ~PythonQueue() { close(); }

    int descriptor() { return queue().descriptor(); }
    [[nodiscard]] size_t in_progress() const { return requests_.size(); }
    // False: the queue is full. reap() returns the token with the result.
    bool read(const pybind11::object& file, Size bytes, Size offset,
              const pybind11::object& token) {
        return submit(ROS2S_OP_READ, file, Memory(size_t{bytes}), offset, token);
    }
    bool readinto(const pybind11::object& file, const pybind11::object& buffer, Size offset,
                  const pybind11::object& token) {
        return submit(ROS2S_OP_READ, file, Memory(View(buffer, true)), offset, token);
    }
    bool write(const pybind11::object& file, const pybind11::object& buffer, Size offset,
               const pybind11::object& token) {
        return submit(ROS2S_OP_WRITE, file, Memory(View(buffer, false)), offset, token);
    }
    bool fsync(const pybind11::object& file, const pybind11::object& token) {
        return submit(ROS2S_OP_FSYNC, file, Memory(), 0, token);
    }
    // (token, result) of each completion, with `waits` of all requests. The result is a negative
    // errno, the bytes that read() got, or else their number.
    pybind11::list reap(bool waits);
    // Waits for the requests in progress.
    void close();

  private:
    bool submit(ros2s_opcode opcode, const pybind11::object& file, Memory memory, uint64_t offset,
                const pybind11::object& token);
    ros2store::Queue& queue() {
        if (!queue_) throw ros2store::Error(EBADF, "the queue is closed");
        return *queue_;
    }
    std::optional<ros2store::Queue> queue_;
    std::unordered_map<uint64_t, std::unique_ptr<QueuedRequest>> requests_;
    uint64_t next_ = 0;
};
