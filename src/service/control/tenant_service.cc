#include "tenant_service.h"

#include <fmt/format.h>

#include <algorithm>

#include "fields.h"

namespace ros2s::control {
namespace {

void encode(const tenancy::Tenant& tenant, WallTime now, v1::Tenant& into) {
    into.set_name(tenant.name);
    into.set_generation(tenant.generation);
    for (const auto& [key, text] : tenant.settings) (*into.mutable_settings())[key] = text;
    into.set_first_generation(tenant.first_generation);
    into.set_revoked(tenant.revoked);
    into.set_active(tenant.is_active(now));
    into.set_revocations(tenant.revocations);
    for (const auto& [id, revoked] : tenant.revoked_capabilities) {
        auto& each = *into.add_revoked_capabilities();
        each.set_id(id.bytes.data(), id.bytes.size());
        if (revoked.program) each.set_program(revoked.program->data(), revoked.program->size());
        each.set_until_ns(count_of(revoked.until));
    }
}

Result<tenancy::Change> change_of(const v1::ChangeTenantRequest& request, Report& report) {
    switch (request.kind()) {
        case v1::ChangeTenantRequest::CREATE: return tenancy::Change::create;
        case v1::ChangeTenantRequest::SET: return tenancy::Change::set;
        case v1::ChangeTenantRequest::REVOKE:
            if (request.settings().empty()) return tenancy::Change::revoke;
            return report.fail(Code::invalid, "a revocation has no settings");
        case v1::ChangeTenantRequest::REMOVE:
            if (request.settings().empty()) return tenancy::Change::remove;
            return report.fail(Code::invalid, "a removal has no settings");
        default:
            return report.fail(Code::invalid, "there is no change of kind {}",
                               static_cast<int>(request.kind()));
    }
}

constexpr std::array<std::string_view, 4> done_names{"created", "changed", "revoked", "removed"};

}  // namespace

bool TenantService::sees_all(const Served& served) const {
    const Capabilities* const capabilities = state_.parts.capabilities;
    return state_.is_administrator(served) ||
           (capabilities != nullptr && capabilities->is_delegate(served.subject));
}

Result<tenancy::TenantRegistry*> TenantService::registry(Served& served,
                                                         const std::string& pool) const {
    ROS2S_TRY(check_label("pool", pool, served.report));
    // An administrator's own tenant may be the revoked one, and it has to be made active again.
    if (!sees_all(served)) ROS2S_TRY(state_.permit(served, pool));
    if (tenancy::TenantRegistry* const found = state_.parts.pools.tenants(pool)) return found;
    if (!state_.parts.pools.has(pool)) {
        return served.report.fail(Code::not_found, "there is no pool '{}' here", pool);
    }
    return served.report.fail(Code::unsupported,
                              "the engine that has the pool keeps its tenants: name the engine, as "
                              "in ros2s://HOST:PORT/POOL/CONTAINER");
}

Task<Result<>> TenantService::change(Served& served, const v1::ChangeTenantRequest& request,
                                     v1::ChangeTenantReply& reply) {
    ROS2S_CO_TRY_ASSIGN(tenancy::TenantRegistry* const tenants, registry(served, request.pool()));
    ROS2S_CO_TRY(state_.permit_administration(served, "change tenants of", request.pool(),
                                              "change tenants"));
    if (request.kind() == v1::ChangeTenantRequest::ROTATE) {
        if (state_.parts.capabilities == nullptr) {
            co_return served.report.fail(Code::unsupported, "this server issues no capabilities");
        }
        ROS2S_CO_TRY(co_await state_.parts.capabilities->rotate(request.pool(), served.report));
        tenants->tell();
        state_.audit(
            served, AuditAction::administer, {.pool = request.pool()},
            fmt::format("made a new key for capabilities of the pool '{}'", request.pool()));
        co_return Result<>{};
    }
    if (request.kind() == v1::ChangeTenantRequest::REVOKE_CAPABILITY) {
        co_return co_await revoke_capability(served, request, reply);
    }
    ROS2S_CO_TRY_ASSIGN(const tenancy::Change what, change_of(request, served.report));
    config::Entries settings(request.settings().begin(), request.settings().end());
    ROS2S_CO_TRY_ASSIGN(
        const tenancy::Tenant tenant,
        co_await tenants->change(what, request.name(), std::move(settings), served.report));
    state_.audit(served, AuditAction::administer, {.pool = request.pool()},
                 fmt::format("{} the tenant '{}' of the pool '{}', generation {}",
                             done_names[static_cast<size_t>(what)], tenant.name, request.pool(),
                             tenant.generation));
    encode(tenant, state_.parts.reactor.wall_time(), *reply.mutable_tenant());
    co_return Result<>{};
}

Task<Result<>> TenantService::revoke_capability(Served& served,
                                                const v1::ChangeTenantRequest& request,
                                                v1::ChangeTenantReply& reply) {
    Uuid id;
    const bool is_valid = request.capability().size() == id.bytes.size() &&
                          request.settings().empty() && state_.parts.capabilities != nullptr;
    if (!is_valid) {
        co_return served.report.fail(
            Code::invalid,
            "the id of a capability has 16 bytes, and there are no settings with it");
    }
    std::ranges::copy(request.capability(), id.bytes.begin());
    ROS2S_CO_TRY_ASSIGN(const uint64_t sessions,
                        co_await state_.parts.capabilities->revoke(request.pool(), request.name(),
                                                                   id, served.report));
    state_.audit(
        served, AuditAction::administer, {.pool = request.pool()},
        fmt::format(
            "revoked the capability {} of the tenant '{}' of the pool '{}', which {} sessions used",
            id.to_string(), request.name(), request.pool(), sessions));
    const auto& tenants = state_.parts.pools.tenants(request.pool())->tenants();
    encode(tenants.at(request.name()), state_.parts.reactor.wall_time(), *reply.mutable_tenant());
    reply.set_sessions(sessions);
    co_return Result<>{};
}

Task<Result<>> TenantService::list(Served& served, const v1::ListTenantsRequest& request,
                                   v1::ListTenantsReply& reply) {
    ROS2S_CO_TRY_ASSIGN(tenancy::TenantRegistry* const tenants, registry(served, request.pool()));
    co_await tenants->wait(request.known());
    reply.set_version(tenants->version());
    const WallTime now = state_.parts.reactor.wall_time();
    reply.set_now_ns(now.time_since_epoch().count());
    const Capabilities* const capabilities = state_.parts.capabilities;
    if (const auto known = capabilities ? capabilities->describe(request.pool()) : std::nullopt) {
        reply.set_audience(known->audience.bytes.data(), known->audience.bytes.size());
        for (const auto& key : known->issuers) reply.add_issuers(key.data(), key.size());
    }
    // A DPU with rights of its own belongs to no tenant, and follows them all.
    const tenancy::Tenant* const own =
        sees_all(served) ? nullptr : tenancy::tenant_of(tenants->tenants(), served.subject);
    reply.set_own_only(own != nullptr);
    if (tenants->version() == request.known()) co_return Result<>{};
    for (const auto& [name, tenant] : tenants->tenants()) {
        if (own == nullptr || own == &tenant) encode(tenant, now, *reply.add_tenants());
    }
    co_return Result<>{};
}

}  // namespace ros2s::control
