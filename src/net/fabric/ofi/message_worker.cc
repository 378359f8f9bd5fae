#include "message_worker.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ros2s/base/check.h"

namespace ros2s::fabric::ofi {

MessageWorker::MessageWorker(Reactor& reactor, Counters& counters, MessageContext context)
    : Worker(reactor, counters), context_(std::move(context)), slots_(context_.domain()) {}

MessageWorker::~MessageWorker() { ROS2S_CHECK(lanes_.empty()); }

Task<> MessageWorker::end() {
    slots_.reclaim();
    co_return;
}

Result<std::unique_ptr<lanes::Lane>> MessageWorker::open_lane(const lanes::Ends& ends,
                                                              lanes::LaneUser& user) {
    if (lanes_.size() >= MessageContext::endpoints_max) return fail(Code::no_memory);
    auto lane = std::make_unique<MessageLane>(*this, ends, user);
    if (!ends.connects) return lane;
    if (auto connecting = lane->connect(ends.peer.address); !connecting) {
        lane->leave();
        (void)lane->wind_up(true);
        return fail(connecting.error());
    }
    return lane;
}

bool MessageWorker::read_error() noexcept {
    fi_cq_err_entry error{};
    if (fi_cq_readerr(context_.completions(), &error, 0) <= 0) return false;
    constexpr int remote_access_error = 10;  // IBV_WC_REM_ACCESS_ERR
    auto* const buffer = static_cast<PacketBuffer*>(error.op_context);
    if (buffer != nullptr && buffer->lane != nullptr) {
        buffer->lane->completed(*buffer, 0,
                                error.prov_errno == remote_access_error
                                    ? MessageLane::Outcome::refused
                                    : MessageLane::Outcome::lost);
    }
    return true;
}

bool MessageWorker::read_completions() noexcept {
    std::array<fi_cq_msg_entry, read_at_once> entries;
    const ssize_t count = fi_cq_read(context_.completions(), entries.data(), entries.size());
    if (count == -FI_EAVAIL) return read_error();
    for (ssize_t i = 0; i < count; ++i) {
        const fi_cq_msg_entry& entry = entries[static_cast<size_t>(i)];
        auto* const buffer = static_cast<PacketBuffer*>(entry.op_context);
        if (buffer->lane != nullptr)
            buffer->lane->completed(*buffer, entry.len, MessageLane::Outcome::well);
    }
    return count > 0;
}

void MessageWorker::finish_ends() noexcept {
    if (slots_.has_orphans()) slots_.reclaim();
    for (MessageLane* lane : lanes_) {
        if (lane->has_left()) lane->fail(End::peer_died);
    }
}

MessageLane* MessageWorker::lane_of(const fid* endpoint) noexcept {
    const auto found =
        std::ranges::find_if(lanes_, [&](const MessageLane* lane) { return lane->is(endpoint); });
    return found != lanes_.end() ? *found : nullptr;
}

void MessageWorker::asked(fi_info& request, ConstBytes data) noexcept {
    ConnectionRequest asked;
    MessageLane* lane = nullptr;
    // The adapter pads the data.
    if (data.size() >= sizeof asked) {
        std::memcpy(&asked, data.data(), sizeof asked);
        const auto found = std::ranges::find_if(
            lanes_, [&](const MessageLane* each) { return each->waits_for(asked.channel); });
        if (asked.magic == ConnectionRequest::magic_value && found != lanes_.end()) lane = *found;
    }
    if (lane != nullptr) {
        lane->accept(request);
    } else {
        refuse();
        context_.reject(request);
    }
    context_.free(&request);
}

bool MessageWorker::read_events() noexcept {
    // The data of a request follow the entry.
    alignas(fi_eq_cm_entry) std::array<std::byte, sizeof(fi_eq_cm_entry) + 256> read{};
    uint32_t event = 0;
    const ssize_t length = fi_eq_read(context_.events(), &event, read.data(), read.size(), 0);
    if (length == -FI_EAVAIL) {
        fi_eq_err_entry error{};
        if (fi_eq_readerr(context_.events(), &error, 0) <= 0) return false;
        if (MessageLane* const lane = lane_of(error.fid)) lane->fail(End::peer_died);
        return true;
    }
    if (length < static_cast<ssize_t>(sizeof(fi_eq_cm_entry))) return false;
    const auto& entry = *reinterpret_cast<const fi_eq_cm_entry*>(read.data());
    if (event == FI_CONNREQ) {
        asked(*entry.info, ConstBytes(read)
                               .first(static_cast<size_t>(length))
                               .subspan(offsetof(fi_eq_cm_entry, data)));
        return true;
    }
    MessageLane* const lane = lane_of(entry.fid);
    if (lane == nullptr) return true;
    if (event == FI_CONNECTED) lane->connected();
    if (event == FI_SHUTDOWN) lane->left();
    return true;
}

bool MessageWorker::progress() noexcept {
    bool found = read_completions();
    if (!found) finish_ends();
    if (++looks_ % looks_between_events == 0 && read_events()) {
        --looks_;  // more may follow
        found = true;
    }
    return found;
}

bool MessageWorker::arm_events() noexcept {
    looks_ = looks_between_events - 1;  // after a wake-up, look at both queues
    return !read_events() && context_.may_sleep();
}

}  // namespace ros2s::fabric::ofi
