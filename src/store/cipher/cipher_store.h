// CipherStore: an ObjectStore that keeps the array `data` of every object of one container as
// ciphertext in the store below, and the keys of a cache's blocks (name_cipher.h). Everything else
// passes unchanged: single values, names, sizes, times. docs/formats/cipher.md describes the
// contents of the store below.
//
// Keys of blocks are listed in the order of the encrypted ones.
//
// It is between the file system and the client's store:
//
//     Dfs ──► CipherStore ──► CountedStore ──► engine, or VerifyingStore ──► remote
//             plaintext  │    ciphertext and its checksums
//
// A fetch is one request. In Layout::seals the store below keeps the cells with the blocks. In
// Layout::cells they are a second array: a fetch reads both, or only blocks if the cells are cached
// (CellCache). If another client's update came in between, the epochs differ and the fetch is
// repeated. An update of whole blocks is one request. An update that begins or ends within a block
// reads that block first, on the condition that the array does not change; a conflict repeats both.
//
// The bytes of an update are encrypted once, into memory of this store, so a repeated request below
// has the same bytes. Plaintext is read only once from a shared window. It is written to one only
// after it was authenticated.
//
// Every named request gets a keyed digest instead of its own (keyed_digest.h), even if it passes
// otherwise unchanged, because a repetition may be planned differently.
//
// Requests that it cannot encrypt are refused (unsupported): arrays of other akeys, windows that
// are not local, a chain or pin that fetches `data`, and two operations on one array in one
// transaction if the second one begins or ends within a block. `data` cannot be a single value
// (invalid).
//
// Owned by the composing code. The store below outlives it. Used on that store's core.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/cipher/block_cipher.h"
#include "ros2s/cipher/cipher_memory.h"
#include "ros2s/cipher/keyed_digest.h"
#include "ros2s/cipher/name_cipher.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/slices.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::cipher {

struct CipherMetrics {
    Counter sealed_blocks;
    Counter opened_blocks;
    Counter refused_blocks;  // blocks that did not open
    Counter read_first;      // updates that read a block first
    Counter conflicts;       // of those: repeated because the array had changed
    Counter kept_cells;      // reads that fetched blocks alone
    Counter torn;            // fetches repeated because of an update in between
    // Prometheus names: ros2store_cipher_…
    void visit(const MetricVisitor& visit) const;
};

// Requests the keys of an open container again, without waiting for their provider.
class KeyConfirmation {
  public:
    virtual ~KeyConfirmation() = default;
    // Asks the provider, if no question is open. Suspends only while it reads from the store. Does
    // not ask after the call's deadline. Errors: those of reading; then it did not ask.
    virtual Task<Result<>> begin(const Call& call) = 0;
    [[nodiscard]] virtual bool is_open() const = 0;
    struct Answer {
        // Errors: EKEYREJECTED (the provider has lost the key). After other errors it may still
        // have the key.
        Result<> confirmed;
        Time at{};
    };
    // Returns the answer to the open question, if there is one, and closes the question.
    [[nodiscard]] virtual std::optional<Answer> take_answer() = 0;
    // Waits for the answer to the open question, no longer than the call.
    virtual Task<> wait(const Call& call) = 0;
};

class CipherStore final : public object::ForwardingStore {
  public:
    static constexpr uint64_t corrupt_lines_max = 100;

    CipherStore(Reactor& reactor, object::ObjectStore& below, object::ContainerId container,
                DataKeys keys, Log log = {},
                std::shared_ptr<CipherMemory> memory = std::make_shared<CipherMemory>());
    ~CipherStore() override;

    // From now on a request asks for the keys every `key_check_interval`, and does not wait for the
    // answer. If the provider has lost them, this store uses them for another `keep`. Then it
    // refuses `data` (EKEYREJECTED) until the provider has them again. A provider that does not
    // answer does not count as one that lost them.
    static constexpr Duration key_check_interval = std::chrono::seconds(10);
    // The time for a confirmation to read its record and to begin. Before a request is refused, it
    // waits up to this time for the answer, because the provider may have the keys again.
    static constexpr Duration key_check_max = std::chrono::seconds(2);
    void confirm_keys(std::unique_ptr<KeyConfirmation> confirmation, Duration keep);

    // A transaction has at most half of the operations, and slightly fewer bytes, than the store
    // below accepts, because each array also has its cells.
    static constexpr size_t operations_max = object::transaction_operations_max / 2;
    static constexpr uint64_t transaction_bytes_max = object::transaction_bytes_max / 65 * 64;

    [[nodiscard]] const CipherMetrics& metrics() const { return metrics_; }

    // Requests for `container` are encrypted. Other containers pass unchanged.
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items) override;
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override;
    Task<Result<object::ListReply>> list(const Call& call, object::ContainerId container,
                                         const object::ListRequest& request) override;
    Task<Result<>> pin(const Call& call, object::ContainerId container,
                       const object::Holder& holder, object::FetchItem& item) override;
    Task<Result<>> fetch_chain(const Call& call, object::ContainerId container,
                               const object::Holder& holder, std::span<object::FetchItem> items,
                               std::span<object::Link> links) override;

  private:
    static constexpr size_t lock_units = size_t{1} << 20;  // more than there are updates
    // Of `count` blocks, if they are more than a slice.
    static bool begins_slice(uint64_t block, uint64_t count) {
        constexpr uint64_t blocks = slice_bytes / block_bytes;
        return count > blocks && block % blocks == 0;
    }

    // The fetch of one item: its blocks, then their cells.
    struct Fetching;
    // The plain bytes of the first and last block of an extent, if it covers them in part.
    struct Edges;
    // The transaction for the store below, and its ciphertext.
    struct Plan;
    class Locked;

    // Errors: EKEYREJECTED.
    Task<Result<>> check_keys(const Call& call);
    void take_key_answer();
    void heed(const KeyConfirmation::Answer& answer);
    [[nodiscard]] bool are_keys_over() const;
    // Requests with blocks of a cache. Those that follow have encrypted keys.
    Task<Result<>> fetch_blocks(const Call& call, std::span<object::FetchItem> items);
    Task<Result<object::Commit>> update_blocks(const Call& call,
                                               const object::Transaction& transaction);
    Task<Result<object::ListReply>> list_blocks(const Call& call,
                                                const object::ListRequest& request);
    Task<> seal_names(std::span<object::FetchItem> items);
    Task<Result<>> fetch_own(const Call& call, std::span<object::FetchItem> items);
    Task<Result<object::Commit>> update_own(const Call& call,
                                            const object::Transaction& transaction);
    Task<Result<>> fetch_encrypted(const Call& call, std::span<object::FetchItem> items);
    // Fetches at most as many items as the store below accepts at once.
    Task<Result<>> fetch_some(const Call& call, std::span<object::FetchItem> items);
    [[nodiscard]] bool has_seals() const { return layout_ == Layout::seals; }
    [[nodiscard]] bool begin(object::FetchItem& item, Fetching& fetching);
    void take_kept_cells(Fetching& fetching);
    void keep_cells(Fetching& fetching);
    // False: an update came between the fetches of blocks and cells.
    [[nodiscard]] bool fits(Fetching& fetching, std::span<object::FetchItem> fetched) const;
    // False: a block did not open. The caller fetches it once more, into private memory.
    Task<bool> open(Fetching& fetching, uint64_t size);
    void refuse(object::FetchItem& item, object::Extent block, const Error& error);

    Task<Result<object::Commit>> update_encrypted(const Call& call,
                                                  const object::Transaction& transaction);
    // An update that changes no `data`.
    Task<Result<object::Commit>> update_plain(const Call& call,
                                              const object::Transaction& transaction);
    // `conflicted`: an array that was read has changed since. Nothing was done.
    Task<Result<object::Commit>> attempt(const Call& call, const object::Transaction& transaction,
                                         bool& conflicted);
    Task<Result<>> add(const Call& call, const object::Operation& operation, Plan& plan);
    Task<Result<>> add_write(const Call& call, const object::Operation& operation, Plan& plan);
    Task<Result<>> add_punch(const Call& call, const object::Operation& operation, Plan& plan);
    Task<Result<>> add_set_size(const Call& call, const object::Operation& operation, Plan& plan);
    // Reads the edges, and adds the condition that the array does not change.
    Task<Result<>> read_edges(const Call& call, const object::Operation& operation, Edges& edges,
                              Plan& plan);
    void add_block(const object::Operation& operation, uint64_t block, ConstBytes plain,
                   Plan& plan);
    // The memory is valid until the plan ends.
    [[nodiscard]] Bytes take_memory(size_t bytes, Plan& plan);
    // Adds a write of blocks, from `first` on, with these cells.
    void add_sealed(object::Operation data, uint64_t first, ConstBytes cells, Plan& plan);

    Reactor& reactor_;
    object::ContainerId container_;
    const Layout layout_;
    KeyedDigest digests_;
    NameCipher names_;
    BlockCipher cipher_;
    Log log_;
    std::unique_ptr<KeyConfirmation> confirmation_;  // null: the keys need no confirmation
    Duration keep_{};
    Time next_check_{}, asked_at_{};
    std::optional<Time> lost_since_;  // when the provider said that it has no key
    const std::shared_ptr<CipherMemory> memory_;
    BufferPool buffers_;
    CellCache kept_cells_;
    SliceTurns ciphering_;
    std::vector<std::unique_ptr<Semaphore>> locks_;  // each array uses one
    CipherMetrics metrics_;
};

}  // namespace ros2s::cipher
