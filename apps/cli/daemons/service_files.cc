#include "service_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>

#include "certificate_names.h"
#include "daemon_process.h"
#include "process.h"
#include "ros2s/base/durable_file.h"
#include "ros2s/base/json.h"
#include "ros2s/base/text_parts.h"
#include "ros2s/base/trusted_file.h"
#include "ros2s/config/config.h"
#include "ros2s/fabric/providers/providers.h"
#include "ros2s/pki/authority.h"
#include "ros2s/pki/certificate.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/tenancy/tenant.h"

namespace ros2s::cli {
namespace {

constexpr size_t settings_bytes_max = 1 << 20;  // config::parse() takes no more

std::unexpected<Error> cannot(std::string_view do_what, const std::string& path, int cause,
                              Report& report) {
    return report.fail(fail_errno(cause).error(), "cannot {} {}: {}", do_what, path,
                       std::strerror(cause));
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

Result<> make_directory(const std::string& path, mode_t mode, Report& report) {
    if (::mkdir(path.c_str(), mode) == 0 || errno == EEXIST) return {};
    return cannot("make the directory", path, errno, report);
}

using Requests = std::vector<pki::CertificateRequest>;
Requests certificate_requests() {
    return {{.name = "server", .alternative_names = names_of_this_machine(), .server = true},
            {.name = "client"}};
}

// In a directory of an earlier build, the DPU has the certificate of the user, and that one's
// rights at the engine.
bool dpu_has_own_certificate(const api::ServicePaths& paths) {
    return exists(paths.storage_certs + "/dpu.crt");
}

// Certificates that soon expire are replaced; running programs read the new ones. Missing ones are
// issued.
Result<> renew_certificates(const CommandContext& context, const std::string& directory,
                            const Requests& requests, pki::Seconds now) {
    constexpr std::chrono::days soon{30};
    for (const pki::CertificateRequest& request : requests) {
        const std::string file = directory + "/" + request.name + ".crt";
        if (!exists(file)) {
            ROS2S_TRY(pki::issue(directory, request, false, now, context.report));
        }
        ROS2S_TRY_ASSIGN(const auto facts, pki::read_certificate(file, context.report));
        if (facts.expires - now > soon) continue;
        ROS2S_TRY(pki::issue(directory, request, true, now, context.report));
        context.console.say("{}: renewed; the old certificate {} on {}", file,
                            facts.expires > now ? "expires" : "expired",
                            pki::to_string(facts.expires));
    }
    return {};
}

Result<> make_certificates(const CommandContext& context, const std::string& directory,
                           const std::string& network, Requests requests) {
    if (exists(directory + "/ca.key"))
        return renew_certificates(context, directory, requests, now_by(context));
    // An authority whose key is elsewhere is maintained by its owner.
    if (exists(directory + "/ca.crt")) return {};
    const pki::AuthorityRequest request{
        .name = fmt::format("ros2store development CA, {}", network),
        .certificates = std::move(requests)};
    ROS2S_TRY(pki::make_authority(directory, request, now_by(context), context.report));
    return {};
}

// The DPU daemon looks for its certificate by the names that each client's has.
Result<> link_certificate_of_dpu(const api::ServicePaths& paths, Report& report) {
    if (!dpu_has_own_certificate(paths)) return {};
    ROS2S_TRY(make_directory(paths.dpu_certs, 0755, report));
    // There may be no list of revoked certificates yet.
    for (const auto& [name, target] : {std::pair("ca.crt", "../storage/ca.crt"),
                                       {"ca.crl", "../storage/ca.crl"},
                                       {"client.crt", "../storage/dpu.crt"},
                                       {"client.key", "../storage/dpu.key"}}) {
        const std::string path = fmt::format("{}/{}", paths.dpu_certs, name);
        if (::symlink(target, path.c_str()) == 0 || errno == EEXIST) continue;
        return cannot("make the link", path, errno, report);
    }
    return {};
}

// An address that only this machine reaches, for listening on any port: not every machine has
// 127.0.0.1. "": it has none.
std::string loopback() {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_addr = in6addr_loopback;
    const auto has = [](const auto& address) {
        const Descriptor socket(::socket(reinterpret_cast<const sockaddr&>(address).sa_family,
                                         SOCK_STREAM | SOCK_CLOEXEC, 0));
        return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
               0;
    };
    return has(four) ? "127.0.0.1:0" : has(six) ? "[::1]:0" : "";
}

// The engine's listeners: shm, and the other providers that its DPU will use.
std::string engine_listens(const api::ServicePaths& paths, const ServiceFilesRequest& request) {
    std::string listens = "shm " + paths.engine_data;
    for (const std::string& name : parts_of(request.providers)) {
        if (!fabric::is_local(name)) listens += fmt::format(", {} {}", name, request.loopback);
    }
    return listens;
}

// The providers were checked: they need no trusted network, or were allowed to.
std::string_view trust_in(std::string_view providers) {
    return std::ranges::any_of(parts_of(providers), fabric::trusts_its_network) ? "loopback" : "no";
}

// The user of the directory may do everything in the pool. Both authorities have signed a
// certificate CN=client for the user: without the DPU, the engine's `access` gives the rights; as a
// host of the DPU, the user is a tenant.
std::string access_settings(const ServiceFilesRequest& request, std::string_view users = {}) {
    const std::string all = double_quoted(request.pool + "/*");
    return fmt::format("access: {{\"CN=client\": {{write: {0}, create: {0}, destroy: {0}{1}}}}}\n",
                       all, users);
}

// The host is this machine, and its root may do everything in the pool's files anyway.
constexpr const char* all_of_root = "devices, set_ids, privileged_attributes";

std::string engine_settings(const api::ServicePaths& paths, const ServiceFilesRequest& request) {
    return fmt::format(
        "pools: {}\n"
        "administrators: CN=client\n"
        "capabilities: {{delegates: CN=dpu, authority: {}}}\n"
        "{}"
        "control: {{listen: {}, certificates: {}}}\n"
        "data: {{listen: {}, trusted_network: {}}}\n"
        "metrics: {{listen: \"{}\", password_file: {}}}\n",
        double_quoted(request.directory), double_quoted(paths.host_certs + "/ca.crt"),
        access_settings(request), double_quoted("unix:" + paths.engine_control),
        double_quoted(paths.storage_certs), double_quoted(engine_listens(paths, request)),
        trust_in(request.providers), request.loopback, double_quoted(paths.engine_metrics));
}

std::string dpu_settings(const api::ServicePaths& paths, const ServiceFilesRequest& request) {
    const bool is_delegated = dpu_has_own_certificate(paths);
    return fmt::format(
        "pools: {}\n"
        "administrators: CN=client\n"
        "{}engine: {{control: {}, name: localhost, providers: {}, trusted_network: {}, "
        "certificates: {}, access: {}}}\n"
        "control: {{listen: {}, certificates: {}}}\n"
        "data: {{listen: {}}}\n"
        "metrics: {{listen: \"{}\", password_file: {}}}\n",
        double_quoted(request.pool),
        is_delegated ? "" : access_settings(request, fmt::format(", may: \"{}\"", all_of_root)),
        double_quoted("unix:" + paths.engine_control),
        double_quoted(request.providers.empty() ? "shm" : request.providers),
        trust_in(request.providers),
        double_quoted(is_delegated ? paths.dpu_certs : paths.storage_certs),
        is_delegated ? "delegated" : "own", double_quoted("unix:" + paths.dpu_control),
        double_quoted(paths.host_certs), double_quoted("shm " + paths.dpu_data), request.loopback,
        double_quoted(paths.dpu_metrics));
}

Result<> write_file(const std::string& path, const std::string& text, Report& report) {
    const auto replaced = replace_file(path, text);
    if (replaced) return {};
    return cannot("write", path, to_errno(replaced.error()), report);
}

// Keeps those that the pool has.
Result<> add_tenant_of_user(const ServiceFilesRequest& request, Report& report) {
    const std::string path = fmt::format("{}/{}", request.directory, pool::tenants_name);
    tenancy::TenantsOfPool pool;
    if (exists(path)) {
        ROS2S_TRY_ASSIGN(const std::string text, read_trusted(path, settings_bytes_max, report));
        ROS2S_TRY_ASSIGN(pool, tenancy::parse_document(text, path, report));
    }
    if (tenancy::tenant_of(pool.tenants, "CN=client") != nullptr) return {};
    tenancy::Tenant user = pool.make("client");
    user.settings = {{"subjects", "CN=client"}, {"write", "*"},        {"create", "*"},
                     {"destroy", "*"},          {"root_squash", "no"}, {"may", all_of_root}};
    if (!pool.tenants.emplace(user.name, user).second) {
        return report.fail(
            Code::exists,
            "{} has a tenant 'client' without the subject CN=client, which is the user of this "
            "directory: add the subject to a tenant there, then repeat the command",
            path);
    }
    return write_file(path, tenancy::document_of(pool), report);
}

// The daemon itself writes the file that people edit, with every setting and its documentation.
Result<> write_settings(const DaemonPaths& daemon, const std::string& settings, Report& report) {
    ROS2S_TRY_ASSIGN(const std::string program, daemon_program(daemon.program, report));
    const std::string draft = daemon.log + ".draft";  // in DIR/run
    ROS2S_TRY(write_file(draft, settings, report));
    const auto said = run_program({program, "--config", draft, "--print-config"});
    ::unlink(draft.c_str());
    if (!said) {
        return report.fail(said.error(), "cannot run {}: {}", program, describe(said.error()));
    }
    if (said->status != 0) {
        return report.fail(Code::io,
                           "{} wrote no settings (its message is above); is it of the same version "
                           "as this program?",
                           program);
    }
    return write_file(daemon.settings, said->output, report);
}

// The value of a setting in the form in which `up` wrote the file: "  KEY: VALUE" in its group. A
// setting with its default is in a comment. Nothing: people have changed that form.
std::optional<std::string> value_in(const std::string& path, std::string_view group,
                                    std::string_view key) {
    const std::string begin = fmt::format("{}:", group), mine = fmt::format("  {}: ", key);
    Report ignored;
    std::istringstream file(read_trusted(path, settings_bytes_max, ignored).value_or(""));
    std::string line;
    for (bool inside = false; std::getline(file, line);) {
        if (line.starts_with("# ") && inside) line = line.substr(1);
        if (!line.starts_with(' ') && line.ends_with(':')) inside = line == begin;
        const size_t at = line.find(mine);
        if (inside && at != line.npos && line.find_first_not_of(' ') == at + 2) {
            return line.substr(at + mine.size());
        }
    }
    return std::nullopt;
}

// Returns the edits that are needed before the DPU daemon can use the providers, as sentences;
// none: nothing.
std::vector<std::string> edits_for(std::string_view providers, const DaemonPaths& engine,
                                   const DaemonPaths& dpu) {
    std::vector<std::string> edits;
    const auto listen = value_in(engine.settings, "data", "listen");
    for (const std::string& name : parts_of(providers)) {
        std::string words = ' ' + listen.value_or("");
        std::ranges::replace_if(words, [](char c) { return c == '"' || c == ','; }, ' ');
        if (listen && !words.contains(fmt::format(" {} ", name))) {
            edits.push_back(fmt::format("in {}, add ', {} {}' to 'listen' of 'data'",
                                        engine.settings, name, loopback()));
        }
    }
    if (trust_in(providers) == "no") return edits;
    for (const auto& [settings, group] :
         {std::pair(engine.settings, "data"), std::pair(dpu.settings, "engine")}) {
        const auto trust = value_in(settings, group, "trusted_network");
        if (!trust || (*trust != "\"no\"" && *trust != "no")) continue;
        edits.push_back(
            fmt::format("in {}, set 'trusted_network' of '{}' to loopback", settings, group));
    }
    return edits;
}

// Only in the line of the file that `up` made; people may have edited the others.
Result<> set_providers(const CommandContext& context, const DaemonPaths& engine,
                       const DaemonPaths& dpu, const std::string& providers) {
    // A setting with its default is in a comment.
    constexpr std::string_view key = "  providers: ", commented = "#   providers: ";
    ROS2S_TRY_ASSIGN(std::string settings,
                     read_trusted(dpu.settings, settings_bytes_max, context.report));
    std::istringstream file(std::move(settings));
    std::string text, line, before;
    while (std::getline(file, line)) {
        if (line.starts_with(key) || line.starts_with(commented)) {
            before = line.substr(line.starts_with(key) ? key.size() : commented.size());
            line = std::string(key) + double_quoted(providers);
        }
        text += line + '\n';
    }
    if (before.empty()) {
        return context.report.fail(Code::invalid,
                                   "{} has no line `{}…`: set 'providers' of 'engine' there "
                                   "yourself, and leave --provider out",
                                   dpu.settings, key);
    }
    if (before == double_quoted(providers)) return {};
    ROS2S_TRY_ASSIGN(const Running running, find_running(dpu.pid, context.report));
    if (running.pid != 0) {
        return context.report.fail(
            Code::busy, "{} runs with the providers {}; stop it first: ros2store down DIR",
            dpu.program, before);
    }
    if (const auto edits = edits_for(providers, engine, dpu); !edits.empty()) {
        return context.report.fail(Code::invalid,
                                   "the settings of the daemons do not allow the providers {} yet: "
                                   "{}; then repeat the command",
                                   providers, fmt::join(edits, "; "));
    }
    context.console.say("{}: the providers are now {}; they were {}", dpu.settings,
                        double_quoted(providers), before);
    return write_file(dpu.settings, text, context.report);
}

Result<> make_all(const CommandContext& context, const ServiceFilesRequest& request) {
    const api::ServicePaths paths(request.directory);
    ROS2S_TRY(make_directory(paths.run, 0700, context.report));
    ROS2S_TRY(make_directory(request.directory + "/certs", 0755, context.report));
    const auto [engine, dpu] = daemons_of(paths);
    Requests of_storage = certificate_requests();
    if (!exists(engine.settings) || dpu_has_own_certificate(paths)) {
        of_storage.push_back({.name = "dpu"});
    }
    ROS2S_TRY(make_certificates(context, paths.storage_certs, "storage network", of_storage));
    ROS2S_TRY(make_certificates(context, paths.host_certs, "hosts", certificate_requests()));
    if (!exists(engine.settings)) {
        ROS2S_TRY(add_tenant_of_user(request, context.report));
        ROS2S_TRY(write_settings(engine, engine_settings(paths, request), context.report));
    }
    ROS2S_TRY(link_certificate_of_dpu(paths, context.report));
    if (!exists(dpu.settings)) {
        return write_settings(dpu, dpu_settings(paths, request), context.report);
    }
    return request.providers.empty() ? Result<>{}
                                     : set_providers(context, engine, dpu, request.providers);
}

}  // namespace

Result<> check_service_directory(const std::string& directory, Report& report) {
    const api::ServicePaths paths(directory);
    constexpr size_t most = sizeof(sockaddr_un::sun_path) - 1;
    const size_t longest =
        std::max({paths.engine_control.size(), paths.engine_data.size(), paths.dpu_control.size(),
                  // Each tenant has a socket, whose name adds a dot and 16
                  // digits.
                  paths.dpu_data.size() + 17});
    if (longest > most) {
        return report.fail(
            Code::invalid,
            "{} is too long by {} bytes for the daemons' sockets, whose paths have {} at most: "
            "choose a shorter directory (a link to it does not help), or --no-daemons",
            directory, longest - most, most);
    }
    // Settings list directories on one line, separated by commas with spaces around them.
    const bool plain = std::ranges::all_of(directory, [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte >= 0x20 && byte != 0x7f && c != ',';
    });
    if (plain && !directory.ends_with(' ') && is_utf8(directory))
        return check_trusted(directory, report);
    return report.fail(Code::invalid,
                       "'{}' contains a comma or a control character, ends with a space, or is not "
                       "UTF-8. The daemons' settings cannot represent such a path: choose another "
                       "directory, or use --no-daemons",
                       directory);
}

Result<> check_providers(std::string_view providers, bool trusted_network, Report& report) {
    for (const std::string& name : parts_of(providers)) {
        if (!fabric::is_provider(name)) {
            return report.fail(Code::invalid, "there is no provider '{}'; the providers are {}",
                               name, fabric::provider_names());
        }
        if (fabric::trusts_its_network(name) && !trusted_network) {
            return report.fail(Code::invalid,
                               "the provider {} lets everyone who can reach its port, including "
                               "every user of this machine, write into the daemons' memory: leave "
                               "it out, or add --trusted-network if you trust them all",
                               name);
        }
    }
    return {};
}

Task<Result<>> make_service_files(CommandContext context, ServiceFilesRequest request) {
    request.loopback = loopback();
    if (request.loopback.empty() &&
        !std::ranges::all_of(parts_of(request.providers), fabric::is_local)) {
        co_return context.report.fail(Code::unsupported,
                                      "this machine has no loopback address for the providers {}: "
                                      "`ip link set lo up` gives it one, or leave --provider out",
                                      request.providers);
    }
    co_return co_await context.environment.blocking.run(context.environment.reactor,
                                                        [&] { return make_all(context, request); });
}

Result<> remove_service_files(const std::string& directory, Report& report) {
    const api::ServicePaths paths(directory);
    // `run` is the last one: an interrupted removal is continued only if it exists.
    for (const std::string& path : {paths.storage_certs, paths.dpu_certs, paths.host_certs,
                                    paths.engine_settings, paths.engine_settings + ".new",
                                    paths.dpu_settings, paths.dpu_settings + ".new", paths.run}) {
        std::error_code failed;
        std::filesystem::remove_all(path, failed);
        if (failed) return cannot("remove", path, failed.value(), report);
    }
    ::rmdir((directory + "/certs").c_str());  // fails if other certificates are in it
    return {};
}

}  // namespace ros2s::cli
