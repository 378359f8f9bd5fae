// StopSource and StopToken: one part of a core requests another one to stop. The request does not
// wait: an operation that uses memory (a read in flight) still runs to its end.
//
// Owned and used on one core. A token may be copied freely. The source must outlive every callback.
#pragma once

#include "ros2s/base/check.h"

namespace ros2s {

class StopSource;

// An intrusive callback: registered by the constructor, removed by the destructor. request_stop()
// calls `fire` of each callback at most once, on its own stack.
class StopCallback {
  public:
    using Fire = void (*)(StopCallback&) noexcept;
    StopCallback(StopSource* source, Fire fire) noexcept;
    StopCallback& operator=(StopCallback&&) = delete;
    ~StopCallback();

  private:
    friend class StopSource;
    StopSource* source_;
    Fire fire_;
    StopCallback* next_ = nullptr;
    StopCallback* previous_ = nullptr;
};

class StopToken {
  public:
    StopToken() = default;  // never stops
    explicit StopToken(StopSource* source) noexcept : source_(source) {}
    [[nodiscard]] bool stop_requested() const noexcept;
    [[nodiscard]] StopSource* source() const noexcept { return source_; }

  private:
    StopSource* source_ = nullptr;
};

class StopSource {
  public:
    StopSource& operator=(StopSource&&) = delete;
    ~StopSource() { ROS2S_CHECK(first_ == nullptr); }

    [[nodiscard]] StopToken token() noexcept { return StopToken(this); }
    [[nodiscard]] bool stop_requested() const noexcept { return stopped_; }
    void request_stop() noexcept {
        stopped_ = true;
        while (first_ != nullptr) {
            StopCallback& callback = *first_;
            unlink(callback);
            callback.fire_(callback);
        }
    }

  private:
    friend class StopCallback;
    void unlink(StopCallback& callback) noexcept {
        (callback.previous_ != nullptr ? callback.previous_->next_ : first_) = callback.next_;
        if (callback.next_ != nullptr) callback.next_->previous_ = callback.previous_;
        callback.source_ = nullptr;
    }
    bool stopped_ = false;
    StopCallback* first_ = nullptr;
};

// While it exists, a stop request of `from` is one of `to` as well. One that came before is not.
class ForwardedStop : StopCallback {
  public:
    ForwardedStop(StopToken from, StopSource& to) noexcept
        : StopCallback(from.source(),
                       [](StopCallback& self) noexcept {
                           static_cast<ForwardedStop&>(self).to_.request_stop();
                       }),
          to_(to) {}

  private:
    StopSource& to_;
};

inline bool StopToken::stop_requested() const noexcept {
    return source_ != nullptr && source_->stop_requested();
}
inline StopCallback::StopCallback(StopSource* source, Fire fire) noexcept
    : source_(source), fire_(fire) {
    if (source_ == nullptr) return;
    next_ = source_->first_;
    if (next_ != nullptr) next_->previous_ = this;
    source_->first_ = this;
}
inline StopCallback::~StopCallback() {
    if (source_ != nullptr) source_->unlink(*this);
}

}  // namespace ros2s
