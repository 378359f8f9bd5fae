// Payload: the client's grants, and the server's transfers.
//
// The server sees a grant and its end without a message, through two words:
//
//     client: revoke                      server: put, get
//     state = 0                           uses[slot] = 1
//     uses[slot] still set? wait          state live? copy : refuse
//     the memory is the client's          uses[slot] = 0, wake the client if it waits
//
// All four are sequentially consistent, so one of the two sees the other.
#include <sys/mman.h>

#include <algorithm>

#include "ros2s/runtime/sync.h"
#include "shm_endpoint.h"

namespace ros2s::fabric::shm {
namespace {

constexpr uint64_t page_bytes = 4096;

}  // namespace

void ShmEndpoint::Payload::map_pages(uint64_t offset, uint64_t bytes) noexcept {
    was_used = true;
    const uint64_t end = offset + bytes;
    if (offset > mapped_upto || end <= mapped_upto) return;
    const uint64_t begin = round_down(mapped_upto, page_bytes);
    mapped_upto = std::min(round_up(end, page_bytes), memory.bytes().size());
    (void)::madvise(memory.bytes().data() + begin, mapped_upto - begin, MADV_POPULATE_WRITE);
}

SharedRegionEntry& ShmEndpoint::grant_at(uint32_t slot) const noexcept {
    auto* first = control_.bytes().data() + grants_offset(shm_session_.layout);
    return reinterpret_cast<SharedRegionEntry*>(first)[slot];
}
uint32_t& ShmEndpoint::use_at(uint32_t slot) const noexcept {
    auto* first = control_.bytes().data() + uses_offset(shm_session_.layout);
    return reinterpret_cast<uint32_t*>(first)[slot];
}
bool ShmEndpoint::in_use(uint32_t slot) const noexcept {
    return shared(use_at(slot)).load(std::memory_order_seq_cst) != 0;
}

Result<Bytes> ShmEndpoint::allocate(uint64_t size) {
    // The payload segment is the client's: the server has no memory to expose.
    if (initiates()) return fail(Code::denied);
    if (size == 0) return Bytes{};
    const uint64_t all = limits_.memory_bytes_max;
    if (size > all) return fail(Code::no_memory, all);
    // In order, so that the last ones can go back.
    for (const auto& each : payloads_) {
        if (each == nullptr) continue;
        const auto offset = each->extents.take(round_up<uint64_t>(size, block_bytes));
        if (!offset) continue;
        ++each->taken;
        each->map_pages(*offset, size);
        connections_.used();
        return each->memory.bytes().subspan(*offset, size);
    }
    return fail(Code::no_memory, all);
}

void ShmEndpoint::free(Bytes memory) noexcept {
    if (memory.empty()) return;
    const uint32_t number = segment_of(memory);
    ROS2S_CHECK(number < segments_most);
    Payload& of = *payloads_[number];
    const auto offset = static_cast<uint64_t>(memory.data() - of.memory.bytes().data());
    of.extents.give(offset, round_up<uint64_t>(memory.size(), block_bytes));
    if (--of.taken > 0 || number == 0) return;
    if (shared(page().scarce.value).load(std::memory_order_relaxed) != 0) return_segment(number);
}

Result<RemoteKey> ShmEndpoint::do_grant(Bytes memory, Rights rights, const RegionOptions& options) {
    const uint32_t number = segment_of(memory);
    if (number == segments_most) return fail(Code::invalid);
    const Bytes all = payloads_[number]->memory.bytes();
    if (free_slots_.empty()) return fail(Code::no_memory, limits_.regions_max);
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    const uint32_t generation = ++generations_[slot];
    RemoteKey key{
        .rights = rights,
        .domain = shm_session_.domain,
        .session = session_,
        .lease = options.lease,
        .slot = slot,
        .generation = generation,
        .address = payload_address(number, static_cast<uint64_t>(memory.data() - all.data())),
        .length = memory.size()};
    key.seal();
    SharedRegionEntry& grant = grant_at(slot);
    shared(grant.address).store(key.address, std::memory_order_relaxed);
    shared(grant.length).store(key.length, std::memory_order_relaxed);
    shared(grant.lease).store(key.lease, std::memory_order_relaxed);
    shared(grant.expires)
        .store(options.expires.time_since_epoch().count(), std::memory_order_relaxed);
    shared(grant.state)
        .store(uint64_t{generation} << 32 | uint64_t{static_cast<uint8_t>(rights)} << 1 | 1,
               std::memory_order_seq_cst);
    return key;
}

Task<> ShmEndpoint::do_revoke(RemoteKey key) {
    shared(grant_at(key.slot).state).store(0, std::memory_order_seq_cst);
    if (in_use(key.slot)) {
        revoking_.push_back(key.slot);
        bool used = true;
        Deadline deadline(reactor_, reactor_.now() + limits_.answer_within, {});
        {
            const WakeOnStop wake(deadline.token(), released_);
            while ((used = in_use(key.slot)) && alive() && !deadline.passed()) co_await released_;
        }
        co_await deadline.finish();
        std::erase(revoking_, key.slot);
        // A server that keeps using a revoked region loses the connection. The segment is never
        // used again. A transfer that comes too late also sets the word for a moment, and copies
        // nothing, so the word is not read again.
        if (alive() && used) end(End::unanswered);
    }
    // A slot without generations left is retired.
    if (generations_[key.slot] != ~uint32_t{0}) free_slots_.push_back(key.slot);
}

bool ShmEndpoint::look_for_releases() noexcept {
    if (std::ranges::all_of(revoking_, [this](uint32_t slot) { return in_use(slot); })) {
        return false;
    }
    released_.wake_all();
    return true;
}

// Returns the address of the bytes, by the key and by the client's table. Each word is read once.
std::expected<ShmEndpoint::Location, Refusal> ShmEndpoint::locate(const RemoteKey& key,
                                                                  uint64_t offset, uint64_t count,
                                                                  Rights right) noexcept {
    SharedRegionEntry& entry = grant_at(key.slot);
    const uint64_t state = shared(entry.state).load(std::memory_order_seq_cst);
    const RegionEntry grant{
        .address = shared(entry.address).load(std::memory_order_relaxed),
        .length = shared(entry.length).load(std::memory_order_relaxed),
        .lease = shared(entry.lease).load(std::memory_order_relaxed),
        .expires = Time{Duration{shared(entry.expires).load(std::memory_order_relaxed)}},
        .generation = static_cast<uint32_t>(state >> 32),
        .rights = static_cast<Rights>(state >> 1 & 3),
        .live = (state & 1) != 0,
    };
    // Most grants end with their request, and need no clock.
    const Time now = grant.expires == Time::max() ? Time{} : reactor_.now();
    if (auto allowed = check_entry(grant, key, offset, count, right, now); !allowed) {
        return std::unexpected(allowed.error());
    }
    // The client owns the table, so its contents are not trusted. The range must be within a
    // segment of this connection that the client has not returned.
    const uint64_t number = grant.address >> segment_shift;
    if (number >= segments_most || payloads_[number] == nullptr || payloads_[number]->is_leaving) {
        return std::unexpected(Refusal::range);
    }
    const Bytes all = payloads_[number]->memory.bytes();
    const uint64_t start = grant.address - payload_address(static_cast<uint32_t>(number), 0);
    if (start > all.size() || grant.length > all.size() - start) {
        return std::unexpected(Refusal::range);
    }
    return Location{all.data() + start + offset, static_cast<uint32_t>(number)};
}

std::expected<void, Refusal> ShmEndpoint::check_key(const RemoteKey& key) const noexcept {
    if (auto claim = check_claim(key, peer_.domain, session_); !claim) return claim;
    if (key.slot >= shm_session_.layout.slots) return std::unexpected(Refusal::stale);
    return {};
}

void ShmEndpoint::mark(uint32_t slot) noexcept {
    shared(use_at(slot)).store(++uses_of_slots_[slot], std::memory_order_seq_cst);
}

void ShmEndpoint::unmark(uint32_t slot) noexcept {
    shared(use_at(slot)).store(--uses_of_slots_[slot], std::memory_order_seq_cst);
    wake_for_ |= wants_release;
}

Task<Result<>> ShmEndpoint::move(RemoteKey key, uint64_t offset, Bytes memory, Rights right) {
    struct Mark {
        Mark(ShmEndpoint& endpoint, uint32_t slot) noexcept : self(endpoint), place(slot) {
            self.mark(place);
        }
        Mark& operator=(Mark&&) = delete;
        ~Mark() { self.unmark(place); }
        ShmEndpoint& self;
        const uint32_t place;
    };
    const Use use(*this);
    if (!initiates()) co_return refuse(Refusal::initiator);
    if (!alive()) co_return fail(Code::disconnected);
    if (auto allowed = check_key(key); !allowed) co_return refuse(allowed.error());
    SlicedJob job(copying_);
    if (memory.size() > slice_bytes) co_await job.slice(slice_bytes);
    if (!alive()) co_return fail(Code::disconnected);
    while (true) {
        const size_t count = std::min<size_t>(memory.size(), slice_bytes);
        {
            // Not held while it waits for its turn: a revocation would wait, too.
            const Mark mark(*this, key.slot);
            const auto place = locate(key, offset, memory.size(), right);
            if (!place) co_return refuse(place.error());
            // The segment stays: nothing waits before the copy is done.
            std::byte* const there = place->bytes;
            Payload& of = *payloads_[place->segment];
            of.map_pages(static_cast<uint64_t>(there - of.memory.bytes().data()), count);
            if (count > 0 && right == Rights::write) std::memcpy(there, memory.data(), count);
            if (count > 0 && right == Rights::read) std::memcpy(memory.data(), there, count);
        }
        memory = memory.subspan(count);
        offset += count;
        if (memory.empty()) co_return Result<>{};
        co_await job.slice(slice_bytes);
        if (!alive()) co_return fail(Code::disconnected);
    }
}

Result<Bytes> ShmEndpoint::do_map(const RemoteKey& key, uint64_t offset, uint64_t count,
                                  Rights right) {
    if (auto allowed = check_key(key); !allowed) return refuse(allowed.error());
    // Set before the check of the grant, as for a copy: a later revocation waits.
    mark(key.slot);
    auto place = locate(key, offset, count, right);
    MappedSlot& mapped = mapped_slots_[key.slot];
    // A grant does not change while it is used, unless the client cheats.
    if (place && mapped.mappings > 0 && mapped.segment != place->segment) {
        place = std::unexpected(Refusal::range);
    }
    if (place) {
        Payload& of = *payloads_[place->segment];
        of.map_pages(static_cast<uint64_t>(place->bytes - of.memory.bytes().data()), count);
        mapped.segment = place->segment;
        ++mapped.mappings;
        ++of.mappings;
        return Bytes{place->bytes, count};
    }
    unmark(key.slot);
    return refuse(place.error());
}

void ShmEndpoint::do_unmap(uint32_t slot) noexcept {
    MappedSlot& mapped = mapped_slots_[slot];
    Payload& of = *payloads_[mapped.segment];
    --mapped.mappings;
    if (--of.mappings == 0 && of.is_leaving) drop_segment(mapped.segment);
    unmark(slot);
}

Task<Result<>> ShmEndpoint::put(const RemoteKey& key, uint64_t offset, ConstBytes from,
                                PutReturns /*returns*/) {
    const Bytes source{const_cast<std::byte*>(from.data()), from.size()};
    ROS2S_CO_TRY(co_await move(key, offset, source, Rights::write));
    counters_.puts.add();
    counters_.put_bytes.add(from.size());
    co_return Result<>{};
}

Task<Result<>> ShmEndpoint::get(const RemoteKey& key, uint64_t offset, Bytes into) {
    ROS2S_CO_TRY(co_await move(key, offset, into, Rights::read));
    counters_.gets.add();
    counters_.get_bytes.add(into.size());
    co_return Result<>{};
}

}  // namespace ros2s::fabric::shm
