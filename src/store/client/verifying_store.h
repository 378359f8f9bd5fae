// VerifyingStore: the decorator of a store in another process. It handles the checksums of sent and
// received data, so that corrupt bytes are never returned as data, and counts as a CountedStore. It
// does not repeat requests after a lost connection; rpc's channel below does.
//
// The store below gets checksums together with the bytes, and its replies are verified against
// their checksums, unless the caller forwards the bytes (FetchItem::forwarded).
//
// Corrupt bytes: an item that fails its checksum gets the status `corrupt`, and its extent of the
// window is filled with zeros. It is logged with object, dkey, akey and extent (the first
// `corrupt_lines_max`; all are counted).
//
// Invariants: those of CountedStore, and
// - Checksums from the caller are passed on unchanged, because they cover more of the path.
#pragma once
#include <memory>
#include <optional>

#include "ros2s/base/log.h"
#include "ros2s/client/counted_store.h"
#include "ros2s/runtime/slices.h"

namespace ros2s::client {

class VerifyingStore final : public CountedStore {
  public:
    static constexpr uint64_t corrupt_lines_max = 100;

    VerifyingStore(Reactor& reactor, object::ObjectStore& below, Log log = {});

    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override;

  protected:
    Task<Result<>> verify(const Call& call, object::ContainerId container,
                          std::span<object::FetchItem> items) override;

  private:
    // Withholds corrupt bytes; `bad` is the range that does not match.
    void check(object::ContainerId container, object::FetchItem& item,
               std::optional<object::Extent> bad);
    // The range of its bytes that does not match, if that can be determined.
    static std::optional<object::Extent> mismatch(const object::FetchItem& item);
    // The same for more than one slice, in slices. Errors: cancelled, deadline.
    Task<Result<std::optional<object::Extent>>> long_mismatch(const Call& call,
                                                              const object::FetchItem& item);
    Task<Result<>> read_again(const Call& call, object::ContainerId container,
                              object::FetchItem& item);
    void say_corrupt(object::ContainerId container, const object::FetchItem& item,
                     object::Extent bad) const;
    Task<Result<object::Commit>> update_with_checksums(const Call& call,
                                                       object::ContainerId container,
                                                       const object::Transaction& transaction);
    [[nodiscard]] std::unique_ptr<object::Transaction> take_copy(
        const object::Transaction& transaction);
    // In slices. Errors: cancelled, deadline.
    Task<Result<>> add_checksums(const Call& call, object::Transaction& transaction);
    void give_back(std::unique_ptr<object::Transaction> copy);

    Log log_;
    SliceTurns summing_;
    // Copies of transactions. They are kept to reuse the memory of their keys and vectors.
    std::vector<std::unique_ptr<object::Transaction>> copies_;
};

}  // namespace ros2s::client
