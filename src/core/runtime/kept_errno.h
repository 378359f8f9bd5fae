// KeptErrno: a call that does not change errno, whatever it does meanwhile on the caller's thread.
#pragma once
#include <cerrno>

namespace ros2s {

class KeptErrno {
  public:
    KeptErrno() noexcept : value_(errno) {}
    ~KeptErrno() { errno = value_; }
    KeptErrno& operator=(KeptErrno&&) = delete;

  private:
    int value_;
};

}  // namespace ros2s
