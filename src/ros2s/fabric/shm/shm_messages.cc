// Messages over the rings: whole where there is room for it, in pieces where they are large.
#include <algorithm>

#include "shm_endpoint.h"

namespace ros2s::fabric::shm {
namespace {

// Pieces of a large message are at least this, unless it is the last.
constexpr uint64_t piece_bytes_least = 4096;

}  // namespace

// What answers have reserved is not for others.
uint64_t ShmEndpoint::room_for_sends() const noexcept {
    return out_.room() - std::min(out_.room(), reserved_for_replies());
}

bool ShmEndpoint::write_whole(ConstBytes head, ConstBytes body) noexcept {
    const uint64_t size = head.size() + body.size();
    if (entry_bytes(size) > room_for_sends()) return false;
    out_.write(
        {.type = Packet::Type::message, .length = static_cast<uint32_t>(size), .operation = size},
        head, body);
    wake_for_ |= wants_entries;
    return true;
}

Task<Result<>> ShmEndpoint::send(ConstBytes head, ConstBytes body, StopToken stop) {
    const Use use(*this);
    const uint64_t size = head.size() + body.size();
    if (size > send_bytes_max_) co_return fail(Code::too_large, send_bytes_max_);
    if (!alive()) co_return fail(Code::disconnected);
    if (stop.stop_requested()) co_return fail(Code::cancelled);
    if (first_ != nullptr || !write_whole(head, body)) {
        struct Wait : StopCallback {
            Wait(StopToken token, ShmEndpoint& self, Outgoing& queued) noexcept
                : StopCallback(token.source(), fire), endpoint(self), outgoing(queued) {}
            static void fire(StopCallback& callback) noexcept {
                auto& wait = static_cast<Wait&>(callback);
                // What has begun stays, and what the end woke is not queued any more.
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
            ShmEndpoint& endpoint;
            Outgoing& outgoing;
            bool cancelled = false;
        };
        counters_.waits_for_room.add();
        Outgoing outgoing{.head = head, .body = body};
        Wait wait(stop, *this, outgoing);
        co_await wait;
        if (wait.cancelled) co_return fail(Code::cancelled);
        if (!outgoing.done) co_return fail(Code::disconnected);
    }
    counters_.messages_sent.add();
    counters_.message_bytes_sent.add(size);
    co_return Result<>{};
}

// The room was reserved when the request was taken in, and sends leave it alone.
Result<> ShmEndpoint::do_reply(ConstBytes head, ConstBytes body) {
    const uint64_t size = head.size() + body.size();
    out_.write(
        {.type = Packet::Type::message, .length = static_cast<uint32_t>(size), .operation = size},
        head, body);
    wake_for_ |= wants_entries;
    return {};
}

void ShmEndpoint::push(Outgoing& outgoing) noexcept {
    (last_ != nullptr ? last_->next : first_) = &outgoing;
    last_ = &outgoing;
    drained_.reset();
}

void ShmEndpoint::unlink(Outgoing& outgoing) noexcept {
    Outgoing* before = nullptr;
    for (Outgoing* each = first_; each != &outgoing; each = each->next) before = each;
    (before != nullptr ? before->next : first_) = outgoing.next;
    if (last_ == &outgoing) last_ = before;
    if (first_ == nullptr) drained_.set();
}

bool ShmEndpoint::push_queue() noexcept {
    bool any = false;
    while (first_ != nullptr) {
        Outgoing& outgoing = *first_;
        const bool small = entry_bytes(outgoing.size()) <= out_.size() / 4;
        if (small ? !write_whole(outgoing.head, outgoing.body) : !write_piece(outgoing)) break;
        any = true;
        if (!small && outgoing.sent < outgoing.size()) continue;
        unlink(outgoing);
        outgoing.done = true;
        reactor_.post(outgoing.waiter);
    }
    return any;
}

// The next piece of a large message.
bool ShmEndpoint::write_piece(Outgoing& outgoing) noexcept {
    const uint64_t room = room_for_sends();
    const uint64_t left = outgoing.size() - outgoing.sent;
    if (room < entry_bytes(std::min(left, piece_bytes_least))) return false;
    const uint64_t count =
        std::min({left, room - sizeof(Packet) - entry_alignment, out_.size() / 4});
    const uint64_t from = outgoing.sent;
    ConstBytes head;
    ConstBytes body;
    if (from < outgoing.head.size()) {
        head = outgoing.head.subspan(from, std::min<uint64_t>(count, outgoing.head.size() - from));
    }
    if (head.size() < count) {
        body =
            outgoing.body.subspan(from + head.size() - outgoing.head.size(), count - head.size());
    }
    out_.write({.type = Packet::Type::message,
                .length = static_cast<uint32_t>(count),
                .operation = outgoing.size(),
                .offset = from},
               head, body);
    outgoing.sent += count;
    wake_for_ |= wants_entries;
    return true;
}

bool ShmEndpoint::take(uint64_t most, bool last) noexcept {
    uint64_t taken = 0;
    while (taken < most && in_.available() > 0 && take_one(last) == Took::yes) ++taken;
    if (taken == 0) return !alive();
    in_.publish();
    wake_for_ |= wants_room;
    return true;
}

// The peer's bytes: the header is a private copy, and nothing is looked at twice.
ShmEndpoint::Took ShmEndpoint::take_one(bool last) noexcept {
    const Packet header = in_.header();
    const uint64_t size = header.operation;
    if (header.type != Packet::Type::message || !fabric::makes_sense(header) ||
        entry_bytes(header.length) > in_.available()) {
        end(End::violation);
        return Took::ended;
    }
    const bool whole = header.length == size;
    const bool begins = header.offset == 0;
    if (begins) {
        if (size > limits_.message_bytes_max) {
            end(End::over_budget);
            return Took::ended;
        }
        // It stays in the ring, and with it what follows, until messages were released.
        if (!last && held_ + size + message_overhead > limits_.incoming_bytes_max) {
            return Took::later;
        }
    }
    // An answer may come between the pieces of a large message; another large one may not.
    if (whole ? false : begins != (assembling_ == nullptr)) {
        end(End::violation);
        return Took::ended;
    }
    if (whole) {
        std::byte* memory = message_memory(size);
        in_.take(header, memory);
        held_ += size + message_overhead;
        deliver(memory, size);
        return Took::yes;
    }
    if (begins) {
        held_ += size + message_overhead;
        assembling_ = message_memory(size);
        assembling_size_ = size;
        assembling_have_ = 0;
    }
    if (size != assembling_size_ || header.offset != assembling_have_) {
        end(End::violation);
        return Took::ended;
    }
    in_.take(header, assembling_ + assembling_have_);
    assembling_have_ += header.length;
    if (assembling_have_ == size) deliver(std::exchange(assembling_, nullptr), size);
    return Took::yes;
}

}  // namespace ros2s::fabric::shm
