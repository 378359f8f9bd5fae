// What a server knows, as its sources have it, and requests that two deciders get: decide(), and a
// plain reference, which reads the texts of settings and tenants for each request.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/rights/decide.h"
#include "ros2s/rights/settings.h"
#include "ros2s/tenancy/tenant.h"

namespace ros2s::rights::test {

struct Model {
    bool is_engine = false;  // or a DPU
    AccessSettings access{};
    std::map<std::string, tenancy::TenantsByName> tenants{};  // by pool
    std::vector<std::string> delegates{};
    std::map<std::string, Duration> valid_for{};  // of the engine's last answer, at a DPU; by pool
    std::map<std::string, VerifiedCapability> capabilities{};  // by a name for requests
    // At a delegated DPU, by pool and tenant.
    std::map<std::pair<std::string, std::string>, std::vector<capability::Use>> handed_over{};

    // Settings as `ros2store tenant` takes them.
    tenancy::Tenant& add_tenant(const std::string& pool, const std::string& name,
                                config::Entries settings);
    // Of the tenant, as the engine signs it, for half an hour. Depth 2: narrowed for a DPU.
    void add_capability(const std::string& name, const tenancy::Tenant& tenant, capability::Use use,
                        uint8_t depth);
};
[[nodiscard]] capability::Use use_of(Rights rights, std::string container,
                                     bool directories = false);
[[nodiscard]] Uuid numbered(uint8_t number);

struct Request {
    std::string subject;
    std::string capability;  // its name in the model; empty: none
    Wanted what = Wanted::see;
    std::string pool, label, owner;
    Duration later{};  // after the model was made

    // "CN=dpu by NAME", "write", "pool/label@owner".
    [[nodiscard]] static Request of(std::string_view who, std::string_view what,
                                    std::string_view where, Duration later = {});
    [[nodiscard]] std::string text() const;
};

// A decision of either one, as far as both say it.
struct Outcome {
    bool allowed = false;
    bool read_only = false;                   // of mounts
    std::vector<access::Subtree> subtrees{};  // of mounts
    friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Mistakes that the comparison must find.
enum class PlantedBug : uint8_t { none, wide_pattern, used_past_its_end, other_pool };

class PolicyDecider {
  public:
    explicit PolicyDecider(const Model& model, PlantedBug bug = PlantedBug::none);
    [[nodiscard]] Decision decide(const Request& request);
    [[nodiscard]] Outcome outcome(const Request& request);
    [[nodiscard]] const Policy& policy() const { return policy_; }

  private:
    [[nodiscard]] Policy made(Duration later) const;
    const Model& model_;
    const PlantedBug bug_;
    Policy policy_;
};

class ReferenceDecider {
  public:
    explicit ReferenceDecider(const Model& model) : model_(model) {}
    [[nodiscard]] Outcome outcome(const Request& request) const;

  private:
    [[nodiscard]] Outcome at_dpu(const Request& request) const;
    [[nodiscard]] bool at_engine(const Request& request) const;
    const Model& model_;
};

}  // namespace ros2s::rights::test
