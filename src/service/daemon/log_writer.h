// LogWriter: a bounded queue of log lines, which one thread of its own writes. A pipe that no
// process reads, or a journal that does not answer, stops that thread and no core. When the queue
// is full, further lines are dropped and counted, and a line has their number once lines are
// written again.
//
//     any thread: put() ──► queue, bytes bounded ──► thread: write()
//                     └──► full: dropped, counted
//
// Owned by run_daemon(). Logs from log() may outlive it; their lines are then dropped. Fork rule: a
// forked child has no such thread and must not log.
//
// Invariants
// - put() waits for nothing but the short critical sections of other put()s and of the thread.
// - The destructor and abort() wait until the queue is written, and at most `flush_within`.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "ros2s/base/log.h"
#include "ros2s/base/result.h"
#include "ros2s/runtime/time.h"

namespace ros2s::daemon {

class LogWriter {
  public:
    // Of the lines' text; with the queue's own memory it is about twice that.
    static constexpr size_t queue_bytes_max = size_t{1} << 20;
    static constexpr Duration flush_within = std::chrono::seconds(1);

    // Called on the thread, with the time at which the line was put. It may block.
    using Write = std::function<void(LogLevel level, std::string_view line, WallTime time)>;
    [[nodiscard]] static Result<std::unique_ptr<LogWriter>> start(
        Write write, Report& report, size_t bytes_max = queue_bytes_max);
    ~LogWriter();
    LogWriter& operator=(LogWriter&&) = delete;

    [[nodiscard]] Log log(LogLevel least = LogLevel::info) const;
    // Waits until all lines are written, and at most `flush_within`. False: some are not.
    bool flush() const noexcept;
    // Until the process ends, abort() flushes first, and so does systemd's watchdog, which sends
    // SIGABRT. For one writer of a process.
    void flush_at_abort() const;
    // Lines that were not written. Any thread.
    [[nodiscard]] uint64_t dropped() const noexcept;

  private:
    struct State;
    explicit LogWriter(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;  // shared with the thread, which may be stuck at the end
    std::thread thread_;
};

}  // namespace ros2s::daemon
