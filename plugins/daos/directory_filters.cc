// Listing a part of a directory: from a name on, or only the entries that match.
#include <sys/stat.h>

#include <cstring>
#include <memory>
#include <vector>

#include "objects.h"

using namespace ros2s;
using namespace ros2s::daos;

struct dfs_pipeline {
    std::string name;  // a pattern
    time_t newer = 0;
    uint64_t flags = 0;
};

namespace ros2s::daos {
namespace {

// '%': any text; '_': any character; '\': the next character literally. The time for each '%' is
// linear in both lengths, because only the last one is tried again.
bool matches(std::string_view pattern, std::string_view name) {
    size_t at = 0;
    size_t in_name = 0;
    size_t after_any = std::string_view::npos;
    size_t retry = 0;
    while (in_name < name.size()) {
        if (at < pattern.size() && pattern[at] == '%') {
            after_any = ++at;
            retry = in_name;
            continue;
        }
        const bool is_literal = at + 1 < pattern.size() && pattern[at] == '\\';
        const size_t shown = is_literal ? at + 1 : at;
        const bool fits = shown < pattern.size() && (pattern[shown] == name[in_name] ||
                                                     (!is_literal && pattern[shown] == '_'));
        if (fits) {
            at = shown + 1;
            ++in_name;
        } else if (after_any != std::string_view::npos) {
            at = after_any;
            in_name = ++retry;
        } else {
            return false;
        }
    }
    while (at < pattern.size() && pattern[at] == '%') ++at;
    return at == pattern.size();
}

bool matches(const dfs_pipeline& wanted, const struct dirent& entry, const struct stat& node) {
    if (S_ISDIR(node.st_mode) && (wanted.flags & DFS_FILTER_INCLUDE_DIRS) == 0) return true;
    if ((wanted.flags & DFS_FILTER_NAME) != 0 &&
        !matches(wanted.name, static_cast<const char*>(entry.d_name))) {
        return false;
    }
    return (wanted.flags & DFS_FILTER_NEWER) == 0 || node.st_ctime > wanted.newer;
}

}  // namespace
}  // namespace ros2s::daos

// One part: a directory has one engine.
int dfs_obj_anchor_split(dfs_obj_t* obj, uint32_t* nr, daos_anchor_t* anchors) {
    if (obj == nullptr || nr == nullptr || !S_ISDIR(obj->mode)) return EINVAL;
    *nr = 1;
    if (anchors != nullptr) anchors[0] = {};
    return 0;
}

int dfs_obj_anchor_set(dfs_obj_t* obj, uint32_t index, daos_anchor_t* anchor) {
    if (obj == nullptr || anchor == nullptr || !S_ISDIR(obj->mode) || index != 0) return EINVAL;
    *anchor = {};
    return 0;
}

// The listing is read up to the name. The anchor of the entry before it continues at the name, also
// when the name is removed.
int dfs_dir_anchor_set(dfs_obj_t* obj, const char name[], daos_anchor_t* anchor) {
    if (obj == nullptr || anchor == nullptr || !S_ISDIR(obj->mode)) return EINVAL;
    Entry where;
    if (const int rc = entry_of(obj->mount, obj, name, where); rc != 0) return rc;
    if (where.name.empty()) return EINVAL;
    daos_anchor_t at{};
    while (at.da_type != DAOS_ANCHOR_TYPE_EOF) {
        daos_anchor_t before = at;
        struct dirent entry{};
        uint32_t count = 1;
        if (const int rc = dfs_readdir(obj->mount, obj, &at, &count, &entry); rc != 0) return rc;
        if (count == 1 && where.name == static_cast<const char*>(entry.d_name)) {
            *anchor = before;
            return 0;
        }
    }
    return ENOENT;
}

int dfs_pipeline_create(dfs_t* dfs, dfs_predicate_t pred, uint64_t flags, dfs_pipeline_t** dpipe) {
    if (const int rc = check(dfs); rc != 0) return rc;
    if (dpipe == nullptr) return EINVAL;
    auto made = std::make_unique<dfs_pipeline>();
    made->name.assign(static_cast<const char*>(pred.dp_name),
                      ::strnlen(static_cast<const char*>(pred.dp_name), sizeof pred.dp_name));
    made->newer = pred.dp_newer;
    made->flags = flags;
    *dpipe = made.release();
    return 0;
}

int dfs_pipeline_destroy(dfs_pipeline_t* dpipe) {
    delete dpipe;
    return 0;
}

int dfs_readdir_with_filter(dfs_t* dfs, dfs_obj_t* obj, dfs_pipeline_t* dpipe,
                            daos_anchor_t* anchor, uint32_t* nr, struct dirent* dirs,
                            daos_obj_id_t* oids, daos_size_t* csizes, uint64_t* nr_scanned) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    if (!S_ISDIR(obj->mode)) return ENOTDIR;
    if (nr == nullptr || nr_scanned == nullptr) return EINVAL;
    *nr_scanned = 0;
    if (*nr == 0) return 0;
    if (dpipe == nullptr || dirs == nullptr || anchor == nullptr) return EINVAL;
    std::vector<struct stat> nodes(std::min<uint32_t>(*nr, 1024));
    uint32_t matched = 0;
    while (matched < *nr && anchor->da_type != DAOS_ANCHOR_TYPE_EOF) {
        uint32_t count = std::min<uint32_t>(*nr - matched, static_cast<uint32_t>(nodes.size()));
        struct dirent* const into = dirs + matched;
        if (const int rc = dfs_readdirplus(dfs, obj, anchor, &count, into, nodes.data()); rc != 0) {
            return rc;
        }
        *nr_scanned += count;
        for (uint32_t i = 0; i < count; ++i) {
            if (!matches(*dpipe, into[i], nodes[i])) continue;
            if (oids != nullptr) oids[matched] = id_of(*dfs, nodes[i].st_mode, {into[i].d_ino});
            if (csizes != nullptr) {
                csizes[matched] = S_ISREG(nodes[i].st_mode) ? DFS_DEFAULT_CHUNK_SIZE : 0;
            }
            const struct dirent entry = into[i];
            dirs[matched++] = entry;
        }
    }
    *nr = matched;
    return 0;
}
