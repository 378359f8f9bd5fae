// A daemon of this build in a process of its own.
#pragma once
#include <cstdint>
#include <string>

namespace ros2s::tests {

class DaemonProcess {
  public:
    // `log` gets what it says; a start begins it anew.
    DaemonProcess(std::string program, std::string settings, std::string log)
        : program_(std::move(program)), settings_(std::move(settings)), log_(std::move(log)) {}
    ~DaemonProcess();
    DaemonProcess(const DaemonProcess&) = delete;
    DaemonProcess& operator=(const DaemonProcess&) = delete;

    // Starts it and waits until it is ready. False, with its log in a failure, when it is not.
    bool start();
    void kill_hard();  // -9
    // SIGTERM, and its exit status.
    int stop();
    // It dies as soon as it enters that function (strike.h), and must within a minute.
    void strike_at(const std::string& function);
    void expect_struck();
    [[nodiscard]] int pid() const { return pid_; }
    [[nodiscard]] std::string log() const;

  private:
    int wait();
    std::string program_, settings_, log_;
    int pid_ = 0;
};

// A port of loopback that nobody has now. A daemon keeps it over restarts.
uint16_t free_port();

// What an HTTP server on that port of loopback answers to GET of the path, with a header if wanted.
std::string page_at(uint16_t port, std::string_view path, const std::string& header);
inline std::string metrics_at(uint16_t port, const std::string& header) {
    return page_at(port, "/metrics", header);
}
// The header that presents the password in a file.
std::string password_in(const std::string& file);

// Runs a command; its exit status, and what it said in `output`.
int run_program(const std::string& command, std::string& output);

// Memory of a process that is not swapped out, shared memory included.
uint64_t resident_kib(int pid);

// A directory that goes with it.
class TemporaryDirectory {
  public:
    TemporaryDirectory();
    ~TemporaryDirectory();
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

}  // namespace ros2s::tests
