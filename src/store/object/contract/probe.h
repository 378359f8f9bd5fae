// Probe, which the cases share: the store under test with a container, and frequent requests with
// checks of the conditions that always hold.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "contract.h"
#include "ros2s/object/object_store.h"
#include "ros2s/object/test_support/batch.h"

namespace ros2s::object::contract {

inline constexpr ObjectId one{1, 1};
inline constexpr ObjectId two{2, 2};

// The result of a fetch of one extent.
struct Fetched {
    Result<> status{};
    bool is_value = false;
    uint64_t size = 0;
    Epoch epoch{};
    std::string bytes;  // the window, as long as the extent
    Checksums checksums;
    std::string seals;  // wanted where the store has them
};

class Probe {
  public:
    explicit Probe(Setup& setup) : setup_(setup) {}
    // Makes the container "contract".
    Task<> open();

    [[nodiscard]] Setup& setup() { return setup_; }
    [[nodiscard]] ObjectStore& store() { return setup_.store(); }
    [[nodiscard]] Reactor& reactor() { return setup_.reactor(); }
    [[nodiscard]] const Call& call() const { return call_; }
    [[nodiscard]] ContainerId container() const { return container_; }

    Task<Result<Commit>> update(Batch batch);
    // Expects success.
    Task<Commit> must(Batch batch);
    // Expects the failure.
    Task<> refused(Batch batch, Code code, uint64_t detail = 0);

    // One request into memory that is aligned to a block, or off by one. Checks that nothing beyond
    // the extent is written and that the checksums are those of the bytes.
    Task<Fetched> fetch_once(AkeyAddress address, Extent extent, bool aligned = true);
    // Both kinds of memory; the results must be equal.
    Task<Fetched> fetch(AkeyAddress address, Extent extent);
    // Expects an array of exactly these bytes.
    Task<> expect_array(AkeyAddress address, std::string bytes);
    Task<> expect_value(AkeyAddress address, std::string bytes);
    Task<> expect_absent(AkeyAddress address);

    Task<ListReply> list(ListRequest request);
    // All pages of `limit`.
    Task<std::vector<ListEntry>> list_all(ListRequest request);
    Task<QueryReply> query(ObjectId object, std::string akey);
    Task<ContainerId> create_container(std::string label);
    Task<PoolSpace> space();

  private:
    Setup& setup_;
    Call call_;
    ContainerId container_{};
};

// `length` bytes that differ from block to block and from seed to seed.
[[nodiscard]] std::string pattern(uint64_t seed, size_t length);
// `bytes` with `part` written at `offset`.
void overlay(std::string& bytes, uint64_t offset, const std::string& part);

struct Case {
    const char* name;
    Task<> (*body)(Probe&);
    Needs needs{};
    bool (*applies)(const Features&) = nullptr;  // null: it applies to all
};
[[nodiscard]] inline bool has_conditions(const Features& features) { return features.conditions; }
[[nodiscard]] inline bool has_transactions(const Features& features) {
    return features.multi_object_transactions;
}
[[nodiscard]] inline bool has_replies(const Features& features) { return features.stored_replies; }
[[nodiscard]] inline bool knows_its_space(const Features& features) { return !features.late_space; }
[[nodiscard]] inline bool keeps_seals(const Features& features) { return features.seals; }
[[nodiscard]] inline bool is_durable(const Features& features) { return features.durable; }

[[nodiscard]] std::vector<Case> array_cases();
[[nodiscard]] std::vector<Case> seal_cases();
[[nodiscard]] std::vector<Case> value_cases();
[[nodiscard]] std::vector<Case> condition_cases();
[[nodiscard]] std::vector<Case> transaction_cases();
[[nodiscard]] std::vector<Case> reply_cases();
[[nodiscard]] std::vector<Case> pin_cases();
[[nodiscard]] std::vector<Case> lock_cases();
[[nodiscard]] std::vector<Case> lease_cases();
[[nodiscard]] std::vector<Case> chain_cases();
[[nodiscard]] std::vector<Case> limit_cases();
[[nodiscard]] std::vector<Case> list_cases();
[[nodiscard]] std::vector<Case> container_cases();
[[nodiscard]] std::vector<Case> concurrency_cases();
[[nodiscard]] std::vector<Case> property_cases();

}  // namespace ros2s::object::contract
