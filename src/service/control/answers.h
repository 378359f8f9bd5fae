// Answers: calls that were answered and that gRPC still holds, because their client has not taken
// the answer. A client that takes none would keep them for as long as it likes. Here each has a
// limited time; then it is cancelled.
//
// Owned by the gate. Threads: any; a lock, because calls end on gRPC's threads. end_late() runs on
// the core.
#pragma once
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>

#include "ros2s/runtime/time.h"

namespace ros2s::control {

class Answers {
  public:
    explicit Answers(Duration time_max) : time_max_(time_max) {}
    Answers& operator=(Answers&&) = delete;

    // Before Finish() or StartWriteAndFinish().
    void begin(const grpc::CallbackServerContext& call);
    // In OnDone(), after which gRPC destroys the context.
    void end(const grpc::CallbackServerContext& call);
    // Cancels some of those that have taken too long. True: there may be more. Called periodically.
    bool end_late();

  private:
    using Clock = std::chrono::steady_clock;
    struct Answer {
        const grpc::CallbackServerContext& call;
        Clock::time_point since;
    };
    static constexpr int at_once = 64;

    const Duration time_max_;
    std::mutex mutex_;
    std::list<Answer> untaken_;  // the oldest is the first
    std::map<const grpc::CallbackServerContext*, std::list<Answer>::iterator> places_;
    const grpc::CallbackServerContext* cancelling_ = nullptr;  // end() waits for it
    std::condition_variable cancelled_;
};

}  // namespace ros2s::control
