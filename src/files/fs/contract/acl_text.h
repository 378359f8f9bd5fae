// Access lists of tests as text, as getfacl(1) shows them:
// "u::rwx,u:1001:rw-,g::r-x,m::rw-,o::r--".
#pragma once
#include <charconv>
#include <string>
#include <string_view>

#include "ros2s/base/check.h"
#include "ros2s/fs/acl.h"

namespace ros2s::fs::contract {

// The bytes of the attribute. The text is valid; the list need not be.
[[nodiscard]] inline std::string acl(std::string_view text) {
    std::string bytes("\x02\0\0\0", 4);
    const auto add = [&bytes](auto value) {
        bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    while (!text.empty()) {
        const std::string_view entry = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), entry.size() + 1));
        const size_t second = entry.find(':', 2);
        ROS2S_CHECK(entry[1] == ':' && second == entry.size() - 4);
        const std::string_view number = entry.substr(2, second - 2);
        uint32_t id = Acl::no_id;
        std::from_chars(number.data(), number.data() + number.size(), id);
        const bool is_named = !number.empty();
        switch (entry[0]) {
            case 'u': add(is_named ? Acl::Tag::user : Acl::Tag::owner); break;
            case 'g': add(is_named ? Acl::Tag::group : Acl::Tag::owning_group); break;
            case 'm': add(Acl::Tag::mask); break;
            default: add(Acl::Tag::others);
        }
        uint16_t permissions = 0;
        for (const char each : entry.substr(second + 1)) {
            permissions |= each == 'r'   ? Wanted::read
                           : each == 'w' ? Wanted::write
                           : each == 'x' ? Wanted::search
                                         : 0;
        }
        add(permissions);
        add(id);
    }
    return bytes;
}

[[nodiscard]] inline std::string acl_text(const Acl& list) {
    std::string text;
    for (const Acl::Entry& each : list.entries()) {
        if (!text.empty()) text += ',';
        const bool is_user = each.tag == Acl::Tag::owner || each.tag == Acl::Tag::user;
        const bool is_group = each.tag == Acl::Tag::owning_group || each.tag == Acl::Tag::group;
        text += is_user ? "u:" : is_group ? "g:" : each.tag == Acl::Tag::mask ? "m:" : "o:";
        if (each.id != Acl::no_id) text += std::to_string(each.id);
        text += ':';
        text += (each.permissions & Wanted::read) != 0 ? 'r' : '-';
        text += (each.permissions & Wanted::write) != 0 ? 'w' : '-';
        text += (each.permissions & Wanted::search) != 0 ? 'x' : '-';
    }
    return text;
}

}  // namespace ros2s::fs::contract
