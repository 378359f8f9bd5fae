// These functions make the data key of a container, find it in the container, and wrap it with
// another key. The data key never leaves this process in the clear, nor does the wrapping key leave
// its provider.
//
//     container ──► KeyRecord ──► KeyProvider::unwrap ──► data keys ──► CipherStore
//
// Errors of all functions come with a sentence. EKEYREJECTED: the provider has no key, or not the
// wrapping key. deadline: it did not answer by the call's deadline, or in KeyCalls::answer_max.
//
// Each mount, creation and confirmation is one job on a helper thread. It calls the provider once
// for each version of the data key.
#pragma once
#include <memory>
#include <string>

#include "ros2s/base/log.h"
#include "ros2s/base/random.h"
#include "ros2s/cipher/key_calls.h"
#include "ros2s/cipher/key_record.h"
#include "ros2s/object/store_layer.h"

namespace ros2s::cipher {

// The time for which an open container is used after the provider has lost its key.
inline constexpr Duration keep_keys = std::chrono::hours(1);

// The layer of encrypted containers whose keys are at this place (open_keys()). It is used and
// destroyed on the environment's core.
// Errors: unsupported (libros2store cannot load this module), those of open_keys().
[[nodiscard]] Result<std::unique_ptr<object::StoreLayers>> decrypt_with(std::string keys,
                                                                        Duration keep,
                                                                        Environment environment,
                                                                        Report& report);
// The same with these keys, which outlive the layer and its stores.
[[nodiscard]] std::unique_ptr<object::StoreLayers> decrypt_by(KeyCalls& keys, Duration keep,
                                                              Log log);

// A record with a new data key, wrapped with the key of this name, for a container in a store with
// these features.
[[nodiscard]] Task<Result<KeyRecord>> make_keys(const Call& call, KeyCalls& keys,
                                                std::string wrapping, object::Features features,
                                                Report& report);
// Wraps the record's keys with another key.
[[nodiscard]] Task<Result<KeyRecord>> wrap_again(const Call& call, KeyCalls& keys, KeyRecord record,
                                                 std::string wrapping, Report& report);

// Stores the bytes of encode(record), which outlive the operation.
[[nodiscard]] object::Operation put_keys(std::string_view bytes);

struct FoundKeys {
    KeyRecord record;
    object::Epoch epoch{};
};
// Errors: not_found (the container is not encrypted), corrupt, bad_version, those of fetch.
[[nodiscard]] Task<Result<FoundKeys>> find_keys(const Call& call, object::ObjectStore& store,
                                                object::ContainerId container, std::string shown,
                                                Report& report);
// Replaces the record that was found. Errors: condition_failed (it has changed since), those of
// update.
[[nodiscard]] Task<Result<>> replace_keys(const Call& call, object::ObjectStore& store,
                                          object::ContainerId container, object::Epoch epoch,
                                          KeyRecord record);

}  // namespace ros2s::cipher
