// Mailbox: a queue that any thread may push to and one core empties. Intrusive (through T::next)
// and lock-free: a push is one compare-and-swap, and taking takes everything.
//
// Invariants
// - Items of one producer are taken in the order of their pushes.
// - After push() the producer must not use the item: it may be gone.
// - push() and empty() are sequentially consistent, because the reactor's sleep depends on
//   "producer: push, then look at the sleeping flag; reactor: set the flag, then look here".
#pragma once
#include <atomic>
#include <cstddef>

namespace ros2s {

template <class T>
class Mailbox {
  public:
    Mailbox& operator=(Mailbox&&) = delete;

    void push(T& item) noexcept {
        item.next = newest_.load(std::memory_order_relaxed);
        while (!newest_.compare_exchange_weak(item.next, &item, std::memory_order_seq_cst,
                                              std::memory_order_relaxed)) {
        }
    }
    [[nodiscard]] bool empty() const noexcept {
        return newest_.load(std::memory_order_seq_cst) == nullptr;
    }
    // Calls visit(T&) on each item, oldest first; visit may dispose of the item. Returns their
    // number.
    template <class Visit>
    size_t take_all(Visit visit) noexcept {
        if (newest_.load(std::memory_order_relaxed) == nullptr) return 0;
        T* item = newest_.exchange(nullptr, std::memory_order_acquire);
        T* oldest = nullptr;
        while (item != nullptr) {
            T* older = item->next;
            item->next = oldest;
            oldest = item;
            item = older;
        }
        size_t count = 0;
        while (oldest != nullptr) {
            T* next = oldest->next;
            visit(*oldest);
            oldest = next;
            ++count;
        }
        return count;
    }

  private:
    std::atomic<T*> newest_ = nullptr;
};

}  // namespace ros2s
