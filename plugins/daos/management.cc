// Calls about the whole system: its pools, its agent, attributes of pools. ROS2 has no agent and no
// attributes of pools; each call says so in the way that programs expect.
#include <cstdlib>
#include <cstring>

#include "daos_mgmt.h"
#include "errors.h"
#include "events.h"
#include "gurt/common.h"
#include "labels.h"
#include "pools.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

int refuse(const char* sentence) {
    say_once(sentence);
    return -DER_NOTSUPPORTED;
}

bool is_open_pool(daos_handle_t handle) { return Handles::table().find<Pool>(handle) != nullptr; }

}  // namespace
}  // namespace ros2s::daos

int daos_mgmt_get_sys_info(const char* sys, daos_sys_info** info) {
    if (info == nullptr) return -DER_INVAL;
    auto* const made = static_cast<daos_sys_info*>(std::calloc(1, sizeof(daos_sys_info)));
    if (made == nullptr) return -DER_NOMEM;
    const std::string_view name = sys == nullptr ? "daos_server" : sys;
    name.copy(std::data(made->dsi_system_name), DAOS_SYS_INFO_STRING_MAX);
    std::string_view("ros2store")
        .copy(std::data(made->dsi_fabric_provider), DAOS_SYS_INFO_STRING_MAX);
    *info = made;
    return 0;
}

void daos_mgmt_put_sys_info(daos_sys_info* info) { std::free(info); }

int daos_mgmt_list_pools(const char*, daos_size_t* npools, daos_mgmt_pool_info_t* pools,
                         daos_event_t* ev) {
    if (npools == nullptr) return finish_call(ev, -DER_INVAL);
    Report report;
    const auto labels = listed_pools(report);
    if (!labels) {
        say_once(report.text());
        return finish_call(ev, der_of(labels.error()));
    }
    const daos_size_t room = std::exchange(*npools, labels->size());
    if (pools == nullptr) return finish_call(ev, 0);
    if (room < labels->size()) return finish_call(ev, -DER_TRUNC);
    for (size_t i = 0; i < labels->size(); ++i) {
        auto& pool = pools[i];
        pool = {};
        uuid_of((*labels)[i], pool.mgpi_uuid);
        pool.mgpi_label = ::strdup((*labels)[i].c_str());
        pool.mgpi_svc = d_rank_list_alloc(1);
    }
    return finish_call(ev, 0);
}

int dc_mgmt_srv_version(uint32_t*, uint32_t*, uint32_t*, char**) { return -DER_NOTSUPPORTED; }

int daos_mgmt_get_bs_state(const char*, uuid_t, int*, daos_event_t* ev) {
    return finish_call(ev, -DER_NOTSUPPORTED);
}

int daos_debug_set_params(const char*, d_rank_t, unsigned int, uint64_t, uint64_t,
                          daos_event_t* ev) {
    return finish_call(ev, refuse("faults of DAOS's servers cannot be injected"));
}

int daos_debug_add_mark(const char*) { return 0; }

int daos_pool_stop_svc(daos_handle_t poh, daos_event_t* ev) {
    if (!is_open_pool(poh)) return finish_call(ev, -DER_NO_HDL);
    return finish_call(ev, refuse("a pool has no service of its own that could be stopped"));
}

// ---- attributes of pools

int daos_pool_list_attr(daos_handle_t poh, char*, size_t* size, daos_event_t* ev) {
    if (!is_open_pool(poh)) return finish_call(ev, -DER_NO_HDL);
    if (size == nullptr) return finish_call(ev, -DER_INVAL);
    *size = 0;
    return finish_call(ev, 0);
}

int daos_pool_get_attr(daos_handle_t poh, int n, char const* const names[], void* const[], size_t[],
                       daos_event_t* ev) {
    if (!is_open_pool(poh)) return finish_call(ev, -DER_NO_HDL);
    return finish_call(ev, n <= 0 || names == nullptr ? -DER_INVAL : -DER_NONEXIST);
}

int daos_pool_set_attr(daos_handle_t poh, int, char const* const[], void const* const[],
                       size_t const[], daos_event_t* ev) {
    if (!is_open_pool(poh)) return finish_call(ev, -DER_NO_HDL);
    return finish_call(ev, refuse("a pool has no attributes. Set them on a container"));
}

// There is none, which is no error in DAOS.
int daos_pool_del_attr(daos_handle_t poh, int n, char const* const names[], daos_event_t* ev) {
    if (!is_open_pool(poh)) return finish_call(ev, -DER_NO_HDL);
    return finish_call(ev, n <= 0 || names == nullptr ? -DER_INVAL : 0);
}
