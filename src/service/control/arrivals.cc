#include "arrivals.h"

namespace ros2s::control {

Result<> Arrivals::begin(Arriving& one, const std::string& subject, std::string* whose) {
    const std::lock_guard lock(mutex_);
    ROS2S_TRY(shares_.take(subject, whose));
    places_[&one] = reading_.insert(
        reading_.end(), {.one = one.shared_from_this(), .subject = subject, .since = Clock::now()});
    return {};
}

bool Arrivals::end(Arriving& one) {
    std::shared_ptr<Arriving> kept;  // destroyed after the lock
    const std::lock_guard lock(mutex_);
    const auto place = places_.find(&one);
    if (place == places_.end()) return false;
    kept = place->second->one;
    remove(place->second);
    return true;
}

void Arrivals::end_late() {
    std::list<std::shared_ptr<Arriving>> late;
    {
        const std::lock_guard lock(mutex_);
        const auto least = Clock::now() - bounds_.time_max;
        while (!reading_.empty() && reading_.front().since < least) {
            late.push_back(reading_.front().one);
            remove(reading_.begin());
        }
    }
    for (const auto& one : late) one->too_late();
}

void Arrivals::remove(std::list<Reading>::iterator place) {
    shares_.give_back(place->subject);
    places_.erase(place->one.get());
    reading_.erase(place);
}

}  // namespace ros2s::control
