// Names and numbers of object classes.
#include <cstring>
#include <string>
#include <string_view>

#include "daos_obj_class.h"

namespace {

struct Redundancy {
    std::string_view name;
    uint32_t number;
    bool one_group_only;
};
// "S" is followed by the number of groups, the others by "G" and that number.
constexpr Redundancy redundancies[] = {
    {"S", OR_RP_1, false},           {"RP_2G", OR_RP_2, false},
    {"RP_3G", OR_RP_3, false},       {"RP_4G", OR_RP_4, false},
    {"RP_5G", OR_RP_5, false},       {"RP_6G", OR_RP_6, false},
    {"RP_12G", OR_RP_12, true},      {"RP_16G", OR_RP_16, true},
    {"RP_24G", OR_RP_24, true},      {"RP_32G", OR_RP_32, true},
    {"RP_48G", OR_RP_48, true},      {"RP_64G", OR_RP_64, true},
    {"RP_128G", OR_RP_128, true},    {"EC_2P1G", OR_RS_2P1, false},
    {"EC_2P2G", OR_RS_2P2, false},   {"EC_4P1G", OR_RS_4P1, false},
    {"EC_4P2G", OR_RS_4P2, false},   {"EC_4P3G", OR_RS_4P3, false},
    {"EC_8P1G", OR_RS_8P1, false},   {"EC_8P2G", OR_RS_8P2, false},
    {"EC_8P3G", OR_RS_8P3, false},   {"EC_16P1G", OR_RS_16P1, false},
    {"EC_16P2G", OR_RS_16P2, false}, {"EC_16P3G", OR_RS_16P3, false},
};
constexpr uint32_t groups[] = {1, 2, 4, 6, 8, 12, 16, 32};

struct Word {
    std::string_view name;
    uint32_t number;
};
constexpr Word words[] = {
    {"TINY", OC_TINY},
    {"SMALL", OC_SMALL},
    {"LARGE", OC_LARGE},
    {"MAX", OC_MAX},
    {"RP_TINY", OC_RP_TINY},
    {"RP_SMALL", OC_RP_SMALL},
    {"RP_LARGE", OC_RP_LARGE},
    {"RP_MAX", OC_RP_MAX},
    {"RP_SF_TINY", OC_RP_SF_TINY},
    {"RP_SF_SMALL", OC_RP_SF_SMALL},
    {"RP_SF_LARGE", OC_RP_SF_LARGE},
    {"RP_SF_MAX", OC_RP_SF_MAX},
    {"RP_XSF", OC_RP_XSF},
    {"EC_TINY", OC_EC_TINY},
    {"EC_SMALL", OC_EC_SMALL},
    {"EC_LARGE", OC_EC_LARGE},
    {"EC_MAX", OC_EC_MAX},
};

// 0: DAOS has no such number of groups.
uint32_t parse_groups(std::string_view text, bool one_only) {
    if (text == "X") return one_only ? 0 : MAX_NUM_GROUPS;
    for (const uint32_t each : groups) {
        if (text == std::to_string(each)) return one_only && each != 1 ? 0 : each;
    }
    return 0;
}

}  // namespace

int daos_oclass_name2id(const char* name) {
    if (name == nullptr) return OC_UNKNOWN;
    const std::string_view text = name;
    for (const auto& word : words) {
        if (text == word.name) return static_cast<int>(word.number);
    }
    for (const auto& each : redundancies) {
        if (!text.starts_with(each.name)) continue;
        const uint32_t count = parse_groups(text.substr(each.name.size()), each.one_group_only);
        if (count != 0) return static_cast<int>(each.number << OC_REDUN_SHIFT | count);
    }
    return OC_UNKNOWN;
}

int daos_oclass_id2name(daos_oclass_id_t id, char* name) {
    if (name == nullptr) return -1;
    std::string found;
    for (const auto& word : words) {
        if (id == word.number) found = word.name;
    }
    for (const auto& each : redundancies) {
        const uint32_t count = id & MAX_NUM_GROUPS;
        if (found.empty() && id >> OC_REDUN_SHIFT == each.number) {
            const auto text = count == MAX_NUM_GROUPS ? "X" : std::to_string(count);
            if (parse_groups(text, each.one_group_only) == count) {
                found = std::string(each.name) + text;
            }
        }
    }
    std::strcpy(name, found.empty() ? "UNKNOWN" : found.c_str());
    return found.empty() ? -1 : 0;
}
