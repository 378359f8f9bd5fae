#include "ros2s/device/sim/sim_disk.h"

#include <algorithm>

#include "ros2s/base/check.h"
#include "ros2s/base/crc32c.h"

namespace ros2s::device {
namespace {

constexpr uint64_t sector_bytes = 512;
constexpr uint64_t sectors_per_block = block_bytes / sector_bytes;
constexpr uint64_t line_bytes = 64;  // of a processor's cache
constexpr uint64_t word_bytes = 8;   // what memory stores as a whole

}  // namespace

SimDisk::InFlight::~InFlight() { std::erase(disk.in_flight_, this); }

SimDisk::SimDisk(Random& random, SimDiskOptions options, std::string name)
    : random_(random), options_(options), name_(std::move(name)) {
    ROS2S_CHECK(options_.size > 0 && options_.size % block_bytes == 0);
    // calloc of this size maps zero pages, which cost nothing until they are written.
    image_.reset(static_cast<std::byte*>(std::calloc(options_.size, 1)));
    ROS2S_CHECK(image_ != nullptr);
}

SimDisk::~SimDisk() { ROS2S_CHECK(in_flight_.empty()); }

size_t SimDisk::in_flight(SimKind kind) const {
    return static_cast<size_t>(std::ranges::count_if(
        in_flight_, [kind](const InFlight* each) { return each->kind == kind; }));
}

void SimDisk::begin(InFlight& operation) {
    in_flight_.push_back(&operation);
    if (operation.kind == SimKind::write) operation.crc = crc32c(operation.from);
    if (operation.kind == SimKind::flush) operation.flushed_upto = sequence_;
    const SimOperation seen{.kind = operation.kind,
                            .offset = operation.offset,
                            .length = operation.length,
                            .index = operations_++,
                            .unflushed_writes = unflushed_.size(),
                            .writes_in_flight = writes_in_flight(),
                            .flushes_in_flight = in_flight(SimKind::flush)};
    // A copy, so that a hook may replace itself.
    if (const Hook hook = hook_) operation.fault = hook(seen);
}

Duration SimDisk::latency(const InFlight& operation) {
    const Duration most = operation.kind == SimKind::read    ? options_.read_latency
                          : operation.kind == SimKind::flush ? options_.flush_latency
                                                             : options_.write_latency;
    if (operation.fault == SimFault::slow) return most * 100;
    const auto half = static_cast<uint64_t>(most.count()) / 2;
    return Duration(half + random_.below(half + 1));
}

Result<> SimDisk::finish(InFlight& operation) {
    if (operation.frozen) return fail_errno(EIO);
    std::erase(in_flight_, &operation);
    if (operation.kind == SimKind::write) {
        // Fails if the caller wrote into memory that belonged to the device.
        ROS2S_CHECK(crc32c(operation.from) == operation.crc);
    }
    if (operation.fault == SimFault::error) {
        fail_operation(operation);
        return fail_errno(EIO);
    }
    if (operation.fault == SimFault::declined) return fail(Code::unsupported);
    discard_late();
    switch (operation.kind) {
        case SimKind::read: finish_read(operation); break;
        case SimKind::write: finish_write(operation); break;
        case SimKind::flush: flush_upto(operation.flushed_upto); break;
        case SimKind::discard: discard(operation.offset, operation.length); break;
    }
    return {};
}

void SimDisk::finish_read(InFlight& operation) {
    uint64_t offset = operation.offset;
    if (operation.fault == SimFault::misdirected) offset = elsewhere(offset, operation.length);
    if (operation.fault == SimFault::rotten) rot(offset + random_.below(operation.length));
    peek(offset, operation.into);
    // Sectors of writes that are in flight over the same blocks.
    for (const InFlight* other : in_flight_) {
        if (other->kind != SimKind::write) continue;
        const uint64_t begin = std::max(offset, other->offset);
        const uint64_t end = std::min(offset + operation.length, other->offset + other->length);
        for (uint64_t at = begin; at < end; at += block_bytes) {
            tear(operation.into.data() + (at - offset), other->from.data() + (at - other->offset));
        }
    }
}

void SimDisk::finish_write(InFlight& operation) {
    uint64_t offset = operation.offset;
    switch (operation.fault) {
        case SimFault::lost: return;
        case SimFault::misdirected: offset = elsewhere(offset, operation.length); break;
        default: break;
    }
    ++sequence_;
    unflushed_.push_back(sequence_);
    store(offset, operation.from);
    if (operation.fault == SimFault::rotten) {
        const uint64_t at = offset + random_.below(operation.length);
        auto& bytes = *cache_.at(at / block_bytes).back().bytes;
        bytes[at % block_bytes] ^= std::byte{1} << random_.below(8);
    }
    if (options_.memory) flush_upto(sequence_);
}

void SimDisk::fail_operation(InFlight& operation) {
    if (operation.kind == SimKind::write) {
        ++sequence_;
        unflushed_.push_back(sequence_);
        store_part(operation.offset, operation.from);
        if (options_.memory) flush_upto(sequence_);
    }
    if (operation.kind == SimKind::flush) {
        for (auto& [block, versions] : cache_) {
            for (auto& version : versions) version.doomed |= random_.one_in(2);
        }
    }
    if (operation.kind == SimKind::discard) {
        failed_discards_.push_back({operation.offset, operation.length});
    }
}

void SimDisk::discard_late() {
    std::erase_if(failed_discards_, [this](const Range& each) {
        if (!random_.one_in(8)) return false;
        discard(each.offset, each.length);
        return true;
    });
}

void SimDisk::flush_upto(uint64_t sequence) {
    for (auto entry = cache_.begin(); entry != cache_.end();) {
        auto& [block, versions] = *entry;
        // The newest that the flush covers replaces all before it, given up or not.
        const auto newest = std::find_if(versions.rbegin(), versions.rend(), [&](const auto& each) {
            return each.sequence <= sequence && !each.doomed;
        });
        if (newest != versions.rend()) {
            std::memcpy(&image_[block * block_bytes], newest->bytes->data(), block_bytes);
            versions.erase(versions.begin(), newest.base());
        }
        entry = versions.empty() ? cache_.erase(entry) : std::next(entry);
    }
    std::erase_if(unflushed_, [sequence](uint64_t each) { return each <= sequence; });
}

void SimDisk::discard(uint64_t offset, uint64_t length) {
    ++sequence_;
    for (uint64_t at = offset; at < offset + length; at += block_bytes) {
        Block block{};
        switch (random_.below(3)) {
            case 0: continue;
            case 1: break;
            default:
                for (auto& byte : block) byte = static_cast<std::byte>(random_.below(256));
        }
        add_version(at / block_bytes, block.data(), sequence_);
    }
}

void SimDisk::freeze() {
    for (InFlight* operation : in_flight_) operation->frozen = true;
    in_flight_.clear();
    failed_discards_.clear();
    ++generation_;
    open_ = false;
}

void SimDisk::power_loss() {
    for (const InFlight* operation : in_flight_) {
        if (operation->kind == SimKind::discard) discard(operation->offset, operation->length);
        if (operation->kind != SimKind::write || operation->fault == SimFault::lost) continue;
        ++sequence_;
        store(operation->offset, operation->from);
    }
    freeze();
    // How many of eight survive: none, few, half, most, all.
    constexpr std::array<uint64_t, 5> shares{0, 1, 4, 7, 8};
    const uint64_t share = shares[random_.below(shares.size())];
    for (auto& [block, versions] : cache_) {
        for (auto& version : versions) {
            if (random_.below(8) >= share) continue;
            std::byte* medium = &image_[block * block_bytes];
            if (options_.torn_sectors && random_.one_in(4)) {
                tear(medium, version.bytes->data());
            } else {
                std::memcpy(medium, version.bytes->data(), block_bytes);
            }
        }
    }
    cache_.clear();
    unflushed_.clear();
}

void SimDisk::process_crash() {
    const std::vector<InFlight*> interrupted = in_flight_;
    for (const InFlight* operation : interrupted) {
        if (operation->kind == SimKind::write && operation->fault != SimFault::lost) {
            ++sequence_;
            unflushed_.push_back(sequence_);
            store_part(operation->offset, operation->from);
            if (options_.memory) flush_upto(sequence_);
        }
        if (operation->kind == SimKind::discard) discard(operation->offset, operation->length);
        if (operation->kind == SimKind::flush && operation->fault != SimFault::error &&
            random_.one_in(2)) {
            flush_upto(operation->flushed_upto);
        }
    }
    freeze();
}

void SimDisk::peek(uint64_t offset, Bytes into) const {
    ROS2S_CHECK(offset <= size() && into.size() <= size() - offset);
    for (size_t done = 0; done < into.size();) {
        const uint64_t at = offset + done;
        const size_t within = at % block_bytes;
        const size_t part = std::min<size_t>(block_bytes - within, into.size() - done);
        std::memcpy(into.data() + done, content(at / block_bytes) + within, part);
        done += part;
    }
}

void SimDisk::poke(uint64_t offset, ConstBytes from) {
    ROS2S_CHECK(offset <= size() && from.size() <= size() - offset);
    std::memcpy(&image_[offset], from.data(), from.size());
    for (size_t done = 0; done < from.size();) {
        const uint64_t at = offset + done;
        const size_t within = at % block_bytes;
        const size_t part = std::min<size_t>(block_bytes - within, from.size() - done);
        if (const auto cached = cache_.find(at / block_bytes); cached != cache_.end()) {
            for (auto& version : cached->second) {
                std::memcpy(version.bytes->data() + within, from.data() + done, part);
            }
        }
        done += part;
    }
}

void SimDisk::rot(uint64_t offset) {
    const std::byte bit = std::byte{1} << random_.below(8);
    image_[offset] ^= bit;
    if (const auto cached = cache_.find(offset / block_bytes); cached != cache_.end()) {
        for (auto& version : cached->second) (*version.bytes)[offset % block_bytes] ^= bit;
    }
}

void SimDisk::add_version(uint64_t block, const std::byte* bytes, uint64_t sequence) {
    auto copy = std::make_unique<Block>();
    std::memcpy(copy->data(), bytes, block_bytes);
    cache_[block].push_back({sequence, false, std::move(copy)});
}

void SimDisk::store(uint64_t offset, ConstBytes from) {
    for (uint64_t done = 0; done < from.size(); done += block_bytes) {
        add_version((offset + done) / block_bytes, from.data() + done, sequence_);
    }
}

void SimDisk::store_part(uint64_t offset, ConstBytes from) {
    for (uint64_t done = 0; done < from.size(); done += block_bytes) {
        const uint64_t block = (offset + done) / block_bytes;
        const std::byte* fresh = from.data() + done;
        switch (random_.below(options_.torn_sectors ? 4 : 2)) {
            case 0: break;
            case 3: {
                Block torn;
                std::memcpy(torn.data(), content(block), block_bytes);
                tear(torn.data(), fresh);
                add_version(block, torn.data(), sequence_);
                break;
            }
            default: add_version(block, fresh, sequence_);
        }
    }
}

void SimDisk::tear(std::byte* old_and_result, const std::byte* fresh) {
    if (options_.memory) return tear_lines(old_and_result, fresh);
    const uint64_t chosen = random_.next();
    for (uint64_t sector = 0; sector < sectors_per_block; ++sector) {
        if ((chosen >> sector & 1) == 0) continue;
        std::memcpy(old_and_result + sector * sector_bytes, fresh + sector * sector_bytes,
                    sector_bytes);
    }
}

void SimDisk::tear_lines(std::byte* old_and_result, const std::byte* fresh) {
    for (uint64_t line = 0; line < block_bytes; line += line_bytes) {
        const uint64_t kept = random_.below(4);  // none, all, or some words
        const uint64_t chosen = kept == 0 ? 0 : kept == 1 ? ~uint64_t{0} : random_.next();
        for (uint64_t word = 0; word < line_bytes / word_bytes; ++word) {
            if ((chosen >> word & 1) == 0) continue;
            const uint64_t at = line + word * word_bytes;
            std::memcpy(old_and_result + at, fresh + at, word_bytes);
        }
    }
}

const std::byte* SimDisk::content(uint64_t block) const {
    const auto cached = cache_.find(block);
    if (cached != cache_.end()) return cached->second.back().bytes->data();
    return &image_[block * block_bytes];
}

uint64_t SimDisk::elsewhere(uint64_t offset, uint64_t length) {
    const uint64_t places = (size() - length) / block_bytes + 1;
    const uint64_t here = offset / block_bytes;
    if (places < 2) return offset;
    return (here + 1 + random_.below(places - 1)) % places * block_bytes;
}

}  // namespace ros2s::device
