#include "s3_fifo.h"

#include <algorithm>
#include <cstring>

#include "hash.h"
#include "ros2s/base/check.h"

namespace ros2s::engine {

uint64_t S3Fifo::memory_bytes() const {
    return slabs_.size() * slab_entries * sizeof(Entry) + slabs_.capacity() * sizeof(slabs_[0]) +
           slots_.capacity() * sizeof(uint32_t) + ghost_.capacity() * sizeof(uint16_t);
}

// Of a hash, for the ghost. Not 0.
static uint16_t part_of(uint64_t hash) { return static_cast<uint16_t>(hash >> 48 | 1); }

uint64_t S3Fifo::hash(std::string_view key) const { return hash_text(key, secret_); }

// ---- the table -----------------------------------------------------------------------------

uint32_t S3Fifo::find(std::string_view key) const {
    for (size_t slot = hash(key);; ++slot) {
        const uint32_t number = slots_[slot & (slots_.size() - 1)];
        if (number == none || entry(number).name() == key) return number;
    }
}

size_t S3Fifo::slot_of(uint32_t number) const {
    size_t slot = hash(entry(number).name()) & (slots_.size() - 1);
    while (slots_[slot] != number) slot = (slot + 1) & (slots_.size() - 1);
    return slot;
}

void S3Fifo::place(uint32_t number) {
    size_t slot = hash(entry(number).name()) & (slots_.size() - 1);
    while (slots_[slot] != none) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = number;
}

// Later entries of the same run move up, so that they are found.
void S3Fifo::vacate(size_t slot) {
    const size_t mask = slots_.size() - 1;
    for (size_t next = (slot + 1) & mask; slots_[next] != none; next = (next + 1) & mask) {
        const size_t wanted = hash(entry(slots_[next]).name()) & mask;
        const bool may_move = ((next - wanted) & mask) >= ((next - slot) & mask);
        if (!may_move) continue;
        slots_[slot] = slots_[next];
        slot = next;
    }
    slots_[slot] = none;
}

// The ghost has a place for each slot: for more removed keys than there are keys.
void S3Fifo::resize(size_t slots) {
    std::vector<uint32_t> before(slots, none);
    before.swap(slots_);
    for (const uint32_t number : before) {
        if (number != none) place(number);
    }
    std::vector<uint16_t>(slots).swap(ghost_);
}

void S3Fifo::free_entry(uint32_t number) {
    const auto last = static_cast<uint32_t>(--size_);
    if (number != last) {
        slots_[slot_of(last)] = number;
        Entry& moved = entry(number);
        moved = entry(last);
        if (is_in_queue(moved.in)) {
            Queue& queue = queue_of(moved.in);
            (moved.newer == none ? queue.newest : entry(moved.newer).older) = number;
            (moved.older == none ? queue.oldest : entry(moved.older).newer) = number;
        }
    }
    if (size_ % slab_entries == 0) slabs_.pop_back();
    if (slots_.size() > slots_min && size_ * 4 < slots_.size()) resize(slots_.size() / 2);
}

// ---- keys ----------------------------------------------------------------------------------

void S3Fifo::insert(std::string_view key, uint32_t weight, uint32_t at) {
    ROS2S_CHECK(key.size() <= key_bytes_max);
    uint32_t number = find(key);
    if (number != none) {
        unlink(number);
    } else {
        if ((size_ + 1) * 5 > slots_.size() * 4) resize(slots_.size() * 2);
        if (size_ == slabs_.size() * slab_entries) {
            slabs_.push_back(std::make_unique_for_overwrite<Entry[]>(slab_entries));
        }
        number = static_cast<uint32_t>(size_);
        Entry& made = entry(number);
        std::memcpy(made.key, key.data(), key.size());
        made.key_bytes = static_cast<uint8_t>(key.size());
        made.uses = 0;
        made.in = In::none;
        place(number);
        ++size_;
    }
    Entry& made = entry(number);
    made.weight = weight;
    made.at = at;
    const uint64_t hashed = hash(key);
    const bool is_known = ghost_of(hashed) == part_of(hashed);
    if (is_known) ghost_of(hashed) = 0;
    push(is_known ? In::main : In::small, number);
}

std::optional<uint32_t> S3Fifo::touch(std::string_view key) {
    const uint32_t number = find(key);
    if (number == none) return std::nullopt;
    Entry& used = entry(number);
    used.uses = std::min<uint8_t>(used.uses + 1, uses_max);
    return used.at;
}

std::optional<uint32_t> S3Fifo::at(std::string_view key) const {
    const uint32_t number = find(key);
    return number == none ? std::nullopt : std::optional(entry(number).at);
}

bool S3Fifo::erase(std::string_view key) {
    const uint32_t number = find(key);
    if (number == none) return false;
    const bool was_queued = entry(number).in != In::leaving;
    unlink(number);
    vacate(slot_of(number));
    free_entry(number);
    return was_queued;
}

std::optional<uint32_t> S3Fifo::weight_to_pin(std::string_view key) const {
    const uint32_t number = find(key);
    if (number == none || !is_in_queue(entry(number).in)) return std::nullopt;
    return entry(number).in == In::pinned ? 0 : entry(number).weight;
}

void S3Fifo::pin(std::string_view key) {
    const uint32_t number = find(key);
    unlink(number);
    push(In::pinned, number);
}

void S3Fifo::unpin(std::string_view key) {
    const uint32_t number = find(key);
    if (number == none || entry(number).in != In::pinned) return;
    unlink(number);
    push(In::main, number);
}

// ---- queues --------------------------------------------------------------------------------

void S3Fifo::push(In in, uint32_t number) {
    Queue& queue = queue_of(in);
    Entry& pushed = entry(number);
    pushed.in = in;
    pushed.newer = none;
    pushed.older = queue.newest;
    (queue.newest == none ? queue.oldest : entry(queue.newest).newer) = number;
    queue.newest = number;
    queue.weight += pushed.weight;
    ++queue.keys;
}

void S3Fifo::unlink(uint32_t number) {
    Entry& left = entry(number);
    if (!is_in_queue(left.in)) return;
    Queue& queue = queue_of(left.in);
    (left.newer == none ? queue.newest : entry(left.newer).older) = left.older;
    (left.older == none ? queue.oldest : entry(left.older).newer) = left.newer;
    queue.weight -= left.weight;
    --queue.keys;
    left.in = In::none;
}

S3Fifo::Victim S3Fifo::leave(uint32_t number) {
    unlink(number);
    Entry& left = entry(number);
    left.in = In::leaving;
    const uint64_t hashed = hash(left.name());
    ghost_of(hashed) = part_of(hashed);
    return {std::string(left.name()), left.weight, left.at};
}

std::optional<S3Fifo::Victim> S3Fifo::evict() {
    const bool small_is_large = small_.weight * 10 >= weight() && small_.oldest != none;
    auto victim = small_is_large ? evict_small() : evict_main();
    if (!victim) victim = small_is_large ? evict_main() : evict_small();
    return victim;
}

std::optional<S3Fifo::Victim> S3Fifo::evict_small() {
    while (small_.oldest != none) {
        const uint32_t oldest = small_.oldest;
        Entry& old = entry(oldest);
        if (old.uses == 0) return leave(oldest);
        unlink(oldest);
        old.uses = 0;
        push(In::main, oldest);
    }
    return std::nullopt;
}

std::optional<S3Fifo::Victim> S3Fifo::evict_main() {
    while (main_.oldest != none) {
        const uint32_t oldest = main_.oldest;
        Entry& old = entry(oldest);
        if (old.uses == 0) return leave(oldest);
        unlink(oldest);
        --old.uses;
        push(In::main, oldest);
    }
    return std::nullopt;
}

std::optional<S3Fifo::Victim> S3Fifo::take(std::string_view key) {
    const uint32_t number = find(key);
    if (number == none || entry(number).in == In::leaving) return std::nullopt;
    return leave(number);
}

std::vector<S3Fifo::Victim> S3Fifo::take_old(uint32_t last, size_t count, size_t& place) {
    std::vector<Victim> old;
    for (; count > 0 && place < slots_.size(); --count, ++place) {
        const uint32_t number = slots_[place];
        if (number == none || entry(number).at > last) continue;
        if (is_in_queue(entry(number).in)) old.push_back(leave(number));
    }
    if (place >= slots_.size()) place = 0;
    return old;
}

void S3Fifo::restore(std::string_view key) {
    const uint32_t number = find(key);
    if (number == none || entry(number).in != In::leaving) return;
    push(In::main, number);
}

}  // namespace ros2s::engine
