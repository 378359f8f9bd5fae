// KeyCalls: asks a KeyProvider on a helper thread, because a token behind a network may not answer.
// One call at a time, in order of arrival.
//
// A call that hangs occupies one thread until it returns. Calls that wait for it fail at their time
// limit, with a sentence that names the provider.
//
// Owned by the composing code; used and destroyed on the environment's core. A call in progress
// owns the data that it uses, and may end later.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "ros2s/cipher/key_provider.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/serial_jobs.h"

namespace ros2s::cipher {

// For a provider. The answer may be used once the job is done.
template <class T>
class KeyQuestion final : public SerialJob {
  public:
    using Ask = std::function<Result<T>(const KeyProvider&, Report&)>;
    KeyQuestion(std::shared_ptr<const KeyProvider> provider, Ask ask)
        : provider_(std::move(provider)), ask_(std::move(ask)) {}
    Result<T> answer = fail(Code::deadline);
    Report said;

  private:
    void perform() noexcept override { answer = ask_(*provider_, said); }
    const std::shared_ptr<const KeyProvider> provider_;
    const Ask ask_;
};

class KeyCalls {
  public:
    // The time for opening or creating a container, if the call's deadline is later.
    static constexpr Duration answer_max = std::chrono::seconds(10);

    // `place` is for people.
    KeyCalls(Reactor& reactor, BlockingPool& blocking, std::shared_ptr<const KeyProvider> provider,
             std::string place)
        : reactor_(reactor),
          provider_(std::move(provider)),
          place_(std::move(place)),
          jobs_(reactor, blocking) {}
    // Errors: those of open_keys().
    [[nodiscard]] static Result<std::unique_ptr<KeyCalls>> open(const Environment& environment,
                                                                const std::string& place,
                                                                Report& report);

    // From now on hosts receive the errors. The report's notes, not its sentences, have the
    // location of the keys.
    void hide_place() { hides_place_ = true; }

    // `ask` owns the data that it uses. Errors: its own, deadline (of the call, or answer_max),
    // cancelled; each with a sentence.
    template <class T>
    Task<Result<T>> ask(const Call& call, typename KeyQuestion<T>::Ask ask, Report& report) {
        const Call bounded{.deadline = std::min(call.deadline, reactor_.now() + answer_max),
                           .stop = call.stop};
        const std::shared_ptr<KeyQuestion<T>> question = begin<T>(std::move(ask), bounded.deadline);
        const Result<> waited = co_await wait(bounded, question);
        if (!waited) co_return refuse(waited.error(), unanswered(waited.error()), report);
        if (!question->answer) {
            co_return refuse(question->answer.error(), question->said.text(), report);
        }
        co_return std::move(question->answer);
    }
    // Does not wait. A question that could not be asked by that time is dropped.
    template <class T>
    [[nodiscard]] std::shared_ptr<KeyQuestion<T>> begin(typename KeyQuestion<T>::Ask ask,
                                                        Time begin_by) {
        auto question = std::make_shared<KeyQuestion<T>>(provider_, std::move(ask));
        jobs_.submit(question, begin_by);
        return question;
    }
    // Waits until the question is done. Errors: cancelled, deadline (also if the question was
    // dropped).
    Task<Result<>> wait(const Call& call, std::shared_ptr<SerialJob> question) {
        return jobs_.wait(call, std::move(question));
    }
    [[nodiscard]] Reactor& reactor() const { return reactor_; }

  private:
    [[nodiscard]] std::string unanswered(const Error& error) const;
    [[nodiscard]] std::unexpected<Error> refuse(const Error& error, std::string sentence,
                                                Report& report) const;

    Reactor& reactor_;
    const std::shared_ptr<const KeyProvider> provider_;
    const std::string place_;
    bool hides_place_ = false;
    SerialJobs jobs_;
};

}  // namespace ros2s::cipher
