// What is wrong with directories of certificates, as `ros2store certs init` makes them.
#pragma once
#include <string>
#include <vector>

#include "finding.h"
#include "ros2s/pki/authority.h"

namespace ros2s::cli {

// A certificate that ends within this time is to be renewed.
inline constexpr std::chrono::days soon{30};

// The command that issues NAME.crt of a directory anew, with its names if it is a server's.
[[nodiscard]] std::string renewal(const std::string& directory, const std::string& name,
                                  const std::vector<std::string>& alternative_names);

// The authority and each certificate in the directory: readable, in its time, with the key that
// belongs to it and nobody else can read, signed by the authority.
[[nodiscard]] std::vector<Finding> look_at_certificates(const std::string& directory,
                                                        pki::Seconds now);

// Of the pool directory's services and the usual place, where they are; one finding where there are
// none.
[[nodiscard]] std::vector<Finding> look_for_certificates(const std::string& pool_directory,
                                                         pki::Seconds now);

}  // namespace ros2s::cli
