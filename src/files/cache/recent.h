// Recent: a table that knows which entry was used least recently.
//
// Used on one core. An entry has a function key(), which may be a view of the entry; entries do not
// move. Keys that others can choose, such as names, are for Ordered: they could all have one hash.
#pragma once
#include <cstddef>
#include <list>
#include <map>
#include <unordered_map>
#include <utility>

namespace ros2s::cache {

template <class Key, class Value>
using Hashed = std::unordered_map<Key, Value>;
template <class Key, class Value>
using Ordered = std::map<Key, Value>;

template <class Key, class Entry, template <class, class> class Index>
class Recent {
  public:
    [[nodiscard]] size_t size() const { return by_key_.size(); }
    // Null: there is none. It counts as a use.
    [[nodiscard]] Entry* find(const Key& key) {
        const auto found = by_key_.find(key);
        if (found == by_key_.end()) return nullptr;
        entries_.splice(entries_.begin(), entries_, found->second);
        return &*found->second;
    }
    // There is no entry with this key.
    Entry& add(Entry entry) {
        entries_.push_front(std::move(entry));
        by_key_.emplace(entries_.front().key(), entries_.begin());
        return entries_.front();
    }
    void erase(const Key& key) {
        const auto found = by_key_.find(key);
        if (found == by_key_.end()) return;
        const auto entry = found->second;
        by_key_.erase(found);  // its key is a view of the entry
        entries_.erase(entry);
    }
    [[nodiscard]] Entry& oldest() { return entries_.back(); }
    // Ordered: calls `visit(entry)` from this key on, until it is false. They do not count as used.
    void each_from(const Key& key, auto visit) const {
        for (auto each = by_key_.lower_bound(key); each != by_key_.end(); ++each) {
            if (!visit(*each->second)) return;
        }
    }
    void clear() {
        by_key_.clear();
        entries_.clear();
    }

  private:
    std::list<Entry> entries_;  // the most recently used first
    Index<Key, typename std::list<Entry>::iterator> by_key_;
};

}  // namespace ros2s::cache
