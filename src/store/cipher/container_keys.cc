#include "container_keys.h"

#include <fmt/format.h>

#include "ros2s/cipher/cipher_store.h"
#include "ros2s/cipher/key_calls.h"

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
    Confirmation(ObjectStore& store, ContainerId container, KeyCalls& keys)
        : store_(store), container_(container), keys_(keys) {}
    Task<Result<>> begin(const Call& call) override {
        Report unused;
        ROS2S_CO_TRY_ASSIGN(FoundKeys found,
                            co_await find_keys(call, store_, container_, {}, unused));
        question_ = keys_.begin<DataKeys>(
            [record = std::move(found.record)](const KeyProvider& provider, Report& report) {
                return unwrap_all(record, provider, report);
            },
            call.deadline);
        co_return Result<>();
    }
    [[nodiscard]] bool is_open() const override { return question_ != nullptr; }
    std::optional<Answer> take_answer() override {
        if (question_ == nullptr || !question_->has_ended()) return std::nullopt;
        const auto question = std::exchange(question_, nullptr);
        Answer answer{.confirmed = {}, .at = question->ended_at()};
        if (!question->is_done()) answer.confirmed = fail(Code::deadline);
        if (question->is_done() && !question->answer) {
            answer.confirmed = fail(question->answer.error());
        }
        return answer;
    }
    Task<> wait(const Call& call) override {
        const auto question = question_;
        (void)co_await keys_.wait(call, question);
    }

  private:
    ObjectStore& store_;
    ContainerId container_;
    KeyCalls& keys_;
    std::shared_ptr<KeyQuestion<DataKeys>> question_;
};

class Decryption final : public StoreLayers {
  public:
    Decryption(KeyCalls& keys, Duration keep, Log log)
        : keys_(keys), keep_(keep), log_(std::move(log)) {}
    Decryption(std::unique_ptr<KeyCalls> keys, Duration keep, Log log)
        : own_(std::move(keys)), keys_(*own_), keep_(keep), log_(std::move(log)) {}

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
        auto keys = co_await keys_.ask<DataKeys>(
            call,
            [wrapped = found->record](const KeyProvider& provider, Report& said) {
                return unwrap_all(wrapped, provider, said);
            },
            trouble);
        if (!keys) {
            report.note(trouble.notes());
            co_return report.fail(keys.error(), "{} is encrypted, and its key is not available: {}",
                                  shown, trouble.text());
        }
        auto layer = std::make_shared<CipherStore>(reactor, store, record.id, std::move(*keys),
                                                   log_, memory_);
        layer->confirm_keys(std::make_unique<Confirmation>(store, record.id, keys_), keep_);
        co_return StoreLayer{.store = std::move(layer),
                             .operations_max = CipherStore::operations_max,
                             .transaction_bytes_max = CipherStore::transaction_bytes_max};
    }

  private:
    const std::unique_ptr<KeyCalls> own_;  // null: another one's are used
    KeyCalls& keys_;
    Duration keep_;
    Log log_;
    const std::shared_ptr<CipherMemory> memory_ = std::make_shared<CipherMemory>();
};

}  // namespace

Result<std::unique_ptr<StoreLayers>> decrypt_with(std::string keys, Duration keep,
                                                  Environment environment, Report& report) {
    ROS2S_TRY_ASSIGN(auto calls, KeyCalls::open(environment, keys, report));
    return std::make_unique<Decryption>(std::move(calls), keep, std::move(environment.log));
}

std::unique_ptr<StoreLayers> decrypt_by(KeyCalls& keys, Duration keep, Log log) {
    return std::make_unique<Decryption>(keys, keep, std::move(log));
}

Task<Result<KeyRecord>> make_keys(const Call& call, KeyCalls& keys, std::string wrapping,
                                  Features features, Report& report) {
    const Secrets& secrets = keys.reactor().secrets();
    KeyRecord record{.id = Uuid::make(secrets),
                     .wrapping = std::move(wrapping),
                     .current = 1,
                     .layout = features.seals ? Layout::seals : Layout::cells};
    ROS2S_CO_TRY_ASSIGN(const WrappedKey wrapped,
                        co_await keys.ask<WrappedKey>(
                            call,
                            [name = record.wrapping, key = SecretKey::make(secrets)](
                                const KeyProvider& provider, Report& said) {
                                return provider.wrap(name, key, said);
                            },
                            report));
    record.versions.push_back({.version = 1, .wrapped = wrapped});
    co_return record;
}

namespace {

Result<KeyRecord> wrap_all_again(KeyRecord record, const std::string& wrapping,
                                 const KeyProvider& provider, Report& report) {
    ROS2S_TRY_ASSIGN(const DataKeys keys, unwrap_all(record, provider, report));
    record.wrapping = wrapping;
    for (KeyRecord::Version& each : record.versions) {
        ROS2S_TRY_ASSIGN(each.wrapped,
                         provider.wrap(record.wrapping, keys.versions.at(each.version), report));
    }
    return record;
}

}  // namespace

Task<Result<KeyRecord>> wrap_again(const Call& call, KeyCalls& keys, KeyRecord record,
                                   std::string wrapping, Report& report) {
    return keys.ask<KeyRecord>(
        call,
        [record = std::move(record), wrapping = std::move(wrapping)](const KeyProvider& provider,
                                                                     Report& said) {
            return wrap_all_again(record, wrapping, provider, said);
        },
        report);
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
