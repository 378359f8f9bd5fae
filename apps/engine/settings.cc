#include "settings.h"

#include <fmt/format.h>

#include "ros2s/config/config.h"

namespace ros2s::engined {
namespace {

using namespace std::chrono_literals;

config::Table describe(Settings& s) {
    return {
        {"",
         "ros2store-engine: serves pools to clients on other machines, and on this one.",
         {config::text("pools", s.pools,
                       "The directories of the pools, separated by commas, as `ros2store up` or "
                       "`ros2store pool create` makes them. Each is owned by this process alone "
                       "while it runs.")
              .required()}},
        {"control",
         "The control plane: gRPC over mutual TLS 1.3.",
         {config::text("listen", s.control,
                       "Addresses, separated by commas: HOST:PORT, [IPv6]:PORT, or unix:PATH."),
          config::text("certificates", s.certificates,
                       "A directory with ca.crt, server.crt and server.key, as `ros2store certs "
                       "init` makes them. Renewed files are taken up without a restart.")}},
        {"data",
         "The data plane: bytes of trusted clients, whom the control plane has let in.",
         {config::text("listen", s.data,
                       "Providers and where each listens, separated by commas: shm PATH (this "
                       "machine), ucx+tcp IP:PORT, ucx+rc IP:PORT (RDMA). Clients take the first "
                       "of these that they were told to use."),
          config::text("ucx_device", s.ucx_device,
                       "The network device of the ucx providers: lo, eth0, or mlx5_0:1.")}},
        {"metrics",
         "Counters for Prometheus.",
         {config::text("listen", s.metrics,
                       "HOST:PORT of an HTTP server without any access control that answers "
                       "/metrics; empty: none.")}},
        {"service",
         "How the process behaves.",
         {config::duration("poll", s.poll, 0s, 10ms,
                           "How long the working thread looks for work before it sleeps."),
          config::duration("drain", s.drain, 0s, 10min,
                           "How long requests of the control plane may take to end when the "
                           "process is told to stop.")}}};
}

std::string_view trimmed(std::string_view text) {
    const size_t begin = text.find_first_not_of(' ');
    if (begin == text.npos) return {};
    return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// The parts between commas that are not empty.
std::vector<std::string> parts_of(std::string_view text) {
    std::vector<std::string> parts;
    while (!text.empty()) {
        const size_t end = std::min(text.find(','), text.size());
        if (const auto part = trimmed(text.substr(0, end)); !part.empty()) parts.emplace_back(part);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

}  // namespace

Result<Settings> Settings::parse(std::string_view yaml, std::string_view where, Report& report) {
    Settings settings;
    ROS2S_TRY(config::parse(yaml, where, describe(settings), report));
    if (settings.pool_directories().empty()) {
        return report.fail(Code::invalid, fmt::format("{}: 'pools' names no directory", where));
    }
    if (settings.control_addresses().empty()) {
        return report.fail(Code::invalid,
                           fmt::format("{}: 'control: listen' names no address", where));
    }
    ROS2S_TRY(settings.data_addresses(where, report));
    return settings;
}

std::string Settings::document() const {
    // Fields remember the value that they were made with as the default.
    Settings copy;
    const auto table = describe(copy);
    copy = *this;
    return config::document(table);
}

std::vector<std::string> Settings::pool_directories() const { return parts_of(pools); }
std::vector<std::string> Settings::control_addresses() const { return parts_of(control); }

Result<std::vector<Listen>> Settings::data_addresses(std::string_view where, Report& report) const {
    std::vector<Listen> found;
    for (const std::string& part : parts_of(data)) {
        const size_t space = part.find(' ');
        const std::string provider = part.substr(0, space);
        if (provider != "shm" && provider != "ucx+tcp" && provider != "ucx+rc" &&
            provider != "ucx+dc_x") {
            return report.fail(Code::invalid,
                               fmt::format("{}: 'data: listen' has '{}', and its providers are "
                                           "shm, ucx+tcp, ucx+rc and ucx+dc_x: write it like "
                                           "'ucx+tcp 192.0.2.1:7401'",
                                           where, part));
        }
        if (space == part.npos) {
            return report.fail(Code::invalid,
                               fmt::format("{}: 'data: listen' has no address behind '{}': write "
                                           "it like 'ucx+tcp 192.0.2.1:7401'",
                                           where, provider));
        }
        found.push_back(
            {.provider = provider, .address = std::string(trimmed(part.substr(space)))});
    }
    if (found.empty()) {
        return report.fail(Code::invalid,
                           fmt::format("{}: 'data: listen' names no provider", where));
    }
    return found;
}

}  // namespace ros2s::engined
