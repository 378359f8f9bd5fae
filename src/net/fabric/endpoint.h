// Endpoint: one side of a connection, which is one session. Both sides send messages. The more
// trusted side also uses put and get on memory that the other side has granted.
//
// Trust. The side that accepted the connection (engine towards DPU, DPU towards host) initiates put
// and get; the side that connected grants memory. The accepting side's memory is never exposed.
//
// Ownership and threads. Made by Domain::connect() or Listener::accept(), destroyed before its
// Domain, used on its domain's core only. close() must have returned before it is destroyed.
// Messages and MemoryRegions are destroyed before it. Fork rule: a forked child must not use it.
//
// Invariants
// - A message arrives complete, once and in order, or the connection has ended. Messages that are
//   sent after a put returned arrive after the bytes of the put.
// - Memory for a slow peer is bounded by budgets (Limits): send() waits. A reply never waits: room
//   for one of Limits::reply_bytes is reserved when the request is received.
// - A connection ends once. Then all waiting operations fail with `disconnected`. Messages that had
//   arrived can still be received.
// - Memory passed to put() and get() belongs to the fabric until they return. They cannot be
//   cancelled. A caller that cannot wait ends the connection (abandon()).
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "ros2s/fabric/counters.h"
#include "ros2s/fabric/key.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/sync.h"
#include "ros2s/runtime/task.h"

namespace ros2s::fabric {

class Endpoint;

// Budgets of one connection; each side has its own. In bytes unless stated otherwise.
struct Limits {
    // The largest message that this side accepts. The sender's own side returns `too_large`.
    uint64_t message_bytes_max = uint64_t{64} << 10;
    // Messages that have arrived and are not released yet. The peer receives this limit and waits.
    // A value below twice message_bytes_max is raised to that.
    uint64_t incoming_bytes_max = uint64_t{1} << 20;
    // Replies (reply()) that the peer has not received yet.
    uint64_t outgoing_bytes_max = uint64_t{1} << 20;
    // Room reserved for the reply to each received message; 0 if messages are not requests. A
    // larger reply needs room that is not reserved.
    // Without room no further message is received.
    uint64_t reply_bytes = 0;
    // Concurrent puts and gets; more wait.
    uint32_t operations_max = 256;
    // Regions that are granted at the same time.
    uint32_t regions_max = 65536;
    // allocate() in total. If the accepting side provides the memory (shm), its value is the limit
    // for each peer.
    uint64_t memory_bytes_max = uint64_t{64} << 20;
    // The part of it that the connecting side wants from the beginning, if the accepting side
    // provides the memory. It asks for the rest when it needs it (ask_for_memory()).
    uint64_t memory_bytes_first = ~uint64_t{0};
    // The time for a peer to answer a revocation, after which the connection is ended. Also the
    // time for close() to deliver sent messages.
    Duration answer_within = std::chrono::milliseconds(500);
};

// The other end of a connection.
struct Peer {
    std::string name;    // for people: "process 4711 of user 1000 (shm)"
    std::string host{};  // its address, if it connected over a network: "192.0.2.7"
    // Of the certificate that it proved to have: "CN=host-1". Empty: the provider requires none.
    std::string subject{};
    uint64_t domain = 0;  // its domain's random id
    // As the kernel reports them (Unix sockets), else -1.
    int64_t process = -1;
    int64_t user = -1;
    int64_t group = -1;
};

// A received message. Its bytes are private memory that the peer cannot write. The destructor
// returns its share of the budgets.
class [[nodiscard]] Message {
  public:
    Message() = default;
    Message(Message&& other) noexcept { take(other); }
    Message& operator=(Message&& other) noexcept {
        if (this != &other) {
            release();
            take(other);
        }
        return *this;
    }
    ~Message() { release(); }
    [[nodiscard]] Bytes bytes() const noexcept { return {memory_, size_}; }

  private:
    friend class Endpoint;
    void take(Message& other) noexcept;
    void release() noexcept;
    Endpoint* endpoint_ = nullptr;
    std::byte* memory_ = nullptr;
    size_t size_ = 0;
    size_t reserved_ = 0;  // for its reply
};

// A message where it arrived, for MessageReader::read(). The peer may be able to change its bytes
// at any time. So copy each byte once, and look at the copy only.
class BorrowedMessage {
  public:
    // `second` continues `first`: rings wrap.
    explicit BorrowedMessage(ConstBytes first, ConstBytes second = {}) noexcept
        : first_(first), second_(second) {}
    [[nodiscard]] uint64_t size() const noexcept { return first_.size() + second_.size(); }
    // Copies the bytes from `offset` on. They must be within the message.
    void copy(uint64_t offset, Bytes into) const noexcept;
    // The bytes from `offset` on, for code that copies each once. The second part continues the
    // first.
    [[nodiscard]] std::pair<ConstBytes, ConstBytes> parts(uint64_t offset) const noexcept {
        if (offset >= first_.size()) return {second_.subspan(offset - first_.size()), {}};
        return {first_.subspan(offset), second_};
    }

  private:
    ConstBytes first_, second_;
};

// Reads messages where they arrived, instead of Endpoint::receive(). Outlives the endpoint, or is
// detached before. A message that came in several pieces is never offered.
class MessageReader {
  public:
    virtual ~MessageReader() = default;
    // Called on the endpoint's core, once for each message. The message is valid until it returns.
    // May call Endpoint::abandon(). Returns false to leave the message to Endpoint::receive(), as a
    // copy in private memory.
    virtual bool read(const BorrowedMessage& message) noexcept = 0;
};

// A range granted to the peer. Move-only. Before its destruction it must be revoked, or its
// connection closed.
class [[nodiscard]] MemoryRegion {
  public:
    MemoryRegion() = default;
    MemoryRegion(MemoryRegion&& other) noexcept
        : endpoint_(std::exchange(other.endpoint_, nullptr)), key_(other.key_) {}
    MemoryRegion& operator=(MemoryRegion&& other) noexcept;
    ~MemoryRegion();
    // The key to send to the peer.
    [[nodiscard]] const RemoteKey& key() const noexcept { return key_; }
    [[nodiscard]] bool live() const noexcept { return endpoint_ != nullptr; }
    // Suspends. From the call on no transfer begins. Transfers of the peer end or are aborted. If
    // the peer does not confirm that within Limits::answer_within, the connection is ended. After
    // the return no other code uses the memory.
    Task<> revoke();

  private:
    friend class Endpoint;
    Endpoint* endpoint_ = nullptr;
    RemoteKey key_;
};

// A part of the peer's granted memory, accessed in place. The peer may change it at any time, also
// after it was checked. Move-only. A revocation by the peer waits for the mapping's end (and ends
// the connection after Limits::answer_within); so does close(). The memory stays mapped if the
// connection ends first.
class [[nodiscard]] Mapping {
  public:
    Mapping() = default;
    Mapping(Mapping&& other) noexcept
        : endpoint_(std::exchange(other.endpoint_, nullptr)),
          slot_(other.slot_),
          bytes_(std::exchange(other.bytes_, {})) {}
    Mapping& operator=(Mapping&& other) noexcept;
    ~Mapping() { end(); }
    [[nodiscard]] Bytes bytes() const noexcept { return bytes_; }
    void end() noexcept;

  private:
    friend class Endpoint;
    Endpoint* endpoint_ = nullptr;
    uint32_t slot_ = 0;
    Bytes bytes_;
};

struct RegionOptions {
    uint64_t lease = 0;          // its generation, for the key
    Time expires = Time::max();  // then the key is refused; the region must still be revoked
};

// When put() returns.
enum class PutReturns : uint8_t {
    placed,   // the bytes are in the peer's memory; put() returns its refusal
    ordered,  // `from` may be reused, and the bytes precede messages that are sent later. A refusal
              // for a revoked key is not reported; any other ends the connection.
};

class Endpoint {
  public:
    virtual ~Endpoint();
    Endpoint& operator=(Endpoint&&) = delete;

    [[nodiscard]] Reactor& reactor() const noexcept { return reactor_; }
    // "shm", "ucx+tcp": what carries it, for the path report.
    [[nodiscard]] virtual const std::string& provider() const noexcept = 0;
    [[nodiscard]] const Peer& peer() const noexcept { return peer_; }
    [[nodiscard]] uint64_t session() const noexcept { return session_; }
    // True on the side that accepted.
    [[nodiscard]] bool initiates() const noexcept { return initiates_; }
    [[nodiscard]] const Limits& limits() const noexcept { return limits_; }
    // The largest message that the peer accepts.
    [[nodiscard]] uint64_t send_bytes_max() const noexcept { return send_bytes_max_; }
    [[nodiscard]] bool alive() const noexcept { return end_ == End::none; }
    [[nodiscard]] End ended() const noexcept { return end_; }
    // Set when the connection has ended.
    [[nodiscard]] Event& end_event() noexcept { return end_event_; }

    // Sends head and then body as one message. Both may be reused when it returns; the message may
    // not have arrived then. Suspends while the peer has no room for it. Errors:
    // too_large (detail = send_bytes_max()), disconnected, cancelled (then nothing was sent).
    virtual Task<Result<>> send(ConstBytes head, ConstBytes body = {}, StopToken stop = {}) = 0;
    // The same without waiting. False: nothing was sent, because there is no room now, other
    // messages wait, or send() would fail.
    [[nodiscard]] virtual bool send_at_once(ConstBytes head, ConstBytes body = {}) noexcept = 0;
    // Replies to a received message, once for each message. Does not wait, because room is
    // reserved. Errors: too_large (more than the peer accepts, or more than Limits::reply_bytes
    // and than there is room for: use send()), disconnected.
    [[nodiscard]] Result<> reply(Message& request, ConstBytes head, ConstBytes body = {});
    // The next message, in order. Several callers may wait. Errors: disconnected (and no message
    // is left), cancelled.
    Task<Result<Message>> receive(StopToken stop = {});
    // The same without waiting: false if there is no message, or no room for its reply.
    [[nodiscard]] bool try_receive(Message& into);
    // From now on offers arriving messages to `reader` first; null: to none. For a side whose
    // messages are not requests (Limits::reply_bytes is 0). Messages that the reader leaves keep
    // their order, but those that it takes overtake them.
    void read_in_place(MessageReader* reader) noexcept {
        ROS2S_CHECK(reader == nullptr || limits_.reply_bytes == 0);
        reader_ = reader;
    }

    // Memory for grant(), aligned to block_bytes. It contains zeros or earlier data of this
    // connection. For the side that grants. Errors: no_memory (over the limit; detail = the
    // effective Limits::memory_bytes_max), denied (this side initiates).
    [[nodiscard]] virtual Result<Bytes> allocate(uint64_t size) = 0;
    // After allocate() had no memory for `size` bytes: asks the peer for more. Returns when it has
    // asked, and memory_event() is woken when allocate() may find it. Errors: no_memory (not now:
    // over the limit, or no more than what is in use is to be had), io (this process has no
    // descriptors), denied, disconnected.
    [[nodiscard]] virtual Result<> ask_for_memory(uint64_t size);
    // Woken when the peer gave memory, and when asking failed. Not woken by free().
    [[nodiscard]] Event& memory_event() noexcept { return memory_event_; }
    // Returns memory of allocate(), all of it, without a granted region in it.
    virtual void free(Bytes memory) noexcept = 0;
    // Lets the peer use the range. Only the side that does not initiate grants. Errors: denied
    // (this side initiates), no_memory (Limits::regions_max), invalid (memory that this provider
    // cannot expose: not from allocate()), disconnected.
    [[nodiscard]] Result<MemoryRegion> grant(Bytes memory, Rights rights,
                                             RegionOptions options = {});

    // Moves bytes to or from `offset` within the range that the key names. Any size, any
    // alignment. Suspends. Errors: as of to_error(Refusal); disconnected: then some or all bytes
    // may have been moved.
    virtual Task<Result<>> put(const RemoteKey& key, uint64_t offset, ConstBytes from,
                               PutReturns returns = PutReturns::placed) = 0;
    virtual Task<Result<>> get(const RemoteKey& key, uint64_t offset, Bytes into) = 0;

    // Maps the same bytes in place, without a copy, for the side that initiates. Errors:
    // unsupported (this provider cannot map the peer's memory: use put and get), as of
    // to_error(Refusal), disconnected.
    [[nodiscard]] Result<Mapping> map(const RemoteKey& key, uint64_t offset, uint64_t count,
                                      Rights right);

    // Delivers sent messages (for at most Limits::answer_within), ends the connection, and waits
    // until all operations have ended. Idempotent.
    virtual Task<> close() = 0;
    // Ends the connection at once and sends nothing. close() must still be called.
    void abandon() noexcept { end(End::closed_here); }

  protected:
    Endpoint(Reactor& reactor, Counters& counters, Limits limits, bool initiates);

    // The provider's part of the functions above.
    virtual Result<> do_reply(ConstBytes head, ConstBytes body) = 0;
    virtual Result<RemoteKey> do_grant(Bytes memory, Rights rights,
                                       const RegionOptions& options) = 0;
    virtual Task<> do_revoke(RemoteKey key) = 0;
    // A provider that can map the peer's memory returns it, and counts uses of the key's slot.
    virtual Result<Bytes> do_map(const RemoteKey& key, uint64_t offset, uint64_t count,
                                 Rights right);
    virtual void do_unmap(uint32_t slot) noexcept;
    // Room for replies that is not used, reserved or not.
    [[nodiscard]] virtual uint64_t outgoing_room() const noexcept = 0;
    // A message was released: `size` bytes of the incoming budget are free.
    virtual void on_released(size_t size) noexcept = 0;
    // The connection has just ended: wake and fail waiting operations of the provider.
    virtual void on_end() noexcept = 0;

    // Called by a provider.
    // Memory for a message that arrives; pass it to deliver() or to drop().
    [[nodiscard]] static std::byte* message_memory(size_t size);
    static void drop(std::byte* memory, size_t size) noexcept;
    void deliver(std::byte* memory, size_t size);
    // True if the reader took it. Then the connection may have ended.
    [[nodiscard]] bool offer(const BorrowedMessage& message) noexcept;
    // Wakes receivers: there is room for replies.
    void room_came() noexcept {
        if (!std::exchange(waits_for_answer_room_, false)) return;
        arrival_.wake_all();
    }
    // A message waits until there is room for its reply.
    [[nodiscard]] bool wants_answer_room() const noexcept { return waits_for_answer_room_; }
    void end(End how) noexcept;
    [[nodiscard]] uint64_t reserved_for_replies() const noexcept { return reserved_; }
    // Operations in progress; close() waits until there are none.
    class [[nodiscard]] Use {
      public:
        explicit Use(Endpoint& endpoint) noexcept : endpoint_(endpoint) { endpoint_.begin_use(); }
        Use& operator=(Use&&) = delete;
        ~Use() { endpoint_.end_use(); }

      private:
        Endpoint& endpoint_;
    };
    Task<> unused();
    [[nodiscard]] std::unexpected<Error> refuse(Refusal refusal) noexcept;

    Reactor& reactor_;
    Counters& counters_;
    Limits limits_;
    Peer peer_;
    uint64_t session_ = 0;
    uint64_t send_bytes_max_ = 0;
    uint64_t reply_overhead_ = 0;  // of a reply, in what outgoing_room() counts

  private:
    friend class Message;
    friend class MemoryRegion;
    friend class Mapping;
    void released(Message& message) noexcept;

    const bool initiates_;
    End end_ = End::none;
    bool waits_for_answer_room_ = false;
    MessageReader* reader_ = nullptr;
    void begin_use() noexcept {
        ++uses_;
        unused_.reset();
    }
    void end_use() noexcept {
        if (--uses_ == 0) unused_.set();
    }
    size_t uses_ = 0;
    size_t messages_out_ = 0;  // received and not yet released
    size_t regions_ = 0;
    uint64_t reserved_ = 0;
    struct Arrived {
        std::byte* memory;
        size_t size;
    };
    // First in, first out: a ring that grows up to the incoming budget.
    std::unique_ptr<Arrived[]> inbox_;
    size_t inbox_capacity_ = 0;
    size_t inbox_first_ = 0;
    size_t inbox_count_ = 0;
    Event arrival_;
    Event end_event_;
    Event memory_event_;
    Event unused_;
};

}  // namespace ros2s::fabric
