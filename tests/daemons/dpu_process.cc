#include "dpu_process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "ros2s/pki/certificate.h"

namespace ros2s::tests {
namespace {

constexpr std::string_view all_for_the_client =
    "access: {\"CN=client\": {write: \"pool/*, lustre/*\", create: pool/*, destroy: pool/*, "
    "may: \"devices, set_ids, privileged_attributes\"}}\n";

}  // namespace

DpuProcess::DpuProcess(const EngineProcess& engine, const std::string& provider,
                       const std::string& directory)
    : DpuProcess(
          directory,
          fmt::format("pools: pool\n"
                      "engine: {{control: \"unix:{}\", name: localhost, providers: {}, "
                      "trusted_network: loopback, certificates: {}}}\n",
                      engine.places().engine_control, provider, engine.places().storage_certs)) {}

DpuProcess::DpuProcess(const std::string& directory, const std::string& serves)
    : places_(directory) {
    std::filesystem::create_directories(directory + "/certs");
    std::filesystem::create_directories(places_.run);
    // Hosts have their own authority. The engine does not accept their certificates.
    make_certificates("hosts", places_.host_certs);
    std::ofstream(places_.dpu_settings)
        << serves << all_for_the_client
        << fmt::format(
               "control: {{listen: \"unix:{}\", certificates: {}}}\n"
               "metrics: {{listen: \"127.0.0.1:0\", password_file: {}/dpu.metrics}}\n",
               places_.dpu_control, places_.host_certs, places_.run)
        << data();
}

std::string DpuProcess::data(std::string_view listeners, std::string_view further) const {
    return fmt::format("data: {{listen: \"shm {}{}\"{}}}\n", places_.dpu_data, listeners, further);
}

void DpuProcess::trace_each_request() { replace("/dpu.metrics}", "/dpu.metrics, trace_every: 1}"); }

void DpuProcess::replace(const std::string& before, const std::string& after) {
    std::stringstream settings;
    settings << std::ifstream(places_.dpu_settings).rdbuf();
    std::string text = settings.str();
    text.replace(text.find(before), before.size(), after);
    std::ofstream(places_.dpu_settings) << text;
}

void DpuProcess::replace_data(const std::string& data) { replace(this->data(), data); }

void DpuProcess::give(const std::string& access) {
    replace(std::string(all_for_the_client), "access: {" + access + "}\n");
}

void DpuProcess::reach_engine_at(const std::string& socket) {
    replace(fmt::format("\"unix:{}\"", places_.engine_control), fmt::format("\"unix:{}\"", socket));
}

void DpuProcess::use_delegated() {
    replace(std::string(all_for_the_client), "");
    replace("trusted_network: loopback, ", "trusted_network: loopback, access: delegated, ");
}

void DpuProcess::limit(const std::string& limits) {
    std::ofstream(places_.dpu_settings, std::ios::app) << "limits: {" << limits << "}\n";
}

void DpuProcess::serve_directory(const std::string& name, const std::string& path) {
    std::ofstream(places_.dpu_settings, std::ios::app)
        << "directories: {" << name << ": " << path << "}\n";
}

void DpuProcess::place_payload(std::string_view where) {
    replace_data(data({}, fmt::format(", placement: {}", where)));
}

void DpuProcess::listen_on_verbs(const std::string& device) {
    adapter_ = device;
    replace_data(data(", ofi+verbs " + verbs_address(), ", device: " + device));
}

void DpuProcess::listen_on_tls() {
    tls_ = true;
    replace_data(data(", tls 127.0.0.1:0"));
}

std::string DpuProcess::page(std::string_view path) const {
    constexpr std::string_view place = "metrics 127.0.0.1:";
    const std::string said = log();
    const size_t at = said.find(place);
    EXPECT_NE(at, said.npos) << said;
    return page_at(static_cast<uint16_t>(std::stoi(said.substr(at + place.size()))), path,
                   password_in(places_.run + "/dpu.metrics"));
}

connection::HostOptions DpuProcess::options(const std::string& pool,
                                            const std::string& container) const {
    connection::HostOptions options{
        .dpu = {.control = "unix:" + places_.dpu_control,
                .server_name = "localhost",
                .identity = pki::identity_in(places_.host_certs, "client"),
                .pool = pool,
                .program = "test",
                .providers = {"shm"}},
        .container = container};
    if (!adapter_.empty()) {
        options.dpu.providers = {"ofi+verbs"};
        options.dpu.ucx_device = adapter_;
    }
    if (tls_) options.dpu.providers = {"tls"};
    return options;
}

}  // namespace ros2s::tests
