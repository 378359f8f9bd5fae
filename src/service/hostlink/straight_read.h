// StraightRead: a small read of a host that goes from its frame to the engine's and back without a
// coroutine. begin() and fetched() are all of it. Every read for which something else is needed
// goes through LinkServer::serve(), and NotStraight says why.
//
// A record of the LinkServer, used for one request after another, on its core. While it is in
// progress it holds the session and the mount, as every request does: their end waits for it. The
// request's stop token stops it: the host's cancellation, the end of the connection, revocation.
// Admission has let the request in, and waits for its end.
//
// Invariants
// - The host's frame is a private copy before anything in it is looked at.
// - A request that was begun and is not answered at the end is served in the general way.
#pragma once
#include <coroutine>
#include <optional>

#include "link_server.h"
#include "ros2s/object/object_store.h"

namespace ros2s::hostlink {

class StraightRead final : public object::PostedFetch {
  public:
    explicit StraightRead(LinkServer& server) : server_(server) {}

    // Without a value: it has begun, and posts `waiter` at its end. Otherwise nothing was begun.
    std::optional<NotStraight> begin(rpc::Request& asked, std::coroutine_handle<> waiter);

  private:
    // Stops it.
    struct Stop : StopCallback {
        Stop(StopToken token, StraightRead& stopped) noexcept
            : StopCallback(token.source(), fire), read(stopped) {}
        static void fire(StopCallback& self) noexcept;
        StraightRead& read;
    };
    void fetched(const Payload& payload) noexcept override;
    void lost() noexcept override;
    void end() noexcept;

    LinkServer& server_;
    rpc::Request* request_ = nullptr;
    std::coroutine_handle<> waiter_;
    std::optional<LinkServer::MountInUse> entered_;
    std::optional<Stop> stop_;
    fs::FileHandle handle_{};
    object::FetchItem item_;
    Buffer answer_;
};

}  // namespace ros2s::hostlink
