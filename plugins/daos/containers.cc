// Containers of a pool: created, listed, opened, and destroyed.
#include <array>
#include <cstring>

#include "daos.h"
#include "errors.h"
#include "events.h"
#include "global.h"
#include "properties.h"
#include "ros2s/api/c/owner_of_new.h"
#include "ros2s/api/deployment.h"
#include "ros2s/base/uuid.h"
#include "ros2s/fs/container.h"
#include "store_access.h"

namespace ros2s::daos {
namespace {

using PoolPointer = std::shared_ptr<Pool>;
using ContainerPointer = std::shared_ptr<Container>;

Task<Result<>> create(api::c::Instance& instance, std::string label, Report& report) {
    const Call call;
    const auto made =
        co_await fs::create_container(call, instance.reactor(), *instance.deployment().store(),
                                      {.label = std::move(label)}, api::c::owner_of_new(), report);
    co_return made ? Result<>() : fail(made.error());
}

Task<Result<std::vector<object::ContainerRecord>>> list(object::ObjectStore& store) {
    const Call call;
    co_return co_await store.list_containers(call);
}

Result<std::vector<object::ContainerRecord>> containers_of(Pool& pool, Report& report) {
    ROS2S_TRY_ASSIGN(auto* const instance, pool.attach(report));
    return instance->run([&] { return list(*instance->deployment().store()); });
}

// The container's label. Programs also name a container by its UUID. If two labels lead to one
// UUID, the UUID names neither. Returns 0 or -DER_.
int label_of(Pool& pool, std::string_view text, std::string& label) {
    label = text;
    const auto wanted = Uuid::parse(text);
    if (!wanted) return 0;
    Report unused;
    const auto listed = containers_of(pool, unused);
    // Behind a DPU containers are not listed, so the text is taken as a label.
    if (!listed) return 0;
    // A label that equals this text counts as one with this UUID. A client might have chosen it to
    // impersonate another container.
    size_t found = 0;
    for (const auto& each : *listed) {
        uuid_t id{};
        uuid_of(each.properties.label, id);
        if (std::memcmp(&id, wanted->bytes.data(), sizeof id) != 0) continue;
        label = each.properties.label;
        ++found;
    }
    if (found <= 1) return 0;
    say("container", text, "several labels have this UUID. Use the label");
    return -DER_NONEXIST;
}

int list_containers(Pool& pool, daos_size_t& count, daos_pool_cont_info* out) {
    api::c::Instance* instance = nullptr;
    if (const int rc = attach(pool, instance); rc != 0) return rc;
    const auto listed = instance->run([&] { return list(*instance->deployment().store()); });
    if (!listed) return der_of(listed.error());
    const daos_size_t room = std::exchange(count, listed->size());
    if (out == nullptr) return 0;
    if (room < listed->size()) return -DER_TRUNC;
    for (const object::ContainerRecord& each : *listed) {
        *out = {};
        uuid_of(each.properties.label, out->pci_uuid);
        each.properties.label.copy(out->pci_label, sizeof out->pci_label - 1);
        ++out;
    }
    return 0;
}

Task<Result<>> destroy(api::c::Instance& instance, std::string label, Report& report) {
    const Call call;
    auto& store = *instance.deployment().store();
    ROS2S_CO_TRY_ASSIGN(const auto record, co_await fs::find_container(call, store, "the pool",
                                                                       std::move(label), report));
    co_return co_await store.destroy_container(call, record.id);
}

// Not while this process has it open.
int destroy_container(Pool& pool, const char* text) {
    if (text == nullptr) return -DER_INVAL;
    if ((pool.flags & DAOS_PC_RO) != 0) return -DER_NO_PERM;
    std::string label;
    if (const int rc = label_of(pool, text, label); rc != 0) return rc;
    for (const auto& open : Handles::table().all<Container>()) {
        if (open->label == label && open->pool->label == pool.label) return -DER_BUSY;
    }
    api::c::Instance* instance = nullptr;
    if (const int rc = attach(pool, instance); rc != 0) return rc;
    Report report;
    const auto done = instance->run([&] { return destroy(*instance, label, report); });
    if (done) return 0;
    if (done.error().code != Code::not_found) {
        say("container", text, report.text().empty() ? describe(done.error()) : report.text());
    }
    return der_of(done.error());
}

int close_container(const ContainerPointer& container, daos_handle_t handle) {
    if (container->mounts > 0) return -DER_BUSY;
    EventQueue::drop_everywhere(container->fs);
    container->access.reset();
    const int rc = ros2s_close(container->fs);
    if (rc != 0) return der_of_errno(-rc);
    Handles::table().remove<Container>(handle);
    --container->pool->containers;
    return 0;
}

void fill(const Container& container, daos_cont_info_t& info) {
    info = {};
    uuid_of(container.label, info.ci_uuid);
    info.ci_nhandles = 1;
}

}  // namespace

int create_container(daos_handle_t handle, const char* label, uuid_t* uuid,
                     const ContainerSettings& settings) {
    const auto pool = Handles::table().find<Pool>(handle);
    if (pool == nullptr) return -DER_NO_HDL;
    if ((pool->flags & DAOS_PC_RO) != 0) return -DER_NO_PERM;
    api::c::Instance* instance = nullptr;
    if (const int rc = attach(*pool, instance); rc != 0) return rc;
    const std::string name =
        label != nullptr ? label : Uuid::make(instance->reactor().secrets()).to_string();
    // A label that is a UUID could be mistaken for the UUID of another container.
    const bool is_uuid = label != nullptr && Uuid::parse(label).has_value();
    if (is_uuid || !object::is_valid_label(name)) return -DER_INVAL;
    Report report;
    const auto made = instance->run([&] { return create(*instance, name, report); });
    if (!made) {
        if (made.error().code != Code::exists) say("container", name, report.text());
        return der_of(made.error());
    }
    if (uuid != nullptr) uuid_of(name, *uuid);
    if (settings == ContainerSettings()) return 0;
    daos_handle_t opened{};
    if (const int rc = open_container(handle, name.c_str(), DAOS_COO_RW, opened); rc != 0) {
        return rc;
    }
    const int rc = keep_settings(Handles::table().find<Container>(opened), settings);
    daos_cont_close(opened, nullptr);
    return rc;
}

int open_container(daos_handle_t handle, const char* label, unsigned flags, daos_handle_t& out) {
    const auto pool = Handles::table().find<Pool>(handle);
    if (pool == nullptr) return -DER_NO_HDL;
    if (label == nullptr) return -DER_INVAL;
    std::string found;
    if (const int rc = label_of(*pool, label, found); rc != 0) return rc;
    auto container = std::make_shared<Container>(pool, found, flags);
    std::array<char, 1024> sentence{};
    const std::string uri = pool->where.uri_of(found);
    const int rc =
        ros2s_open(uri.c_str(), nullptr, &container->fs, sentence.data(), sentence.size());
    if (rc != 0) {
        say("container", label, sentence.data());
        return rc == -EINVAL ? -DER_NONEXIST : der_of_errno(-rc);
    }
    ++pool->containers;
    out = Handles::table().add(std::move(container));
    return 0;
}

}  // namespace ros2s::daos

using namespace ros2s;
using namespace ros2s::daos;

int daos_pool_list_cont(daos_handle_t poh, daos_size_t* ncont, daos_pool_cont_info* cbuf,
                        daos_event_t* ev) {
    return call_on<Pool>(poh, ev, [&](const PoolPointer& pool) {
        return ncont == nullptr ? -DER_INVAL : list_containers(*pool, *ncont, cbuf);
    });
}

int daos_cont_create(daos_handle_t poh, uuid_t* uuid, daos_prop_t* cont_prop, daos_event_t* ev) {
    return finish_call(ev,
                       create_container(poh, label_in(cont_prop), uuid, settings_in(cont_prop)));
}

int daos_cont_create_with_label(daos_handle_t poh, const char* label, daos_prop_t* cont_prop,
                                uuid_t* uuid, daos_event_t* ev) {
    return finish_call(ev, label == nullptr
                               ? -DER_INVAL
                               : create_container(poh, label, uuid, settings_in(cont_prop)));
}

int daos_cont_destroy(daos_handle_t poh, const char* cont, int, daos_event_t* ev) {
    return call_on<Pool>(poh, ev,
                         [&](const PoolPointer& pool) { return destroy_container(*pool, cont); });
}

int daos_cont_open(daos_handle_t poh, const char* cont, unsigned int flags, daos_handle_t* coh,
                   daos_cont_info_t* info, daos_event_t* ev) {
    if (coh == nullptr) return finish_call(ev, -DER_INVAL);
    const int rc = open_container(poh, cont, flags, *coh);
    if (rc == 0 && info != nullptr) fill(*Handles::table().find<Container>(*coh), *info);
    return finish_call(ev, rc);
}

int daos_cont_close(daos_handle_t coh, daos_event_t* ev) {
    return call_on<Container>(coh, ev, [&](const ContainerPointer& container) {
        return close_container(container, coh);
    });
}

int daos_cont_query(daos_handle_t coh, daos_cont_info_t* info, daos_prop_t* cont_prop,
                    daos_event_t* ev) {
    return call_on<Container>(coh, ev, [&](const ContainerPointer& container) {
        if (info != nullptr) fill(*container, *info);
        return cont_prop == nullptr ? 0 : fill_properties(container, *cont_prop);
    });
}

int daos_cont_local2global(daos_handle_t coh, d_iov_t* glob) {
    const auto container = Handles::table().find<Container>(coh);
    if (container == nullptr) return -DER_NO_HDL;
    return write_global(glob, {container->label, std::to_string(container->flags)});
}

int daos_cont_global2local(daos_handle_t poh, d_iov_t glob, daos_handle_t* coh) {
    const auto parts = read_global(glob, 2);
    if (coh == nullptr || parts.empty()) return -DER_INVAL;
    return open_container(poh, parts[0].c_str(), static_cast<unsigned>(parse_number(parts[1])),
                          *coh);
}
