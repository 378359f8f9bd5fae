// doctor: what this machine lacks for pools, mounts and networks, and the command that mends each.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "commands.h"
#include "doctor_certificates.h"
#include "doctor_machine.h"
#include "doctor_providers.h"

namespace ros2s::cli {
namespace {

std::string_view word(Grade grade) {
    switch (grade) {
        case Grade::good: return "ok";
        case Grade::absent: return "absent";
        case Grade::slower: return "warning";
        case Grade::missing: return "missing";
        case Grade::wrong: return "wrong";
    }
    return "";
}

void say(const Workplace& work, const Finding& finding) {
    work.session.say(
        fmt::format("{:<8} {:<15} {}", word(finding.grade), finding.what, finding.found));
    if (!finding.remedy.empty()) work.session.say(fmt::format("{:25}→ {}", "", finding.remedy));
}

Json shown(const Finding& finding) {
    return Json::object({{"what", finding.what},
                         {"grade", word(finding.grade)},
                         {"found", finding.found},
                         {"remedy", finding.remedy}});
}

// The findings, and by their number whether the command failed.
Result<> conclude(const Workplace& work, const std::vector<Finding>& findings) {
    std::map<Grade, size_t> count;
    std::vector<Json> values;
    for (const Finding& finding : findings) {
        ++count[finding.grade];
        values.push_back(shown(finding));
    }
    const size_t problems = count[Grade::missing] + count[Grade::wrong];
    const size_t slower = count[Grade::slower];
    work.session.answer(Json::object({{"findings", Json::array(values)},
                                      {"missing", count[Grade::missing]},
                                      {"wrong", count[Grade::wrong]}}));
    if (problems == 0) {
        work.session.say(slower == 0 ? "nothing is missing"
                                     : fmt::format("nothing is missing; the warning{} above cost"
                                                   "{} speed or safety",
                                                   slower == 1 ? "" : "s", slower == 1 ? "s" : ""));
        return {};
    }
    return work.report.fail(Code::unsupported,
                            fmt::format("{} thing{} missing or wrong; the remedies stand above",
                                        problems, problems == 1 ? " is" : "s are"));
}

}  // namespace

Task<Result<>> doctor(Workplace work, DoctorOptions options) {
    const auto now = std::chrono::floor<std::chrono::seconds>(work.environment.reactor.wall_time());
    std::vector<Finding> findings;
    const auto add = [&](std::vector<Finding> more) {
        for (const Finding& finding : more) say(work, finding);
        std::ranges::move(more, std::back_inserter(findings));
    };
    add(look_at_machine(work.environment.reactor));
    add(look_at_directory(options.directory));
    add(look_at_providers());
    add(options.certificates.empty() ? look_for_certificates(options.directory, now)
                                     : look_at_certificates(options.certificates, now));
    co_return conclude(work, findings);
}

}  // namespace ros2s::cli
