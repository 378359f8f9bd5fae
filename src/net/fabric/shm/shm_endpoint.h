// ShmEndpoint: an Endpoint over two segments (layout.h) and a Unix socket. The server copies in and
// out of the client's payload segment itself.
//
// A hostile client can only end its own session. The server loads the client's words once and
// checks them, copies its entries before it looks at them, and takes a bounded number in a turn. It
// reserves room for a reply in its ring before it takes the request, so it never waits for the
// client. A wake-up is one byte, which it does not wait for either.
//
// The first entry that is written in a turn wakes a sleeping peer at once, not only at the turn's
// end. Otherwise all requests of a turn reach the peer as one group, and each process rests while
// the other works on the whole group. A fence for each entry would cost more than that gains. So
// wrote_entry() loads the peer's flag without a fence. If the flag is up, it calls wake_peer(),
// which has a fence. It does so once in a turn, so that a peer that sleeps again after each entry
// costs at most two wake-ups a turn.
//
// On a machine whose cores are busy, a peer sleeps again after a few entries instead of polling.
// Each wake-up then costs both sides more than the entries do. A server notices such a peer: the
// flag is up again soon after a wake-up. Then it gathers: it wakes the peer at the end of the turn,
// or after four turns in which requests came.
//
//     writer                              sleeper
//     entry, tail                         flag = entries
//     flag up? wake_peer()                tail moved? does not sleep
//     ...                                 waits on its socket
//     poll(): fence, flag up?
//     clears it, sends a byte
//
// No wake-up is lost, whatever the load without a fence returns: it can only cause an early
// wake_peer(). After every entry without a wake_peer(), wake_for_ is not 0, so poll() calls
// wake_peer() in the next turn without new requests, and a core sleeps only after such a turn.
// There the store of the tail precedes the fence and the load of the flag. The sleeper stores the
// flag and then loads the tail, sequentially consistent. So one of the two sees the other.
#pragma once
#include <array>
#include <expected>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "extents.h"
#include "ring.h"
#include "ros2s/base/quota.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/message_endpoint.h"
#include "ros2s/fabric/region_table.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/runtime/slices.h"
#include "segment.h"

namespace ros2s::fabric::shm {

// The connections of one domain; each turn of the loop looks at them.
class ShmEndpoint;
// Why a segment that a client wants cannot be given now: the limit that refuses it. Without one:
// the client must read its socket first, or segments come and go too fast, or this process may open
// no more files.
using Obstacle = std::optional<Quota::Limit>;
class ShmConnections final : public Poller {
  public:
    // The pause between looks while connections wait: another domain may have given memory back.
    static constexpr Duration waiting_retry = std::chrono::milliseconds(100);
    // One that waits for longer no longer makes others return what they do not use.
    static constexpr Duration scarce_max = std::chrono::seconds(2);
    // The pause before a connection with another obstacle is served again, and how many at once.
    static constexpr Duration delay = std::chrono::milliseconds(10);
    static constexpr size_t served_together = 64;
    // A segment costs the time in which it is made, mapped, emptied and unmapped: 20 us, and 64 us
    // for each MiB. A domain spends at most a tenth of its core's time on this, and `burst` ahead.
    static constexpr Duration segment_time = std::chrono::microseconds(20);
    static constexpr Duration segment_time_of_mib = std::chrono::microseconds(64);
    static constexpr Duration burst = std::chrono::milliseconds(50);

    explicit ShmConnections(Reactor& reactor, Options options = {})
        : reactor_(reactor),
          options_(options),
          given_({.in_all = options.segments_bytes_max, .subjects_share = true}),
          tidying_(reactor, 1),
          serving_(reactor, 1) {
        reactor_.attach(*this);
    }
    ShmConnections& operator=(ShmConnections&&) = delete;
    ~ShmConnections();
    Task<> close();
    void add(ShmEndpoint& endpoint) { all_.push_back(&endpoint); }
    void remove(ShmEndpoint& endpoint) noexcept;
    // A connection has used memory that it can give back later.
    void used() noexcept {
        if (tidying_.running() == 0 && !closing_) start_tidying();
    }
    // Gives and takes the segments that the connection's client asks for, now or later.
    void serve(ShmEndpoint& endpoint);
    // Whether the time for one more segment is there. spend_time() uses it.
    [[nodiscard]] bool has_time() const { return given_until_ <= reactor_.now() + burst; }
    void spend_time(uint64_t bytes);
    [[nodiscard]] bool others_wait() const noexcept { return !waiting_.empty(); }
    bool poll() noexcept override;
    bool prepare_sleep() noexcept override;
    void woke() noexcept override;

    // Reserved memory for segments, until it is released.
    class [[nodiscard]] Room {
      public:
        Room() = default;
        Room(Room&& other) noexcept
            : connections_(std::exchange(other.connections_, nullptr)),
              bytes_(other.bytes_),
              share_(std::move(other.share_)) {}
        Room& operator=(Room&&) = delete;
        ~Room() { release(); }
        explicit operator bool() const noexcept { return connections_ != nullptr; }
        void release() noexcept;

      private:
        friend class ShmConnections;
        Room(ShmConnections& connections, uint64_t bytes, Quota::Share share) noexcept
            : connections_(&connections), bytes_(bytes), share_(std::move(share)) {}
        ShmConnections* connections_ = nullptr;
        uint64_t bytes_ = 0;
        Quota::Share share_;
    };
    // Memory that a connection gets at its beginning without a share of
    // Options::segments_bytes_max.
    static constexpr uint64_t small_bytes = uint64_t{2} << 20;
    // For a new connection. Empty if this would be too much.
    [[nodiscard]] Room take_room(uint64_t bytes, Quota::Who who) noexcept;
    // Whether Options::segments_bytes_max has it.
    [[nodiscard]] bool has_room(uint64_t bytes, uint64_t has, Quota::Who who) const {
        const uint64_t room = given_.room(who);
        return bytes <= room && (has == 0 || bytes <= room - std::min(room, has));
    }
    // For a further segment of a connection that `has` so much in such segments. Errors: the limit
    // that refuses it.
    [[nodiscard]] std::expected<Room, Quota::Limit> take_further_room(uint64_t bytes, uint64_t has,
                                                                      Quota::Who who) noexcept;

  private:
    // The least that a segment counts, because a process can have only some 65,000 mappings.
    static constexpr uint64_t segment_counts = uint64_t{256} << 10;
    struct Waiting {
        ShmEndpoint* endpoint;
        Quota::Limit limit;
        Time since;
    };
    void start_tidying() noexcept;
    static Task<> tidy(ShmConnections& self);
    static Task<> serve_delayed(ShmConnections& self);
    void wait_for_room(ShmEndpoint& endpoint, Quota::Limit limit);
    void serve_later(ShmEndpoint& endpoint);
    void retry_waiting();
    void tell_scarcity();

    Reactor& reactor_;
    const Options options_;
    uint64_t segments_bytes_ = 0;  // of those accepted
    Quota given_;                  // of them, what is more than each connection has
    [[nodiscard]] Room together(uint64_t bytes, Quota::Share share) noexcept;
    std::vector<ShmEndpoint*> all_;
    size_t asked_ = 0;
    std::vector<Waiting> waiting_;       // for room, in order
    std::vector<ShmEndpoint*> delayed_;  // by another obstacle, in order
    Time given_until_{};                 // the time of all segments that were given ends then
    bool room_came_ = false;
    bool closing_ = false;
    StopSource stop_;
    Nursery tidying_, serving_;
};

struct ShmConnection {
    uint64_t domain = 0;  // ours
    uint64_t session = 0;
    Hello peer;
    ShmHello layout;
    uint64_t tenant = 0;
    bool gets_further = false;  // further segments of payload, up to Limits::memory_bytes_max
    bool initiates = false;
};

class ShmEndpoint final : public MessageEndpoint {
  public:
    ShmEndpoint(Reactor& reactor, Counters& counters, ShmConnections& connections, Limits limits,
                const ShmConnection& session, Segment control, Segment payload, Descriptor socket,
                ShmConnections::Room room = {});
    ~ShmEndpoint() override;

    static const std::string provider_name;
    const std::string& provider() const noexcept override;
    Result<Bytes> allocate(uint64_t size) override;
    Result<> ask_for_memory(uint64_t size) override;
    void free(Bytes memory) noexcept override;
    Task<Result<>> put(const RemoteKey& key, uint64_t offset, ConstBytes from,
                       PutReturns returns) override;
    Task<Result<>> get(const RemoteKey& key, uint64_t offset, Bytes into) override;
    Task<> close() override;

    bool poll() noexcept;
    bool prepare_sleep() noexcept;
    void woke() noexcept;
    // Gives back what was not used since the last call. False: there is nothing more to give back.
    bool tidy() noexcept;
    // The server's: takes the segments that the client returned, and gives the one that it wants.
    std::expected<void, Obstacle> serve_segments() noexcept;
    // The server's: tells the client that others wait for memory, or wait no more.
    void tell_scarce(bool scarce) noexcept;
    // In segments beyond the first.
    [[nodiscard]] uint64_t further_bytes() const noexcept;
    // For whom the server counts its memory: a user of this machine, within a tenant.
    [[nodiscard]] Quota::Who who() const noexcept {
        return {shm_session_.tenant, static_cast<uint64_t>(peer_.user)};
    }

  private:
    // A segment of payload.
    struct Payload {
        Payload(Segment segment, uint64_t allocatable, ShmConnections::Room of = {})
            : memory(std::move(segment)), room(std::move(of)), extents(allocatable) {}
        Segment memory;
        ShmConnections::Room room;  // the server's
        uint32_t mappings = 0;      // the server's, for requests
        bool is_leaving = false;    // the server's: returned by the client, but still mapped
        Extents extents;            // the client's
        uint32_t taken = 0;         // of them
        bool was_used = false;      // since the last tidy()
        bool has_pages = false;
        uint64_t mapped_upto = 0;  // probably: it only saves time
        // Maps pages that are used for the first time: one call costs less than a fault of each.
        // Not more than the caller uses, so that a client's addresses cost the server nothing.
        void map_pages(uint64_t offset, uint64_t bytes) noexcept;
    };
    Result<> do_reply(ConstBytes head, ConstBytes body) override;
    Result<RemoteKey> do_grant(Bytes memory, Rights rights, const RegionOptions& options) override;
    Task<> do_revoke(RemoteKey key) override;
    uint64_t outgoing_room() const noexcept override { return out_.room(); }
    void on_released(size_t size) noexcept override { held_ -= size + message_overhead; }
    void on_end() noexcept override;
    Result<Bytes> do_map(const RemoteKey& key, uint64_t offset, uint64_t count,
                         Rights right) override;
    void do_unmap(uint32_t slot) noexcept override;

    // Messages (shm_messages.cc).
    [[nodiscard]] uint64_t room_for_sends() const noexcept;
    bool write_at_once(ConstBytes head, ConstBytes body) noexcept override;
    void queue_changed(bool grew) noexcept override;
    void write(ConstBytes head, ConstBytes body) noexcept;
    bool write_piece(Outgoing& outgoing) noexcept;
    bool push_queue() noexcept;
    // Takes up to `most` entries from the ring, while the budget has room unless it is the last
    // call.
    bool take(uint64_t most, bool last) noexcept;
    enum class Took : uint8_t { yes, later, ended };
    Took take_one(bool last) noexcept;

    // Segments (shm_segments.cc).
    // The client's: the number of the segment with this memory; segments_most: none.
    [[nodiscard]] uint32_t segment_of(ConstBytes memory) const noexcept;
    void receive_wakes() noexcept;
    void take_segment(uint32_t number, Descriptor descriptor) noexcept;
    void return_segment(uint32_t number) noexcept;
    void want(uint32_t number, uint64_t bytes) noexcept;
    std::expected<void, Obstacle> give_segment(uint32_t number, uint64_t most,
                                               uint64_t least) noexcept;
    [[nodiscard]] bool has_read_the_last() noexcept;
    void drop_segment(uint32_t number) noexcept;
    void send_byte(uint8_t byte) noexcept;

    // Payload (shm_payload.cc).
    struct Location {
        std::byte* bytes = nullptr;
        uint32_t segment = 0;
    };
    [[nodiscard]] std::expected<Location, Refusal> locate(const RemoteKey& key, uint64_t offset,
                                                          uint64_t count, Rights right) noexcept;
    // By the server's own record: may this session's key be used at all?
    [[nodiscard]] std::expected<void, Refusal> check_key(const RemoteKey& key) const noexcept;
    // Tells the client that a region is in use. It is a count, because several transfers may use
    // it.
    void mark(uint32_t slot) noexcept;
    void unmark(uint32_t slot) noexcept;
    Task<Result<>> move(RemoteKey key, uint64_t offset, Bytes memory, Rights right);
    [[nodiscard]] SharedRegionEntry& grant_at(uint32_t slot) const noexcept;
    [[nodiscard]] uint32_t& use_at(uint32_t slot) const noexcept;
    [[nodiscard]] bool in_use(uint32_t slot) const noexcept;
    bool look_for_releases() noexcept;

    static Task<> watch(ShmEndpoint& self);
    [[nodiscard]] bool arm() noexcept;
    void disarm() noexcept;
    void hung_up() noexcept;
    void wrote_entry() noexcept;
    [[nodiscard]] bool gathers_wakes() const noexcept;
    void wake_peer() noexcept;
    [[nodiscard]] ControlPage& page() const noexcept;
    [[nodiscard]] SharedWord& own(SharedWord& server, SharedWord& client) const noexcept {
        return initiates() ? server : client;
    }

    ShmConnections& connections_;
    ShmConnections::Room memory_;  // the server's
    const ShmConnection shm_session_;
    Segment control_;
    std::array<std::unique_ptr<Payload>, segments_most> payloads_;  // the first always exists
    Descriptor socket_;
    RingWriter out_;
    RingReader in_;
    SharedWord& wants_;  // ours
    SharedWord& peer_wants_;
    uint64_t wake_for_ = 0;     // the events for the peer since wake_peer()
    bool woken_early_ = false;  // by wrote_entry(), in this turn
    Time woke_peer_at_{};
    uint32_t gathered_turns_ = 0;  // since wake_peer(): with requests, and without a wake-up
    // A connection without work in this many looks is armed instead: its peer wakes us.
    static constexpr uint32_t looks_until_armed = 4096;
    uint32_t quiet_looks_ = 0;
    bool armed_ = false;
    bool closed_ = false;

    bool wrote_ = false;  // into its ring, since the last tidy()
    bool ring_has_pages_ = false;

    // Used by the client.
    uint32_t asked_for_ = 0;  // the segment that was asked for and has not come; 0: none
    uint64_t asked_least_ = 0, asked_most_ = 0;
    std::optional<Error> asking_failed_;
    std::vector<uint32_t> generations_;
    std::vector<uint32_t> free_slots_;
    std::vector<uint32_t> revoking_;
    Event released_;
    // Used by the server.
    std::vector<uint32_t> uses_of_slots_;
    struct MappedSlot {
        uint32_t mappings = 0;
        uint32_t segment = 0;  // of all of them
    };
    std::vector<MappedSlot> mapped_slots_;
    uint64_t asks_seen_ = 0;
    bool is_scarce_ = false;        // the client was told
    bool sent_descriptor_ = false;  // that the client may not have received yet
    SliceTurns copying_;            // of transfers of more than a slice

    Event drained_;
    StopSource stop_;
    Nursery watching_;
};

}  // namespace ros2s::fabric::shm
