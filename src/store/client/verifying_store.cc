#include "verifying_store.h"

#include <algorithm>

#include "ros2s/object/checksum.h"
#include "ros2s/object/location_text.h"
#include "ros2s/runtime/slices.h"

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

}  // namespace

VerifyingStore::VerifyingStore(Reactor& reactor, ObjectStore& below, Log log)
    : CountedStore(reactor, below), log_(std::move(log)), summing_(reactor) {
    verifies_ = below.features().checksums;
    copies_.reserve(copies_kept_max);
}

// ---- fetch ---------------------------------------------------------------------------------

Task<Result<>> VerifyingStore::verify(const Call& call, ContainerId container,
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

void VerifyingStore::check(ContainerId container, FetchItem& item, std::optional<Extent> bad) {
    if (!item.status) {
        check_status(item);
        return;
    }
    if (!bad) [[likely]]
        return;
    say_corrupt(container, item, *bad);
    const uint64_t block_end = round_down(bad->offset, block_bytes) + block_bytes;
    withhold(item, item.is_value ? 0 : std::min(bad->end(), block_end));
}

std::optional<Extent> VerifyingStore::mismatch(const FetchItem& item) {
    if (item.forwarded || !item.status || !item.window.is_local()) {
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

Task<Result<std::optional<Extent>>> VerifyingStore::long_mismatch(const Call& call,
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

// A host may change the memory while it is checked. That must not make the store look damaged: only
// a failure in private memory counts as corrupt. The host gets the result of that read.
Task<Result<>> VerifyingStore::read_again(const Call& call, ContainerId container,
                                          FetchItem& item) {
    metrics_.read_again.add();
    const Window theirs = item.window;
    const AlignedBuffer ours(item.extent.length);
    std::ranges::fill(ours.bytes(), std::byte{0});
    item.window = Window::local(ours.bytes());
    if (const Result<> fetched = co_await below().fetch(call, container, {&item, 1}); !fetched) {
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

void VerifyingStore::say_corrupt(ContainerId container, const FetchItem& item, Extent bad) const {
    const uint64_t number = metrics_.corrupt.value() + 1;
    if (number > corrupt_lines_max) return;
    log_.error(
        "corrupt data was not returned: {}: the data from the store does not match its checksum; "
        "check the memory and the disk of this machine, then restore the file from a copy{}",
        location_text(container, item, bad),
        number == corrupt_lines_max ? " (further ones are only counted)" : "");
}

// ---- update --------------------------------------------------------------------------------

Task<Result<Commit>> VerifyingStore::update(const Call& call, ContainerId container,
                                            const Transaction& transaction) {
    if (std::ranges::none_of(transaction.operations, wants_checksums)) {
        return CountedStore::update(call, container, transaction);
    }
    return counted_update(call, transaction, update_with_checksums(call, container, transaction));
}

Task<Result<Commit>> VerifyingStore::update_with_checksums(const Call& call, ContainerId container,
                                                           const Transaction& transaction) {
    std::unique_ptr<Transaction> copy = take_copy(transaction);
    const Result<> summed = co_await add_checksums(call, *copy);
    Result<Commit> commit;
    commit = summed ? co_await below().update(call, container, *copy) : fail(summed.error());
    give_back(std::move(copy));
    co_return commit;
}

std::unique_ptr<Transaction> VerifyingStore::take_copy(const Transaction& transaction) {
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

Task<Result<>> VerifyingStore::add_checksums(const Call& call, Transaction& transaction) {
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

void VerifyingStore::give_back(std::unique_ptr<Transaction> copy) {
    if (copies_.size() == copies_kept_max) return;
    if (copy->operations.capacity() > copied_operations_kept_max) return;
    copies_.push_back(std::move(copy));
}

}  // namespace ros2s::client
