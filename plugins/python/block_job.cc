#include "block_job.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <ros2store/ros2store.hpp>

namespace blocks {

Completions::Completions() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (descriptor_ < 0) throw ros2store::Error(errno, "a cache cannot get an eventfd");
}

Completions::~Completions() { ::close(descriptor_); }

void Completions::add(std::span<const std::shared_ptr<Job>> jobs) {
    const std::scoped_lock lock(mutex_);
    ended_.insert(ended_.end(), jobs.begin(), jobs.end());
    // It fails only if it is readable already.
    (void)eventfd_write(descriptor_, 1);
}

std::vector<std::shared_ptr<Job>> Completions::take() {
    const std::scoped_lock lock(mutex_);
    eventfd_t ignored = 0;
    (void)eventfd_read(descriptor_, &ignored);
    return std::exchange(ended_, {});
}

bool Job::end(int error) {
    const std::scoped_lock lock(memory_);
    if (ended_) return false;
    ended_ = true;
    for (Item& item : items) {
        if (item.result == Item::no_result) item.result = -error;
    }
    return true;
}

}  // namespace blocks
