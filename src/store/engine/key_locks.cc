#include "key_locks.h"

#include <cstring>

#include "hash.h"
#include "ros2s/base/check.h"

namespace ros2s::engine {
namespace {

constexpr bool compatible[4][4] = {
    //  is     ix     s      x
    {true, true, true, false},     // intent_shared
    {true, true, false, false},    // intent_update
    {true, false, true, false},    // shared
    {false, false, false, false},  // exclusive
};

KeyLockMode merge(KeyLockMode a, KeyLockMode b) {
    if (a == b) return a;
    if (a > b) std::swap(a, b);
    if (a == KeyLockMode::intent_shared) return b;
    return KeyLockMode::exclusive;  // intent_update with shared; anything with exclusive
}

constexpr size_t spare_max = 256;

}  // namespace

uint64_t LockNames::of(object::ContainerId container, object::ObjectId object) const {
    char name[sizeof container.uuid.bytes + sizeof object];
    std::memcpy(name, container.uuid.bytes.data(), sizeof container.uuid.bytes);
    std::memcpy(name + sizeof container.uuid.bytes, &object, sizeof object);
    return hash_text({name, sizeof name}, hash_key_);
}
uint64_t LockNames::of(uint64_t object, std::string_view dkey) { return hash_text(dkey, ~object); }

KeyLocks::~KeyLocks() { ROS2S_CHECK(locks_.empty()); }

void KeyLocks::prepare(WantedLocks& wanted) {
    std::ranges::sort(wanted, {}, &Wanted::name);
    size_t kept = 0;
    for (const Wanted& one : wanted) {
        if (kept > 0 && wanted[kept - 1].name == one.name) {
            wanted[kept - 1].mode = merge(wanted[kept - 1].mode, one.mode);
        } else {
            wanted[kept++] = one;
        }
    }
    wanted.truncate(kept);
}

bool KeyLocks::Lock::admits(KeyLockMode mode) const {
    for (size_t held = 0; held < 4; ++held) {
        if (holders[held] > 0 && !compatible[held][static_cast<size_t>(mode)]) return false;
    }
    return true;
}
bool KeyLocks::Lock::is_free() const {
    return waiters == nullptr && std::ranges::all_of(holders, [](uint32_t n) { return n == 0; });
}

bool KeyLocks::try_lock(Wanted wanted) {
    auto found = locks_.find(wanted.name);
    if (found == locks_.end()) {
        if (spare_.empty()) {
            found = locks_.try_emplace(wanted.name).first;
        } else {
            spare_.back().key() = wanted.name;
            found = locks_.insert(std::move(spare_.back())).position;
            spare_.pop_back();
        }
    }
    Lock& lock = found->second;
    if (lock.waiters != nullptr || !lock.admits(wanted.mode)) return false;
    ++lock.holders[static_cast<size_t>(wanted.mode)];
    return true;
}

void KeyLocks::wait(Wanted wanted, std::coroutine_handle<> handle) {
    waits_.add();
    Lock& lock = locks_.at(wanted.name);
    if (lock.waiters == nullptr) lock.waiters = new std::deque<Waiter>;
    lock.waiters->push_back({wanted.mode, handle});
}

void KeyLocks::unlock(Wanted wanted) {
    const auto found = locks_.find(wanted.name);
    Lock& lock = found->second;
    ROS2S_CHECK(lock.holders[static_cast<size_t>(wanted.mode)] > 0);
    --lock.holders[static_cast<size_t>(wanted.mode)];
    while (lock.waiters != nullptr && lock.admits(lock.waiters->front().mode)) {
        const Waiter waiter = lock.waiters->front();
        lock.waiters->pop_front();
        ++lock.holders[static_cast<size_t>(waiter.mode)];
        reactor_.post(waiter.handle);
        if (lock.waiters->empty()) {
            delete lock.waiters;
            lock.waiters = nullptr;
        }
    }
    if (!lock.is_free()) return;
    auto node = locks_.extract(found);
    if (spare_.size() < spare_max) spare_.push_back(std::move(node));
}

}  // namespace ros2s::engine
