#include "audit_event.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace ros2s {
namespace {

// Whether an event of these parts compiles.
template <class... Parts>
concept Compiles = requires(Parts... parts) { AuditEvent{parts...}; };
using Text = const char*;
static_assert(Compiles<Text, Text, uint64_t, AuditAction, AuditObject, AuditDecision, Error, Text>);
static_assert(!Compiles<Text, Text, uint64_t, AuditAction, AuditObject, AuditDecision, Error>);
static_assert(!Compiles<Text, Text, uint64_t, AuditAction, AuditObject>);
static_assert(!Compiles<>);

TEST(AuditEvent, PartsBecomeFields) {
    EXPECT_EQ(audit_line({.subject = "CN=bob",
                          .peer = "unix:",
                          .session = 7U,
                          .action = AuditAction::change,
                          .object = AuditObject{"pool", "main", "home/bob", 12},
                          .decision = AuditDecision::refused,
                          .reason = Error{.code = Code::denied, .os_errno = EACCES},
                          .text = "CN=bob may not unlink: permission denied",
                          .shown_by = "CN=dpu"},
                         3),
              "audit: CN=bob may not unlink: permission denied (3 earlier ones were not logged) "
              "[session=7 tenant=\"CN=bob\" shown_by=\"CN=dpu\" peer=unix: action=change pool=pool "
              "container=main subtree=home/bob node=12 decision=refused reason=EACCES left_out=3]");
}

TEST(AuditEvent, UnknownPartsAreOmitted) {
    EXPECT_EQ(audit_line({.subject = "",
                          .peer = "",
                          .session = 0U,
                          .action = AuditAction::connect,
                          .object = AuditObject{},
                          .decision = AuditDecision::allowed,
                          .reason = std::nullopt,
                          .text = "it"}),
              "audit: it [action=connect decision=allowed reason=none]");
}

TEST(AuditEvent, ReasonIsTheErrnoOfTheApplication) {
    for (const auto& [code, name] : {std::pair{Code::denied, "EPERM"},
                                     {Code::read_only, "EROFS"},
                                     {Code::over_cap, "EDQUOT"},
                                     {Code::busy, "EBUSY"}}) {
        const std::string line = audit_line({.subject = "",
                                             .peer = "",
                                             .session = 0U,
                                             .action = AuditAction::write,
                                             .object = AuditObject{},
                                             .decision = AuditDecision::refused,
                                             .reason = Error{.code = code},
                                             .text = "it"});
        EXPECT_TRUE(line.ends_with(std::string("reason=") + name + "]")) << line;
    }
}

}  // namespace
}  // namespace ros2s
