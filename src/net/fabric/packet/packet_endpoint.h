// PacketEndpoint: an Endpoint over a Wire. Messages, put and get are packets, several to a frame of
// at most 60 KiB, so that many small replies cost one send. The grantor's own code copies, and
// checks its table of regions for every piece. If the wire's adapter moves bytes by itself
// (OneSided), put and get are its operations. The granting side then announces grants and
// revocations. The initiating side checks each transfer against them (PeerRegions), and reports
// when a revoked grant has no transfer left.
//
// Outgoing data takes turns: control (credit, ends of operations), messages in order, pieces of
// puts and of replies to gets round robin. An open frame is written when it is full or when the
// core has nothing else to do (Flusher).
//
// Budgets towards the peer
// - Messages: the peer has credit for our incoming_bytes_max and gets it back as messages are
//   released. Each message counts its bytes and message_overhead. Using more ends the connection.
// - Operations: at most operations_max gets of the peer in progress. The number of ends that it has
//   not read is bounded, too.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "ros2s/fabric/domain.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/message_endpoint.h"
#include "ros2s/fabric/packet/peer_regions.h"
#include "ros2s/fabric/packet/wire.h"
#include "ros2s/fabric/region_table.h"

namespace ros2s::fabric {

class PacketEndpoint;

// The connections of one domain share a Flusher: spare frames, and the list of connections with an
// open frame. Open frames are written before the core polls or sleeps: the domain calls flush()
// from its Poller.
class Flusher {
  public:
    Flusher& operator=(Flusher&&) = delete;
    ~Flusher();
    void add(PacketEndpoint& endpoint);
    void remove(PacketEndpoint& endpoint) noexcept;
    // True if anything was written.
    bool flush() noexcept;
    [[nodiscard]] bool empty() const noexcept { return dirty_.empty(); }
    [[nodiscard]] Frame& take_frame();
    void give_frame(Frame& frame) noexcept;

  private:
    static constexpr size_t idle_frames_max = 64;
    std::vector<PacketEndpoint*> dirty_;
    Frame* idle_ = nullptr;
    size_t idle_count_ = 0;
};

// The result of the handshake.
struct PacketConnection {
    std::string provider;
    uint64_t domain = 0;  // ours
    uint64_t session = 0;
    Hello peer;  // theirs
    std::string peer_name;
    bool initiates = false;
};

class PacketEndpoint final : public MessageEndpoint, private WireUser {
  public:
    // Frames of one connection that are filled and not yet sent.
    static constexpr size_t frames_max = 32;

    PacketEndpoint(Reactor& reactor, Counters& counters, Flusher& flusher, Limits limits,
                   PacketConnection session, std::unique_ptr<Wire> wire);
    ~PacketEndpoint() override;

    // The hello of this side, not sealed.
    [[nodiscard]] static Hello introduce(const Domain& domain, const Limits& limits);
    [[nodiscard]] static Limits normalized(Limits limits) noexcept;

    const std::string& provider() const noexcept override { return session_info_.provider; }
    Result<Bytes> allocate(uint64_t size) override;
    void free(Bytes memory) noexcept override;
    Task<Result<>> put(const RemoteKey& key, uint64_t offset, ConstBytes from,
                       PutReturns returns) override;
    Task<Result<>> get(const RemoteKey& key, uint64_t offset, Bytes into) override;
    Task<> close() override;

  private:
    friend class Flusher;

    // A put or get that this side initiates. Is part of its coroutine's frame.
    struct Operation {
        RemoteKey key;
        uint64_t offset = 0;
        ConstBytes from{};  // put
        Bytes into{};       // get
        bool is_put = false;
        bool wants_answer = true;
        uint64_t id = 0;
        uint64_t moved = 0;
        bool all_sent = false;
        bool answered = false;
        Result<> result{};
        std::coroutine_handle<> waiter{};
    };
    // A get that the peer initiated.
    struct Served {
        RemoteKey key;
        uint64_t operation;
        uint64_t offset;
        uint64_t count;
        uint64_t sent;
    };
    struct Done {
        uint64_t operation;
        uint16_t result;
    };
    // The announcement of a grant. It precedes every message that is sent after it.
    struct Notice {
        Packet header;
        RemoteKey key;  // granted
    };
    // Waits until the peer reports that no transfer is in progress.
    struct Fence {
        RemoteKey key;
        Event changed;
        bool answered = false;
    };

    Result<> do_reply(ConstBytes head, ConstBytes body) override;
    Result<RemoteKey> do_grant(Bytes memory, Rights rights, const RegionOptions& options) override;
    Task<> do_revoke(RemoteKey key) override;
    uint64_t outgoing_room() const noexcept override;
    void on_released(size_t size) noexcept override;
    void on_end() noexcept override;

    void frame_sent(Frame& frame) noexcept override;
    void frame_came(ConstBytes frame) noexcept override;
    // After its goodbye a side ignores how the other one ends the connection.
    void broke(End how) noexcept override {
        end(goodbye_said_ && how == End::peer_died ? End::closed_here : how);
    }

    // Outgoing (pump.cc).
    void want_flush() noexcept;
    bool flush() noexcept;  // false: the connection has ended
    void pump() noexcept;
    bool open_frame() noexcept;
    void write_open() noexcept;
    [[nodiscard]] size_t frame_room() const noexcept;
    void append(const Packet& header, ConstBytes first, ConstBytes second) noexcept;
    bool add_control() noexcept;
    bool add_message() noexcept;
    bool add_put() noexcept;
    bool add_served() noexcept;
    bool write_at_once(ConstBytes head, ConstBytes body) noexcept override;
    void queue_changed(bool grew) noexcept override;
    [[nodiscard]] bool queues_empty() const noexcept;

    // Incoming (incoming.cc).
    void on_message(const PacketView& packet) noexcept;
    void on_put(const PacketView& packet) noexcept;
    void on_get(const PacketView& packet) noexcept;
    void on_got(const PacketView& packet) noexcept;
    void on_done(const PacketView& packet) noexcept;
    void on_credit(uint64_t count) noexcept;
    void answer(uint64_t operation, std::expected<void, Refusal> result) noexcept;

    // Grants and transfers where the adapter moves the bytes (adapter.cc).
    Result<RemoteKey> expose(RemoteKey key, Bytes memory, Rights rights, Time expires);
    Task<> fence(RemoteKey key);
    void withdraw(const RemoteKey& key) noexcept;
    void withdraw_all() noexcept;
    void notify(const Notice& notice) noexcept;
    bool add_notice() noexcept;
    Task<Result<>> put_by_adapter(const RemoteKey& key, uint64_t offset, ConstBytes from,
                                  PutReturns returns);
    Task<Result<>> get_by_adapter(const RemoteKey& key, uint64_t offset, Bytes into);
    Result<> finish_use(const PeerRegions::Use& use, const Result<>& moved) noexcept;
    void on_granted(const PacketView& packet) noexcept;
    void on_revoke(const PacketView& packet) noexcept;
    void on_revoked(const PacketView& packet) noexcept;

    // Operations of this side.
    Task<Result<>> perform(Operation& operation);
    Operation* find(uint64_t id) noexcept;
    void complete(Operation& operation) noexcept;

    PacketConnection session_info_;
    Flusher& flusher_;
    std::unique_ptr<Wire> wire_;
    OneSided* const one_sided_;     // the wire's, or null
    const size_t frame_bytes_max_;  // the wire's limit
    bool closed_ = false;
    bool dirty_ = false;
    bool pumping_ = false;

    Frame* open_ = nullptr;
    bool data_first_ = false;  // in the next frame, so that neither kind blocks the other
    size_t frames_out_ = 0;

    uint64_t credit_;             // that the peer still accepts
    uint64_t replies_bytes_ = 0;  // owned by us, not yet in frames

    uint64_t credit_due_ = 0;  // released and not yet announced

    Semaphore operation_slots_;
    std::vector<Operation*> operations_;  // by the low bits of their id
    std::vector<uint32_t> operations_free_;
    uint64_t operations_made_ = 0;
    std::deque<Operation*> puts_;  // with bytes or a request to send
    std::deque<Served> served_;
    std::deque<Done> dones_;
    bool goodbye_due_ = false;
    bool goodbye_said_ = false;

    RegionTable grants_;
    PeerRegions peer_regions_;
    std::deque<Notice> notices_;
    std::vector<Fence*> fences_;
    std::unordered_map<uint32_t, uint64_t> exposed_;  // the adapter's keys, by slot
    uint64_t allocated_ = 0;
    Event drained_;  // set while nothing is queued or in frames
};

}  // namespace ros2s::fabric
