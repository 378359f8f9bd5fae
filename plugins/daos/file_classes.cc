#include "file_classes.h"

#include <strings.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "daos_obj_class.h"
#include "errors.h"
#include "objects.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

struct Hint {
    bool is_of_files = false;
    daos_oclass_id_t id = 0;
};

// Hints are TYPE:HOW, as in "file:max". False: it is not a hint.
bool read_hint(std::string_view text, Hint& hint) {
    const auto colon = text.find(':');
    if (colon == std::string_view::npos) return false;
    const std::string type(text.substr(0, colon));
    const std::string how(text.substr(colon + 1));
    const auto is = [](const std::string& given, const char* word) {
        return ::strcasecmp(given.c_str(), word) == 0;
    };
    hint.is_of_files = is(type, "file");
    if (!hint.is_of_files && !is(type, "dir") && !is(type, "directory")) return false;
    if (!is(how, "single") && !is(how, "max")) return false;
    hint.id = is(how, "single") ? OC_S1 : OC_SX;
    return true;
}

// Calls take(hint) for each. False: one of them is invalid.
template <class Take>
bool read_hints(std::string_view rest, Take&& take) {
    while (!rest.empty()) {
        const auto comma = rest.find(',');
        Hint hint;
        if (!read_hint(rest.substr(0, comma), hint)) return false;
        take(hint);
        if (comma == std::string_view::npos) break;
        rest.remove_prefix(comma + 1);
        if (rest.empty()) return false;
    }
    return true;
}

int refuse_repair() {
    say_once("files are not kept as DAOS keeps them: ros2store container check looks at them");
    return ENOTSUP;
}

}  // namespace

daos_oclass_id_t class_of(const ContainerSettings& settings, mode_t mode) {
    const bool is_file = S_ISREG(mode);
    daos_oclass_id_t id = is_file ? settings.file_class : settings.directory_class;
    if (id == OC_UNKNOWN) id = settings.object_class;
    read_hints(settings.hints, [&](const Hint& hint) {
        if (id == OC_UNKNOWN && hint.is_of_files == is_file) id = hint.id;
    });
    // DAOS's defaults: the data of a file is in many groups.
    if (id == OC_UNKNOWN) id = is_file ? OC_SX : OC_S1;
    return id;
}

daos_obj_id_t id_of(const ContainerSettings& settings, mode_t mode, fs::NodeId node) {
    const uint64_t type = S_ISREG(mode) ? DAOS_OT_ARRAY_BYTE : DAOS_OT_MULTI_HASHED;
    const uint64_t id = class_of(settings, mode);
    return {.lo = node.value,
            .hi = type << OID_FMT_TYPE_SHIFT |
                  (id >> OC_REDUN_SHIFT & 0xff) << OID_FMT_CLASS_SHIFT |
                  (id & MAX_NUM_GROUPS) << OID_FMT_META_SHIFT};
}

int check_hints(std::string_view hints) {
    return read_hints(hints, [](const Hint&) {}) ? 0 : EINVAL;
}

}  // namespace ros2s::daos

// ---- Names and numbers of object classes.

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

// ---- Calls of libdfs that change classes and sizes of chunks, which have no effect here, and
// calls that repair DAOS's own tree of objects, which is not here.

int dfs_obj_set_oclass(dfs_t* dfs, dfs_obj_t* obj, int flags, daos_oclass_id_t cid) {
    std::array<char, 64> name{};
    const int rc = dfs_obj_set_chunk_size(dfs, obj, flags, 0);
    if (rc != 0 || cid == OC_UNKNOWN) return rc;
    return daos_oclass_id2name(cid, name.data()) == 0 ? 0 : EINVAL;
}

int dfs_obj_set_chunk_size(dfs_t* dfs, dfs_obj_t* obj, int, daos_size_t) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    return S_ISDIR(obj->mode) ? check_writable(dfs) : ENOTSUP;
}

int dfs_file_update_chunk_size(dfs_t* dfs, dfs_obj_t* obj, daos_size_t) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    return S_ISREG(obj->mode) ? check_writable(dfs) : EINVAL;
}

int dfs_cont_check(daos_handle_t poh, const char* cont, uint64_t, const char*) {
    if (Handles::table().find<Pool>(poh) == nullptr || cont == nullptr) return EINVAL;
    return refuse_repair();
}

int dfs_cont_scan(daos_handle_t poh, const char* cont, uint64_t flags, const char* name) {
    return dfs_cont_check(poh, cont, flags, name);
}

int dfs_recreate_sb(daos_handle_t coh, dfs_attr_t*) {
    return Handles::table().find<Container>(coh) == nullptr ? EINVAL : refuse_repair();
}

int dfs_relink_root(daos_handle_t coh) { return dfs_recreate_sb(coh, nullptr); }

int dfs_obj_fix_type(dfs_t* dfs, dfs_obj_t* parent, const char* name) {
    Entry where;
    const int rc = entry_of(dfs, parent, name, where);
    return rc != 0 ? rc : refuse_repair();
}
