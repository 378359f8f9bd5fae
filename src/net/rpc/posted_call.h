// PostedCall: a small read of a server that no coroutine awaits. Its request and its reply are one
// message each. The reply is read where it arrived.
//
//     Channel::post() ─ false: call() has to do it
//           └─ true ─► one of: replied() · lost() · after drop(): nothing
//
// Owned by the caller, and outlives the call. Used on the channel's core. It may be posted again
// when it has ended.
#pragma once
#include <cstdint>
#include <utility>

#include "ros2s/base/check.h"
#include "ros2s/fabric/endpoint.h"
#include "ros2s/rpc/frame.h"

namespace ros2s::rpc {

struct PostedRequest {
    uint16_t method = 0;
    UpdateName id{};
    ConstBytes body;             // copied
    uint64_t payload_bytes = 0;  // of the reply, at most
    uint64_t reply_body_bytes_max = 0;
};

// Valid until replied() returns. `body` is a private copy. The server may change the payload at any
// time: copy it once, and look at the copy only.
struct PostedReply {
    ConstBytes body;
    std::pair<ConstBytes, ConstBytes> payload;  // the second part continues the first
};

class ClientConnection;

class PostedCall {
  public:
    PostedCall& operator=(PostedCall&&) = delete;

    // Asks the server to stop. Nothing follows.
    void drop() noexcept;

  protected:
    ~PostedCall() { ROS2S_CHECK(connection_ == nullptr); }
    // The server has done it.
    virtual void replied(const PostedReply& reply) noexcept = 0;
    // The server refused it, or the connection ended before the reply came. call() finds out which.
    virtual void lost() noexcept = 0;

  private:
    friend class ClientConnection;
    ClientConnection* connection_ = nullptr;  // while it is posted
    uint32_t slot_ = 0;
};

}  // namespace ros2s::rpc
