// ClientConnection: one connection of a Channel, from its hello to its end, and its requests.
// Owned by the channel's task, and kept alive until every exchange() has ended.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "ros2s/admission/admission.h"
#include "ros2s/rpc/channel.h"
#include "windows.h"

namespace ros2s::rpc {

class ClientConnection final : private fabric::MessageReader {
  public:
    static Task<Result<std::unique_ptr<ClientConnection>>> open(
        Reactor& reactor, fabric::Domain& domain, const std::string& address, std::string ticket,
        const ChannelOptions& options, ChannelMetrics& metrics, const Call& call, Report& report);
    ~ClientConnection() override;
    ClientConnection& operator=(ClientConnection&&) = delete;

    [[nodiscard]] const WelcomeBody& welcome() const { return welcome_; }
    [[nodiscard]] bool is_alive() const { return endpoint_->alive() && !leaving_; }

    struct Outcome {
        bool lost = false;  // the connection ended before the reply came
        bool sent = false;  // the request may have reached the server
        Result<> result{};  // if it is not lost
    };
    // `names` keeps the names of the server's steps.
    Task<Outcome> exchange(const Call& call, const CallRequest& request, ReplyReader& reader,
                           StepNames& names, StopToken stop);
    // See Channel::post().
    [[nodiscard]] bool post(uint64_t tenant, const PostedRequest& request, PostedCall& posted);
    void drop(PostedCall& posted) noexcept;
    // Receives replies until the connection ends.
    Task<> receive_all();
    // Ends requests in progress as if the connection were lost.
    void leave();
    // After receive_all(): waits for the requests in progress.
    Task<> close();

  private:
    // Header, body and trace of a reply that is read where it arrived.
    static constexpr size_t head_bytes_max = 512;
    // One request in progress, in its coroutine's frame.
    struct Exchange {
        Exchange(Reactor& reactor, std::span<const Bytes> for_payload)
            : changed(reactor), sink(for_payload) {}
        Event changed;                // woken by the reply, and at the connection's end
        std::span<const Bytes> sink;  // for payload that arrives inline; empty if it has windows
        bool answered = false;
        bool in_sink = false;  // the payload was copied there when it arrived
        uint32_t slot = 0;
        fabric::Message message{};  // that `frame` is in, or
        std::array<std::byte, head_bytes_max> head;
        Frame frame{};
    };
    struct RequestSlot {
        uint64_t number = 0;  // of its request; 0: free
        uint64_t uses = 0;
        // Both null with a number: given up, its reply is still due.
        Exchange* exchange = nullptr;
        PostedCall* posted = nullptr;
        std::vector<std::byte> memory{};  // of its frame
        admission::Permit credit{};       // while it has a number
    };
    struct Welcome {
        WelcomeBody body;
        uint32_t session = 0;
    };
    ClientConnection(Reactor& reactor, std::unique_ptr<fabric::Endpoint> endpoint,
                     const Welcome& welcome, const ChannelOptions& options,
                     ChannelMetrics& metrics);
    static Result<Welcome> read_verdict(ConstBytes verdict, const std::string& address,
                                        Report& report);

    // For a request that has its credit. Returns its number.
    uint32_t take_slot(admission::Permit credit);
    // Of these there are credits for requests for which others wait.
    [[nodiscard]] size_t awaited_max() const { return slots_.size() - requests_max_; }
    // The queue in which a tenant's requests wait for credit.
    admission::Line& line_of(uint64_t tenant);
    void give_slot(uint32_t slot) noexcept;
    // The parts of a request that are in its frame.
    struct Layout {
        bool body_inline = true;
        bool payload_inline = true;
        bool sink_windows = false;
        uint64_t window_bytes = 0;  // of the other parts
    };
    [[nodiscard]] Layout lay_out(const Call& call, const CallRequest& request) const;
    Task<Result<>> open_windows(Windows& windows, const CallRequest& request, Layout layout,
                                StopToken stop);
    // A request's frame, in the slot's memory, and the part that is sent after it.
    struct Parts {
        ConstBytes head, tail;
    };
    Parts encode(RequestSlot& slot, const Call& call, const CallRequest& request, Layout layout,
                 const Windows& windows);
    [[nodiscard]] bool is_waiting(const Exchange& exchange, const StopToken& stop) const {
        return !exchange.answered && is_alive() && !stop.stop_requested();
    }
    using CancelFrame = std::array<std::byte, frame_bytes(0, 0)>;
    ConstBytes encode_cancel(uint32_t slot, CancelFrame& into) const;
    // Sends a cancellation, then waits a limited time for a reply.
    Task<> give_up(Exchange& exchange);
    void wake_all() noexcept;
    // The posted call is not in the slot any more.
    PostedCall& end_posted(RequestSlot& slot) noexcept;
    // `payload_at`: in the message.
    void answer_posted(RequestSlot& slot, const Frame& frame,
                       const fabric::BorrowedMessage& message, uint64_t payload_at) noexcept;
    Result<> read(const Exchange& exchange, const CallRequest& request, const Windows& windows,
                  ReplyReader& reader, SlicedCopies& copies);
    // Reads a reply where it arrived: its head into its exchange, its payload into the sink. Leaves
    // it to receive_all() if it has a large head, or payload that does not fill the sink.
    bool read(const fabric::BorrowedMessage& message) noexcept override;
    // Errors: the reason to end the connection.
    Result<> take(fabric::Message message);
    // The slot of the request to which a frame of this header replies, or null.
    [[nodiscard]] RequestSlot* slot_of(const FrameHeader& header) noexcept;

    Reactor& reactor_;
    std::unique_ptr<fabric::Endpoint> endpoint_;
    const ChannelOptions& options_;
    ChannelMetrics& metrics_;
    const WelcomeBody welcome_;
    const uint16_t requests_max_;  // of those for which nobody waits
    const uint32_t session_;
    Staging staging_;
    bool leaving_ = false;
    StopSource leave_;
    admission::Admission credits_, awaited_credits_;
    std::map<uint64_t, admission::Line> lines_;  // by tenant
    admission::Line awaited_line_{awaited_credits_, 0};
    std::vector<RequestSlot> slots_;
    std::vector<uint32_t> free_;
    size_t exchanges_ = 0;
    Event unused_;
};

}  // namespace ros2s::rpc
