#include "message_transfers.h"

#include <algorithm>
#include <cstring>

#include "message_worker.h"
#include "ros2s/base/check.h"

namespace ros2s::fabric::ofi {

MessageTransfers::~MessageTransfers() { ROS2S_CHECK(moves_.empty() && exposed_.empty()); }

Result<Exposed> MessageTransfers::expose(Bytes memory, Rights rights) {
    const uint64_t access = (allows(rights, Rights::read) ? FI_REMOTE_READ : 0) |
                            (allows(rights, Rights::write) ? FI_REMOTE_WRITE : 0);
    Handle<fid_mr> made;
    const int status = make(made, fi_mr_reg, worker_.context().domain(), memory.data(),
                            memory.size(), access, 0, 0, 0);
    if (status != 0) return fail(status == -FI_ENOMEM ? Code::no_memory : Code::invalid);
    const uint64_t key = fi_mr_key(made.get());
    exposed_[key] = std::move(made);
    return Exposed{.address = reinterpret_cast<uint64_t>(memory.data()), .key = key};
}

Task<Result<>> MessageTransfers::write(Exposed to, ConstBytes from, PutReturns returns,
                                       const bool& revoked) {
    Move move{.at = to,
              .revoked = &revoked,
              .from = from.data(),
              .left = from.size(),
              .waits = returns == PutReturns::placed};
    co_return co_await perform(move);
}

Task<Result<>> MessageTransfers::read(Exposed from, Bytes into, const bool& revoked) {
    Move move{.at = from, .revoked = &revoked, .into = into.data(), .left = into.size()};
    co_return co_await perform(move);
}

Task<Result<>> MessageTransfers::perform(Move& move) {
    struct Wait {
        Move& move;
        bool await_ready() const noexcept { return move.ended; }
        void await_suspend(std::coroutine_handle<> handle) const noexcept { move.waiter = handle; }
        void await_resume() const noexcept {}
    };
    if (stopped_) co_return fail(Code::disconnected);
    if (move.left == 0) co_return Result<>{};
    moves_.push_back(&move);
    due_.push_back(&move);
    worker_.mark_busy();
    lane_.hand_over();
    co_await Wait{move};
    std::erase(moves_, &move);
    co_return move.result;
}

void MessageTransfers::finish(Move& move) noexcept {
    if (move.left > 0 || move.under_way > 0 || std::exchange(move.ended, true)) return;
    if (move.waiter) worker_.reactor().post(move.waiter);
}

bool MessageTransfers::post_next(fid_ep* endpoint) noexcept {
    Move& move = *due_.front();
    due_.pop_front();
    if (*move.revoked) {
        move.result = fail(Code::stale);
        move.left = 0;
        finish(move);
        return true;
    }
    PacketBuffer* const buffer = worker_.buffers().take();
    if (buffer == nullptr) return false;
    const size_t count = std::min(move.left, PacketBuffer::size);
    buffer->lane = &lane_;
    buffer->use = move.from != nullptr ? PacketBuffer::Use::write : PacketBuffer::Use::read;
    buffer->move = move.waits ? &move : nullptr;
    buffer->into = move.into;
    buffer->count = count;
    ssize_t status = 0;
    if (move.from != nullptr) {
        std::memcpy(buffer->bytes, move.from, count);
        status = fi_write(endpoint, buffer->bytes, count, buffer->descriptor, 0, move.at.address,
                          move.at.key, buffer);
        move.from += count;
    } else {
        status = fi_read(endpoint, buffer->bytes, count, buffer->descriptor, 0, move.at.address,
                         move.at.key, buffer);
        move.into += count;
    }
    if (status != 0) {
        worker_.buffers().give(*buffer);
        return false;
    }
    ++pieces_;
    if (move.waits) ++move.under_way;
    move.at.address += count;
    move.left -= count;
    if (move.left > 0) due_.push_back(&move);
    finish(move);
    return true;
}

void MessageTransfers::completed(PacketBuffer& buffer, bool well) noexcept {
    --pieces_;
    if (buffer.move == nullptr) return;
    Move& move = *buffer.move;
    if (!well) {
        move.result = fail(Code::disconnected);
    } else if (buffer.use == PacketBuffer::Use::read) {
        std::memcpy(buffer.into, buffer.bytes, buffer.count);
    }
    --move.under_way;
    finish(move);
}

void MessageTransfers::stop() noexcept {
    stopped_ = true;
    // Before our memory is withdrawn, so that the peer sees the end and not a refusal.
    if (!exposed_.empty()) lane_.disconnect();
    worker_.buffers().forget_moves(lane_);
    due_.clear();
    for (Move* move : moves_) {
        if (move->ended) continue;
        move->result = fail(Code::disconnected);
        move->left = 0;
        move->under_way = 0;
        finish(*move);
    }
}

}  // namespace ros2s::fabric::ofi
