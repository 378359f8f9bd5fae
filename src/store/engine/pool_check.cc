#include "pool_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "reader.h"
#include "ros2s/base/bytes.h"

namespace ros2s::engine {
namespace {

constexpr size_t check_page_limit = 512;
// Blocks with several entries that are named, and akeys of one object whose summaries are compared.
// They bound memory.
constexpr size_t shared_blocks_max = 1024;
constexpr size_t akeys_max = size_t{1} << 18;

constexpr std::string_view restore = "restore the pool from a copy, or remove the object";

std::string object_text(object::ContainerId container, object::ObjectId object,
                        std::string_view akey) {
    return fmt::format("container {} object {:016x}.{:016x} akey \"{}\"",
                       container.uuid.to_string(), object.high, object.low, akey);
}

// Calls say(first, count) for each run of adjacent blocks.
template <class Say>
class Runs {
  public:
    explicit Runs(Say say) : say_(std::move(say)) {}
    Runs& operator=(Runs&&) = delete;
    ~Runs() { end(); }
    void add(BlockAddress address) {
        if (address != first_ + blocks_) end();
        if (blocks_++ == 0) first_ = address;
    }

  private:
    void end() {
        if (blocks_ > 0) say_(first_, std::exchange(blocks_, 0));
    }
    Say say_;
    BlockAddress first_{};
    uint64_t blocks_ = 0;
};

}  // namespace

// The items of a table of the index, with the changes since its last checkpoint.
class PoolCheck::TableScan {
  public:
    struct Item {
        std::string key, value;
    };
    TableScan(Cores& cores, Table table)
        : cores_(cores), table_(table), from_(1, static_cast<char>(table)) {
        to_ = prefix_end(from_);
    }
    // The next one; null: the end. Errors: those of the index.
    Task<Result<const Item*>> peek() {
        while (at_ == items_.size()) {
            if (!more_) co_return nullptr;
            ROS2S_CO_TRY(co_await read_page());
        }
        co_return &items_[at_];
    }
    void next() { ++at_; }

  private:
    Task<Result<>> read_page() {
        // Summaries are on core 0, entries on the cores of their targets.
        Result<Loader::Page> page =
            table_ == Table::entries
                ? co_await cores_.scan(from_, to_, check_page_limit)
                : co_await cores_.home().loader.scan(from_, to_, check_page_limit);
        if (!page) co_return fail(page.error());
        items_.clear();
        at_ = 0;
        // The nodes are valid until this core suspends.
        for (Loader::Item& item : page->items) {
            items_.push_back({std::move(item.key),
                              item.node != nullptr ? encode(*item.node) : std::move(item.raw)});
        }
        more_ = page->more;
        from_ = std::move(page->next);
        co_return Result<>();
    }

    Cores& cores_;
    const Table table_;
    std::string from_, to_;
    std::vector<Item> items_;
    size_t at_ = 0;
    bool more_ = true;
};

PoolCheck::PoolCheck(RecoveredPool& pool, const Call& call, const CheckOptions& options)
    : pool_(pool), call_(call), options_(options) {
    const SpaceMap& space = pool_.state.space;
    for (uint32_t d = 0; d < space.devices(); ++d) {
        areas_.add(pool_.superblock.data_first(d), pool_.superblock.data_end(d));
        claimed_.emplace_back(space.used_bits(d).size());
    }
    for (const auto& [id, container] : pool_.state.containers) {
        const ContainerValue& value = container.value;
        containers_[id] = {.record = {.id = id,
                                      .properties = value.properties,
                                      .created = value.created,
                                      .used = value.used},
                           .retired = value.retired};
    }
}

Task<Result<CheckedPool>> PoolCheck::run() {
    CheckedPool checked{.used_blocks = pool_.state.space.used_blocks(),
                        .total_blocks = pool_.state.space.total_blocks()};
    if (pool_.state.inconsistencies > 0) {
        problem(fmt::format(
            "the journal does not fit the index: {} of its changes used or freed a block, or "
            "counted for a container, that the index does not have so; restore the devices and the "
            "index from copies of one moment",
            pool_.state.inconsistencies));
    }
    TableScan entries(pool_.cores, Table::entries), summaries(pool_.cores, Table::summaries);
    const Result<> visited = co_await visit_entries(entries, summaries);
    container_ = {};
    if (!visited && visited.error().code == Code::corrupt) {
        checked.is_index_readable = false;
        problem(fmt::format(
            "the pool's index (directory {}) is damaged and cannot be read to its end; restore it "
            "together with the devices, from copies of one moment",
            pool_.superblock.index_directory));
        options_.unjudged({}, "the entries of the index after the damage, and what they name");
    } else {
        ROS2S_CO_TRY(visited);
        if (any_unreadable_) {
            options_.unjudged({}, "blocks that no entry names, because an entry cannot be read");
        } else {
            find_unnamed_blocks();
        }
        ROS2S_CO_TRY(co_await name_shared_blocks());
    }
    for (auto& [id, container] : containers_) checked.containers.push_back(std::move(container));
    co_return checked;
}

// ---- entries -------------------------------------------------------------------------------

Task<Result<>> PoolCheck::visit_entries(TableScan& entries, TableScan& summaries) {
    bool any = false;
    while (true) {
        ROS2S_CO_TRY(call_.check(home().env.reactor));
        ROS2S_CO_TRY_ASSIGN(const TableScan::Item* const item, co_await entries.peek());
        if (item == nullptr) break;
        const auto key = parse_entry_key(item->key);
        if (!key) {
            bad_entry(key, "its key is none");
            entries.next();
            continue;
        }
        const bool other_container = !any || key->container != container_;
        if (other_container || object_ != key->object) {
            if (object_) ROS2S_CO_TRY(co_await end_object(summaries));
            if (other_container) {
                if (any) end_container();
                begin_container(key->container);
            }
            any = true;
            object_ = key->object;
            if (checked_ != nullptr) ++checked_->objects;
        }
        const Result<EntryValue> value = decode_entry(item->value);
        const std::string_view fault = value ? fault_of(*value, key, areas_) : std::string_view();
        if (value && fault.empty()) {
            visit(*key, *value);
            if (options_.data) ROS2S_CO_TRY(co_await read_data(*key, *value));
        } else {
            bad_entry(key, value ? std::string(fault) : describe(value.error()));
        }
        entries.next();
        if (options_.progress) options_.progress(claimed_blocks_, pool_.state.space.used_blocks());
    }
    if (object_) ROS2S_CO_TRY(co_await end_object(summaries));
    if (any) end_container();
    // Containers without an entry.
    for (const auto& [id, container] : pool_.state.containers) {
        if (containers_.at(id).objects > 0) continue;
        begin_container(id);
        end_container();
    }
    co_return co_await end_summaries(summaries);
}

void PoolCheck::bad_entry(const std::optional<EntryKey>& key, std::string_view fault) {
    any_unreadable_ = container_unreadable_ = object_unreadable_ = true;
    if (key && key->segment == 0) head_ = Head{.key = *key, .is_known = false};
    problem(fmt::format("the index's value of {} cannot be used: {}; {}", place_of(key), fault,
                        restore));
}

void PoolCheck::visit(const EntryKey& key, const EntryValue& value) {
    if (value.kind != EntryValue::Kind::segment) {
        head_ = Head{.key = key, .kind = value.kind, .size = value.size};
    }
    check_shape(key, value);
    count(key, value);
    claim(key, value);
}

// Blocks are below the array's size, and segments have a head.
void PoolCheck::check_shape(const EntryKey& key, const EntryValue& value) {
    if (value.kind != EntryValue::Kind::segment && value.epoch.value >= pool_.state.next_epoch) {
        problem(fmt::format(
            "{} has epoch {}, and the pool has reached {}: index and journal are not of one "
            "moment; restore both from copies of one moment",
            place_of(key), value.epoch.value, pool_.state.next_epoch - 1));
    }
    const bool has_head = head_ && head_->key.container == key.container &&
                          head_->key.object == key.object && head_->key.dkey == key.dkey &&
                          head_->key.akey == key.akey;
    if (has_head && !head_->is_known) return;
    if (!has_head || head_->kind == EntryValue::Kind::single) {
        if (value.kind == EntryValue::Kind::segment) {
            problem(fmt::format("{} is a part of an array that does not exist; {}", place_of(key),
                                restore));
        }
        return;
    }
    const uint64_t blocks = (head_->size + block_bytes - 1) / block_bytes;
    const uint64_t first = uint64_t{key.segment} * segment_blocks;
    for (uint32_t i = 0; i < value.map.end(); ++i) {
        if (value.map.at(i).address.is_hole() || first + i < blocks) continue;
        problem(fmt::format("{} has blocks beyond its size of {} bytes; {}", place_of(key),
                            head_->size, restore));
        return;
    }
}

void PoolCheck::count(const EntryKey& key, const EntryValue& value) {
    used_.bytes += value.map.used() * block_bytes;
    if (checked_ != nullptr) checked_->blocks += value.map.used();
    auto found = akeys_.find(key.akey);
    if (found == akeys_.end()) {
        if (akeys_.size() == akeys_max) {
            too_many_akeys_ = true;
            akeys_.clear();
        }
        found = akeys_.try_emplace(key.akey).first;
    }
    found->second.blocks += value.map.used();
    if (value.kind == EntryValue::Kind::segment) return;
    ++found->second.entries;
    found->second.highest = key.dkey;  // entries come in the order of their dkeys
    used_.bytes +=
        static_cast<uint64_t>(counted_bytes(key.dkey.size(), key.akey.size(), value.single.size()));
    if (value.kind == EntryValue::Kind::single) ++used_.values;
    if (checked_ != nullptr) ++checked_->akeys;
}

std::string PoolCheck::blocks_text(BlockAddress first, uint64_t blocks) const {
    const std::string& name = pool_.devices[first.device()]->name();
    if (blocks == 1) return fmt::format("block {} of {}", first.block(), name);
    return fmt::format("blocks {} to {} of {}", first.block(), first.block() + blocks - 1, name);
}

void PoolCheck::claim(const EntryKey& key, const EntryValue& value) {
    Runs free_runs([&](BlockAddress first, uint64_t blocks) {
        problem(fmt::format(
            "{} has {}, which the space map has as free: a later write would overwrite it; copy "
            "the object out, and restore the pool from a copy",
            place_of(key), blocks_text(first, blocks)));
    });
    for (uint32_t i = 0; i < value.map.end(); ++i) {
        const BlockAddress address = value.map.at(i).address;
        if (address.is_hole()) continue;
        uint64_t& word = claimed_[address.device()][address.block() / 64];
        const uint64_t bit = uint64_t{1} << (address.block() % 64);
        if ((word & bit) == 0) {
            word |= bit;
            ++claimed_blocks_;
        } else if (shared_.size() < shared_blocks_max) {
            shared_[address];
        }
        const auto used = pool_.state.space.used_bits(address.device());
        if ((used[address.block() / 64] & bit) == 0) free_runs.add(address);
    }
}

Task<Result<>> PoolCheck::read_data(const EntryKey& key, const EntryValue& value) {
    std::vector<BlockRef> blocks;
    std::vector<uint64_t> places;
    for (uint32_t i = 0; i < value.map.end(); ++i) {
        if (value.map.at(i).address.is_hole()) continue;
        blocks.push_back(value.map.at(i));
        places.push_back(uint64_t{key.segment} * segment_blocks + i);
    }
    const AlignedBuffer buffer(blocks.size() * block_bytes);
    bool one_by_one = false;
    for (size_t at = 0; at < blocks.size();) {
        const size_t count = one_by_one ? 1 : blocks.size() - at;
        const Result<> read =
            co_await read_verified(home(), call_.trace, std::span(blocks).subspan(at, count),
                                   buffer.bytes().first(count * block_bytes));
        if (read) {
            at += count;
            continue;
        }
        const bool mismatch = read.error().code == Code::corrupt;
        if (!mismatch && count > 1) {
            one_by_one = true;  // the error does not say which one
            continue;
        }
        if (mismatch) at += read.error().detail / block_bytes - 1;
        problem(fmt::format("{}, {}, {}; restore the file from a copy, and check the device",
                            place_of(key, {places[at] * block_bytes, block_bytes}),
                            blocks_text(blocks[at].address, 1),
                            mismatch ? "does not match its checksum"
                                     : fmt::format("cannot be read: {}", describe(read.error()))));
        ++at;
    }
    co_return Result<>();
}

// ---- containers and summaries --------------------------------------------------------------

void PoolCheck::begin_container(object::ContainerId id) {
    container_ = id;
    const auto record = pool_.state.containers.find(id);
    record_ = record == pool_.state.containers.end() ? nullptr : &record->second;
    checked_ = record_ == nullptr ? nullptr : &containers_.at(id);
    used_ = {};
    container_unreadable_ = false;
}

void PoolCheck::end_container() {
    if (record_ == nullptr) {
        problem(fmt::format(
            "the index has entries of container {}, which does not exist: their space is lost; "
            "copy the pool's containers into a new pool to have it again",
            container_.uuid.to_string()));
        return;
    }
    if (container_unreadable_) {
        options_.unjudged(container_,
                          "what the container uses, because an entry of it cannot be read");
        return;
    }
    const object::Amount& counted = record_->value.used;
    if (counted == used_) return;
    problem(fmt::format(
        "the container counts {} bytes and {} single values as used, and has {} and {}: its caps "
        "are wrong by the difference; copy it into a new container",
        counted.bytes, counted.values, used_.bytes, used_.values));
}

Task<Result<>> PoolCheck::end_object(TableScan& summaries) {
    const std::pair last(container_, *object_);
    while (true) {
        ROS2S_CO_TRY_ASSIGN(const TableScan::Item* const item, co_await summaries.peek());
        if (item == nullptr) break;
        const auto key = parse_summary_key(item->key);
        if (key && std::pair(key->container, key->object) > last) break;
        const Result<SummaryValue> value = decode_summary(item->value);
        const bool is_here = key && std::pair(key->container, key->object) == last;
        if (!key || !value) {
            problem(fmt::format("a summary of {} cannot be used: {}; {}",
                                key ? object_text(key->container, key->object, key->akey)
                                    : std::string("the index"),
                                key ? describe(value.error()) : "its key is none", restore));
            // It exists, and no more is said about it.
            if (is_here) akeys_[key->akey].has_summary = true;
        } else if (!is_here) {
            check_summary(*key, *value, nullptr);
        } else if (!object_unreadable_ && !too_many_akeys_ && record_ != nullptr) {
            const auto counts = akeys_.find(key->akey);
            check_summary(*key, *value, counts == akeys_.end() ? nullptr : &counts->second);
        }
        summaries.next();
    }
    if (too_many_akeys_) {
        options_.unjudged(container_,
                          fmt::format("the summaries of object {:016x}.{:016x}, which has more "
                                      "than {} different akeys",
                                      object_->high, object_->low, akeys_max));
    } else if (!object_unreadable_ && record_ != nullptr) {
        for (const auto& [akey, counts] : akeys_) {
            if (counts.has_summary) continue;
            problem(fmt::format("{} has entries and no summary: it is not listed; {}",
                                object_text(container_, *object_, akey), restore));
        }
    }
    akeys_.clear();
    object_.reset();
    head_.reset();
    object_unreadable_ = too_many_akeys_ = false;
    co_return Result<>();
}

Task<Result<>> PoolCheck::end_summaries(TableScan& summaries) {
    // As if an object followed that is greater than all.
    container_ = {};
    Uuid last;
    std::ranges::fill(last.bytes, uint8_t{0xff});
    container_.uuid = last;
    object_ = object::ObjectId{UINT64_MAX, UINT64_MAX};
    return end_object(summaries);
}

// `counts`: of the entries; null: there are none.
void PoolCheck::check_summary(const SummaryKey& key, const SummaryValue& value,
                              AkeyCounts* counts) {
    const AkeyCounts none;
    const AkeyCounts& real = counts != nullptr ? *counts : none;
    if (counts != nullptr) counts->has_summary = true;
    const bool highest =
        !value.highest_known || value.entries == 0 || value.highest == real.highest;
    if (value.entries == real.entries && value.blocks == real.blocks && highest) return;
    options_.problem(
        key.container,
        fmt::format("the summary of {} counts {} entries and {} blocks{}, and there are {} and {}: "
                    "sizes and lists of the object are wrong; {}",
                    object_text(key.container, key.object, key.akey), value.entries, value.blocks,
                    highest ? "" : " and has another highest dkey", real.entries, real.blocks,
                    restore));
}

// ---- blocks --------------------------------------------------------------------------------

Task<Result<>> PoolCheck::name_shared_blocks() {
    if (shared_.empty()) co_return Result<>();
    TableScan entries(pool_.cores, Table::entries);
    while (true) {
        ROS2S_CO_TRY(call_.check(home().env.reactor));
        ROS2S_CO_TRY_ASSIGN(const TableScan::Item* const item, co_await entries.peek());
        if (item == nullptr) break;
        const auto key = parse_entry_key(item->key);
        const Result<EntryValue> value = decode_entry(item->value);
        for (uint32_t i = 0; key && value && i < value->map.end(); ++i) {
            const auto found = shared_.find(value->map.at(i).address);
            if (found == shared_.end()) continue;
            std::string place = place_of(
                *key, {(key->segment * uint64_t{segment_blocks} + i) * block_bytes, block_bytes});
            found->second.push_back(std::move(place));
        }
        entries.next();
    }
    for (const auto& [address, places] : shared_) {
        problem(fmt::format(
            "{} belongs to {} entries, {}: a write to one changes the other; restore the pool from "
            "a copy, or remove both objects",
            blocks_text(address, 1), places.size(), fmt::join(places, " and ")));
    }
    co_return Result<>();
}

void PoolCheck::find_unnamed_blocks() {
    Runs unnamed([&](BlockAddress first, uint64_t blocks) {
        problem(fmt::format(
            "the space map has {} as in use, and no entry of the index names {}: the space is "
            "lost; copy the pool's containers into a new pool to have it again",
            blocks_text(first, blocks), blocks == 1 ? "it" : "them"));
    });
    const SpaceMap& space = pool_.state.space;
    for (uint32_t d = 0; d < space.devices(); ++d) {
        const auto used = space.used_bits(d);
        for (size_t word = 0; word < used.size(); ++word) {
            for (uint64_t left = used[word] & ~claimed_[d][word]; left != 0; left &= left - 1) {
                const auto bit = static_cast<uint64_t>(std::countr_zero(left));
                unnamed.add(BlockAddress::make(d, word * 64 + bit));
            }
        }
    }
}

}  // namespace ros2s::engine
