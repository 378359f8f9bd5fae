// Labels of DAOS pools and containers, as URIs of ROS2.
//
// The environment variable ROS2STORE_DAOS has a base URI, or the path of a file; without it the
// file is /etc/ros2store/daos.yaml:
//
//     default: "ros2s://engine.example:7777"            # for pools that are not listed
//     pools:
//       tank: "ros2s+local:///pool?dir=/srv/tank"       # this pool has another name in ROS2
//
// A base URI that names no pool gets the pool's label and the container's label as its path. One
// that names a pool gets the container's label.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::daos {

// The names of the containers of a pool.
class ContainerUris {
  public:
    ContainerUris(std::string before, std::string after)
        : before_(std::move(before)), after_(std::move(after)) {}
    [[nodiscard]] std::string uri_of(std::string_view container) const {
        return before_ + "/" + std::string(container) + after_;
    }

  private:
    std::string before_;  // up to the pool's name
    std::string after_;   // "" or "?…"
};

// Errors, with a sentence: not_found (no setting names the pool's location), invalid.
[[nodiscard]] Result<ContainerUris> find_pool(std::string_view label, Report& report);

// The labels that the file has under pools. With a base URI that names a pool: that pool. Errors,
// with a sentence: as find_pool().
[[nodiscard]] Result<std::vector<std::string>> listed_pools(Report& report);

// Like find_pool(), for a given setting. `where` names it in messages.
[[nodiscard]] Result<ContainerUris> uris_in(std::string_view base_uri, std::string_view where,
                                            std::string_view label, Report& report);

}  // namespace ros2s::daos
