// The end of a program that a signal has asked to stop: it cleans up, and is ended if that takes
// longer than 0.8 s. Another thread may be what hangs, so this uses none: a timer sends SIGALRM.
#pragma once

namespace ros2s {

// Before the first signal. `program`: for the sentence; outlives the process.
void prepare_bounded_end(const char* program) noexcept;

// Begins the time. May be called by a handler of a signal.
void begin_bounded_end() noexcept;

// The program goes on after all.
void cancel_bounded_end() noexcept;

// The status of a program that a signal has ended.
constexpr int exit_interrupted = 130;

}  // namespace ros2s
