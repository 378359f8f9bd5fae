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
    // `provider`: by which it reaches the engine. `directory`: the `dir` of its URIs, where its
    // certificates and sockets lie. Starts nothing yet.
    DpuProcess(const EngineProcess& engine, const std::string& provider,
               const std::string& directory);
    DpuProcess(const EngineProcess& engine, const std::string& provider)
        : DpuProcess(engine, provider, engine.pool_directory()) {}
    // Without an engine: `serves` is YAML that says what it has.
    DpuProcess(const std::string& directory, const std::string& serves);

    // Before it is started: what hosts may do, instead of the client's certificate everything.
    void give(const std::string& access);
    // Before it is started: it calls the engine's control plane at that Unix socket.
    void reach_engine_at(const std::string& socket);
    // Before it is started: it has what tenants hand to it, and hosts what their tenants have.
    void use_delegated();
    // Before it is started: shares and rates of hosts.
    void limit(const std::string& limits);
    // Before it is started: a directory, with a name as "lustre/train".
    void serve_directory(const std::string& name, const std::string& path);
    // Before it is started: `dpu` or `host`.
    void place_payload(std::string_view where);
    // Before it is started: hosts come over this adapter, too, and `options()` over it alone.
    void listen_on_verbs(const std::string& device);
    // Before it is started: hosts come over TLS, too, and `options()` over it alone.
    void listen_on_tls();
    [[nodiscard]] static std::string verbs_address() { return "127.0.0.1:7600"; }
    // Before it is started: each request is a sample. Samples allocate.
    void trace_each_request();
    bool start() { return process_.start(); }
    void kill_hard() { process_.kill_hard(); }
    int stop() { return process_.stop(); }
    void strike_at(const std::string& function) { process_.strike_at(function); }
    void expect_struck() { process_.expect_struck(); }
    [[nodiscard]] int pid() const { return process_.pid(); }
    [[nodiscard]] std::string log() const { return process_.log(); }
    // What it exports for Prometheus now.
    [[nodiscard]] std::string metrics() const { return page("/metrics"); }
    // The samples.
    [[nodiscard]] std::string traces() const { return page("/traces"); }
    // How a host reaches it.
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
