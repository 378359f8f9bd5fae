// A connection of a peer that does not speak our protocols, or stops in the middle of one.
#pragma once
#include <string>
#include <string_view>
#include <utility>

namespace ros2s::tests {

// An address at which a daemon accepts connections.
struct ListenAddress {
    std::string name;     // "control", "shm", "ucx+tcp"
    std::string address;  // a path, or HOST:PORT of loopback
};

class Stranger {
  public:
    // Tries for half a minute, because the listener may be slow.
    explicit Stranger(const ListenAddress& listener);
    Stranger(Stranger&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
    Stranger& operator=(Stranger&&) = delete;
    ~Stranger();

    [[nodiscard]] bool is_connected() const { return socket_ >= 0; }
    // Sends as much as possible without waiting. It is no failure if the peer has disconnected.
    void say(std::string_view bytes) const;
    // Checks that the daemon disconnects within half a minute. Appends what it sends before to
    // `answer`.
    [[nodiscard]] bool is_hung_up(std::string* answer = nullptr) const;
    // Receives exactly this many bytes, or fewer if the daemon disconnects.
    [[nodiscard]] std::string hear(size_t bytes) const;

  private:
    int socket_ = -1;
};

}  // namespace ros2s::tests
