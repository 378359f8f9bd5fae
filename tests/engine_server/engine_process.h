// A ros2store-engine of this build in a process of its own, on a pool and with certificates in a
// temporary directory; and how tests reach it.
#pragma once
#include <filesystem>
#include <string>

#include "ros2s/direct/direct_pool.h"

namespace ros2s::tests {

class EngineProcess {
  public:
    // Makes the directory, a pool in it, and certificates; starts nothing yet.
    EngineProcess();
    ~EngineProcess();
    EngineProcess(const EngineProcess&) = delete;
    EngineProcess& operator=(const EngineProcess&) = delete;

    // Starts it and waits until it is ready. False, with its log in a failure, when it is not.
    bool start();
    void kill_hard();  // -9
    // SIGTERM, and its exit status.
    int stop();

    // How a client reaches it over that provider.
    [[nodiscard]] direct::DirectOptions options(const std::string& provider) const;
    [[nodiscard]] std::string path(const std::string& name) const {
        return (directory_ / name).string();
    }
    [[nodiscard]] std::string log() const;
    [[nodiscard]] uint16_t metrics_port() const { return metrics_port_; }
    void write_settings(const std::string& extra = {});

  private:
    int wait();
    std::filesystem::path directory_;
    uint16_t data_port_ = 0, metrics_port_ = 0;
    int pid_ = 0;
};

// Runs a program of this build; its exit status, and what it said in `output`.
int run_program(const std::string& command, std::string& output);

}  // namespace ros2s::tests
