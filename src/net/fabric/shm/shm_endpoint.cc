#include "shm_endpoint.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "ros2s/runtime/ring.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::fabric::shm {
namespace {

// Messages that one connection may receive in one turn of the loop. They are few, because their
// requests begin only at the end of the turn.
constexpr uint32_t messages_per_turn = 8;
// A peer that sleeps within this time after a wake-up does not poll for as long as it could.
constexpr Duration polls_at_least = std::chrono::microseconds(500);
constexpr uint32_t gathered_turns_most = 4;

// The rings follow the control page: to the server, to the client.
Bytes ring_of(const Segment& control, const ShmHello& layout, bool to_server) {
    return to_server ? control.bytes().subspan(control_page_bytes, layout.to_server_bytes)
                     : control.bytes().subspan(control_page_bytes + layout.to_server_bytes,
                                               layout.to_client_bytes);
}
ControlPage& page_of(const Segment& control) {
    return *reinterpret_cast<ControlPage*>(control.bytes().data());
}

}  // namespace

ShmConnections::~ShmConnections() {
    ROS2S_CHECK(all_.empty());
    reactor_.detach(*this);
}

Task<> ShmConnections::close() {
    closing_ = true;
    stop_.request_stop();
    co_await tidying_.join();
    co_await serving_.join();
}

void ShmConnections::remove(ShmEndpoint& endpoint) noexcept {
    std::erase(all_, &endpoint);
    std::erase(delayed_, &endpoint);
    std::erase_if(waiting_, [&](const Waiting& each) { return each.endpoint == &endpoint; });
}

void ShmConnections::start_tidying() noexcept { (void)tidying_.try_spawn(tidy(*this)); }

Task<> ShmConnections::tidy(ShmConnections& self) {
    const Duration idle_after = self.options_.idle_after;
    Time next = self.reactor_.now() + idle_after;
    for (bool more = true; more;) {
        const Duration pause = self.others_wait() ? waiting_retry : idle_after;
        if (!co_await sleep_for(self.reactor_, pause, self.stop_.token())) co_return;
        self.retry_waiting();
        if (self.reactor_.now() < next) continue;
        next = self.reactor_.now() + idle_after;
        more = self.others_wait();
        for (ShmEndpoint* const each : self.all_) more |= each->tidy();
    }
}

void ShmConnections::serve(ShmEndpoint& endpoint) {
    const auto served = endpoint.serve_segments();
    if (served) return;
    if (served.error()) {
        wait_for_room(endpoint, *served.error());
    } else {
        serve_later(endpoint);
    }
}

void ShmConnections::serve_later(ShmEndpoint& endpoint) {
    if (std::ranges::find(delayed_, &endpoint) != delayed_.end()) return;
    delayed_.push_back(&endpoint);
    if (serving_.running() == 0 && !closing_) (void)serving_.try_spawn(serve_delayed(*this));
}

Task<> ShmConnections::serve_delayed(ShmConnections& self) {
    while (!self.delayed_.empty()) {
        if (!co_await sleep_for(self.reactor_, delay, self.stop_.token())) co_return;
        const auto end = self.delayed_.begin() +
                         static_cast<ptrdiff_t>(std::min(self.delayed_.size(), served_together));
        const std::vector<ShmEndpoint*> some(self.delayed_.begin(), end);
        self.delayed_.erase(self.delayed_.begin(), end);
        for (ShmEndpoint* const each : some) self.serve(*each);
    }
}

void ShmConnections::spend_time(uint64_t bytes) {
    constexpr uint64_t mib = uint64_t{1} << 20;
    const Duration time = segment_time + segment_time_of_mib * static_cast<int64_t>(bytes / mib);
    given_until_ = std::max(given_until_, reactor_.now()) + 10 * time;
}

void ShmConnections::wait_for_room(ShmEndpoint& endpoint, Quota::Limit limit) {
    const auto is_it = [&](const Waiting& each) { return each.endpoint == &endpoint; };
    if (std::ranges::any_of(waiting_, is_it)) return;
    waiting_.push_back({&endpoint, limit, reactor_.now()});
    used();
    tell_scarcity();
}

// While a connection waits, others return what they do not use at once: all, if the tenant has
// nothing and there is none left, else those of the same tenant. One that waits for very long may
// want what it will never get.
void ShmConnections::tell_scarcity() {
    bool is_for_all = false;
    std::set<uint64_t> tenants;
    const Time now = reactor_.now();
    for (const Waiting& each : waiting_) {
        if (now - each.since >= scarce_max) continue;
        is_for_all |= each.limit == Quota::Limit::all;
        tenants.insert(each.endpoint->who().tenant);
    }
    for (ShmEndpoint* const each : all_) {
        each->tell_scarce(is_for_all || tenants.contains(each->who().tenant));
    }
}

// One that has to wait again stays in its place, and does not keep others waiting: what limits it
// may be a limit of its own.
void ShmConnections::retry_waiting() {
    room_came_ = false;
    if (waiting_.empty()) return;
    std::vector<ShmEndpoint*> later;
    std::erase_if(waiting_, [&](Waiting& each) {
        const auto served = each.endpoint->serve_segments();
        if (!served && served.error()) {
            each.limit = *served.error();
            return false;
        }
        if (!served) later.push_back(each.endpoint);
        return true;
    });
    for (ShmEndpoint* const each : later) serve_later(*each);
    tell_scarcity();
}

ShmConnections::Room ShmConnections::together(uint64_t bytes, Quota::Share share) noexcept {
    if (SegmentsTogether* const together = options_.together) {
        const uint64_t free = together->bytes_max - std::min(together->bytes_max, together->bytes);
        if (bytes > free || segments_bytes_ + bytes > free - bytes) return {};
        together->bytes += bytes;
    }
    segments_bytes_ += bytes;
    return {*this, bytes, std::move(share)};
}

ShmConnections::Room ShmConnections::take_room(uint64_t bytes, Quota::Who who) noexcept {
    if (bytes <= small_bytes) return together(bytes, {});
    auto share = given_.take(who, bytes - small_bytes);
    if (!share) return {};
    return together(bytes, std::move(*share));
}

std::expected<ShmConnections::Room, Quota::Limit> ShmConnections::take_further_room(
    uint64_t bytes, uint64_t has, Quota::Who who) noexcept {
    bytes = std::max(bytes, segment_counts);
    // A connection leaves as much to others of its user as it has.
    if (has > 0 && !has_room(bytes, has, who)) return std::unexpected(Quota::Limit::subject);
    auto share = given_.take(who, bytes);
    if (!share) return std::unexpected(share.error());
    Room room = together(bytes, std::move(*share));
    if (!room) return std::unexpected(Quota::Limit::tenant);
    return room;
}

void ShmConnections::Room::release() noexcept {
    if (connections_ == nullptr) return;
    ShmConnections& connections = *std::exchange(connections_, nullptr);
    share_.end();
    connections.segments_bytes_ -= bytes_;
    connections.room_came_ = true;
    if (connections.options_.together != nullptr) connections.options_.together->bytes -= bytes_;
}

bool ShmConnections::poll() noexcept {
    bool found = false;
    if (room_came_) retry_waiting();
    for (ShmEndpoint* each : all_) found |= each->poll();
    return found;
}

bool ShmConnections::prepare_sleep() noexcept {
    if (room_came_ && others_wait()) {
        asked_ = 0;
        return false;
    }
    for (asked_ = 0; asked_ < all_.size();) {
        if (!all_[asked_++]->prepare_sleep()) return false;
    }
    return true;
}

void ShmConnections::woke() noexcept {
    for (size_t i = 0; i < std::min(asked_, all_.size()); ++i) all_[i]->woke();
}

ShmEndpoint::ShmEndpoint(Reactor& reactor, Counters& counters, ShmConnections& connections,
                         Limits limits, const ShmConnection& session, Segment control,
                         Segment payload, Descriptor socket, ShmConnections::Room room)
    : MessageEndpoint(reactor, counters, normalized(limits), session.initiates),
      connections_(connections),
      memory_(std::move(room)),
      shm_session_(session),
      control_(std::move(control)),
      socket_(std::move(socket)),
      out_(ring_of(control_, shm_session_.layout, !session.initiates),
           session.initiates ? page().to_client_tail : page().to_server_tail,
           session.initiates ? page().to_client_head : page().to_server_head),
      in_(ring_of(control_, shm_session_.layout, session.initiates),
          session.initiates ? page().to_server_tail : page().to_client_tail,
          session.initiates ? page().to_server_head : page().to_client_head),
      wants_(own(page().server_wants, page().client_wants)),
      peer_wants_(own(page().client_wants, page().server_wants)),
      released_(reactor),
      copying_(reactor),
      drained_(reactor),
      watching_(reactor, 1) {
    peer_ = peer_at(socket_.get(), "shm");
    peer_.domain = shm_session_.peer.domain;
    session_ = shm_session_.session;
    send_bytes_max_ = shm_session_.peer.message_bytes_max;
    reply_overhead_ = entry_bytes(0) + entry_alignment;
    const uint64_t first = shm_session_.layout.payload_bytes;
    if (!shm_session_.gets_further) limits_.memory_bytes_max = first;
    payload.close_descriptor();
    payloads_[0] = std::make_unique<Payload>(std::move(payload), initiates() ? 0 : first);
    limits_.regions_max = std::min(limits_.regions_max, shm_session_.layout.slots);
    if (initiates()) {
        uses_of_slots_.resize(shm_session_.layout.slots);
        mapped_slots_.resize(shm_session_.layout.slots);
    } else {
        generations_.resize(limits_.regions_max);
        for (uint32_t i = limits_.regions_max; i-- > 0;) free_slots_.push_back(i);
    }
    control_.close_descriptor();
    drained_.set();
    connections_.add(*this);
    counters_.connections.add();
    const bool started = watching_.try_spawn(watch(*this));
    ROS2S_CHECK(started);
}

ShmEndpoint::~ShmEndpoint() { ROS2S_CHECK(closed_); }

const std::string ShmEndpoint::provider_name = "shm";

const std::string& ShmEndpoint::provider() const noexcept { return provider_name; }
ControlPage& ShmEndpoint::page() const noexcept { return page_of(control_); }

// The socket: bytes on it are wake-ups, or come with segments. Its end is the peer's end.
Task<> ShmEndpoint::watch(ShmEndpoint& self) {
    while (self.alive()) {
        const auto polled =
            co_await self.reactor_.ring()->poll(self.socket_.get(), POLLIN, self.stop_.token());
        if (!polled) co_return;
        self.receive_wakes();
    }
}

// The messages that the peer had written are received before the end is reported. At most one ring
// of them, whatever the budgets say, because there is no later chance.
void ShmEndpoint::hung_up() noexcept {
    if (!in_.refresh()) return end(End::violation);
    take(~uint64_t{0}, true);
    if (!alive()) return;
    const SharedWord& goodbye = own(page().client_goodbye, page().server_goodbye);
    const bool said = shared(const_cast<uint64_t&>(goodbye.value)).load() == 1;
    end(said ? End::closed_there : End::peer_died);
}

bool ShmEndpoint::poll() noexcept {
    // Quiet, and without work. New work comes with a byte on the socket.
    if (!alive() || (armed_ && wake_for_ == 0 && first() == nullptr && !wants_answer_room() &&
                     revoking_.empty())) {
        return false;
    }
    disarm();
    woken_early_ = false;
    if (!in_.refresh()) {
        end(End::violation);
        return true;
    }
    bool found = in_.available() > 0 && take(messages_per_turn, false);
    const bool gathers = found && gathers_wakes() && ++gathered_turns_ < gathered_turns_most;
    if (alive() && (first() != nullptr || wants_answer_room())) {
        if (!out_.refresh()) {
            end(End::violation);
            return true;
        }
        found |= push_queue();
        if (out_.room() >= reserved_for_replies() + limits_.reply_bytes + reply_overhead_) {
            room_came();
        }
    }
    found |= look_for_releases();
    if (!gathers) wake_peer();
    quiet_looks_ = found ? 0 : quiet_looks_ + 1;
    if (quiet_looks_ >= looks_until_armed) armed_ = arm();
    return found;
}

// Sets the flags for its wake-up, then looks once more: either the writer sees the flag, or the
// event is seen here.
bool ShmEndpoint::prepare_sleep() noexcept {
    if (!alive() || arm()) return true;
    disarm();  // poll() must look
    return false;
}

bool ShmEndpoint::arm() noexcept {
    const bool needs_room = first() != nullptr || wants_answer_room();
    const uint64_t wants =
        wants_entries | (needs_room ? wants_room : 0) | (revoking_.empty() ? 0 : wants_release);
    shared(wants_.value).store(wants, std::memory_order_seq_cst);
    const uint64_t known = in_.available();
    if (!in_.refresh()) return false;  // poll() handles it
    if (in_.available() != known) return false;
    if (needs_room && out_.read_further()) return false;
    return std::ranges::all_of(revoking_, [this](uint32_t slot) { return in_use(slot); });
}

void ShmEndpoint::woke() noexcept {
    if (!armed_) shared(wants_.value).store(0, std::memory_order_relaxed);
}

void ShmEndpoint::disarm() noexcept {
    if (!armed_) return;
    armed_ = false;
    quiet_looks_ = 0;
    shared(wants_.value).store(0, std::memory_order_relaxed);
}

// Wakes a peer that is known to sleep. poll() detects any other.
void ShmEndpoint::wrote_entry() noexcept {
    wake_for_ |= wants_entries;
    wrote_ = true;
    connections_.used();
    disarm();  // a reply may come soon
    if (woken_early_ || gathers_wakes()) return;
    const uint64_t wants = shared(peer_wants_.value).load(std::memory_order_relaxed);
    if ((wants & wants_entries) == 0) return;
    woken_early_ = true;
    wake_peer();
}

// Only a server: its loop goes on by itself.
bool ShmEndpoint::gathers_wakes() const noexcept {
    return initiates() && reactor_.turn_time() - woke_peer_at_ < polls_at_least;
}

// At most one byte for each sleep of the peer. A full socket has enough bytes to wake it.
void ShmEndpoint::wake_peer() noexcept {
    if (wake_for_ == 0 || !alive()) return;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const uint64_t wants = shared(peer_wants_.value).load(std::memory_order_seq_cst);
    if ((wants & wake_for_) != 0) {
        shared(peer_wants_.value).store(0, std::memory_order_seq_cst);
        send_byte(wake_byte);
        woke_peer_at_ = reactor_.turn_time();
    }
    wake_for_ = 0;
    gathered_turns_ = 0;
}

void ShmEndpoint::on_end() noexcept {
    // The peer sees the hang-up at once, and we do not access its memory any more.
    shutdown(socket_.get(), SHUT_RDWR);
    stop_.request_stop();
    end_queue();
    drained_.set();
    released_.wake_all();
    memory_event().wake_all();
}

Task<> ShmEndpoint::close() {
    if (alive()) {
        Deadline deadline(reactor_, reactor_.now() + limits_.answer_within, {});
        {
            const WakeOnStop wake(deadline.token(), drained_);
            while (!drained_.is_set() && !deadline.passed()) co_await drained_;
        }
        co_await deadline.finish();
        if (alive()) {
            shared(own(page().server_goodbye, page().client_goodbye).value).store(1);
            end(End::closed_here);
        }
    }
    co_await unused();
    if (closed_) co_return;
    co_await watching_.join();
    connections_.remove(*this);
    memory_.release();
    for (auto& each : payloads_) {
        if (each) each->room.release();
    }
    socket_.reset();
    closed_ = true;
}

}  // namespace ros2s::fabric::shm
