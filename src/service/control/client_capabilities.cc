// Capabilities of a ControlClient: their administration, and how a delegated DPU gets one.
#include "client_call.h"
#include "client_replies.h"
#include "ros2s/control/capabilities.pb.h"
#include "ros2s/control/tenants.pb.h"
#include "ros2s/pki/signature.h"

namespace ros2s::control {
Task<Result<uint64_t>> ControlClient::revoke_capability(const Call& call, std::string pool,
                                                        std::string tenant, Uuid capability,
                                                        Report& report) {
    auto request = of_pool<v1::ChangeTenantRequest>(std::move(pool));
    request.set_kind(v1::ChangeTenantRequest::REVOKE_CAPABILITY);
    request.set_name(std::move(tenant));
    request.set_capability(bytes_of(capability));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::ChangeTenantReply>(
                                              *parts_, call, std::move(request), report));
    co_return reply.sessions();
}

Task<Result<std::vector<CapabilityInUse>>> ControlClient::list_capabilities(const Call& call,
                                                                            std::string pool,
                                                                            std::string tenant,
                                                                            Report& report) {
    auto request = of_pool<v1::ListCapabilitiesRequest>(std::move(pool));
    request.set_tenant(std::move(tenant));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::ListCapabilitiesReply>(
                                              *parts_, call, std::move(request), report));
    std::vector<CapabilityInUse> all;
    for (const auto& each : reply.in_use()) {
        CapabilityInUse& into = all.emplace_back();
        if (!read_bytes(each.first(), into.first.bytes) ||
            !read_bytes(each.last(), into.last.bytes)) {
            co_return malformed("capability", report);
        }
        into.use.rights.bits = static_cast<uint8_t>(each.rights() & rights::every_right.bits);
        into.use.directories = each.directories();
        into.use.container.text = each.container();
        into.shown_by = each.shown_by();
        into.expires = WallTime(Duration(each.expires_ns()));
    }
    co_return all;
}

Task<Result<>> ControlClient::rotate_capability_key(const Call& call, std::string pool,
                                                    Report& report) {
    auto request = of_pool<v1::ChangeTenantRequest>(std::move(pool));
    request.set_kind(v1::ChangeTenantRequest::ROTATE);
    ROS2S_CO_TRY(co_await ask<v1::ChangeTenantReply>(*parts_, call, std::move(request), report));
    co_return Result<>{};
}

Task<Result<std::string>> ControlClient::relay_capability_request(const Call& call,
                                                                  std::string pool,
                                                                  SignedCapabilityRequest wanted,
                                                                  Report& report) {
    auto request = of_pool<v1::IssueCapabilityRequest>(std::move(pool));
    request.set_wanted(std::move(wanted.wanted));
    request.set_certificates(std::move(wanted.certificates));
    request.set_signature(std::move(wanted.signature));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::IssueCapabilityReply>(
                                              *parts_, call, std::move(request), report));
    co_return reply.capability();
}

Task<Result<std::string>> ControlClient::issue_capability(const Call& call, std::string pool,
                                                          capability::CapabilityRequest wanted,
                                                          Report& report) {
    const pki::Pem files = pki::read_pem(parts_->options.identity);
    std::string bytes = capability::encode(wanted);
    ROS2S_CO_TRY_ASSIGN(std::string signature,
                        pki::sign(files.key, capability::request_message(bytes, pool), report));
    co_return co_await relay_capability_request(call, std::move(pool),
                                                {.wanted = std::move(bytes),
                                                 .certificates = files.certificate,
                                                 .signature = std::move(signature)},
                                                report);
}

Task<Result<>> ControlClient::hand_over(const Call& call, std::string pool, capability::Chain chain,
                                        Report& report) {
    auto request = of_pool<v1::DelegateCapabilityRequest>(std::move(pool));
    for (std::string& link : chain) request.add_chain(std::move(link));
    ROS2S_CO_TRY(
        co_await ask<v1::DelegateCapabilityReply>(*parts_, call, std::move(request), report));
    co_return Result<>{};
}

Task<Result<Capabilities::Description>> ControlClient::describe_capabilities(const Call& call,
                                                                             std::string pool,
                                                                             Report& report) {
    auto request = of_pool<v1::DescribeCapabilitiesRequest>(std::move(pool));
    ROS2S_CO_TRY_ASSIGN(const auto reply, co_await ask<v1::DescribeCapabilitiesReply>(
                                              *parts_, call, std::move(request), report));
    Capabilities::Description known;
    if (!read_bytes(reply.audience(), known.audience.bytes)) co_return malformed("pool", report);
    if (reply.delegate().empty()) co_return known;
    if (!read_bytes(reply.delegate(), known.delegate.emplace())) {
        co_return malformed("key of capabilities", report);
    }
    co_return known;
}

Task<Result<std::optional<Duration>>> ControlClient::delegate(const Call& call, std::string pool,
                                                              capability::Use use, Report& report) {
    auto& own_rights = parts_->own_rights;
    if (const auto found = own_rights.find(pool); found != own_rights.end()) {
        if (parts_->reactor.now() < found->second) co_return std::nullopt;
    }
    Report said;
    const auto known = co_await describe_capabilities(call, pool, said);
    // If a server has none, or refuses even this request, the call that follows gets the error.
    const bool is_final = known || known.error().code == Code::unsupported ||
                          known.error().code == Code::denied ||
                          known.error().code == Code::not_found;
    if (!is_final) co_return report.fail(known.error(), said.text());
    if (!known || !known->delegate) {
        if (own_rights.size() >= Parts::own_rights_max) own_rights.clear();
        const bool has_answered = known || known.error().code == Code::unsupported;
        if (has_answered) own_rights[pool] = parts_->reactor.now() + Parts::own_rights_for;
        co_return std::nullopt;
    }
    const capability::CapabilityRequest wanted{
        .use = std::move(use), .audience = known->audience, .holder = parts_->holder.shown()};
    ROS2S_CO_TRY_ASSIGN(std::string issued, co_await issue_capability(call, pool, wanted, report));
    auto narrower = capability::decode(issued);
    // The DPU passed it on. Only what was requested is handed over.
    if (!narrower || narrower->depth != 1 || narrower->holder != wanted.holder ||
        narrower->audience != wanted.audience || !wanted.use.covers(narrower->use)) {
        co_return malformed("capability", report);
    }
    narrower->depth = 2;
    narrower->id = any_uuid();
    narrower->issuer = wanted.holder;
    narrower->holder = *known->delegate;
    narrower->parent = capability::hash_of(issued);
    std::string second = capability::sign(*narrower, parts_->holder);
    ROS2S_CO_TRY(
        co_await hand_over(call, std::move(pool), {std::move(issued), std::move(second)}, report));
    const Duration life = narrower->expires - narrower->not_before - capability::clock_slack;
    co_return std::clamp<Duration>(life / 2, std::chrono::milliseconds(100), capability::life_max);
}

}  // namespace ros2s::control
