#include "acl.h"

#include <algorithm>
#include <cstring>

namespace ros2s::fs {
namespace {

// Of <linux/posix_acl_xattr.h>; little-endian.
constexpr uint32_t version = 2;
struct EntryBytes {
    uint16_t tag;
    uint16_t permissions;
    uint32_t id;
};
static_assert(sizeof(EntryBytes) == 8);

constexpr uint16_t all_permissions = Wanted::read | Wanted::write | Wanted::search;

bool is_named(Acl::Tag tag) { return tag == Acl::Tag::user || tag == Acl::Tag::group; }

// The order of tags, and how often each may be there.
Result<> check(std::span<const Acl::Entry> entries) {
    using Tag = Acl::Tag;
    enum class Next : uint8_t { owner, users, groups, others, nothing } next = Next::owner;
    bool needs_mask = false;
    for (const Acl::Entry& each : entries) {
        bool fits = (each.permissions & ~all_permissions) == 0;
        switch (each.tag) {
            case Tag::owner:
                fits = fits && next == Next::owner;
                next = Next::users;
                break;
            case Tag::user: fits = fits && next == Next::users; break;
            case Tag::owning_group:
                fits = fits && next == Next::users;
                next = Next::groups;
                break;
            case Tag::group: fits = fits && next == Next::groups; break;
            case Tag::mask:
                fits = fits && next == Next::groups;
                next = Next::others;
                break;
            case Tag::others:
                fits = fits && (next == Next::others || (next == Next::groups && !needs_mask));
                next = Next::nothing;
                break;
            default: fits = false;
        }
        if (is_named(each.tag)) {
            needs_mask = true;
            fits = fits && each.id != Acl::no_id;
        }
        if (!fits) return fail(Code::invalid);
    }
    return next == Next::nothing ? Result<>() : fail(Code::invalid);
}

}  // namespace

Result<Acl> Acl::decode(ConstBytes bytes) {
    if (bytes.size() > acl_bytes_max) return fail(Code::too_large, acl_bytes_max);
    uint32_t found_version = 0;
    if (bytes.size() < sizeof found_version) return fail(Code::invalid);
    std::memcpy(&found_version, bytes.data(), sizeof found_version);
    bytes = bytes.subspan(sizeof found_version);
    if (found_version != version || bytes.size() % sizeof(EntryBytes) != 0) {
        return fail(Code::invalid);
    }
    Acl list;
    for (; !bytes.empty(); bytes = bytes.subspan(sizeof(EntryBytes))) {
        EntryBytes entry;
        std::memcpy(&entry, bytes.data(), sizeof entry);
        const Tag tag{entry.tag};
        list.entries_.push_back(
            {.tag = tag, .permissions = entry.permissions, .id = is_named(tag) ? entry.id : no_id});
    }
    ROS2S_TRY(check(list.entries_));
    return list;
}

std::string Acl::encode() const {
    std::string bytes(reinterpret_cast<const char*>(&version), sizeof version);
    for (const Entry& each : entries_) {
        const EntryBytes entry{
            .tag = static_cast<uint16_t>(each.tag), .permissions = each.permissions, .id = each.id};
        bytes.append(reinterpret_cast<const char*>(&entry), sizeof entry);
    }
    return bytes;
}

Acl::Entry* Acl::find(Tag tag) {
    const auto found = std::ranges::find(entries_, tag, &Entry::tag);
    return found == entries_.end() ? nullptr : &*found;
}

Acl::Entry& Acl::group_class() {
    Entry* const mask = find(Tag::mask);
    return mask != nullptr ? *mask : *find(Tag::owning_group);
}

mode_t Acl::mode() const {
    mode_t mode = 0;
    for (const Entry& each : entries_) {
        switch (each.tag) {
            case Tag::owner: mode |= mode_t{each.permissions} << 6; break;
            case Tag::owning_group: mode |= mode_t{each.permissions} << 3; break;
            case Tag::mask: mode = (mode & ~S_IRWXG) | mode_t{each.permissions} << 3; break;
            case Tag::others: mode |= each.permissions; break;
            case Tag::user:
            case Tag::group: break;
        }
    }
    return mode;
}

// Owner, group and others.
bool Acl::is_mode() const { return entries_.size() == 3; }

void Acl::change_mode(mode_t mode) {
    find(Tag::owner)->permissions = mode >> 6 & all_permissions;
    group_class().permissions = mode >> 3 & all_permissions;
    find(Tag::others)->permissions = mode & all_permissions;
}

mode_t Acl::inherit(mode_t mode) {
    const mode_t permitted = this->mode() & mode;
    change_mode(permitted);
    return permitted & access_bits;
}

bool Acl::allows(const Caller& caller, uint32_t uid, uint32_t gid, uint32_t wanted) const {
    if (caller.is_root()) return true;
    uint32_t mask = all_permissions;
    for (const Entry& each : entries_) {
        if (each.tag == Tag::mask) mask = each.permissions;
    }
    const auto grants = [wanted](uint32_t permissions) { return (permissions & wanted) == wanted; };
    bool is_member = false;
    for (const Entry& each : entries_) {
        switch (each.tag) {
            case Tag::owner:
                if (caller.uid == uid) return grants(each.permissions);
                break;
            case Tag::user:
                if (caller.uid == each.id) return grants(each.permissions & mask);
                break;
            case Tag::owning_group:
            case Tag::group:
                if (!caller.in_group(each.tag == Tag::group ? each.id : gid)) break;
                if (grants(each.permissions & mask)) return true;
                is_member = true;
                break;
            case Tag::mask: break;
            case Tag::others: return !is_member && grants(each.permissions);
        }
    }
    return false;
}

}  // namespace ros2s::fs
