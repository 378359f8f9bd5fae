// Tenants for tests of this module.
#pragma once
#include <gtest/gtest.h>

#include "tenant.h"

namespace ros2s::tenancy {

inline Tenant tenant_of(const std::string& name, config::Entries settings) {
    Tenant tenant{.name = name, .settings = std::move(settings)};
    Report report;
    EXPECT_TRUE(parse_settings(tenant, "a test", report)) << report.text();
    return tenant;
}

inline Uuid numbered(size_t number) {
    Uuid id;
    id.bytes[0] = static_cast<uint8_t>(number);
    id.bytes[1] = static_cast<uint8_t>(number >> 8);
    return id;
}

}  // namespace ros2s::tenancy
