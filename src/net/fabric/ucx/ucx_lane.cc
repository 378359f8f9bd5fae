#include "ucx_lane.h"

namespace ros2s::fabric::ucx {
namespace {

// Returns the way in which a session ended if UCX reports this status.
End end_of(ucs_status_t status) {
    switch (status) {
        case UCS_ERR_NO_MEMORY:
        case UCS_ERR_NO_RESOURCE:
        case UCS_ERR_INVALID_PARAM:
        case UCS_ERR_UNSUPPORTED: return End::failed;
        default: return End::peer_died;
    }
}

}  // namespace

UcxLane::UcxLane(const UcxLibrary& ucx, LaneUser& user) : ucx_(ucx), user_(&user) {
    for (Sending& each : sendings_) {
        each.lane = this;
        each.next = std::exchange(free_, &each);
    }
}

UcxLane::~UcxLane() { ROS2S_CHECK(endpoint_ == nullptr && sends_ == 0 && requests_ == 0); }

Result<std::unique_ptr<Lane>> UcxLane::open(const Context& context, const PeerAddress& peer,
                                            LaneUser& user) {
    std::unique_ptr<UcxLane> lane(new UcxLane(context.ucx(), user));
    lane->peer_channel_ = peer.channel;
    ucp_ep_params_t parameters{};
    parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    parameters.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
    parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    parameters.err_handler.cb = failed;
    parameters.err_handler.arg = lane.get();
    const ucs_status_t status =
        lane->ucx_.ucp_ep_create(context.worker(), &parameters, &lane->endpoint_);
    if (status == UCS_OK) return lane;
    lane->endpoint_ = nullptr;
    if (status == UCS_ERR_NO_MEMORY) return ros2s::fail(Code::no_memory);
    return ros2s::fail(status == UCS_ERR_UNREACHABLE ? Code::unsupported : Code::io);
}

void UcxLane::send(Frame* frame) noexcept {
    ROS2S_CHECK(free_ != nullptr && state_ == State::open);
    Sending& sending = *free_;
    free_ = sending.next;
    sending.frame = frame;
    sending.header = {.channel = peer_channel_, .sequence = sequence_++};
    if (failed_) return complete(sending);
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                              UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    parameters.flags = UCP_AM_SEND_FLAG_EAGER;
    parameters.cb.send = sent;
    parameters.user_data = &sending;
    parameters.memory_type = UCS_MEMORY_TYPE_HOST;
    ++sends_;
    void* request = ucx_.ucp_am_send_nbx(
        endpoint_, active_message_id, &sending.header, sizeof sending.header,
        frame != nullptr ? frame->bytes : nullptr, frame != nullptr ? frame->used : 0, &parameters);
    if (request != nullptr && !UCS_PTR_IS_ERR(request)) return;  // sent() will be called
    --sends_;
    if (request != nullptr) fail(UCS_PTR_STATUS(request));
    complete(sending);
}

void UcxLane::sent(void* request, ucs_status_t status, void* sending) noexcept {
    auto& self = *static_cast<Sending*>(sending);
    self.lane->ucx_.ucp_request_free(request);
    --self.lane->sends_;
    if (status != UCS_OK) self.lane->fail(status);
    self.lane->complete(self);
}

void UcxLane::complete(Sending& sending) noexcept {
    sending.next = std::exchange(sent_, &sending);
    if (user_ != nullptr) user_->lane_sent();
}

void UcxLane::failed(void* self, ucp_ep_h /*endpoint*/, ucs_status_t status) noexcept {
    static_cast<UcxLane*>(self)->fail(status);
}

void UcxLane::fail(ucs_status_t status) noexcept {
    failed_ = true;
    if (user_ != nullptr) user_->lane_failed(end_of(status));
}

Frame* UcxLane::take_sent() noexcept {
    while (sent_ != nullptr) {
        Sending& sending = *sent_;
        sent_ = sending.next;
        sending.next = std::exchange(free_, &sending);
        if (sending.frame != nullptr) return std::exchange(sending.frame, nullptr);
    }
    return nullptr;
}

size_t UcxLane::frames_under_way() const noexcept {
    size_t count = 0;
    for (const Sending& each : sendings_) count += each.frame != nullptr ? 1 : 0;
    return count;
}

void UcxLane::ended(void* request, ucs_status_t /*status*/, void* self) noexcept {
    auto& lane = *static_cast<UcxLane*>(self);
    lane.ucx_.ucp_request_free(request);
    --lane.requests_;
}

void UcxLane::begin_flush() noexcept {
    state_ = State::flushing;
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    parameters.cb.send = ended;
    parameters.user_data = this;
    ++requests_;
    void* request = ucx_.ucp_ep_flush_nbx(endpoint_, &parameters);
    if (request == nullptr || UCS_PTR_IS_ERR(request)) --requests_;
}

void UcxLane::begin_close() noexcept {
    state_ = State::closing;
    ucp_request_param_t parameters{};
    parameters.op_attr_mask =
        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
    parameters.cb.send = ended;
    parameters.user_data = this;
    ++requests_;
    void* request = ucx_.ucp_ep_close_nbx(std::exchange(endpoint_, nullptr), &parameters);
    if (request == nullptr || UCS_PTR_IS_ERR(request)) --requests_;
}

bool UcxLane::wind_up(bool force) noexcept {
    if (state_ == State::open) begin_flush();
    if (state_ == State::flushing && (failed_ || force || (requests_ == 0 && sends_ == 0))) {
        begin_close();
    }
    // UCX returns its remaining sends as cancelled.
    if (state_ == State::closing && requests_ == 0 && sends_ == 0) state_ = State::closed;
    return state_ == State::closed;
}

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
