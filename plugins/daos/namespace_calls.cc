// duns_*: paths that stand for containers. ROS2 names pools and containers by label, so that the
// attribute of a path has labels; a UUID there, as DAOS writes it, is a label like any other.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "daos_fs.h"
#include "daos_uns.h"
#include "errors.h"
#include "pools.h"
#include "properties.h"
#include "ros2s/base/uuid.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

constexpr std::string_view direct_prefix = "daos://";
constexpr std::string_view attribute_prefix = "DAOS.";

constexpr std::array<std::string_view, 9> layout_names{
    "", "POSIX", "HDF5", "PYTHON", "SPARK", "DATABASE", "ROOT", "SEISMIC", "METEO"};

// The parts of a path /POOL/CONTAINER/REST. Each may be empty.
struct Parts {
    std::string pool;
    std::string container;
    std::string rest;  // with a '/' before it
};

std::string take_name(std::string_view& path) {
    while (path.starts_with('/')) path.remove_prefix(1);
    const auto end = std::min(path.find('/'), path.size());
    std::string name(path.substr(0, end));
    path.remove_prefix(end);
    return name;
}

Parts split(std::string_view path) {
    Parts parts{.pool = take_name(path), .container = take_name(path)};
    while (path.starts_with('/')) path.remove_prefix(1);
    if (!path.empty()) parts.rest = "/" + std::string(path);
    return parts;
}

bool is_name(std::string_view name) {
    const auto is_allowed = [](unsigned char c) {
        return std::isalnum(c) != 0 || std::string_view("._:-").contains(c);
    };
    return !name.empty() && name.size() <= DAOS_PROP_LABEL_MAX_LEN &&
           std::ranges::all_of(name, is_allowed);
}

// In any case.
bool is_same(std::string_view one, std::string_view other) {
    const auto lower = [](unsigned char c) { return std::tolower(c); };
    return std::ranges::equal(one, other, {}, lower, lower);
}

bool has_direct_prefix(std::string_view path) {
    return path.size() > direct_prefix.size() &&
           is_same(path.substr(0, direct_prefix.size()), direct_prefix);
}

void set_names(duns_attr_t& out, const Parts& parts) {
    const auto copy = [](const std::string& name, char* into) {
        std::memcpy(into, name.c_str(), name.size() + 1);
    };
    copy(parts.pool, out.da_pool);
    copy(parts.container, out.da_cont);
    uuid_of(parts.pool, out.da_puuid);
    if (!parts.container.empty()) uuid_of(parts.container, out.da_cuuid);
}

// A path that contains the names itself. ENODATA: it does not.
int resolve_direct(std::string_view path, duns_attr_t& out) {
    const bool has_prefix = has_direct_prefix(path);
    const bool without = out.da_no_prefix || (out.da_flags & DUNS_NO_PREFIX) != 0;
    const bool is_sure = (out.da_flags & DUNS_NO_CHECK_PATH) != 0;
    if (has_prefix) path.remove_prefix(direct_prefix.size());
    const auto parts = split(path);
    if (!has_prefix && !is_sure) {
        // The path may also be one of a file system, so only UUIDs count as names.
        const bool are_ids = Uuid::parse(parts.pool) && Uuid::parse(parts.container);
        if (!without || !are_ids) return ENODATA;
    }
    if (!is_name(parts.pool)) return EINVAL;
    if (!is_name(parts.container) && !(has_prefix && parts.container.empty())) return EINVAL;
    set_names(out, parts);
    if (parts.rest.empty()) return 0;
    out.da_rel_path = ::strdup(parts.rest.c_str());
    return out.da_rel_path == nullptr ? ENOMEM : 0;
}

// What the attribute of a path says: the layout, and the labels.
int parse_attribute(std::string_view text, duns_attr_t& out) {
    if (!text.starts_with(attribute_prefix)) return EINVAL;
    text.remove_prefix(attribute_prefix.size());
    const auto end = text.find("://");
    if (end == std::string_view::npos) return EINVAL;
    const auto layout = text.substr(0, end);
    const auto named = std::ranges::find_if(layout_names, [&](std::string_view name) {
        return !name.empty() && is_same(layout, name);
    });
    auto parts = split(text.substr(end + 2));
    // DAOS's format fills short names with blanks.
    for (auto* const name : {&parts.pool, &parts.container}) {
        name->erase(0, std::min(name->find_first_not_of(' '), name->size()));
    }
    if (named == layout_names.end() || !is_name(parts.pool) || !is_name(parts.container)) {
        return EINVAL;
    }
    out.da_type = static_cast<daos_cont_layout_t>(named - layout_names.begin());
    set_names(out, parts);
    return 0;
}

// The attribute of the path, or of the nearest directory above with one.
int resolve_by_attribute(const char* path, duns_attr_t& out) {
    char* const real = ::realpath(path, nullptr);
    if (real == nullptr) return errno;
    const std::string whole = real;
    std::free(real);
    std::string at = whole;
    for (;;) {
        std::array<char, DUNS_MAX_XATTR_LEN> text{};
        const auto bytes = ::lgetxattr(at.c_str(), DUNS_XATTR_NAME, text.data(), text.size());
        if (bytes >= 0) {
            const size_t length = ::strnlen(text.data(), static_cast<size_t>(bytes));
            const int rc = parse_attribute({text.data(), length}, out);
            if (rc != 0 || at == whole) return rc;
            out.da_rel_path = ::strdup(whole.c_str() + (at == "/" ? 0 : at.size()));
            return out.da_rel_path == nullptr ? ENOMEM : 0;
        }
        const int error = errno;
        if (error == ERANGE) return EIO;
        if (error != ENODATA || at == "/") return error;
        if ((out.da_flags & DUNS_NO_REVERSE_LOOKUP) != 0) return ENODATA;
        at.resize(std::max<size_t>(at.rfind('/'), 1));
    }
}

int remove_link(const char* path, daos_cont_layout_t layout) {
    const bool is_directory = layout == DAOS_PROP_CO_LAYOUT_POSIX;
    return (is_directory ? ::rmdir(path) : ::unlink(path)) == 0 ? 0 : errno;
}

// A directory or file with the attribute.
int make_link(const char* path, daos_cont_layout_t layout, const Parts& names) {
    if (layout == DAOS_PROP_CO_LAYOUT_UNKNOWN || layout >= layout_names.size()) return EINVAL;
    const std::string text = std::string(attribute_prefix) + std::string(layout_names[layout]) +
                             "://" + names.pool + "/" + names.container;
    if (text.size() >= DUNS_MAX_XATTR_LEN) return ENAMETOOLONG;
    if (layout == DAOS_PROP_CO_LAYOUT_POSIX) {
        if (::mkdir(path, 0775) != 0) return errno;
    } else {
        const int file = ::open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
        if (file < 0) return errno;
        ::close(file);
    }
    if (::lsetxattr(path, DUNS_XATTR_NAME, text.c_str(), text.size() + 1, 0) == 0) return 0;
    const int error = errno;
    remove_link(path, layout);
    return error;
}

ContainerSettings settings_in(const duns_attr_t& attributes) {
    if (attributes.da_type != DAOS_PROP_CO_LAYOUT_POSIX) return {.layout = attributes.da_type};
    return settings_of_files(attributes);
}

// `label` empty: gets one.
int create_for(daos_handle_t pool, duns_attr_t& attributes, std::string label) {
    uuid_t id{};
    const int rc = create_container(pool, label.empty() ? nullptr : label.c_str(), &id,
                                    settings_in(attributes));
    if (rc != 0) return errno_of_der(rc);
    if (label.empty()) {
        Uuid made;
        std::memcpy(made.bytes.data(), &id, sizeof id);
        label = made.to_string();
    }
    const auto found = Handles::table().find<Pool>(pool);
    set_names(attributes, {.pool = found->label, .container = label});
    return 0;
}

}  // namespace
}  // namespace ros2s::daos

int duns_resolve_path(const char* path, struct duns_attr_t* attr) {
    if (path == nullptr || *path == '\0' || attr == nullptr) return EINVAL;
    attr->da_sys = nullptr;
    attr->da_rel_path = nullptr;
    attr->da_on_lustre = false;
    const int rc = resolve_direct(path, *attr);
    return rc == ENODATA ? resolve_by_attribute(path, *attr) : rc;
}

int duns_create_path(daos_handle_t poh, const char* path, struct duns_attr_t* attrp) {
    if (path == nullptr || attrp == nullptr) return EINVAL;
    const auto pool = Handles::table().find<Pool>(poh);
    if (pool == nullptr) return EBADF;
    duns_attr_t named{.da_flags = attrp->da_flags, .da_no_prefix = attrp->da_no_prefix};
    if (const int rc = resolve_direct(path, named); rc != ENODATA) {
        duns_destroy_attr(&named);
        if (rc != 0 || named.da_cont[0] == '\0') return EINVAL;
        return create_for(poh, *attrp, named.da_cont);
    }
    const char* const label = label_in(attrp->da_props);
    int rc = create_for(poh, *attrp, label == nullptr ? "" : label);
    if (rc != 0) return rc;
    rc = make_link(path, attrp->da_type, {.pool = pool->label, .container = attrp->da_cont});
    if (rc != 0) daos_cont_destroy(poh, attrp->da_cont, 1, nullptr);
    return rc;
}

int duns_link_cont(daos_handle_t poh, const char* cont, const char* path) {
    if (path == nullptr || cont == nullptr) return EINVAL;
    const auto pool = Handles::table().find<Pool>(poh);
    if (pool == nullptr) return EBADF;
    daos_handle_t container{};
    if (const int rc = open_container(poh, cont, DAOS_COO_RO, container); rc != 0) {
        return errno_of_der(rc);
    }
    daos_cont_close(container, nullptr);
    return make_link(path, DAOS_PROP_CO_LAYOUT_POSIX, {.pool = pool->label, .container = cont});
}

int duns_destroy_path(daos_handle_t poh, const char* path) {
    const auto pool = Handles::table().find<Pool>(poh);
    if (pool == nullptr) return EBADF;
    duns_attr_t found{.da_flags = DUNS_NO_REVERSE_LOOKUP};
    int rc = duns_resolve_path(path, &found);
    duns_destroy_attr(&found);
    if (rc != 0) return rc;
    if (pool->label != found.da_pool) {
        say_once(std::string(path) + ": is a container of pool '" + found.da_pool +
                 "', not of pool '" + pool->label + "'. Pass the handle of that pool");
        return EINVAL;
    }
    // Removes the path first. If this fails (a directory with files), the container stays.
    const bool is_link = !has_direct_prefix(path);
    if (is_link) rc = remove_link(path, found.da_type);
    if (rc != 0) return rc;
    rc = errno_of_der(daos_cont_destroy(poh, found.da_cont, 1, nullptr));
    if (rc != 0 && rc != ENOENT && is_link) {
        make_link(path, found.da_type, {.pool = found.da_pool, .container = found.da_cont});
    }
    return rc;
}

void duns_destroy_attr(struct duns_attr_t* attrp) {
    if (attrp == nullptr) return;
    std::free(attrp->da_rel_path);
    std::free(attrp->da_sys);
    attrp->da_rel_path = nullptr;
    attrp->da_sys = nullptr;
}
