// A ros2store-engine on a pool in a temporary directory, with certificates and the layout of
// `ros2store up`, and the addresses at which tests reach it.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "daemon_process.h"
#include "ros2s/api/service_paths.h"
#include "ros2s/connection/direct_pool.h"

namespace ros2s::tests {

class EngineProcess {
  public:
    // Makes the pool and certificates. Starts nothing.
    EngineProcess();
    // Stops it if it runs, and checks the pool that it leaves.
    ~EngineProcess();
    EngineProcess& operator=(EngineProcess&&) = delete;

    bool start() { return process_.start(); }
    void kill_hard() { process_.kill_hard(); }
    int stop() { return process_.stop(); }
    void strike_at(const std::string& function) { process_.strike_at(function); }
    void expect_struck() { process_.expect_struck(); }
    [[nodiscard]] int pid() const { return process_.pid(); }
    [[nodiscard]] std::string log() const { return process_.log(); }

    // The options of a client over that provider.
    [[nodiscard]] connection::Options options(const std::string& provider) const;
    [[nodiscard]] std::string path(const std::string& name) const { return directory_.path(name); }
    // The `dir` of URIs.
    [[nodiscard]] std::string pool_directory() const { return path("pool"); }
    [[nodiscard]] api::ServicePaths places() const { return api::ServicePaths(pool_directory()); }
    [[nodiscard]] uint16_t data_port() const { return data_port_; }
    [[nodiscard]] uint16_t tls_port() const { return tls_port_; }
    [[nodiscard]] uint16_t metrics_port() const { return metrics_port_; }
    // The reply of its metrics server.
    [[nodiscard]] std::string metrics() const;
    void write_settings(const std::string& extra = {});
    // Sets the rights of a subject. Call before write_settings(). "CN=client" may do everything.
    void give(const std::string& subject, const std::string& rights) { rights_[subject] = rights; }
    // Removes the rights of "CN=client". Call before write_settings().
    void take_all_from_the_client() { rights_.erase("CN=client"); }
    // Call before write_settings(): also listens on this provider, if it is one of libfabric's. An
    // engine that loads libfabric takes twice as long to start.
    void listen_on(std::string_view provider) { over_ofi_ |= provider.starts_with("ofi"); }
    // Adds a pool of that name. Call before start.
    void add_pool(const std::string& name);

  private:
    TemporaryDirectory directory_;
    // "CN=client" has all rights in them.
    void give_pools();
    std::string more_pools_;
    std::string containers_ = "pool/*";
    bool over_ofi_ = false;
    std::map<std::string, std::string> rights_;  // by subject
    uint16_t data_port_ = free_port(), ofi_port_ = free_port(), tls_port_ = free_port(),
             metrics_port_ = free_port();
    DaemonProcess process_{PROGRAM_ENGINE, directory_.path("engine.yaml"), directory_.path("log")};
};

}  // namespace ros2s::tests
