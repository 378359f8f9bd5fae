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
    // Tries for half a minute; whoever listens may be slow to take it.
    explicit Stranger(const ListenAddress& listener);
    Stranger(Stranger&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
    Stranger& operator=(Stranger&&) = delete;
    ~Stranger();

    [[nodiscard]] bool is_connected() const { return socket_ >= 0; }
    // As much as goes without waiting; a peer that has hung up already is no failure.
    void say(std::string_view bytes) const;
    // The daemon hangs up within half a minute; what it says before is appended to `answer`.
    [[nodiscard]] bool is_hung_up(std::string* answer = nullptr) const;
    // Exactly this many bytes; fewer where it hangs up.
    [[nodiscard]] std::string hear(size_t bytes) const;

  private:
    int socket_ = -1;
};

}  // namespace ros2s::tests
