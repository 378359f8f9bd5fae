// AccessTable: the rights of certificate subjects on containers, from a daemon's settings and from
// the tenants of pools (tenancy). The control plane checks each call that names a pool or a
// container against it. A mount keeps the result (read only, or also write), which the data plane
// also uses. A daemon that revokes rights therefore ends the subject's sessions.
//
// A right is given for POOL/CONTAINER. A '*' at the end matches the rest of a name: pool/scratch-*,
// pool/*. `read` and `write` can also be given for a directory: POOL/CONTAINER/DIRECTORY (Granted).
// `write` includes `read`. The default is no right.
//
// It also has the users for whom a subject may act on its machine (rights::UserMapping). They come
// from the settings or, in a pool where the subject has a tenant, from the tenant.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/access/subtree.h"
#include "ros2s/base/audit_event.h"
#include "ros2s/base/result.h"
#include "ros2s/base/setting_place.h"
#include "ros2s/rights/decide.h"
#include "ros2s/rights/user_mapping.h"
#include "ros2s/session/granted.h"

namespace ros2s::session {

using rights::Right;
using rights::right_names;
using rights::to_string;
// The audit action of an attempt to use the right.
[[nodiscard]] constexpr AuditAction action_of(Right right) noexcept {
    if (right == Right::create) return AuditAction::create;
    return right == Right::destroy ? AuditAction::destroy : AuditAction::use;
}

// The reason why the right cannot be given for this, as the end of a sentence. Empty: it can be
// given.
[[nodiscard]] std::string_view wrong_for(Right right, const Granted& granted);

// For settings by subject. Errors: invalid, with a sentence that begins with `where`.
[[nodiscard]] Result<> check_subject(std::string_view subject, std::string_view where,
                                     Report& report);
// Subjects separated by semicolons. A subject has commas ("CN=alice,O=Example"), and writes its own
// semicolons as "\;" (RFC 2253). Errors: those of check_subject(); also invalid for ", ", which a
// subject never contains but a list with commas does.
[[nodiscard]] Result<std::vector<std::string>> parse_subjects(std::string_view list,
                                                              std::string_view where,
                                                              Report& report);

class AccessTable {
  public:
    // Containers, separated by commas, by subject ("CN=alice") and name of the right. Also the
    // settings of a rights::UserMapping, by name.
    using Settings = std::map<std::string, std::map<std::string, std::string>>;
    // An engine's clients use objects, so an engine can check rights on whole containers only.
    enum class Scope : uint8_t { containers, directories };
    // Errors: invalid, with a sentence that begins with `where`, the file, and has its line.
    [[nodiscard]] static Result<AccessTable> parse(const Settings& settings, std::string_view where,
                                                   Report& report,
                                                   Scope places = Scope::directories,
                                                   const RecordLines& lines = {});

    AccessTable() = default;  // no rights for any subject

    void add(const std::string& subject, Right right, const std::string& pool, Granted granted);
    void add_users(const std::string& subject, const std::string& pool, rights::UserMapping users);
    // Takes away all rights of the subject in the pool.
    void remove(std::string_view subject, std::string_view pool);
    // True if the subject has all rights in the pool that `other` gives it, for the same users.
    [[nodiscard]] bool covers(const AccessTable& other, std::string_view subject,
                              std::string_view pool) const;

    // Whether the subject has the right to the whole container.
    [[nodiscard]] bool allows(std::string_view subject, Right right, std::string_view pool,
                              std::string_view container) const;
    // The directories of the container that the subject may read, or write.
    [[nodiscard]] std::vector<access::Subtree> subtrees_of(std::string_view subject,
                                                           std::string_view pool,
                                                           std::string_view container) const;
    // Whether the subject has any right, also on a directory. Without one, the container or pool
    // does not exist for it.
    [[nodiscard]] bool sees(std::string_view subject, std::string_view pool,
                            std::string_view container) const;
    [[nodiscard]] const rights::UserMapping& users_of(std::string_view subject,
                                                      std::string_view pool) const;
    [[nodiscard]] bool sees_pool(std::string_view subject, std::string_view pool) const;

    using VisitRight = std::function<void(const std::string& subject, Right right,
                                          const std::string& pool, const Granted& granted)>;
    void visit_rights(const VisitRight& visit) const;
    // Pool "": from the settings.
    using VisitUsers = std::function<void(const std::string& subject, const std::string& pool,
                                          const rights::UserMapping& users)>;
    void visit_users(const VisitUsers& visit) const;
    // The same rights as a policy. From now on decide() is asked beside each function above, and
    // must agree (rights/side_by_side.h). A change of this table ends the comparison.
    void compare_with(rights::Policy policy) {
        policy_ = std::make_shared<const rights::Policy>(std::move(policy));
    }
    // Null: there is none.
    [[nodiscard]] const rights::Policy* policy() const { return policy_.get(); }

  private:
    struct PoolGrant {
        std::string pool;
        Granted granted;
    };
    using Rights = std::array<std::vector<PoolGrant>, right_names.size()>;
    // Errors: invalid, with a sentence that begins with `where`.
    static Result<PoolGrant> parse_grant(std::string_view text, Right right, Scope places,
                                         std::string_view where, Report& report);
    [[nodiscard]] const Rights* rights_of(std::string_view subject) const;
    [[nodiscard]] bool is_allowed(std::string_view subject, Right right, std::string_view pool,
                                  std::string_view container) const;
    // Returns `earlier`.
    bool checked(bool earlier, std::string_view subject, rights::Wanted what, std::string_view pool,
                 std::string_view container) const;

    std::map<std::string, Rights, std::less<>> subjects_;
    // By subject and pool; pool "": from the settings.
    std::map<std::string, std::map<std::string, rights::UserMapping, std::less<>>, std::less<>>
        users_;
    std::shared_ptr<const rights::Policy> policy_;
};

}  // namespace ros2s::session
