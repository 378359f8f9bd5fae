#include "ros2s/fabric/endpoint.h"

#include <algorithm>
#include <cstring>

#include "ros2s/runtime/frame_pool.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::fabric {

void Message::take(Message& other) noexcept {
    endpoint_ = std::exchange(other.endpoint_, nullptr);
    memory_ = std::exchange(other.memory_, nullptr);
    size_ = std::exchange(other.size_, 0);
    reserved_ = std::exchange(other.reserved_, 0);
}

void Message::release() noexcept {
    if (endpoint_ == nullptr) return;
    endpoint_->released(*this);
    Endpoint::drop(memory_, size_);
    endpoint_ = nullptr;
    memory_ = nullptr;
    size_ = 0;
}

MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
    ROS2S_CHECK(endpoint_ == nullptr || this == &other);
    if (this != &other) {
        endpoint_ = std::exchange(other.endpoint_, nullptr);
        key_ = other.key_;
    }
    return *this;
}

MemoryRegion::~MemoryRegion() {
    if (endpoint_ == nullptr) return;
    // The peer could still write into memory that its owner has taken back.
    ROS2S_CHECK(!endpoint_->alive());
    --endpoint_->regions_;
}

Task<> MemoryRegion::revoke() {
    ROS2S_CHECK(endpoint_ != nullptr);
    const Endpoint::Use use(*endpoint_);
    endpoint_->counters_.revocations.add();
    co_await endpoint_->do_revoke(key_);
    --endpoint_->regions_;
    endpoint_ = nullptr;
}

Endpoint::Endpoint(Reactor& reactor, Counters& counters, Limits limits, bool initiates)
    : reactor_(reactor),
      counters_(counters),
      limits_(limits),
      initiates_(initiates),
      arrival_(reactor),
      end_event_(reactor),
      memory_event_(reactor),
      unused_(reactor) {
    unused_.set();
}

Endpoint::~Endpoint() {
    ROS2S_CHECK(uses_ == 0 && messages_out_ == 0 && regions_ == 0 && end_ != End::none);
    while (inbox_count_ > 0) {
        const Arrived& arrived = inbox_[inbox_first_];
        drop(arrived.memory, arrived.size);
        inbox_first_ = (inbox_first_ + 1) % inbox_capacity_;
        --inbox_count_;
    }
}

void BorrowedMessage::copy(uint64_t offset, Bytes into) const noexcept {
    ROS2S_CHECK(offset <= size() && into.size() <= size() - offset);
    const auto copy_part = [&into](ConstBytes from) {
        const size_t count = std::min(into.size(), from.size());
        if (count > 0) std::memcpy(into.data(), from.data(), count);
        into = into.subspan(count);
    };
    const uint64_t in_first = std::min<uint64_t>(offset, first_.size());
    copy_part(first_.subspan(in_first));
    copy_part(second_.subspan(offset - in_first));
}

bool Endpoint::offer(const BorrowedMessage& message) noexcept {
    if (reader_ == nullptr || !reader_->read(message)) return false;
    counters_.messages_received.add();
    counters_.message_bytes_received.add(message.size());
    return true;
}

std::byte* Endpoint::message_memory(size_t size) {
    return static_cast<std::byte*>(allocate_frame(std::max<size_t>(size, 1)));
}
void Endpoint::drop(std::byte* memory, size_t size) noexcept {
    free_frame(memory, std::max<size_t>(size, 1));
}

void Endpoint::deliver(std::byte* memory, size_t size) {
    if (inbox_count_ == inbox_capacity_) {
        const size_t capacity = std::max<size_t>(16, inbox_capacity_ * 2);
        auto larger = std::make_unique<Arrived[]>(capacity);
        for (size_t i = 0; i < inbox_count_; ++i) {
            larger[i] = inbox_[(inbox_first_ + i) % inbox_capacity_];
        }
        inbox_ = std::move(larger);
        inbox_capacity_ = capacity;
        inbox_first_ = 0;
    }
    inbox_[(inbox_first_ + inbox_count_) % inbox_capacity_] = {memory, size};
    ++inbox_count_;
    counters_.messages_received.add();
    counters_.message_bytes_received.add(size);
    arrival_.wake_all();
}

bool Endpoint::try_receive(Message& into) {
    if (inbox_count_ == 0) return false;
    // After the end there is no peer to answer, and so nothing to reserve.
    const uint64_t reserve =
        alive() && limits_.reply_bytes > 0 ? limits_.reply_bytes + reply_overhead_ : 0;
    if (reserve > 0 && outgoing_room() < reserved_ + reserve) {
        waits_for_answer_room_ = true;
        return false;
    }
    const Arrived arrived = inbox_[inbox_first_];
    inbox_first_ = (inbox_first_ + 1) % inbox_capacity_;
    --inbox_count_;
    Message message;
    message.endpoint_ = this;
    message.memory_ = arrived.memory;
    message.size_ = arrived.size;
    message.reserved_ = reserve;
    reserved_ += reserve;
    ++messages_out_;
    into = std::move(message);
    return true;
}

Task<Result<Message>> Endpoint::receive(StopToken stop) {
    const Use use(*this);
    Message message;
    if (try_receive(message)) co_return message;
    const WakeOnStop wake(stop, arrival_);
    while (!try_receive(message)) {
        if (!alive()) co_return fail(Code::disconnected);
        if (stop.stop_requested()) co_return fail(Code::cancelled);
        co_await arrival_;
    }
    co_return message;
}

void Endpoint::released(Message& message) noexcept {
    --messages_out_;
    reserved_ -= message.reserved_;
    on_released(message.size_);
    if (message.reserved_ > 0) room_came();
}

Result<> Endpoint::reply(Message& request, ConstBytes head, ConstBytes body) {
    ROS2S_CHECK(request.endpoint_ == this);
    if (!alive()) return fail(Code::disconnected);
    const uint64_t size = head.size() + body.size();
    // Nothing is reserved if it was answered, or was not a request.
    if (request.reserved_ == 0) return fail(Code::too_large);
    // Its own room, and what no other reply may need.
    const uint64_t others = reserved_ - request.reserved_;
    const bool has_room = size + reply_overhead_ <= request.reserved_ ||
                          others + size + reply_overhead_ <= outgoing_room();
    if (!has_room) return fail(Code::too_large, request.reserved_ - reply_overhead_);
    if (size > send_bytes_max_) return fail(Code::too_large, send_bytes_max_);
    reserved_ -= std::exchange(request.reserved_, 0);
    ROS2S_TRY(do_reply(head, body));
    counters_.messages_sent.add();
    counters_.message_bytes_sent.add(size);
    room_came();
    return {};
}

Result<MemoryRegion> Endpoint::grant(Bytes memory, Rights rights, RegionOptions options) {
    if (initiates_) return fail(Code::denied);
    if (!alive()) return fail(Code::disconnected);
    ROS2S_TRY_ASSIGN(const RemoteKey key, do_grant(memory, rights, options));
    MemoryRegion region;
    region.endpoint_ = this;
    region.key_ = key;
    ++regions_;
    counters_.grants.add();
    return region;
}

Result<Mapping> Endpoint::map(const RemoteKey& key, uint64_t offset, uint64_t count, Rights right) {
    if (!initiates_) return refuse(Refusal::initiator);
    if (!alive()) return fail(Code::disconnected);
    Mapping mapping;
    ROS2S_TRY_ASSIGN(mapping.bytes_, do_map(key, offset, count, right));
    mapping.endpoint_ = this;
    mapping.slot_ = key.slot;
    begin_use();
    counters_.maps.add();
    counters_.mapped_bytes.add(count);
    return mapping;
}

Result<> Endpoint::ask_for_memory(uint64_t /*size*/) {
    return fail(Code::no_memory, limits_.memory_bytes_max);
}

Result<Bytes> Endpoint::do_map(const RemoteKey&, uint64_t, uint64_t, Rights) {
    return fail(Code::unsupported);
}
void Endpoint::do_unmap(uint32_t) noexcept {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
    if (this != &other) {
        end();
        endpoint_ = std::exchange(other.endpoint_, nullptr);
        slot_ = other.slot_;
        bytes_ = std::exchange(other.bytes_, {});
    }
    return *this;
}

void Mapping::end() noexcept {
    if (endpoint_ == nullptr) return;
    Endpoint& endpoint = *std::exchange(endpoint_, nullptr);
    bytes_ = {};
    endpoint.do_unmap(slot_);
    endpoint.end_use();
}

void Endpoint::end(End how) noexcept {
    if (end_ != End::none) return;
    end_ = how;
    counters_.of(how).add();
    on_end();
    end_event_.set();
    arrival_.wake_all();
}

Task<> Endpoint::unused() { co_await unused_; }

std::unexpected<Error> Endpoint::refuse(Refusal refusal) noexcept {
    counters_.of(refusal).add();
    return std::unexpected(to_error(refusal));
}

}  // namespace ros2s::fabric
