// Endpoint: one side of a connection, which is one session: messages both ways, and put and get by
// the more trusted side into memory that the other has granted.
//
// Trust. The side that accepted the connection (engine towards DPU, DPU towards host) initiates put
// and get; the side that connected grants memory. The accepting side's memory is never exposed.
//
// Ownership and threads. Made by Domain::connect() or Listener::accept(), dies before its Domain,
// used on its domain's core alone. close() must have returned before it is destroyed. Messages and
// MemoryRegions die before it. After fork() it is dead in the child, with its reactor.
//
// Invariants
// - Messages arrive whole, once, in the order of sending, or not at all: then the connection has
//   ended. Bytes of a put lie in the peer's memory before any message arrives that was sent after
//   the put returned.
// - The peer's slowness is bounded by budgets (Limits): a sender waits, an answer never does,
//   because room for it was reserved when the request was taken in.
// - A connection ends once. Then everything that waits on it fails with `disconnected`; messages
//   that had arrived can still be received.
// - Memory named in put() and get() belongs to the fabric until they return. They are not
//   cancelled; who cannot wait ends the connection (abandon()).
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

// Budgets of one connection, each side its own. Bytes unless said otherwise.
struct Limits {
    // The largest message that this side takes in; a sender is told `too_large` by its own side.
    uint64_t message_bytes_max = uint64_t{64} << 10;
    // What may have arrived and not yet been released by whoever received it. The peer knows it
    // and waits. At least twice message_bytes_max; raised to that where it is less.
    uint64_t incoming_bytes_max = uint64_t{1} << 20;
    // Answers (reply()) that the peer has not taken yet.
    uint64_t outgoing_bytes_max = uint64_t{1} << 20;
    // Room reserved for the answer to each message received; 0 where messages are no requests.
    // While there is none, nothing more is received.
    uint64_t reply_bytes = 0;
    // Puts and gets under way at once; more wait.
    uint32_t operations_max = 256;
    // Regions granted at once.
    uint32_t regions_max = 65536;
    // allocate() in total. The accepting side's figure is what it allows each peer, where it is
    // the one who provides the memory (shm).
    uint64_t memory_bytes_max = uint64_t{64} << 20;
    // What one connection may be served at a turn of the loop, in messages.
    uint32_t messages_per_turn = 64;
    // How long a peer may take to answer a revocation before the connection is ended, and close()
    // to hand over what was sent.
    Duration answer_within = std::chrono::milliseconds(500);
};

// Who is at the other end.
struct Peer {
    std::string name;     // for people: "process 4711 of user 1000 (shm)"
    std::string host{};   // its address where it came over a network: "192.0.2.7"
    uint64_t domain = 0;  // its domain's random id
    // Where the kernel vouches for them (Unix sockets), else -1.
    int64_t process = -1;
    int64_t user = -1;
    int64_t group = -1;
};

// A message that arrived. Its bytes are private memory: nobody else writes them. Gives its share
// of the budgets back when it is destroyed.
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
    size_t reserved_ = 0;  // for its answer
};

// A range granted to the peer. Move-only; revoked before it is destroyed, or its connection has
// ended and been closed.
class [[nodiscard]] MemoryRegion {
  public:
    MemoryRegion() = default;
    MemoryRegion(MemoryRegion&& other) noexcept
        : endpoint_(std::exchange(other.endpoint_, nullptr)), key_(other.key_) {}
    MemoryRegion& operator=(MemoryRegion&& other) noexcept;
    ~MemoryRegion();
    // What to send to the peer.
    [[nodiscard]] const RemoteKey& key() const noexcept { return key_; }
    [[nodiscard]] bool live() const noexcept { return endpoint_ != nullptr; }
    // In this order: nothing new starts; what the peer had begun ends or is aborted; where the
    // peer does not say so within Limits::answer_within, the connection is ended. When it returns
    // the memory is the caller's alone. Suspends.
    Task<> revoke();

  private:
    friend class Endpoint;
    Endpoint* endpoint_ = nullptr;
    RemoteKey key_;
};

// Part of what the peer granted, seen in place: memory that the peer writes and reads at any time,
// so what was checked there may be something else a moment later. Move-only. The peer's revocation
// waits for its end (and ends the connection after Limits::answer_within); so does close(). It
// stays mapped when the connection ends before it.
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

struct GrantOptions {
    uint64_t lease = 0;          // its generation, for the key
    Time expires = Time::max();  // afterwards the key is refused; the region is still to be revoked
};

// When put() returns.
enum class Placement : uint8_t {
    placed,   // the bytes are in the peer's memory: its refusal is put()'s error
    ordered,  // `from` may be reused, and the bytes precede whatever is sent from now on. A refusal
              // for a revoked key is not heard of; any other ends the connection.
};

class Endpoint {
  public:
    virtual ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    [[nodiscard]] Reactor& reactor() const noexcept { return reactor_; }
    // "shm", "ucx+tcp": what carries it, for the path report.
    [[nodiscard]] virtual const std::string& provider() const noexcept = 0;
    [[nodiscard]] const Peer& peer() const noexcept { return peer_; }
    [[nodiscard]] uint64_t session() const noexcept { return session_; }
    // True on the side that accepted.
    [[nodiscard]] bool initiates() const noexcept { return initiates_; }
    [[nodiscard]] const Limits& limits() const noexcept { return limits_; }
    // The largest message that the peer takes.
    [[nodiscard]] uint64_t send_bytes_max() const noexcept { return send_bytes_max_; }
    [[nodiscard]] bool alive() const noexcept { return end_ == End::none; }
    [[nodiscard]] End ended() const noexcept { return end_; }
    // Set when the connection has ended.
    [[nodiscard]] Event& end_event() noexcept { return end_event_; }

    // Sends head and then body as one message. Both may be reused when it returns; that it
    // returned says nothing about arrival. Suspends while the peer has no room for it. Errors:
    // too_large (detail = send_bytes_max()), disconnected, cancelled (then nothing was sent).
    virtual Task<Result<>> send(ConstBytes head, ConstBytes body = {}, StopToken stop = {}) = 0;
    // Answers a message that receive() delivered, from the room reserved for it, so it does not
    // wait; once for each message. Errors: too_large (over Limits::reply_bytes or what the peer
    // takes: use send()), disconnected.
    [[nodiscard]] Result<> reply(Message& request, ConstBytes head, ConstBytes body = {});
    // The next message, in order. Several may wait. Errors: disconnected (and nothing is left),
    // cancelled.
    Task<Result<Message>> receive(StopToken stop = {});
    // The same without waiting: false when there is none, or no room for its answer.
    [[nodiscard]] bool try_receive(Message& into);

    // Memory fit for grant(), aligned to block_bytes; it holds zeros, or what this connection left
    // there. For the side that grants. Errors: no_memory (over the limit; detail =
    // Limits::memory_bytes_max as it holds here), denied (this side initiates).
    [[nodiscard]] virtual Result<Bytes> allocate(uint64_t size) = 0;
    // Gives back what allocate() gave, whole, with no region in it.
    virtual void free(Bytes memory) noexcept = 0;
    // Lets the peer use the range. Only the side that does not initiate grants. Errors: denied
    // (this side initiates), no_memory (Limits::regions_max), invalid (memory that this provider
    // cannot expose: not from allocate()), disconnected.
    [[nodiscard]] Result<MemoryRegion> grant(Bytes memory, Rights rights,
                                             GrantOptions options = {});

    // Moves bytes to or from `offset` within the range that the key names. Any size, any
    // alignment. Suspends. Errors: as of to_error(Refusal), disconnected: then it may have
    // happened, in part too.
    virtual Task<Result<>> put(const RemoteKey& key, uint64_t offset, ConstBytes from,
                               Placement placement = Placement::placed) = 0;
    virtual Task<Result<>> get(const RemoteKey& key, uint64_t offset, Bytes into) = 0;

    // The same bytes in place, without a copy, for the side that initiates. Errors: unsupported
    // (this provider does not have the peer's memory: put and get move it), as of
    // to_error(Refusal), disconnected.
    [[nodiscard]] Result<Mapping> map(const RemoteKey& key, uint64_t offset, uint64_t count,
                                      Rights right);

    // Hands over what was sent (for at most Limits::answer_within), says goodbye, and waits until
    // nothing of it is in use. Idempotent.
    virtual Task<> close() = 0;
    // Ends the connection at once, without a word; close() is still due.
    void abandon() noexcept { end(End::closed_here); }

  protected:
    Endpoint(Reactor& reactor, Counters& counters, Limits limits, bool initiates);

    // What a provider does for the above.
    virtual Result<> do_reply(ConstBytes head, ConstBytes body) = 0;
    virtual Result<RemoteKey> do_grant(Bytes memory, Rights rights,
                                       const GrantOptions& options) = 0;
    virtual Task<> do_revoke(RemoteKey key) = 0;
    // A provider that has the peer's memory says where, and counts uses of the key's slot.
    virtual Result<Bytes> do_map(const RemoteKey& key, uint64_t offset, uint64_t count,
                                 Rights right);
    virtual void do_unmap(uint32_t slot) noexcept;
    // Room for answers that is not used, reserved or not.
    [[nodiscard]] virtual uint64_t outgoing_room() const noexcept = 0;
    // A message was released: `size` bytes of the incoming budget are free.
    virtual void on_released(size_t size) noexcept = 0;
    // The connection has just ended: wake and fail what waits in the provider.
    virtual void on_end() noexcept = 0;

    // What a provider tells.
    // Memory for a message that arrives; give it to deliver() or to drop().
    [[nodiscard]] static std::byte* message_memory(size_t size);
    static void drop(std::byte* memory, size_t size) noexcept;
    void deliver(std::byte* memory, size_t size);
    // Receivers may look again: there is room for answers.
    void room_came() noexcept {
        if (!std::exchange(waits_for_answer_room_, false)) return;
        arrival_.wake_all();
    }
    // A message waits until there is room for its answer.
    [[nodiscard]] bool wants_answer_room() const noexcept { return waits_for_answer_room_; }
    void end(End how) noexcept;
    [[nodiscard]] uint64_t reserved_for_replies() const noexcept { return reserved_; }
    [[nodiscard]] size_t inbox_messages() const noexcept { return inbox_count_; }
    // Operations in progress; close() waits until there are none.
    class [[nodiscard]] Use {
      public:
        explicit Use(Endpoint& endpoint) noexcept : endpoint_(endpoint) { endpoint_.begin_use(); }
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;
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
    // First in, first out: a ring that grows to what the incoming budget allows.
    std::unique_ptr<Arrived[]> inbox_;
    size_t inbox_capacity_ = 0;
    size_t inbox_first_ = 0;
    size_t inbox_count_ = 0;
    Event arrival_;
    Event end_event_;
    Event unused_;
};

}  // namespace ros2s::fabric
