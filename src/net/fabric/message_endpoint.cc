#include "ros2s/fabric/message_endpoint.h"

#include <algorithm>
#include <new>

#include "ros2s/runtime/frame_pool.h"

namespace ros2s::fabric {

Limits MessageEndpoint::normalized(Limits limits) noexcept {
    limits.incoming_bytes_max =
        std::max(limits.incoming_bytes_max, 2 * (limits.message_bytes_max + message_overhead));
    return limits;
}

MessageEndpoint::~MessageEndpoint() {
    if (assembling_ != nullptr) drop(assembling_, assembling_size_);
}

struct MessageEndpoint::Wait : StopCallback {
    Wait(StopToken token, MessageEndpoint& self, Outgoing& queued) noexcept
        : StopCallback(token.source(), fire), endpoint(self), outgoing(queued) {}
    static void fire(StopCallback& callback) noexcept {
        auto& wait = static_cast<Wait&>(callback);
        // A message that has begun stays queued. One that the end woke is not in the queue any
        // more.
        if (wait.outgoing.sent > 0 || wait.outgoing.done || !wait.endpoint.alive()) return;
        wait.cancelled = true;
        wait.endpoint.unlink(wait.outgoing);
        wait.endpoint.reactor_.post(wait.outgoing.waiter);
    }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) noexcept {
        outgoing.waiter = handle;
        endpoint.push(outgoing);
    }
    void await_resume() const noexcept {}
    MessageEndpoint& endpoint;
    Outgoing& outgoing;
    bool cancelled = false;
};

Task<Result<>> MessageEndpoint::send(ConstBytes head, ConstBytes body, StopToken stop) {
    const Use use(*this);
    const uint64_t size = head.size() + body.size();
    if (size > send_bytes_max_) co_return fail(Code::too_large, send_bytes_max_);
    if (!alive()) co_return fail(Code::disconnected);
    if (stop.stop_requested()) co_return fail(Code::cancelled);
    if (send_at_once(head, body)) co_return Result<>{};
    counters_.waits_for_room.add();
    Outgoing outgoing{.head = head, .body = body};
    Wait wait(stop, *this, outgoing);
    co_await wait;
    if (wait.cancelled) co_return fail(Code::cancelled);
    if (!outgoing.done) co_return fail(Code::disconnected);
    counters_.messages_sent.add();
    counters_.message_bytes_sent.add(size);
    co_return Result<>{};
}

bool MessageEndpoint::send_at_once(ConstBytes head, ConstBytes body) noexcept {
    const uint64_t size = head.size() + body.size();
    if (size > send_bytes_max_ || !alive()) return false;
    if (first_ != nullptr || !write_at_once(head, body)) return false;
    counters_.messages_sent.add();
    counters_.message_bytes_sent.add(size);
    return true;
}

std::pair<ConstBytes, ConstBytes> MessageEndpoint::Outgoing::piece(uint64_t count) const noexcept {
    ConstBytes of_head, of_body;
    if (sent < head.size()) of_head = head.subspan(sent, std::min(count, head.size() - sent));
    if (of_head.size() < count) {
        of_body = body.subspan(sent + of_head.size() - head.size(), count - of_head.size());
    }
    return {of_head, of_body};
}

void MessageEndpoint::queue_copy(ConstBytes head, ConstBytes body) {
    const size_t size = head.size() + body.size();
    auto* memory = static_cast<std::byte*>(allocate_frame(sizeof(Outgoing) + size));
    auto* bytes = memory + sizeof(Outgoing);
    if (!head.empty()) std::memcpy(bytes, head.data(), head.size());
    if (!body.empty()) std::memcpy(bytes + head.size(), body.data(), body.size());
    push(*new (memory) Outgoing{.head = ConstBytes{bytes, size}});
}

void MessageEndpoint::release(Outgoing& outgoing) noexcept {
    if (outgoing.waiter) return reactor_.post(outgoing.waiter);
    free_frame(&outgoing, sizeof(Outgoing) + outgoing.head.size());
}

void MessageEndpoint::push(Outgoing& outgoing) noexcept {
    (last_ != nullptr ? last_->next : first_) = &outgoing;
    last_ = &outgoing;
    queue_changed(true);
}

void MessageEndpoint::unlink(Outgoing& outgoing) noexcept {
    Outgoing* before = nullptr;
    for (Outgoing* each = first_; each != &outgoing; each = each->next) before = each;
    (before != nullptr ? before->next : first_) = outgoing.next;
    if (last_ == &outgoing) last_ = before;
    queue_changed(false);
}

void MessageEndpoint::finish(Outgoing& outgoing) noexcept {
    unlink(outgoing);
    outgoing.done = true;
    release(outgoing);
}

void MessageEndpoint::end_queue() noexcept {
    while (first_ != nullptr) {
        Outgoing& outgoing = *first_;
        unlink(outgoing);
        release(outgoing);
    }
}

std::byte* MessageEndpoint::begin_whole(uint64_t size) {
    held_ += size + message_overhead;
    return message_memory(size);
}

void MessageEndpoint::begin_pieces(uint64_t size) {
    assembling_ = begin_whole(size);
    assembling_size_ = size;
    assembling_have_ = 0;
}

std::byte* MessageEndpoint::place_of_piece(uint64_t size, uint64_t offset) const noexcept {
    if (size != assembling_size_ || offset != assembling_have_) return nullptr;
    return assembling_ + offset;
}

void MessageEndpoint::took_piece(uint64_t count) {
    assembling_have_ += count;
    if (assembling_have_ == assembling_size_) {
        deliver(std::exchange(assembling_, nullptr), assembling_size_);
    }
}

}  // namespace ros2s::fabric
