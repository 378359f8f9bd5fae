#include "file_classes.h"

#include <strings.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

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
