// List: a queue of elements that contain their links, so that adding and removing allocate nothing.
// An element is in one list at a time, and is removed before it is destroyed.
#pragma once
#include <cstdint>

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
    List& operator=(List&&) = delete;
    ~List() { ROS2S_CHECK(empty()); }

    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] T& front() const noexcept { return *first_; }
    [[nodiscard]] T* first() const noexcept { return first_; }
    void push_back(T& element) noexcept {
        auto& links = links_of(element);
        links = {.next = nullptr, .previous = last_, .linked = true};
        (last_ != nullptr ? links_of(*last_).next : first_) = &element;
        last_ = &element;
    }
    // In ascending order of a member; after the elements with the same value.
    void insert(T& element, uint64_t T::* key) noexcept {
        T* after = last_;
        while (after != nullptr && after->*key > element.*key) after = links_of(*after).previous;
        T* const before = after != nullptr ? links_of(*after).next : first_;
        links_of(element) = {.next = before, .previous = after, .linked = true};
        (after != nullptr ? links_of(*after).next : first_) = &element;
        (before != nullptr ? links_of(*before).previous : last_) = &element;
    }
    void erase(T& element) noexcept {
        auto& links = links_of(element);
        (links.previous != nullptr ? links_of(*links.previous).next : first_) = links.next;
        (links.next != nullptr ? links_of(*links.next).previous : last_) = links.previous;
        links = {};
    }
    // Null: it is the last.
    [[nodiscard]] static T* next(T& element) noexcept { return links_of(element).next; }
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
};

}  // namespace ros2s::admission
