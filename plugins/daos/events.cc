#include "events.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

using std::chrono::steady_clock;
using Status = EventState::Status;

constexpr uint32_t ring_depth = 4096;
constexpr uint32_t reaped_together_max = 64;
// A waiting thread checks at this interval for events that other threads have completed.
constexpr std::chrono::milliseconds look_again = std::chrono::milliseconds(10);
// After this many polls without a result, a program that polls without waiting sleeps briefly in
// each poll: on a busy machine the storage needs the processor.
constexpr uint32_t fruitless_polls_max = 1;
constexpr int64_t rest_ns = 50'000;

// The remaining time of a wait, at most until the next check. A negative limit: no limit. For a
// limit of 0 the clock is not read.
class Deadline {
  public:
    explicit Deadline(int64_t timeout_us) : timeout_us_(timeout_us) {
        if (timeout_us > 0) end_ = steady_clock::now() + std::chrono::microseconds(timeout_us);
    }
    [[nodiscard]] int64_t left_ns() const {
        const int64_t most = std::chrono::nanoseconds(look_again).count();
        if (timeout_us_ <= 0) return timeout_us_ == 0 ? 0 : most;
        return std::clamp<int64_t>(std::chrono::nanoseconds(end_ - steady_clock::now()).count(), 0,
                                   most);
    }

  private:
    int64_t timeout_us_;
    steady_clock::time_point end_;
};

const std::shared_ptr<EventQueue>& queue_of_loose_events() {
    static const auto& only = *new std::shared_ptr<EventQueue>(std::make_shared<EventQueue>());
    return only;
}

// A request in a ring.
struct Submitted {
    daos_event_t* event;
    std::shared_ptr<ros2s_file> file;
    ros2s_opcode opcode;
    Piece piece;
};

// A write that ends early has written `done` bytes at the beginning. The rest fails with the
// reason. Returns the result of the whole write.
int64_t finish_write(const Submitted& write, int64_t done) {
    const auto bytes = static_cast<int64_t>(write.piece.bytes);
    while (done < bytes) {
        const ssize_t count = ros2s_pwrite(
            write.file.get(), static_cast<char*>(write.piece.address) + done,
            static_cast<size_t>(bytes - done), write.piece.offset + static_cast<uint64_t>(done));
        if (count <= 0) return count < 0 ? count : -EIO;
        done += count;
    }
    return done;
}

}  // namespace

EventState* state_of(daos_event_t* event) {
    if (event == nullptr) return nullptr;
    auto& state = state_in(*event);
    return state.magic == EventState::initialized ? &state : nullptr;
}

std::shared_ptr<EventQueue> EventQueue::of(const EventState& state) {
    if (state.queue == 0) return queue_of_loose_events();
    return Handles::table().find<EventQueue>({state.queue});
}

EventQueue::~EventQueue() {
    drain();
    for (const auto& ring : rings_) close(*ring);
}

void EventQueue::close(Ring& ring) {
    if (ring.queue != nullptr) ros2s_queue_destroy(ring.queue);
    ring.queue = nullptr;
}

EventQueue::Rings EventQueue::rings() {
    const std::lock_guard locked(submitting_);
    return rings_;
}

int EventQueue::ring_of(ros2s_fs* fs, std::shared_ptr<Ring>& ring) {
    for (const auto& each : rings_) {
        if (each->fs == fs) {
            ring = each;
            return 0;
        }
    }
    auto made = std::make_shared<Ring>();
    made->fs = fs;
    if (const int rc = ros2s_queue_create(fs, ring_depth, &made->queue); rc < 0) return -rc;
    rings_.push_back(made);
    ring = std::move(made);
    return 0;
}

void EventQueue::begin(daos_event_t& event) {
    const std::lock_guard locked(state_);
    auto& state = state_in(event);
    state.status = Status::running;
    state.position = static_cast<uint32_t>(running_.size());
    running_.push_back(&event);
}

void EventQueue::stop_running(EventState& state) {
    auto* const last = running_.back();
    running_[state.position] = last;
    state_in(*last).position = state.position;
    running_.pop_back();
}

int EventQueue::submit(const Transfer& transfer, daos_event_t& event, uint32_t& accepted) {
    std::shared_ptr<Ring> ring;
    const std::lock_guard locked(submitting_);
    if (const int rc = ring_of(transfer.fs, ring); rc != 0) return rc;
    for (; accepted < transfer.pieces.size(); ++accepted) {
        const auto& piece = transfer.pieces[accepted];
        ros2s_request request{};
        request.opcode = static_cast<uint16_t>(transfer.opcode);
        request.file = transfer.file.get();
        request.address = piece.address;
        request.bytes = piece.bytes;
        request.offset = piece.offset;
        auto submitted =
            std::make_unique<Submitted>(Submitted{&event, transfer.file, transfer.opcode, piece});
        request.user_data = reinterpret_cast<uintptr_t>(submitted.get());
        ++ring->running;
        const int taken = ros2s_queue_submit(ring->queue, &request, 1);
        if (taken == 1) {
            (void)submitted.release();  // reap() takes it
        } else {
            --ring->running;
        }
        if (taken < 0) return -taken;
        if (taken == 0) return 0;
    }
    return 0;
}

int EventQueue::start(daos_event_t& event, const Transfer& transfer) {
    auto& state = state_in(event);
    state.pieces_left = static_cast<uint32_t>(transfer.pieces.size());
    state.error = 0;
    state.bytes = 0;
    state.bytes_out = transfer.bytes_out;
    state.list_out = transfer.list_out;
    begin(event);
    uint32_t accepted = 0;
    int rc = 0;
    while (rc == 0 && accepted < transfer.pieces.size()) {
        rc = submit(transfer, event, accepted);
        // The ring is full.
        if (rc == 0 && accepted < transfer.pieces.size()) progress(look_again.count() * 1'000'000);
    }
    if (accepted == transfer.pieces.size() && accepted > 0) return 0;
    // Requests that were not submitted are complete, with this error.
    const std::lock_guard locked(state_);
    state.pieces_left -= static_cast<uint32_t>(transfer.pieces.size()) - accepted;
    if (state.error == 0) state.error = rc;
    if (state.pieces_left > 0) return 0;
    finish(event, state.error);
    return 0;
}

void EventQueue::finish(daos_event_t& event, int result) {
    auto& state = state_in(event);
    stop_running(state);
    event.ev_error = result;
    if (state.bytes_out != nullptr) *state.bytes_out = state.bytes;
    if (state.list_out != nullptr) state.list_out->sg_nr_out = state.list_out->sg_nr;
    state.bytes_out = nullptr;
    state.list_out = nullptr;
    state.status = Status::completed;
    completed_.push_back(&event);
    finished_.notify_all();
}

void EventQueue::complete(daos_event_t& event, int result) {
    begin(event);
    const std::lock_guard locked(state_);
    finish(event, result);
}

void EventQueue::reap(Ring& ring, int64_t wait_ns) {
    std::array<ros2s_completion, reaped_together_max> done;
    // At least one, so that the library's loop runs once even if there is no time to wait.
    const int count = ros2s_queue_reap(ring.queue, done.data(), 1, done.size(), wait_ns);
    if (count <= 0) return;
    const auto completions = std::span(done).first(static_cast<size_t>(count));
    for (auto& each : completions) {
        const auto& submitted = *reinterpret_cast<const Submitted*>(each.user_data);
        const bool is_write = submitted.opcode == ROS2S_OP_WRITE;
        if (is_write && each.result >= 0) each.result = finish_write(submitted, each.result);
    }
    ring.running -= static_cast<uint32_t>(count);
    const std::lock_guard locked(state_);
    for (const auto& each : completions) {
        const std::unique_ptr<Submitted> submitted(reinterpret_cast<Submitted*>(each.user_data));
        auto& event = *submitted->event;
        auto& state = state_in(event);
        if (each.result < 0) {
            if (state.error == 0) state.error = static_cast<int>(-each.result);
        } else {
            state.bytes += static_cast<uint64_t>(each.result);
        }
        if (--state.pieces_left == 0) finish(event, state.error);
    }
}

std::shared_ptr<EventQueue::Ring> EventQueue::next_busy(size_t& at, size_t& busy) {
    const std::lock_guard locked(submitting_);
    busy = static_cast<size_t>(
        std::ranges::count_if(rings_, [](const auto& ring) { return ring->running > 0; }));
    while (at < rings_.size()) {
        if (const auto& ring = rings_[at++]; ring->running > 0) return ring;
    }
    return nullptr;
}

bool EventQueue::reap(int64_t wait_ns) {
    size_t busy = 0;
    size_t at = 0;
    bool found = false;
    while (const auto ring = next_busy(at, busy)) {
        // With several mounts, none may wait long for another.
        reap(*ring, busy > 1 ? std::min<int64_t>(wait_ns, rest_ns) : wait_ns);
        found = true;
    }
    return found;
}

void EventQueue::progress(int64_t wait_ns) {
    if (const std::unique_lock reaping(reaping_, std::try_to_lock); reaping.owns_lock()) {
        if (reap(wait_ns)) return;
    }
    if (wait_ns == 0) return;
    std::unique_lock waiting(state_);
    if (completed_.empty()) finished_.wait_for(waiting, std::chrono::nanoseconds(wait_ns));
}

uint32_t EventQueue::take(std::span<daos_event_t*> into) {
    uint32_t count = 0;
    while (count < into.size() && !completed_.empty()) {
        into[count] = completed_.front();
        completed_.pop_front();
        state_in(*into[count++]).status = Status::ready;
    }
    return count;
}

bool EventQueue::has_running() {
    const std::lock_guard locked(state_);
    return !running_.empty();
}

uint32_t EventQueue::poll(std::span<daos_event_t*> into, bool only_running, int64_t timeout_us) {
    const Deadline deadline(timeout_us);
    for (bool first = true;; first = false) {
        {
            const std::lock_guard locked(state_);
            if (const uint32_t count = take(into); count > 0) {
                empty_polls_ = 0;
                return count;
            }
            if (running_.empty() && (only_running || timeout_us == 0)) return 0;
        }
        int64_t wait_ns = deadline.left_ns();
        if (!first && wait_ns == 0) {
            if (timeout_us == 0) ++empty_polls_;
            return 0;
        }
        if (timeout_us == 0 && empty_polls_ >= fruitless_polls_max) wait_ns = rest_ns;
        progress(wait_ns);
    }
}

bool EventQueue::test(daos_event_t& event, int64_t timeout_us) {
    const Deadline deadline(timeout_us);
    for (bool first = true;; first = false) {
        {
            const std::lock_guard locked(state_);
            auto& state = state_in(event);
            if (state.status == Status::completed) std::erase(completed_, &event);
            if (state.status != Status::running) {
                state.status = Status::ready;
                return true;
            }
        }
        const int64_t wait_ns = deadline.left_ns();
        if (!first && wait_ns == 0) return false;
        progress(wait_ns);
    }
}

uint32_t EventQueue::query(daos_eq_query_t what, std::span<daos_event_t*> into) {
    const std::lock_guard locked(state_);
    uint32_t count = 0;
    const auto add = [&](daos_event_t* event) {
        if (count < into.size()) into[count] = event;
        ++count;
    };
    if ((what & DAOS_EQR_COMPLETED) != 0) std::ranges::for_each(completed_, add);
    if ((what & DAOS_EQR_WAITING) != 0) std::ranges::for_each(running_, add);
    return into.empty() ? count : std::min<uint32_t>(count, static_cast<uint32_t>(into.size()));
}

void EventQueue::drain() {
    while (has_running()) progress(std::chrono::nanoseconds(look_again).count());
    const std::lock_guard locked(state_);
    completed_.clear();
}

void EventQueue::drop(ros2s_fs* fs) {
    const std::lock_guard reaping(reaping_);
    const auto all = rings();
    for (const auto& ring : all) {
        if (ring->fs != fs) continue;
        while (ring->running > 0) reap(*ring, std::chrono::nanoseconds(look_again).count());
        const std::lock_guard submitting(submitting_);
        close(*ring);
        std::erase(rings_, ring);
    }
}

void EventQueue::drop_everywhere(ros2s_fs* fs) {
    for (const auto& queue : Handles::table().all<EventQueue>()) queue->drop(fs);
    queue_of_loose_events()->drop(fs);
}

bool EventQueue::forget(daos_event_t& event) {
    const std::lock_guard locked(state_);
    auto& state = state_in(event);
    if (state.status == Status::running) return false;
    if (state.status == Status::completed) std::erase(completed_, &event);
    state.magic = EventState::finalized;
    return true;
}

int finish_call(daos_event_t* event, int result) {
    if (event == nullptr) return result;
    const auto* const state = state_of(event);
    const auto queue = state == nullptr ? nullptr : EventQueue::of(*state);
    if (queue == nullptr || state->status != Status::ready) return -DER_INVAL;
    queue->complete(*event, result);
    return 0;
}

int finish_dfs_call(daos_event_t* event, int result) {
    const int rc = finish_call(event, result);
    return rc < 0 ? EINVAL : rc;
}

}  // namespace ros2s::daos

// ---- daos_eq_* and daos_event_*.

int daos_eq_create(daos_handle_t* eqh) {
    if (eqh == nullptr) return -DER_INVAL;
    *eqh = Handles::table().add(std::make_shared<EventQueue>());
    return 0;
}

int daos_eq_destroy(daos_handle_t eqh, int flags) {
    const auto queue = Handles::table().find<EventQueue>(eqh);
    if (queue == nullptr) return -DER_NONEXIST;
    if ((flags & DAOS_EQ_DESTROY_FORCE) == 0 && queue->query(DAOS_EQR_ALL, {}) > 0) {
        return -DER_BUSY;
    }
    Handles::table().remove<EventQueue>(eqh);
    queue->drain();
    return 0;
}

int daos_eq_poll(daos_handle_t eqh, int wait_running, int64_t timeout, unsigned int nevents,
                 daos_event_t** events) {
    if (nevents == 0 || events == nullptr) return -DER_INVAL;
    const auto queue = Handles::table().find<EventQueue>(eqh);
    if (queue == nullptr) return -DER_NONEXIST;
    return static_cast<int>(queue->poll({events, nevents}, wait_running != 0, timeout));
}

int daos_eq_query(daos_handle_t eqh, daos_eq_query_t query, unsigned int nevents,
                  daos_event_t** events) {
    const auto queue = Handles::table().find<EventQueue>(eqh);
    if (queue == nullptr) return -DER_NONEXIST;
    return static_cast<int>(queue->query(query, {events, events == nullptr ? 0 : nevents}));
}

int daos_event_init(daos_event_t* ev, daos_handle_t eqh, daos_event_t* parent) {
    if (ev == nullptr) return -DER_INVAL;
    if (parent != nullptr) return -DER_NOTSUPPORTED;
    if (!daos_handle_is_inval(eqh) && Handles::table().find<EventQueue>(eqh) == nullptr) {
        return -DER_NONEXIST;
    }
    *ev = {};
    auto& state = state_in(*ev);
    state.magic = EventState::initialized;
    state.queue = eqh.cookie;
    return 0;
}

int daos_event_fini(daos_event_t* ev) {
    // Programs finalize an event twice, which DAOS allows.
    if (ev != nullptr && state_in(*ev).magic == EventState::finalized) return 0;
    auto* const state = state_of(ev);
    if (state == nullptr) return -DER_INVAL;
    const auto queue = EventQueue::of(*state);
    if (queue == nullptr) {
        state->magic = EventState::finalized;
        return 0;
    }
    return queue->forget(*ev) ? 0 : -DER_BUSY;
}

int daos_event_test(struct daos_event* ev, int64_t timeout, bool* flag) {
    auto* const state = state_of(ev);
    if (state == nullptr || flag == nullptr) return -DER_INVAL;
    const auto queue = EventQueue::of(*state);
    if (queue == nullptr) return -DER_NONEXIST;
    *flag = queue->test(*ev, timeout);
    return 0;
}
