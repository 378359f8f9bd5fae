// ClientStore: the decorator that every user of a store goes through, local or remote. It handles
// the checksums of sent and received data, so that corrupt bytes are never returned as data. It
// also counts and traces requests. It is itself an ObjectStore over another one. It does not repeat
// requests after a lost connection; rpc's channel below does.
//
// A remote store gets checksums together with the bytes, and its replies are verified against their
// checksums, unless the caller forwards the bytes (FetchItem::forwarded). A store in this process
// works on the caller's memory: it verifies reads there, after the device has written them, and
// computes checksums of its own copy of writes. A second pass over the bytes here would find
// nothing more.
//
// Corrupt bytes: an item that fails its checksum, or that the store below reports as corrupt, gets
// the status `corrupt`, and its extent of the window is filled with zeros. A caller that ignores
// the status then sees nothing that looks like data. Corruption that is found here is logged with
// object, dkey, akey and extent (the first `corrupt_lines_max`; all are counted).
//
// Owned by the composing code. The store below outlives it. Used on that store's core.
//
// Invariants
// - In the steady state an update allocates nothing, and neither does a fetch whose items keep
//   their memory.
// - Checksums from the caller are passed on unchanged, because they cover more of the path.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "ros2s/base/log.h"
#include "ros2s/client/client_metrics.h"
#include "ros2s/object/object_store.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/slices.h"

namespace ros2s::client {

class ClientStore final : public object::ObjectStore {
  public:
    static constexpr uint64_t corrupt_lines_max = 100;
    enum class Store : uint8_t { elsewhere, in_this_process };

    ClientStore(Reactor& reactor, object::ObjectStore& below, Log log = {},
                Store where = Store::elsewhere);
    ~ClientStore() override;

    [[nodiscard]] const ClientMetrics& metrics() const { return metrics_; }

    [[nodiscard]] object::Features features() const override { return below_.features(); }
    [[nodiscard]] std::string path() const override { return below_.path(); }
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items) override;
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override;
    Task<Result<object::ListReply>> list(const Call& call, object::ContainerId container,
                                         const object::ListRequest& request) override;
    Task<Result<object::QueryReply>> query(const Call& call, object::ContainerId container,
                                           object::ObjectId object,
                                           const object::Akey& akey) override;
    Task<Result<object::ContainerRecord>> create_container(
        const Call& call, const object::ContainerProperties& properties) override;
    Task<Result<>> destroy_container(const Call& call, object::ContainerId container) override;
    Task<Result<std::vector<object::ContainerRecord>>> list_containers(const Call& call) override;
    Task<Result<object::PoolSpace>> space(const Call& call, object::ContainerId container) override;
    Task<Result<>> pin(const Call& call, object::ContainerId container,
                       const object::Holder& holder, object::FetchItem& item) override;
    Task<Result<>> fetch_chain(const Call& call, object::ContainerId container,
                               const object::Holder& holder, std::span<object::FetchItem> items,
                               std::span<object::Link> links) override;
    Task<Result<bool>> unpin(const Call& call, object::ContainerId container,
                             const object::Holder& holder, object::ObjectId object) override;
    Task<Result<bool>> pinned_again(const Call& call, object::ContainerId container,
                                    const object::Holder& holder) override;
    [[nodiscard]] uint64_t pins_era() const override { return below_.pins_era(); }
    void session_ended(uint64_t session) override { below_.session_ended(session); }

  private:
    // Awaits a request that fetches items, and verifies the items.
    Task<Result<>> verified(const Call& call, object::ContainerId container,
                            std::span<object::FetchItem> items, Task<Result<>> request);
    // Counts and traces a request without payload.
    template <class T>
    Task<Result<T>> counted(const Call& call, std::string_view name, RequestMetrics& metrics,
                            Task<Result<T>> request);
    // Withholds corrupt bytes; `bad` is the range that does not match.
    void check(object::ContainerId container, object::FetchItem& item,
               std::optional<object::Extent> bad);
    // The range of its bytes that does not match, if that can be determined.
    [[nodiscard]] std::optional<object::Extent> mismatch(const object::FetchItem& item) const;
    // The same for more than one slice, in slices. Errors: cancelled, deadline.
    Task<Result<std::optional<object::Extent>>> long_mismatch(const Call& call,
                                                              const object::FetchItem& item);
    Task<Result<>> check_all(const Call& call, object::ContainerId container,
                             std::span<object::FetchItem> items);
    Task<Result<>> read_again(const Call& call, object::ContainerId container,
                              object::FetchItem& item);
    void withhold(object::FetchItem& item, uint64_t detail);
    void say_corrupt(object::ContainerId container, const object::FetchItem& item,
                     object::Extent bad) const;
    [[nodiscard]] std::unique_ptr<object::Transaction> take_copy(
        const object::Transaction& transaction);
    // In slices. Errors: cancelled, deadline.
    Task<Result<>> add_checksums(const Call& call, object::Transaction& transaction);
    void give_back(std::unique_ptr<object::Transaction> copy);

    Reactor& reactor_;
    object::ObjectStore& below_;
    Log log_;
    bool is_elsewhere_;
    bool verifies_;
    ClientMetrics metrics_;
    SliceTurns summing_;
    // Copies of transactions. They are kept to reuse the memory of their keys and vectors.
    std::vector<std::unique_ptr<object::Transaction>> copies_;
};

}  // namespace ros2s::client
