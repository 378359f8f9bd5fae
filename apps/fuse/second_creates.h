// SecondCreates: which CREATE is the second one of an open(2). The kernel had found no file at the
// name, and a first CREATE found something else there, which the kernel must look at, such as a
// symbolic link. After ESTALE it looks the path up again, but only once:
//
//     LOOKUP: nothing ─► CREATE: a link ─► ESTALE ─► LOOKUP ─┬─ the link: the kernel follows it
//                                                           └─ nothing ─► CREATE, the last one
//
// Used on one core. Bounded: the oldest is dropped.
#pragma once
#include <sys/types.h>

#include <algorithm>
#include <deque>
#include <string>

#include "ros2s/fs/file_system.h"

namespace ros2s::fuse {

class SecondCreates {
  public:
    explicit SecondCreates(size_t creates_max = 64) : creates_max_(creates_max) {}

    // The CREATE of a thread was answered ESTALE.
    void add(pid_t thread, fs::NodeId parent, std::string name) {
        if (awaited_.size() == creates_max_) awaited_.pop_front();
        awaited_.push_back({thread, parent, std::move(name)});
    }
    // True if this is the one that followed.
    [[nodiscard]] bool take(pid_t thread, fs::NodeId parent, const std::string& name) {
        const auto found = std::ranges::find(awaited_, Create{thread, parent, name});
        if (found == awaited_.end()) return false;
        awaited_.erase(found);
        return true;
    }

  private:
    struct Create {
        pid_t thread;
        fs::NodeId parent;
        std::string name;
        bool operator==(const Create&) const = default;
    };
    const size_t creates_max_;
    std::deque<Create> awaited_;
};

}  // namespace ros2s::fuse
