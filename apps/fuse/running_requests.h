// RunningRequests: which of the kernel's requests are in progress, and for which threads. A program
// that is killed, also by ^C, waits in the kernel until its request is answered. If a server does
// not answer, the mount answers for it, and the request goes on: what it changes does not become
// unsure, and the kernel refuses its own reply as one that nobody awaits.
//
// Used on one core.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ros2s/runtime/call.h"

namespace ros2s::fuse {

class RunningRequests {
  public:
    struct Request {
        uint64_t unique = 0;  // the kernel's number of the request
        pid_t thread = 0;     // that waits for the reply
    };
    // Exists while the request is in progress.
    class Running {
      public:
        Running(RunningRequests& all, Request request) noexcept;
        ~Running();
        Running& operator=(Running&&) = delete;

        // The mount answered for it, and it goes on without a slot.
        [[nodiscard]] bool is_left_behind() const noexcept { return is_left_behind_; }

      private:
        friend class RunningRequests;
        RunningRequests& all_;
        const Request request_;
        std::optional<Time> signalled_;  // and not answered
        bool is_left_behind_ = false;
        Running* next_;
        Running* previous_ = nullptr;
    };

    // The program got a signal. False: the request is not in progress, or no thread is known.
    bool note_signal(uint64_t unique, Time now) noexcept;
    // So may the programs of all requests in progress.
    void note_signals(Time now) noexcept;
    // There are requests whose programs got a signal. An answer takes a request out of them.
    [[nodiscard]] bool has_signalled() const noexcept { return signalled_ > 0; }
    // Calls is_answered(request) for those whose programs got it at `last` or before.
    template <class IsAnswered>
    void look_at_signalled(Time last, IsAnswered is_answered) {
        for (Running* each = first_; each != nullptr; each = each->next_) {
            const bool is_due = each->signalled_ && *each->signalled_ <= last;
            if (is_due && is_answered(each->request_)) forget_signal(*each);
        }
    }
    // Its program has ended. False: it is not in progress, or is left behind already.
    bool leave_behind(uint64_t unique) noexcept;

  private:
    bool note_signal(Running& request, Time now) noexcept;
    void forget_signal(Running& request) noexcept {
        if (request.signalled_) --signalled_;
        request.signalled_.reset();
    }

    Running* first_ = nullptr;
    size_t signalled_ = 0;
};

// Answers EINTR, which the program does not see.
void answer_killed(int fuse_descriptor, uint64_t unique) noexcept;

}  // namespace ros2s::fuse
