// Calls of libdfs that change classes and sizes of chunks, which have no effect here, and calls
// that repair DAOS's own tree of objects, which is not here.
#include <array>

#include "errors.h"
#include "objects.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

int refuse_repair() {
    say_once("files are not kept as DAOS keeps them: ros2store container check looks at them");
    return ENOTSUP;
}

}  // namespace
}  // namespace ros2s::daos

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
