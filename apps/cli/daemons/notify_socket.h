// NotifySocket: the socket on which a daemon that this process starts reports that it is ready.
// Source of the messages: sd_notify(3). Besides READY=1 they have a line X_ROS2STORE_ADDRESS=… for
// each address. It is in DIR/run, which no other user can enter.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ros2s/base/descriptor.h"
#include "ros2s/base/result.h"

namespace ros2s::cli {

class NotifySocket {
  public:
    // `path` is for the environment's NOTIFY_SOCKET. Errors: those of socket(2) and bind(2).
    [[nodiscard]] static Result<NotifySocket> open(std::string path);
    NotifySocket(NotifySocket&&) = default;
    ~NotifySocket();

    // The addresses, if the daemon has reported that it is ready. Does not wait.
    [[nodiscard]] std::optional<std::vector<std::string>> ready() const;

  private:
    NotifySocket(int descriptor, std::string path)
        : descriptor_(descriptor), path_(std::move(path)) {}
    Descriptor descriptor_;
    std::string path_;
};

}  // namespace ros2s::cli
