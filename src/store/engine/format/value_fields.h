// The fields of those values (values.h) that always have the same ones.
#pragma once
#include "ros2s/base/fields.h"
#include "ros2s/object/object_store.h"

namespace ros2s::engine {

inline constexpr auto summary_fields = [](auto& io, auto& summary) {
    io("entries", summary.entries);
    io("blocks", summary.blocks);
    io("last epoch", summary.last_epoch.value);
    io("of the last update", summary.last_time);
    io("the highest dkey is known", summary.highest_known);
    io.text("highest dkey", summary.highest, object::key_bytes_max);
};

inline constexpr auto reply_fields = [](auto& io, auto& reply) {
    io("sequence", reply.sequence);
    io("epoch", reply.epoch.value);
    io("of the update", reply.time);
    io("digest of the request", reply.digest);
    io("no reply of its client was ever dropped", reply.whole);
};

inline constexpr auto owner_fields = [](auto& io, auto& owner) {
    io("greatest epoch of its replies that were dropped", owner.dropped_upto);
};

inline constexpr auto container_fields_v1 = [](auto& io, auto& container) {
    io.text("label", container.properties.label, object::label_bytes_max);
    io("chunk bytes", container.properties.chunk_bytes);
    io("of creation", container.created);
    io("retired", container.retired);
};
inline constexpr auto container_fields = [](auto& io, auto& container) {
    container_fields_v1(io, container);
    io.text("owner", container.properties.owner, object::owner_bytes_max);
    io("cap of bytes", container.properties.caps.bytes);
    io("cap of values", container.properties.caps.values);
    io("used bytes", container.used.bytes);
    io("used values", container.used.values);
};

inline constexpr auto meta_fields = [](auto& io, auto& meta) {
    io("pool", meta.pool);
    io("applied group", meta.applied);
    io("next epoch", meta.next_epoch);
    io("wall time in ns", meta.wall_time_ns);
    io("greatest epoch of the replies that were dropped with their owner",
       meta.replies_dropped_upto);
};

}  // namespace ros2s::engine
