#include "doctor_certificates.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "output/console.h"
#include "ros2s/api/server_address.h"
#include "ros2s/api/service_paths.h"
#include "ros2s/pki/certificate.h"

namespace ros2s::cli {
namespace {

constexpr mode_t others = 077;

bool is_there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

struct Directory {
    std::string path;
    pki::Seconds now;

    [[nodiscard]] std::string file(const std::string& name) const { return path + "/" + name; }
    [[nodiscard]] bool signs() const { return is_there(file("ca.key")); }
};

std::string renewal_of(const Directory& in, const std::string& name,
                       const pki::CertificateFacts& facts) {
    const std::string command =
        renewal(in.signs() ? in.path : "DIR", name, facts.alternative_names);
    return in.signs() ? command
                      : fmt::format("where its ca.key is: {}; then copy {}.crt and {}.key here",
                                    command, name, name);
}

Finding unreadable(const std::string& what, const Directory& in, const Error& error,
                   const Report& report) {
    Finding finding{.what = what, .grade = Grade::wrong, .found = report.text(), .remedy = {}};
    if (error.code == Code::denied) {
        finding.grade = Grade::slower;
        finding.remedy = fmt::format(
            "run it as the owner of the files: ros2store doctor --certs {}", shell_word(in.path));
    } else if (error.code == Code::not_found) {
        finding.grade = Grade::missing;
        finding.remedy = fmt::format(
            "copy it from where the certificates were made; for new ones: ros2store certs init "
            "DIR, then name that directory here: --certs DIR");
    } else {
        finding.remedy = "copy the file again from where the certificates were made";
    }
    return finding;
}

// Grades the finding by the certificate's end.
void look_at_time(Finding& finding, const Directory& in, const pki::CertificateFacts& facts,
                  const std::string& remedy) {
    if (in.now > facts.expires) {
        finding.grade = Grade::wrong;
        finding.found += fmt::format(", expired at {}", pki::to_string(facts.expires));
        finding.remedy = remedy;
    } else if (in.now < facts.begins) {
        finding.grade = Grade::wrong;
        finding.found += fmt::format(", valid from {} on, and it is {} here",
                                     pki::to_string(facts.begins), pki::to_string(in.now));
        finding.remedy = "set the clock of this machine";
    } else {
        finding.found += fmt::format(", until {}", pki::to_string(facts.expires));
        if (facts.expires - in.now > soon) return;
        finding.grade = Grade::slower;
        finding.remedy = fmt::format(
            "ends in {} days; {}",
            std::chrono::duration_cast<std::chrono::days>(facts.expires - in.now).count(), remedy);
    }
}

Finding look_at_authority(const Directory& in) {
    Report report;
    const auto facts = pki::read_certificate(in.file("ca.crt"), report);
    if (!facts) return unreadable("authority", in, facts.error(), report);
    Finding finding{.what = "authority",
                    .found = fmt::format("{} ({})", in.file("ca.crt"), facts->subject),
                    .remedy = {}};
    if (!facts->authority) {
        finding.grade = Grade::wrong;
        finding.found += " is not the certificate of an authority";
        finding.remedy = "copy ca.crt again from where the certificates were made";
        return finding;
    }
    look_at_time(finding, in, *facts,
                 "make a new authority and its certificates: ros2store certs init DIR");
    return finding;
}

// A finding if other users may read a key; nothing if the mode is right or there is no key.
std::vector<Finding> look_at_mode(const std::string& key) {
    struct stat facts{};
    if (stat(key.c_str(), &facts) != 0 || (facts.st_mode & others) == 0) return {};
    return {{.what = "key",
             .grade = Grade::wrong,
             .found = fmt::format("{} has mode {:04o}: others than its owner may use it", key,
                                  facts.st_mode & 07777),
             .remedy = fmt::format("chmod 600 {}, and replace it where others could have read it",
                                   shell_word(key))}};
}

Finding look_at_certificate(const Directory& in, const std::string& name) {
    Report report;
    const pki::Identity identity = pki::identity_in(in.path, name);
    const auto facts = pki::read_certificate(identity.certificate_file, report);
    if (!facts) return unreadable("certificate", in, facts.error(), report);
    Finding finding{.what = "certificate",
                    .found = fmt::format("{} ({})", identity.certificate_file, facts->subject),
                    .remedy = {}};
    if (!facts->alternative_names.empty()) {
        finding.found += fmt::format(" of {}", fmt::join(facts->alternative_names, ", "));
    }
    look_at_time(finding, in, *facts, renewal_of(in, name, *facts));
    if (finding.grade == Grade::wrong) return finding;
    if (const auto fits = pki::check_identity(identity, in.now, report); !fits) {
        Finding problem = unreadable("certificate", in, fits.error(), report);
        if (fits.error().code == Code::invalid || fits.error().code == Code::not_found) {
            problem.remedy = renewal_of(in, name, *facts);
        }
        return problem;
    }
    return finding;
}

// NAME of each NAME.crt, except the authority's.
Result<std::vector<std::string>> names_in(const Directory& in, Report& report) {
    std::error_code error;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator each(in.path, error), end; !error && each != end;
         each.increment(error)) {
        const std::filesystem::path& path = each->path();
        if (path.extension() == ".crt" && path.stem() != "ca") names.push_back(path.stem());
    }
    if (error) {
        return report.fail(fail_errno(error.value()).error(), "{}: {}", in.path, error.message());
    }
    std::ranges::sort(names);
    return names;
}

}  // namespace

std::string renewal(const std::string& directory, const std::string& name,
                    const std::vector<std::string>& alternative_names) {
    std::string command = fmt::format("ros2store certs issue {} {} --replace",
                                      shell_word(directory), shell_word(name));
    if (!alternative_names.empty()) command += " --server";
    for (const std::string& each : alternative_names) command += " --name " + shell_word(each);
    return command;
}

std::vector<Finding> look_at_certificates(const std::string& directory, pki::Seconds now) {
    const Directory in{directory, now};
    Report report;
    const auto names = names_in(in, report);
    if (!names) return {unreadable("certificates", in, names.error(), report)};
    std::vector<Finding> findings{look_at_authority(in)};
    std::ranges::move(look_at_mode(in.file("ca.key")), std::back_inserter(findings));
    for (const std::string& name : *names) {
        findings.push_back(look_at_certificate(in, name));
        std::ranges::move(look_at_mode(in.file(name + ".key")), std::back_inserter(findings));
    }
    if (names->empty()) {
        findings.push_back(
            {.what = "certificates",
             .grade = Grade::missing,
             .found = fmt::format("{} has no certificate except the authority's", directory),
             .remedy = fmt::format("ros2store certs issue {} NAME, where ca.key is, and copy "
                                   "NAME.crt and NAME.key here",
                                   shell_word(directory))});
    }
    return findings;
}

std::vector<Finding> look_for_certificates(const std::string& pool_directory, pki::Seconds now) {
    const api::ServicePaths paths(pool_directory);
    std::vector<Finding> findings;
    for (const std::string& directory :
         {paths.storage_certs, paths.host_certs, api::client_certificates()}) {
        if (!is_there(directory)) continue;
        std::ranges::move(look_at_certificates(directory, now), std::back_inserter(findings));
    }
    if (findings.empty()) {
        findings.push_back({.what = "certificates",
                            .grade = Grade::absent,
                            .found = fmt::format("none in {}", api::client_certificates()),
                            .remedy = "pools of this process need none; for servers and their "
                                      "clients: ros2store certs init DIR"});
    }
    return findings;
}

}  // namespace ros2s::cli
