// NotifySocket: where a daemon that this process starts says that it is ready. Source of the
// messages: sd_notify(3); beside READY=1 they have a line X_ROS2STORE_ADDRESS=… for each address.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::cli {

class NotifySocket {
  public:
    // Errors: those of socket(2).
    [[nodiscard]] static Result<NotifySocket> open();
    NotifySocket(NotifySocket&& other) noexcept
        : descriptor_(std::exchange(other.descriptor_, -1)), name_(std::move(other.name_)) {}
    NotifySocket& operator=(NotifySocket&&) = delete;
    ~NotifySocket();

    // For the environment's NOTIFY_SOCKET.
    [[nodiscard]] const std::string& name() const { return name_; }
    // The addresses, once process `pid` has said that it is ready. Does not wait.
    [[nodiscard]] std::optional<std::vector<std::string>> ready(pid_t pid) const;

  private:
    NotifySocket(int descriptor, std::string name)
        : descriptor_(descriptor), name_(std::move(name)) {}
    int descriptor_;
    std::string name_;
};

}  // namespace ros2s::cli
