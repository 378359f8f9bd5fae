#include "memory_state.h"

#include <algorithm>
#include <ranges>

#include "ros2s/object/checksum.h"

namespace ros2s::object {

// ---- containers ----------------------------------------------------------------------------

Result<ContainerRecord> MemoryState::create(ContainerId id, const ContainerProperties& properties,
                                            WallTime now) {
    for (const Container& other : containers_ | std::views::values) {
        if (other.record.properties.label == properties.label) return fail(Code::exists);
    }
    const ContainerRecord record{.id = id, .properties = properties, .created = now};
    containers_[id].record = record;
    return record;
}

Result<> MemoryState::destroy(ContainerId id) {
    const auto found = containers_.find(id);
    if (found == containers_.end()) return fail(Code::not_found);
    for (const Object& object : found->second.objects | std::views::values) {
        for (const Column& column : object | std::views::values) blocks_used_ -= column.blocks;
    }
    containers_.erase(found);
    return {};
}

std::vector<ContainerRecord> MemoryState::containers() const {
    std::vector<ContainerRecord> records;
    for (const Container& container : containers_ | std::views::values) {
        records.push_back(container.record);
    }
    std::ranges::sort(records, {}, [](const ContainerRecord& r) { return r.properties.label; });
    return records;
}

PoolSpace MemoryState::space() const {
    return {.total_bytes = capacity_bytes_,
            .free_bytes = capacity_bytes_ - blocks_used_ * block_bytes};
}

// ---- reading -------------------------------------------------------------------------------

const MemoryState::Column* MemoryState::find(const Container& container, ObjectId object,
                                             const Akey& akey) {
    const auto found = container.objects.find(object);
    if (found == container.objects.end()) return nullptr;
    const auto column = found->second.find(akey);
    return column == found->second.end() ? nullptr : &column->second;
}

const MemoryEntry* MemoryState::find(const Container& container, ObjectId object, const Dkey& dkey,
                                     const Akey& akey) {
    const Column* column = find(container, object, akey);
    if (column == nullptr) return nullptr;
    const auto entry = column->entries.find(dkey);
    return entry == column->entries.end() ? nullptr : &entry->second;
}

void MemoryState::fetch(ContainerId id, FetchItem& item) const {
    const MemoryEntry* entry = find(containers_.at(id), item.object, item.dkey, item.akey);
    const Bytes window = item.window.bytes().first(item.extent.length);
    if (entry == nullptr) {
        std::ranges::fill(window, std::byte{0});
        item.status = fail(Code::not_found);
        return;
    }
    item.is_value = !entry->is_array;
    item.size = entry->size;
    item.epoch = entry->epoch;
    if (entry->is_array) {
        entry->read(item.extent.offset, window);
        array_checksums(item.extent.offset, window, item.checksums);
        if (item.wants_seals) item.seals = entry->seals(item.extent);
    } else if (item.extent.offset != 0) {
        item.status = fail(Code::invalid);
    } else if (entry->size > window.size()) {
        item.status = fail(Code::too_small, entry->size);
    } else {
        std::ranges::copy(as_bytes(entry->value), window.begin());
        value_checksums(as_bytes(entry->value), item.checksums);
    }
}

QueryReply MemoryState::query(ContainerId id, ObjectId object, const Akey& akey) const {
    const Column* column = find(containers_.at(id), object, akey);
    if (column == nullptr) return {};
    QueryReply reply{.last_epoch = column->last_epoch,
                     .last_time = column->last_time,
                     .bytes_used = column->blocks * block_bytes};
    if (column->entries.empty()) return reply;
    const auto& [dkey, entry] = *column->entries.rbegin();
    reply.exists = true;
    reply.highest_dkey = dkey;
    reply.size = entry.size;
    return reply;
}

ListReply MemoryState::list(ContainerId id, const ListRequest& request) const {
    const Container& container = containers_.at(id);
    if (request.what == ListRequest::What::objects) return list_objects(container, request);
    const auto object = container.objects.find(request.object);
    if (object == container.objects.end()) return {};
    return request.what == ListRequest::What::dkeys ? list_dkeys(object->second, request)
                                                    : list_akeys(object->second, request);
}

namespace {
// True if the reply is full and the current entry was left out.
bool full(ListReply& reply, const ListRequest& request) {
    reply.more = reply.entries.size() == request.limit;
    return reply.more;
}
}  // namespace

ListReply MemoryState::list_objects(const Container& container, const ListRequest& request) {
    ListReply reply;
    auto at = request.after ? container.objects.upper_bound(parse_object_key(*request.after))
                            : container.objects.begin();
    for (; at != container.objects.end(); ++at) {
        const bool empty = std::ranges::all_of(at->second | std::views::values,
                                               [](const Column& c) { return c.entries.empty(); });
        if (empty) continue;
        if (full(reply, request)) break;
        reply.entries.push_back({.key = object_key(at->first)});
    }
    return reply;
}

ListReply MemoryState::list_dkeys(const Object& object, const ListRequest& request) {
    // At most limit + 1 dkeys of each column can be in the reply or decide `more`.
    std::map<Dkey, ListEntry> found;
    for (const auto& [akey, column] : object) {
        if (!request.akey.bytes.empty() && akey != request.akey) continue;
        auto at = request.after ? column.entries.upper_bound(Dkey{*request.after})
                                : column.entries.begin();
        for (uint64_t n = 0; at != column.entries.end() && n <= request.limit; ++at, ++n) {
            ListEntry& entry = found[at->first];
            entry.key = at->first.bytes;
            entry.epoch = std::max(entry.epoch, at->second.epoch);
            if (!request.akey.bytes.empty()) entry.value = at->second.value;
        }
    }
    ListReply reply;
    for (ListEntry& entry : found | std::views::values) {
        if (full(reply, request)) break;
        reply.entries.push_back(std::move(entry));
    }
    return reply;
}

ListReply MemoryState::list_akeys(const Object& object, const ListRequest& request) {
    ListReply reply;
    auto at = request.after ? object.upper_bound(Akey{*request.after}) : object.begin();
    for (; at != object.end(); ++at) {
        const auto entry = at->second.entries.find(request.dkey);
        if (entry == at->second.entries.end()) continue;
        if (full(reply, request)) break;
        reply.entries.push_back({.key = at->first.bytes, .epoch = entry->second.epoch});
    }
    return reply;
}

// ---- conditions ----------------------------------------------------------------------------

bool MemoryState::holds(const Container& container, const Condition& condition) {
    using Kind = Condition::Kind;
    const MemoryEntry* entry = find(container, condition.object, condition.dkey, condition.akey);
    bool exists = entry != nullptr;
    const auto object = container.objects.find(condition.object);
    if (condition.akey.bytes.empty() && object != container.objects.end()) {
        exists = std::ranges::any_of(object->second | std::views::values, [&](const Column& c) {
            return c.entries.contains(condition.dkey);
        });
    }
    switch (condition.kind) {
        case Kind::exists: return exists;
        case Kind::absent: return !exists;
        case Kind::epoch_equals:
            return (entry == nullptr ? 0 : entry->epoch.value) == condition.value;
        case Kind::size_equals: return (entry == nullptr ? 0 : entry->size) == condition.value;
        case Kind::no_dkeys: {
            const Column* column = find(container, condition.object, condition.akey);
            return column == nullptr || column->entries.empty();
        }
        case Kind::pinned:
        case Kind::unpinned:
        case Kind::pin:
        case Kind::lease: break;  // PinTable's and LeaseTable's
    }
    return false;
}

// ---- transactions --------------------------------------------------------------------------

namespace {
bool checksums_match(const Operation& operation) {
    if (operation.checksums.empty()) return true;
    const ConstBytes bytes = operation.window.bytes();
    if (operation.kind == Operation::Kind::put) return crc32c(bytes) == operation.checksums[0];
    if (operation.kind != Operation::Kind::write) return true;
    return array_checksums_match(operation.extent.offset, bytes, operation.checksums);
}
}  // namespace

Result<Commit> MemoryState::update(ContainerId id, const Transaction& transaction, Time now,
                                   WallTime wall_now) {
    Container& container = containers_.at(id);
    const bool retried = !transaction.id.client.is_nil();
    const SlotKey slot{transaction.id.owner, id, transaction.id.client, transaction.id.slot};
    const uint64_t digest = retried ? digest_of(transaction) : 0;
    if (const auto reply = replies_.find(slot); retried && reply != replies_.end()) {
        if (transaction.id.sequence < reply->second.sequence) return fail(Code::stale);
        if (transaction.id.sequence == reply->second.sequence) {
            if (transaction.is_new || digest != reply->second.digest) {
                return fail(Code::name_taken);
            }
            Commit commit = reply->second.commit;
            commit.replayed = true;
            return commit;
        }
    }
    for (const Operation& operation : transaction.operations) {
        if (!checksums_match(operation)) return fail(Code::corrupt);
    }
    for (size_t i = 0; i < transaction.conditions.size(); ++i) {
        const Condition& condition = transaction.conditions[i];
        if (!condition.is_about_holders() && !holds(container, condition)) {
            return fail(Code::condition_failed, i);
        }
    }
    ROS2S_TRY(pins_.judge(id, transaction, now));
    Change change{.container = container,
                  .commit = {.epoch = {last_epoch_.value + 1}, .time = wall_now}};
    Result<> result;
    for (const Operation& operation : transaction.operations) {
        result = apply(change, operation);
        if (!result) break;
    }
    if (result && blocks_used_ * block_bytes > capacity_bytes_) result = fail(Code::no_space);
    if (!result) {
        for (auto& undo : change.undo | std::views::reverse) undo();
        return fail(result.error());
    }
    pins_.take(id, transaction);
    last_epoch_ = change.commit.epoch;
    if (retried) replies_[slot] = {transaction.id.sequence, digest, change.commit};
    return change.commit;
}

Result<> MemoryState::apply(Change& change, const Operation& operation) {
    using Kind = Operation::Kind;
    switch (operation.kind) {
        case Kind::punch_object: punch_object(change, operation.object); return {};
        case Kind::punch_dkey:
        case Kind::punch_dkeys: punch_range(change, operation); return {};
        case Kind::punch_akey:
            if (find(change.container, operation.object, operation.dkey, operation.akey) !=
                nullptr) {
                replace(change, operation.object, operation.dkey, operation.akey, std::nullopt);
            }
            return {};
        default: return modify(change, operation);
    }
}

Result<> MemoryState::modify(Change& change, const Operation& operation) {
    using Kind = Operation::Kind;
    const MemoryEntry* present =
        find(change.container, operation.object, operation.dkey, operation.akey);
    // There is nothing to punch.
    if (present == nullptr && operation.kind == Kind::punch_extent) return {};
    const bool wants_array = operation.kind != Kind::put;
    if (present != nullptr && present->is_array != wants_array) return fail(Code::invalid);

    MemoryEntry entry = present != nullptr ? *present : MemoryEntry{.is_array = wants_array};
    entry.epoch = change.commit.epoch;
    switch (operation.kind) {
        case Kind::write:
            entry.write(operation.extent.offset, operation.window.bytes(), operation.seals);
            break;
        case Kind::put:
            entry.value = as_text(operation.window.bytes());
            entry.size = entry.value.size();
            break;
        case Kind::punch_extent: entry.punch(operation.extent); break;
        case Kind::set_size: entry.set_size(operation.size); break;
        default:  // touch
            break;
    }
    replace(change, operation.object, operation.dkey, operation.akey, std::move(entry));
    return {};
}

void MemoryState::punch_range(Change& change, const Operation& operation) {
    const auto object = change.container.objects.find(operation.object);
    if (object == change.container.objects.end()) return;
    const bool one = operation.kind == Operation::Kind::punch_dkey;
    for (auto& [akey, column] : object->second) {
        std::vector<Dkey> dkeys;
        for (auto at = column.entries.lower_bound(operation.dkey); at != column.entries.end();
             ++at) {
            if (one && at->first != operation.dkey) break;
            const bool ends = !one && !operation.dkey_end.bytes.empty();
            if (ends && at->first >= operation.dkey_end) break;
            dkeys.push_back(at->first);
        }
        for (const Dkey& dkey : dkeys) {
            replace(change, operation.object, dkey, akey, std::nullopt);
        }
    }
}

void MemoryState::punch_object(Change& change, ObjectId id) {
    auto node = change.container.objects.extract(id);
    if (node.empty()) return;
    uint64_t blocks = 0;
    for (const Column& column : node.mapped() | std::views::values) blocks += column.blocks;
    blocks_used_ -= blocks;
    change.undo.emplace_back([this, &change, blocks, id, kept = std::move(node)]() mutable {
        change.container.objects.erase(id);
        change.container.objects.insert(std::move(kept));
        blocks_used_ += blocks;
    });
}

void MemoryState::replace(Change& change, ObjectId object, const Dkey& dkey, const Akey& akey,
                          std::optional<MemoryEntry> now) {
    Object& columns = change.container.objects[object];
    Column& column = columns[akey];
    std::optional<MemoryEntry> before;
    if (const auto found = column.entries.find(dkey); found != column.entries.end()) {
        before = std::move(found->second);
        blocks_used_ -= before->blocks.size();
        column.blocks -= before->blocks.size();
        column.entries.erase(found);
    }
    change.undo.emplace_back([this, &change, object, dkey, akey, kept = std::move(before),
                              epoch = column.last_epoch, time = column.last_time]() mutable {
        Column& restored = change.container.objects[object][akey];
        set(restored, dkey, std::move(kept));
        restored.last_epoch = epoch;
        restored.last_time = time;
    });
    set(column, dkey, std::move(now));
    column.last_epoch = change.commit.epoch;
    column.last_time = change.commit.time;
}

void MemoryState::set(Column& column, const Dkey& dkey, std::optional<MemoryEntry> now) {
    if (const auto found = column.entries.find(dkey); found != column.entries.end()) {
        blocks_used_ -= found->second.blocks.size();
        column.blocks -= found->second.blocks.size();
        column.entries.erase(found);
    }
    if (!now) return;
    blocks_used_ += now->blocks.size();
    column.blocks += now->blocks.size();
    column.entries.emplace(dkey, std::move(*now));
}

}  // namespace ros2s::object
