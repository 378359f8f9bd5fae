#include "dfs_mount.h"

#include <errno.h>

#include <algorithm>
#include <utility>

#include "free_wait.h"
#include "ros2s/object/lease_wait.h"
#include "ros2s/runtime/backoff.h"

namespace ros2s::fs {
namespace {

Result<> check_features(const object::ObjectStore& store, Report& report) {
    const object::Features features = store.features();
    if (!features.multi_object_transactions || !features.conditions || !features.chains) {
        return report.fail(Code::unsupported,
                           "the store \"{}\" has no {}, which a file system needs; use the same "
                           "release of ROS2 on both sides, or another store",
                           store.path(),
                           !features.conditions ? "conditional transactions"
                           : !features.multi_object_transactions
                               ? "transactions over several objects"
                               : "chained fetches");
    }
    return {};
}

Task<Result<object::ContainerRecord>> container_record(const Call& call, object::ObjectStore& store,
                                                       object::ContainerId container,
                                                       Report& report) {
    auto all = co_await store.list_containers(call);
    if (!all) co_return report.fail(all.error(), "cannot list the pool's containers");
    for (const object::ContainerRecord& record : *all) {
        if (record.id == container) co_return record;
    }
    co_return report.fail(Code::not_found, "the pool has no container {}",
                          container.uuid.to_string());
}

}  // namespace

Task<Result<>> Dfs::format(const Call& call, object::ObjectStore& store,
                           object::ContainerId container, Reactor& reactor, Owner owner,
                           Report& report, const object::Operation* keys) {
    ROS2S_CO_TRY(check_features(store, report));
    ROS2S_CO_TRY_ASSIGN(const auto record,
                        co_await container_record(call, store, container, report));
    const uint64_t chunk_bytes = record.properties.chunk_bytes;
    if (chunk_bytes > object::transaction_bytes_max) {
        co_return report.fail(Code::too_large,
                              "the chunk size is {} bytes, more than one transaction can carry; "
                              "choose at most {} bytes",
                              chunk_bytes, object::transaction_bytes_max);
    }
    if (keys != nullptr && chunk_bytes > encrypted_chunk_bytes_max) {
        co_return report.fail(Code::too_large,
                              "the chunk size is {} bytes; an encrypted container has chunks of at "
                              "most {} bytes: choose a smaller size",
                              chunk_bytes, encrypted_chunk_bytes_max);
    }
    const int64_t now = to_ns(reactor.wall_time());
    Superblock superblock{.chunk_bytes = chunk_bytes, .created_ns = now};
    if (keys != nullptr) superblock.features_needed |= Superblock::needs_decryption;
    const NumberRecord counter{.number = first_free_node};
    const NumberRecord renames{.number = 0};
    const InodeRecord root{.mode = S_IFDIR | 0755,
                           .links = 1,
                           .uid = owner.uid,
                           .gid = owner.gid,
                           .parent = root_node.value,
                           .created_ns = now,
                           .accessed_ns = now,
                           .modified_ns = now,
                           .changed_ns = now};
    const ObjectId root_object = object_of(root_node);
    object::Transaction transaction;
    for (const NodeId node : {root_node, counter_node}) {
        transaction.conditions.push_back(
            {.kind = Condition::Kind::absent, .object = object_of(node), .dkey = record_dkey()});
    }
    transaction.operations.push_back(
        put(root_object, record_dkey(), superblock_akey(), superblock));
    transaction.operations.push_back(put_inode(root_node, root));
    transaction.operations.push_back(put(root_object, record_dkey(), rename_akey(), renames));
    transaction.operations.push_back(
        put(object_of(counter_node), record_dkey(), counter_akey(), counter));
    if (keys != nullptr) transaction.operations.push_back(*keys);
    const auto done =
        co_await object::await_leases(store, reactor, call, container, transaction,
                                      co_await store.update(call, container, transaction));
    if (done) co_return Result<>();
    if (done.error().code == Code::condition_failed) {
        co_return report.fail(
            Code::exists,
            "container {} already has a file system: mount it, or create a container with "
            "another label",
            record.properties.label);
    }
    co_return report.fail(done.error(), "the file system of container {} cannot be written: {}",
                          record.properties.label, describe(done.error()));
}

Task<Result<std::unique_ptr<Dfs>>> Dfs::mount(const Call& call, object::ObjectStore& store,
                                              object::ContainerId container, Reactor& reactor,
                                              DfsOptions options, Report& report) {
    ROS2S_CO_TRY(check_features(store, report));
    Superblock fetched;
    FetchItem item = record_item(object_of(root_node), record_dkey(), superblock_akey(), fetched);
    const auto fetch = [&] { return store.fetch(call, container, {&item, 1}); };
    const auto done = co_await when_free(call, reactor, fetch);
    if (!done && done.error().code == Code::busy) {
        co_return report.fail(done.error(), "{}",
                              co_await DfsMount::who_has(call, store, container, options.shown));
    }
    if (!done) co_return report.fail(done.error(), "the container cannot be read");
    const Result<Superblock> superblock = record_of(item, fetched);
    if (!superblock) {
        const Error error = superblock.error();
        if (error.code == Code::not_found) {
            co_return report.fail(error, "the container has no file system; create one first");
        }
        if (error.code == Code::bad_version) {
            co_return report.fail(
                error,
                "the file system's superblock has version {}, this program supports "
                "{}; use a newer release",
                error.detail, record_version);
        }
        co_return report.fail(error, "the file system's superblock cannot be read: {}",
                              describe(error));
    }
    if (superblock->format != format_version) {
        co_return report.fail(
            ros2s::fail(Code::bad_version, superblock->format).error(),
            "the file system has format {}, this program supports {}; use a newer release",
            superblock->format, format_version);
    }
    const bool encrypted = (superblock->features_needed & Superblock::needs_decryption) != 0;
    const uint32_t unknown = superblock->features_needed & ~Superblock::known;
    if (unknown != 0) {
        co_return report.fail(ros2s::fail(Code::bad_version, unknown).error(),
                              "the file system uses features ({:#x}) that this program does not "
                              "support; use a newer release",
                              unknown);
    }
    if (encrypted && options.layer == nullptr) {
        co_return report.fail(
            fail_errno(EKEYREJECTED).error(),
            "{} is encrypted, and this side has no keys: name the directory that has them, for a "
            "program in ROS2STORE_KEYS, for a DPU in its settings (encryption: keys)",
            options.shown);
    }
    const uint64_t chunk = superblock->chunk_bytes;
    if (chunk == 0 || chunk % block_bytes != 0 || chunk > options.transaction_bytes_max) {
        co_return report.fail(
            Code::corrupt, "the file system's superblock names an impossible chunk size, {} bytes",
            chunk);
    }
    auto mounted = std::make_unique<DfsMount>(store, container, reactor, options, *superblock);
    if (const auto taken = co_await mounted->take_container(call, report); !taken) {
        co_await mounted->close_all();
        co_return fail(taken.error());
    }
    if (const auto reaped = co_await mounted->begin(call); !reaped) {
        // A pool that takes no writes is mounted all the same: reading must work.
        if (reaped.error().code != Code::read_only) {
            co_await mounted->close_all();
            co_return report.fail(reaped.error(), "cannot remove files that have no name: {}",
                                  describe(reaped.error()));
        }
    }
    co_return std::unique_ptr<Dfs>(std::move(mounted));
}

namespace {

// Mounts of the container may defer their changes.
bool may_defer(const object::ObjectStore& store, const Superblock& superblock) {
    return store.features().deferred &&
           (superblock.features_needed & Superblock::durable_on_fsync) != 0;
}

}  // namespace

DfsMount::DfsMount(object::ObjectStore& store, object::ContainerId container, Reactor& reactor,
                   DfsOptions options, const Superblock& superblock)
    : is_deferred_(options.defers && may_defer(store, superblock)),
      slots_(reactor, container.uuid, options.slots, is_deferred_),
      deferred_(may_defer(store, superblock)
                    ? std::make_optional<DeferredStore>(
                          store, reactor, container, slots_.holder(), options.change_logs,
                          options.tenant, options.unsynced,
                          [this](const DeferredStore::Loss& loss) { log_loss(loss); })
                    : std::nullopt),
      store_(deferred_ ? *deferred_ : store),
      container_(container),
      reactor_(reactor),
      options_(options),
      chunk_bytes_(superblock.chunk_bytes),
      punch_chunks_max_(static_cast<uint32_t>(std::clamp<uint64_t>(
          options.punch_bytes_max / chunk_bytes_, 1, options.punch_chunks_max))),
      nodes_(reactor),
      listings_(options.listings == nullptr ? own_listings_ : *options.listings),
      node_lease_(reactor, 1),
      directory_renames_(reactor, 1),
      holder_(slots_.holder()),
      leases_(reactor),
      reaper_(reactor, 1),
      room_maker_(reactor, 1),
      reaping_(reactor, 6),
      unpinning_(reactor, 64) {}

DfsMount::~DfsMount() { ROS2S_CHECK(handles_.all().empty()); }

Task<> DfsMount::close_all() {
    const Call call;
    closing_.request_stop();
    leases_.wanted().set();
    // If the store does not answer, no caller waits for it. Pins whose release does not reach it
    // end with the session.
    unpin_until_ = reactor_.now() + std::chrono::seconds(10);
    co_await reaping_.join();
    for (const FileHandle handle : handles_.all()) (void)co_await close(call, handle);
    co_await unpinning_.join();
    if (deferred_ && deferred_->is_unsure()) {
        const auto synced = co_await deferred_->make_durable({.deadline = unpin_until_});
        if (!synced) log_unsure(synced.error());
    }
    // No other mount waits for this one, now or when a store of another process is opened again.
    if ((is_holder_ || is_deferred_) && (takes_leases() || store_.pins_era() != 0) &&
        !leaves_orphans()) {
        co_await leave_store();
    }
    if (!options_.reaps || spares_all()) co_return co_await release_container();
    // Orphans of other mounts stay as long as readers of their names may need them.
    std::erase_if(orphans_, [](const auto& each) { return each.second.is_listed; });
    (void)co_await reap_until({.deadline = unpin_until_}, Time::max());
    co_await release_container();
}

Task<Result<Commit>> DfsMount::commit(const Call& call, OperationSlots::HeldSlot& slot) {
    if (stopped_) co_return fail(Code::name_taken);
    if (is_exclusive()) co_return co_await commit_exclusive(call, slot);
    const auto done = co_await store_.update(call, container_, slot.transaction());
    if (!done) [[unlikely]]
        co_return co_await failed(call, slot, done);
    co_return done;
}

Task<Result<Commit>> DfsMount::failed(const Call& call, OperationSlots::HeldSlot& slot,
                                      Result<Commit> done) {
    if (done.error().code == Code::leased) {
        done = co_await object::await_leases(store_, reactor_, call, container_, slot.transaction(),
                                             done);
        if (done) co_return done;
    }
    const Code code = done.error().code;
    const bool is_short = code == Code::no_space || code == Code::over_cap;
    if (is_short && co_await make_room(call)) {
        done = co_await object::await_leases(
            store_, reactor_, call, container_, slot.transaction(),
            co_await store_.update(call, container_, slot.transaction()));
    }
    co_return committed(slot, done);
}

Task<Result<Commit>> DfsMount::commit_reaped(const Call& call, OperationSlots::HeldSlot& slot) {
    if (stopped_) co_return fail(Code::name_taken);
    if (is_exclusive()) slot.require(container_is_locked());
    const auto first = co_await store_.update(call, container_, slot.transaction());
    co_return committed(slot, co_await object::await_leases(store_, reactor_, call, container_,
                                                            slot.transaction(), first));
}

Result<Commit> DfsMount::committed(OperationSlots::HeldSlot& slot, const Result<Commit>& done) {
    const bool own = slot.is_own();
    if (!done) slot.failed(done.error());
    // Another client's request was done under a name that only this mount should know. The store's
    // replies for this mount's names can no longer be trusted.
    if (!done && done.error().code == Code::name_taken && own && !std::exchange(stopped_, true)) {
        options_.log.error(
            "{}: another client made a request under a name of this mount, which is an attack or "
            "an error in a program. This mount changes nothing any more: changes fail with EIO. "
            "Mount it again; if that happens again, find out who uses the pool",
            options_.shown);
    }
    return done;
}

void DfsMount::log_unsure(const Error& error) {
    if (std::exchange(is_unsure_told_, true)) return;
    const Unsynced::Amount amount = deferred_->unsynced().amount();
    options_.log.error(
        "{}: it is not known whether its last changes are durable, {} of {} bytes of payload: {}",
        options_.shown, amount.changes, amount.bytes, describe(error));
}

void DfsMount::log_loss(const DeferredStore::Loss& loss) {
    metrics_.changes_repeated.add(loss.repeated);
    metrics_.changes_lost.add(loss.lost);
    if (loss.lost == 0) {
        options_.log.info(
            "{}: its server was started again, and had lost power. The last changes of this mount "
            "were repeated: {}, and none is lost",
            options_.shown, loss.repeated);
        return;
    }
    // The kernel of an exclusive mount would show what is lost for ever.
    if (is_exclusive()) deferred_->refuse_all();
    options_.log.error(
        "{}: its server lost power, and with it the last changes of this mount, at most those of "
        "its last second: {} or more are lost{}{}, {} were repeated. The next change, and the next "
        "write or fsync of each open file, fails with EIO. Write again what was not synced",
        options_.shown, loss.lost, loss.first.empty() ? "" : ", the first of them ", loss.first,
        loss.repeated);
}

// A store may judge conditions by transactions that are not durable yet, hence not visible. Reading
// again at once then returns the same state. So every further attempt but the first waits, longer
// each time, and for a random time, so that the colliding callers do not collide again.
Task<bool> DfsMount::conflicted(const Error& error, int attempt) {
    if (error.code != Code::condition_failed) co_return false;
    metrics_.conflicts.add();
    if (attempt == 0) {
        co_await yield(reactor_);
        co_return true;
    }
    Backoff most{.first = std::chrono::microseconds(20),
                 .longest = std::chrono::milliseconds(10),
                 .attempts = attempt};
    co_await sleep_for(reactor_, Duration(reactor_.random().below(most.next().count())));
    co_return true;
}

Task<Result<NodeId>> DfsMount::next_node(const Call& call) {
    if (next_node_ == next_node_end_) {
        co_await node_lease_.acquire();
        const SemaphoreHold hold(node_lease_);
        // Another caller may have leased ids while this one waited.
        if (next_node_ == next_node_end_) ROS2S_CO_TRY(co_await lease_nodes(call));
        co_return NodeId{next_node_++};
    }
    co_return NodeId{next_node_++};
}

// Takes a range of ids from the container's counter. Ids that are left at unmount are never used.
Task<Result<>> DfsMount::lease_nodes(const Call& call) {
    const ObjectId object = object_of(counter_node);
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        NumberRecord fetched;
        FetchItem item = record_item(object, record_dkey(), counter_akey(), fetched);
        ROS2S_CO_TRY(co_await store_.fetch(call, container_, {&item, 1}));
        ROS2S_CO_TRY_ASSIGN(const NumberRecord counter, record_of(item, fetched));
        const NumberRecord next{.number = counter.number + options_.node_ids_per_lease};
        co_await slots_.wait();
        auto slot = slots_.take();
        slot.require({.kind = Condition::Kind::epoch_equals,
                      .object = object,
                      .dkey = record_dkey(),
                      .akey = counter_akey(),
                      .value = item.epoch.value});
        slot.add(put(object, record_dkey(), counter_akey(), next));
        const uint64_t losses = deferred_ ? deferred_->losses() : 0;
        const auto done = co_await commit(call, slot);
        if (done) {
            // Ids that a loss of power takes back would be given again, to another mount.
            if (store_.pins_era() != 0) ROS2S_CO_TRY(co_await sync(call));
            // The loss was told to another call.
            if (deferred_ && deferred_->losses() != losses) continue;
            next_node_ = counter.number;
            next_node_end_ = next.number;
            co_return Result<>();
        }
        if (!co_await conflicted(done.error(), attempt)) co_return fail(done.error());
    }
    co_return fail(Code::busy);
}

Task<Result<FileSystemSpace>> DfsMount::space(const Call& call) {
    ROS2S_CO_TRY_ASSIGN(const object::PoolSpace seen, co_await store_.space(call, container_));
    // A write gets the space of orphans: make_room().
    FileSystemSpace space{
        .total_bytes = seen.total_bytes,
        .free_bytes = std::min(seen.free_bytes + orphan_bytes_, seen.total_bytes)};
    if (seen.total_values > 0) {
        // A cap of files is one of their names and inodes.
        space.files_max = seen.total_values / object::values_of_file;
        space.files = space.files_max - seen.free_values / object::values_of_file;
        space.files -= std::min<uint64_t>(space.files, orphans_.size());
    }
    co_return space;
}

void DfsMount::visit_metrics(const MetricVisitor& visit) const {
    visit("ros2store_fs_reads_total", "Read calls", metrics_.reads.value());
    visit("ros2store_fs_read_bytes_total", "Bytes read from files", metrics_.read_bytes.value());
    visit("ros2store_fs_writes_total", "Write calls", metrics_.writes.value());
    visit("ros2store_fs_written_bytes_total", "Bytes written to files",
          metrics_.written_bytes.value());
    visit("ros2store_fs_size_queries_total",
          "Reads that needed a second request for the file's size", metrics_.size_queries.value());
    visit("ros2store_fs_conflicts_total", "Transactions repeated after a conflict with another one",
          metrics_.conflicts.value());
    visit("ros2store_fs_stopped", "1: the mount changes nothing any more; the log has the reason",
          stopped_ ? 1 : 0);
    visit("ros2store_fs_orphans_reaped_total", "Files without a name that were removed",
          metrics_.orphans_reaped.value());
    visit("ros2store_fs_set_ids_cleared_total", "Writes that cleared set-user or set-group bits",
          metrics_.set_ids_cleared.value());
    visit("ros2store_fs_changes_repeated_total",
          "Changes that were repeated after the server had lost power",
          metrics_.changes_repeated.value());
    visit("ros2store_fs_changes_lost_total", "Changes that were lost with the server's power",
          metrics_.changes_lost.value());
}

}  // namespace ros2s::fs
