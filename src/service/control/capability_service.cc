#include "capability_service.h"

#include "fields.h"

namespace ros2s::control {

Result<Capabilities::Description> CapabilityService::find(Served& served,
                                                          const std::string& pool) const {
    ROS2S_TRY(check_label("pool", pool, served.report));
    Capabilities* const capabilities = state_.parts.capabilities;
    if (capabilities == nullptr) {
        return served.report.fail(Code::unsupported, "this server has no capabilities");
    }
    if (!capabilities->may_show(served.subject, pool)) ROS2S_TRY(state_.permit(served, pool));
    auto description = capabilities->describe(pool);
    if (description) return std::move(*description);
    return served.report.fail(Code::unsupported, "the pool '{}' has no capabilities here", pool);
}

Task<Result<>> CapabilityService::describe(Served& served,
                                           const v1::DescribeCapabilitiesRequest& request,
                                           v1::DescribeCapabilitiesReply& reply) {
    ROS2S_CO_TRY_ASSIGN(const auto description, find(served, request.pool()));
    reply.set_audience(description.audience.bytes.data(), description.audience.bytes.size());
    if (description.delegate) {
        reply.set_delegate(description.delegate->data(), description.delegate->size());
    }
    co_return Result<>{};
}

Task<Result<>> CapabilityService::issue(Served& served, const v1::IssueCapabilityRequest& request,
                                        v1::IssueCapabilityReply& reply) {
    ROS2S_CO_TRY(find(served, request.pool()));
    ROS2S_CO_TRY(
        check_size("request", request.wanted(), capability::capability_bytes_max, served.report));
    ROS2S_CO_TRY(check_size("certificates", request.certificates(), 16 << 10, served.report));
    ROS2S_CO_TRY(check_size("signature", request.signature(), 1024, served.report));
    served.audited = true;
    ROS2S_CO_TRY_ASSIGN(
        auto made,
        co_await state_.parts.capabilities->issue(
            served.call, served.subject, served.peer, request.pool(),
            {request.wanted(), request.certificates(), request.signature()}, served.report));
    reply.set_capability(std::move(made));
    co_return Result<>{};
}

Task<Result<>> CapabilityService::delegate(Served& served,
                                           const v1::DelegateCapabilityRequest& request,
                                           v1::DelegateCapabilityReply&) {
    ROS2S_CO_TRY(find(served, request.pool()));
    ROS2S_CO_TRY_ASSIGN(auto chain, decode(request.chain(), served.report));
    served.audited = true;
    co_return co_await state_.parts.capabilities->take(
        served.call, served.subject, served.peer, request.pool(), std::move(chain), served.report);
}

Task<Result<>> CapabilityService::list(Served& served, const v1::ListCapabilitiesRequest& request,
                                       v1::ListCapabilitiesReply& reply) {
    ROS2S_CO_TRY(find(served, request.pool()));
    ROS2S_CO_TRY(state_.permit_administration(served, "list capabilities of", request.pool(),
                                              "list capabilities"));
    for (const CapabilityInUse& each :
         state_.parts.capabilities->in_use(request.pool(), request.tenant())) {
        auto& into = *reply.add_in_use();
        into.set_first(each.first.bytes.data(), each.first.bytes.size());
        into.set_last(each.last.bytes.data(), each.last.bytes.size());
        into.set_rights(each.use.rights.bits);
        into.set_directories(each.use.directories);
        into.set_container(each.use.container.text);
        into.set_shown_by(each.shown_by);
        into.set_expires_ns(count_of(each.expires));
    }
    co_return Result<>{};
}

}  // namespace ros2s::control
