#include "key_provider.h"

#include <errno.h>

#include "key_directory.h"
#include "pkcs11_keys.h"
#include "ros2s/object/object_store.h"

namespace ros2s::cipher {

Result<std::unique_ptr<KeyProvider>> open_keys(const std::string& place, Report& report) {
    if (place.starts_with("pkcs11:")) return Pkcs11Keys::open(place, report);
    return std::make_unique<KeyDirectory>(place);
}

Result<> check_key_name(const std::string& name, Report& report) {
    if (object::is_valid_label(name)) return {};
    return report.fail(Code::invalid,
                       "'{}' is not the name of a key: 1 to 127 of A-Z a-z 0-9 . _ -", name);
}

std::unexpected<Error> reject_key(Report& report, std::string sentence) {
    return report.fail(fail_errno(EKEYREJECTED).error(), std::move(sentence));
}

}  // namespace ros2s::cipher
