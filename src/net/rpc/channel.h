// Channel: the client's end: requests to one server over a connection that it keeps open.
//
//     call() ─ credit ─ windows ─ request ──► reply ─ windows revoked ─ reader ─ credit back
//                 ▲                 │ the connection is lost
//                 └── reconnected ◄─┘ the same request again, with the same update name
//
// Owned by the code that composes it; the domain and the ticket source outlive it. Used on the
// domain's core. Fork rule: a forked child must not use it.
//
// Invariants
// - The server has at most as many requests as it granted credits. Further requests wait; tenants
//   take turns. Some credits are for requests for which others wait.
// - A request's windows are granted for exactly its bytes, with one right. They are revoked before
//   call() returns, whatever the server does. The memory then belongs to the caller alone.
// - If the connection is lost, a request is sent again if it has an update name or is a read
//   (CallRequest::repeatable). Any other request fails with `disconnected` and may have been done.
// - A reply is valid only within call(). The trace of a traced call includes the server's steps.
//   The channel owns their names.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ros2s/fabric/domain.h"
#include "ros2s/rpc/frame.h"
#include "ros2s/rpc/options.h"
#include "ros2s/rpc/posted_call.h"
#include "ros2s/rpc/rpc_metrics.h"
#include "ros2s/rpc/trace_wire.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/slices.h"

namespace ros2s::rpc {

// Provides tickets. A ticket admits one connection, so every reconnection takes a new one.
class TicketSource {
  public:
    virtual ~TicketSource() = default;
    // Errors: those of the control plane. Two `denied` in sequence fail the waiting requests.
    // `stale`: the session has ended, or the capability that it showed is out of date, or the
    // server will not come back by itself. Requests wait for ChannelOptions::renewal_within, and
    // then fail with `disconnected`.
    virtual Task<Result<std::string>> take(Report& report) = 0;
    // The address for its tickets. A restarted server may listen at another address. Empty: the
    // address with which the channel was opened.
    [[nodiscard]] virtual std::string address() const { return {}; }
};

// All memory belongs to the caller and must stay valid until call() returns.
struct CallRequest {
    uint16_t method = 0;
    UpdateName id{};          // nil: none
    bool repeatable = false;  // has no update name, but may be done twice, as a read
    bool repeated = false;    // it was sent before, here or by another sender
    // Others wait for what it says: it waits for no credit (ChannelOptions::awaited_part).
    bool is_awaited = false;
    ConstBytes body;
    std::span<const ConstBytes> payload{};  // one range of bytes, in this order
    std::span<const Bytes> sink{};          // for the reply's payload, likewise
    uint64_t reply_body_bytes_max = 0;      // an upper bound; if it is small, the reply needs
                                            // no window
    Report* report = nullptr;               // gets the server's sentence, if it sent one
};

struct Reply {
    enum class Payload : uint8_t {
        none,
        inline_,  // in `payload`, as the server laid it out
        staged,   // in `payload`, as it lay in the sink
        placed,   // in the sink itself, as its pieces follow each other
    };
    ConstBytes body;
    ConstBytes payload;
    Payload where = Payload::none;
    uint64_t payload_bytes = 0;
    // Copies a part of the payload to the caller's memory, before call() returns.
    void copy(ConstBytes from, Bytes to) const { copies->add(from, to); }
    SlicedCopies* copies = nullptr;
};

// Reads a reply while it is valid.
class ReplyReader {
  public:
    virtual ~ReplyReader() = default;
    // Its error becomes call()'s.
    virtual Result<> read(const Reply& reply) = 0;
};

// A connection that was lost and is not open again.
struct Absence {
    WallTime since{};
    std::string why{};  // why the last attempt failed; empty before it
};

class ClientConnection;

class Channel {
  public:
    // Connects, bounded by `opening`. Errors: those of fabric::Domain::connect() and of the ticket
    // source, denied (the ticket), bad_version, unsupported (no such service there), deadline.
    static Task<Result<std::unique_ptr<Channel>>> open(Reactor& reactor, fabric::Domain& domain,
                                                       std::string address, TicketSource& tickets,
                                                       ChannelOptions options, Report& report,
                                                       Call opening = {});
    ~Channel();
    Channel& operator=(Channel&&) = delete;

    // Suspends. Errors: the server's error; the error of `reader`; cancelled; deadline (the request
    // may have been done; detail = ChannelOptions::call_within in seconds, if that has passed);
    // disconnected (no connection for ChannelOptions::patience, detail = since when, in seconds
    // from 1970; or a request that may not be repeated was lost); too_large (payload or body;
    // detail = the limit); no_memory (more than staging has); closed; denied, bad_version and
    // unsupported, as of open(), if it cannot reconnect.
    Task<Result<>> call(const Call& call, const CallRequest& request, ReplyReader& reader);
    // Sends a read without waiting for anything. False: it would have to wait for a connection, a
    // credit or room, it needs a window, or calls have a time limit (ChannelOptions::call_within).
    [[nodiscard]] bool post(uint64_t tenant, const PostedRequest& request, PostedCall& posted);

    // The limits that the server granted at the last connection.
    [[nodiscard]] const WelcomeBody& welcome() const { return welcome_; }
    [[nodiscard]] uint64_t reply_body_bytes_max() const {
        return options_.message_bytes_max - sizeof(FrameHeader);
    }
    [[nodiscard]] const std::string& provider() const { return domain_.provider(); }
    // Of the last attempt to connect.
    [[nodiscard]] const std::string& address() const { return address_; }
    [[nodiscard]] bool is_connected() const { return connection_ != nullptr; }
    [[nodiscard]] const std::optional<Absence>& absence() const { return absence_; }
    [[nodiscard]] const ChannelMetrics& metrics() const { return metrics_; }

    // The source has new tickets: requests wait for a connection again, instead of failing with the
    // error that refused the last one.
    void try_again() noexcept;
    // The source will have no other capability: requests do not wait for one.
    void expect_no_reconnect() noexcept { renews_ = false; }

    // Fails requests in progress with `closed`, and returns when all have ended. Must be called.
    // Idempotent.
    Task<> close();

  private:
    Channel(Reactor& reactor, fabric::Domain& domain, std::string address, TicketSource& tickets,
            ChannelOptions options);
    Task<Result<std::unique_ptr<ClientConnection>>> connect(const Call& call, Report& report);
    // Serves the connection and replaces it if it is lost, until close().
    static Task<> keep(Channel& self, std::unique_ptr<ClientConnection> connection);
    Task<std::unique_ptr<ClientConnection>> reconnect();
    void refuse(Error error) noexcept;
    [[nodiscard]] Error absent() const noexcept;
    struct Count;  // of a call in progress
    Task<Result<>> call_within(const Call& call, const CallRequest& request, ReplyReader& reader,
                               StopToken stop);
    Task<Result<>> call_until_deadline(const Call& call, const CallRequest& request,
                                       ReplyReader& reader);
    // Waits for a connection. Returns it, or the reason why there is none.
    Task<Result<ClientConnection*>> connected(StopToken stop);
    [[nodiscard]] Result<> check(const CallRequest& request) const;

    Reactor& reactor_;
    fabric::Domain& domain_;
    std::string address_;
    TicketSource& tickets_;
    const ChannelOptions options_;
    ChannelMetrics metrics_;
    WelcomeBody welcome_;
    ClientConnection* connection_ = nullptr;  // keep() owns it; null while there is none
    std::optional<Absence> absence_;
    StepNames step_names_;
    std::optional<Error> refusal_;        // why there will be no connection
    std::optional<Time> outdated_since_;  // the first of the present `stale` attempts
    bool renews_ = true;
    Event changed_;  // of connection_ or refusal_, or closing
    size_t calls_ = 0;
    StopSource closing_;
    Nursery keeping_;
};

}  // namespace ros2s::rpc
