#include "checkpointer.h"

#include "ros2s/runtime/blocking.h"

namespace ros2s::engine {
namespace {
// Nodes serialised in one turn of the core: about 50 µs.
constexpr size_t slice_nodes = 64;
}  // namespace

Checkpointer::Checkpointer(const Env& env, Index& index, device::BlockDevice& device, State& state,
                           Journal& journal, Committer& committer, Loader& loader, const Uuid& pool,
                           uint64_t first_slot_block, uint64_t number)
    : env_(env),
      index_(index),
      device_(device),
      state_(state),
      journal_(journal),
      committer_(committer),
      loader_(loader),
      pool_(pool),
      first_slot_block_(first_slot_block),
      number_(number),
      wake_(env.reactor),
      finished_(env.reactor) {}

void Checkpointer::request() {
    wanted_ = true;
    wake_.wake_all();
}
void Checkpointer::stop() {
    stopping_ = true;
    wake_.wake_all();
}

Task<> Checkpointer::run() {
    while (!stopping_) {
        if (committer_.is_dead()) finished_.wake_all();  // there will be none to wait for
        if (!wanted_ || committer_.is_dead()) {
            co_await wake_;
            continue;
        }
        wanted_ = false;
        writing_ = true;
        const Result<> written = co_await checkpoint();
        writing_ = false;
        if (!written) {
            committer_.die(written.error(),
                           "a checkpoint could not be written: " + describe(written.error()) +
                               ". Close the pool, see to the disk of its index, and open it again");
        }
        finished_.wake_all();
    }
}

void Checkpointer::region(uint32_t device, uint32_t region, std::string_view bits) {
    batch_.put(space_key(device, region).view(), encode_space(bits));
}

// Containers, replies and the position: few, and taken at the cut itself.
void Checkpointer::cut_rest() {
    for (const object::ContainerId id : state_.removed_containers) {
        batch_.erase(container_key(id).view());
    }
    state_.removed_containers.clear();
    for (auto& [id, container] : state_.containers) {
        if (!container.changed) continue;
        batch_.put(container_key(id).view(), encode(container.value));
        container.changed = false;
    }
    state_.replies.take_changes([&](const Uuid& client, uint32_t slot, const ReplyValue* reply) {
        const KeyBuilder key = reply_key(client, slot);
        if (reply == nullptr) {
            batch_.erase(key.view());
        } else {
            batch_.put(key.view(), encode(*reply));
        }
    });
    batch_.put(meta_key().view(), encode(state_.meta()));
}

Task<Result<>> Checkpointer::checkpoint() {
    const Committer::Cut cut = committer_.applied_cut();
    const CheckpointSlot slot{.pool = pool_,
                              .number = number_ + 1,
                              .applied = state_.applied,
                              .position = journal_.in_ring(cut.position),
                              .next_id = cut.next_id,
                              .previous_id = cut.last_id,
                              .next_epoch = state_.next_epoch};
    state_.cache.begin_cut([this](const Node& node) {
        counters.nodes.add();
        if (node.is_absent()) {
            batch_.erase(node.key);
        } else {
            batch_.put(node.key, encode(node));
        }
    });
    state_.space.begin_cut(*this);
    cut_rest();
    while (state_.cache.take(slice_nodes)) co_await yield(env_.reactor);
    while (state_.space.take()) co_await yield(env_.reactor);

    counters.batch_bytes.add(batch_.bytes());
    IndexBatch batch = std::move(batch_);
    handed_over_bytes_ = batch.bytes();
    const Result<> applied = co_await env_.blocking.run(env_.reactor, [&]() -> Result<> {
        ROS2S_TRY(index_.apply(std::move(batch)));
        return index_.flush();
    });
    handed_over_bytes_ = 0;
    // After a failure the nodes stay as they are: in memory, where readers find them.
    if (!applied) co_return applied;
    state_.cache.end_cut();
    loader_.index_changed();

    AlignedBuffer block(block_bytes);
    encode(slot, block.bytes());
    const uint64_t place = first_slot_block_ + slot.number % 2;
    ROS2S_CO_TRY(co_await device_.write(place * block_bytes, block.bytes()));
    ROS2S_CO_TRY(co_await device_.flush());
    number_ = slot.number;
    journal_.trim(cut.position);
    counters.checkpoints.add();
    committer_.journal_trimmed();
    co_return Result<>();
}

}  // namespace ros2s::engine
