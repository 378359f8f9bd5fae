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
// A name is followed by the number of groups.
#define ANY_GROUPS(name, number) {#name, number, false},
#define ONE_GROUP(name, number) {#name, number, true},
constexpr Redundancy redundancies[] = {ROS2S_DAOS_CLASSES(ANY_GROUPS)
                                           ROS2S_DAOS_CLASSES_OF_ONE_GROUP(ONE_GROUP)};
#undef ANY_GROUPS
#undef ONE_GROUP
constexpr uint32_t groups[] = {1, 2, 4, 6, 8, 12, 16, 32};

struct Word {
    std::string_view name;
    uint32_t number;
};
#define WORD(name) {#name, OC_##name}
constexpr Word words[] = {WORD(TINY),       WORD(SMALL),       WORD(LARGE),       WORD(MAX),
                          WORD(RP_TINY),    WORD(RP_SMALL),    WORD(RP_LARGE),    WORD(RP_MAX),
                          WORD(RP_SF_TINY), WORD(RP_SF_SMALL), WORD(RP_SF_LARGE), WORD(RP_SF_MAX),
                          WORD(RP_XSF),     WORD(EC_TINY),     WORD(EC_SMALL),    WORD(EC_LARGE),
                          WORD(EC_MAX)};
#undef WORD

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
