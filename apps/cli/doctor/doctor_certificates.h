// Problems of directories of certificates, as `ros2store certs init` makes them.
#pragma once
#include <string>
#include <vector>

#include "finding.h"
#include "ros2s/pki/authority.h"

namespace ros2s::cli {

// A certificate that expires within this time should be renewed.
inline constexpr std::chrono::days soon{30};

// The command that issues NAME.crt of a directory again, with its names if it is a server's.
[[nodiscard]] std::string renewal(const std::string& directory, const std::string& name,
                                  const std::vector<std::string>& alternative_names);

// Checks the authority and each certificate in the directory: it can be read, is valid now, has the
// matching key, which no other user can read, and is signed by the authority.
[[nodiscard]] std::vector<Finding> look_at_certificates(const std::string& directory,
                                                        pki::Seconds now);

// Checks those of the pool directory's services and of the usual directory, if they exist; one
// finding if there are none.
[[nodiscard]] std::vector<Finding> look_for_certificates(const std::string& pool_directory,
                                                         pki::Seconds now);

}  // namespace ros2s::cli
