// ObjectStore: the interface that carries the system below the file system. Implementations:
// engine (on devices), MemoryStore (the oracle), later remote (over rpc) and foreign ones;
// decorated by client. One contract suite (object/contract) runs on all.
//
// Ownership: everything reachable from a request (keys, windows, vectors) belongs to the caller and
// stays put until the returned task is done, also when the call is cancelled or times out.
// Thread rule: called on the core the store was opened on.
//
// Invariants
// - A transaction is atomic, durable when update() returns (P1, P2), and ordered: its Epoch is
//   greater than that of every transaction that returned before it was called.
// - fetch, list and query see every transaction that had returned when they were called (P3), and
//   nothing of one that is not durable yet. Items of one fetch may see different epochs.
// - Bytes that fail their checksum are never returned (P4): the item's error is `corrupt`.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/object/vocabulary.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/task.h"

namespace ros2s::object {

// ---- fetch ---------------------------------------------------------------------------------

// One extent of one array, or one single value. Holes and what lies beyond the array's end read
// as zeros. A single value is read from its start: extent.offset must be 0.
struct FetchItem {
    ObjectId object{};
    Dkey dkey;
    Akey akey;
    Extent extent{};  // array: the bytes wanted; window.length >= extent.length
    Window window{};  // where they go

    // Set by the store. `status`: not_found (no such akey; an array's window is then zeroed, so
    // that a hole of a whole chunk reads like any other); corrupt (detail of an array: the end of
    // the first bad block, cut at the extent's; 0: not known); io; too_small for a single
    // value larger than extent.length (detail = its size, nothing is written).
    Result<> status{};
    bool is_value = false;  // a single value lies there, not an array
    uint64_t size = 0;      // of the whole array or value, in bytes
    Epoch epoch{};          // of the last update to this akey
    // CRC32C of the bytes put into the window, one per piece: the extent cut at multiples of
    // block_bytes of the array's offsets (checksum.h). A single value is one piece. Empty where
    // `status` is an error.
    std::vector<uint32_t> checksums;
};

// ---- update --------------------------------------------------------------------------------

struct Condition {
    enum class Kind : uint8_t {
        exists,        // the akey exists (an empty akey: anything under the dkey does)
        absent,        // the opposite
        epoch_equals,  // the akey's last update is `value` (0: it never existed or was punched)
        size_equals,   // the array or value has `value` bytes (0 where it does not exist)
        no_dkeys,      // no dkey of the object holds `akey`; dkey is ignored (rmdir's question)
        // Of objects that the transaction changes; keys and value are ignored. Judged last.
        pinned,    // the transaction's holder has pinned it
        unpinned,  // nobody else has
    };
    [[nodiscard]] bool is_about_pins() const {
        return kind == Kind::pinned || kind == Kind::unpinned;
    }
    Kind kind{};
    ObjectId object{};
    Dkey dkey;
    Akey akey;
    uint64_t value = 0;
};

struct Operation {
    enum class Kind : uint8_t {
        write,         // array: `extent` gets the bytes of `window`, which is as long; an empty
                       // one is a touch
        put,           // single value: becomes the bytes of `window`, whole
        punch_extent,  // array: `extent` becomes a hole; the size stays; no array stays none
        set_size,      // array: gets `size` bytes; what lies beyond is gone, what is new is a hole
        touch,         // array: exists from now on (size as it is, or 0)
        punch_akey,    // the akey is gone; no error where it was not there (also the ones below)
        punch_dkey,    // all akeys under the dkey
        punch_dkeys,   // all dkeys in [dkey, dkey_end); an empty dkey_end means no upper end; one
                       // below dkey is `invalid`
        punch_object,  // everything under the object
    };
    Kind kind{};
    ObjectId object{};
    Dkey dkey;
    Akey akey;
    Extent extent{};
    uint64_t size = 0;
    Dkey dkey_end;
    Window window{};
    // write, put: what the client computed over the bytes, piece by piece as in
    // FetchItem::checksums; empty: the store computes them itself. A store that finds other bytes
    // answers `corrupt`, and nothing is changed.
    std::vector<uint32_t> checksums;
};

// All or nothing. Conditions are judged, in order, against the state just before; operations take
// effect in order. An akey holds an array or a single value: the other kind's operation on it is
// `invalid` (punch it first, in the same transaction if need be). A failed transaction leaves no
// reply behind: the same operation id may be tried again.
struct Transaction {
    OperationId id{};
    // It was never sent before: whoever has an answer for it was asked by somebody else. A store
    // that has forgotten the replies of a client cannot tell whether one that may come again was
    // done, and says `expired`; this one was not.
    bool is_new = false;
    Holder holder{};  // whom conditions about pins are about
    std::vector<Condition> conditions;
    std::vector<Operation> operations;
};

// Tells two transactions of one operation id apart: what they ask for, and their payload as far as
// it has checksums or is this process's own. Where the id has a digest, that says it: of a request
// that was planned anew since, or of a client that has one for all its requests.
[[nodiscard]] uint64_t digest_of(const Transaction& transaction);

struct Commit {
    Epoch epoch{};
    WallTime time{};
    bool replayed = false;  // this operation id had been done before; the stored reply is returned
    friend bool operator==(const Commit&, const Commit&) = default;
};

// ---- list, query ---------------------------------------------------------------------------

struct ListRequest {
    enum class What : uint8_t { objects, dkeys, akeys };
    What what{};
    ObjectId object{};  // dkeys, akeys
    Dkey dkey;          // akeys
    // dkeys: only those that hold this akey; its single value comes with each entry. Empty: all.
    Akey akey;
    std::optional<std::string> after;  // a key: start behind it (objects: as object_key() makes it)
    uint32_t limit = 1024;             // at least 1
};
struct ListEntry {
    std::string key;
    std::string value;  // as ListRequest::akey says
    Epoch epoch{};  // of that akey's last update; dkeys of all akeys: of their latest; objects: 0
};
struct ListReply {
    std::vector<ListEntry> entries;  // ascending
    bool more = false;
};
// Object ids in `list` are 16 bytes big-endian, high word first.
[[nodiscard]] std::string object_key(ObjectId object);
[[nodiscard]] ObjectId parse_object_key(std::string_view key);

// About one akey name over all dkeys of an object: what a file's size and times need.
struct QueryReply {
    bool exists = false;      // some dkey holds it
    Dkey highest_dkey;        // the greatest that does
    uint64_t size = 0;        // of its array or value under that dkey
    Epoch last_epoch{};       // of the last update or punch to it under any dkey; 0: never,
    WallTime last_time{};     // or punched with the whole object
    uint64_t bytes_used = 0;  // blocks allocated to it under all dkeys, in bytes
};

// ---- containers, space ---------------------------------------------------------------------

struct ContainerProperties {
    std::string label;               // 1 to 127 of [A-Za-z0-9._-], unique in the pool
    uint64_t chunk_bytes = 1 << 20;  // DFS's chunk size
    friend bool operator==(const ContainerProperties&, const ContainerProperties&) = default;
};
struct ContainerRecord {
    ContainerId id{};
    ContainerProperties properties;
    WallTime created{};
};
struct PoolSpace {
    uint64_t total_bytes = 0;  // for data
    uint64_t free_bytes = 0;   // usable now or after quarantine
};

struct Features {
    bool multi_object_transactions = false;
    bool conditions = false;
    bool stored_replies = false;  // exactly once by operation id
    bool checksums = false;       // FetchItem::checksums are those of the media
    bool durable = false;         // survives the process
};

[[nodiscard]] bool is_valid_label(std::string_view label);

class ObjectStore {
  public:
    virtual ~ObjectStore() = default;
    [[nodiscard]] virtual Features features() const = 0;
    // What carries fetch and update below this interface: "embedded engine, io_uring O_DIRECT".
    [[nodiscard]] virtual std::string path() const = 0;

    // The batch as a whole fails only for the container (not_found) or the call (cancelled,
    // deadline, no_memory); each item has its own status. More items than `fetch_items_max` is our
    // bug.
    virtual Task<Result<>> fetch(const Call& call, ContainerId container,
                                 std::span<FetchItem> items) = 0;
    // Errors: condition_failed (detail = the first that fails), no_space, read_only, corrupt (the
    // window's bytes are not those of `checksums`), invalid, too_large, stale (an operation id
    // older than its slot's last), name_taken (another transaction was made under this operation
    // id), expired (it may have been done: its client's replies are gone), busy (the owner's
    // clients have as many replies as are kept), io, not_found (the container).
    virtual Task<Result<Commit>> update(const Call& call, ContainerId container,
                                        const Transaction& transaction) = 0;
    virtual Task<Result<ListReply>> list(const Call& call, ContainerId container,
                                         const ListRequest& request) = 0;
    virtual Task<Result<QueryReply>> query(const Call& call, ContainerId container, ObjectId object,
                                           const Akey& akey) = 0;

    // Errors: exists (the label), invalid, read_only.
    virtual Task<Result<ContainerRecord>> create_container(
        const Call& call, const ContainerProperties& properties) = 0;
    // Errors: not_found, read_only.
    virtual Task<Result<>> destroy_container(const Call& call, ContainerId container) = 0;
    // Ascending by label.
    virtual Task<Result<std::vector<ContainerRecord>>> list_containers(const Call& call) = 0;
    virtual Task<Result<PoolSpace>> space(const Call& call) = 0;

    // Fetches the item; where it is there, the object is pinned for the holder from then on: nobody
    // else punches it under the condition `unpinned`. Pinned is pinned, however often. Errors:
    // those of fetch; no_memory (as many pins as are kept: detail).
    virtual Task<Result<>> pin(const Call& call, ContainerId container, const Holder& holder,
                               FetchItem& item) = 0;
    // True: it was the last pin of the object, and somebody wanted to punch it meanwhile: that is
    // the caller's to do now.
    virtual Task<Result<bool>> unpin(const Call& call, ContainerId container, const Holder& holder,
                                     ObjectId object) = 0;
    // Changes when pins may have been lost: then pin again. 0: they cannot be.
    [[nodiscard]] virtual uint64_t pins_era() const = 0;
    // For servers: the session of this number is over.
    virtual void session_ended(uint64_t session) = 0;
};

inline constexpr size_t fetch_items_max = 1024;
inline constexpr size_t transaction_operations_max = 1024;
// Payload of one transaction, in bytes.
inline constexpr uint64_t transaction_bytes_max = 64 << 20;

}  // namespace ros2s::object
