// The fields of a lock in requests and replies, for rpc::build() and rpc::read(): of a store and of
// the host link.
#pragma once
#include <optional>

#include "ros2s/object/vocabulary.h"

namespace ros2s::object {

inline constexpr auto lock_fields = [](auto& io, auto& lock) {
    io.choice("space", lock.space, LockSpace::container);
    io.choice("mode", lock.mode, LockMode::exclusive);
    io("first byte", lock.first);
    io("last byte", lock.last);
    io("mount", lock.mount);
    io("owner", lock.owner);
    io("process", lock.pid);
    if (io.has("in space 2", lock.space == LockSpace::container)) {
        io.text("holder", lock.holder, lock_holder_bytes_max);
    }
};
inline constexpr auto lock_reply_fields = []<class Io>(Io& io, auto& in_the_way) {
    bool is_there = in_the_way.has_value();
    Lock lock = in_the_way.value_or(Lock{});
    io("a lock is in the way", is_there);
    io.part("that lock", lock, lock_fields);
    if constexpr (Io::reads) {
        in_the_way.reset();
        if (is_there) in_the_way = lock;
    }
};

}  // namespace ros2s::object
