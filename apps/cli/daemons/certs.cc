// certs: the development authority, and certificates from it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "certificate_names.h"
#include "commands.h"
#include "ros2s/pki/authority.h"
#include "ros2s/pki/certificate.h"
#include "ros2s/pki/revocation.h"

namespace ros2s::cli {
namespace {

Json shown(const pki::IssuedCertificate& issued) {
    return Json::object({{"name", issued.name},
                         {"certificate", issued.certificate_file},
                         {"key", issued.key_file},
                         {"expires", pki::to_string(issued.expires)}});
}

// `side`: the name by which programs look for it, server or client.
void say_where_to_copy(const CommandContext& context, const pki::IssuedCertificate& issued,
                       const std::string& directory, std::string_view machine,
                       std::string_view side) {
    context.console.say("{0:<10} until {1}; copy to {2}, as ca.crt, {3}.crt and {3}.key:",
                        issued.name, pki::to_string(issued.expires), machine, side);
    context.console.say("  {}/ca.crt  {}  {}", directory, issued.certificate_file, issued.key_file);
}

}  // namespace

std::vector<std::string> names_of_this_machine() {
    std::vector<std::string> names{"localhost", "127.0.0.1", "::1"};
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) == 0 && host[0] != '\0' &&
        std::ranges::find(names, host.data()) == names.end()) {
        names.emplace_back(host.data());
    }
    return names;
}

Task<Result<>> certs_init(CommandContext context, CertificateOptions options) {
    std::vector<std::string> names = names_of_this_machine();
    for (const std::string& name : options.names) {
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    const std::chrono::days lifetime(options.days);
    const pki::AuthorityRequest request{
        .lifetime = std::max(lifetime, pki::AuthorityRequest{}.lifetime),
        .certificates = {
            {.name = "server", .alternative_names = names, .server = true, .lifetime = lifetime},
            {.name = "client", .lifetime = lifetime}}};
    ROS2S_CO_TRY_ASSIGN(const auto issued, pki::make_authority(options.directory, request,
                                                               now_by(context), context.report));
    context.console.say(
        "a development authority in {} (until {}); {} signs more and stays here: a person who has "
        "it can issue certificates for any name",
        options.directory, pki::to_string(issued[0].expires), issued[0].key_file);
    say_where_to_copy(context, issued[1], options.directory,
                      "the machine of the engine or DPU daemon", "server");
    context.console.say("  reached as {}", fmt::join(names, ", "));
    say_where_to_copy(context, issued[2], options.directory,
                      "the machine of an administrator or host", "client");
    context.console.say(
        "each DPU and each host needs a client certificate of its own, which decides its rights "
        "and can be revoked: ros2store certs issue {} NAME. A DPU that has one needs no rights at "
        "the engine: docs/control.md, delegated",
        shell_word(options.directory));
    std::vector<Json> all;
    for (const auto& each : issued) all.push_back(shown(each));
    context.console.answer(
        Json::object({{"directory", options.directory}, {"certificates", Json::array(all)}}));
    co_return Result<>{};
}

Task<Result<>> certs_issue(CommandContext context, CertificateOptions options) {
    const pki::CertificateRequest request{.name = options.name,
                                          .alternative_names = options.names,
                                          .server = options.server,
                                          .lifetime = std::chrono::days(options.days)};
    ROS2S_CO_TRY_ASSIGN(const auto issued, pki::issue(options.directory, request, options.replace,
                                                      now_by(context), context.report));
    say_where_to_copy(
        context, issued, options.directory,
        options.server ? "the machine of the engine or DPU daemon" : "the machine of its user",
        options.server ? "server" : "client");
    context.console.answer(shown(issued));
    co_return Result<>{};
}

Task<Result<>> certs_revoke(CommandContext context, CertificateOptions options) {
    ROS2S_CO_TRY_ASSIGN(const auto revoked, pki::revoke(options.directory, options.name,
                                                        now_by(context), context.report));
    context.console.say("revoked  {}, serial {}, in {}", revoked.subject, revoked.serial,
                        revoked.list_file);
    if (revoked.server) {
        context.console.say(
            "it belongs to a server, and clients of the control plane do not read the list; if its "
            "key was stolen, make a new authority");
    } else {
        context.console.say(
            "servers that use this directory follow within a second; copy {} beside ca.crt of "
            "every other one",
            revoked.list_file);
        context.console.say(
            "a new certificate of the subject: ros2store certs issue {} {} --replace",
            shell_word(options.directory), options.name.contains('/') ? "NAME" : options.name);
    }
    context.console.answer(Json::object(
        {{"subject", revoked.subject}, {"serial", revoked.serial}, {"list", revoked.list_file}}));
    co_return Result<>{};
}

Task<Result<>> certs_show(CommandContext context, CertificateOptions options) {
    ROS2S_CO_TRY_ASSIGN(const auto facts, pki::read_certificate(options.directory, context.report));
    const std::string authority =
        std::filesystem::path(options.directory).replace_filename("ca.crt");
    ROS2S_CO_TRY_ASSIGN(const auto revoked,
                        pki::revoked_at(options.directory, authority, context.report));
    const pki::Seconds time = now_by(context);
    const std::string_view state = revoked                ? "revoked"
                                   : time < facts.begins  ? "not valid yet"
                                   : time > facts.expires ? "expired"
                                                          : "valid";
    context.console.say("subject  {}{}", facts.subject, facts.authority ? " (an authority)" : "");
    context.console.say("issuer   {}", facts.issuer);
    context.console.say("serial   {}", facts.serial);
    if (!facts.alternative_names.empty()) {
        context.console.say("names    {}", fmt::join(facts.alternative_names, ", "));
    }
    context.console.say("{:<8} {} to {}", state, pki::to_string(facts.begins),
                        pki::to_string(facts.expires));
    if (revoked) context.console.say("revoked  at {}", pki::to_string(*revoked));
    std::vector<Json> names(facts.alternative_names.begin(), facts.alternative_names.end());
    context.console.answer(Json::object({{"subject", facts.subject},
                                         {"issuer", facts.issuer},
                                         {"serial", facts.serial},
                                         {"names", Json::array(names)},
                                         {"begins", pki::to_string(facts.begins)},
                                         {"expires", pki::to_string(facts.expires)},
                                         {"authority", facts.authority},
                                         {"state", state}}));
    co_return Result<>{};
}

}  // namespace ros2s::cli
