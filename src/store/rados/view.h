// View: the part of one object's omap that a transaction needs, and the transaction's changes to
// it.
//
// The needed keys are not known at first. The transaction asks the view, which collects the keys
// that it does not know. They are then read, and the transaction starts again. All values belong to
// one state: the head, which every change replaces, is read each time and must be the same.
//
// No I/O: RadosStore reads.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ros2s/rados/keys.h"
#include "ros2s/rados/pool.h"
#include "ros2s/rados/records.h"

namespace ros2s::rados {

class View {
  public:
    explicit View(object::ObjectId object) : object_(object) {}
    [[nodiscard]] object::ObjectId object() const { return object_; }
    [[nodiscard]] bool exists() const { return !head_bytes_.empty(); }
    [[nodiscard]] const Head& head() const { return head_; }
    [[nodiscard]] const std::string& head_bytes() const { return head_bytes_; }

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
    // Whether there is a key with the prefix, after the changes. The changes include those of
    // earlier transactions in a shared change. If this is not known, the range becomes wanted, and
    // the result is false.
    [[nodiscard]] bool has_any(const std::string& prefix);

    [[nodiscard]] bool is_complete() const {
        return is_loaded_ && wanted_keys_.empty() && !wanted_range_;
    }
    void want(const std::string& key) {
        if (!is_known(key)) wanted_keys_.insert(key);
    }
    // Guesses that the object does not exist, if nothing is known about it.
    void guess_no_object();
    // Guesses that the key does not exist, if that is not known. The object exists.
    void guess_no_key(const std::string& key);
    // The keys that a change must be conditional on, in addition to the head.
    [[nodiscard]] const std::set<std::string>& guessed_keys() const { return guessed_keys_; }
    [[nodiscard]] bool is_loaded() const { return is_loaded_; }
    // A moment of the store. Since some time before it, only this store has changed the object.
    // Replies that these changes removed from the object were in their slots before that moment.
    [[nodiscard]] uint64_t since() const { return since_; }
    void begins(uint64_t moment) { since_ = moment; }
    // The key's value before the changes, if it is known.
    [[nodiscard]] const std::string& stored(const std::string& key) const;
    // The next read. The caller then calls take(), which drops the changes.
    [[nodiscard]] Read next_read(const std::string& space) const;
    // Errors: corrupt, bad_version; busy (the object has changed, and the view now knows nothing).
    [[nodiscard]] Result<> take(const Read& read, const Result<ReadReply>& reply);
    // Forgets everything.
    void reset();
    // The changes were made. `stored` is the whole change. The view then knows the new state, if
    // nobody else changes the object.
    void adopt(const Pending& stored);
    // The object did not exist and was just created with this head. The changes stay.
    void made(const Head& head, std::string head_bytes);
    // Takes over the knowledge of another view of the object.
    void begin_with(View known);
    [[nodiscard]] size_t bytes() const;
    void drop_changes() { changes_.clear(); }
    [[nodiscard]] const std::map<std::string, std::string>& changes() const { return changes_; }

  private:
    struct Range {
        std::string prefix, from, end;
        bool first_only = false;
    };
    [[nodiscard]] bool is_known(const std::string& key) const;
    void know(const std::string& key, std::string value);
    void forget(const std::string& key);
    void forget_values();
    // A new object has none of the other keys that transactions ask for.
    void cover_all() { covered_ = {{"c", "s"}}; }
    // The end of the known range that contains `from`. If there is none, `from` itself.
    [[nodiscard]] std::string known_until(const std::string& from) const;

    object::ObjectId object_;
    bool is_loaded_ = false;
    uint64_t since_ = 0;
    Head head_;
    std::string head_bytes_;
    std::map<std::string, std::string> values_;   // as they are stored; empty: no such key
    size_t value_bytes_ = 0;                      // memory of values_
    std::map<std::string, std::string> covered_;  // ranges: values_ has all their keys
    std::map<std::string, std::string> changes_;  // empty: removed
    std::set<std::string> wanted_keys_;
    std::set<std::string> guessed_keys_;
    std::optional<Range> wanted_range_;
};

}  // namespace ros2s::rados
