// View: the part of one object's omap that a transaction needs, and the changes it makes to it.
//
// What is needed is not known at first: the transaction asks the view, which notes what it does not
// know (wanted()). It is then read, and the transaction starts again. All of it is of one state:
// the head, which every change changes, is read each time, and must be the same.
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

    // The key's value; empty: there is no such key. If it is not known, it is wanted, and the
    // answer is "none".
    [[nodiscard]] const std::string& get(const std::string& key);
    void set(const std::string& key, std::string value) { changes_[key] = std::move(value); }
    void remove(const std::string& key) { changes_[key].clear(); }
    // Keys from `from` to before `end`, all with `prefix`, with the changes. `from` itself is no
    // key that is stored, unless it is known. If they are not known, they are wanted, and the
    // answer is none.
    [[nodiscard]] std::vector<std::string> keys(const std::string& prefix, const std::string& from,
                                                const std::string& end);
    // Whether there is a key with the prefix, with the changes: those of a transaction before this
    // one in a shared change count. If it is not known, it is wanted, and the answer is no.
    [[nodiscard]] bool has_any(const std::string& prefix);

    [[nodiscard]] bool is_complete() const {
        return is_loaded_ && wanted_keys_.empty() && !wanted_range_;
    }
    void want(const std::string& key) {
        if (!is_known(key)) wanted_keys_.insert(key);
    }
    // Guesses that an object of which nothing is known does not exist.
    void guess_no_object();
    // Guesses that there is no such key, if that is not known. The object exists.
    void guess_no_key(const std::string& key);
    // What a change must be conditional on beside the head.
    [[nodiscard]] const std::set<std::string>& guessed_keys() const { return guessed_keys_; }
    [[nodiscard]] bool is_loaded() const { return is_loaded_; }
    // A moment of the store. At some time before, the object was in a state from which it has got
    // into this one by changes of this store alone. And replies that these have moved out of the
    // object were in their slots by then.
    [[nodiscard]] uint64_t since() const { return since_; }
    void begins(uint64_t moment) { since_ = moment; }
    // The key's value before the changes, if it is known.
    [[nodiscard]] const std::string& stored(const std::string& key) const;
    // The next read; after it, take() is called. Then the changes are gone.
    [[nodiscard]] Read next_read(const std::string& space) const;
    // Errors: corrupt, bad_version; busy: the object has changed, and the view knows nothing now.
    [[nodiscard]] Result<> take(const Read& read, const Result<ReadReply>& reply);
    // Forgets everything.
    void reset();
    // The changes were made, and `stored` is all that was: what it knows is true again, if nobody
    // else changes the object.
    void adopt(const Pending& stored);
    // The object did not exist, and was made just now with this head. The changes stay.
    void made(const Head& head, std::string head_bytes);
    // Takes over what another view of the object knows.
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
    // A new object has no other keys, of those that transactions ask for.
    void cover_all() { covered_ = {{"c", "s"}}; }
    // The end of what is known from there on; `from` itself: nothing.
    [[nodiscard]] std::string known_until(const std::string& from) const;

    object::ObjectId object_;
    bool is_loaded_ = false;
    uint64_t since_ = 0;
    Head head_;
    std::string head_bytes_;
    std::map<std::string, std::string> values_;   // as they are stored; empty: no such key
    size_t value_bytes_ = 0;                      // what they take
    std::map<std::string, std::string> covered_;  // ranges of which all keys are in values_
    std::map<std::string, std::string> changes_;  // empty: is removed
    std::set<std::string> wanted_keys_;
    std::set<std::string> guessed_keys_;
    std::optional<Range> wanted_range_;
};

}  // namespace ros2s::rados
