#include "ros2s/fabric/packet/packet_endpoint.h"

#include <algorithm>
#include <new>

#include "ros2s/runtime/nursery.h"

namespace ros2s::fabric {

void Flusher::add(PacketEndpoint& endpoint) { dirty_.push_back(&endpoint); }
void Flusher::remove(PacketEndpoint& endpoint) noexcept { std::erase(dirty_, &endpoint); }

Flusher::~Flusher() {
    ROS2S_CHECK(dirty_.empty());
    while (idle_ != nullptr) delete std::exchange(idle_, idle_->next);
}

Frame& Flusher::take_frame() {
    if (idle_ == nullptr) return *new Frame;  // its bytes are not initialised
    --idle_count_;
    return *std::exchange(idle_, idle_->next);
}

void Flusher::give_frame(Frame& frame) noexcept {
    if (idle_count_ == idle_frames_max) {
        delete &frame;
        return;
    }
    frame.next = idle_;
    idle_ = &frame;
    ++idle_count_;
}

bool Flusher::flush() noexcept {
    bool found = false;
    while (!dirty_.empty()) {
        PacketEndpoint& endpoint = *dirty_.back();
        dirty_.pop_back();
        found |= endpoint.flush();
    }
    return found;
}

Limits PacketEndpoint::normalized(Limits limits) noexcept {
    limits = MessageEndpoint::normalized(limits);
    limits.operations_max = std::clamp<uint32_t>(limits.operations_max, 1, 65536);
    return limits;
}

Hello PacketEndpoint::introduce(const Domain& domain, const Limits& limits) {
    Hello hello{.domain = domain.id(),
                .message_bytes_max = limits.message_bytes_max,
                .incoming_bytes_max = limits.incoming_bytes_max,
                .operations_max = limits.operations_max};
    hello.set_provider(domain.provider());
    return hello;
}

PacketEndpoint::PacketEndpoint(Reactor& reactor, Counters& counters, Flusher& flusher,
                               Limits limits, PacketConnection session, std::unique_ptr<Wire> wire)
    : MessageEndpoint(reactor, counters, normalized(limits), session.initiates),
      session_info_(std::move(session)),
      flusher_(flusher),
      wire_(std::move(wire)),
      one_sided_(wire_->one_sided()),
      frame_bytes_max_(wire_->frame_bytes_max()),
      credit_(session_info_.peer.incoming_bytes_max),
      operation_slots_(reactor, std::clamp<uint32_t>(session_info_.peer.operations_max, 1,
                                                     limits_.operations_max)),
      operations_(limits_.operations_max),
      grants_(session_info_.domain, session_info_.session, limits_.regions_max),
      peer_regions_(session_info_.peer.domain, session_info_.session, limits_.regions_max),
      drained_(reactor) {
    ROS2S_CHECK(frame_bytes_max_ >= 3 * piece_bytes_least && frame_bytes_max_ <= frame_bytes);
    drained_.set();
    peer_.name = session_info_.peer_name;
    peer_.domain = session_info_.peer.domain;
    Endpoint::session_ = session_info_.session;
    // A peer with contradictory limits could make a message wait for ever.
    send_bytes_max_ = std::min(session_info_.peer.message_bytes_max,
                               credit_ < 2 * message_overhead ? 0 : credit_ / 2 - message_overhead);
    for (uint32_t i = limits_.operations_max; i-- > 0;) operations_free_.push_back(i);
    counters_.connections.add();
    wire_->start(*this);
}

PacketEndpoint::~PacketEndpoint() { ROS2S_CHECK(closed_); }

Result<Bytes> PacketEndpoint::allocate(uint64_t size) {
    if (initiates()) return fail(Code::denied);
    if (size > limits_.memory_bytes_max - allocated_) {
        return fail(Code::no_memory, limits_.memory_bytes_max);
    }
    if (size == 0) return Bytes{};
    void* memory = ::operator new(size, std::align_val_t{block_bytes}, std::nothrow);
    if (memory == nullptr) return fail(Code::no_memory, limits_.memory_bytes_max);
    std::memset(memory, 0, size);
    allocated_ += size;
    return Bytes{static_cast<std::byte*>(memory), size};
}

void PacketEndpoint::free(Bytes memory) noexcept {
    allocated_ -= memory.size();
    ::operator delete(memory.data(), std::align_val_t{block_bytes});
}

Result<RemoteKey> PacketEndpoint::do_grant(Bytes memory, Rights rights,
                                           const RegionOptions& options) {
    ROS2S_TRY_ASSIGN(const RemoteKey key,
                     grants_.grant(memory, rights, options.lease, options.expires));
    if (one_sided_ == nullptr) return key;
    return expose(key, memory, rights, options.expires);
}

Task<> PacketEndpoint::do_revoke(RemoteKey key) {
    if (one_sided_ != nullptr) co_await fence(key);
    // If our own code copies, it does so one piece at a time and never across a suspension: from
    // here on it copies nothing.
    grants_.revoke(key.slot, key.generation);
}

uint64_t PacketEndpoint::outgoing_room() const noexcept {
    return limits_.outgoing_bytes_max - std::min(limits_.outgoing_bytes_max, replies_bytes_);
}

Result<> PacketEndpoint::do_reply(ConstBytes head, ConstBytes body) {
    if (first() == nullptr && write_at_once(head, body)) return {};
    replies_bytes_ += head.size() + body.size();
    queue_copy(head, body);
    return {};
}

Task<Result<>> PacketEndpoint::perform(Operation& operation) {
    struct Wait {
        PacketEndpoint& endpoint;
        Operation& operation;
        bool await_ready() const noexcept { return operation.answered; }
        void await_suspend(std::coroutine_handle<> handle) const noexcept {
            operation.waiter = handle;
        }
        void await_resume() const noexcept {}
    };
    const Use use(*this);
    if (!initiates()) co_return refuse(Refusal::initiator);
    if (!operation.key.check()) co_return refuse(Refusal::malformed);
    co_await operation_slots_.acquire();
    const SemaphoreHold hold(operation_slots_);
    if (!alive()) co_return fail(Code::disconnected);
    const uint32_t place = operations_free_.back();
    operations_free_.pop_back();
    operation.id = ++operations_made_ << 16 | place;
    operations_[place] = &operation;
    puts_.push_back(&operation);
    drained_.reset();
    want_flush();
    co_await Wait{*this, operation};
    operations_[place] = nullptr;
    operations_free_.push_back(place);
    co_return operation.result;
}

PacketEndpoint::Operation* PacketEndpoint::find(uint64_t id) noexcept {
    const uint64_t place = id & 0xffff;
    if (place >= operations_.size()) return nullptr;
    Operation* operation = operations_[place];
    return operation != nullptr && operation->id == id ? operation : nullptr;
}

void PacketEndpoint::complete(Operation& operation) noexcept {
    if (operation.answered) return;
    operation.answered = true;
    std::erase(puts_, &operation);
    if (operation.waiter) reactor_.post(operation.waiter);
}

Task<Result<>> PacketEndpoint::put(const RemoteKey& key, uint64_t offset, ConstBytes from,
                                   PutReturns returns) {
    if (one_sided_ != nullptr) {
        co_return co_await put_by_adapter(key, offset, from, returns);
    }
    Operation operation{.key = key,
                        .offset = offset,
                        .from = from,
                        .is_put = true,
                        .wants_answer = returns == PutReturns::placed};
    ROS2S_CO_TRY(co_await perform(operation));
    counters_.puts.add();
    counters_.put_bytes.add(from.size());
    co_return Result<>{};
}

Task<Result<>> PacketEndpoint::get(const RemoteKey& key, uint64_t offset, Bytes into) {
    if (one_sided_ != nullptr) co_return co_await get_by_adapter(key, offset, into);
    Operation operation{.key = key, .offset = offset, .into = into};
    ROS2S_CO_TRY(co_await perform(operation));
    counters_.gets.add();
    counters_.get_bytes.add(into.size());
    co_return Result<>{};
}

void PacketEndpoint::on_end() noexcept {
    wire_->shut();
    if (one_sided_ != nullptr) one_sided_->stop();
    grants_.revoke_all();
    notices_.clear();
    for (Fence* fence : fences_) fence->changed.wake_all();
    end_queue();
    replies_bytes_ = 0;
    served_.clear();
    dones_.clear();
    for (Operation* operation : operations_) {
        if (operation == nullptr || operation->answered) continue;
        operation->result = fail(Code::disconnected);
        complete(*operation);
    }
    drained_.set();
}

Task<> PacketEndpoint::close() {
    if (alive()) {
        goodbye_due_ = true;
        drained_.reset();
        want_flush();
        struct Timeout {
            static Task<> run(PacketEndpoint& self, StopToken stop) {
                if (co_await sleep_for(self.reactor_, self.limits_.answer_within, stop)) {
                    self.end(End::closed_here);
                }
            }
        };
        StopSource stop;
        Nursery nursery(reactor_, 1);
        co_await nursery.spawn(Timeout::run(*this, stop.token()));
        co_await drained_;
        if (alive()) co_await wire_->farewell();
        stop.request_stop();
        co_await nursery.join();
        end(End::closed_here);
    }
    co_await unused();
    if (closed_) co_return;
    withdraw_all();
    co_await wire_->close();
    if (open_ != nullptr) flusher_.give_frame(*std::exchange(open_, nullptr));
    if (dirty_) flusher_.remove(*this);
    dirty_ = false;
    closed_ = true;
}

}  // namespace ros2s::fabric
