// Calls of libdfs that get and set object classes and chunk sizes. ROS2 checks the values and
// ignores them.
#include <strings.h>

#include <cstring>

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

}  // namespace

daos_oclass_id_t class_of(const dfs_t& dfs, mode_t mode) {
    const auto& settings = dfs.settings;
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

daos_obj_id_t id_of(const dfs_t& dfs, mode_t mode, fs::NodeId node) {
    const uint64_t type = S_ISREG(mode) ? DAOS_OT_ARRAY_BYTE : DAOS_OT_MULTI_HASHED;
    const uint64_t id = class_of(dfs, mode);
    return {.lo = node.value,
            .hi = type << OID_FMT_TYPE_SHIFT |
                  (id >> OC_REDUN_SHIFT & 0xff) << OID_FMT_CLASS_SHIFT |
                  (id & MAX_NUM_GROUPS) << OID_FMT_META_SHIFT};
}

int check_hints(std::string_view hints) {
    return read_hints(hints, [](const Hint&) {}) ? 0 : EINVAL;
}

}  // namespace ros2s::daos

int dfs_suggest_oclass(dfs_t* dfs, const char* hint, daos_oclass_id_t* cid) {
    if (const int rc = check(dfs); rc != 0) return rc;
    if (hint == nullptr || cid == nullptr) return EINVAL;
    if (::strnlen(hint, DAOS_CONT_HINT_MAX_LEN) == DAOS_CONT_HINT_MAX_LEN) return EINVAL;
    Hint read;
    if (!read_hint(hint, read)) return EINVAL;
    *cid = read.id;
    return 0;
}

int dfs_obj_set_oclass(dfs_t* dfs, dfs_obj_t* obj, int, daos_oclass_id_t cid) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    if (!S_ISDIR(obj->mode)) return ENOTSUP;
    std::array<char, 64> name{};
    if (cid != OC_UNKNOWN && daos_oclass_id2name(cid, name.data()) != 0) return EINVAL;
    return check_writable(dfs);
}

int dfs_obj_set_chunk_size(dfs_t* dfs, dfs_obj_t* obj, int, daos_size_t) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    if (!S_ISDIR(obj->mode)) return ENOTSUP;
    return check_writable(dfs);
}

int dfs_file_update_chunk_size(dfs_t* dfs, dfs_obj_t* obj, daos_size_t) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    if (!S_ISREG(obj->mode)) return EINVAL;
    return check_writable(dfs);
}

int dfs_obj_copy_attr(dfs_obj_t* dst_obj, dfs_obj_t* src_obj) {
    return dst_obj == nullptr || src_obj == nullptr ? EINVAL : 0;
}

// ---- DAOS's own objects of files, which DAOS's checker repairs

namespace ros2s::daos {
namespace {
int refuse_repair() {
    say_once("files are not kept as DAOS keeps them: ros2store container check looks at them");
    return ENOTSUP;
}
}  // namespace
}  // namespace ros2s::daos

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
