// Clients of a daemon's control plane, with the certificate of a subject.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "ros2s/api/service_paths.h"
#include "ros2s/control/control_client.h"
#include "ros2s/pki/certificate.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::tests {

inline std::unique_ptr<control::ControlClient> control_client(OsReactor& reactor,
                                                              const std::string& socket,
                                                              const std::string& certificates,
                                                              const std::string& subject) {
    Report report;
    auto client =
        control::ControlClient::create(reactor,
                                       {.address = "unix:" + socket,
                                        .identity = pki::identity_in(certificates, subject),
                                        .server_name = "localhost"},
                                       report);
    EXPECT_TRUE(client) << report.text();
    return std::move(*client);
}

inline std::unique_ptr<control::ControlClient> engine_client(OsReactor& reactor,
                                                             const api::ServicePaths& places,
                                                             const std::string& subject) {
    return control_client(reactor, places.engine_control, places.storage_certs, subject);
}

inline std::unique_ptr<control::ControlClient> dpu_client(OsReactor& reactor,
                                                          const api::ServicePaths& places,
                                                          const std::string& subject) {
    return control_client(reactor, places.dpu_control, places.host_certs, subject);
}

}  // namespace ros2s::tests
