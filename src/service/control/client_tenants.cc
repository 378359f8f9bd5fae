// Tenants of a ControlClient.
#include "client_call.h"
#include "client_replies.h"
#include "ros2s/control/tenants.pb.h"

namespace ros2s::control {
namespace {

Result<tenancy::SeenTenant> decode(const v1::Tenant& tenant, Report& report) {
    tenancy::SeenTenant seen{
        .tenant = {.name = tenant.name(),
                   .generation = tenant.generation(),
                   .first_generation = std::max<uint64_t>(tenant.first_generation(), 1),
                   .revoked = tenant.revoked(),
                   .settings = {tenant.settings().begin(), tenant.settings().end()}},
        .active = tenant.active()};
    seen.tenant.revocations = tenant.revocations();
    for (const auto& each : tenant.revoked_capabilities()) {
        Uuid id;
        tenancy::RevokedCapability revoked{.until = WallTime(Duration(each.until_ns()))};
        if (!read_bytes(each.id(), id.bytes) ||
            (!each.program().empty() && !read_bytes(each.program(), revoked.program.emplace()))) {
            return malformed("tenant", report);
        }
        seen.tenant.revoked_capabilities.emplace(id, revoked);
    }
    Report problem;
    const auto parsed = tenancy::parse_settings(seen.tenant, "a tenant", problem);
    if (!parsed) return malformed("tenant", report);
    return seen;
}

}  // namespace

Task<Result<tenancy::SeenTenant>> ControlClient::change_tenant(const Call& call, std::string pool,
                                                               tenancy::Change what,
                                                               std::string name,
                                                               config::Entries settings,
                                                               Report& report) {
    auto request = of_pool<v1::ChangeTenantRequest>(std::move(pool));
    request.set_kind(what == tenancy::Change::create   ? v1::ChangeTenantRequest::CREATE
                     : what == tenancy::Change::set    ? v1::ChangeTenantRequest::SET
                     : what == tenancy::Change::revoke ? v1::ChangeTenantRequest::REVOKE
                                                       : v1::ChangeTenantRequest::REMOVE);
    request.set_name(std::move(name));
    for (auto& [key, text] : settings) (*request.mutable_settings())[key] = std::move(text);
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::ChangeTenantReply>(
                                              *parts_, call, std::move(request), report));
    co_return decode(reply.tenant(), report);
}

Task<Result<ListedTenants>> ControlClient::list_tenants(const Call& call, std::string pool,
                                                        uint64_t known, Report& report) {
    auto request = of_pool<v1::ListTenantsRequest>(std::move(pool));
    request.set_known(known);
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::ListTenantsReply>(
                                              *parts_, call, std::move(request), report));
    ListedTenants listed{.version = reply.version(),
                         .tenants = {},
                         .audience = {},
                         .issuers = {},
                         .now = WallTime(Duration(reply.now_ns())),
                         .own_only = reply.own_only()};
    (void)read_bytes(reply.audience(), listed.audience.bytes);  // none: it has no capabilities
    for (const std::string& key : reply.issuers()) {
        if (!read_bytes(key, listed.issuers.emplace_back())) {
            co_return malformed("key of capabilities", report);
        }
    }
    if (listed.version == known) co_return listed;
    listed.tenants.emplace();
    for (const v1::Tenant& each : reply.tenants()) {
        ROS2S_CO_TRY_ASSIGN(auto seen, decode(each, report));
        std::string name = seen.tenant.name;
        listed.tenants->emplace(std::move(name), std::move(seen));
    }
    co_return listed;
}

}  // namespace ros2s::control
