// RequestRing: the requests of one hf3fs_ior. It is an api::Queue, and keeps what each request uses
// until its completion is returned.
//
// One thread at a time prepares and submits, and one waits. They may be two.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "include/hf3fs_usrbio.h"
#include "process.h"

namespace ros2s::usrbio {

class RequestRing {
  public:
    static constexpr int entries_max = 65536;
    // Errors: those of api::Queue::create().
    static Result<std::unique_ptr<RequestRing>> create(std::shared_ptr<MountLink> link,
                                                       uint32_t entries);
    // Waits for the requests in progress.
    ~RequestRing();
    RequestRing& operator=(RequestRing&&) = delete;

    [[nodiscard]] bool in_forked_child() const noexcept { return mark_.in_forked_child(); }
    [[nodiscard]] MountLink& link() const noexcept { return *link_; }
    [[nodiscard]] uint32_t entries() const noexcept { return static_cast<uint32_t>(slots_.size()); }

    struct Request {
        bool is_read = false;
        std::shared_ptr<RegisteredFile> file;
        std::shared_ptr<Memory> memory;  // null: the program's
        void* address = nullptr;
        uint64_t bytes = 0, offset = 0;
        const void* userdata = nullptr;
    };
    // Returns its index; -1: the ring is full.
    int prepare(Request request);
    void submit();
    // `until`: of CLOCK_REALTIME; null: no limit.
    int wait(std::span<hf3fs_cqe> into, int least, const timespec* until);

  private:
    explicit RequestRing(std::shared_ptr<MountLink> link) : link_(std::move(link)) {}
    void submit_prepared();
    void take(std::span<const ros2s_completion> completions, hf3fs_cqe* into);

    ForkMark mark_;
    const std::shared_ptr<MountLink> link_;
    std::unique_ptr<api::Queue> queue_;
    struct RequestSlot {
        std::shared_ptr<RegisteredFile> file;
        std::shared_ptr<Memory> memory;
        const void* userdata = nullptr;
    };
    std::mutex mutex_;  // of what follows, and of the submitter's part of the queue
    std::vector<RequestSlot> slots_;
    std::vector<int> free_;
    uint32_t prepared_ = 0;  // and not submitted
    uint64_t submissions_ = 0;
    std::condition_variable submitted_;
};

}  // namespace ros2s::usrbio
