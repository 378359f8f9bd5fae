// List: a queue of elements that contain their links, so that adding and removing allocate nothing.
// An element is in one list at a time, and is removed before it is destroyed.
#pragma once
#include <cstddef>

#include "ros2s/base/check.h"

namespace ros2s::admission {

template <class T>
struct Links {
    T* next = nullptr;
    T* previous = nullptr;
    bool linked = false;
};

template <class T>
class List {
  public:
    List() = default;
    List(const List&) = delete;
    List& operator=(const List&) = delete;
    ~List() { ROS2S_CHECK(empty()); }

    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] size_t size() const noexcept { return size_; }
    [[nodiscard]] T& front() const noexcept { return *first_; }
    void push_back(T& element) noexcept {
        auto& links = links_of(element);
        links = {.next = nullptr, .previous = last_, .linked = true};
        (last_ != nullptr ? links_of(*last_).next : first_) = &element;
        last_ = &element;
        ++size_;
    }
    void erase(T& element) noexcept {
        auto& links = links_of(element);
        (links.previous != nullptr ? links_of(*links.previous).next : first_) = links.next;
        (links.next != nullptr ? links_of(*links.next).previous : last_) = links.previous;
        links = {};
        --size_;
    }
    // The first becomes the last.
    void rotate() noexcept {
        T& element = front();
        erase(element);
        push_back(element);
    }
    [[nodiscard]] static bool has(T& element) noexcept { return links_of(element).linked; }

  private:
    static auto& links_of(T& element) noexcept {
        if constexpr (requires { element.links; }) {
            return element.links;
        } else {
            return element.links_;
        }
    }
    T* first_ = nullptr;
    T* last_ = nullptr;
    size_t size_ = 0;
};

}  // namespace ros2s::admission
