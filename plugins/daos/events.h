// EventQueue: the events of a daos_eq. Transfers of files go through the asynchronous queues of
// libros2store, one per mounted container. Other calls with an event are done at once, and their
// event is complete when they return.
//
// Thread rule: any thread. One thread at a time waits; others that poll look again every
// millisecond. Memory of a transfer belongs to the caller until its event is complete.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "daos_event.h"
#include "handles.h"
#include "ros2store/ros2store.h"

namespace ros2s::daos {

// The contents of daos_event_t::ev_private.
struct EventState {
    enum class Status : uint8_t { ready, running, completed };
    static constexpr uint32_t initialized = 0x5232'6576;
    static constexpr uint32_t finalized = 0x5232'6577;

    uint32_t magic;
    Status status;
    uint64_t queue;        // a cookie
    uint32_t pieces_left;  // of a transfer
    uint32_t position;     // while it runs: in the queue's list
    int error;             // its first: an errno
    uint64_t bytes;
    daos_size_t* bytes_out;
    d_sg_list_t* list_out;
};
static_assert(sizeof(EventState) <= sizeof(daos_event_t::ev_private));

// Whatever the event has there.
[[nodiscard]] inline EventState& state_in(daos_event_t& event) {
    return *reinterpret_cast<EventState*>(&event.ev_private);
}
// Null if the event was not initialized.
[[nodiscard]] EventState* state_of(daos_event_t* event);

// A part of a transfer: one of its buffers.
struct Piece {
    void* address;
    uint64_t bytes;
    uint64_t offset;  // in the file
};

struct Transfer {
    ros2s_fs* fs;
    std::shared_ptr<ros2s_file> file;
    ros2s_opcode opcode;
    std::span<const Piece> pieces;
    daos_size_t* bytes_out;  // may be null
    d_sg_list_t* list_out;   // may be null: gets sg_nr_out
};

class EventQueue {
  public:
    static constexpr Kind kind = Kind::queue;
    EventQueue& operator=(EventQueue&&) = delete;
    ~EventQueue();

    // The queue of an initialized event; null if it was destroyed. Events that were initialized
    // without a queue share one.
    [[nodiscard]] static std::shared_ptr<EventQueue> of(const EventState& state);
    // Finalizes an event. False: it is still running.
    bool forget(daos_event_t& event);

    // Returns an errno if no request was started.
    int start(daos_event_t& event, const Transfer& transfer);
    // `result`: the value for ev_error.
    void complete(daos_event_t& event, int result);

    // `timeout_us` < 0: no limit. Returns the number of events.
    uint32_t poll(std::span<daos_event_t*> into, bool only_running, int64_t timeout_us);
    // Returns true if the event is complete, after at most the timeout. It then leaves the queue.
    bool test(daos_event_t& event, int64_t timeout_us);
    [[nodiscard]] uint32_t query(daos_eq_query_t what, std::span<daos_event_t*> into);
    [[nodiscard]] bool has_running();
    // Waits for all transfers, and drops completed events.
    void drain();
    // Like drain(), for the transfers of a file system that is about to be closed, in all queues.
    static void drop_everywhere(ros2s_fs* fs);

  private:
    struct Ring {
        ros2s_fs* fs = nullptr;
        ros2s_queue* queue = nullptr;
        std::atomic<uint32_t> running = 0;  // requests
    };
    using Rings = std::vector<std::shared_ptr<Ring>>;
    // Returns an errno.
    int ring_of(ros2s_fs* fs, std::shared_ptr<Ring>& ring);
    int submit(const Transfer& transfer, daos_event_t& event, uint32_t& accepted);
    [[nodiscard]] Rings rings();
    void begin(daos_event_t& event);
    // The next ring with requests, from `at` on, and the number of such rings.
    std::shared_ptr<Ring> next_busy(size_t& at, size_t& busy);
    // Takes completions. Waits at most that long for the first. False: nothing is in progress. The
    // caller holds reaping_.
    bool reap(int64_t wait_ns);
    void reap(Ring& ring, int64_t wait_ns);
    void close(Ring& ring);
    void drop(ros2s_fs* fs);
    // For the following, the caller holds state_.
    void finish(daos_event_t& event, int result);
    void stop_running(EventState& state);
    uint32_t take(std::span<daos_event_t*> into);
    // Makes progress, for at most that long.
    void progress(int64_t wait_ns);

    // Locked in this order.
    std::mutex reaping_;     // the reaping side of all rings
    std::mutex submitting_;  // the submitting side, and rings_
    std::mutex state_;       // the rest, and the EventState of all events
    std::condition_variable finished_;
    Rings rings_;
    std::vector<daos_event_t*> running_;
    std::deque<daos_event_t*> completed_;
    std::atomic<uint32_t> empty_polls_ = 0;
};

// Ends a call that was complete before it returned: completes the event, if there is one. `result`
// is a negative DER_. Also returns -DER_INVAL: the event cannot be used.
int finish_call(daos_event_t* event, int result);
// The same for calls of libdfs, whose errors are positive errnos.
int finish_dfs_call(daos_event_t* event, int result);

// A call on an open T: f(object) returns 0 or -DER_. Without that object: -DER_NO_HDL.
template <class T, class F>
int call_on(daos_handle_t handle, daos_event_t* event, F&& f) {
    const auto object = Handles::table().find<T>(handle);
    return finish_call(event, object == nullptr ? -DER_NO_HDL : f(object));
}

}  // namespace ros2s::daos
