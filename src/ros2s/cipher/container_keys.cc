#include "container_keys.h"

#include <fmt/format.h>

#include "ros2s/cipher/cipher_store.h"

namespace ros2s::cipher {

using namespace object;

namespace {

Result<DataKeys> unwrap_all(const KeyRecord& record, const KeyProvider& provider, Report& report) {
    DataKeys keys{.id = record.id, .current = record.current, .layout = record.layout};
    for (const KeyRecord::Version& each : record.versions) {
        ROS2S_TRY_ASSIGN(keys.versions[each.version],
                         provider.unwrap(record.wrapping, each.wrapped, report));
    }
    return keys;
}

// Reads the record again, because another key may protect the container now.
class Confirmation final : public KeyConfirmation {
  public:
    Confirmation(ObjectStore& store, ContainerId container, const KeyProvider& provider)
        : store_(store), container_(container), provider_(provider) {}
    Task<Result<>> confirm(const Call& call) override {
        Report unused;
        ROS2S_CO_TRY_ASSIGN(const FoundKeys found,
                            co_await find_keys(call, store_, container_, {}, unused));
        ROS2S_CO_TRY(unwrap_all(found.record, provider_, unused));
        co_return Result<>();
    }

  private:
    ObjectStore& store_;
    ContainerId container_;
    const KeyProvider& provider_;
};

class Decryption final : public StoreLayers {
  public:
    Decryption(std::unique_ptr<KeyProvider> provider, Duration keep, Log log)
        : provider_(std::move(provider)), keep_(keep), log_(std::move(log)) {}

    Task<Result<StoreLayer>> find(const Call& call, Reactor& reactor, ObjectStore& store,
                                  const ContainerRecord& record, std::string shown,
                                  Report& report) override {
        Report trouble;
        const auto found = co_await find_keys(call, store, record.id, shown, trouble);
        if (!found && found.error().code == Code::not_found) co_return StoreLayer{};
        if (!found) co_return report.fail(found.error(), trouble.text());
        if (found->record.layout == Layout::seals && !store.features().seals) {
            co_return report.fail(Code::unsupported,
                                  "{} is encrypted in a way that its store does not support; use a "
                                  "newer release there",
                                  shown);
        }
        auto keys = unwrap_all(found->record, *provider_, trouble);
        if (!keys) {
            co_return report.fail(keys.error(), "{} is encrypted, and its key is not available: {}",
                                  shown, trouble.text());
        }
        auto layer = std::make_shared<CipherStore>(reactor, store, record.id, std::move(*keys),
                                                   log_, memory_);
        layer->confirm_keys(std::make_unique<Confirmation>(store, record.id, *provider_), keep_);
        co_return StoreLayer{.store = std::move(layer),
                             .operations_max = CipherStore::operations_max,
                             .transaction_bytes_max = CipherStore::transaction_bytes_max};
    }

  private:
    std::unique_ptr<KeyProvider> provider_;
    Duration keep_;
    Log log_;
    const std::shared_ptr<CipherMemory> memory_ = std::make_shared<CipherMemory>();
};

}  // namespace

Result<std::unique_ptr<StoreLayers>> decrypt_with(std::string keys, Duration keep, Log log,
                                                  Report& report) {
    ROS2S_TRY_ASSIGN(auto provider, open_keys(keys, report));
    return std::make_unique<Decryption>(std::move(provider), keep, std::move(log));
}

Result<KeyRecord> make_keys(const Secrets& secrets, const KeyProvider& provider,
                            std::string wrapping, const Features& features, Report& report) {
    KeyRecord record{.id = Uuid::make(secrets),
                     .wrapping = std::move(wrapping),
                     .current = 1,
                     .layout = features.seals ? Layout::seals : Layout::cells};
    ROS2S_TRY_ASSIGN(const WrappedKey wrapped,
                     provider.wrap(record.wrapping, SecretKey::make(secrets), report));
    record.versions.push_back({.version = 1, .wrapped = wrapped});
    return record;
}

Result<KeyRecord> wrap_again(KeyRecord record, const KeyProvider& provider, std::string wrapping,
                             Report& report) {
    ROS2S_TRY_ASSIGN(const DataKeys keys, unwrap_all(record, provider, report));
    record.wrapping = std::move(wrapping);
    for (KeyRecord::Version& each : record.versions) {
        ROS2S_TRY_ASSIGN(each.wrapped,
                         provider.wrap(record.wrapping, keys.versions.at(each.version), report));
    }
    return record;
}

Operation put_keys(std::string_view bytes) {
    return {.kind = Operation::Kind::put,
            .object = key_object,
            .dkey = key_dkey(),
            .akey = key_akey(),
            .window = Window::local(as_bytes(bytes))};
}

Task<Result<FoundKeys>> find_keys(const Call& call, ObjectStore& store, ContainerId container,
                                  std::string shown, Report& report) {
    std::string bytes(KeyRecord::bytes_max, '\0');
    FetchItem item{.object = key_object,
                   .dkey = key_dkey(),
                   .akey = key_akey(),
                   .extent = {0, bytes.size()},
                   .window = Window::local(std::as_writable_bytes(std::span(bytes)))};
    const auto done = co_await store.fetch(call, container, {&item, 1});
    const Result<> fetched = done ? item.status : done;
    if (!fetched && fetched.error().code == Code::not_found) {
        co_return report.fail(fetched.error(), "{} is not encrypted", shown);
    }
    if (!fetched) {
        co_return report.fail(fetched.error(), "the keys of {} cannot be read: {}", shown,
                              describe(fetched.error()));
    }
    auto record = item.is_value
                      ? decode_key_record(as_bytes(bytes).first(std::min(item.size, bytes.size())))
                      : fail(Code::corrupt);
    if (!record) {
        co_return report.fail(
            record.error(),
            record.error().code == Code::bad_version
                ? fmt::format("{} is encrypted in a way that this program does not support; use a "
                              "newer release",
                              shown)
                : fmt::format("the keys of {} are damaged: {}", shown, describe(record.error())));
    }
    co_return FoundKeys{.record = std::move(*record), .epoch = item.epoch};
}

Task<Result<>> replace_keys(const Call& call, ObjectStore& store, ContainerId container,
                            Epoch epoch, KeyRecord record) {
    const std::string bytes = encode(record);
    Transaction transaction;
    transaction.conditions.push_back({.kind = Condition::Kind::epoch_equals,
                                      .object = key_object,
                                      .dkey = key_dkey(),
                                      .akey = key_akey(),
                                      .value = epoch.value});
    transaction.operations.push_back(put_keys(bytes));
    const auto done = co_await store.update(call, container, transaction);
    if (!done) co_return fail(done.error());
    co_return Result<>();
}

}  // namespace ros2s::cipher
