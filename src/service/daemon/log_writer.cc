#include "log_writer.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "ros2s/runtime/thread.h"

namespace ros2s::daemon {

struct LogWriter::State {
    struct Line {
        LogLevel level;
        WallTime time;
        std::string text;
    };
    static size_t cost(std::string_view text) { return text.size() + sizeof(Line); }

    State(Write what, size_t most) : write(std::move(what)), bytes_max(most) {}
    void put(LogLevel level, std::string_view text);
    void run();
    // Async-signal-safe: no lock, and poll(2) as the pause.
    bool flush() const noexcept;

    const Write write;
    const size_t bytes_max;
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Line> queue;
    size_t bytes = 0;  // of the queue, and of the lines that the thread has taken
    bool ending = false;
    std::atomic<uint64_t> put_in{0}, written{0}, dropped{0};
};

void LogWriter::State::put(LogLevel level, std::string_view text) {
    const WallTime now = std::chrono::system_clock::now();
    {
        const std::lock_guard lock(mutex);
        if (ending || bytes + cost(text) > bytes_max) {
            ++dropped;
            return;
        }
        bytes += cost(text);
        queue.push_back({level, now, std::string(text)});
        ++put_in;
    }
    changed.notify_one();
}

void LogWriter::State::run() {
    std::vector<Line> taken;
    uint64_t told = 0;  // of the dropped ones
    std::unique_lock lock(mutex);
    while (true) {
        changed.wait(lock, [this] { return ending || !queue.empty(); });
        if (queue.empty()) return;
        taken.clear();
        std::swap(taken, queue);
        lock.unlock();
        for (const Line& each : taken) {
            write(each.level, each.text, each.time);
            // Lines were dropped while this one waited.
            if (const uint64_t now = dropped; now != told) {
                write(LogLevel::warning,
                      fmt::format("{} lines of the log were dropped, because what reads the log "
                                  "was too slow",
                                  now - std::exchange(told, now)),
                      std::chrono::system_clock::now());
            }
            const std::lock_guard again(mutex);
            bytes -= cost(each.text);
            ++written;
        }
        lock.lock();
    }
}

bool LogWriter::State::flush() const noexcept {
    const auto until = std::chrono::steady_clock::now() + flush_within;
    const uint64_t all = put_in;
    while (written < all) {
        if (std::chrono::steady_clock::now() >= until) return false;
        ::poll(nullptr, 0, 1);
    }
    return true;
}

Result<std::unique_ptr<LogWriter>> LogWriter::start(Write write, Report& report, size_t bytes_max) {
    auto state = std::make_shared<State>(std::move(write), bytes_max);
    auto thread = start_thread("ros2store-log", [state] { state->run(); });
    if (!thread) {
        return report.fail(thread.error(),
                           no_thread("the thread that writes the log", thread.error()));
    }
    std::unique_ptr<LogWriter> writer(new LogWriter(std::move(state)));
    writer->thread_ = std::move(*thread);
    return writer;
}

LogWriter::~LogWriter() {
    {
        const std::lock_guard lock(state_->mutex);
        state_->ending = true;
    }
    state_->changed.notify_one();
    // Nothing is put from here on: the thread ends after the last line of the queue.
    if (flush()) {
        thread_.join();
        return;
    }
    {
        const std::lock_guard lock(state_->mutex);
        state_->queue.clear();
    }
    // A stuck thread keeps its state, and ends with the process.
    thread_.detach();
}

Log LogWriter::log(LogLevel least) const {
    return Log([state = state_](LogLevel level, std::string_view line) { state->put(level, line); },
               least);
}

bool LogWriter::flush() const noexcept { return state_->flush(); }
uint64_t LogWriter::dropped() const noexcept { return state_->dropped; }

void LogWriter::flush_at_abort() const {
    // Never freed: a signal may come after everything else has ended.
    static std::atomic<const std::shared_ptr<State>*> at_abort;
    at_abort = new std::shared_ptr<State>(state_);
    struct sigaction action{};
    action.sa_handler = [](int signal) {
        (void)(*at_abort.load())->flush();
        ::raise(signal);  // delivered after the handler has returned, with the default action
    };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(SIGABRT, &action, nullptr);
}

}  // namespace ros2s::daemon
