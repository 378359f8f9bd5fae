#include "ros2s/base/trusted_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ros2s {
namespace {

namespace files = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr uid_t somebody = 12345;

class TrustedFile : public testing::Test {
  protected:
    TrustedFile() {
        std::string pattern = testing::TempDir() + "ros2s-trusted-XXXXXX";
        EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
        // Links in the path of the temporary directory are not what is tested.
        base_ = files::canonical(pattern);
        files::create_directory(base_ / "d");
        write("d/f", "text");
    }
    ~TrustedFile() override {
        files::current_path("/");
        files::remove_all(base_);
    }
    [[nodiscard]] std::string path(const std::string& name) const { return base_ / name; }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(path(name)) << text;
        set_mode(name, 0600);
    }
    void set_mode(const std::string& name, mode_t mode) const {
        EXPECT_EQ(::chmod(path(name).c_str(), mode), 0);
    }
    Result<std::string> read(const std::string& name) {
        report_ = {};
        return read_trusted(path(name), 100, report_);
    }
    void expect_distrust(const std::string& name, const std::string& of,
                         const std::string& remedy) {
        const auto text = read(name);
        ASSERT_FALSE(text) << name;
        EXPECT_TRUE(is_distrust(text.error()));
        EXPECT_THAT(report_.text(), AllOf(HasSubstr(path(name) + " cannot be trusted"),
                                          HasSubstr(of), HasSubstr(remedy)));
        Report report;
        EXPECT_FALSE(check_trusted(path(name), report));
        EXPECT_EQ(report.text(), report_.text());
    }
    files::path base_;
    Report report_;
};

TEST_F(TrustedFile, OwnFileIsRead) {
    EXPECT_EQ(read("d/f"), "text") << report_.text();
    EXPECT_EQ(read("d/../d/./f"), "text") << report_.text();
    files::create_symlink("f", base_ / "d/relative");
    files::create_symlink(base_ / "d", base_ / "absolute");
    EXPECT_EQ(read("absolute/relative"), "text") << report_.text();
    files::current_path(base_ / "d");
    EXPECT_EQ(read_trusted("f", 4, report_), "text") << report_.text();
    EXPECT_EQ(read_trusted("../d/f", 4, report_), "text") << report_.text();
    EXPECT_EQ(read_trusted("f", 3, report_).error().code, Code::too_large);
    EXPECT_TRUE(check_trusted(base_, report_));
}

TEST_F(TrustedFile, FileWritableByOthersIsRefused) {
    for (const mode_t mode : {0620, 0602, 0666}) {
        set_mode("d/f", mode);
        expect_distrust("d/f", "it may be changed by other users", "chmod go-w '" + path("d/f"));
    }
    set_mode("d/f", 0644);
    for (const mode_t mode : {0770, 0707, 0777}) {
        set_mode("d", mode);
        expect_distrust("d/f", path("d") + ", on its path, may be changed",
                        "chmod go-w '" + path("d") + "'");
    }
    files::create_symlink("d/f", base_ / "link");
    expect_distrust("link", path("d") + ", on its path, may be changed", "chmod go-w");
    set_mode("d", 01777);
    EXPECT_EQ(read("d/f"), "text") << "nobody else can replace it in a sticky directory";
}

TEST_F(TrustedFile, FileOfAnotherUserIsRefused) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
    const auto give = [&](const std::string& name, uid_t user) {
        EXPECT_EQ(::lchown(path(name).c_str(), user, 0), 0);
    };
    give("d/f", somebody);
    expect_distrust("d/f", "it belongs to another user (uid 12345)",
                    "Run the program as that user");
    give("d/f", 0);
    give("d", somebody);
    expect_distrust("d/f", path("d") + ", on its path, belongs to another user (uid 12345)",
                    "a place that belongs to root");
    // Sticky directories are root's alone: their owner can replace everything.
    set_mode("d", 01777);
    expect_distrust("d/f", "belongs to another user", "");
    give("d", 0);
    // Somebody can make a link in such a directory.
    files::create_symlink("/etc/passwd", base_ / "d/link");
    EXPECT_TRUE(read_trusted(path("d/link"), 1 << 20, report_)) << report_.text();
    give("d/link", somebody);
    expect_distrust("d/link", "it belongs to another user", "");
}

TEST_F(TrustedFile, SpecialFileIsRefusedAtOnce) {
    ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path("s").copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ::close(socket);
    // A umask of 002 makes such a socket. To write to it is to connect.
    set_mode("s", 0775);
    Report none;
    EXPECT_TRUE(check_trusted(path("s"), none)) << none.text();
    files::create_symlink("/dev/zero", base_ / "zero");
    const std::pair<const char*, const char*> kinds[] = {
        {"pipe", "a named pipe"}, {"d", "a directory"}, {"s", "a socket"}, {"zero", "a device"}};
    for (const auto& [name, kind] : kinds) {
        EXPECT_EQ(read(name).error().code, Code::invalid) << name;
        EXPECT_EQ(report_.text(),
                  fmt::format("{} is not a regular file, but {}", path(name), kind));
        Report report;
        EXPECT_FALSE(open_trusted(path(name), O_RDWR | O_CREAT, report)) << name;
    }
}

TEST_F(TrustedFile, ErrorNamesThePartOfThePath) {
    const auto expect = [&](const std::string& name, Code code, const std::string& says) {
        EXPECT_EQ(read(name).error().code, code);
        EXPECT_EQ(report_.text(), fmt::format("cannot read {}{}", path(name), says));
        Report report;
        EXPECT_TRUE(check_trusted(path(name), report)) << report.text();
    };
    expect("none", Code::not_found, ": No such file or directory");
    expect("none/f", Code::not_found, " (" + path("none") + "): No such file or directory");
    expect("d/f/g", Code::not_directory, " (" + path("d/f") + "): Not a directory");
    files::create_symlink("loop", base_ / "loop");
    expect("loop", Code::loop, " (" + path("loop") + "): Too many levels of symbolic links");
}

TEST_F(TrustedFile, NewFileIsPrivate) {
    const auto made = open_trusted(path("new"), O_RDWR | O_CREAT, report_);
    ASSERT_TRUE(made) << report_.text();
    ASSERT_EQ(::write(made->get(), "x", 1), 1);
    EXPECT_EQ(files::status(base_ / "new").permissions(), files::perms(0600));
    EXPECT_TRUE(open_trusted(path("new"), O_RDWR | O_CREAT, report_));
    EXPECT_EQ(read("new"), "x");
    files::create_symlink("elsewhere", base_ / "link");
    EXPECT_FALSE(open_trusted(path("link"), O_RDWR | O_CREAT | O_NOFOLLOW, report_));
    EXPECT_FALSE(files::exists(base_ / "elsewhere"));
    set_mode("d", 0777);
    EXPECT_FALSE(open_trusted(path("d/new"), O_RDWR | O_CREAT, report_));
    EXPECT_FALSE(files::exists(base_ / "d/new"));
}

TEST_F(TrustedFile, SecretReadableByOthersIsRefused) {
    set_mode("d/f", 0640);
    EXPECT_EQ(read_private(path("d/f"), 10, 0640, report_), "text");
    EXPECT_FALSE(read_private(path("d/f"), 10, 0600, report_));
    EXPECT_THAT(report_.text(), AllOf(HasSubstr("others can read (mode 0640)"),
                                      HasSubstr("chmod 600 " + path("d/f"))));
}

}  // namespace
}  // namespace ros2s
