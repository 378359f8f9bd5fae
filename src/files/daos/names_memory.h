// NamesMemory: the memory for names of open directories of all file systems of a pool. libdfs lists
// without a position to go on from, so an open directory has all of its names.
//
// A tenant has no more than is free for all: alone half, a second tenant half of what is left. A
// listing takes all that its tenant may have until it has ended, so one of a tenant runs at a time.
//
// Owned by the pool's connection; outlives the file systems. Used on one core.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "ros2s/runtime/sync.h"

namespace ros2s::daos {

class NamesMemory {
  public:
    static constexpr size_t bytes_max = size_t{128} << 20;

    // The memory of one tenant. It exists while it is in use or has bytes.
    struct Share {
        explicit Share(Reactor& reactor) : turn(reactor, 1) {}
        Semaphore turn;  // of listings
        size_t bytes = 0;
    };

    explicit NamesMemory(Reactor& reactor) : reactor_(reactor) {}
    NamesMemory& operator=(NamesMemory&&) = delete;

    [[nodiscard]] std::shared_ptr<Share> share_of(uint64_t tenant) {
        std::erase_if(shares_, [](const auto& each) {
            return each.second.use_count() == 1 && each.second->bytes == 0;
        });
        auto& share = shares_[tenant];
        if (share == nullptr) share = std::make_shared<Share>(reactor_);
        return share;
    }
    // Takes as much as the tenant may have now. Returns the amount.
    size_t take_all(Share& share) {
        const size_t used = std::min(bytes_ + share.bytes, bytes_max);
        const size_t more = (bytes_max - used) / 2;
        share.bytes += more;
        bytes_ += more;
        return more;
    }
    void give_back(Share& share, size_t bytes) {
        share.bytes -= bytes;
        bytes_ -= bytes;
    }
    [[nodiscard]] size_t bytes() const { return bytes_; }

  private:
    Reactor& reactor_;
    size_t bytes_ = 0;
    std::map<uint64_t, std::shared_ptr<Share>> shares_;  // by tenant
};

}  // namespace ros2s::daos
