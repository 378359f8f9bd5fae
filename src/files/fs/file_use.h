// FileUse: a call that uses an open file. The file exists until `in_flight` is 0; then `idle` is
// woken. Empty if there is no such file.
#pragma once

namespace ros2s::fs {

template <class File>
class [[nodiscard]] FileUse {
  public:
    explicit FileUse(File* file) : file_(file) {
        if (file_ != nullptr) ++file_->in_flight;
    }
    FileUse& operator=(FileUse&&) = delete;
    ~FileUse() {
        if (file_ != nullptr && --file_->in_flight == 0) file_->idle.wake_all();
    }
    explicit operator bool() const { return file_ != nullptr; }
    File* operator->() const { return file_; }
    File& operator*() const { return *file_; }

  private:
    File* file_;
};

}  // namespace ros2s::fs
