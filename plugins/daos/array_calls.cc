// daos_array_*: cells of one size, in chunks. Chunk i is an array of bytes under dkey i + 1; dkey 0
// has the sizes, if daos_array_create() made the array.
#include <algorithm>
#include <cstring>

#include "errors.h"
#include "global.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

using object::Condition;
using object::Operation;

struct ArrayObject : StoreObject {
    static constexpr Kind kind = Kind::array;
    uint64_t cell_bytes = 1;
    uint64_t chunk_bytes = 1 << 20;

    [[nodiscard]] object::Dkey chunk(uint64_t index) const {
        return object::Dkey::integer(index + 1);
    }
};

const object::Dkey& sizes_dkey() {
    static const object::Dkey only = object::Dkey::integer(0);
    return only;
}

const object::Akey& cells_akey() {
    static const object::Akey only = array_akey({}, 1);
    return only;
}

// A range of one chunk, and the caller's buffer for it.
struct Cells {
    uint64_t chunk = 0;
    object::Extent extent;
    Bytes memory;
};

// Splits the ranges at chunks and, if there is a list, at its buffers and at the limits of one
// transaction. As in DAOS, iov_len is the number of bytes to read or write in a buffer. Errors:
// -DER_INVAL, -DER_IO_INVAL (bytes and cells do not match).
int cut(const ArrayObject& array, const daos_array_iod_t* iod, const d_sg_list_t* list,
        std::vector<Cells>& parts) {
    if (iod == nullptr || (iod->arr_rgs == nullptr && iod->arr_nr > 0)) return -DER_INVAL;
    if (list != nullptr && list->sg_iovs == nullptr && list->sg_nr > 0) return -DER_INVAL;
    uint32_t iov = 0;
    uint64_t used = 0;
    for (const auto& range : std::span(iod->arr_rgs, iod->arr_nr)) {
        uint64_t at = 0;
        uint64_t left = 0;
        uint64_t end = 0;
        if (__builtin_mul_overflow(range.rg_idx, array.cell_bytes, &at) ||
            __builtin_mul_overflow(range.rg_len, array.cell_bytes, &left) ||
            __builtin_add_overflow(at, left, &end)) {
            return -DER_INVAL;
        }
        while (left > 0) {
            const uint64_t in_chunk = at % array.chunk_bytes;
            uint64_t count = std::min(left, array.chunk_bytes - in_chunk);
            std::byte* address = nullptr;
            if (list != nullptr) {
                const auto room = [&] { return list->sg_iovs[iov].iov_len - used; };
                while (iov < list->sg_nr && room() == 0) {
                    ++iov;
                    used = 0;
                }
                if (iov == list->sg_nr) return -DER_IO_INVAL;
                count = std::min({count, room(), uint64_t{object::transaction_bytes_max}});
                address = static_cast<std::byte*>(list->sg_iovs[iov].iov_buf) + used;
                used += count;
            }
            parts.push_back({.chunk = at / array.chunk_bytes,
                             .extent = {.offset = in_chunk, .length = count},
                             .memory = {address, address == nullptr ? 0 : count}});
            at += count;
            left -= count;
        }
    }
    return 0;
}

Task<Result<object::QueryReply>> facts_of(ArrayObject& array) {
    const Call call;
    co_return co_await array.access->store.query(call, array.access->container, array.id,
                                                 cells_akey());
}

uint64_t size_in(const ArrayObject& array, const object::QueryReply& facts) {
    if (!facts.exists) return 0;
    return (facts.highest_dkey.number() - 1) * array.chunk_bytes + facts.size;
}

// The last chunk determines the size, and the next chunk is absent. The store has no condition on
// all later chunks, so a chunk far beyond the end is not noticed.
void require_size(const ArrayObject& array, const object::QueryReply& facts, Collected& out) {
    Condition condition{
        .kind = Condition::Kind::no_dkeys, .object = array.id, .akey = cells_akey()};
    if (facts.exists) {
        condition.kind = Condition::Kind::size_equals;
        condition.dkey = facts.highest_dkey;
        condition.value = facts.size;
        out.require(condition, -DER_TX_RESTART);
        condition.kind = Condition::Kind::absent;
        condition.dkey = array.chunk(facts.highest_dkey.number());
    }
    out.require(condition, -DER_TX_RESTART);
}

// Reads the size for `use(facts)`. 0 or -DER_.
template <class Use>
int with_size(ArrayObject& array, daos_handle_t handle, Use&& use) {
    std::shared_ptr<DaosTransaction> transaction;
    if (const int rc = transaction_of(handle, array, transaction); rc != 0) return rc;
    const auto facts = array.access->run([&] { return facts_of(array); });
    if (!facts) return der_of(facts.error());
    remember(transaction, [&](Collected& out) { require_size(array, *facts, out); });
    use(*facts);
    return 0;
}

int read(ArrayObject& array, daos_handle_t handle, daos_array_iod_t* iod, d_sg_list_t* list) {
    std::shared_ptr<DaosTransaction> transaction;
    if (const int rc = transaction_of(handle, array, transaction); rc != 0) return rc;
    std::vector<Cells> parts;
    if (list == nullptr) return -DER_INVAL;
    if (const int rc = cut(array, iod, list, parts); rc != 0) return rc;
    std::vector<object::FetchItem> items;
    for (const auto& part : parts) {
        items.push_back({.object = array.id,
                         .dkey = array.chunk(part.chunk),
                         .akey = cells_akey(),
                         .extent = part.extent,
                         .window = object::Window::local(part.memory)});
    }
    // Set before the bytes are read: bytes below this size existed.
    const auto facts = array.access->run([&] { return facts_of(array); });
    if (!facts) return der_of(facts.error());
    const uint64_t size = size_in(array, *facts);
    const int rc = array.access->run([&] { return fetch_items(*array.access, items); });
    if (rc != 0) return rc;
    iod->arr_nr_read = 0;
    iod->arr_nr_short_read = 0;
    for (size_t i = 0; i < items.size(); ++i) {
        const auto& item = items[i];
        const uint64_t at = parts[i].chunk * array.chunk_bytes + item.extent.offset;
        const uint64_t there = std::min(item.extent.length, size - std::min(size, at));
        iod->arr_nr_read += there;
        iod->arr_nr_short_read += item.extent.length - there;
    }
    remember(transaction, [&](Collected& out) {
        out.require_unchanged(items);
        if (iod->arr_nr_short_read > 0) require_size(array, *facts, out);
    });
    iod->arr_nr_read /= array.cell_bytes;
    iod->arr_nr_short_read /= array.cell_bytes;
    list->sg_nr_out = list->sg_nr;
    return 0;
}

int write(ArrayObject& array, daos_handle_t handle, const daos_array_iod_t* iod,
          const d_sg_list_t* list) {
    if (list == nullptr) return -DER_INVAL;
    std::vector<Cells> parts;
    if (const int rc = cut(array, iod, list, parts); rc != 0) return rc;
    return change(array, handle, [&](Collected& out, bool copies) {
        // Without a transaction the chunks of an array are changed one by one, as in DAOS.
        if (!copies) out.allow_steps();
        for (const auto& part : parts) {
            ConstBytes bytes = part.memory;
            if (copies) {
                bytes = out.keep(
                    std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
            }
            out.add({.kind = Operation::Kind::write,
                     .object = array.id,
                     .dkey = array.chunk(part.chunk),
                     .akey = cells_akey(),
                     .extent = part.extent,
                     .window = object::Window::local(bytes)});
        }
        return 0;
    });
}

int punch(ArrayObject& array, daos_handle_t handle, const daos_array_iod_t* iod) {
    std::vector<Cells> parts;
    if (const int rc = cut(array, iod, nullptr, parts); rc != 0) return rc;
    return change(array, handle, [&](Collected& out, bool copies) {
        if (!copies) out.allow_steps();
        for (const auto& part : parts) {
            out.add({.kind = Operation::Kind::punch_extent,
                     .object = array.id,
                     .dkey = array.chunk(part.chunk),
                     .akey = cells_akey(),
                     .extent = part.extent});
        }
        return 0;
    });
}

int resize(ArrayObject& array, daos_handle_t handle, uint64_t cells) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(cells, array.cell_bytes, &bytes)) return -DER_INVAL;
    const uint64_t chunks = bytes / array.chunk_bytes;
    const uint64_t rest = bytes % array.chunk_bytes;
    return change(array, handle, [&](Collected& out, bool) {
        const auto below = [&](uint64_t chunk) {
            return Operation{.kind = Operation::Kind::set_size,
                             .object = array.id,
                             .dkey = array.chunk(chunk),
                             .akey = cells_akey()};
        };
        out.add({.kind = Operation::Kind::punch_dkeys,
                 .object = array.id,
                 .dkey = array.chunk(chunks + (rest > 0 ? 1 : 0))});
        // The last chunk determines the end of the array.
        if (rest > 0 || chunks > 0) {
            auto last = below(rest > 0 ? chunks : chunks - 1);
            last.size = rest > 0 ? rest : array.chunk_bytes;
            out.add(std::move(last));
        }
        return 0;
    });
}

// False: no array can have these sizes.
bool set_sizes(ArrayObject& array, uint64_t cell_bytes, uint64_t chunk_cells) {
    array.cell_bytes = cell_bytes;
    return cell_bytes > 0 && chunk_cells > 0 &&
           !__builtin_mul_overflow(cell_bytes, chunk_cells, &array.chunk_bytes) &&
           array.chunk_bytes <= object::array_bytes_max;
}

// The sizes that daos_array_create() stored. Errors: -DER_NONEXIST.
int read_sizes(ArrayObject& array, ArraySizes& sizes) {
    std::string bytes(array_sizes_bytes, '\0');
    object::FetchItem item{
        .object = array.id,
        .dkey = sizes_dkey(),
        .akey = value_akey({}),
        .extent = {.offset = 0, .length = bytes.size()},
        .window = object::Window::local(std::as_writable_bytes(std::span(bytes)))};
    const int rc = array.access->run([&] { return fetch_items(*array.access, {&item, 1}); });
    if (rc != 0) return rc;
    if (!item.status) return der_of(item.status.error());
    const auto decoded = decode_array_sizes(std::string_view(bytes).substr(0, item.size));
    if (!decoded) return -DER_DF_INVAL;
    sizes = *decoded;
    return 0;
}

}  // namespace
}  // namespace ros2s::daos

namespace ros2s::daos {
namespace {
bool is_array(daos_obj_id_t id) {
    const uint64_t type = id.hi >> OID_FMT_TYPE_SHIFT;
    return type == DAOS_OT_ARRAY || type == DAOS_OT_ARRAY_ATTR || type == DAOS_OT_ARRAY_BYTE;
}
}  // namespace
}  // namespace ros2s::daos

int daos_array_create(daos_handle_t coh, daos_obj_id_t oid, daos_handle_t th, daos_size_t cell_size,
                      daos_size_t chunk_size, daos_handle_t* oh, daos_event_t* ev) {
    if (oh == nullptr) return -DER_INVAL;
    auto array = std::make_shared<ArrayObject>();
    if (!set_sizes(*array, cell_size, chunk_size)) return finish_call(ev, -DER_INVAL);
    if (!is_array(oid)) return finish_call(ev, -DER_INVAL);
    int rc = open_object(coh, oid, DAOS_OO_RW, *array);
    if (rc != 0) return finish_call(ev, rc);
    if (array->type() == DAOS_OT_ARRAY) {
        const std::string sizes = encode({.cell_bytes = cell_size, .chunk_cells = chunk_size});
        rc = change(*array, th, [&](Collected& out, bool) {
            Condition condition{
                .kind = Condition::Kind::absent, .object = array->id, .dkey = sizes_dkey()};
            out.require(std::move(condition), -DER_EXIST);
            out.add({.kind = Operation::Kind::put,
                     .object = array->id,
                     .dkey = sizes_dkey(),
                     .akey = value_akey({}),
                     .window = object::Window::local(out.keep(sizes))});
            return 0;
        });
    }
    if (rc == 0) {
        *oh = Handles::table().add(std::move(array));
    } else {
        close_object(*array);
    }
    return finish_call(ev, rc);
}

int daos_array_open(daos_handle_t coh, daos_obj_id_t oid, daos_handle_t, unsigned int mode,
                    daos_size_t* cell_size, daos_size_t* chunk_size, daos_handle_t* oh,
                    daos_event_t* ev) {
    if (oh == nullptr || cell_size == nullptr || chunk_size == nullptr) return -DER_INVAL;
    auto array = std::make_shared<ArrayObject>();
    int rc = open_object(coh, oid, mode, *array);
    if (rc != 0) return finish_call(ev, rc);
    ArraySizes sizes;
    rc = array->type() == DAOS_OT_ARRAY ? read_sizes(*array, sizes) : -DER_INVAL;
    if (rc == 0) {
        *cell_size = sizes.cell_bytes;
        *chunk_size = sizes.chunk_cells;
        if (!set_sizes(*array, *cell_size, *chunk_size)) rc = -DER_DF_INVAL;
    }
    if (rc == 0) {
        *oh = Handles::table().add(std::move(array));
    } else {
        close_object(*array);
    }
    return finish_call(ev, rc);
}

namespace ros2s::daos {
namespace {
int open_sized(daos_handle_t container, daos_obj_id_t id, unsigned mode, uint64_t cell_bytes,
               uint64_t chunk_cells, daos_handle_t* handle, daos_event_t* event) {
    auto array = std::make_shared<ArrayObject>();
    if (!is_array(id) || !set_sizes(*array, cell_bytes, chunk_cells)) {
        return finish_call(event, -DER_INVAL);
    }
    return open_handle(container, id, mode, std::move(array), handle, event);
}
}  // namespace
}  // namespace ros2s::daos

// Not for an array that stores its sizes: they are read from it.
int daos_array_open_with_attr(daos_handle_t coh, daos_obj_id_t oid, daos_handle_t,
                              unsigned int mode, daos_size_t cell_size, daos_size_t chunk_size,
                              daos_handle_t* oh, daos_event_t* ev) {
    if (oid.hi >> OID_FMT_TYPE_SHIFT == DAOS_OT_ARRAY) return finish_call(ev, -DER_INVAL);
    return open_sized(coh, oid, mode, cell_size, chunk_size, oh, ev);
}

int daos_array_close(daos_handle_t oh, daos_event_t* ev) {
    return close_handle<ArrayObject>(oh, ev);
}

int daos_array_local2global(daos_handle_t oh, d_iov_t* glob) {
    const auto array = Handles::table().find<ArrayObject>(oh);
    if (array == nullptr) return -DER_NO_HDL;
    return write_global(glob, {std::to_string(array->id.high), std::to_string(array->id.low),
                               std::to_string(array->mode), std::to_string(array->cell_bytes),
                               std::to_string(array->chunk_bytes / array->cell_bytes)});
}

int daos_array_global2local(daos_handle_t coh, d_iov_t glob, unsigned int mode, daos_handle_t* oh) {
    const auto parts = read_global(glob, 5);
    if (parts.empty()) return -DER_INVAL;
    return open_sized(coh, {.lo = parse_number(parts[1]), .hi = parse_number(parts[0])},
                      mode != 0 ? mode : static_cast<unsigned>(parse_number(parts[2])),
                      parse_number(parts[3]), parse_number(parts[4]), oh, nullptr);
}

int daos_array_read(daos_handle_t oh, daos_handle_t th, daos_array_iod_t* iod, d_sg_list_t* sgl,
                    daos_event_t* ev) {
    const auto array = Handles::table().find<ArrayObject>(oh);
    return finish_call(ev, array == nullptr ? -DER_NO_HDL : read(*array, th, iod, sgl));
}

int daos_array_write(daos_handle_t oh, daos_handle_t th, daos_array_iod_t* iod, d_sg_list_t* sgl,
                     daos_event_t* ev) {
    const auto array = Handles::table().find<ArrayObject>(oh);
    return finish_call(ev, array == nullptr ? -DER_NO_HDL : write(*array, th, iod, sgl));
}

int daos_array_punch(daos_handle_t oh, daos_handle_t th, daos_array_iod_t* iod, daos_event_t* ev) {
    const auto array = Handles::table().find<ArrayObject>(oh);
    return finish_call(ev, array == nullptr ? -DER_NO_HDL : punch(*array, th, iod));
}

int daos_array_get_size(daos_handle_t oh, daos_handle_t th, daos_size_t* size, daos_event_t* ev) {
    const auto array = Handles::table().find<ArrayObject>(oh);
    if (array == nullptr) return finish_call(ev, -DER_NO_HDL);
    if (size == nullptr) return -DER_INVAL;
    return finish_call(ev, with_size(*array, th, [&](const object::QueryReply& facts) {
                           *size = size_in(*array, facts) / array->cell_bytes;
                       }));
}

int daos_array_stat(daos_handle_t oh, daos_handle_t th, daos_array_stbuf_t* stbuf,
                    daos_event_t* ev) {
    const auto array = Handles::table().find<ArrayObject>(oh);
    if (array == nullptr) return finish_call(ev, -DER_NO_HDL);
    if (stbuf == nullptr) return -DER_INVAL;
    return finish_call(ev, with_size(*array, th, [&](const object::QueryReply& facts) {
                           *stbuf = {.st_size = size_in(*array, facts) / array->cell_bytes,
                                     .st_max_epoch = facts.last_epoch.value};
                       }));
}

int daos_array_set_size(daos_handle_t oh, daos_handle_t th, daos_size_t size, daos_event_t* ev) {
    const auto array = Handles::table().find<ArrayObject>(oh);
    return finish_call(ev, array == nullptr ? -DER_NO_HDL : resize(*array, th, size));
}

int daos_array_destroy(daos_handle_t oh, daos_handle_t th, daos_event_t* ev) {
    return punch_handle<ArrayObject>(oh, th, ev);
}

int daos_array_get_attr(daos_handle_t oh, daos_size_t* chunk_size, daos_size_t* cell_size) {
    const auto array = Handles::table().find<ArrayObject>(oh);
    if (array == nullptr) return -DER_NO_HDL;
    if (chunk_size == nullptr || cell_size == nullptr) return -DER_INVAL;
    *chunk_size = array->chunk_bytes / array->cell_bytes;
    *cell_size = array->cell_bytes;
    return 0;
}
