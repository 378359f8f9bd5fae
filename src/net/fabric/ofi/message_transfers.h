// MessageTransfers: puts and gets of one message endpoint, executed by the adapter. Their pieces
// take turns and go through registered buffers, as writes to and reads of the peer's memory. Also
// the part of our memory that the peer may access, registered for exactly its range and right.
#pragma once
#include <rdma/fi_rma.h>

#include <deque>
#include <unordered_map>
#include <vector>

#include "ofi_library.h"
#include "packet_buffers.h"
#include "ros2s/fabric/packet/wire.h"

namespace ros2s::fabric::ofi {

class MessageWorker;

// One put or get. Is part of its coroutine's frame.
struct Move {
    Exposed at;  // where the rest of it is
    const bool* revoked;
    const std::byte* from = nullptr;  // put
    std::byte* into = nullptr;        // get
    size_t left = 0;
    bool waits = true;     // until the adapter reports that all is done
    size_t under_way = 0;  // pieces that it waits for
    bool ended = false;
    Result<> result{};
    std::coroutine_handle<> waiter{};
};

class MessageTransfers final : public OneSided {
  public:
    MessageTransfers(MessageWorker& worker, MessageLane& lane) : worker_(worker), lane_(lane) {}
    MessageTransfers& operator=(MessageTransfers&&) = delete;
    ~MessageTransfers();

    Result<Exposed> expose(Bytes memory, Rights rights) override;
    void withdraw(uint64_t key) noexcept override { exposed_.erase(key); }
    Task<Result<>> write(Exposed to, ConstBytes from, PutReturns returns,
                         const bool& revoked) override;
    Task<Result<>> read(Exposed from, Bytes into, const bool& revoked) override;
    void stop() noexcept override;

    // For the lane. Whether a piece may go to the adapter now.
    [[nodiscard]] bool due() const noexcept { return !due_.empty() && pieces_ < pieces_max; }
    // Pieces that the adapter has.
    [[nodiscard]] size_t pieces() const noexcept { return pieces_; }
    // Gives the adapter one piece; false if it refuses.
    [[nodiscard]] bool post_next(fid_ep* endpoint) noexcept;
    void completed(PacketBuffer& buffer, bool well) noexcept;

  private:
    // Pieces that the adapter has at a time. A revocation may have to wait for them.
    static constexpr size_t pieces_max = 8;

    Task<Result<>> perform(Move& move);
    void finish(Move& move) noexcept;

    MessageWorker& worker_;
    MessageLane& lane_;
    std::unordered_map<uint64_t, Handle<fid_mr>> exposed_;  // by their keys
    std::vector<Move*> moves_;
    std::deque<Move*> due_;  // those with pieces to post
    size_t pieces_ = 0;
    bool stopped_ = false;
};

}  // namespace ros2s::fabric::ofi
