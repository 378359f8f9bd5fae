// Calls about the whole system: its pools, its agent, attributes of pools. ROS2 has no agent and no
// attributes of pools; each call says so in the way that programs expect.
#include <cstdlib>
#include <cstring>

#include "daos_mgmt.h"
#include "errors.h"
#include "events.h"
#include "labels.h"
#include "pools.h"
#include "ranks.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

using PoolPointer = std::shared_ptr<Pool>;

int list_pools(daos_size_t& count, daos_mgmt_pool_info_t* pools) {
    Report report;
    const auto labels = listed_pools(report);
    if (!labels) {
        say_once(report.text());
        return der_of(labels.error());
    }
    const daos_size_t room = std::exchange(count, labels->size());
    if (pools == nullptr) return 0;
    if (room < labels->size()) return -DER_TRUNC;
    for (const auto& label : *labels) {
        auto& pool = *pools++;
        pool = {};
        uuid_of(label, pool.mgpi_uuid);
        pool.mgpi_label = ::strdup(label.c_str());
        pool.mgpi_svc = make_rank_list(1);
    }
    return 0;
}

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
    return finish_call(ev, npools == nullptr ? -DER_INVAL : list_pools(*npools, pools));
}

int dc_mgmt_srv_version(uint32_t*, uint32_t*, uint32_t*, char**) { return -DER_NOTSUPPORTED; }

// ---- attributes of pools

int daos_pool_list_attr(daos_handle_t poh, char*, size_t* size, daos_event_t* ev) {
    return call_on<Pool>(poh, ev, [&](const PoolPointer&) {
        if (size == nullptr) return -DER_INVAL;
        *size = 0;
        return 0;
    });
}

int daos_pool_get_attr(daos_handle_t poh, int n, char const* const names[], void* const[], size_t[],
                       daos_event_t* ev) {
    return call_on<Pool>(poh, ev, [&](const PoolPointer&) {
        return n <= 0 || names == nullptr ? -DER_INVAL : -DER_NONEXIST;
    });
}

int daos_pool_set_attr(daos_handle_t poh, int, char const* const[], void const* const[],
                       size_t const[], daos_event_t* ev) {
    return call_on<Pool>(poh, ev, [](const PoolPointer&) {
        say_once("a pool has no attributes. Set them on a container");
        return -DER_NOTSUPPORTED;
    });
}

// There is none, which is no error in DAOS.
int daos_pool_del_attr(daos_handle_t poh, int n, char const* const names[], daos_event_t* ev) {
    return call_on<Pool>(
        poh, ev, [&](const PoolPointer&) { return n <= 0 || names == nullptr ? -DER_INVAL : 0; });
}
