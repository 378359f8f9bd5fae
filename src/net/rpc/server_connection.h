// ServerConnection: one admitted connection of a Server, to its end. Lives in the frame of the task
// that runs it.
#pragma once
#include <memory>
#include <vector>

#include "ros2s/rpc/server.h"

namespace ros2s::rpc {

class ServerConnection {
  public:
    ServerConnection(Server& server, std::unique_ptr<fabric::Endpoint> endpoint, const Guest& guest,
                     std::unique_ptr<admission::Line> line, uint32_t number);
    // Serves until the connection ends or `closing` fires, and then until all requests have ended.
    Task<> run(StopToken closing);
    [[nodiscard]] const Guest& guest() const { return guest_; }
    void abandon() { endpoint_->abandon(); }

  private:
    Task<> serve_all(StopToken closing);
    // Errors: the reason to end the connection.
    Result<> take(fabric::Message message);
    Result<> begin(fabric::Message message, const Frame& frame);
    // For what only a broken or hostile client sends.
    std::unexpected<Error> end_for(Error error, std::string_view why);
    void cancel(const FrameHeader& header);
    // Waits for the request's turn, and serves it.
    static Task<> serve(ServerConnection& self, Request& request);
    // Stops the requests in progress when the connection ends.
    static Task<> stop_at_end(ServerConnection& self);

    Server& server_;
    std::unique_ptr<fabric::Endpoint> endpoint_;
    const Guest guest_;
    const uint32_t number_;
    RequestEnvironment environment_;
    const std::unique_ptr<admission::Line> line_;     // of its tenant
    std::vector<std::unique_ptr<Request>> requests_;  // by slot
    // Requests that have sent their reply and not ended yet, while their slots already have the
    // next request: the client may be faster than the coroutine that sent the reply. No more than
    // there are slots.
    std::vector<std::unique_ptr<Request>> finishing_;
    Event finished_;  // woken at each end of a request
    Nursery serving_;
    Nursery watching_;
};

}  // namespace ros2s::rpc
