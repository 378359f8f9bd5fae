// ObjectStore: the interface below the file system. Implementations: the engine (on devices),
// MemoryStore (the test oracle), RemoteStore (over rpc), RadosStore (on a Ceph cluster).
// CountedStore and VerifyingStore decorate them, CipherStore one of these for an encrypted
// container. All of them pass one contract suite (object/contract).
//
// Ownership: everything that a request refers to (keys, windows, vectors) belongs to the caller. It
// must not move until the returned task is done, even if the call is cancelled or times out. Thread
// rule: called on the core on which the store was opened.
//
// Invariants
// - A transaction is atomic: all of it takes effect or nothing. When update() returns, it is
//   durable: an acknowledged write survives a crash. Its Epoch is greater than the epochs of all
//   transactions that had returned before it was called.
// - A deferred transaction (Features::deferred) is durable after the next sync(), or after a
//   second. Until then a loss of power may take it back, with all transactions that have a greater
//   epoch. The end of the store's process takes nothing back. A client in another process repeats
//   what is lost.
// - fetch, list and query see every transaction that had returned when they were called. They see
//   nothing of a transaction that is not durable yet, other than of deferred ones. A client in
//   another process sees only its own of these (Call::client): the store makes those of others
//   durable first, object by object. Items of one fetch may see different epochs.
// - Bytes that fail their checksum are never returned: the item's error is `corrupt`.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/object/posted_fetch.h"
#include "ros2s/object/vocabulary.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/task.h"

namespace ros2s::object {

// ---- fetch ---------------------------------------------------------------------------------

// One extent of one array, or one single value. Holes, and bytes beyond the array's end, read as
// zeros. A single value is read from its start: extent.offset must be 0.
struct FetchItem {
    ObjectId object{};
    Dkey dkey;
    Akey akey;
    Extent extent{};  // array: the bytes wanted; window.length >= extent.length
    Window window{};  // the destination
    // So many bytes behind the window belong to it, and may be overwritten: up to the end of a
    // block, so that a device can read the last one as a whole. Not sent to servers.
    uint64_t room = 0;
    // The caller passes the bytes on with `checksums`, and their receiver verifies them. A client
    // on the way does not. Not in a chain.
    bool forwarded = false;
    bool wants_seals = false;  // of an array; Features::seals; not in a pin or chain

    // Set by the store. `status`: not_found (there is no such akey; the window of an array is
    // zeroed, so that a hole of a whole chunk reads like any other hole); corrupt (detail for an
    // array: the end of the first bad block, limited to the extent; 0: unknown); io; too_small (a
    // single value is larger than extent.length; detail = its size; nothing is written).
    Result<> status{};
    bool is_value = false;  // the akey has a single value, not an array
    uint64_t size = 0;      // of the whole array or value, in bytes
    Epoch epoch{};          // of the last update to this akey
    // CRC32C of the bytes in the window, one per piece. An array's extent is cut at multiples of
    // block_bytes of the array's offsets (checksum.h). A single value is one piece. Empty if
    // `status` is an error.
    Checksums checksums;
    // If requested: the seals of the blocks in which `extent` lies, one after the other. They
    // belong to the bytes in the window. Empty if `status` is an error.
    std::string seals;
};

// ---- update --------------------------------------------------------------------------------

struct Condition {
    enum class Kind : uint8_t {
        exists,        // the akey exists (an empty akey: anything under the dkey does)
        absent,        // the opposite
        epoch_equals,  // the akey's last update is `value` (0: it never existed or was punched)
        size_equals,   // the array or value has `value` bytes (0 where it does not exist)
        no_dkeys,      // no dkey of the object has `akey`; dkey is ignored (rmdir uses this)
        // These apply to objects that the transaction changes. Keys and value are ignored. They are
        // checked last.
        pinned,    // the transaction's holder has pinned it
        unpinned,  // no other holder has pinned it. A pin() that starts during the transaction
                   // sees the transaction's result
        // Always holds: the holder pins it in the same step (see update). `invalid` unless the
        // transaction puts a value of this object; at most transaction_pins_max.
        pin,
        // Always holds: the holder gets a lease of the object, if there is one to give
        // (Commit::lease, Features::update_leases). `invalid` unless the transaction puts a value
        // of this object, and for a second one.
        lease,
    };
    // Of the holder's pins and leases.
    [[nodiscard]] bool is_about_holders() const {
        return kind == Kind::pinned || kind == Kind::unpinned || kind == Kind::pin ||
               kind == Kind::lease;
    }
    Kind kind{};
    ObjectId object{};
    Dkey dkey;
    Akey akey;
    uint64_t value = 0;
};

struct Operation {
    enum class Kind : uint8_t {
        write,         // array: writes the bytes of `window` to `extent`, which has the same
                       // length; an empty extent is a touch
        put,           // single value: is replaced by the bytes of `window`
        punch_extent,  // array: `extent` becomes a hole; the size does not change; an absent array
                       // stays absent
        set_size,      // array: gets `size` bytes; bytes beyond are removed, new bytes are a hole
        touch,         // array: exists from now on (with its size, or 0)
        punch_akey,    // removes the akey; no error if it is absent (also for the operations below)
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
    // For write and put: the client's checksums of the bytes, one per piece as in
    // FetchItem::checksums. If empty, the store computes them. If they do not match the bytes, the
    // store returns `corrupt` and changes nothing.
    Checksums checksums;
    // For write: empty, or a seal for each block in which `extent` lies (Features::seals). The
    // store keeps it with the block until another operation changes the block. A block that is
    // written without a seal, or changed in part by a punch or set_size, has none.
    std::string seals;
};

// All or nothing. Conditions are checked, in order, against the state just before the transaction.
// Operations take effect in order. An akey has an array or a single value; an operation of the
// other kind is `invalid` (punch the akey first, if needed in the same transaction). A failed
// transaction leaves no reply: the same update name may be used again.
struct Transaction {
    UpdateName id{};
    // True: the transaction was never sent before. A stored reply then belongs to another request.
    // A store that has dropped a client's replies returns `expired` for a transaction that may be a
    // repetition, because it may have been done. It does not do so for a new one.
    bool is_new = false;
    Holder holder{};  // the holder for conditions about pins
    // update() need not wait until it is durable. A store without Features::deferred waits.
    bool deferred = false;
    // It was deferred and acknowledged, and is lost. `expired` unless the store awaits that its
    // holder repeats it (sync()).
    bool was_lost = false;
    std::vector<Condition> conditions;
    std::vector<Operation> operations;
};

// Distinguishes two transactions of one update name: by what they request, and by their payload if
// it has checksums or is in this process. If the id has a digest, returns that one: the transaction
// of a repeated request may have been planned anew, and some clients use one digest for all
// requests.
[[nodiscard]] uint64_t digest_of(const Transaction& transaction);

struct Commit {
    Epoch epoch{};
    WallTime time{};
    bool replayed = false;  // the update name was done before; the stored reply is returned
    uint64_t lease = 0;     // of Condition::Kind::lease: its number; 0: none
    friend bool operator==(const Commit&, const Commit&) = default;
};

// ---- list, query ---------------------------------------------------------------------------

struct ListRequest {
    enum class What : uint8_t { objects, dkeys, akeys };
    What what{};
    ObjectId object{};  // dkeys, akeys
    Dkey dkey;          // akeys
    // dkeys: only those that have this akey; each entry includes its single value. Empty: all
    // dkeys.
    Akey akey;
    std::optional<std::string> after;  // a key: start after it (objects: as object_key() makes it)
    uint32_t limit = 1024;             // at least 1
};
struct ListEntry {
    std::string key;
    std::string value;  // the single value for ListRequest::akey
    // Of the last update of the akey. Listing dkeys without an akey: of the last update under the
    // dkey. Listing objects: 0.
    Epoch epoch{};
};
struct ListReply {
    std::vector<ListEntry> entries;  // ascending
    bool more = false;
};
// Object ids in `list` are 16 bytes big-endian, high word first.
inline constexpr size_t object_key_bytes = 16;
[[nodiscard]] std::string object_key(ObjectId object);
[[nodiscard]] ObjectId parse_object_key(std::string_view key);  // of object_key_bytes

// Facts about one akey name over all dkeys of an object, for a file's size and times.
struct QueryReply {
    bool exists = false;      // some dkey has it
    Dkey highest_dkey;        // the greatest dkey that has it
    uint64_t size = 0;        // of the array or value under that dkey
    Epoch last_epoch{};       // of the last update or punch under any dkey; 0: never,
    WallTime last_time{};     // or punched with the whole object
    uint64_t bytes_used = 0;  // blocks allocated to it under all dkeys, in bytes
};

// ---- chains --------------------------------------------------------------------------------

// Makes a fetch item part of a chain. Items are done in their order. An item may address an object
// that an earlier item found, and may depend on the result of that item.
struct Link {
    enum class Kind : uint8_t {
        fetch,
        pin,    // as ObjectStore::pin()
        query,  // as ObjectStore::query() of the item's object and akey. It has no dkey and no
                // extent
    };
    // A byte of the single value of an earlier item.
    struct Reference {
        static constexpr uint32_t none = UINT32_MAX;
        uint32_t item = none;  // its index
        uint32_t offset = 0;
        [[nodiscard]] bool is_set() const { return item != none; }
    };
    Kind kind{};
    // The position of the low word of the item's object: a little-endian u64. The store sets it.
    Reference object{};
    // If it is set: the item is done only if (the byte there & mask) == value. Otherwise it is
    // not_found.
    Reference when{};
    uint8_t mask = 0;
    uint8_t value = 0;
    // The holder wants a lease of the object, which covers the item and all later ones of the
    // object (Features::leases).
    bool wants_lease = false;

    uint64_t lease = 0;  // its number; 0: none. Set by the store
    QueryReply facts;    // query: set by the store where the item's status is not an error
};

// ---- containers, space ---------------------------------------------------------------------

// Space of a container, in two counts. Each is exact.
struct Amount {
    // Allocated blocks; and for each akey under each dkey akey_bytes, the bytes of both keys, and
    // those of its single value.
    uint64_t bytes = 0;
    // Single values. A file system has two for each file: its name and its inode.
    uint64_t values = 0;
    friend bool operator==(const Amount&, const Amount&) = default;
};
inline constexpr uint64_t akey_bytes = 64;
inline constexpr uint64_t values_of_file = 2;

struct ContainerProperties {
    std::string label;               // 1 to label_bytes_max of [A-Za-z0-9._-], unique in the pool
    uint64_t chunk_bytes = 1 << 20;  // DFS's chunk size
    // A tenant, by the name under which it owns containers, or the subject of a certificate, which
    // has a '='. Empty: of administrators. Servers set it. The value that a client sends is
    // ignored.
    std::string owner{};
    Amount caps{};  // the most that it may use; 0: no cap
    friend bool operator==(const ContainerProperties&, const ContainerProperties&) = default;
};
// A change of a container: fields without a value stay as they are. A cap of 0 is none.
struct ContainerChange {
    std::optional<std::string> owner{};
    std::optional<uint64_t> bytes{}, values{};  // caps
};
struct ContainerRecord {
    ContainerId id{};
    ContainerProperties properties;
    WallTime created{};
    Amount used{};  // zeros if the store does not count
};
// The space of a pool; or of one container, limited by its cap and its owner's cap.
struct PoolSpace {
    uint64_t total_bytes = 0;  // for data
    uint64_t free_bytes = 0;   // usable now or after quarantine
    // Single values: the maximum, and how many more can be created. Both 0: limited by space only.
    uint64_t total_values = 0, free_values = 0;
    friend bool operator==(const PoolSpace&, const PoolSpace&) = default;
};

// What a client of a store in another process knows of its deferred transactions.
struct Acknowledged {
    uint64_t incarnation = 0;  // of the store, which sync() returned; 0: none yet
    Epoch last{};              // the greatest that was returned since
};

struct Features {
    bool multi_object_transactions = false;
    bool conditions = false;
    bool stored_replies = false;  // exactly once by update name
    bool checksums = false;       // FetchItem::checksums are the ones stored on the media
    bool durable = false;         // survives the process
    bool chains = false;          // fetch_chain(), and Condition::Kind::pin
    bool caps = false;            // ContainerProperties::caps are enforced
    bool seals = false;           // Operation::seals are kept; else such a write is `unsupported`
    bool locks = false;           // lock()
    bool leases = false;          // listen(), and Link::wants_lease
    bool deferred = false;        // Transaction::deferred has an effect
    bool update_leases = false;   // Condition::Kind::lease
    // Set by a store that several clients open at once: what does not hold across these clients.
    bool own_epochs = false;  // epochs of different clients are ordered only within an object
    bool own_pins = false;    // a pin is visible only to the users of this instance
    bool late_space = false;  // space() and no_space lag behind
};

[[nodiscard]] bool is_valid_label(std::string_view label);

class ObjectStore {
  public:
    virtual ~ObjectStore() = default;
    [[nodiscard]] virtual Features features() const = 0;
    // The transport of fetch and update below this interface: "embedded engine, io_uring O_DIRECT".
    [[nodiscard]] virtual std::string path() const = 0;

    // The batch fails as a whole only for the container (not_found) or the call (cancelled,
    // deadline, no_memory). Otherwise each item has its own status. More than `fetch_items_max`
    // items is a bug of the caller.
    virtual Task<Result<>> fetch(const Call& call, ContainerId container,
                                 std::span<FetchItem> items) = 0;
    // Begins a fetch of one item without waiting for anything. Its window has a length and no
    // address. False: nothing was begun, because this store does not do it, or not now.
    [[nodiscard]] virtual bool post_fetch(const Call&, ContainerId, FetchItem&, PostedFetch&) {
        return false;
    }
    // A condition `pin` pins the object before the transaction is visible to any reader. It pins
    // nothing if the transaction was done before (Commit::replayed). After an error other than
    // condition_failed the object may be pinned. Errors: condition_failed (detail = the first that
    // fails), no_space, read_only, corrupt (the window's bytes do not match `checksums`), invalid,
    // too_large, over_cap (the container or its owner would use more than it may; never for an
    // update that frees more than it needs), leased (another holder was asked to give a lease back:
    // ask again), stale (an update name older than the last one of its
    // slot), name_taken (another transaction used this update name), expired (it may have been
    // done: its client's replies were dropped; or Call::client knows another incarnation of the
    // store: detail), busy (no room for more replies of this owner's
    // clients), no_memory (also: the limit of pins), io, not_found (the container).
    virtual Task<Result<Commit>> update(const Call& call, ContainerId container,
                                        const Transaction& transaction) = 0;
    // May return fewer than `limit` entries with `more`, to bound the reply.
    virtual Task<Result<ListReply>> list(const Call& call, ContainerId container,
                                         const ListRequest& request) = 0;
    virtual Task<Result<QueryReply>> query(const Call& call, ContainerId container, ObjectId object,
                                           const Akey& akey) = 0;

    // Errors: exists (the label), invalid, read_only, too_large: the pool has containers_max
    // containers (detail = containers_max), or the owner has its share (detail = the owner's
    // number).
    virtual Task<Result<ContainerRecord>> create_container(
        const Call& call, const ContainerProperties& properties) = 0;
    // Errors: not_found, read_only.
    virtual Task<Result<>> destroy_container(const Call& call, ContainerId container) = 0;
    // Ascending by label.
    virtual Task<Result<std::vector<ContainerRecord>>> list_containers(const Call& call) = 0;
    // Of the pool; or, unless it is nil, as the container sees it. Errors: not_found.
    virtual Task<Result<PoolSpace>> space(const Call& call, ContainerId container) = 0;

    // Fetches the item. If it exists, the object is pinned for the holder from then on: no other
    // holder can punch it under the condition `unpinned`. Pinning twice is the same as once.
    // Errors: those of fetch; no_memory (the limit of pins; detail = the limit).
    virtual Task<Result<>> pin(const Call& call, ContainerId container, const Holder& holder,
                               FetchItem& item) = 0;
    // Several fetches, pins and queries in one request, one after the other: `links` has the kind
    // of each item, and its reference to an earlier one, if any. An item whose reference has no
    // value (its item's status is an error) is not_found. One that refers to an array, or to bytes
    // beyond the value's end, is `invalid`. Errors, before anything is done: invalid (also a
    // reference to the item itself, a later item or a query; a query with a dkey or an extent),
    // too_large (more than chain_items_max items or chain_bytes_max bytes of extents, or a key),
    // unsupported (a window that is not local). Other errors: those of fetch, pin and query. A pin
    // that was done before an error stays.
    virtual Task<Result<>> fetch_chain(const Call& call, ContainerId container,
                                       const Holder& holder, std::span<FetchItem> items,
                                       std::span<Link> links) = 0;
    // True: it was the last pin of the object, and a punch was refused because of it. The caller
    // should punch it now.
    virtual Task<Result<bool>> unpin(const Call& call, ContainerId container, const Holder& holder,
                                     ObjectId object) = 0;
    // Changes when pins may have been lost: then pin again. 0: pins cannot be lost.
    [[nodiscard]] virtual uint64_t pins_era() const = 0;
    // The holder has pinned again, in this era, what it had pinned in the container. Until then a
    // store that was just opened may refuse punches of others, because it awaits this holder. True:
    // it has refused one. The caller should look for objects to punch. A store that loses no pins
    // does nothing.
    virtual Task<Result<bool>> pinned_again(const Call& /*call*/, ContainerId /*container*/,
                                            const Holder& /*holder*/) {
        co_return false;
    }
    // Locks, unlocks or tests a range of an object, or a container, at once (Features::locks).
    // While a container is locked, requests of other clients in it fail with `busy`. A lock in the
    // way is returned; its owner and process are 0 if they are another holder's. Errors: invalid,
    // stale (a claimed lock is lost: another holder may have had it meanwhile), busy (the store was
    // just opened and awaits another holder: ask again), no_memory (a limit of locks; detail: the
    // limit), EDEADLK (it would wait for itself), not_found (the container), unsupported.
    virtual Task<Result<std::optional<Lock>>> lock(const Call& /*call*/, ContainerId /*container*/,
                                                   const Holder& /*holder*/,
                                                   const LockRequest& /*request*/) {
        co_return fail(Code::unsupported);
    }
    // Waits until every transaction that had returned is durable. Returns the store's incarnation.
    // Errors: io (some are lost, and the store accepts no updates any more), expired (what the
    // holder had been returned is lost: the store has lost power; detail: its incarnation), busy
    // (the same, but requests of others wait until the holder has repeated it, in the order of the
    // epochs, and has called sync() again).
    virtual Task<Result<uint64_t>> sync(const Call& /*call*/, ContainerId /*container*/,
                                        const Holder& /*holder*/, const Acknowledged& /*known*/) {
        co_return uint64_t{0};
    }
    // Leases (leases.h): a holder that listens may get leases with fetch_chain(). It hears here
    // which of them others wait for, drops what it keeps under these, and gives them back with its
    // next call. The reply comes after listening_max at the latest. What the holder keeps is valid
    // for lease_use_time from the beginning of the last call that was answered without `lost`. A
    // holder that ends says so: nobody waits for it then, also not after a restart of the store
    // once its pins have ended.
    // Errors: not_found (the container), no_memory (a limit of holders), unsupported.
    virtual Task<Result<LeaseNews>> listen(const Call& /*call*/, ContainerId /*container*/,
                                           const Holder& /*holder*/,
                                           const Listening& /*listening*/) {
        co_return fail(Code::unsupported);
    }
    // For fetch_chain(): the number of the holder's lease of an object that is read after this; 0:
    // none.
    virtual Task<Result<uint64_t>> lease(const Call& /*call*/, ContainerId /*container*/,
                                         const Holder& /*holder*/, ObjectId /*object*/) {
        co_return uint64_t{0};
    }
    // For servers: the session with this number has ended. Its client may come again in another
    // one.
    virtual void session_ended(uint64_t session) = 0;
    // The same, but the client's process is gone: what it had ends at once.
    virtual void client_ended(uint64_t session) { session_ended(session); }
};

inline constexpr size_t fetch_items_max = 1024;
// Limit for the values in one reply to list(), without the last value. It bounds the memory that a
// client can cause the store to use.
inline constexpr size_t list_value_bytes_max = size_t{1} << 20;
inline constexpr size_t chain_items_max = 128;
inline constexpr uint64_t chain_bytes_max = 256 << 10;
inline constexpr size_t transaction_operations_max = 1024;
// Limit per pool. Creating and listing containers takes time proportional to their number.
inline constexpr uint64_t containers_max = 4096;
inline constexpr uint64_t containers_of_owner_sure = 16;
inline constexpr size_t transaction_pins_max = 16;
// Payload of one transaction, in bytes.
inline constexpr uint64_t transaction_bytes_max = 64 << 20;

}  // namespace ros2s::object
