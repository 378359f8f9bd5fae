// View: what a transaction or query knows of one object, and the transaction's changes to it.
//
// The needed keys are not known at first. The transaction asks the view, which collects the keys
// that it does not know. They are then read, and the transaction starts again. All values belong to
// one state: the head, which every change replaces, is read each time and must be the same.
//
// No I/O: the parts of RadosStore read.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ros2s/rados/keys.h"
#include "ros2s/rados/pool.h"
#include "ros2s/rados/records.h"

namespace ros2s::rados {

// CachedOmap: a part of one object's omap that a store has read or written. All of it is of one
// state, which the head names: each change of an object gives its head other bytes. No I/O. Used on
// one core.
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

class View {
  public:
    // May share what is known with others, which add to it.
    explicit View(object::ObjectId object, std::shared_ptr<CachedOmap> known = nullptr)
        : object_(object), known_(std::move(known)) {}
    [[nodiscard]] object::ObjectId object() const { return object_; }
    [[nodiscard]] bool is_loaded() const { return known_ != nullptr; }
    // If it is loaded.
    [[nodiscard]] const std::shared_ptr<CachedOmap>& known() const { return known_; }
    [[nodiscard]] bool exists() const { return is_loaded() && known_->exists(); }
    [[nodiscard]] const Head& head() const { return known_->head(); }
    [[nodiscard]] const std::string& head_bytes() const { return known_->head_bytes(); }
    // The key's value before the changes, if it is known.
    [[nodiscard]] const std::string& stored(const std::string& key) const {
        return known_->value(key);
    }

    // The key's value; empty: there is no such key. If the value is not known, it becomes wanted,
    // and the result is empty.
    [[nodiscard]] const std::string& get(const std::string& key);
    void set(const std::string& key, std::string value) { changes_[key] = std::move(value); }
    void remove(const std::string& key) { changes_[key].clear(); }
    // The keys from `from` to before `end`, all with `prefix`, after the changes. `from` itself is
    // not a stored key, unless it is known. If the range is not known, it becomes wanted, and the
    // result is empty.
    [[nodiscard]] std::vector<std::string> keys(const std::string& prefix, const std::string& from,
                                                const std::string& end);
    // The first key with the prefix, after the changes, which include those of earlier transactions
    // in a shared change. Empty: there is none, or it is not known and becomes wanted.
    [[nodiscard]] std::string first(const std::string& prefix);
    // Whether there is a key with the prefix. False: there is none, or it is not known, as above.
    [[nodiscard]] bool has_any(const std::string& prefix);

    [[nodiscard]] bool is_complete() const {
        return is_loaded() && wanted_keys_.empty() && !wanted_range_;
    }
    void want(const std::string& key) {
        if (!is_known(key)) wanted_keys_.insert(key);
    }
    // Begins with what the store knows.
    void begin_with(std::shared_ptr<CachedOmap> known);
    // Guesses that the object does not exist, if nothing is known about it.
    void guess_no_object() { begin_with(std::make_shared<CachedOmap>()); }
    // Guesses that the key does not exist, if that is not known. The object exists.
    void guess_no_key(const std::string& key);
    // The keys that a change must be conditional on, in addition to the head.
    [[nodiscard]] const std::set<std::string>& guessed_keys() const { return guessed_keys_; }
    // The next read. The caller then calls take(), which drops the changes.
    [[nodiscard]] Read next_read(const std::string& space) const;
    // No values: there is no such object. Errors: corrupt, bad_version; busy (the object has
    // changed, and the view now knows nothing).
    [[nodiscard]] Result<> take(const Read& read, const ReadReply& reply);
    // The object did not exist and was just created with this head. The changes stay.
    void made(const Head& head, std::string head_bytes);
    void drop_changes() { changes_.clear(); }
    [[nodiscard]] const std::map<std::string, std::string>& changes() const { return changes_; }

  private:
    struct Range {
        std::string prefix, from, end;
        bool first_only = false;
    };
    [[nodiscard]] bool is_known(const std::string& key) const {
        return is_loaded() && (known_->has(key) || guessed_keys_.contains(key));
    }
    [[nodiscard]] bool has_changes(const std::string& from, const std::string& end) const {
        const auto changed = changes_.lower_bound(from);
        return changed != changes_.end() && changed->first < end;
    }
    // Whether the range is known. If not, the rest of it becomes wanted.
    [[nodiscard]] bool knows(const std::string& prefix, const std::string& from,
                             const std::string& end, bool first_only);

    object::ObjectId object_;
    std::shared_ptr<CachedOmap> known_;
    std::map<std::string, std::string> changes_;  // empty: removed
    std::set<std::string> wanted_keys_;
    std::set<std::string> guessed_keys_;
    std::optional<Range> wanted_range_;
};

// The reply to a query of the akey. It is valid only if the view is complete. Errors: corrupt,
// bad_version.
[[nodiscard]] Result<object::QueryReply> query(View& view, const object::Akey& akey);

}  // namespace ros2s::rados
