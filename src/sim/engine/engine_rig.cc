#include "engine_rig.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "ros2s/device/sim/sim_device.h"
#include "ros2s/engine/engine_store.h"
#include "ros2s/engine/extent/space.h"
#include "ros2s/engine/index/rocksdb/rocksdb_index.h"
#include "ros2s/engine/index/rocksdb/sim/simulated_files.h"
#include "ros2s/engine/index/sim/ordered_map_index.h"

namespace ros2s::sim {

using namespace engine;

namespace {

constexpr size_t disks_max = 5;

std::string_view name_of(device::SimKind kind) {
    switch (kind) {
        case device::SimKind::read: return "read";
        case device::SimKind::write: return "write";
        case device::SimKind::flush: return "flush";
        case device::SimKind::discard: return "discard";
    }
    return "?";
}

// Data may begin this many blocks before the border of a space region.
constexpr uint64_t before_border = 96;

// An error that a device will report.
struct DeviceError {
    uint64_t operations = 0;  // after this many operations of all devices, with the next ...
    device::SimKind kind = device::SimKind::flush;  // ... of this kind
    bool overlaps = false;                          // ... while it carries out another flush
    bool lasts = false;                             // all later operations of the device fail, too
    const device::SimDisk* disk = nullptr;          // set when the error has occurred
};

class EngineRig final : public Rig {
  public:
    EngineRig(World& world, Random& random, const EngineRigOptions& options);

    Task<Result<object::ObjectStore*>> open(Report& report) override;
    Task<> close() override;
    Task<Result<>> grow(Report& report) override;
    bool can_grow() const override { return disks_.size() < disks_max; }
    void arm(const CrashPlan& plan) override {
        plan_ = plan;
        operations_ = 0;
        if (options_.device_errors && random_.one_in(2)) draw_error(plan.operations);
        if (options_.scarcity && random_.one_in(24))
            full_after_ = random_.below(plan.operations + 1);
    }
    void disarm() override {
        plan_.reset();
        error_.reset();
        full_after_.reset();
    }
    const bool& failing() const override { return failing_; }
    std::optional<Duration> reply_lease() const override { return reply_lease_; }
    void crash(CrashKind kind) override { crash_at({}, kind); }
    void on_crash(std::function<void()> told) override { told_ = std::move(told); }
    const bool& crashed() const override { return crashed_; }
    const CrashPoint& point() const override { return point_; }

  private:
    Task<Result<>> create(Report& report);
    Task<Result<>> open_store(Report& report);
    Task<Result<EngineStore::Devices>> open_devices(Report& report);
    Result<std::unique_ptr<Index>> open_index(bool create, Report& report);
    IndexFactory index_factory() {
        return [this](std::string_view, bool create, Report& report) {
            return open_index(create, report);
        };
    }
    void draw_sizes();
    void draw_replies();
    void set_index_full(bool full);
    void keep_copy();
    Task<Result<>> try_copy(Report& report);
    void add_disk(uint64_t size);
    void draw_error(uint64_t operations);
    [[nodiscard]] device::SimFault draw_fault(const device::SimDisk& disk,
                                              const device::SimOperation& operation);
    [[nodiscard]] bool is_checkpoint(const device::SimDisk& disk,
                                     const device::SimOperation& operation) const;
    void on_operation(const device::SimDisk& disk, const device::SimOperation& operation);
    void crash_at(std::string_view operation, CrashKind kind);
    [[nodiscard]] size_t unflushed_writes() const;

    World& world_;
    Random random_;
    EngineRigOptions options_;
    EngineOptions engine_options_;
    std::vector<Reactor*> more_reactors_;
    CreateOptions create_options_;
    device::SimDiskOptions disk_;
    std::vector<std::unique_ptr<device::SimDisk>> disks_;
    std::optional<std::string> pin_list_;  // of the last opening
    bool growing_ = false;                 // the last disk may not belong to the pool
    OrderedMapMedium ordered_index_;
    SimulatedFiles files_;
    bool made_ = false;
    std::unique_ptr<EngineStore> store_;
    std::optional<CrashPlan> plan_;
    uint64_t operations_ = 0;  // since it was armed
    bool crashed_ = false;
    std::optional<DeviceError> error_;
    bool failing_ = false;
    // The disk of the index becomes full after this many operations of the devices. Room is made
    // again before one of the next openings.
    std::optional<uint64_t> full_after_;
    bool index_full_ = false;
    std::optional<Duration> reply_lease_;
    // The content of a disk before an opening, which may replace the disk later.
    struct Copy {
        size_t number = 0;
        std::vector<std::byte> bytes;
        uint64_t opened = 0;
    };
    std::optional<Copy> copy_;
    uint64_t opened_ = 0;
    bool writes_refused_ = false, wrote_refused_ = false;
    CrashPoint point_;
    std::function<void()> told_;
};

EngineRig::EngineRig(World& world, Random& random, const EngineRigOptions& options)
    : world_(world), random_(random.next()), options_(options) {
    engine::rules = options_.rules;
    draw_sizes();
    if (options_.scarcity && random_.one_in(4)) draw_replies();
}

// Clients then lose their replies to other clients once they have been silent for this time.
void EngineRig::draw_replies() {
    reply_lease_ = std::chrono::microseconds(500 + random_.below(8000));
    engine_options_.reply_lease = *reply_lease_;
    engine_options_.replies_per_owner = static_cast<uint32_t>(1 + random_.below(6));
}

void EngineRig::draw_sizes() {
    const uint64_t journals[] = {64 << 10, 128 << 10, 256 << 10, 1 << 20};
    const uint64_t data[] = {384 << 10, 768 << 10, 3 << 19, 8 << 20};
    const uint64_t memory[] = {256 << 10, 1 << 20, 4 << 20, 64 << 20};
    create_options_.journal_bytes = journals[random_.below(std::size(journals))];
    engine_options_.memory_bytes = memory[random_.below(std::size(memory))];
    if (random_.one_in(12)) {
        // The first disk's data are on both sides of the border between two regions of the space
        // map. The journal is too large to wrap around; little memory causes checkpoints.
        const uint64_t border = SpaceMap::region_blocks - random_.below(before_border);
        create_options_.journal_bytes = border * block_bytes;
        engine_options_.memory_bytes = memory[random_.below(2)];
    }
    engine_options_.groups_in_flight = options_.groups_in_flight;
    // Small enough that groups count as large.
    if (random_.one_in(3)) engine_options_.large_group_bytes = 8 << 10;
    engine_options_.cleaner_percent = 0;
    if (options_.cleaner) {
        engine_options_.cleaner_percent = 1000;
        engine_options_.cleaner_yields_at = UINT32_MAX;
        engine_options_.section_blocks = 8U << random_.below(2);
    }
    engine_options_.pin_grace = options_.pin_grace;
    if (options_.pin_grace > Duration{}) {
        engine_options_.pin_list.write = [this](std::string_view text) -> Result<> {
            if (crashed_) return fail(Code::io);
            pin_list_ = text;
            return {};
        };
    }
    for (uint32_t i = 1; i < options_.cores; ++i) more_reactors_.push_back(&world_.core(i));
    const bool several = options_.memory || options_.device_errors;
    const uint64_t count = std::max<uint64_t>(1 + random_.below(3), several ? 2 : 1);
    // A pool that is almost empty needs no cleaner.
    const uint64_t drawn = data[random_.below(std::size(data) - (options_.cleaner ? 2 : 0))];
    const uint64_t data_each = (options_.data_bytes > 0 ? options_.data_bytes : drawn) / count;
    const auto microseconds = [&](uint64_t from, uint64_t to) {
        return std::chrono::microseconds(from + random_.below(to - from));
    };
    disk_ = {.read_latency = microseconds(20, 100),
             .write_latency = microseconds(20, 400),
             .flush_latency = microseconds(50, 1500),
             .torn_sectors = true};
    if (random_.one_in(2)) disk_.discard_bytes_least = block_bytes << random_.below(3);
    for (uint64_t i = 0; i < count; ++i) {
        disk_.memory = options_.memory && i == 0;
        // Superblocks, checkpoint slots and the journal are on the first disk, beside its data.
        add_disk(round_up(data_each, block_bytes) + 8 * block_bytes +
                 (i == 0 ? create_options_.journal_bytes : 0));
    }
}

void EngineRig::add_disk(uint64_t size) {
    disk_.size = size;
    disks_.push_back(
        std::make_unique<device::SimDisk>(random_, disk_, fmt::format("sim {}", disks_.size())));
    device::SimDisk* const disk = disks_.back().get();
    disk->set_hook([this, disk](const device::SimOperation& operation) {
        const device::SimFault fault = draw_fault(*disk, operation);
        on_operation(*disk, operation);
        return fault;
    });
}

// ---- opening and closing -------------------------------------------------------------------

Result<std::unique_ptr<Index>> EngineRig::open_index(bool create, Report& report) {
    if (options_.index == IndexKind::ordered) return ordered_index_.open();
    const RocksDbOptions options{
        .memory_bytes = 1 << 20, .env = files_.mount(), .compaction = false};
    return create ? create_rocksdb_index("/index", options, report)
                  : open_rocksdb_index("/index", options, report);
}

Task<Result<EngineStore::Devices>> EngineRig::open_devices(Report& report) {
    EngineStore::Devices devices;
    Result<> result;
    for (auto& disk : disks_) {
        auto device = co_await device::SimDevice::open(world_.core(), *disk, report);
        if (!device) {
            result = fail(device.error());
            break;
        }
        devices.push_back(std::move(*device));
    }
    if (result) co_return devices;
    for (auto& device : devices) co_await device->close();
    co_return fail(result.error());
}

Task<Result<>> EngineRig::create(Report& report) {
    ROS2S_CO_TRY_ASSIGN(const EngineStore::Devices devices, co_await open_devices(report));
    std::vector<device::BlockDevice*> borrowed;
    for (const auto& device : devices) borrowed.push_back(device.get());
    const Environment env{world_.core(), world_.blocking(), {}, more_reactors_};
    const Result<> made =
        co_await EngineStore::create(env, borrowed, index_factory(), create_options_, report);
    for (const auto& device : devices) co_await device->close();
    co_return made;
}

Task<Result<object::ObjectStore*>> EngineRig::open(Report& report) {
    crashed_ = failing_ = false;
    if (index_full_ && random_.one_in(2)) set_index_full(false);
    if (index_full_) failing_ = true;
    if (copy_ && opened_ > copy_->opened && random_.one_in(2)) {
        ROS2S_CO_TRY(co_await try_copy(report));
    }
    if (!made_) {
        ROS2S_CO_TRY(co_await create(report));
        made_ = true;
    }
    Report first;
    Result<> opened = co_await open_store(first);
    if (!opened && growing_ && !crashed_ && !failing_) {
        // If nothing was acknowledged, the pool may not know the new disk.
        disks_.pop_back();
        growing_ = false;
        opened = co_await open_store(report);
    } else if (!opened) {
        (void)report.fail(opened.error(), first.text());
    }
    ROS2S_CO_TRY(opened);
    growing_ = false;
    if (const std::string reason = store_->read_only_reason(); !reason.empty()) {
        if (!crashed_) co_return report.fail(Code::read_only, reason);
    }
    if (!crashed_) ++opened_;
    co_return store_.get();
}

Task<Result<>> EngineRig::open_store(Report& report) {
    ROS2S_CO_TRY_ASSIGN(EngineStore::Devices devices, co_await open_devices(report));
    const Environment env{world_.core(), world_.blocking(), {}, more_reactors_};
    engine_options_.pin_list.text = pin_list_;
    ROS2S_CO_TRY_ASSIGN(store_, co_await EngineStore::open(env, std::move(devices), index_factory(),
                                                           engine_options_, report));
    co_return Result<>();
}

void EngineRig::set_index_full(bool full) {
    index_full_ = full;
    if (full && options_.totals != nullptr) ++options_.totals->indexes_full;
    ordered_index_.set_full(full);
    files_.set_capacity(full ? files_.bytes() : UINT64_MAX);
}

// ---- a disk that was restored from an old copy ---------------------------------------------

void EngineRig::keep_copy() {
    constexpr uint64_t bytes_max = 16 << 20;
    const size_t number = random_.below(disks_.size());
    device::SimDisk& disk = *disks_[number];
    if (disks_.size() == 1 || growing_ || disk.size() > bytes_max) return;
    copy_ = {.number = number, .bytes = std::vector<std::byte>(disk.size()), .opened = opened_};
    disk.peek(0, copy_->bytes);
}

// The pool must be refused, and nothing written. Then the original disk is put back.
Task<Result<>> EngineRig::try_copy(Report& report) {
    device::SimDiskOptions options = disk_;
    options.size = copy_->bytes.size();
    options.memory = disks_[copy_->number]->is_memory();
    auto disk = std::make_unique<device::SimDisk>(random_, options, "an old copy");
    disk->poke(0, copy_->bytes);
    const auto plan = std::exchange(plan_, std::nullopt);
    disks_[copy_->number].swap(disk);
    writes_refused_ = true;
    wrote_refused_ = false;
    Report said;
    const Result<> opened = co_await open_store(said);
    co_await close();
    writes_refused_ = false;
    disks_[copy_->number].swap(disk);
    const size_t number = copy_->number;
    copy_.reset();
    plan_ = plan;
    if (opened) {
        co_return report.fail(Code::invalid, "an old copy of sim {} was taken", number);
    }
    if (wrote_refused_) {
        co_return report.fail(
            Code::invalid,
            "an old copy of sim {} was refused, but not before something was written", number);
    }
    if (options_.totals != nullptr) ++options_.totals->copies_refused;
    co_return Result<>();
}

Task<Result<>> EngineRig::grow(Report& report) {
    growing_ = true;
    add_disk((34 + random_.below(100)) * block_bytes);
    auto device = co_await device::SimDevice::open(world_.core(), *disks_.back(), report);
    if (!device) co_return fail(device.error());
    ROS2S_CO_TRY(co_await store_->grow(std::move(*device), report));
    if (!crashed_) growing_ = false;
    co_return Result<>();
}

Task<> EngineRig::close() {
    error_.reset();
    full_after_.reset();
    if (store_ == nullptr) co_return;
    if (options_.totals != nullptr && options_.cleaner) {
        store_->visit_metrics([&](std::string_view name, std::string_view, uint64_t value) {
            if (name == "ros2store_engine_cleaner_moved_bytes_total") {
                options_.totals->moved_bytes += value;
            }
        });
    }
    (void)co_await store_->close();
    store_ = nullptr;
    if (!writes_refused_ && random_.one_in(8)) keep_copy();
}

// ---- crashing ------------------------------------------------------------------------------

size_t EngineRig::unflushed_writes() const {
    size_t unflushed = 0;
    for (const auto& disk : disks_)
        unflushed += disk->unflushed_writes() + disk->writes_in_flight();
    return unflushed;
}

void EngineRig::draw_error(uint64_t operations) {
    const device::SimKind kinds[] = {device::SimKind::flush, device::SimKind::flush,
                                     device::SimKind::write, device::SimKind::write,
                                     device::SimKind::read};
    const device::SimKind kind = kinds[random_.below(std::size(kinds))];
    error_ = {.operations = random_.below(operations + 1),
              .kind = kind,
              .overlaps = kind == device::SimKind::flush && !random_.one_in(4),
              .lasts = random_.one_in(3)};
    // Leaves time for the error before the crash.
    plan_->operations += 200;
}

device::SimFault EngineRig::draw_fault(const device::SimDisk& disk,
                                       const device::SimOperation& operation) {
    if (!options_.device_errors && options_.cores == 1) return device::SimFault::none;
    if (options_.device_errors && operation.kind == device::SimKind::discard &&
        random_.one_in(16)) {
        return device::SimFault::error;  // no request fails because of that
    }
    if (error_ && error_->disk == &disk && error_->lasts) return device::SimFault::error;
    const bool due = error_ && error_->disk == nullptr && error_->kind == operation.kind &&
                     (!error_->overlaps || operation.flushes_in_flight > 1);
    if (error_ && error_->operations > 0) {
        --error_->operations;
    } else if (due && random_.one_in(2)) {
        failing_ = true;
        error_->disk = &disk;
        if (plan_) plan_ = {.kind = plan_->kind, .operations = operations_ + random_.below(20)};
        return device::SimFault::error;
    }
    return random_.one_in(64) ? device::SimFault::slow : device::SimFault::none;
}

// The two slots follow the first disk's first superblock.
bool EngineRig::is_checkpoint(const device::SimDisk& disk,
                              const device::SimOperation& operation) const {
    const uint64_t block = operation.offset / block_bytes;
    return &disk == disks_[0].get() && operation.kind == device::SimKind::write &&
           (block == 1 || block == 2);
}

void EngineRig::on_operation(const device::SimDisk& disk, const device::SimOperation& operation) {
    if (options_.trace != nullptr) {
        options_.trace->add(static_cast<uint64_t>(operation.kind));
        options_.trace->add(operation.offset);
        options_.trace->add(operation.length);
        options_.trace->add(static_cast<uint64_t>(world_.now().time_since_epoch().count()));
    }
    if (operation.kind == device::SimKind::write) wrote_refused_ = true;
    if (full_after_ && operations_ >= *full_after_ && made_) {
        full_after_.reset();
        failing_ = true;
        set_index_full(true);
    }
    if (!plan_) return;
    if (plan_->at_checkpoint && operations_ < plan_->operations_max) {
        ++operations_;
        if (!is_checkpoint(disk, operation)) return;
        plan_->at_checkpoint = false;
        plan_->operations = operations_ + random_.below(6);
        return;
    }
    if (operations_++ < plan_->operations) return;
    const bool waits = unflushed_writes() < plan_->unflushed_writes ||
                       (plan_->at_flush && operation.kind != device::SimKind::flush);
    if (waits && operations_ < plan_->operations_max) return;
    crash_at(name_of(operation.kind), plan_->kind);
}

void EngineRig::crash_at(std::string_view operation, CrashKind kind) {
    point_ = {
        .kind = kind, .unflushed_writes = unflushed_writes(), .operation = std::string(operation)};
    plan_.reset();
    crashed_ = true;
    for (auto& disk : disks_) {
        if (kind == CrashKind::power) {
            disk->power_loss();
        } else {
            disk->process_crash();
        }
    }
    // To an index without a log both kinds are the same.
    if (options_.index == IndexKind::ordered) {
        ordered_index_.crash(random_);
    } else {
        files_.crash(random_);
    }
    if (told_) told_();
}

}  // namespace

std::unique_ptr<Rig> make_engine_rig(World& world, Random& random,
                                     const EngineRigOptions& options) {
    return std::make_unique<EngineRig>(world, random, options);
}

}  // namespace ros2s::sim
