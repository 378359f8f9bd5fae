// Pool: the operations of a RADOS pool that RadosStore uses. There are two implementations:
// librados, and the simulation in sim/.
//
// An object has a name within a namespace, a sorted map of keys and values (its omap), and bytes.
// One request concerns one object. It is atomic, and durable when it returns. Requests on different
// objects take effect in any order.
//
// Thread rule: used on the core on which it was opened. Memory that a request refers to must not
// move until the request returns. Requests are not cancelled: they end within the pool's time
// limit.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/object/object_store.h"
#include "ros2s/runtime/task.h"

namespace ros2s::rados {

struct ObjectName {
    std::string space;  // the namespace
    std::string name;
    friend auto operator<=>(const ObjectName&, const ObjectName&) = default;
};

// An atomic change of one object. If an expectation is wrong, nothing is changed.
struct Change {
    enum class Expect : uint8_t { anything, absent };
    ObjectName object;
    Expect expect = Expect::anything;
    // The object exists and the key has this value. An empty value: the key does not exist.
    std::vector<std::pair<std::string, std::string>> equal;
    std::vector<std::pair<std::string, std::string>> set;  // no value is empty
    std::vector<std::string> remove;
    ConstBytes data;             // if not empty: becomes the object's bytes
    bool remove_object = false;  // and nothing else
    // A full pool accepts the change, too. For small objects that a change without new data needs.
    bool even_if_full = false;
};

// The keys that start with `prefix` (without a byte 00, also in the other two), from after `after`
// to before `end`, at most `limit`.
struct KeyRange {
    std::string prefix;
    std::string after;
    std::string end;     // empty: no end
    uint32_t limit = 0;  // 0: no range is wanted
};
inline constexpr uint32_t keys_per_read = 1024;  // as the servers limit them

struct Read {
    ObjectName object;
    std::vector<std::string> keys;
    KeyRange range{};
};
struct ReadReply {
    std::map<std::string, std::string> values;  // of the keys that exist, and of the range
    bool more = false;                          // the range may have more keys
    std::string last;  // the last key that the range was read to, if `more`

    // Empty: there is no such key. No value is empty.
    [[nodiscard]] std::string value(const std::string& key) const {
        const auto found = values.find(key);
        return found == values.end() ? std::string() : found->second;
    }
};

// The first page of all keys with the prefix.
[[nodiscard]] inline Read first_page(ObjectName object, const std::string& prefix) {
    return {.object = std::move(object),
            .keys = {},
            .range = {.prefix = prefix, .after = prefix, .end = {}, .limit = keys_per_read}};
}
// Turns the read into the read of the next page. False: the reply was the last page.
[[nodiscard]] inline bool turn_page(Read& read, const ReadReply& reply) {
    read.range.after = reply.last;
    return reply.more;
}

// Names every namespace, for Pool::list().
inline constexpr const char* all_spaces = "*";

// Lists the names of a namespace, each at least once, in no particular order. Objects that are
// created or removed meanwhile may be missing.
class Listing {
  public:
    virtual ~Listing() = default;
    // The next names; none at the end.
    virtual Task<Result<std::vector<std::string>>> next() = 0;
};

// Errors of all: deadline (no answer in time; a change may have been made or not), no_space (the
// pool is full, and the change adds bytes or an object), denied, io, unsupported (this kind of pool
// cannot do it). See may_be_done().
class Pool {
  public:
    virtual ~Pool() = default;
    [[nodiscard]] virtual std::string name() const = 0;
    // "pool 'main' of the RADOS cluster of /etc/ceph/ceph.conf"
    [[nodiscard]] virtual std::string description() const = 0;
    // Errors also: condition_failed (an expectation is wrong, and nothing was changed), not_found
    // (the object that `remove_object` or `remove` without expectations names).
    virtual Task<Result<>> apply(const Change& change) = 0;
    // Errors also: not_found (the object).
    virtual Task<Result<ReadReply>> read(const Read& read) = 0;
    // Returns the number of bytes, fewer at the object's end. Errors also: not_found.
    virtual Task<Result<uint64_t>> read_data(const ObjectName& object, uint64_t offset,
                                             Bytes into) = 0;
    [[nodiscard]] virtual std::unique_ptr<Listing> list(std::string space) = 0;
    virtual Task<Result<object::PoolSpace>> space() = 0;
};

// Whether a failed change may have been made. librados repeats a request whose answer was lost.
// Servers check permissions before they recognise the repetition, so a refusal proves nothing.
// After many other changes a server no longer recognises it, and the repetition fails with
// condition_failed because of its own effect. A caller that cannot simply start again must then
// check (busy: it has checked).
[[nodiscard]] inline bool may_be_done(const Error& failed) {
    return failed.code != Code::condition_failed && failed.code != Code::busy &&
           failed.code != Code::no_space;
}

// Success also if a condition failed: others have changed the object first, and nothing was done.
[[nodiscard]] inline Result<> ignore_conflict(Result<> applied) {
    return applied || applied.error().code != Code::condition_failed ? applied : Result<>();
}
// Success also if there is no such object.
[[nodiscard]] inline Result<> ignore_absence(Result<> removed) {
    return removed || removed.error().code != Code::not_found ? removed : Result<>();
}
// No values if there is no such object.
[[nodiscard]] inline Result<ReadReply> absent_as_empty(Result<ReadReply> reply) {
    if (!reply && reply.error().code == Code::not_found) return ReadReply{};
    return reply;
}

}  // namespace ros2s::rados
