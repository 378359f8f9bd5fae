// Directories of certificates that are good, expire soon, or have one problem each.
#include "doctor_certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "ros2s/base/check.h"
#include "ros2s/pki/certificate.h"

namespace ros2s::cli {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

constexpr pki::Seconds made{std::chrono::sys_days{std::chrono::January / 1 / 2026}};

auto graded(Grade grade) { return Field("grade", &Finding::grade, grade); }
auto about(Grade grade, const std::string& found, const std::string& remedy) {
    return AllOf(graded(grade), Field("found", &Finding::found, HasSubstr(found)),
                 Field("remedy", &Finding::remedy, HasSubstr(remedy)));
}

class DoctorCertificates : public testing::Test {
  protected:
    DoctorCertificates() {
        char made_here[] = "/tmp/ros2store-doctor-XXXXXX";
        ROS2S_CHECK(mkdtemp(made_here) != nullptr);
        base = made_here;
        directory = base + "/certs";
        make(directory);
    }
    ~DoctorCertificates() override { std::filesystem::remove_all(base); }

    static void make(const std::string& where) {
        Report report;
        const pki::AuthorityRequest request{
            .certificates = {
                {.name = "server", .alternative_names = {"localhost", "192.0.2.7"}, .server = true},
                {.name = "client"}}};
        const auto issued = pki::make_authority(where, request, made, report);
        ROS2S_CHECK(issued);
    }
    [[nodiscard]] std::vector<Finding> look(std::chrono::days later = std::chrono::days(1)) const {
        return look_at_certificates(directory, made + later);
    }
    [[nodiscard]] std::string file(const std::string& name) const { return directory + "/" + name; }

    std::string base, directory;
};

TEST_F(DoctorCertificates, ValidCertificatesAreGood) {
    const auto findings = look();
    EXPECT_THAT(findings, Each(about(Grade::good, directory, "")));
    EXPECT_THAT(findings, ElementsAre(Field(&Finding::what, "authority"),
                                      Field(&Finding::found, HasSubstr("client.crt (CN=client)")),
                                      Field(&Finding::found, HasSubstr("localhost, 192.0.2.7"))));
    for (const Finding& each : findings) EXPECT_EQ(each.remedy, "") << each.found;
}

TEST_F(DoctorCertificates, SoonExpiringCertificatesAreReported) {
    const auto findings = look(std::chrono::days(365 - 10));
    const std::string renew = "ros2store certs issue " + directory;
    EXPECT_THAT(findings,
                ElementsAre(graded(Grade::good),
                            about(Grade::slower, "client.crt", renew + " client --replace"),
                            about(Grade::slower, "server.crt",
                                  renew + " server --replace --server --name localhost "
                                          "--name 192.0.2.7")));
}

TEST_F(DoctorCertificates, ExpiredCertificatesAreReported) {
    EXPECT_THAT(look(std::chrono::days(366)),
                ElementsAre(graded(Grade::good), about(Grade::wrong, "expired at", "--replace"),
                            about(Grade::wrong, "expired at", "--replace")));
    EXPECT_THAT(look(std::chrono::days(3660)),
                Contains(about(Grade::wrong, "ca.crt", "ros2store certs init DIR")));
    EXPECT_THAT(look(std::chrono::days(-2)), Each(about(Grade::wrong, "valid from", "the clock")));
}

TEST_F(DoctorCertificates, RenewalWithoutAuthorityKeyIsExplained) {
    std::filesystem::remove(file("ca.key"));
    EXPECT_THAT(look(std::chrono::days(366)),
                Contains(about(Grade::wrong, "client.crt",
                               "where its ca.key is: ros2store certs issue DIR client --replace; "
                               "then copy client.crt and client.key here")));
}

TEST_F(DoctorCertificates, ReadableKeyIsReported) {
    for (const char* name : {"ca.key", "server.key"}) {
        ROS2S_CHECK(chmod(file(name).c_str(), 0640) == 0);
        EXPECT_THAT(look(),
                    Contains(about(Grade::wrong, file(name) + " has mode 0640", "chmod 600 ")));
        ROS2S_CHECK(chmod(file(name).c_str(), 0600) == 0);
    }
    EXPECT_THAT(look(), Each(graded(Grade::good)));
}

TEST_F(DoctorCertificates, MissingKeyIsReported) {
    std::filesystem::remove(file("client.key"));
    EXPECT_THAT(look(), Contains(about(Grade::missing, "client.key", "certs issue")));
}

TEST_F(DoctorCertificates, MismatchedKeyIsReported) {
    std::filesystem::copy_file(file("server.key"), file("client.key"),
                               std::filesystem::copy_options::overwrite_existing);
    EXPECT_THAT(look(), Contains(about(Grade::wrong, "is not the key of", "certs issue")));
}

TEST_F(DoctorCertificates, OtherAuthorityIsReported) {
    make(base + "/other");
    std::filesystem::copy_file(base + "/other/ca.crt", file("ca.crt"),
                               std::filesystem::copy_options::overwrite_existing);
    EXPECT_THAT(look(), Contains(about(Grade::wrong, "was not signed by the authority", "")));
}

TEST_F(DoctorCertificates, InvalidFilesAreReported) {
    std::ofstream(file("client.crt")) << "nothing";
    EXPECT_THAT(look(), Contains(about(Grade::wrong, "client.crt", "copy the file again")));
    std::filesystem::copy_file(file("server.crt"), file("ca.crt"),
                               std::filesystem::copy_options::overwrite_existing);
    EXPECT_THAT(look(), Contains(about(Grade::wrong, "not the certificate of an authority",
                                       "copy ca.crt")));
    std::filesystem::remove_all(directory);
    EXPECT_THAT(look(), ElementsAre(about(Grade::missing, directory, "certs init")));
    std::filesystem::create_directory(directory);
    EXPECT_THAT(look(), Contains(about(Grade::missing, "no certificate except", "certs issue")));
}

// As `ros2store up DIR` makes them, in addition to those of $ROS2STORE_CERTS.
TEST_F(DoctorCertificates, DefaultDirectoriesAreSearched) {
    const std::string pool = base + "/pool";
    setenv("ROS2STORE_CERTS", (base + "/none").c_str(), 1);
    EXPECT_THAT(look_for_certificates(pool, made),
                ElementsAre(about(Grade::absent, base + "/none", "certs init")));
    std::filesystem::create_directories(pool + "/certs");
    make(pool + "/certs/storage");
    make(pool + "/certs/hosts");
    setenv("ROS2STORE_CERTS", directory.c_str(), 1);
    const auto findings = look_for_certificates(pool, made);
    unsetenv("ROS2STORE_CERTS");
    EXPECT_EQ(findings.size(), 9U);
    EXPECT_THAT(findings, Each(graded(Grade::good)));
    for (const std::string& each : {pool + "/certs/storage", pool + "/certs/hosts", directory}) {
        EXPECT_THAT(findings, Contains(about(Grade::good, each, "")));
    }
}

}  // namespace
}  // namespace ros2s::cli
