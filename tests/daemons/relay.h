// A Unix socket that forwards to another one and can hold bytes back. It simulates a network
// failure for its connections only.
#pragma once
#include <atomic>
#include <list>
#include <string>
#include <thread>

namespace ros2s::tests {

class Relay {
  public:
    // Listens at `path`, and connects to `target` for each client.
    Relay(const std::string& path, std::string target);
    ~Relay();
    Relay& operator=(Relay&&) = delete;

    // Holds back all bytes, also of new connections, or forwards them again.
    void cut(bool is_cut) { cut_ = is_cut; }

  private:
    struct Pair {
        int client = -1, server = -1;
    };
    void run();
    void accept_one();
    static bool pass(int from, int to);

    std::string target_;
    int listener_ = -1;
    std::list<Pair> pairs_;
    std::atomic<bool> cut_ = false, stopping_ = false;
    std::thread thread_;
};

}  // namespace ros2s::tests
