// InlineVector: a vector whose first N elements are in the object itself. A request that has few of
// something then allocates nothing for them. It has the functions of std::vector that its users
// need. Growing it, and moving it, moves its elements.
#pragma once
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>

namespace ros2s {

template <class T, size_t N>
class InlineVector {
  public:
    InlineVector() noexcept : data_(inline_data()) {}
    InlineVector(std::initializer_list<T> list) : InlineVector() {
        assign(list.begin(), list.end());
    }
    InlineVector(const InlineVector& other) : InlineVector() { assign(other.begin(), other.end()); }
    InlineVector(InlineVector&& other) noexcept : InlineVector() { take(other); }
    InlineVector& operator=(const InlineVector& other) {
        if (this != &other) assign(other.begin(), other.end());
        return *this;
    }
    InlineVector& operator=(InlineVector&& other) noexcept {
        if (this == &other) return *this;
        clear();
        release();
        take(other);
        return *this;
    }
    ~InlineVector() {
        clear();
        release();
    }

    [[nodiscard]] size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] size_t capacity() const noexcept { return capacity_; }
    [[nodiscard]] T* data() noexcept { return data_; }
    [[nodiscard]] const T* data() const noexcept { return data_; }
    [[nodiscard]] T* begin() noexcept { return data_; }
    [[nodiscard]] T* end() noexcept { return data_ + size_; }
    [[nodiscard]] const T* begin() const noexcept { return data_; }
    [[nodiscard]] const T* end() const noexcept { return data_ + size_; }
    [[nodiscard]] T& operator[](size_t at) noexcept { return data_[at]; }
    [[nodiscard]] const T& operator[](size_t at) const noexcept { return data_[at]; }
    [[nodiscard]] T& back() noexcept { return data_[size_ - 1]; }

    void reserve(size_t count) {
        if (count <= capacity_) return;
        T* const grown = std::allocator<T>().allocate(count);
        std::uninitialized_move(begin(), end(), grown);
        std::destroy(begin(), end());
        release();
        data_ = grown;
        capacity_ = count;
    }
    // The arguments must not refer to elements.
    template <class... Arguments>
    T& emplace_back(Arguments&&... arguments) {
        if (size_ == capacity_) reserve(2 * capacity_);
        T* const made = std::construct_at(data_ + size_, std::forward<Arguments>(arguments)...);
        ++size_;
        return *made;
    }
    void push_back(T value) { emplace_back(std::move(value)); }
    void pop_back() noexcept { truncate(size_ - 1); }
    // Removes all elements from `from` on.
    void truncate(size_t from) noexcept {
        std::destroy(begin() + from, end());
        size_ = from;
    }
    void clear() noexcept { truncate(0); }
    void resize(size_t count) {
        if (count <= size_) return truncate(count);
        reserve(count);
        std::uninitialized_value_construct(end(), begin() + count);
        size_ = count;
    }
    // Replaces the contents by copies of elements that are elsewhere.
    void assign(const T* first, const T* last) {
        clear();
        reserve(static_cast<size_t>(last - first));
        std::uninitialized_copy(first, last, begin());
        size_ = static_cast<size_t>(last - first);
    }

    friend bool operator==(const InlineVector& a, const InlineVector& b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }

  private:
    [[nodiscard]] T* inline_data() noexcept { return reinterpret_cast<T*>(inline_); }
    // Frees the elements' memory, if it was allocated.
    void release() noexcept {
        if (data_ != inline_data()) std::allocator<T>().deallocate(data_, capacity_);
        data_ = inline_data();
        capacity_ = N;
    }
    // Into an empty vector; leaves `other` empty.
    void take(InlineVector& other) noexcept {
        if (other.data_ != other.inline_data()) {
            data_ = std::exchange(other.data_, other.inline_data());
            capacity_ = std::exchange(other.capacity_, N);
            size_ = std::exchange(other.size_, 0);
            return;
        }
        std::uninitialized_move(other.begin(), other.end(), data_);
        size_ = other.size_;
        other.clear();
    }

    T* data_;
    size_t size_ = 0, capacity_ = N;
    alignas(T) std::byte inline_[N * sizeof(T)];
};

}  // namespace ros2s
