// Authorities and certificates: the contents of the files, refusals, and checks by the openssl
// program.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "ros2s/pki/authority.h"
#include "ros2s/pki/certificate.h"
#include "ros2s/pki/revocation.h"
#include "ros2s/pki/watched_identity.h"

namespace ros2s::pki {
namespace {

using std::chrono::days;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// No test reads the clock, except those of WatchedIdentity, which reads it, too, and the one for
// which the openssl program makes certificates. Otherwise that gets the time as an argument.
constexpr Seconds now{std::chrono::seconds(1'800'000'000)};

class Pki : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "ros2store-pki-XXXXXX";
        base_ = mkdtemp(pattern.data());
        directory_ = base_ + "/certs";
    }
    void TearDown() override { std::filesystem::remove_all(base_); }

    static AuthorityRequest usual() {
        return {.certificates = {{.name = "engine",
                                  .alternative_names = {"localhost", "127.0.0.1", "::1"},
                                  .server = true},
                                 {.name = "host-1"}}};
    }
    [[nodiscard]] Identity identity(const std::string& name) const {
        return {.authority_file = directory_ + "/ca.crt",
                .certificate_file = fmt::format("{}/{}.crt", directory_, name),
                .key_file = fmt::format("{}/{}.key", directory_, name)};
    }
    static std::string contents(const std::string& path) {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    static mode_t mode_of(const std::string& path) {
        struct stat facts{};
        return stat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777 : 0;
    }
    // The openssl program's answer and exit status.
    static std::pair<int, std::string> openssl(const std::string& arguments) {
        FILE* pipe = popen(fmt::format("openssl {} 2>&1", arguments).c_str(), "r");
        std::string answer;
        char line[256];
        while (fgets(line, sizeof line, pipe) != nullptr) answer += line;
        return {pclose(pipe), answer};
    }
    [[nodiscard]] std::pair<int, std::string> verify(const std::string& name,
                                                     const std::string& purpose,
                                                     Seconds at = now) const {
        return openssl(
            fmt::format("verify -x509_strict -attime {} -CAfile {}/ca.crt -purpose {} {}/{}.crt",
                        at.time_since_epoch().count(), directory_, purpose, directory_, name));
    }

    std::string base_;
    std::string directory_;
    Report report_;
};

TEST_F(Pki, AuthorityAndCertificatesAreCreated) {
    const auto issued = make_authority(directory_, usual(), now, report_);
    ASSERT_TRUE(issued) << report_.text();
    ASSERT_EQ(issued->size(), 3u);
    EXPECT_EQ((*issued)[0].certificate_file, directory_ + "/ca.crt");
    EXPECT_EQ((*issued)[1].key_file, directory_ + "/engine.key");
    EXPECT_EQ((*issued)[1].expires, now + days(365));
    for (const char* name : {"ca", "engine", "host-1"}) {
        EXPECT_EQ(mode_of(fmt::format("{}/{}.key", directory_, name)), 0600u) << name;
        EXPECT_EQ(mode_of(fmt::format("{}/{}.crt", directory_, name)), 0644u) << name;
    }

    const auto engine = read_certificate(directory_ + "/engine.crt", report_);
    ASSERT_TRUE(engine) << report_.text();
    EXPECT_EQ(engine->subject, "CN=engine");
    EXPECT_EQ(engine->issuer, "CN=ros2store development CA");
    EXPECT_THAT(engine->alternative_names, ElementsAre("localhost", "127.0.0.1", "::1"));
    EXPECT_EQ(engine->begins, now - std::chrono::hours(1));
    EXPECT_FALSE(engine->authority);
    const auto authority = read_certificate(directory_ + "/ca.crt", report_);
    ASSERT_TRUE(authority);
    EXPECT_TRUE(authority->authority);
}

TEST_F(Pki, OpensslVerifiesTheCertificates) {
    ASSERT_TRUE(make_authority(directory_, usual(), now, report_)) << report_.text();
    const auto good = [](const std::pair<int, std::string>& answer) {
        return answer.first == 0 ? std::string() : answer.second;
    };
    EXPECT_EQ(good(verify("engine", "sslserver")), "");
    EXPECT_THAT(verify("engine", "sslclient").second, HasSubstr("unsuitable certificate purpose"));
    EXPECT_EQ(good(verify("host-1", "sslclient")), "");
    EXPECT_THAT(verify("host-1", "sslserver").second, HasSubstr("unsuitable certificate purpose"));
    EXPECT_THAT(verify("engine", "sslserver", now + days(366)).second,
                HasSubstr("certificate has expired"));
    EXPECT_EQ(good(openssl(fmt::format("ec -noout -check -in {}/engine.key", directory_))), "");
    const auto text =
        openssl(fmt::format("x509 -noout -text -in {}/engine.crt", directory_)).second;
    EXPECT_THAT(text, HasSubstr("prime256v1"));
    EXPECT_THAT(text, HasSubstr("ecdsa-with-SHA256"));
    EXPECT_THAT(text, HasSubstr("DNS:localhost, IP Address:127.0.0.1"));
}

TEST_F(Pki, VerifiedTimeEndsWithFirstOfChain) {
    ASSERT_TRUE(make_authority(directory_, usual(), now, report_)) << report_.text();
    ASSERT_TRUE(make_authority(base_ + "/others", usual(), now, report_)) << report_.text();
    const auto file = [](const std::string& path) {
        std::ostringstream text;
        text << std::ifstream(path).rdbuf();
        return text.str();
    };
    const std::string authority = file(directory_ + "/ca.crt");
    const auto verified = [&](const std::string& chain, const std::string& by, Seconds at) {
        report_ = {};
        return verify_client(chain, by, {}, at, report_);
    };
    const std::string host = file(directory_ + "/host-1.crt");
    EXPECT_EQ(verified(host, authority, now), now + days(365));
    EXPECT_EQ(verified(host, file(base_ + "/others/ca.crt") + authority, now), now + days(365));
    EXPECT_EQ(verified(host, authority, now + days(366)).error().code, Code::deadline);
    EXPECT_THAT(report_.text(), HasSubstr("certificate has expired"));
    for (const std::string& other : {file(base_ + "/others/host-1.crt"),
                                     file(directory_ + "/engine.crt"), std::string("nonsense")}) {
        EXPECT_EQ(verified(other, authority, now).error().code, Code::invalid);
    }
    EXPECT_THAT(report_.text(), HasSubstr("it is not a certificate"));
}

class RevokedCertificates : public Pki {
  protected:
    void SetUp() override {
        Pki::SetUp();
        ASSERT_TRUE(make_authority(directory_, usual(), now, report_)) << report_.text();
        ASSERT_TRUE(issue(directory_, {.name = "host-2"}, false, now, report_)) << report_.text();
    }
    void revoke_at(const std::string& certificate, Seconds at) {
        const auto revoked = revoke(directory_, certificate, at, report_);
        ASSERT_TRUE(revoked) << report_.text();
        EXPECT_EQ(revoked->list_file, directory_ + "/ca.crl");
    }
    // What verify_client() says of a client of the directory, with its list.
    Result<Seconds> verified(const std::string& name) { return verified(name, list()); }
    Result<Seconds> verified(const std::string& name, const std::string& list) {
        report_ = {};
        return verify_client(contents(fmt::format("{}/{}.crt", directory_, name)),
                             contents(directory_ + "/ca.crt"), list, now, report_);
    }
    [[nodiscard]] std::string list() const { return contents(directory_ + "/ca.crl"); }
    // Changes a byte of the signature, which is at the end.
    static std::string with_wrong_signature(std::string list) {
        size_t at = list.find("-----END") - 10;
        while (list[at] == '\n' || list[at] == '=') --at;
        list[at] = list[at] == 'A' ? 'B' : 'A';
        return list;
    }
};

TEST_F(RevokedCertificates, RevokedCertificateIsRefusedAndRenewedIsNot) {
    const std::string stolen = directory_ + "/stolen.crt";
    std::filesystem::copy_file(directory_ + "/host-1.crt", stolen);
    ASSERT_TRUE(issue(directory_, {.name = "host-1"}, true, now, report_)) << report_.text();
    EXPECT_EQ(verified("stolen", "").value_or(Seconds()), now + days(365));
    revoke_at(stolen, now);
    EXPECT_EQ(mode_of(directory_ + "/ca.crl"), 0644u);
    EXPECT_EQ(verified("stolen").error().code, Code::denied);
    EXPECT_EQ(report_.text(), fmt::format("the certificate of CN=host-1 was revoked by its "
                                          "authority (serial {}); get a new one",
                                          read_certificate(stolen, report_)->serial));
    for (const char* name : {"host-1", "host-2"}) {
        EXPECT_EQ(verified(name).value_or(Seconds()), now + days(365)) << report_.text();
    }
    EXPECT_EQ(revoked_at(stolen, directory_ + "/ca.crt", report_).value(), now);
    EXPECT_EQ(revoked_at(directory_ + "/host-1.crt", directory_ + "/ca.crt", report_).value(),
              std::nullopt);

    revoke_at("host-1", now);
    for (const char* name : {"stolen", "host-1"}) {
        EXPECT_EQ(verified(name).error().code, Code::denied) << name;
    }
    EXPECT_TRUE(verified("host-2")) << report_.text();
    EXPECT_EQ(revoke(directory_, "host-1", now, report_).error().code, Code::exists);
}

// Both authorities have the same name.
TEST_F(RevokedCertificates, ListAppliesToItsAuthorityOnly) {
    const std::string others = base_ + "/others";
    ASSERT_TRUE(make_authority(others, usual(), now, report_)) << report_.text();
    ASSERT_TRUE(revoke(others, "host-1", now, report_)) << report_.text();
    const std::string foreign = contents(others + "/ca.crl");
    EXPECT_TRUE(verified("host-1", foreign)) << report_.text();
    revoke_at("host-1", now);
    for (const std::string& both : {foreign + list(), list() + foreign}) {
        EXPECT_EQ(verified("host-1", both).error().code, Code::denied);
        EXPECT_TRUE(verified("host-2", both)) << report_.text();
    }
    EXPECT_EQ(revoke(directory_, others + "/engine.crt", now, report_).error().code, Code::invalid);
    EXPECT_THAT(report_.text(), HasSubstr("was not issued by the authority"));
    // A list of another authority in the file stays.
    std::ofstream(directory_ + "/ca.crl", std::ios::app) << foreign;
    revoke_at("host-2", now);
    EXPECT_THAT(list(), HasSubstr(foreign));
    EXPECT_EQ(verified("host-1").error().code, Code::denied);
    EXPECT_EQ(verified("host-2").error().code, Code::denied);
}

TEST_F(RevokedCertificates, ListOutsideItsTimeIsUsed) {
    for (const Seconds at : {now - days(3700), now + days(1)}) {
        std::filesystem::remove(directory_ + "/ca.crl");
        revoke_at("host-1", at);
        EXPECT_EQ(revocations_end(list()), at + days(3650));
        EXPECT_EQ(verified("host-1").error().code, Code::denied);
        EXPECT_TRUE(verified("host-2")) << report_.text();
    }
}

TEST_F(RevokedCertificates, DamagedListIsRefused) {
    revoke_at("host-1", now);
    const std::string whole = list();
    EXPECT_TRUE(check_identity(identity("host-2"), now, report_)) << report_.text();
    for (const char* name : {"host-1", "host-2"}) {
        EXPECT_EQ(verified(name, with_wrong_signature(whole)).error().code, Code::invalid);
        EXPECT_THAT(report_.text(), HasSubstr("has a wrong signature; copy"));
    }
    std::ofstream(directory_ + "/ca.crl") << with_wrong_signature(whole);
    EXPECT_EQ(revoke(directory_, "host-2", now, report_).error().code, Code::invalid)
        << "the earlier ones would be forgotten";
    for (const std::string& text :
         {std::string(), std::string("no PEM at all\n"), whole.substr(0, whole.size() / 2),
          whole + whole.substr(0, 99), contents(directory_ + "/ca.crt")}) {
        std::ofstream(directory_ + "/ca.crl") << text;
        report_ = {};
        EXPECT_EQ(check_identity(identity("host-2"), now, report_).error().code, Code::invalid);
        EXPECT_THAT(report_.text(), HasSubstr("ca.crl is not a PEM file of lists"));
        EXPECT_EQ(revoke(directory_, "host-2", now, report_).error().code, Code::invalid);
        if (text.empty()) continue;  // it is no list, and not a damaged one
        EXPECT_EQ(verified("host-2", text).error().code, Code::invalid);
    }
}

// The development authority signs no other one, so the openssl program makes these.
TEST_F(RevokedCertificates, RevokedIntermediateRevokesWhatItSigned) {
    const std::string chain = base_ + "/chain", settings = base_ + "/settings";
    std::filesystem::create_directory(chain);
    std::ofstream(settings) << "[req]\ndistinguished_name = dn\nx509_extensions = ca\n[dn]\n[ca]\n"
                               "basicConstraints = critical,CA:TRUE\n"
                               "keyUsage = critical,keyCertSign,cRLSign\n"
                               "subjectKeyIdentifier = hash\n"
                               "authorityKeyIdentifier = keyid:always\n";
    const auto make = [&](const std::string& arguments) {
        const auto [status, said] = openssl(arguments);
        EXPECT_EQ(status, 0) << said;
    };
    const auto request = [&](const std::string& name, const std::string& further) {
        make(
            fmt::format("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -config {0} "
                        "-subj /CN={2} -keyout {1}/{2}.key {3}",
                        settings, chain, name, further));
    };
    const auto sign = [&](const std::string& name, const std::string& by,
                          const std::string& further) {
        request(name, fmt::format("-out {}/{}.csr", chain, name));
        make(
            fmt::format("x509 -req -days 9 -in {0}/{1}.csr -CA {0}/{2}.crt -CAkey {0}/{2}.key "
                        "-out {0}/{1}.crt {3}",
                        chain, name, by, further));
    };
    request("ca", fmt::format("-x509 -days 9 -out {}/ca.crt", chain));
    sign("middle", "ca", fmt::format("-extfile {} -extensions ca", settings));
    sign("leaf", "middle", "");
    const auto today = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    const std::string shown = contents(chain + "/leaf.crt") + contents(chain + "/middle.crt");
    const std::string authority = contents(chain + "/ca.crt");
    EXPECT_TRUE(verify_client(shown, authority, {}, today, report_)) << report_.text();
    ASSERT_TRUE(revoke(chain, "middle", today, report_)) << report_.text();
    const auto verified =
        verify_client(shown, authority, contents(chain + "/ca.crl"), today, report_);
    EXPECT_EQ(verified.error().code, Code::denied);
    EXPECT_THAT(report_.text(), HasSubstr("the certificate of CN=middle was revoked"));
}

TEST_F(Pki, CertificateOfAnotherAuthorityIsRefused) {
    ASSERT_TRUE(make_authority(directory_, usual(), now, report_));
    ASSERT_TRUE(make_authority(base_ + "/other", usual(), now, report_)) << report_.text();
    EXPECT_NE(contents(directory_ + "/engine.key"), contents(base_ + "/other/engine.key"));
    Identity mixed = identity("engine");
    EXPECT_TRUE(check_identity(mixed, now, report_)) << report_.text();
    mixed.authority_file = base_ + "/other/ca.crt";
    EXPECT_EQ(check_identity(mixed, now, report_).error().code, Code::invalid);
    EXPECT_THAT(report_.text(), HasSubstr("was not signed by the authority"));
}

TEST_F(Pki, ExistingFilesAreNotOverwritten) {
    ASSERT_TRUE(make_authority(directory_, usual(), now, report_));
    const std::string before = contents(directory_ + "/ca.key");
    EXPECT_EQ(make_authority(directory_ + "/", usual(), now, report_).error().code, Code::exists);
    EXPECT_THAT(report_.text(), HasSubstr("not empty"));
    Report again;
    EXPECT_EQ(issue(directory_, {.name = "host-1"}, false, now, again).error().code, Code::exists);
    EXPECT_THAT(again.text(), HasSubstr("--replace"));
    EXPECT_EQ(contents(directory_ + "/ca.key"), before);
    std::vector<std::string> beside;
    for (const auto& entry : std::filesystem::directory_iterator(base_)) {
        beside.push_back(entry.path().filename());
    }
    EXPECT_THAT(beside, ElementsAre("certs")) << "nothing is left of the refused one";
}

TEST_F(Pki, EmptyDirectoryIsUsed) {
    std::filesystem::create_directory(directory_);
    EXPECT_TRUE(make_authority(directory_, usual(), now, report_)) << report_.text();
}

TEST_F(Pki, ReplacedCertificateHasANewKey) {
    ASSERT_TRUE(make_authority(directory_, usual(), now, report_));
    const std::string before = contents(directory_ + "/host-1.key");
    const auto issued =
        issue(directory_, {.name = "host-1", .lifetime = days(7)}, true, now, report_);
    ASSERT_TRUE(issued) << report_.text();
    EXPECT_EQ(issued->expires, now + days(7));
    EXPECT_NE(contents(directory_ + "/host-1.key"), before);
    EXPECT_TRUE(check_identity(identity("host-1"), now, report_)) << report_.text();
    EXPECT_EQ(mode_of(directory_ + "/host-1.key"), 0600u);
    EXPECT_FALSE(std::filesystem::exists(directory_ + "/host-1.key.new"));
}

TEST_F(Pki, CertificateEndsWithItsAuthority) {
    AuthorityRequest brief{.lifetime = days(30)};
    ASSERT_TRUE(make_authority(directory_, brief, now, report_));
    const auto issued = issue(directory_, {.name = "host-1"}, false, now, report_);
    ASSERT_TRUE(issued) << report_.text();
    EXPECT_EQ(issued->expires, now + days(30));
    EXPECT_EQ(issue(directory_, {.name = "late"}, false, now + days(31), report_).error().code,
              Code::deadline);
}

TEST_F(Pki, InvalidRequestIsExplained) {
    ASSERT_TRUE(make_authority(directory_, usual(), now, report_));
    struct Case {
        CertificateRequest request;
        const char* says;
    };
    const Case cases[] = {
        {{.name = ""}, "cannot be a certificate's name"},
        {{.name = "ca"}, "cannot be a certificate's name"},
        {{.name = "../engine"}, "cannot be a certificate's name"},
        {{.name = "-rf"}, "cannot be a certificate's name"},
        {{.name = std::string(65, 'x')}, "cannot be a certificate's name"},
        {{.name = "s", .server = true}, "names and addresses"},
        {{.name = "s", .alternative_names = {"host:7400"}, .server = true}, "neither a DNS name"},
        {{.name = "s", .alternative_names = {"a,DNS:b"}, .server = true}, "neither a DNS name"},
        {{.name = "s", .lifetime = days(0)}, "1 to 36500 days"},
        {{.name = "s", .lifetime = days(40000)}, "1 to 36500 days"},
    };
    for (const Case& each : cases) {
        Report report;
        const auto issued = issue(directory_, each.request, false, now, report);
        ASSERT_FALSE(issued) << each.says;
        EXPECT_EQ(issued.error().code, Code::invalid);
        EXPECT_THAT(report.text(), HasSubstr(each.says));
    }
    Report report;
    EXPECT_EQ(issue(base_, {.name = "x"}, false, now, report).error().code, Code::not_found);
    EXPECT_THAT(report.text(), HasSubstr("ros2store certs init"));
}

TEST_F(Pki, UnusableIdentityIsExplained) {
    ASSERT_TRUE(make_authority(directory_, usual(), now, report_));
    const auto wrong = [&](Identity used, Seconds at, Code code, const char* says) {
        Report report;
        const auto checked = check_identity(used, at, report);
        ASSERT_FALSE(checked) << says;
        EXPECT_EQ(checked.error().code, code) << report.text();
        EXPECT_THAT(report.text(), HasSubstr(says));
    };
    wrong(identity("host-1"), now + days(366), Code::deadline, "expired at 2028-01-15");
    wrong(identity("host-1"), now - days(1), Code::deadline, "set the clock");
    wrong(identity("nobody"), now, Code::not_found, "cannot read");
    Identity mixed = identity("host-1");
    mixed.key_file = directory_ + "/engine.key";
    wrong(mixed, now, Code::invalid, "is not the key of");
    mixed = identity("host-1");
    std::swap(mixed.key_file, mixed.certificate_file);
    wrong(mixed, now, Code::invalid, "has no certificate");
    std::ofstream(base_ + "/garbage") << "no PEM at all\n";
    mixed = identity("host-1");
    mixed.authority_file = base_ + "/garbage";
    wrong(mixed, now, Code::invalid, "has no certificate");
    mixed = identity("host-1");
    mixed.key_file = directory_;
    wrong(mixed, now, Code::invalid, "is not a regular file");
    std::ofstream(base_ + "/large") << std::string((1 << 20) + 1, 'x');
    mixed.key_file = base_ + "/large";
    wrong(mixed, now, Code::invalid, "is too large for a certificate or key file");
}

TEST_F(Pki, UnwritableDirectoryIsReported) {
    EXPECT_EQ(make_authority(base_ + "/no/such/place", usual(), now, report_).error().code,
              Code::not_found);
    EXPECT_THAT(report_.text(), HasSubstr("make it first: mkdir -p " + base_ + "/no/such"));
}

// The descriptors run out while the files change. Nothing of the files shows that there are some
// again.
TEST_F(Pki, UnreadableFilesAreTriedAgain) {
    const auto today = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    ASSERT_TRUE(make_authority(directory_, usual(), today, report_)) << report_.text();
    std::vector<std::string> lines;
    WatchedIdentity files(identity("host-1"),
                          Log([&](LogLevel, std::string_view line) { lines.emplace_back(line); }));
    using Look = WatchedIdentity::Look;
    Pem pem;
    EXPECT_EQ(files.look(pem), Look::changed);
    EXPECT_EQ(files.look(pem), Look::unchanged);
    const std::string before = pem.certificate;
    EXPECT_EQ(before, contents(identity("host-1").certificate_file));

    ASSERT_TRUE(issue(directory_, {.name = "host-1"}, true, today, report_)) << report_.text();
    rlimit all{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = all.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const Look refused = files.look(pem), right_after = files.look(pem);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
    EXPECT_EQ(refused, Look::not_usable);
    EXPECT_EQ(right_after, Look::unchanged) << "each look would cost as much as a handshake";
    EXPECT_EQ(pem.certificate, before);

    Look later = Look::unchanged;
    for (int i = 0; i < 1000 && later == Look::unchanged; ++i) {
        (void)::poll(nullptr, 0, 10);
        later = files.look(pem);
    }
    EXPECT_EQ(later, Look::changed);
    EXPECT_NE(pem.certificate, before);
    EXPECT_EQ(pem.certificate, contents(identity("host-1").certificate_file));
    EXPECT_THAT(lines, SizeIs(1));
}

TEST_F(Pki, RevocationListsAreWatched) {
    const auto today = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    ASSERT_TRUE(make_authority(directory_, usual(), today, report_)) << report_.text();
    std::vector<std::string> lines;
    WatchedIdentity files(identity("engine"),
                          Log([&](LogLevel, std::string_view line) { lines.emplace_back(line); }));
    using Look = WatchedIdentity::Look;
    const std::string path = directory_ + "/ca.crl";
    Pem pem;
    EXPECT_EQ(files.look(pem), Look::changed);
    EXPECT_EQ(pem.revocations, "");
    ASSERT_TRUE(revoke(directory_, "host-1", today, report_)) << report_.text();
    EXPECT_EQ(files.look(pem), Look::changed);
    const std::string first = contents(path);
    EXPECT_EQ(pem.revocations, first);
    ASSERT_TRUE(revoke(directory_, "engine", today, report_)) << report_.text();
    EXPECT_EQ(files.look(pem), Look::changed) << "although it is its own certificate";
    const std::string second = contents(path);
    EXPECT_EQ(pem.revocations, second);
    EXPECT_EQ(files.look(pem), Look::unchanged);

    std::ofstream(path) << first.substr(0, first.size() / 2);
    EXPECT_EQ(files.look(pem), Look::not_usable);
    EXPECT_EQ(files.look(pem), Look::unchanged);
    EXPECT_EQ(pem.revocations, second);
    EXPECT_THAT(lines, ElementsAre(HasSubstr("ca.crl is not a PEM file of lists")));
    std::filesystem::remove(path);
    EXPECT_EQ(files.look(pem), Look::changed);
    EXPECT_EQ(pem.revocations, "");

    ASSERT_TRUE(revoke(directory_, "host-1", today - days(3700), report_)) << report_.text();
    EXPECT_EQ(files.look(pem), Look::changed);
    EXPECT_EQ(files.look(pem), Look::unchanged);
    EXPECT_EQ(pem.revocations, contents(path));
    EXPECT_THAT(lines, ElementsAre(testing::_, HasSubstr("should have been replaced by")));
}

}  // namespace
}  // namespace ros2s::pki
