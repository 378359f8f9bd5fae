// RingWriter and RingReader: the two ends of a ring of bytes in shared memory. Each keeps its own
// index in private memory and only publishes it. The peer's index is loaded on request and checked.
//
// Invariants
// - 0 <= tail - head <= size, in bytes ever written; both rise by multiples of entry_alignment.
// - A reader copies each byte of an entry once, and never reads it again.
#pragma once
#include <algorithm>

#include "layout.h"
#include "ros2s/base/check.h"
#include "ros2s/fabric/endpoint.h"
#include "ros2s/fabric/packet/packet.h"

namespace ros2s::fabric::shm {

[[nodiscard]] constexpr uint64_t entry_bytes(uint64_t length) {
    return round_up<uint64_t>(sizeof(Packet) + length, entry_alignment);
}

class RingWriter {
  public:
    RingWriter(Bytes ring, SharedWord& tail, SharedWord& head) noexcept
        : ring_(ring), tail_word_(tail), head_word_(head) {}

    [[nodiscard]] uint64_t size() const noexcept { return ring_.size(); }
    [[nodiscard]] Bytes memory() const noexcept { return ring_; }
    // By the peer's index as last loaded.
    [[nodiscard]] uint64_t room() const noexcept { return ring_.size() - (tail_ - head_); }
    // Loads how far the peer has read. False: the peer's index is wrong.
    [[nodiscard]] bool refresh() noexcept {
        const uint64_t head = shared(head_word_.value).load(std::memory_order_seq_cst);
        if (head < head_ || head > tail_ || head % entry_alignment != 0) return false;
        head_ = head;
        return true;
    }
    [[nodiscard]] bool read_further() const noexcept {
        return shared(head_word_.value).load(std::memory_order_seq_cst) != head_;
    }
    // There must be room for it.
    void write(const Packet& header, ConstBytes first, ConstBytes second) noexcept {
        ROS2S_CHECK(entry_bytes(header.length) <= room());
        uint64_t at = tail_;
        copy_in(at, object_bytes(header));
        copy_in(at += sizeof header, first);
        copy_in(at += first.size(), second);
        tail_ += entry_bytes(header.length);
        shared(tail_word_.value).store(tail_, std::memory_order_release);
    }

  private:
    void copy_in(uint64_t at, ConstBytes bytes) noexcept {
        if (bytes.empty()) return;
        const uint64_t place = at & (ring_.size() - 1);
        const uint64_t first = std::min<uint64_t>(bytes.size(), ring_.size() - place);
        std::memcpy(ring_.data() + place, bytes.data(), first);
        if (first < bytes.size()) {
            std::memcpy(ring_.data(), bytes.data() + first, bytes.size() - first);
        }
    }
    Bytes ring_;
    SharedWord& tail_word_;
    SharedWord& head_word_;
    uint64_t tail_ = 0;
    uint64_t head_ = 0;
};

class RingReader {
  public:
    RingReader(Bytes ring, SharedWord& tail, SharedWord& head) noexcept
        : ring_(ring), tail_word_(tail), head_word_(head) {}

    // By the peer's index as last loaded.
    [[nodiscard]] uint64_t available() const noexcept { return tail_ - head_; }
    // Loads how far the peer has written. False: the peer's index is wrong.
    [[nodiscard]] bool refresh() noexcept {
        const uint64_t tail = shared(tail_word_.value).load(std::memory_order_seq_cst);
        if (tail < tail_ || tail - head_ > ring_.size() || tail % entry_alignment != 0) {
            return false;
        }
        tail_ = tail;
        return true;
    }
    // The header of the next entry, a private copy. There must be one.
    [[nodiscard]] Packet header() const noexcept {
        Packet header;
        copy_out(head_, {reinterpret_cast<std::byte*>(&header), sizeof header});
        return header;
    }
    // Copies the bytes of the entry of the last header(), and moves past it.
    void take(const Packet& header, std::byte* into) noexcept {
        copy_out(head_ + sizeof header, {into, header.length});
        head_ += entry_bytes(header.length);
    }
    // The same bytes in place, where the peer can change them. Then skip().
    [[nodiscard]] BorrowedMessage view(const Packet& header) const noexcept {
        const uint64_t place = (head_ + sizeof header) & (ring_.size() - 1);
        const uint64_t first = std::min<uint64_t>(header.length, ring_.size() - place);
        return BorrowedMessage(ConstBytes(ring_).subspan(place, first),
                               ConstBytes(ring_).first(header.length - first));
    }
    void skip(const Packet& header) noexcept { head_ += entry_bytes(header.length); }
    // Gives the room back.
    void publish() noexcept { shared(head_word_.value).store(head_, std::memory_order_release); }

  private:
    void copy_out(uint64_t at, Bytes into) const noexcept {
        if (into.empty()) return;
        const uint64_t place = at & (ring_.size() - 1);
        const uint64_t first = std::min<uint64_t>(into.size(), ring_.size() - place);
        std::memcpy(into.data(), ring_.data() + place, first);
        if (first < into.size()) {
            std::memcpy(into.data() + first, ring_.data(), into.size() - first);
        }
    }
    Bytes ring_;
    SharedWord& tail_word_;
    SharedWord& head_word_;
    uint64_t tail_ = 0;
    uint64_t head_ = 0;
};

}  // namespace ros2s::fabric::shm
