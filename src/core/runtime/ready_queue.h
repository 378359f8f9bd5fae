// ReadyQueue: the handles that a reactor will resume, first in first out. A ring in one array that
// doubles when it is full, so that the steady state allocates nothing.
#pragma once
#include <bit>
#include <coroutine>
#include <cstddef>
#include <memory>

namespace ros2s {

class ReadyQueue {
  public:
    ReadyQueue() : slots_(std::make_unique<std::coroutine_handle<>[]>(first_capacity)) {}

    [[nodiscard]] size_t size() const noexcept { return end_ - begin_; }
    [[nodiscard]] bool empty() const noexcept { return end_ == begin_; }
    void push(std::coroutine_handle<> handle) noexcept {
        if (size() == capacity_) grow();
        slots_[end_++ & (capacity_ - 1)] = handle;
    }
    std::coroutine_handle<> pop() noexcept { return slots_[begin_++ & (capacity_ - 1)]; }

  private:
    static constexpr size_t first_capacity = 1024;
    static_assert(std::has_single_bit(first_capacity));
    void grow() {
        auto larger = std::make_unique<std::coroutine_handle<>[]>(capacity_ * 2);
        const size_t count = size();
        for (size_t i = 0; i < count; ++i) larger[i] = pop();
        slots_ = std::move(larger);
        capacity_ *= 2;
        begin_ = 0;
        end_ = count;
    }
    std::unique_ptr<std::coroutine_handle<>[]> slots_;
    size_t capacity_ = first_capacity;
    size_t begin_ = 0;  // both increase without limit; only their low bits are indexes
    size_t end_ = 0;
};

}  // namespace ros2s
