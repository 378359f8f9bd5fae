// CacheWatch: whether a reset of the controller may have lost data that a later flush claims to
// cover: writes that were complete and not flushed when a command met the reset. The flush after
// the reset succeeds, but proves nothing about them.
//
// One for all handles of a namespace; used on any core.
#pragma once
#include <atomic>
#include <cstdint>

namespace ros2s::device {

class CacheWatch {
  public:
    // For a write that is being sent.
    [[nodiscard]] uint32_t resets() const noexcept { return resets_; }
    // A write is complete. If any core met a reset since it was sent, it may have completed before
    // the reset.
    void wrote(uint32_t resets_when_sent) noexcept {
        unflushed_ = true;
        if (resets_ != resets_when_sent) lost_ = true;
    }
    // A flush is being sent. It covers the complete writes.
    void flushing() noexcept {
        ++flushes_;
        unflushed_ = false;
    }
    // A flush has ended, successfully or not. False: neither it nor any later one proves anything.
    [[nodiscard]] bool flushed() noexcept {
        --flushes_;
        return !lost_;
    }
    // A command met a reset.
    void met_reset() noexcept {
        ++resets_;
        if (unflushed_ || flushes_ > 0) lost_ = true;
    }

  private:
    std::atomic<bool> unflushed_ = false;
    std::atomic<uint32_t> flushes_ = 0, resets_ = 0;
    std::atomic<bool> lost_ = false;
};

}  // namespace ros2s::device
