#include "page_reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

namespace ros2s::fuse {
namespace {

// As /proc/PID/maps has a device: "00:35" for the mountinfo's "0:53".
std::string in_hexadecimal(const std::string& device) {
    unsigned major = 0, minor = 0;
    const char* const end = device.data() + device.size();
    const auto colon = std::from_chars(device.data(), end, major);
    if (colon.ptr != end) std::from_chars(colon.ptr + 1, end, minor);
    return fmt::format("{:02x}:{:02x}", major, minor);
}

// The files of the device that the program has mapped. Nothing if they cannot be read.
std::optional<std::set<uint64_t>> mapped_by(pid_t program, const std::string& device) {
    if (program == 0) return std::nullopt;
    std::set<uint64_t> mapped;
    errno = 0;
    std::ifstream maps(fmt::format("/proc/{}/maps", program));
    if (!maps) {
        if (errno == ENOENT || errno == ESRCH) return mapped;  // it has ended
        return std::nullopt;
    }
    std::string line;
    while (std::getline(maps, line)) {
        std::istringstream words(line);
        std::string addresses, permissions, offset, on;
        uint64_t inode = 0;
        words >> addresses >> permissions >> offset >> on >> inode;
        if (words && on == device) mapped.insert(inode);
    }
    return mapped;
}

}  // namespace

void PageReads::note(Time now, fs::NodeId node, pid_t program, uint64_t offset, uint64_t length) {
    const auto key = std::pair(node.value, program);
    auto found = reads_.find(key);
    if (found == reads_.end()) {
        if (reads_.size() >= reads_max) return;
        found = reads_.emplace(key, Pages{now + lifetime, offset, offset + length, {}}).first;
    }
    found->second.begin = std::min(found->second.begin, offset);
    found->second.end = std::max(found->second.end, offset + length);
}

bool PageReads::note_leased(fs::NodeId node, uint64_t lease) {
    if (leased_.size() >= leased_max && !leased_.contains(node.value)) return false;
    leased_.try_emplace(node.value, lease);
    return true;
}

bool PageReads::are_leased(fs::NodeId node, uint64_t lease) const {
    const auto found = leased_.find(node.value);
    return lease != 0 && found != leased_.end() && found->second == lease && !has_others(node);
}

std::vector<fs::NodeId> PageReads::take_all_leased() {
    std::vector<fs::NodeId> nodes;
    nodes.reserve(leased_.size());
    for (const auto& [node, lease] : leased_) nodes.push_back({node});
    leased_.clear();
    return nodes;
}

void PageReads::forget(fs::NodeId node) {
    reads_.erase(reads_.lower_bound({node.value, 0}), reads_.lower_bound({node.value + 1, 0}));
}

std::vector<PageReads::Read> PageReads::take_due(Time now) {
    std::vector<Read> due;
    for (auto each = reads_.begin(); each != reads_.end();) {
        const auto& [key, pages] = *each;
        if (pages.due > now) {
            ++each;
            continue;
        }
        due.push_back({{key.first}, key.second, pages.begin, pages.end, pages.changed});
        each = reads_.erase(each);
    }
    return due;
}

void PageReads::keep(Time now, const Read& read) {
    note(now, read.node, read.program, read.begin, read.end - read.begin);
    const auto kept = reads_.find({read.node.value, read.program});
    if (kept == reads_.end()) return;
    kept->second.due = now + lifetime;
    kept->second.changed = read.changed;
}

MappedReads find_mapped(const std::vector<PageReads::Read>& reads, const std::string& device) {
    const std::string on = in_hexadecimal(device);
    std::map<pid_t, std::optional<std::set<uint64_t>>> programs;
    MappedReads found;
    for (const PageReads::Read& each : reads) {
        const auto [known, is_new] = programs.try_emplace(each.program);
        if (is_new) known->second = mapped_by(each.program, on);
        const bool may_be_mapped = !known->second || known->second->contains(each.node.value);
        (may_be_mapped ? found.mapped : found.others).push_back(each);
    }
    return found;
}

}  // namespace ros2s::fuse
