#include "arrivals.h"

#include <vector>

namespace ros2s::control {

Result<> Arrivals::begin(Arriving& one, const std::string& subject, std::string* whose) {
    const std::lock_guard lock(mutex_);
    ROS2S_TRY(shares_.take(subject, whose));
    reading_.add(&one, {.one = one.shared_from_this(), .subject = subject});
    return {};
}

bool Arrivals::end(Arriving& one) {
    std::optional<Reading> read;  // destroyed after the lock
    const std::lock_guard lock(mutex_);
    read = reading_.take(&one);
    if (read) shares_.give_back(read->subject);
    return read.has_value();
}

void Arrivals::end_late() {
    std::vector<std::shared_ptr<Arriving>> late;
    {
        const std::lock_guard lock(mutex_);
        while (auto each = reading_.take_late(bounds_.time_max)) {
            shares_.give_back(each->subject);
            late.push_back(std::move(each->one));
        }
    }
    for (const auto& one : late) one->too_late();
}

void Answers::begin(const Context& call) {
    const std::lock_guard lock(mutex_);
    untaken_.add(&call, &call);
}

void Answers::end(const Context& call) {
    std::unique_lock lock(mutex_);
    cancelled_.wait(lock, [&] { return cancelling_ != &call; });
    (void)untaken_.take(&call);  // nothing: it was cancelled
}

bool Answers::end_late() {
    std::unique_lock lock(mutex_);
    for (int i = 0; i < at_once; ++i) {
        const auto late = untaken_.take_late(time_max_);
        if (!late) return false;
        cancelling_ = *late;
        // Without the lock, because gRPC may begin other calls in it.
        lock.unlock();
        (*late)->TryCancel();
        lock.lock();
        cancelling_ = nullptr;
        cancelled_.notify_all();
    }
    return true;
}

}  // namespace ros2s::control
