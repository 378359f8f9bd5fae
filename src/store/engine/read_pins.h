// ReadPins: a core's reads of the media in progress, by the last group that was visible when each
// began. They may still read a block displaced by a later group, so it must not be reused.
#pragma once
#include <cstdint>

namespace ros2s::engine {

class ReadPins {
  public:
    // Is part of the reader's frame, from before it takes addresses until its last read is done.
    class Pin {
      public:
        Pin(ReadPins& owner, uint64_t visible) : owner_(owner), visible_(visible) {
            older_ = owner_.newest_;
            (older_ != nullptr ? older_->newer_ : owner_.oldest_) = this;
            owner_.newest_ = this;
        }
        Pin(const Pin&) = delete;
        Pin& operator=(const Pin&) = delete;
        ~Pin() {
            (older_ != nullptr ? older_->newer_ : owner_.oldest_) = newer_;
            (newer_ != nullptr ? newer_->older_ : owner_.newest_) = older_;
        }

      private:
        friend class ReadPins;
        ReadPins& owner_;
        uint64_t visible_;
        Pin* older_ = nullptr;
        Pin* newer_ = nullptr;
    };
    // No read uses blocks displaced by groups up to this one.
    [[nodiscard]] uint64_t unread_upto() const {
        return oldest_ == nullptr ? UINT64_MAX : oldest_->visible_;
    }

  private:
    Pin* oldest_ = nullptr;
    Pin* newest_ = nullptr;
};

}  // namespace ros2s::engine
