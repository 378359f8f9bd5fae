// The bytes of the records (records.h) after tag and version, field by field.
#pragma once
#include "records.h"
#include "ros2s/base/fields.h"

namespace ros2s::rados {

inline constexpr uint64_t many = UINT32_MAX;
inline constexpr size_t name_bytes = 2048, key_bytes = 4096, value_bytes = size_t{1} << 30;

constexpr auto fields_of(const Head*) {
    return [](auto& io, auto& head) {
        io("epoch", head.epoch);
        io("change", head.change);
        io("entries", head.entries);
        io("transaction", head.lock.transaction);
        io.text("coordinator", head.lock.coordinator, name_bytes);
        io.text("key", head.lock.key, key_bytes);
        io("created", head.lock.created);
    };
}
constexpr auto fields_of(const Column*) {
    return [](auto& io, auto& column) {
        io("entries", column.entries);
        io("blocks", column.blocks);
        io("last_epoch", column.last_epoch);
        io("last_time", column.last_time);
    };
}
constexpr auto fields_of(const InlineBytes*) {
    return [](auto& io, auto& count) { io("bytes", count.bytes); };
}
constexpr auto fields_of(const Entry*) {
    return [](auto& io, auto& entry) {
        io("is_array", entry.is_array);
        io("epoch", entry.epoch);
        io("size", entry.size);
        io("blocks", entry.blocks);
        io.text("value", entry.value, object::value_bytes_max);
    };
}
inline constexpr auto run_fields = [](auto& io, auto& run) {
    io("time", run.data.time);
    io("store", run.data.store);
    io("number", run.data.number);
    io("offset", run.offset);
    io("length", run.length);
    io.numbers("checksums", run.checksums);
};
inline constexpr auto visible_fields = [](auto& io, auto& visible) {
    io("offset", visible.offset);
    io("length", visible.length);
    io("run", visible.run);
};
constexpr auto fields_of(const Segment*) {
    return [](auto& io, auto& segment) {
        io.list("runs", segment.runs, many, run_fields);
        io.list("visible", segment.visible, many, visible_fields);
    };
}
constexpr auto fields_of(const Pending*) {
    return [](auto& io, auto& pending) {
        io.list("set", pending.set, many, [](auto& in, auto& set) {
            in.text("key", set.key, key_bytes);
            in.text("value", set.value, value_bytes);
        });
        io.list("remove", pending.remove, many,
                [](auto& in, auto& remove) { in.text("key", remove.key, key_bytes); });
    };
}
constexpr auto fields_of(const Coordination*) {
    return [](auto& io, auto& record) {
        io.choice("state", record.state, Coordination::State::committed);
        io("transaction", record.transaction);
        io("sequence", record.sequence);
        io("digest", record.digest);
        io("epoch", record.epoch);
        io("time", record.time);
        io.list("participants", record.participants, many,
                [](auto& in, auto& each) { in.text("name", each.name, name_bytes); });
        io.text("before", record.before, value_bytes);
    };
}
constexpr auto fields_of(const PoolRecord*) {
    return [](auto& io, auto& record) {
        io("id", record.id);
        io.text("data", record.data, name_bytes);
    };
}
constexpr auto fields_of(const ClockRecord*) {
    return [](auto& io, auto& record) { io("epoch", record.epoch); };
}
constexpr auto fields_of(const ContainerValue*) {
    return [](auto& io, auto& record) {
        io("id", record.id);
        io("chunk_bytes", record.chunk_bytes);
        io("created", record.created);
        io.text("owner", record.owner, object::owner_bytes_max);
    };
}

}  // namespace ros2s::rados
