// A daemon of this build in a process of its own.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "ros2s/runtime/os_reactor.h"

namespace ros2s::tests {

class DaemonProcess {
  public:
    // `log` gets its output. Each start truncates it.
    DaemonProcess(std::string program, std::string settings, std::string log)
        : program_(std::move(program)), settings_(std::move(settings)), log_(std::move(log)) {}
    // Stops it if it runs, and checks that it ends well.
    ~DaemonProcess();
    DaemonProcess& operator=(DaemonProcess&&) = delete;

    // Starts it and waits until it is ready. If it does not become ready, returns false and prints
    // its log.
    bool start();
    void kill_hard();  // -9
    // Sends SIGTERM, and returns the exit status.
    int stop();
    // Kills it when it enters that function (strike.h). It must do so within a minute.
    void strike_at(const std::string& function);
    void expect_struck();
    [[nodiscard]] int pid() const { return pid_; }
    [[nodiscard]] std::string log() const;

  private:
    int wait();
    std::string program_, settings_, log_;
    int pid_ = 0;
};

// A reactor of clients, with a thread of its own. Ends the test program if there is none.
[[nodiscard]] std::unique_ptr<OsReactor> started_reactor(const std::string& thread_name);

// A free port of loopback. A daemon keeps it over restarts.
uint16_t free_port();

// The reply of an HTTP server on that port of loopback to GET of the path, with an optional header.
std::string page_at(uint16_t port, std::string_view path, const std::string& header);
inline std::string metrics_at(uint16_t port, const std::string& header) {
    return page_at(port, "/metrics", header);
}
// The header with the password in a file.
std::string password_in(const std::string& file);

// Runs a command. Returns its exit status, and its output in `output`.
int run_program(const std::string& command, std::string& output);

// The resident memory of a process, including shared memory.
uint64_t resident_kib(int pid);

// Makes an authority, and certificates, as `ros2store certs init` does. Those of one name are
// copies of what this process has made once: their files are flushed to the disk.
void make_certificates(const std::string& name, const std::string& directory);

// A directory that is removed with this object.
class TemporaryDirectory {
  public:
    TemporaryDirectory();
    ~TemporaryDirectory();
    TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
    [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

}  // namespace ros2s::tests
