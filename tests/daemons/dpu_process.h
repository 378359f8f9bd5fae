// A ros2store-dpu that serves the pools of an EngineProcess, directories, or both. Its hosts have
// their own authority.
#pragma once
#include <string>
#include <string_view>

#include "engine_process.h"
#include "ros2s/connection/host_files.h"

namespace ros2s::tests {

class DpuProcess {
  public:
    // `provider`: how it reaches the engine. `directory`: the `dir` of its URIs, with its
    // certificates and sockets. Does not start it.
    DpuProcess(const EngineProcess& engine, const std::string& provider,
               const std::string& directory);
    DpuProcess(const EngineProcess& engine, const std::string& provider)
        : DpuProcess(engine, provider, engine.pool_directory()) {}
    // Without an engine. `serves`: the YAML settings of what it serves.
    DpuProcess(const std::string& directory, const std::string& serves);

    // Call before start: sets the rights of hosts. By default the client's certificate may do
    // everything.
    void give(const std::string& access);
    // Call before start: it reaches the engine's control plane at that Unix socket.
    void reach_engine_at(const std::string& socket);
    // Call before start: makes it a delegated DPU. Hosts have the rights of their tenants.
    void use_delegated();
    // Call before start: sets shares and rates of hosts.
    void limit(const std::string& limits);
    // Call before start: serves a directory, under a name such as "lustre/train".
    void serve_directory(const std::string& name, const std::string& path);
    // Call before start: sets the placement, `dpu` or `host`.
    void place_payload(std::string_view where);
    // Call before start: also listens on this adapter, which options() then uses.
    void listen_on_verbs(const std::string& device);
    // Call before start: also listens with TLS, which options() then uses.
    void listen_on_tls();
    [[nodiscard]] static std::string verbs_address() { return "127.0.0.1:7600"; }
    // Call before start: traces each request. Traces allocate memory.
    void trace_each_request();
    bool start() { return process_.start(); }
    void kill_hard() { process_.kill_hard(); }
    int stop() { return process_.stop(); }
    void strike_at(const std::string& function) { process_.strike_at(function); }
    void expect_struck() { process_.expect_struck(); }
    [[nodiscard]] int pid() const { return process_.pid(); }
    [[nodiscard]] std::string log() const { return process_.log(); }
    // The metrics that it exports now.
    [[nodiscard]] std::string metrics() const { return page("/metrics"); }
    // The samples.
    [[nodiscard]] std::string traces() const { return page("/traces"); }
    // The options of a host.
    [[nodiscard]] connection::HostOptions options(const std::string& pool = "pool",
                                                  const std::string& container = "main") const;
    [[nodiscard]] const api::ServicePaths& places() const { return places_; }

  private:
    [[nodiscard]] std::string page(std::string_view path) const;
    [[nodiscard]] std::string data(std::string_view listeners = {},
                                   std::string_view further = {}) const;
    void replace_data(const std::string& data);
    void replace(const std::string& before, const std::string& after);
    api::ServicePaths places_;
    std::string adapter_;
    bool tls_ = false;
    DaemonProcess process_{PROGRAM_DPU, places_.dpu_settings, places_.dpu_log};
};

}  // namespace ros2s::tests
