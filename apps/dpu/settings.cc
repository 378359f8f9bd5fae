#include "settings.h"

#include <fmt/format.h>
#include <sys/un.h>

#include "ros2s/base/text_parts.h"
#include "ros2s/daemon/access.h"
#include "ros2s/daemon/trusted_network.h"
#include "ros2s/fabric/providers/providers.h"
#include "ros2s/object/object_store.h"
#include "tenant_domains.h"

namespace ros2s::dpud {
namespace {

using namespace std::chrono_literals;

config::Group describe_pools_of_engine(Settings& s) {
    return {"",
            "ros2store-dpu: the storage client for untrusted hosts.",
            {config::text(
                 "pools", s.pools,
                 "The pools of the engine that hosts may use, separated by commas. Empty: none, "
                 "and no engine is needed; then set `directories`, or other pools one by one."),
             config::text("administrators", s.administrators_given,
                          "Subjects of certificates, separated by semicolons, that see the leases "
                          "of all hosts with `ros2store leases`, and may end them with `ros2store "
                          "evict`. Empty: none; hosts see those of their tenant.")},
            nullptr,
            {},
            &s.lines};
}

config::Group describe_other_pools(Settings& s) {
    return {
        "pools",
        "Pools that are not all of the engine are named one by one, instead of the line above. A "
        "pool in a Ceph cluster is made there if the RADOS pools are empty; docs/rados.md lists "
        "what is weaker than at an engine. Of a pool of DAOS, hosts use the POSIX containers that "
        "have a label; it needs DAOS 2.6's client libraries and its agent on this machine "
        "(docs/daos.md).",
        {},
        nullptr,
        {{.into = &s.engine_given, .example = "train: engine", .kind = "engine"},
         {.keys = {{"conf",
                    "the configuration of the cluster: /etc/ceph/ceph.conf. Its "
                    "rados_osd_op_timeout limits the time of a request (30 s)."},
                   {"user", "client.NAME, whose key ring the configuration names (client.admin)."},
                   {"metadata", "the RADOS pool for metadata, which must be replicated (NAME)."},
                   {"data", "the RADOS pool for data (the pool for metadata)."},
                   {"sweep", "how often remains of crashed clients are removed (1h); 0s: never."}},
          .into = &s.rados_given,
          .example = "big: {rados: {conf: /etc/ceph/ceph.conf, user: client.ros2, metadata: meta, "
                     "data: bulk}}",
          .kind = "rados"},
         {.keys = {{"pool", "the label of the pool in DAOS, as `dmg pool list` shows it."},
                   {"system", "the name of the DAOS system (daos_server)."}},
          .into = &s.daos,
          .example = "tank: {daos: {pool: tank, system: daos_server}}",
          .kind = "daos"}}};
}

config::Group describe_directories(Settings& s) {
    return {"directories",
            "Directories of this machine that hosts may use, also on other file systems (Lustre, "
            "NFS), one per line: POOL/CONTAINER: /its/path. Hosts use them as "
            "ros2s+dpu://…/POOL/CONTAINER. The pool must not be one of the engine's. Hosts cannot "
            "reach anything outside the directory, or file systems mounted below it. Data there is "
            "durable only after fsync, and ROS2 adds no checksums (docs/decisions/0532).",
            {},
            &s.directories};
}

config::Group describe_engine(Settings& s) {
    return {"engine",
            "The storage server behind this DPU.",
            {config::text("control", s.engine,
                          "Its control plane: HOST:PORT, [IPv6]:PORT, or unix:PATH."),
             config::text("name", s.engine_name,
                          "The name that its certificate must have; empty: the host above."),
             config::text("providers", s.engine_providers,
                          "Providers for the connection, best first, separated by commas: shm (on "
                          "this machine), tls, ofi+verbs, or, if `trusted_network` allows it, "
                          "ucx+tcp, ofi+tcp;ofi_rxm, ucx+rc, ucx+dc_x, ofi+verbs;ofi_rxm."),
             daemon::describe_trusted_network(s.trusted_network),
             config::text("certificates", s.engine_certificates,
                          "A directory with ca.crt, client.crt and client.key, which identify this "
                          "DPU to the engine."),
             config::choice(
                 "access", s.engine_access, {"own", "delegated"},
                 "own: this DPU has the rights that the engine's 'access' gives to its "
                 "certificate, for all its hosts. delegated: it has only what tenants hand to it "
                 "while their hosts use it; then the engine names it under 'capabilities: "
                 "delegates', and rights in its pools come only from the tenants at the engine."),
             config::text("ucx_device", s.ucx_device,
                          "The network device of the ucx and ofi providers: lo, eth0, or mlx5_0:1. "
                          "In a list with commas, each provider uses the first device that it "
                          "supports, so ucx+tcp and ucx+rc can be used together.")}};
}

config::Group describe_control(Settings& s) {
    return {
        "control",
        "The control plane for hosts: gRPC over mutual TLS 1.3.",
        {config::text("listen", s.control,
                      "Addresses, separated by commas: HOST:PORT, [IPv6]:PORT, or unix:PATH."),
         config::text("certificates", s.certificates,
                      "A directory with ca.crt, server.crt and server.key. Use another authority "
                      "than the engine's, so that hosts cannot connect to the engine.")}};
}

config::Group describe_data(Settings& s) {
    return {
        "data",
        "The host link: bytes of files.",
        {config::text(
             "listen", s.data,
             "Where it listens, separated by commas: shm PATH, tls IP:PORT, ofi+verbs IP:PORT. tls "
             "is encrypted and uses the certificates of the control plane. Each tenant (a subject "
             "without a tenant is one by itself) gets a protection domain and a listener of its "
             "own: a socket PATH.<16 digits>, or one of the thousand ports after PORT. Other "
             "providers are for trusted peers only, and hosts are not trusted."),
         config::text("device", s.data_device, "The RDMA adapter of ofi+verbs for hosts: mlx5_0."),
         config::choice("placement", s.placement, {"dpu", "host"},
                        "Where the payload of large reads and writes is while they are processed. "
                        "dpu: in memory of this process, with a copy. host: in the host's memory; "
                        "the host can change it meanwhile, and damages only its own data.")}};
}

config::Group describe_encryption(Settings& s) {
    return {
        "encryption",
        "The keys of encrypted containers. Blocks are encrypted and decrypted in this process, so "
        "neither hosts nor the engine have the keys.",
        {config::text(
             "keys", s.keys,
             "A directory with a file NAME.key for each key: 64 hexadecimal digits, as `openssl "
             "rand -hex 32` writes them, mode 0600. Or a token of PKCS #11 whose secret keys have "
             "the NAMEs as labels: pkcs11:token=acme?pin-source=/etc/ros2store/dpu/pin. Empty: "
             "encrypted containers are refused."),
         config::duration("keep", s.keep_keys, 0s, 24h,
                          "How long a mounted container can be used after its key was removed. "
                          "Then its files are refused (EKEYREJECTED)."),
         config::text("new_containers", s.new_container_key,
                      "The NAME of the key for containers that hosts create here. '%tenant' in it "
                      "stands for the name of the tenant that creates one, so that each tenant has "
                      "its own key. '%pool' stands for the pool: tenants of one name in two pools "
                      "share a key without it. With one key for all, who removes it makes the "
                      "containers of all tenants unreadable. Empty: they are not encrypted.")}};
}

config::Table describe(Settings& s) {
    return {describe_pools_of_engine(s),
            describe_other_pools(s),
            describe_directories(s),
            daemon::describe_access(
                s.access_given, s.access_lines, daemon::Clients::hosts,
                "What hosts may do, by the subject of their certificate, as printed by `ros2store "
                "certs show FILE`. Everything else is refused, with a line in the log. Each right "
                "is for containers: POOL/CONTAINER, separated by commas; a * at the end matches "
                "the rest of a name. Modes of files are checked for the user whom the host names; "
                "`users`, `root_squash`, `squash` and the maps limit whom it may name. By default "
                "it may name any user, also root. Read at start."),
            describe_engine(s),
            describe_control(s),
            describe_data(s),
            describe_encryption(s),
            daemon::describe_limits(s.limits_given, s.limit_lines),
            daemon::describe_metrics(s.common),
            daemon::describe_service(s.common)};
}

constexpr uint64_t sweep_rate = 500;

Result<> parse_pools(Settings& settings, std::string_view where, Report& report) {
    settings.engine_pools = parts_of(settings.pools);
    for (const auto& [name, given] : settings.engine_given) settings.engine_pools.push_back(name);
    for (const auto& [name, given] : settings.rados_given) {
        const auto no = [&](std::string_view why) {
            return report.fail(Code::invalid, "{}: pools: '{}' {}", where, name, why);
        };
        if (!object::is_valid_label(name)) return no("is not 1 to 127 of A-Z a-z 0-9 . _ -");
        const auto text = [&given](const char* key, std::string otherwise) {
            return config::text_in(given, key, std::move(otherwise));
        };
        connection::RadosOptions pool{.formats = true, .sweep_rate = sweep_rate};
        pool.address.conf = text("conf", pool.address.conf);
        pool.address.user = text("user", pool.address.user);
        pool.address.metadata = text("metadata", name);
        pool.address.data = text("data", pool.address.metadata);
        for (const std::string& each :
             {pool.address.conf, pool.address.user, pool.address.metadata, pool.address.data}) {
            if (each.empty()) return no("has an empty setting: leave it out");
        }
        pool.sweep_every = 1h;
        const auto field =
            config::duration("sweep", pool.sweep_every, 0s, 720h, "How often remains are removed.");
        if (given.contains("sweep")) {
            Report why;
            const auto value = field.read(given.at("sweep"), why);
            if (!value) return no("has the setting 'sweep': " + why.text());
            field.store(*value);
        }
        settings.rados_pools.emplace(name, std::move(pool));
    }
    return {};
}

// The name of each tenant's socket adds a suffix.
Result<> check_length(const std::string& path, std::string_view where, Report& report) {
    constexpr size_t most = sizeof(sockaddr_un::sun_path) - 1 - listener_suffix_bytes;
    if (path.size() <= most) return {};
    return report.fail(
        Code::invalid,
        "{}: 'data: listen' has the path {}, which is too long by {} bytes: the name of a tenant "
        "is appended to it, and the kernel limits the path of a socket",
        where, path, path.size() - most);
}

// Each tenant's listener has one of the following ports.
Result<> check_port(const daemon::Listen& place, std::string_view where, Report& report) {
    if (listener_address(place, "anybody")) return {};
    return report.fail(Code::invalid,
                       "{}: 'data: listen' has the address {} for {}, which is not IP:PORT or "
                       "[IPv6]:PORT with {} further ports for tenants: choose a port up to {}",
                       where, place.address, place.provider, listener_ports,
                       65535 - listener_ports);
}

}  // namespace

Result<Settings> Settings::parse(std::string_view yaml, std::string_view where, Report& report) {
    Settings settings;
    ROS2S_TRY(config::parse(yaml, where, describe(settings), report));
    const auto want = [&](const std::string& text, std::string_view name) -> Result<> {
        if (!parts_of(text).empty()) return {};
        return report.fail(Code::invalid, "{}: the setting '{}' must not be empty", where, name);
    };
    ROS2S_TRY_ASSIGN(settings.administrators,
                     rights::parse_subjects(
                         settings.administrators_given,
                         SettingPlace(where, "", settings.lines).of("administrators"), report));
    ROS2S_TRY(parse_pools(settings, where, report));
    std::vector<std::string> pools = settings.engine_pools;
    for (const auto& [name, pool] : settings.rados_pools) pools.push_back(name);
    if (pools.empty() && settings.directories.empty() && settings.daos.empty()) {
        return report.fail(Code::invalid,
                           "{}: there is nothing to serve: set 'pools', 'directories', or both",
                           where);
    }
    if (!settings.engine_pools.empty()) {
        ROS2S_TRY(want(settings.engine, "engine: control"));
        ROS2S_TRY(want(settings.engine_providers, "engine: providers"));
        ROS2S_TRY(daemon::check_trust(settings.trusted_network, settings.ways_to_engine(),
                                      settings.ucx_device,
                                      fmt::format("{}: 'engine: providers'", where), report));
    }
    ROS2S_TRY(check(settings.directories, pools, where, report));
    ROS2S_TRY(check(settings.daos, pools, settings.directories, where, report));
    ROS2S_TRY_ASSIGN(settings.access,
                     rights::parse_access(settings.access_given, where, report,
                                          rights::GrantScope::directories, settings.access_lines));
    for (const std::string& pool : settings.engine_pools) {
        for (const auto& [subject, given] : settings.access) {
            const bool has_pool =
                std::ranges::find(given.grants, pool, &rights::Grant::pool) != given.grants.end();
            if (!settings.is_delegated() || !has_pool) continue;
            return report.fail(Code::invalid,
                               "{} names the pool '{}', whose rights come from tenants alone with "
                               "'engine: access: delegated'; make it a subject of a tenant",
                               SettingPlace(where, fmt::format("access: '{}'", subject),
                                            lines_of(settings.access_lines, subject))
                                   .of(),
                               pool);
        }
    }
    ROS2S_TRY_ASSIGN(
        settings.allowances,
        daemon::parse_limits(settings.limits_given, settings.limit_lines, where, report));
    if (settings.keys.empty() && !settings.new_container_key.empty()) {
        return report.fail(Code::invalid,
                           "{}: 'encryption: new_containers' names a key, and 'encryption: keys' "
                           "no location for it",
                           where);
    }
    ROS2S_TRY(want(settings.control, "control: listen"));
    ROS2S_TRY_ASSIGN(
        const auto places,
        daemon::parse_listen(settings.data, fmt::format("{}: 'data: listen'", where), report));
    for (const daemon::Listen& place : places) {
        if (fabric::trusts_its_network(place.provider)) {
            return report.fail(Code::invalid,
                               "{}: 'data: listen' has {}, which is for trusted peers only, and "
                               "hosts are not trusted: use {}",
                               where, place.provider, fabric::untrusting_provider_names());
        }
        ROS2S_TRY(fabric::is_local(place.provider) ? check_length(place.address, where, report)
                                                   : check_port(place, where, report));
    }
    return settings;
}

std::vector<daemon::Listen> Settings::ways_to_engine() const {
    std::vector<daemon::Listen> ways;
    for (std::string& provider : parts_of(engine_providers)) {
        ways.push_back({.provider = std::move(provider), .address = {}});
    }
    return ways;
}

std::string Settings::document() const { return config::document(*this, describe); }

}  // namespace ros2s::dpud
