#include "settings.h"

#include <fmt/format.h>
#include <sys/un.h>

#include "ros2s/daemon/access.h"
#include "ros2s/daemon/trusted_network.h"
#include "tenant_domains.h"

namespace ros2s::dpud {
namespace {

using namespace std::chrono_literals;

config::Table describe(Settings& s) {
    return {
        {"",
         "ros2store-dpu: the storage client for untrusted hosts.",
         {config::text("pools", s.pools,
                       "The pools of the engine that hosts may use, separated by commas. "
                       "Empty: none, and no engine is needed; then set `directories`.")}},
        {"directories",
         "Directories of this machine that hosts may use, also on other file systems (Lustre, "
         "NFS), one per line: POOL/CONTAINER: /its/path. Hosts use them as "
         "ros2s+dpu://…/POOL/CONTAINER. The pool must not be one of the engine's. Hosts cannot "
         "reach anything outside the directory, or file systems mounted below it. Data there "
         "is durable only after fsync, and ROS2 adds no checksums (docs/decisions/0532).",
         {},
         &s.directories},
        daemon::describe_access(
            s.access_given, daemon::Clients::hosts,
            "What hosts may do, by the subject of their certificate, as printed by `ros2store "
            "certs show FILE`. Everything else is refused, with a line in the log. Each right is "
            "for containers: POOL/CONTAINER, separated by commas; a * at the end matches the rest "
            "of a name. Modes of files are checked for the user whom the host names; `users`, "
            "`root_squash`, `squash` and the maps say whom it may name. By default it may name "
            "anybody, also root. Read at start."),
        {"engine",
         "The storage server behind this DPU.",
         {config::text("control", s.engine,
                       "Its control plane: HOST:PORT, [IPv6]:PORT, or unix:PATH."),
          config::text("name", s.engine_name,
                       "The name that its certificate must have; empty: the host above."),
          config::text(
              "providers", s.engine_providers,
              "Providers for the connection, best first, separated by commas: shm (on this "
              "machine), tls, ofi+verbs, or, if `trusted_network` allows it, ucx+tcp, "
              "ofi+tcp;ofi_rxm, ucx+rc, ucx+dc_x, ofi+verbs;ofi_rxm."),
          daemon::describe_trusted_network(s.trusted_network),
          config::text("certificates", s.engine_certificates,
                       "A directory with ca.crt, client.crt and client.key, which identify "
                       "this DPU to the engine."),
          config::text("ucx_device", s.ucx_device,
                       "The network device of the ucx and ofi providers: lo, eth0, or "
                       "mlx5_0:1. In a list with commas, each provider uses the first device "
                       "that it supports, so ucx+tcp and ucx+rc can be used together.")}},
        {"control",
         "The control plane for hosts: gRPC over mutual TLS 1.3.",
         {config::text("listen", s.control,
                       "Addresses, separated by commas: HOST:PORT, [IPv6]:PORT, or unix:PATH."),
          config::text("certificates", s.certificates,
                       "A directory with ca.crt, server.crt and server.key. Use another "
                       "authority than the engine's, so that hosts cannot connect to the "
                       "engine.")}},
        {"data",
         "The host link: bytes of files.",
         {config::text(
              "listen", s.data,
              "Where it listens, separated by commas: shm PATH, tls IP:PORT, ofi+verbs IP:PORT. "
              "tls is encrypted and uses the certificates of the control plane. Each "
              "tenant (a subject without a tenant is one by itself) gets a protection domain and a "
              "listener of its own: a socket PATH.<16 digits>, or one of the thousand ports "
              "after PORT. Other providers are for trusted peers only, and hosts are not "
              "trusted."),
          config::text("device", s.data_device, "The RDMA adapter of ofi+verbs for hosts: mlx5_0."),
          config::choice("placement", s.placement, {"dpu", "host"},
                         "Where the payload of large reads and writes is while they are "
                         "processed. dpu: in memory of this process, with a copy. host: in the "
                         "host's memory; the host can change it meanwhile, and damages only "
                         "its own data.")}},
        {"encryption",
         "The keys of encrypted containers. Blocks are encrypted and decrypted in this process, so "
         "neither hosts nor the engine have the keys.",
         {config::text("keys", s.keys,
                       "A directory with a file NAME.key for each key: 64 hexadecimal digits, as "
                       "`openssl rand -hex 32` writes them, mode 0600. Or a token of PKCS #11 "
                       "whose secret keys have the NAMEs as labels: "
                       "pkcs11:token=acme?pin-source=/etc/ros2store/dpu/pin. Empty: encrypted "
                       "containers are refused."),
          config::duration("keep", s.keep_keys, 0s, 24h,
                           "How long a mounted container can be used after its key was "
                           "removed. Then its files are refused (EKEYREJECTED)."),
          config::text("new_containers", s.new_container_key,
                       "The NAME of the key for containers that hosts create here. Empty: they "
                       "are not encrypted.")}},
        daemon::describe_limits(s.limits_given),
        daemon::describe_metrics(s.common),
        daemon::describe_service(s.common)};
}

// The name of each tenant's socket adds a suffix.
Result<> check_length(const std::string& path, std::string_view where, Report& report) {
    constexpr size_t most = sizeof(sockaddr_un::sun_path) - 1 - listener_suffix_bytes;
    if (path.size() <= most) return {};
    return report.fail(Code::invalid,
                       fmt::format("{}: 'data: listen' has the path {}, which is too long by "
                                   "{} bytes: the name of a tenant is appended to it, and the "
                                   "kernel limits the path of a socket",
                                   where, path, path.size() - most));
}

// Each tenant's listener has one of the following ports.
Result<> check_port(const daemon::Listen& place, std::string_view where, Report& report) {
    if (listener_address(place, "anybody")) return {};
    return report.fail(
        Code::invalid,
        fmt::format("{}: 'data: listen' has the address {} for {}, which is not IP:PORT "
                    "or [IPv6]:PORT with {} further ports for tenants: choose a port up to {}",
                    where, place.address, place.provider, listener_ports, 65535 - listener_ports));
}

}  // namespace

Result<Settings> Settings::parse(std::string_view yaml, std::string_view where, Report& report) {
    Settings settings;
    ROS2S_TRY(config::parse(yaml, where, describe(settings), report));
    const auto want = [&](const std::string& text, std::string_view name) -> Result<> {
        if (!daemon::parts_of(text).empty()) return {};
        return report.fail(Code::invalid, fmt::format("{}: '{}' is empty", where, name));
    };
    const std::vector<std::string> pools = daemon::parts_of(settings.pools);
    if (pools.empty() && settings.directories.empty()) {
        return report.fail(Code::invalid, fmt::format("{}: there is nothing to serve: set "
                                                      "'pools' of an engine, 'directories', or "
                                                      "both",
                                                      where));
    }
    if (!pools.empty()) {
        ROS2S_TRY(want(settings.engine, "engine: control"));
        ROS2S_TRY(want(settings.engine_providers, "engine: providers"));
        ROS2S_TRY(daemon::check_trust(settings.trusted_network, settings.ways_to_engine(),
                                      settings.ucx_device,
                                      fmt::format("{}: 'engine: providers'", where), report));
    }
    ROS2S_TRY(check(settings.directories, pools, where, report));
    ROS2S_TRY_ASSIGN(settings.access,
                     session::AccessTable::parse(settings.access_given, where, report));
    ROS2S_TRY_ASSIGN(settings.allowances,
                     daemon::parse_limits(settings.limits_given, where, report));
    if (settings.keys.empty() && !settings.new_container_key.empty()) {
        return report.fail(Code::invalid,
                           fmt::format("{}: 'encryption: new_containers' names a key, and "
                                       "'encryption: keys' no place that has it",
                                       where));
    }
    ROS2S_TRY(want(settings.control, "control: listen"));
    ROS2S_TRY_ASSIGN(
        const auto places,
        daemon::parse_listen(settings.data, fmt::format("{}: 'data: listen'", where), report));
    for (const daemon::Listen& place : places) {
        if (place.provider == "shm") {
            ROS2S_TRY(check_length(place.address, where, report));
            continue;
        }
        if (place.provider == "ofi+verbs" || place.provider == "tls") {
            ROS2S_TRY(check_port(place, where, report));
            continue;
        }
        return report.fail(
            Code::invalid,
            fmt::format("{}: 'data: listen' has {}, which is for trusted peers only, and hosts "
                        "are not trusted: use shm, tls or ofi+verbs",
                        where, place.provider));
    }
    return settings;
}

std::vector<daemon::Listen> Settings::ways_to_engine() const {
    std::vector<daemon::Listen> ways;
    for (std::string& provider : daemon::parts_of(engine_providers)) {
        ways.push_back({.provider = std::move(provider), .address = {}});
    }
    return ways;
}

std::string Settings::document() const {
    // A field's default is the value that it was created with.
    Settings copy;
    const auto table = describe(copy);
    copy = *this;
    return config::document(table);
}

}  // namespace ros2s::dpud
