#include "ofi_worker.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>

namespace ros2s::fabric::ofi {

using lanes::FrameHeader;

OfiWorker::OfiWorker(Reactor& reactor, Counters& counters, Context context)
    : Worker(reactor, counters),
      context_(std::move(context)),
      peers_(context_.peers(), context_.address(), context_.peers_max()),
      retrying_(reactor, 1) {
    for (size_t i = 0; i < receives_count; ++i) {
        // Its bytes are not initialised.
        receive_into(*receives_.emplace_back(new Receive));
    }
}

OfiWorker::~OfiWorker() { ROS2S_CHECK(lanes_.empty()); }

Task<> OfiWorker::end() {
    stop_.request_stop();
    co_await retrying_.join();
    context_.close_endpoint();
    // Frames for peers that did not read.
    for (Sending& each : sendings_) {
        if (each.frame != nullptr) flusher().give_frame(*std::exchange(each.frame, nullptr));
    }
}

Result<std::unique_ptr<lanes::Lane>> OfiWorker::open_lane(const lanes::Ends& ends,
                                                          lanes::LaneUser& user) {
    ROS2S_TRY_ASSIGN(Peer* const known, peers_.acquire(ends.peer.address));
    return std::make_unique<OfiLane>(*this, *known, ends.peer.channel, user);
}

OfiWorker::Posted OfiWorker::post(Sending& sending, const Peer& peer) noexcept {
    const std::array<iovec, 2> parts{
        iovec{&sending.header, sizeof sending.header},
        iovec{sending.frame != nullptr ? sending.frame->bytes : nullptr,
              sending.frame != nullptr ? sending.frame->used : 0}};
    const ssize_t status =
        fi_sendv(context_.endpoint(), parts.data(), nullptr, sending.frame != nullptr ? 2 : 1,
                 peer.address, static_cast<Transfer*>(&sending));
    sending.under_way = status == 0;
    if (status == 0) return Posted::under_way;
    return status == -FI_EAGAIN ? Posted::later : Posted::refused;
}

Sending& OfiWorker::take_sending() {
    if (idle_ == nullptr) {
        Sending& made = sendings_.emplace_back();
        made.outgoing = true;
        return made;
    }
    return *std::exchange(idle_, idle_->next);
}

void OfiWorker::give_sending(Sending& sending) noexcept {
    sending.lane = nullptr;
    sending.next = std::exchange(idle_, &sending);
}

void OfiWorker::remove(OfiLane& lane) noexcept {
    std::erase(lanes_, &lane);
    std::erase(waiting_, &lane);
}

void OfiWorker::take_over_sends(const OfiLane& lane) noexcept {
    for (Sending& each : sendings_) {
        if (each.lane == &lane) each.lane = nullptr;
    }
}

void OfiWorker::wait(OfiLane& lane) {
    if (std::ranges::find(waiting_, &lane) == waiting_.end()) waiting_.push_back(&lane);
    // libfabric reports some of the events that it waits for, not all.
    (void)retrying_.try_spawn(retry(*this));
}

Task<> OfiWorker::retry(OfiWorker& self) {
    while (!self.waiting_.empty()) {
        if (!co_await sleep_for(self.reactor(), retry_every, self.stop_.token())) co_return;
        self.mark_busy();
    }
}

void OfiWorker::retry_waiting() noexcept {
    std::erase_if(waiting_, [](OfiLane* lane) { return lane->hand_over(); });
}

void OfiWorker::receive_into(Receive& receive) noexcept {
    const ssize_t status = fi_recv(context_.endpoint(), receive.bytes, sizeof receive.bytes,
                                   nullptr, FI_ADDR_UNSPEC, static_cast<Transfer*>(&receive));
    if (status != 0) receives_due_.push_back(&receive);
}

void OfiWorker::completed(Transfer& transfer, size_t length, bool well) noexcept {
    if (transfer.outgoing) {
        auto& sending = static_cast<Sending&>(transfer);
        ROS2S_CHECK(std::exchange(sending.under_way, false));
        if (sending.lane != nullptr) return sending.lane->came_back(sending, well);
        if (sending.frame != nullptr) flusher().give_frame(*std::exchange(sending.frame, nullptr));
        return give_sending(sending);
    }
    auto& receive = static_cast<Receive&>(transfer);
    const ConstBytes bytes(receive.bytes, well ? length : 0);
    if (bytes.size() < sizeof(FrameHeader)) {
        refuse();
    } else {
        take(bytes.first(sizeof(FrameHeader)), bytes.subspan(sizeof(FrameHeader)), true);
    }
    receive_into(receive);
}

bool OfiWorker::read_error() noexcept {
    fi_cq_err_entry error{};
    if (fi_cq_readerr(context_.completions(), &error, 0) <= 0) return false;
    if (error.op_context == nullptr) {  // for the endpoint as a whole
        for (OfiLane* lane : lanes_) lane->fail(End::failed);
        return true;
    }
    auto& transfer = *static_cast<Transfer*>(error.op_context);
    if (!transfer.outgoing && error.err == FI_ECANCELED) {  // its peer is gone
        receive_into(static_cast<Receive&>(transfer));
    } else {
        completed(transfer, 0, false);
    }
    return true;
}

bool OfiWorker::read_completions() noexcept {
    std::array<fi_cq_msg_entry, read_at_once> entries;
    const ssize_t count = fi_cq_read(context_.completions(), entries.data(), entries.size());
    if (count == -FI_EAVAIL) return read_error();
    for (ssize_t i = 0; i < count; ++i) {
        const fi_cq_msg_entry& entry = entries[static_cast<size_t>(i)];
        completed(*static_cast<Transfer*>(entry.op_context), entry.len, true);
    }
    return count > 0;
}

bool OfiWorker::progress() noexcept {
    const bool found = read_completions();
    if (!waiting_.empty()) retry_waiting();
    if (!receives_due_.empty()) {
        std::vector<Receive*> due;
        due.swap(receives_due_);
        for (Receive* each : due) receive_into(*each);
    }
    return found;
}

void OfiWorker::signal() noexcept {
    const int status = fi_cq_signal(context_.completions());
    ROS2S_CHECK(status == 0);
}

}  // namespace ros2s::fabric::ofi
