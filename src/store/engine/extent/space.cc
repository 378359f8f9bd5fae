#include "space.h"

#include <algorithm>
#include <bit>

#include "ros2s/base/bytes.h"
#include "ros2s/base/check.h"
#include "ros2s/engine/rules/commit_rules.h"

namespace ros2s::engine {
namespace {

bool test(const std::vector<uint64_t>& bits, uint64_t at) {
    return (bits[at / 64] >> (at % 64) & 1) != 0;
}
void set(std::vector<uint64_t>& bits, uint64_t at) { bits[at / 64] |= uint64_t{1} << (at % 64); }
void clear(std::vector<uint64_t>& bits, uint64_t at) {
    bits[at / 64] &= ~(uint64_t{1} << (at % 64));
}

// The distance that a search covers beyond its cursor before it takes the best runs so far. Looking
// through small pieces takes time, and a small group gains little from the longest ones.
uint64_t window_for(uint64_t blocks) {
    return std::clamp<uint64_t>(64 * blocks, 4096, 2 * SpaceMap::region_blocks);
}

}  // namespace

void SpaceMap::set_section_blocks(uint32_t blocks) {
    ROS2S_CHECK(devices_.empty() && std::has_single_bit(blocks) && blocks <= region_blocks);
    section_blocks_ = blocks;
}

void SpaceMap::add_device(uint64_t first, uint64_t end) {
    ROS2S_CHECK(first < end);
    Device device{.first = first, .end = end, .cursor = first, .move_cursor = first};
    const uint64_t regions = (end + region_blocks - 1) / region_blocks;
    device.used_bits.resize(regions * region_blocks / 64);
    device.available_bits.resize(device.used_bits.size());
    device.regions.resize(regions);
    device.sections.resize((end + section_blocks_ - 1) / section_blocks_);
    device.section_available.resize(device.sections.size());
    device.section_used.resize(device.sections.size());
    devices_.push_back(std::move(device));
}

Result<> SpaceMap::load_region(uint32_t number, uint32_t region, std::string_view bits) {
    if (number >= devices_.size()) return fail(Code::corrupt);
    Device& device = devices_[number];
    if (region >= device.regions.size() || bits.size() != region_blocks / 8) {
        return fail(Code::corrupt);
    }
    uint64_t* words = device.used_bits.data() + region * (region_blocks / 64);
    std::copy_n(bits.data(), bits.size(), reinterpret_cast<char*>(words));
    for (uint64_t i = 0; i < region_blocks / 64; ++i) {
        if (words[i] == 0) continue;
        const uint64_t block = region * region_blocks + i * 64;
        const uint64_t lowest = block + static_cast<uint64_t>(std::countr_zero(words[i]));
        const uint64_t highest = block + 63 - static_cast<uint64_t>(std::countl_zero(words[i]));
        if (lowest < device.first || highest >= device.end) return fail(Code::corrupt);
        device.used += static_cast<uint64_t>(std::popcount(words[i]));
        count_word(device.section_used, block, words[i]);
    }
    return {};
}

void SpaceMap::make_available() {
    quarantine_.clear();
    quarantined_ = 0;
    for (uint32_t device = 0; device < devices_.size(); ++device) make_available(device);
}
void SpaceMap::make_available(uint32_t number) {
    Device& device = devices_[number];
    device.available = device.found_blocks = device.clear = 0;
    std::ranges::fill(device.section_available, 0);
    for (size_t i = 0; i < device.used_bits.size(); ++i) {
        // The bits of this word within [first, end).
        const uint64_t begin = std::clamp<uint64_t>(device.first, i * 64, i * 64 + 64) - i * 64;
        const uint64_t end = std::clamp<uint64_t>(device.end, i * 64, i * 64 + 64) - i * 64;
        const uint64_t below_end = end == 64 ? ~uint64_t{0} : (uint64_t{1} << end) - 1;
        const uint64_t below_begin = begin == 64 ? ~uint64_t{0} : (uint64_t{1} << begin) - 1;
        const uint64_t free = ~device.used_bits[i] & below_end & ~below_begin;
        device.available_bits[i] = free;
        device.available += static_cast<uint64_t>(std::popcount(free));
        if (free != 0) count_word(device.section_available, i * 64, free);
    }
    const auto all = static_cast<uint16_t>(section_blocks_);
    device.clear = static_cast<uint64_t>(std::ranges::count(device.section_available, all));
}

// Adds the bits of a word to the counts of its sections.
void SpaceMap::count_word(std::vector<uint16_t>& sections, uint64_t block, uint64_t word) const {
    const uint32_t each = std::min<uint32_t>(section_blocks_, 64);
    const uint64_t mask = each == 64 ? ~uint64_t{0} : (uint64_t{1} << each) - 1;
    for (uint32_t at = 0; at < 64; at += each) {
        const auto count = static_cast<uint16_t>(std::popcount(word >> at & mask));
        if (count > 0) sections[(block + at) / section_blocks_] += count;
    }
}

// The block becomes available, or is taken.
void SpaceMap::count_available(Device& device, uint64_t block, bool more) const {
    uint16_t& count = device.section_available[block / section_blocks_];
    if (!more) {
        device.clear -= count-- == section_blocks_ ? 1 : 0;
        return;
    }
    if (++count < section_blocks_) return;
    ++device.clear;
    uint8_t& flags = device.sections[block / section_blocks_];
    device.victims -= (flags & is_chosen) != 0 ? 1 : 0;
    flags &= static_cast<uint8_t>(~is_chosen);
}

bool SpaceMap::contains(BlockAddress address) const {
    return address.device() < devices_.size() &&
           address.block() >= devices_[address.device()].first &&
           address.block() < devices_[address.device()].end;
}
uint64_t SpaceMap::total_blocks() const {
    uint64_t blocks = 0;
    for (const Device& device : devices_) blocks += device.end - device.first - device.kept;
    return blocks;
}
uint64_t SpaceMap::used_blocks() const {
    uint64_t blocks = 0;
    for (const Device& device : devices_) blocks += device.used;
    return blocks;
}
size_t SpaceMap::memory_bytes() const {
    size_t bytes = quarantine_.size() * sizeof(Displaced);
    for (const Device& device : devices_) {
        bytes += 2 * device.used_bits.size() * sizeof(uint64_t) + device.regions.size() +
                 device.sections.size() * (2 * sizeof(uint16_t) + 1);
    }
    return bytes;
}

uint64_t SpaceMap::unused_blocks_most() const {
    uint64_t most = 0;
    for (const Device& device : devices_) {
        most = std::max(most, device.end - device.first - device.used);
    }
    return most;
}

bool SpaceMap::has_reservations() const {
    return std::ranges::any_of(devices_, [](const Device& device) { return device.reserved > 0; });
}

bool SpaceMap::reserve(uint32_t number, uint64_t blocks, Need need) {
    if (available_blocks(number, need) < blocks) return false;
    devices_[number].reserved += blocks;
    return true;
}
void SpaceMap::unreserve(uint32_t number, uint64_t blocks) {
    ROS2S_CHECK(devices_[number].reserved >= blocks);
    devices_[number].reserved -= blocks;
}

// The first run at or after `from`; it is followed no further than `enough` blocks.
SpaceMap::FreeRun SpaceMap::next_run(const Device& device, uint64_t from, uint64_t end,
                                     uint64_t enough) {
    const auto& bits = device.available_bits;
    uint64_t at = from;
    while (at < end) {
        const uint64_t word = bits[at / 64] >> (at % 64);
        if (word != 0) {
            at += static_cast<uint64_t>(std::countr_zero(word));
            break;
        }
        at = round_down<uint64_t>(at, 64) + 64;
    }
    if (at >= end) return {end, 0};
    const uint64_t first = at;
    while (at < end && at - first < enough) {
        const uint64_t word = ~(bits[at / 64] >> (at % 64));
        const auto ones = static_cast<uint64_t>(std::countr_zero(word));
        const uint64_t left = 64 - at % 64;
        at += std::min(ones, left);
        if (ones < left) break;
    }
    return {first, std::min({at, end, first + enough}) - first};
}

namespace {

bool longer(const SpaceMap::FreeRun& a, const SpaceMap::FreeRun& b) {
    return a.blocks != b.blocks ? a.blocks > b.blocks : a.first < b.first;
}

}  // namespace

// The longest runs of those offered, a bounded number.
class SpaceMap::Longest {
  public:
    explicit Longest(std::vector<FreeRun>& runs) : runs_(runs) { runs_.clear(); }
    void offer(FreeRun run) {
        if (runs_.size() == kept_max) {
            if (!longer(run, runs_.front())) return;
            std::ranges::pop_heap(runs_, longer);  // the shortest
            runs_.pop_back();
        }
        runs_.push_back(run);
        std::ranges::push_heap(runs_, longer);
    }
    void only(FreeRun run) { runs_.assign(1, run); }

    static constexpr size_t kept_max = 64;

  private:
    std::vector<FreeRun>& runs_;
};

// Offers the runs in [from, end) that are in no victim. True if one run is enough: it is then the
// only one.
bool SpaceMap::look(const Device& device, uint64_t from, uint64_t end, uint64_t blocks,
                    Longest& longest) const {
    while (from < end) {
        uint64_t stop = end;
        if (device.victims > 0) {
            const uint64_t next = round_down<uint64_t>(from, section_blocks_) + section_blocks_;
            if (is_victim(device, from)) {
                from = next;
                continue;
            }
            stop = next;
            while (stop < end && !is_victim(device, stop)) stop += section_blocks_;
            stop = std::min(stop, end);
        }
        const FreeRun run = next_run(device, from, stop, blocks);
        if (run.blocks == blocks) {
            longest.only(run);
            return true;
        }
        if (run.blocks > 0) longest.offer(run);
        from = run.blocks == 0 ? stop : run.first + run.blocks;
    }
    return false;
}

// Finds clear sections, from the cursor on. False if none may be taken.
bool SpaceMap::find_clear(Device& device, uint64_t blocks, Purpose purpose) const {
    // A small group gains less than a large one.
    const bool is_small = blocks < section_blocks_ && purpose == Purpose::update;
    const uint64_t left = is_small ? device.unused() / section_blocks_ / clear_left_share : 0;
    if (device.clear <= left) return false;
    const size_t sections = device.sections.size();
    const size_t first = device.cursor / section_blocks_;
    std::vector<FreeRun>& found = device.found;
    found.clear();
    uint64_t sum = 0;
    for (size_t i = 0; i < sections && sum < blocks && found.size() < Longest::kept_max; ++i) {
        const size_t section = first + i < sections ? first + i : first + i - sections;
        if (device.section_available[section] != section_blocks_) continue;
        const uint64_t at = uint64_t{section} * section_blocks_;
        const uint64_t taken = std::min<uint64_t>(section_blocks_, blocks - sum);
        if (!found.empty() && found.back().first + found.back().blocks == at) {
            found.back().blocks += taken;
        } else {
            found.push_back({at, taken});
        }
        sum += taken;
    }
    device.next_found = 0;
    device.found_blocks = sum;
    return sum > 0;
}

// Finds runs for `blocks` blocks, or for a part of them: one that is long enough, otherwise clear
// sections, otherwise as few runs as the window after the cursor allows. They are in order from the
// cursor on.
void SpaceMap::search(Device& device, uint64_t blocks, Purpose purpose) const {
    std::vector<FreeRun>& found = device.found;
    Longest longest(found);
    const uint64_t window = window_for(blocks);
    // Window by window, until one has a run.
    const auto look_on = [&](uint64_t from, uint64_t end) {
        for (; from < end && found.empty(); from += window) {
            if (look(device, from, std::min(end, from + window), blocks, longest)) return;
        }
    };
    look_on(device.cursor, device.end);
    if (found.empty()) {
        look_on(device.first, device.cursor);
    } else if (found[0].blocks < blocks && device.end - device.cursor < window) {
        // A short run at the device's end must not split a group.
        look(device, device.first, std::min(device.cursor, device.first + window), blocks, longest);
    }
    if (found.empty() && device.victims > 0) {
        // All that is left is in victims.
        forget_victims(device);
        return search(device, blocks, purpose);
    }
    const bool is_one_enough = found.size() == 1 && found[0].blocks == blocks;
    if (!is_one_enough && device.clear > 0 && find_clear(device, blocks, purpose)) return;
    std::ranges::sort(found, longer);
    size_t count = 0;
    uint64_t sum = 0;
    for (; count < found.size() && sum < blocks; ++count) sum += found[count].blocks;
    found.resize(count);
    std::ranges::sort(found, {}, [&](const FreeRun& run) {
        return std::pair(run.first < device.cursor, run.first);
    });
    device.next_found = 0;
    device.found_blocks = sum;
}

void SpaceMap::look_ahead(uint32_t number, uint64_t blocks) {
    Device& device = devices_[number];
    if (device.found_blocks < blocks && device.available >= blocks) search(device, blocks);
}

// The next of the found runs, at most `blocks` blocks of it.
SpaceMap::FreeRun SpaceMap::take_found(Device& device, uint64_t blocks) {
    FreeRun& run = device.found[device.next_found];
    const FreeRun taken{run.first, std::min(run.blocks, blocks)};
    run.first += taken.blocks;
    run.blocks -= taken.blocks;
    if (run.blocks == 0) ++device.next_found;
    device.found_blocks -= taken.blocks;
    device.cursor = run.first < device.end ? run.first : device.first;
    return taken;
}

void SpaceMap::allocate(uint32_t number, uint64_t blocks, std::vector<BlockRun>& runs,
                        Purpose purpose) {
    Device& device = devices_[number];
    unreserve(number, blocks);
    ROS2S_CHECK(device.available >= blocks);
    device.available -= blocks;
    if (purpose == Purpose::move) {
        // Beside the runs that were found for updates.
        std::swap(device.cursor, device.move_cursor);
        device.found_blocks = 0;
    }
    // Runs that were found for a smaller allocation must not split this one.
    if (device.found_blocks < blocks) search(device, blocks, purpose);
    while (blocks > 0) {
        if (device.found_blocks == 0) search(device, blocks, purpose);
        ROS2S_CHECK(device.found_blocks > 0);
        const FreeRun run = take_found(device, blocks);
        for (uint64_t i = 0; i < run.blocks; ++i) {
            clear(device.available_bits, run.first + i);
            count_available(device, run.first + i, false);
        }
        blocks -= run.blocks;
        const BlockAddress first = BlockAddress::make(number, run.first);
        if (!runs.empty() && runs.back().first + runs.back().blocks == first) {
            runs.back().blocks += static_cast<uint32_t>(run.blocks);
        } else {
            runs.push_back({first, static_cast<uint32_t>(run.blocks)});
        }
    }
    if (purpose == Purpose::move) {
        std::swap(device.cursor, device.move_cursor);
        device.found_blocks = 0;
    }
}

bool SpaceMap::mark_used(BlockAddress address) {
    Device& device = devices_[address.device()];
    touch(address.device(), address.block());
    const bool fits = !test(device.used_bits, address.block());
    device.used += fits ? 1 : 0;
    device.section_used[address.block() / section_blocks_] += fits ? 1 : 0;
    set(device.used_bits, address.block());
    return fits;
}

bool SpaceMap::mark_free(BlockAddress address, uint64_t group) {
    Device& device = devices_[address.device()];
    touch(address.device(), address.block());
    if (!test(device.used_bits, address.block())) return false;
    clear(device.used_bits, address.block());
    --device.used;
    --device.section_used[address.block() / section_blocks_];
    if (!rules.quarantine) {
        give_back(address, 1);
        return true;
    }
    ++quarantined_;
    if (!quarantine_.empty()) {
        Displaced& last = quarantine_.back();
        if (last.group == group && last.first + last.blocks == address) {
            ++last.blocks;
            return true;
        }
    }
    quarantine_.push_back({group, address, 1});
    return true;
}

void SpaceMap::set_discard(uint32_t device, uint64_t blocks_least) {
    devices_[device].discard_least = blocks_least;
}

bool SpaceMap::release(uint64_t group, std::vector<BlockRun>& apart) {
    bool any = false;
    while (!quarantine_.empty() && quarantine_.front().group <= group) {
        const Displaced& displaced = quarantine_.front();
        const uint64_t least = devices_[displaced.first.device()].discard_least;
        const bool is_apart = least > 0 && displaced.blocks >= least;
        if (is_apart) apart.push_back({displaced.first, displaced.blocks});
        if (is_apart && rules.discard_ends_first) {
            discarding_ += displaced.blocks;
        } else {
            give_back(displaced.first, displaced.blocks);
        }
        quarantined_ -= displaced.blocks;
        quarantine_.pop_front();
        any = true;
    }
    return any;
}

void SpaceMap::discarded(BlockRun run) {
    if (!rules.discard_ends_first) return;
    discarding_ -= run.blocks;
    give_back(run.first, run.blocks);
}

void SpaceMap::give_back(BlockAddress first, uint64_t blocks) {
    Device& device = devices_[first.device()];
    for (uint64_t i = 0; i < blocks; ++i) {
        if (test(device.available_bits, first.block() + i)) continue;
        set(device.available_bits, first.block() + i);
        count_available(device, first.block() + i, true);
        ++device.available;
    }
}

// ---- the cleaner ---------------------------------------------------------------------------

uint64_t SpaceMap::choose_victims(uint32_t number, uint64_t gain, uint64_t moves_max) {
    Device& device = devices_[number];
    // Sections by their used blocks. Moving a section with more would cost more than it gains.
    const uint32_t used_max = section_blocks_ / 8 * 7;
    std::vector<uint32_t> with(used_max + 1);
    const auto is_candidate = [&](size_t section) {
        const uint16_t used = device.section_used[section];
        return used > 0 && used <= used_max && (device.sections[section] & is_spared) == 0;
    };
    for (size_t i = 0; i < device.sections.size(); ++i) {
        if (is_candidate(i)) ++with[device.section_used[i]];
    }
    uint64_t gained = 0, moves = 0;
    uint32_t most = 0;         // sections with fewer used blocks are victims,
    uint64_t of_the_most = 0;  // and this many with as many
    for (uint32_t used = 1; used <= used_max && gained < gain && moves < moves_max; ++used) {
        const uint64_t each = section_blocks_ - used;
        of_the_most = std::min<uint64_t>(
            {with[used], (gain - gained + each - 1) / each, (moves_max - moves) / used});
        gained += of_the_most * each;
        moves += of_the_most * used;
        most = used;
        if (of_the_most < with[used]) break;
    }
    for (size_t i = 0; i < device.sections.size(); ++i) {
        if (!is_candidate(i) || device.section_used[i] > most) continue;
        if (device.section_used[i] == most) {
            if (of_the_most == 0) continue;
            --of_the_most;
        }
        device.sections[i] |= is_chosen;
        ++device.victims;
    }
    // Runs that were found for the next group may be in victims.
    device.found_blocks = 0;
    return moves;
}

void SpaceMap::forget_victims(Device& device) const {
    if (device.victims == 0) return;
    for (uint8_t& flags : device.sections) flags &= static_cast<uint8_t>(~is_chosen);
    device.victims = 0;
}
void SpaceMap::forget_victims() {
    for (Device& device : devices_) forget_victims(device);
}

void SpaceMap::spare(BlockAddress address) {
    devices_[address.device()].sections[address.block() / section_blocks_] |= is_spared;
}

// ---- checkpoints ---------------------------------------------------------------------------

void SpaceMap::touch(uint32_t number, uint64_t block) {
    const auto region = static_cast<uint32_t>(block / region_blocks);
    uint8_t& flags = devices_[number].regions[region];
    if ((flags & is_in_cut) != 0) emit({number, region});
    if ((flags & is_dirty) != 0) return;
    flags |= is_dirty;
    dirty_.push_back({number, region});
}

void SpaceMap::emit(Region at) {
    Device& device = devices_[at.device];
    device.regions[at.region] &= static_cast<uint8_t>(~is_in_cut);
    const uint64_t* words = device.used_bits.data() + at.region * (region_blocks / 64);
    sink_->region(at.device, at.region, {reinterpret_cast<const char*>(words), region_blocks / 8});
}

void SpaceMap::begin_cut(CutSink& sink) {
    ROS2S_CHECK(cut_.empty());
    sink_ = &sink;
    cut_.swap(dirty_);
    if (!rules.cut_all_regions && !cut_.empty()) cut_.resize(1);
    for (const Region at : cut_) devices_[at.device].regions[at.region] = is_in_cut;
}

bool SpaceMap::take() {
    while (!cut_.empty()) {
        const Region at = cut_.back();
        cut_.pop_back();
        if ((devices_[at.device].regions[at.region] & is_in_cut) == 0) continue;
        emit(at);
        return true;
    }
    sink_ = nullptr;
    return false;
}

}  // namespace ros2s::engine
