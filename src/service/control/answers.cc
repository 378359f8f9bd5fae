#include "answers.h"

namespace ros2s::control {

void Answers::begin(const grpc::CallbackServerContext& call) {
    const std::lock_guard lock(mutex_);
    places_[&call] = untaken_.insert(untaken_.end(), {.call = call, .since = Clock::now()});
}

void Answers::end(const grpc::CallbackServerContext& call) {
    std::unique_lock lock(mutex_);
    cancelled_.wait(lock, [&] { return cancelling_ != &call; });
    const auto place = places_.find(&call);
    if (place == places_.end()) return;  // it was cancelled
    untaken_.erase(place->second);
    places_.erase(place);
}

bool Answers::end_late() {
    std::unique_lock lock(mutex_);
    const auto least = Clock::now() - time_max_;
    for (int i = 0; i < at_once; ++i) {
        if (untaken_.empty() || untaken_.front().since >= least) return false;
        cancelling_ = &untaken_.front().call;
        places_.erase(cancelling_);
        untaken_.pop_front();
        // Without the lock, because gRPC may begin other calls in it.
        lock.unlock();
        cancelling_->TryCancel();
        lock.lock();
        cancelling_ = nullptr;
        cancelled_.notify_all();
    }
    return true;
}

}  // namespace ros2s::control
