// KeyMutexes: a mutex per name, for the transactions of one store. They wait for each other here
// instead of conflicting on the servers. Names are locked in ascending order, so there is no
// deadlock. Used on one core.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ros2s/runtime/sync.h"

namespace ros2s::rados {

class KeyMutexes {
  public:
    explicit KeyMutexes(Reactor& reactor) : reactor_(reactor) {}

    // Held until it is destroyed.
    class [[nodiscard]] Hold {
      public:
        Hold(KeyMutexes& owner, std::vector<std::string> names)
            : owner_(&owner), names_(std::move(names)) {}
        Hold(Hold&& other) noexcept
            : owner_(std::exchange(other.owner_, nullptr)), names_(std::move(other.names_)) {}
        Hold& operator=(Hold&&) = delete;
        // Moves some of the names to another Hold.
        Hold split(const std::vector<std::string>& names) {
            std::erase_if(names_, [&names](const std::string& name) {
                return std::ranges::find(names, name) != names.end();
            });
            return {*owner_, names};
        }
        ~Hold() {
            if (owner_ == nullptr) return;
            for (const std::string& name : names_) owner_->release(name);
        }

      private:
        KeyMutexes* owner_;
        std::vector<std::string> names_;
    };
    // `names` ascend and are distinct.
    Task<Hold> lock(std::vector<std::string> names) {
        for (const std::string& name : names) {
            auto& mutex = mutexes_[name];
            if (mutex == nullptr) mutex = std::make_unique<Mutex>(reactor_);
            ++mutex->users;
            co_await mutex->turn.acquire();
        }
        co_return Hold(*this, std::move(names));
    }

  private:
    struct Mutex {
        explicit Mutex(Reactor& reactor) : turn(reactor, 1) {}
        Semaphore turn;
        size_t users = 0;
    };
    void release(const std::string& name) {
        const auto found = mutexes_.find(name);
        found->second->turn.release();
        if (--found->second->users == 0) mutexes_.erase(found);
    }

    Reactor& reactor_;
    std::map<std::string, std::unique_ptr<Mutex>> mutexes_;
};

}  // namespace ros2s::rados
