// The texts with which settings of daemons and tenants name subjects, containers and rights. The
// same form is in both:
//
//     images              a container
//     run-*               all whose names begin so; "*": all
//     images/cats/small   a directory of a container, with everything in it
//
// Plain functions; any thread.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/base/setting_place.h"
#include "ros2s/rights/policy.h"

namespace ros2s::rights {

inline constexpr size_t path_names_max = 64;  // of a directory

// Errors: invalid, with a sentence that begins with `where`.
[[nodiscard]] Result<> check_subject(std::string_view subject, std::string_view where,
                                     Report& report);
// Subjects separated by semicolons. A subject has commas ("CN=alice,O=Example"), and writes its own
// semicolons as "\;" (RFC 2253). Errors: those of check_subject(); also invalid for ", ", which a
// subject never contains but a list with commas does.
[[nodiscard]] Result<std::vector<std::string>> parse_subjects(std::string_view list,
                                                              std::string_view where,
                                                              Report& report);

// A grant of the right for the containers, or the directory, of that text, in no pool yet. Errors:
// invalid; then `why` is what is wrong with it. Empty: the name of the container is.
[[nodiscard]] Result<Grant> parse_grant(Right right, std::string_view text, std::string& why);

// The setting `access` of a daemon: POOL/CONTAINER or POOL/CONTAINER/DIRECTORY, separated by
// commas, by subject ("CN=alice") and name of the right. Also the settings of a UserMapping, by
// name. The default is no right. A subject there is a tenant without a name.
using AccessSettings = std::map<std::string, std::map<std::string, std::string>>;
// An engine's clients use objects, so an engine can check rights on whole containers only.
enum class GrantScope : uint8_t { containers, directories };
// Errors: invalid, with a sentence that begins with `where`, the file, and has its line.
[[nodiscard]] Result<Subjects> parse_access(const AccessSettings& settings, std::string_view where,
                                            Report& report,
                                            GrantScope scope = GrantScope::directories,
                                            const RecordLines& lines = {});

}  // namespace ros2s::rights
