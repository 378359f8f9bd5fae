// CachedOmap: a part of one object's omap that a store has read or written. All of it is of one
// state, which the head names: each change of an object gives its head other bytes. No I/O. Used on
// one core.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ros2s/rados/pool.h"
#include "ros2s/rados/records.h"

namespace ros2s::rados {

class CachedOmap {
  public:
    // No head: the object does not exist.
    CachedOmap() = default;
    CachedOmap(const Head& head, std::string head_bytes)
        : head_(head), head_bytes_(std::move(head_bytes)) {}
    [[nodiscard]] bool exists() const { return !head_bytes_.empty(); }
    [[nodiscard]] const Head& head() const { return head_; }
    [[nodiscard]] const std::string& head_bytes() const { return head_bytes_; }
    // Whether it is true for an object with this head. With `is_applied`, the omap must have all of
    // it: no committed transaction of this store that locks the object has yet to apply some.
    [[nodiscard]] bool is_of(const std::string& head, bool is_applied) const {
        return head == head_bytes_ || (!is_applied && !head.empty() && head == locked_head_);
    }
    [[nodiscard]] bool is_applied() const { return is_applied_; }
    void applied(const std::string& locked_head) {
        is_applied_ = is_applied_ || locked_head == locked_head_;
    }
    // This store has replaced the head by the present one.
    [[nodiscard]] bool has_replaced(const std::string& head) const {
        return head == replaced_head_;
    }
    // A moment of the store. Since some time before it, only this store has changed the object.
    // Replies that these changes removed from the object were in their slots before that moment.
    [[nodiscard]] uint64_t since() const { return since_; }
    void begins(uint64_t moment) { since_ = moment; }

    // Whether the key's value is known; it may be that there is no such key.
    [[nodiscard]] bool has(const std::string& key) const {
        return !exists() || values_.contains(key) || until(key) != key;
    }
    // Empty: there is no such key, or it is not known.
    [[nodiscard]] const std::string& value(const std::string& key) const;
    // The values as they are stored; empty: no such key, outside of known ranges.
    [[nodiscard]] const std::map<std::string, std::string>& values() const { return values_; }
    // The first of these keys that exists; null: none is known.
    [[nodiscard]] const std::string* first(const std::string& from, const std::string& end) const;
    // The end of the range that contains `from` and is known. If there is none, `from` itself.
    [[nodiscard]] std::string until(const std::string& from) const;

    void set(const std::string& key, std::string value);
    // All keys of the range that are not set do not exist.
    void cover(const std::string& from, std::string end);
    // A new object has none of the other keys that transactions ask for.
    void cover_all() { cover("c", "s"); }
    // Adds what was read of the same state. So no change waits to be applied.
    void merge(const CachedOmap& other);
    // The store has changed the object from this state. `stored` is the whole change. Until it is
    // applied, the object has the locked head, if that is not empty.
    void adopt(const Pending& stored, std::string locked_head);
    [[nodiscard]] size_t bytes() const;

  private:
    void forget(const std::string& key);

    Head head_;
    std::string head_bytes_, locked_head_, replaced_head_;
    bool is_applied_ = true;
    uint64_t since_ = 0;
    std::map<std::string, std::string> values_;
    size_t value_bytes_ = 0;                      // memory of values_
    std::map<std::string, std::string> covered_;  // ranges, disjoint: from, end
};

// The value of one key of an entry or segment.
struct Fact {
    std::string value;  // empty: there is no such key
    Entry entry;
    Segment segment;
};
using Facts = std::vector<Fact>;
// Errors: those of decode().
[[nodiscard]] Result<Fact> fact_of(const std::string& key, const std::string& value);
[[nodiscard]] Result<Facts> facts_of(const std::vector<std::string>& keys, const CachedOmap& known);

}  // namespace ros2s::rados
