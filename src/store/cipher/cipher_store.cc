#include "cipher_store.h"

#include <errno.h>

#include <algorithm>

#include "keys_of_arrays.h"
#include "ros2s/base/check.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/object/location_text.h"
#include "ros2s/object/validate.h"

namespace ros2s::cipher {

using namespace object;

namespace {

constexpr size_t locks_count = 64;
constexpr int fetch_attempts_max = 64;

// A later version does not change it.
const SecretKey& oldest_of(const DataKeys& keys) {
    ROS2S_CHECK(!keys.versions.empty());
    return keys.versions.begin()->second;
}

// The buffer is aligned to blocks, and a cell is plain bytes.
std::span<Cell> as_cells(Bytes bytes) {
    return {reinterpret_cast<Cell*>(bytes.data()), bytes.size() / sizeof(Cell)};
}

}  // namespace

void CipherMetrics::visit(const MetricVisitor& visit) const {
    visit("ros2store_cipher_sealed_blocks_total", "Blocks encrypted", sealed_blocks.value());
    visit("ros2store_cipher_opened_blocks_total", "Blocks decrypted", opened_blocks.value());
    visit("ros2store_cipher_refused_blocks_total",
          "Blocks that were not what was encrypted, or whose key is gone", refused_blocks.value());
    visit("ros2store_cipher_read_first_total",
          "Updates within a block, which had to read it before", read_first.value());
    visit("ros2store_cipher_conflicts_total",
          "Of those: repeated because the file had changed since", conflicts.value());
    visit("ros2store_cipher_kept_cells_total", "Reads that used tags of an earlier one",
          kept_cells.value());
    visit("ros2store_cipher_torn_total",
          "Reads repeated because of an update between blocks and their tags", torn.value());
}

CipherStore::CipherStore(Reactor& reactor, ObjectStore& below, ContainerId container, DataKeys keys,
                         Log log, std::shared_ptr<CipherMemory> memory)
    : ForwardingStore(below),
      reactor_(reactor),
      container_(container),
      layout_(keys.layout),
      digests_(oldest_of(keys)),
      names_(oldest_of(keys)),
      cipher_(reactor.secrets(), std::move(keys)),
      log_(std::move(log)),
      memory_(std::move(memory)),
      buffers_(*memory_),
      kept_cells_(*memory_),
      ciphering_(reactor) {
    for (size_t i = 0; i < locks_count; ++i) {
        locks_.push_back(std::make_unique<Semaphore>(reactor, lock_units));
    }
}
CipherStore::~CipherStore() = default;

void CipherStore::confirm_keys(std::unique_ptr<KeyConfirmation> confirmation, Duration keep) {
    confirmation_ = std::move(confirmation);
    keep_ = keep;
    next_check_ = reactor_.now() + key_check_interval;
}

bool CipherStore::are_keys_over() const {
    return lost_since_ && reactor_.now() - *lost_since_ >= keep_;
}

void CipherStore::heed(const KeyConfirmation::Answer& answer) {
    const Result<>& confirmed = answer.confirmed;
    const bool is_lost = !confirmed && confirmed.error().os_errno == EKEYREJECTED;
    if (is_lost && !lost_since_) {
        lost_since_ = answer.at;
        log_.warning(
            "the key of the container {} is no longer available; it is used for another {} s",
            container_.uuid.to_string(), std::chrono::floor<std::chrono::seconds>(keep_).count());
    }
    if (confirmed && lost_since_) {
        log_.info("the key of the container {} is available again", container_.uuid.to_string());
        lost_since_.reset();
    }
}

void CipherStore::take_key_answer() {
    if (const auto answer = confirmation_->take_answer()) heed(*answer);
}

Task<Result<>> CipherStore::check_keys(const Call& call) {
    take_key_answer();
    if (reactor_.now() >= next_check_ && !confirmation_->is_open()) {
        // Requests that come meanwhile do not ask, too.
        asked_at_ = reactor_.now();
        next_check_ = asked_at_ + key_check_interval;
        // Not with the request's deadline and stop: who chooses them could keep the answer away.
        const Call asking{.deadline = asked_at_ + key_check_max, .tenant = call.tenant};
        const auto begun = co_await confirmation_->begin(asking);
        if (!begun) heed({.confirmed = begun, .at = reactor_.now()});
        take_key_answer();
    }
    if (are_keys_over() && confirmation_->is_open()) {
        const Call waiting{.deadline = std::min(call.deadline, asked_at_ + key_check_max),
                           .stop = call.stop};
        co_await confirmation_->wait(waiting);
        take_key_answer();
    }
    if (are_keys_over()) co_return fail_errno(EKEYREJECTED);
    co_return Result<>();
}

// ---- fetch ---------------------------------------------------------------------------------

struct CipherStore::Fetching {
    FetchItem* item = nullptr;
    uint64_t first = 0;  // block
    uint64_t count = 0;
    BufferPool::Buffer memory{}, cells_memory{};
    // Of the last attempt: blocks', cells'. Equal to those of the attempt before it?
    std::pair<Epoch, Epoch> epochs{};
    bool is_unchanged = false;
    std::optional<Epoch> kept{};  // the cells are kept ones, of this epoch
    std::string seals{};          // Layout::seals

    // In the caller's window, if that has whole blocks and no other process sees it.
    bool in_place = false;
    bool is_again = false;  // blocks did not open, and are fetched once more
    [[nodiscard]] Bytes blocks() const {
        return in_place ? item->window.bytes().first(item->extent.length) : memory.bytes();
    }
    [[nodiscard]] Bytes cells() const { return cells_memory.bytes(); }
    // Of the block at this position.
    [[nodiscard]] Cell cell(uint64_t i) const {
        Cell cell;
        if (!seals.empty()) {
            std::memcpy(&cell, seals.data() + i * seal_bytes, seal_bytes);
        } else {
            std::memcpy(&cell, cells().data() + cells_bytes(i), sizeof(cell));
        }
        return cell;
    }
};

Task<Result<>> CipherStore::fetch(const Call& call, ContainerId container,
                                  std::span<FetchItem> items) {
    if (container != container_) return below().fetch(call, container, items);
    return std::ranges::any_of(items, is_of_block<FetchItem>) ? fetch_blocks(call, items)
                                                              : fetch_own(call, items);
}

Task<Result<>> CipherStore::fetch_own(const Call& call, std::span<FetchItem> items) {
    const bool encrypted =
        std::ranges::any_of(items, [](const FetchItem& item) { return is_data(item.akey); });
    return encrypted ? fetch_encrypted(call, items) : below().fetch(call, container_, items);
}

Task<Result<>> CipherStore::fetch_encrypted(const Call& call, std::span<FetchItem> items) {
    constexpr size_t at_once = fetch_items_max / 2;
    if (confirmation_ != nullptr) ROS2S_CO_TRY(co_await check_keys(call));
    for (size_t at = 0; at < items.size(); at += at_once) {
        ROS2S_CO_TRY(
            co_await fetch_some(call, items.subspan(at, std::min(at_once, items.size() - at))));
    }
    co_return Result<>();
}

// False: the item has its status.
bool CipherStore::begin(FetchItem& item, Fetching& fetching) {
    if (!begin_fetch(item)) return false;
    const uint64_t first = item.extent.offset / block_bytes;
    const uint64_t count = blocks_of(item.extent.end()) - first;
    fetching.item = &item;
    fetching.first = first;
    fetching.count = count;
    fetching.in_place = !item.window.shared && item.extent.offset % block_bytes == 0 &&
                        item.extent.length % block_bytes == 0;
    if (!fetching.in_place) fetching.memory = buffers_.take(count * block_bytes);
    if (!has_seals()) fetching.cells_memory = buffers_.take(cells_bytes(count));
    return true;
}

void CipherStore::take_kept_cells(Fetching& fetching) {
    const FetchItem& item = *fetching.item;
    fetching.kept =
        kept_cells_.find(item.object, item.dkey, fetching.first, as_cells(fetching.cells()));
    if (fetching.kept) metrics_.kept_cells.add();
}

void CipherStore::keep_cells(Fetching& fetching) {
    const FetchItem& item = *fetching.item;
    kept_cells_.add(item.object, item.dkey, item.epoch, fetching.first, as_cells(fetching.cells()));
}

Task<Result<>> CipherStore::fetch_some(const Call& call, std::span<FetchItem> items) {
    std::vector<FetchItem*> plain;
    std::vector<Fetching> pending;
    pending.reserve(items.size());
    for (FetchItem& item : items) {
        Fetching fetching;
        if (!is_data(item.akey)) {
            plain.push_back(&item);
        } else if (begin(item, fetching)) {
            if (!has_seals()) take_kept_cells(fetching);
            pending.push_back(std::move(fetching));
        }
    }
    std::vector<FetchItem> fetched;
    fetched.reserve(plain.size() + 2 * pending.size());
    for (int attempt = 0; attempt < fetch_attempts_max; ++attempt) {
        fetched.clear();
        for (const Fetching& each : pending) {
            const FetchItem& item = *each.item;
            fetched.push_back({.object = item.object,
                               .dkey = item.dkey,
                               .akey = data_akey(),
                               .extent = {each.first * block_bytes, each.blocks().size()},
                               .window = Window::local(each.blocks()),
                               .wants_seals = has_seals()});
            if (each.kept || has_seals()) continue;
            fetched.push_back({.object = item.object,
                               .dkey = item.dkey,
                               .akey = cells_akey(),
                               .extent = {cells_bytes(each.first), each.cells().size()},
                               .window = Window::local(each.cells())});
        }
        for (FetchItem* item : plain) fetched.push_back(std::move(*item));
        if (fetched.empty()) co_return Result<>();
        const auto done = co_await below().fetch(call, container_, fetched);
        for (size_t i = 0; i < plain.size(); ++i) {
            *plain[i] = std::move(fetched[fetched.size() - plain.size() + i]);
        }
        plain.clear();
        if (!done) co_return done;

        size_t torn = 0, at = 0;
        bool has_torn = false;
        for (size_t i = 0; i < pending.size(); ++i) {
            Fetching& each = pending[i];
            const auto pair = std::span(fetched).subspan(at, each.kept || has_seals() ? 1 : 2);
            at += pair.size();
            bool again = !fits(each, pair);
            if (again) {
                has_torn = has_torn || !each.kept;
                each.kept.reset();
            } else if (each.item->status) {
                again = !co_await open(each, pair[0].size);
                if (each.item->status && !again && !each.kept && !has_seals()) keep_cells(each);
            } else {
                std::ranges::fill(each.item->window.bytes().first(each.item->extent.length),
                                  std::byte{0});
            }
            if (!again) continue;
            if (torn != i) std::swap(pending[torn], each);
            ++torn;
        }
        pending.erase(pending.begin() + static_cast<ptrdiff_t>(torn), pending.end());
        if (pending.empty()) co_return Result<>();
        if (!has_torn) continue;
        metrics_.torn.add();
        co_await sleep_for(reactor_, std::chrono::microseconds(10) * attempt);
    }
    // If nothing changes and they do not fit, one of the two was replaced.
    for (Fetching& each : pending) {
        refuse(*each.item, each.item->extent,
               {.code = each.is_unchanged ? Code::corrupt : Code::busy});
    }
    co_return Result<>();
}

// Gives the item what the fetch found.
bool CipherStore::fits(Fetching& fetching, std::span<FetchItem> fetched) const {
    const FetchItem& blocks = fetched[0];
    FetchItem& item = *fetching.item;
    const auto of_blocks = [&] {
        item.size = blocks.size;
        item.epoch = blocks.epoch;
        item.status = blocks.status;
        if (blocks.status) return;
        Error error = blocks.status.error();
        error.detail = std::min(error.detail, item.extent.end());
        item.status = fail(error);
    };
    if (has_seals()) {
        of_blocks();
        fetching.seals = std::move(fetched[0].seals);
        const bool whole = fetching.seals.size() == fetching.count * seal_bytes;
        if (item.status && (blocks.is_value || !whole)) item.status = fail(Code::corrupt);
        return true;
    }
    if (fetching.kept) {
        if (!blocks.status || blocks.is_value || blocks.epoch != *fetching.kept) return false;
        item.size = blocks.size;
        item.epoch = blocks.epoch;
        item.status = {};
        return true;
    }
    const FetchItem& cells = fetched[1];
    const auto absent = [](const FetchItem& each) {
        return !each.status && each.status.error().code == Code::not_found;
    };
    const std::pair epochs(blocks.epoch, cells.epoch);
    fetching.is_unchanged = std::exchange(fetching.epochs, epochs) == epochs;
    of_blocks();
    if (absent(blocks) || absent(cells)) return absent(blocks) && absent(cells);
    if (!blocks.status) return true;
    if (!cells.status) {
        item.status = fail(
            Error{.code = cells.status.error().code, .os_errno = cells.status.error().os_errno});
    } else if (blocks.is_value || cells.is_value) {
        item.status = fail(Code::corrupt);
    } else {
        return blocks.epoch == cells.epoch;
    }
    return true;
}

Task<bool> CipherStore::open(Fetching& fetching, uint64_t size) {
    FetchItem& item = *fetching.item;
    const Bytes window = item.window.bytes().first(item.extent.length);
    BlockBinding binding(cipher_.key_id(), item.object, item.dkey, item.akey);
    SlicedJob job(ciphering_);
    for (uint64_t i = 0; i < fetching.count; ++i) {
        if (begins_slice(i, fetching.count)) co_await job.slice(slice_bytes);
        const uint64_t block = fetching.first + i;
        const uint64_t start = block * block_bytes;
        const uint64_t from = std::max(start, item.extent.offset);
        const uint64_t to = std::min(start + block_bytes, item.extent.end());
        const Bytes wanted = window.subspan(from - item.extent.offset, to - from);
        // Of a shared window another process may read and write every byte at any time.
        const bool direct = wanted.size() == block_bytes && !item.window.shared;
        const Bytes memory = fetching.blocks().subspan(i * block_bytes, block_bytes);
        const Bytes plain = direct ? wanted : memory;
        const size_t stored = stored_bytes(size, block);
        const auto opened = cipher_.open(binding, block, fetching.cell(i), memory.first(stored),
                                         plain.first(stored));
        if (!opened && !std::exchange(fetching.is_again, true)) {
            // Somebody may have changed the window: two requests that read into the same memory.
            // Or the array grew while the store below read it, and the size is the one before.
            if (std::exchange(fetching.in_place, false)) {
                fetching.memory = buffers_.take(fetching.count * block_bytes);
            }
            item.checksums.clear();
            co_return false;
        }
        if (!opened) {
            refuse(item, {start, block_bytes}, opened.error());
            co_return true;
        }
        metrics_.opened_blocks.add();
        std::ranges::fill(plain.subspan(stored), std::byte{0});
        const Bytes part = direct ? plain : plain.subspan(from - start, to - from);
        if (item.forwarded) item.checksums.push_back(crc32c(part));
        if (!direct) std::ranges::copy(part, wanted.begin());
    }
    co_return true;
}

void CipherStore::refuse(FetchItem& item, Extent block, const Error& error) {
    metrics_.refused_blocks.add();
    const Extent bad{std::max(block.offset, item.extent.offset), 0};
    const uint64_t end = std::min(block.end(), item.extent.end());
    if (metrics_.refused_blocks.value() <= corrupt_lines_max) {
        const std::string where = location_text(container_, item, {bad.offset, end - bad.offset});
        log_.error(error.code == Code::corrupt
                       ? where + ": the stored bytes are corrupt (their tag does not match)"
                       : where + ": cannot be decrypted: " + describe(error));
    }
    item.status = fail(Error{.code = error.code,
                             .os_errno = error.os_errno,
                             .detail = error.code == Code::corrupt ? end : error.detail});
    item.checksums.clear();
    std::ranges::fill(item.window.bytes().first(item.extent.length), std::byte{0});
}

// ---- requests without file data --------------------------------------------------------------

Task<Result<ListReply>> CipherStore::list(const Call& call, ContainerId container,
                                          const ListRequest& request) {
    const bool lists_blocks = container == container_ && request.object == blocks_object &&
                              request.what == ListRequest::What::dkeys;
    if (lists_blocks) co_return co_await list_blocks(call, request);
    auto reply = co_await below().list(call, container, request);
    if (reply && container == container_ && request.what == ListRequest::What::akeys) {
        std::erase_if(reply->entries,
                      [](const ListEntry& entry) { return entry.key == cells_akey().bytes; });
    }
    co_return reply;
}

namespace {
Task<Result<>> refused() { co_return fail(Code::unsupported); }
}  // namespace

Task<Result<>> CipherStore::pin(const Call& call, ContainerId container, const Holder& holder,
                                FetchItem& item) {
    if (container == container_ && is_data(item.akey)) return refused();
    return below().pin(call, container, holder, item);
}

Task<Result<>> CipherStore::fetch_chain(const Call& call, ContainerId container,
                                        const Holder& holder, std::span<FetchItem> items,
                                        std::span<Link> links) {
    if (container == container_) {
        for (size_t i = 0; i < std::min(items.size(), links.size()); ++i) {
            if (is_data(items[i].akey) && links[i].kind != Link::Kind::query) return refused();
        }
    }
    return below().fetch_chain(call, container, holder, items, links);
}

}  // namespace ros2s::cipher
