#include "object_store.h"

#include "ros2s/base/check.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/base/digest.h"

namespace ros2s::object {

std::string object_key(ObjectId object) {
    return Dkey::integer(object.high).bytes + Dkey::integer(object.low).bytes;
}

ObjectId parse_object_key(std::string_view key) {
    ROS2S_CHECK(key.size() == object_key_bytes);
    return {.high = Dkey{std::string(key.substr(0, 8))}.number(),
            .low = Dkey{std::string(key.substr(8))}.number()};
}

namespace {

void add_place(Digest& digest, ObjectId object, const Dkey& dkey, const Akey& akey) {
    digest.add(object.high).add(object.low).add(dkey.bytes).add(akey.bytes);
}

void add_payload(Digest& digest, const Operation& operation) {
    digest.add(operation.window.length);
    for (const uint32_t checksum : operation.checksums) digest.add(checksum);
    const Window& window = operation.window;
    if (!operation.checksums.empty() || !window.is_local() || window.shared) return;
    digest.add(crc32c(window.bytes()));
}

}  // namespace

uint64_t digest_of(const Transaction& transaction) {
    if (transaction.id.digest != 0) return transaction.id.digest;
    Digest digest;
    digest.add(transaction.conditions.size());
    for (const Condition& condition : transaction.conditions) {
        digest.add(static_cast<uint64_t>(condition.kind)).add(condition.value);
        add_place(digest, condition.object, condition.dkey, condition.akey);
    }
    for (const Operation& operation : transaction.operations) {
        digest.add(static_cast<uint64_t>(operation.kind));
        add_place(digest, operation.object, operation.dkey, operation.akey);
        digest.add(operation.extent.offset).add(operation.extent.length);
        digest.add(operation.size).add(operation.dkey_end.bytes);
        if (operation.kind == Operation::Kind::write || operation.kind == Operation::Kind::put) {
            add_payload(digest, operation);
        }
    }
    return digest.value();
}

bool is_valid_label(std::string_view label) {
    if (label.empty() || label.size() > label_bytes_max || label == "." || label == "..")
        return false;
    for (const char c : label) {
        const bool ok = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                        (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
        if (!ok) return false;
    }
    return true;
}

}  // namespace ros2s::object
