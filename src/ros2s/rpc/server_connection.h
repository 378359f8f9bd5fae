// ServerConnection: one connection of a Server, that was let in, to its end. Lives in the frame of
// the task that runs it.
#pragma once
#include <memory>
#include <vector>

#include "ros2s/rpc/server.h"

namespace ros2s::rpc {

class ServerConnection {
  public:
    ServerConnection(Server& server, std::unique_ptr<fabric::Endpoint> endpoint, const Guest& guest,
                     std::unique_ptr<admission::Line> line, uint32_t number);
    // Serves until the connection ends, or `closing` fires; then until all is answered.
    Task<> run(StopToken closing);
    [[nodiscard]] const Guest& guest() const { return guest_; }
    void abandon() { endpoint_->abandon(); }

  private:
    Task<> serve_all(StopToken closing);
    // Errors: why the connection is to be ended.
    Result<> take(fabric::Message message);
    Result<> begin(fabric::Message message, const Frame& frame);
    void cancel(const FrameHeader& header);
    static Task<> serve(ServerConnection& self, Request& request);
    // When its turn has come. Errors: why nothing is to be done for it.
    static Task<Result<>> enter(ServerConnection& self, Request& request, admission::Place& place);
    // Whoever asked is gone: nobody waits for what is being done.
    static Task<> stop_at_end(ServerConnection& self);

    Server& server_;
    std::unique_ptr<fabric::Endpoint> endpoint_;
    const Guest guest_;
    const uint32_t number_;
    RequestEnvironment environment_;
    const std::unique_ptr<admission::Line> line_;     // of its tenant
    std::vector<std::unique_ptr<Request>> requests_;  // by slot
    // Answered, and not ended yet, while their slots have the next request already: the client may
    // be quicker with it than the coroutine that sent the answer. No more than there are slots.
    std::vector<std::unique_ptr<Request>> finishing_;
    Event finished_;  // woken at each end of a request
    Nursery serving_;
    Nursery watching_;
};

}  // namespace ros2s::rpc
