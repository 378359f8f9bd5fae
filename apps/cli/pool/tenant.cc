// ros2store tenant: the tenants of a pool, at the engine that has it.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "commands.h"
#include "pool_location.h"
#include "ros2s/api/server_address.h"
#include "ros2s/base/json.h"
#include "ros2s/control/control_client.h"
#include "ros2s/pool/pool_directory.h"

namespace ros2s::cli {
namespace {

constexpr auto patience = std::chrono::seconds(10);

struct Engine {
    std::unique_ptr<control::ControlClient> control;
    std::string pool;
};

// The engine of a URI (ros2s://HOST/POOL), or the one that `ros2store up DIR` started.
Result<Engine> engine_of(const CommandContext& context, const std::string& location,
                         const std::string& certificates) {
    Report& report = context.report;
    api::ServerAddress server;
    std::string pool;
    if (is_uri(location)) {
        ROS2S_TRY_ASSIGN(const api::Uri uri, api::Uri::parse(location, report));
        if (uri.transport != api::Uri::Transport::direct) {
            return report.fail(Code::invalid,
                               "'{}' does not name an engine, which keeps the tenants; write "
                               "ros2s://HOST:PORT/POOL/CONTAINER, or the directory of `up`",
                               location);
        }
        ROS2S_TRY_ASSIGN(server, api::server_address(uri, report));
        pool = uri.pool;
    } else {
        ROS2S_TRY_ASSIGN(const auto directory, pool::read_pool_directory(location, report));
        ROS2S_TRY_ASSIGN(
            server, api::running_server(directory.directory, api::Uri::Transport::direct, report));
        pool = directory.config.pool;
    }
    if (!certificates.empty()) server.certificates = certificates;
    ROS2S_TRY_ASSIGN(auto control, control::ControlClient::create(
                                       context.environment.reactor,
                                       {.address = server.control,
                                        .identity = pki::identity_in(server.certificates, "client"),
                                        .server_name = server.name},
                                       report));
    return Engine{std::move(control), std::move(pool)};
}

Call bounded(const CommandContext& context) {
    return {.deadline = context.environment.reactor.now() + patience, .stop = context.call.stop};
}

std::string_view state_of(const tenancy::SeenTenant& seen) {
    if (seen.tenant.revoked) return "revoked";
    return seen.active ? "active" : "expired";
}

Json json_of(const tenancy::SeenTenant& seen, const std::vector<Json>* capabilities = nullptr) {
    std::vector<Json::Member> settings;
    for (const auto& [key, text] : seen.tenant.settings) settings.emplace_back(key, text);
    std::vector<Json::Member> all{{"name", seen.tenant.name},
                                  {"state", state_of(seen)},
                                  {"generation", seen.tenant.generation},
                                  {"owns_as", seen.tenant.owner()},
                                  {"settings", Json::object(settings)}};
    if (capabilities != nullptr) all.emplace_back("capabilities", Json::array(*capabilities));
    return Json::object(all);
}

Task<Result<>> change(CommandContext context, tenancy::Change what, TenantOptions options,
                      std::string_view done) {
    ROS2S_CO_TRY_ASSIGN(const Engine engine,
                        engine_of(context, options.location, options.certificates));
    const bool sets_caps = options.settings.contains("space") || options.settings.contains("files");
    ROS2S_CO_TRY_ASSIGN(const auto seen, co_await engine.control->change_tenant(
                                             bounded(context), engine.pool, what, options.name,
                                             std::move(options.settings), context.report));
    context.console.say("tenant {} of the pool '{}': {}, generation {}", seen.tenant.name,
                        engine.pool, done, seen.tenant.generation);
    if (sets_caps) {
        context.console.say(
            "its caps bind containers that it owns. What hosts make through a DPU that is not "
            "delegated is owned by the DPU; `ros2store container set URI --owner {}` changes that",
            seen.tenant.name);
    }
    context.console.answer(json_of(seen));
    co_return Result<>{};
}

Task<Result<tenancy::SeenTenants>> read(CommandContext context, const TenantOptions& options) {
    ROS2S_CO_TRY_ASSIGN(const Engine engine,
                        engine_of(context, options.location, options.certificates));
    ROS2S_CO_TRY_ASSIGN(auto listed, co_await engine.control->list_tenants(
                                         bounded(context), engine.pool, 0, context.report));
    co_return listed.tenants ? std::move(*listed.tenants) : tenancy::SeenTenants();
}

Task<Result<>> revoke_one(CommandContext context, TenantOptions options) {
    const auto id = Uuid::parse(options.capability);
    if (!id) {
        co_return context.report.fail(
            id.error(),
            "'{}' is not the id of a capability; `ros2store tenant show` lists those in use",
            options.capability);
    }
    ROS2S_CO_TRY_ASSIGN(const Engine engine,
                        engine_of(context, options.location, options.certificates));
    ROS2S_CO_TRY_ASSIGN(const uint64_t sessions,
                        co_await engine.control->revoke_capability(
                            bounded(context), engine.pool, options.name, *id, context.report));
    context.console.say(
        "capability {} of the tenant {}: revoked; {}", id->to_string(), options.name,
        sessions == 0 ? "no session uses it now"
                      : fmt::format("{} session{} ended", sessions, sessions == 1 ? "" : "s"));
    context.console.answer(Json::object({{"capability", id->to_string()}, {"sessions", sessions}}));
    co_return Result<>{};
}

// The capabilities that the tenant's programs, or DPUs for them, use now. An engine shows them to
// administrators only.
Task<std::vector<Json>> show_capabilities(CommandContext context, TenantOptions options) {
    std::vector<Json> all;
    const auto engine = engine_of(context, options.location, options.certificates);
    if (!engine) co_return all;
    Report unused;
    const auto found = co_await engine->control->list_capabilities(bounded(context), engine->pool,
                                                                   options.name, unused);
    if (!found) co_return all;
    for (const control::CapabilityInUse& each : *found) {
        const std::string what = each.use.text();
        const auto until = std::chrono::floor<std::chrono::seconds>(each.expires);
        const std::string expires = fmt::format("{:%FT%TZ}", until);
        const std::string from =
            each.first == each.last ? "" : fmt::format(", made from {}", each.first.to_string());
        context.console.say("  capability {}: {}; shown by {} until {}{}", each.last.to_string(),
                            what, each.shown_by, expires, from);
        all.push_back(Json::object({{"id", each.last.to_string()},
                                    {"made_from", each.first.to_string()},
                                    {"use", what},
                                    {"shown_by", each.shown_by},
                                    {"expires", expires}}));
    }
    co_return all;
}

}  // namespace

Task<Result<>> tenant_create(CommandContext context, TenantOptions options) {
    co_return co_await change(context, tenancy::Change::create, std::move(options), "created");
}
Task<Result<>> tenant_set(CommandContext context, TenantOptions options) {
    co_return co_await change(context, tenancy::Change::set, std::move(options), "changed");
}
Task<Result<>> tenant_revoke(CommandContext context, TenantOptions options) {
    if (!options.capability.empty()) co_return co_await revoke_one(context, std::move(options));
    co_return co_await change(context, tenancy::Change::revoke, std::move(options), "revoked");
}

Task<Result<>> tenant_remove(CommandContext context, TenantOptions options) {
    const std::string name = options.name;
    ROS2S_CO_TRY(co_await change(context, tenancy::Change::remove, std::move(options), "removed"));
    context.console.say(
        "its subjects have again what `access:` of the engine and of DPUs gives them. Containers "
        "that it owned belong to nobody, also not to a new tenant '{}'; `ros2store container set "
        "URI --owner` changes that",
        name);
    co_return Result<>{};
}

Task<Result<>> tenant_rotate_key(CommandContext context, TenantOptions options) {
    ROS2S_CO_TRY_ASSIGN(const Engine engine,
                        engine_of(context, options.location, options.certificates));
    ROS2S_CO_TRY(co_await engine.control->rotate_capability_key(bounded(context), engine.pool,
                                                                context.report));
    context.console.say(
        "a new key signs the capabilities of the pool '{}'; what earlier ones signed is valid "
        "until it expires",
        engine.pool);
    context.console.answer(Json::object({{"pool", engine.pool}}));
    co_return Result<>{};
}

Task<Result<>> tenant_list(CommandContext context, TenantOptions options) {
    ROS2S_CO_TRY_ASSIGN(const auto tenants, co_await read(context, options));
    std::vector<Json> all;
    for (const auto& [name, seen] : tenants) {
        context.console.say("{:<20} {:<8} {}", name, state_of(seen),
                            fmt::join(seen.tenant.subjects, ", "));
        all.push_back(json_of(seen));
    }
    if (tenants.empty()) {
        context.console.say(
            "no tenant; make one: ros2store tenant create PLACE NAME --subject CN=NAME "
            "--write CONTAINER");
    }
    context.console.answer(Json::object({{"tenants", Json::array(all)}}));
    co_return Result<>{};
}

Task<Result<>> tenant_show(CommandContext context, TenantOptions options) {
    ROS2S_CO_TRY_ASSIGN(const auto tenants, co_await read(context, options));
    const auto found = tenants.find(options.name);
    if (found == tenants.end()) {
        co_return context.report.fail(Code::not_found, "there is no tenant '{}'", options.name);
    }
    context.console.say("{}: {}, generation {}", options.name, state_of(found->second),
                        found->second.tenant.generation);
    if (const std::string owner = found->second.tenant.owner(); owner != options.name) {
        context.console.say("  {:<18} {}", "owns as", owner);
    }
    for (const auto& [key, text] : found->second.tenant.settings) {
        context.console.say("  {:<18} {}", key, text);
    }
    const std::vector<Json> capabilities = co_await show_capabilities(context, options);
    context.console.answer(json_of(found->second, &capabilities));
    co_return Result<>{};
}

}  // namespace ros2s::cli
