#include "ucx_worker.h"

#include "ucx_lane.h"

namespace ros2s::fabric::ucx {

UcxWorker::UcxWorker(Reactor& reactor, Counters& counters, Context context)
    : Worker(reactor, counters), context_(std::move(context)) {
    set_handlers();
}

Result<std::unique_ptr<lanes::Lane>> UcxWorker::open_lane(const lanes::Ends& ends,
                                                          lanes::LaneUser& user) {
    return UcxLane::open(context_, ends.peer, user);
}

// UCX 1.13 does not check whether a message's number, of 16 bits, is within its table of handlers.
// It calls the address that it finds there. So the table has all numbers.
void UcxWorker::set_handlers() noexcept {
    ucp_am_handler_param_t parameters{};
    parameters.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                            UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
    parameters.flags = UCP_AM_FLAG_WHOLE_MSG;
    parameters.arg = this;
    // From the last one, so that the table grows once.
    for (unsigned id = 65536; id-- > 0;) {
        parameters.id = id;
        parameters.cb = id == active_message_id ? came : drop_unknown;
        const ucs_status_t status = ucx().ucp_worker_set_am_recv_handler(handle(), &parameters);
        ROS2S_CHECK(status == UCS_OK);
    }
}

ucs_status_t UcxWorker::drop_unknown(void* self, const void* /*header*/, size_t /*header_length*/,
                                     void* /*data*/, size_t /*length*/,
                                     const ucp_am_recv_param_t* /*parameters*/) noexcept {
    static_cast<UcxWorker*>(self)->refuse();
    return UCS_OK;
}

ucs_status_t UcxWorker::came(void* self, const void* header, size_t header_length, void* data,
                             size_t length, const ucp_am_recv_param_t* parameters) noexcept {
    auto& worker = *static_cast<UcxWorker*>(self);
    worker.called_back_ = true;
    // Data that did not arrive with its header are a rendezvous. We never send one.
    const bool whole = (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
    worker.take({static_cast<const std::byte*>(header), header_length},
                {static_cast<const std::byte*>(data), whole ? length : 0}, whole);
    return UCS_OK;
}

bool UcxWorker::progress() noexcept { return ucx().ucp_worker_progress(handle()) > 0; }

bool UcxWorker::arm_events() noexcept {
    // UCX returns "busy" while it has work.
    if (ucx().ucp_worker_arm(handle()) != UCS_OK) return false;
    // Plain verbs raise no event for a completion that came just before; only for later ones.
    called_back_ = false;
    return !progress() && !called_back_;
}

void UcxWorker::signal() noexcept {
    const ucs_status_t status = ucx().ucp_worker_signal(handle());
    ROS2S_CHECK(status == UCS_OK);
}

}  // namespace ros2s::fabric::ucx
