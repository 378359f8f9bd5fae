#include "client_store.h"

#include <algorithm>

#include "ros2s/object/checksum.h"
#include "ros2s/object/location_text.h"
#include "ros2s/object/validate.h"
#include "ros2s/runtime/slices.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::client {

using namespace object;

namespace {

constexpr size_t copies_kept_max = 64;
constexpr size_t copied_operations_kept_max = 64;

bool wants_checksums(const Operation& operation) {
    const bool carries =
        operation.kind == Operation::Kind::write || operation.kind == Operation::Kind::put;
    return carries && operation.checksums.empty() && operation.window.is_local();
}

bool is_failure(const FetchItem& item) {
    if (item.status) return false;
    const Code code = item.status.error().code;
    return code != Code::not_found && code != Code::too_small;
}

}  // namespace

ClientStore::ClientStore(Reactor& reactor, ObjectStore& below, Log log, Store where)
    : reactor_(reactor),
      below_(below),
      log_(std::move(log)),
      is_elsewhere_(where == Store::elsewhere),
      verifies_(is_elsewhere_ && below.features().checksums),
      summing_(reactor) {
    copies_.reserve(copies_kept_max);
}
ClientStore::~ClientStore() = default;

// ---- fetch ---------------------------------------------------------------------------------

Task<Result<>> ClientStore::fetch(const Call& call, ContainerId container,
                                  std::span<FetchItem> items) {
    return verified(call, container, items, below_.fetch(call, container, items));
}
Task<Result<>> ClientStore::pin(const Call& call, ContainerId container, const Holder& holder,
                                FetchItem& item) {
    return verified(call, container, {&item, 1}, below_.pin(call, container, holder, item));
}
Task<Result<>> ClientStore::fetch_chain(const Call& call, ContainerId container,
                                        const Holder& holder, std::span<FetchItem> items,
                                        std::span<Link> links) {
    return verified(call, container, items,
                    below_.fetch_chain(call, container, holder, items, links));
}

Task<Result<>> ClientStore::verified(const Call& call, ContainerId container,
                                     std::span<FetchItem> items, Task<Result<>> request) {
    const Span span(call.trace, reactor_, "client.fetch");
    const Time begin = reactor_.now();
    Result<> fetched = co_await std::move(request);
    if (fetched && verifies_) fetched = co_await check_all(call, container, items);
    uint64_t bytes = 0;
    if (fetched) {
        for (FetchItem& item : items) {
            bytes += item.extent.length;
            if (!verifies_) check(container, item, std::nullopt);
            if (is_failure(item)) metrics_.fetch.errors.add();
        }
    } else {
        metrics_.fetch.errors.add();
    }
    metrics_.fetch.bytes.add(bytes);
    metrics_.fetch.finish(reactor_.now() - begin);
    co_return fetched;
}

Task<Result<>> ClientStore::check_all(const Call& call, ContainerId container,
                                      std::span<FetchItem> items) {
    SliceCount slices(reactor_);
    for (FetchItem& item : items) {
        const uint64_t length = item.extent.length;
        co_await slices.add(length);
        ROS2S_CO_TRY_ASSIGN(const auto bad, length <= slice_bytes
                                                ? mismatch(item)
                                                : co_await long_mismatch(call, item));
        if (bad && item.window.shared) [[unlikely]] {
            ROS2S_CO_TRY(co_await read_again(call, container, item));
        } else {
            check(container, item, bad);
        }
    }
    co_return Result<>{};
}

void ClientStore::check(ContainerId container, FetchItem& item, std::optional<Extent> bad) {
    if (!item.status) {
        if (item.status.error().code == Code::corrupt) withhold(item, item.status.error().detail);
        return;
    }
    if (!bad) [[likely]]
        return;
    say_corrupt(container, item, *bad);
    const uint64_t block_end = round_down(bad->offset, block_bytes) + block_bytes;
    withhold(item, item.is_value ? 0 : std::min(bad->end(), block_end));
}

std::optional<Extent> ClientStore::mismatch(const FetchItem& item) const {
    if (!verifies_ || item.forwarded || !item.status || !item.window.is_local()) {
        return std::nullopt;
    }
    const Bytes window = item.window.bytes().first(item.extent.length);
    Extent bad{0, item.size};
    if (item.is_value) {
        const bool whole = item.checksums.size() == 1 && item.size <= window.size();
        if (whole && crc32c(window.first(item.size)) == item.checksums[0]) [[likely]]
            return std::nullopt;
    } else if (array_checksums_match(item.extent.offset, window, item.checksums, &bad)) [[likely]] {
        return std::nullopt;
    }
    return bad;
}

Task<Result<std::optional<Extent>>> ClientStore::long_mismatch(const Call& call,
                                                               const FetchItem& item) {
    const auto [offset, length] = item.extent;
    const bool in_slices = !item.forwarded && item.status && !item.is_value &&
                           item.window.is_local() &&
                           item.checksums.size() == piece_count(offset, length);
    if (!in_slices) co_return mismatch(item);
    const Bytes window = item.window.bytes().first(length);
    std::optional<Extent> bad;
    SlicedJob job(summing_);
    for (uint64_t at = 0; at < length && !bad;) {
        const uint64_t count = slice_of_pieces(offset + at, length - at);
        co_await job.slice(count);
        ROS2S_CO_TRY(call.check(reactor_));
        const uint32_t* claimed = &item.checksums[piece_count(offset, at)];
        for_each_piece(offset + at, window.subspan(at, count), [&](uint64_t place, Bytes piece) {
            if (crc32c(piece) != *claimed++ && !bad) bad = Extent{place, piece.size()};
        });
        at += count;
    }
    co_return bad;
}

// A host may change the memory while it is checked. Such a change is no damage of the store, so
// only a failure in private memory counts as corrupt. The host gets the result of that read.
Task<Result<>> ClientStore::read_again(const Call& call, ContainerId container, FetchItem& item) {
    metrics_.read_again.add();
    const Window theirs = item.window;
    const AlignedBuffer ours(item.extent.length);
    std::ranges::fill(ours.bytes(), std::byte{0});
    item.window = Window::local(ours.bytes());
    if (const Result<> fetched = co_await below_.fetch(call, container, {&item, 1}); !fetched) {
        item.status = fail(fetched.error());
    }
    const auto bad = co_await long_mismatch(call, item);
    if (bad) check(container, item, *bad);
    item.window = theirs;
    ROS2S_CO_TRY(bad);
    SlicedCopies copies;
    copies.add(ours.bytes(), theirs.bytes());
    if (!copies.done()) co_await copies.finish(summing_);
    co_return Result<>{};
}

void ClientStore::withhold(FetchItem& item, uint64_t detail) {
    metrics_.corrupt.add();
    item.status = fail(Code::corrupt, detail);
    item.checksums.clear();
    item.seals.clear();
    if (item.window.is_local()) {
        std::ranges::fill(item.window.bytes().first(item.extent.length), std::byte{0});
    }
}

void ClientStore::say_corrupt(ContainerId container, const FetchItem& item, Extent bad) const {
    const uint64_t number = metrics_.corrupt.value() + 1;
    if (number > corrupt_lines_max) return;
    log_.error(
        "corrupt data was not returned: {}: the data from the store does not match its checksum; "
        "check the memory and the disk of this machine, then restore the file from a copy{}",
        location_text(container, item, bad),
        number == corrupt_lines_max ? " (further ones are only counted)" : "");
}

// ---- update --------------------------------------------------------------------------------

Task<Result<Commit>> ClientStore::update(const Call& call, ContainerId container,
                                         const Transaction& transaction) {
    const Span span(call.trace, reactor_, "client.update");
    const Time begin = reactor_.now();
    Result<Commit> commit;
    // An invalid transaction has nothing to compute checksums of.
    if (const Result<> sense = validate(transaction); !sense) {
        commit = fail(sense.error());
    } else if (is_elsewhere_ && std::ranges::any_of(transaction.operations, wants_checksums)) {
        std::unique_ptr<Transaction> copy = take_copy(transaction);
        const Result<> summed = co_await add_checksums(call, *copy);
        commit = summed ? co_await below_.update(call, container, *copy) : fail(summed.error());
        give_back(std::move(copy));
    } else {
        commit = co_await below_.update(call, container, transaction);
    }
    for (const Operation& operation : transaction.operations) {
        metrics_.update.bytes.add(operation.window.length);
    }
    if (!commit) metrics_.update.errors.add();
    metrics_.update.finish(reactor_.now() - begin);
    co_return commit;
}

std::unique_ptr<Transaction> ClientStore::take_copy(const Transaction& transaction) {
    std::unique_ptr<Transaction> copy;
    if (copies_.empty()) {
        copy = std::make_unique<Transaction>(transaction);
    } else {
        copy = std::move(copies_.back());
        copies_.pop_back();
        *copy = transaction;
    }
    return copy;
}

Task<Result<>> ClientStore::add_checksums(const Call& call, Transaction& transaction) {
    SliceCount slices(reactor_);
    for (Operation& operation : transaction.operations) {
        if (!wants_checksums(operation)) continue;
        const ConstBytes bytes = operation.window.bytes();
        const uint64_t offset = operation.extent.offset;
        co_await slices.add(bytes.size());
        if (operation.kind == Operation::Kind::put) {
            value_checksums(bytes, operation.checksums);
            continue;
        }
        if (bytes.size() <= slice_bytes) {
            array_checksums(offset, bytes, operation.checksums);
            continue;
        }
        ROS2S_CO_TRY(
            co_await array_checksums_in_slices(summing_, call, offset, bytes, operation.checksums));
    }
    co_return Result<>{};
}

void ClientStore::give_back(std::unique_ptr<Transaction> copy) {
    if (copies_.size() == copies_kept_max) return;
    if (copy->operations.capacity() > copied_operations_kept_max) return;
    copies_.push_back(std::move(copy));
}

// ---- the rest ------------------------------------------------------------------------------

template <class T>
Task<Result<T>> ClientStore::counted(const Call& call, std::string_view name,
                                     RequestMetrics& metrics, Task<Result<T>> request) {
    const Span span(call.trace, reactor_, name);
    const Time begin = reactor_.now();
    Result<T> result = co_await std::move(request);
    if (!result) metrics.errors.add();
    metrics.finish(reactor_.now() - begin);
    co_return result;
}

Task<Result<ListReply>> ClientStore::list(const Call& call, ContainerId container,
                                          const ListRequest& request) {
    return counted(call, "client.list", metrics_.list, below_.list(call, container, request));
}
Task<Result<QueryReply>> ClientStore::query(const Call& call, ContainerId container,
                                            ObjectId object, const Akey& akey) {
    return counted(call, "client.query", metrics_.query,
                   below_.query(call, container, object, akey));
}
Task<Result<bool>> ClientStore::unpin(const Call& call, ContainerId container, const Holder& holder,
                                      ObjectId object) {
    return counted(call, "client.unpin", metrics_.other,
                   below_.unpin(call, container, holder, object));
}
Task<Result<bool>> ClientStore::pinned_again(const Call& call, ContainerId container,
                                             const Holder& holder) {
    return counted(call, "client.pinned_again", metrics_.other,
                   below_.pinned_again(call, container, holder));
}
Task<Result<ContainerRecord>> ClientStore::create_container(const Call& call,
                                                            const ContainerProperties& properties) {
    return counted(call, "client.create_container", metrics_.other,
                   below_.create_container(call, properties));
}
Task<Result<>> ClientStore::destroy_container(const Call& call, ContainerId container) {
    return counted(call, "client.destroy_container", metrics_.other,
                   below_.destroy_container(call, container));
}
Task<Result<std::vector<ContainerRecord>>> ClientStore::list_containers(const Call& call) {
    return counted(call, "client.list_containers", metrics_.other, below_.list_containers(call));
}
Task<Result<PoolSpace>> ClientStore::space(const Call& call, ContainerId container) {
    return counted(call, "client.space", metrics_.other, below_.space(call, container));
}

}  // namespace ros2s::client
