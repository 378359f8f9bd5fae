#include "checkpointer.h"

#include "ros2s/engine/rules/commit_rules.h"
#include "ros2s/runtime/blocking.h"

namespace ros2s::engine {
namespace {
// Nodes serialised in one turn of the core: about 50 µs.
constexpr size_t slice_nodes = 64;

// On no_space the index's disk is full: the devices of a pool do not grow.
std::string cause_of(const Error& error) {
    return error.code == Code::no_space ? "the disk of its index is full" : describe(error);
}
}  // namespace

Checkpointer::Checkpointer(const Environment& env, Index& index, device::BlockDevice& device,
                           Cores& cores, Publisher& publisher, State& state, Journal& journal,
                           Committer& committer, const Uuid& pool, uint64_t first_slot_block,
                           uint64_t number)
    : env_(env),
      index_(index),
      device_(device),
      cores_(cores),
      publisher_(publisher),
      state_(state),
      journal_(journal),
      committer_(committer),
      pool_(pool),
      first_slot_block_(first_slot_block),
      number_(number),
      batches_(cores.size()),
      wake_(env.reactor),
      finished_(env.reactor) {}

void Checkpointer::request() {
    wanted_ = true;
    wake_.wake_all();
}
Task<> Checkpointer::catch_up() {
    while (is_behind()) {
        request();
        co_await finished_;
    }
}
void Checkpointer::stop() {
    stopping_ = true;
    wake_.wake_all();
}

Task<> Checkpointer::run() {
    while (!stopping_) {
        if (committer_.is_dead()) finished_.wake_all();  // no more will come
        if (!wanted_ || committer_.is_dead()) {
            co_await wake_;
            continue;
        }
        wanted_ = false;
        writing_ = true;
        const Result<> written = co_await checkpoint();
        writing_ = false;
        if (!written && rules.heed_failed_index) {
            committer_.die(written.error(),
                           "a checkpoint could not be written: " + cause_of(written.error()) +
                               ". Close the pool, check the disk of its index, and open it again");
        }
        finished_.wake_all();
    }
}

void Checkpointer::region(uint32_t device, uint32_t region, std::string_view bits) {
    batches_[0].put(space_key(device, region).view(), encode_space(bits));
}

// Containers, replies and the position: few, and copied at the cut itself.
void Checkpointer::cut_rest() {
    for (const object::ContainerId id : state_.removed_containers) {
        if (rules.erase_containers) batches_[0].erase(container_key(id).view());
    }
    state_.removed_containers.clear();
    for (auto& [id, container] : state_.containers) {
        if (!container.changed) continue;
        batches_[0].put(container_key(id).view(), encode(container.value));
        container.changed = false;
    }
    IndexBatch& batch = batches_[0];
    state_.replies.take_changes(
        [&](const ReplyKey& slot, const ReplyValue* reply) {
            if (!rules.checkpoint_replies) return;
            const KeyBuilder key = reply_key(slot);
            if (reply == nullptr) {
                batch.erase(key.view());
            } else {
                batch.put(key.view(), encode(*reply));
            }
        },
        [&](const Uuid& owner, std::optional<uint64_t> dropped_upto) {
            if (!rules.checkpoint_marks) return;
            const KeyBuilder key = owner_key(owner);
            if (!dropped_upto) {
                batch.erase(key.view());
            } else {
                batch.put(key.view(), encode(OwnerValue{*dropped_upto}));
            }
        });
    batches_[0].put(meta_key().view(), encode(state_.meta()));
}

// Called on that core.
Task<> Checkpointer::cut_nodes(Core& core) {
    IndexBatch& batch = batches_[core.number];
    core.cache.begin_cut([&batch](const Node& node) {
        if (node.is_absent()) {
            if (rules.erase_absent) batch.erase(node.key);
        } else {
            batch.put(node.key, encode(node));
        }
    });
    co_return;
}
Task<> Checkpointer::take_nodes(Core& core) {
    while (core.cache.take(slice_nodes)) co_await yield(core.env.reactor);
}
Task<> Checkpointer::finish_nodes(Core& core) {
    core.cache.end_cut();
    core.loader.index_changed();
    core.note_memory();
    co_return;
}

// No group is published between the first core's cut and the last one's.
Task<> Checkpointer::cut() {
    for (uint32_t i = 1; i < cores_.size(); ++i) {
        co_await at(cores_[i], cores_.home(), cut_nodes(cores_[i]));
    }
    co_await cut_nodes(cores_.home());
    state_.space.begin_cut(*this);
    cut_rest();
}

Task<Result<>> Checkpointer::checkpoint() {
    Core& home = cores_.home();
    if (rules.cut_between_groups) co_await publisher_.turn.acquire();
    const Committer::Cut position = committer_.applied_cut();
    const CheckpointSlot slot{.pool = pool_,
                              .number = number_ + 1,
                              .applied = state_.applied,
                              .position = journal_.in_ring(position.position),
                              .next_id = position.next_id,
                              .previous_id = position.last_id,
                              .next_epoch = state_.next_epoch,
                              .incarnation = position.incarnation};
    co_await cut();
    if (!rules.trim_after_slot) {
        journal_.trim(position.position);
        committer_.journal_trimmed();
    }
    if (rules.cut_between_groups) publisher_.turn.release();
    {
        Nursery taking(env_.reactor, cores_.size());
        for (uint32_t i = 1; i < cores_.size(); ++i) {
            co_await taking.spawn(at(cores_[i], home, take_nodes(cores_[i])));
        }
        co_await take_nodes(home);
        while (state_.space.take()) co_await yield(env_.reactor);
        co_await taking.join();
    }
    for (uint32_t i = 1; i < cores_.size(); ++i) batches_[0].append(std::move(batches_[i]));

    // The index may reach its disk at any time.
    if (rules.flush_before_index) ROS2S_CO_TRY(co_await committer_.make_durable({}, slot.applied));

    counters.nodes.add(batches_[0].count());
    counters.batch_bytes.add(batches_[0].bytes());
    IndexBatch batch = std::move(batches_[0]);
    handed_over_bytes_ = batch.bytes();
    const Result<> applied = co_await env_.blocking.run(env_.reactor, [&]() -> Result<> {
        ROS2S_TRY(index_.apply(std::move(batch)));
        return rules.flush_index ? index_.flush() : Result<>();
    });
    handed_over_bytes_ = 0;
    // After a failure the nodes stay as they are: in memory, where readers find them.
    if (!applied) co_return applied;
    for (uint32_t i = 0; i < cores_.size(); ++i) {
        co_await at(cores_[i], home, finish_nodes(cores_[i]));
    }

    AlignedBuffer block(block_bytes);
    encode(slot, block.bytes());
    const uint64_t place = first_slot_block_ + slot.number % 2;
    ROS2S_CO_TRY(co_await device_.write(place * block_bytes, block.bytes()));
    if (rules.flush_checkpoint) ROS2S_CO_TRY(co_await device_.flush());
    number_ = slot.number;
    journal_.trim(position.position);
    counters.checkpoints.add();
    committer_.journal_trimmed();
    co_return Result<>();
}

}  // namespace ros2s::engine
