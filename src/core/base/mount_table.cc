#include "mount_table.h"

#include <fstream>
#include <istream>
#include <sstream>
#include <string_view>
#include <utility>

#include "text_parts.h"

namespace ros2s {
namespace {

// The table writes bytes that would end a field as three octal digits: "\040".
std::string unescaped(std::string_view field) {
    std::string out;
    for (size_t i = 0; i < field.size(); ++i) {
        uint8_t byte = 0;
        if (field[i] == '\\' && i + 3 < field.size() &&
            parse_number(field.substr(i + 1, 3), byte, 8)) {
            out += static_cast<char>(byte);
            i += 3;
        } else {
            out += field[i];
        }
    }
    return out;
}

}  // namespace

std::vector<MountEntry> read_mounts(std::istream& mountinfo) {
    std::vector<MountEntry> mounts;
    for (std::string line; std::getline(mountinfo, line);) {
        // 36 35 98:0 /root /mount/point options [further…] - type source super-options
        std::istringstream fields(line);
        MountEntry entry;
        std::string parent, root, word;
        fields >> entry.id >> parent >> entry.device >> root >> entry.mount_point;
        while (fields >> word && word != "-") {
        }
        if (!(fields >> entry.kind >> entry.source)) continue;
        entry.mount_point = unescaped(entry.mount_point);
        entry.source = unescaped(entry.source);
        mounts.push_back(std::move(entry));
    }
    return mounts;
}

MountEntry mounted_on(const std::string& path) {
    std::ifstream table("/proc/self/mountinfo");
    MountEntry found;
    for (MountEntry& each : read_mounts(table)) {
        if (each.mount_point == path) found = std::move(each);
    }
    return found;
}

}  // namespace ros2s
