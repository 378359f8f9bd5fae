// CacheWatch: whether a reset of the controller may have taken what a flush vouches for: one that a
// command met while writes were complete and not yet flushed. The flush that comes after the reset
// succeeds and says nothing of them.
//
// One for all handles of a namespace; used on any core.
#pragma once
#include <atomic>
#include <cstdint>

namespace ros2s::device {

class CacheWatch {
  public:
    // For a write that is sent now.
    [[nodiscard]] uint32_t resets() const noexcept { return resets_; }
    // It is complete. Where a reset was met since, on whichever core, it may have been before that.
    void wrote(uint32_t resets_when_sent) noexcept {
        unflushed_ = true;
        if (resets_ != resets_when_sent) lost_ = true;
    }
    // A flush is sent: it covers what is complete.
    void flushing() noexcept {
        ++flushes_;
        unflushed_ = false;
    }
    // It ended, well or not. False: it proves nothing, nor does any after it.
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
