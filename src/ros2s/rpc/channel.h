// Channel: the client's side: requests to one server over a connection that it keeps alive.
//
//     call() ─ credit ─ windows ─ request ──► answer ─ windows taken back ─ reader ─ credit back
//                 ▲                 │ the connection is lost
//                 └── reconnected ◄─┘ the same request again, with the same operation id
//
// Owned by who composes; the domain and the ticket source outlive it. Used on the domain's core.
// After fork() it is dead in the child, with its reactor.
//
// Invariants
// - At most as many requests are with the server as it granted credits; more wait, first come first
//   served.
// - A request's windows are granted for exactly its bytes, with the one right that is needed, and
//   taken back before call() returns, whatever the server does: then the memory is the caller's.
// - A request goes out again, after its connection was lost, when it has an operation id or is a
//   read (CallRequest::repeatable); any other fails with `disconnected`: it may have been done.
// - An answer is looked at within call(): nothing of it is held afterwards. A traced call's trace
// has
//   the server's steps in it, by names that are the channel's.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ros2s/fabric/domain.h"
#include "ros2s/rpc/frame.h"
#include "ros2s/rpc/options.h"
#include "ros2s/rpc/rpc_metrics.h"
#include "ros2s/rpc/trace_wire.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/slices.h"

namespace ros2s::rpc {

// Gets tickets: each lets one connection in, so every reconnection takes another.
class TicketSource {
  public:
    virtual ~TicketSource() = default;
    // Errors: of the control plane; `denied` twice in turn is final for the requests that wait.
    virtual Task<Result<std::string>> take(Report& report) = 0;
    // Where its tickets let in: a server that was restarted may listen elsewhere. Empty: where the
    // channel was opened.
    [[nodiscard]] virtual std::string address() const { return {}; }
};

// All of it belongs to the caller and stays put until call() returns.
struct CallRequest {
    uint16_t method = 0;
    OperationId id{};         // nil: none
    bool repeatable = false;  // without an operation id: doing it twice is doing it once
    bool repeated = false;    // it was sent before, by whomever: it may have been done
    ConstBytes body;
    std::span<const ConstBytes> payload{};  // in their order one range of bytes
    std::span<const Bytes> sink{};          // for the answer's payload: likewise
    uint64_t reply_body_bytes_max = 0;      // an estimate from above; with it, short answers need
                                            // no window
    Report* report = nullptr;               // gets the server's sentence, where it sent one
};

struct Reply {
    enum class Payload : uint8_t {
        none,
        inline_,  // in `payload`, as the server laid it out
        staged,   // in `payload`, as it lay in the sink
        placed,   // in the sink itself
    };
    ConstBytes body;
    ConstBytes payload;
    Payload where = Payload::none;
    uint64_t payload_bytes = 0;
    // Copies a part of the payload to the caller's memory: at the latest before call() returns.
    void copy(ConstBytes from, Bytes to) const { copies->add(from, to); }
    SlicedCopies* copies = nullptr;
};

// Looks at an answer while it is there.
class ReplyReader {
  public:
    virtual ~ReplyReader() = default;
    // Its error becomes call()'s.
    virtual Result<> read(const Reply& reply) = 0;
};

// A connection that was lost and has not come back.
struct Absence {
    WallTime since{};
    std::string why{};  // the last attempt failed; empty before that
};

class ClientConnection;

class Channel {
  public:
    // Connects. Errors: those of fabric::Domain::connect() and of the ticket source, denied (the
    // ticket), bad_version, unsupported (no such service there), deadline.
    static Task<Result<std::unique_ptr<Channel>>> open(Reactor& reactor, fabric::Domain& domain,
                                                       std::string address, TicketSource& tickets,
                                                       ChannelOptions options, Report& report);
    ~Channel();
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    // Errors: what the server answered; what `reader` returned; cancelled, deadline (also where the
    // request may have been done, when no answer came in time); disconnected (no connection for
    // ChannelOptions::patience, detail = since when, in seconds from 1970; or a request that may
    // not be repeated was lost); too_large (payload
    // or body; detail = the limit); no_memory (more than staging has); closed; denied, bad_version
    // and unsupported, as of open(), when it cannot reconnect. Suspends.
    Task<Result<>> call(const Call& call, const CallRequest& request, ReplyReader& reader);

    // What the server granted at the last connection.
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

    // Fails what is under way with `closed`, and returns when nothing of it is left. Must be
    // called. Idempotent.
    Task<> close();

  private:
    Channel(Reactor& reactor, fabric::Domain& domain, std::string address, TicketSource& tickets,
            ChannelOptions options);
    Task<Result<std::unique_ptr<ClientConnection>>> connect(Report& report);
    // Serves the connection, and makes another when it is lost, until close().
    static Task<> keep(Channel& self, std::unique_ptr<ClientConnection> connection);
    Task<std::unique_ptr<ClientConnection>> reconnect();
    Task<Result<>> call_within(const Call& call, const CallRequest& request, ReplyReader& reader,
                               StopToken stop);
    // A connection, or why there is none.
    Task<Result<ClientConnection*>> connected(StopToken stop);
    [[nodiscard]] Result<> check(const CallRequest& request) const;

    Reactor& reactor_;
    fabric::Domain& domain_;
    std::string address_;
    TicketSource& tickets_;
    const ChannelOptions options_;
    ChannelMetrics metrics_;
    WelcomeBody welcome_;
    ClientConnection* connection_ = nullptr;  // keep()'s, while it is up
    std::optional<Absence> absence_;
    StepNames step_names_;
    std::optional<Error> refusal_;  // why there is none, where waiting is in vain
    Event changed_;                 // of the two, or closing
    size_t calls_ = 0;
    StopSource closing_;
    Nursery keeping_;
};

}  // namespace ros2s::rpc
