#include "ros2s/api/uri.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ros2s::api {
namespace {

using Transport = Uri::Transport;

TEST(Uri, ValidUrisRoundTrip) {
    struct Case {
        std::string text;
        Uri uri;
    };
    const std::vector<Case> cases = {
        {"ros2s+local:///p/c?dir=/srv/x",
         {.transport = Transport::local, .pool = "p", .container = "c", .dir = "/srv/x"}},
        {"ros2s+local:///p/c/?dir=x",
         {.transport = Transport::local, .pool = "p", .container = "c", .dir = "x"}},
        {"ros2s+local:///p/c//a//b/?dir=x",
         {.transport = Transport::local, .pool = "p", .container = "c", .path = "a/b", .dir = "x"}},
        {"ros2s+local:///p/c/a%20b/%C3%A9?dir=/a%3Fb",
         {.transport = Transport::local,
          .pool = "p",
          .container = "c",
          .path = "a b/\xC3\xA9",
          .dir = "/a?b"}},
        {"ros2s://server:7400/p/c/x?provider=ucx+tcp",
         {.transport = Transport::direct,
          .host = "server",
          .port = 7400,
          .pool = "p",
          .container = "c",
          .path = "x",
          .provider = "ucx+tcp"}},
        {"ros2s+dpu://[fe80::1]:7500/p/c?socket=/run/x.sock&provider=ofi+tcp;ofi_rxm",
         {.transport = Transport::dpu,
          .host = "fe80::1",
          .port = 7500,
          .pool = "p",
          .container = "c",
          .provider = "ofi+tcp;ofi_rxm",
          .socket = "/run/x.sock"}},
        {"ros2s://h/p/c?timeout=060",
         {.transport = Transport::direct,
          .host = "h",
          .pool = "p",
          .container = "c",
          .timeout = std::chrono::minutes(1)}},
        {"ros2s+local:///p/c?dir=/srv/x&durability=durable",
         {.transport = Transport::local,
          .pool = "p",
          .container = "c",
          .dir = "/srv/x",
          .is_durable = true}},
        {"ros2s:///p/c?dir=/srv/x",
         {.transport = Transport::direct, .pool = "p", .container = "c", .dir = "/srv/x"}},
        {"ros2s+local:///p/c/x?rados=/etc/ceph/ceph.conf",
         {.transport = Transport::rados,
          .pool = "p",
          .container = "c",
          .path = "x",
          .rados = "/etc/ceph/ceph.conf"}},
        {"ros2s+local:///p/c?data=slow&metadata=fast&user=client.a&rados=c.conf",
         {.transport = Transport::rados,
          .pool = "p",
          .container = "c",
          .rados = "c.conf",
          .user = "client.a",
          .metadata = "fast",
          .data = "slow"}},
        {"ros2s+dpu:///p/c", {.transport = Transport::dpu, .pool = "p", .container = "c"}},
    };
    for (const auto& c : cases) {
        Report report;
        const auto uri = Uri::parse(c.text, report);
        ASSERT_TRUE(uri) << c.text << ": " << report.text();
        EXPECT_EQ(*uri, c.uri) << c.text;
        Report again;
        EXPECT_EQ(Uri::parse(uri->to_string(), again), c.uri) << uri->to_string() << again.text();
    }
}

TEST(Uri, PoolUriMayOmitContainer) {
    struct Case {
        std::string text;
        std::string container, written;
    };
    const std::vector<Case> cases = {
        {"ros2s://h/p", "", "ros2s://h/p"},
        {"ros2s://h:7400/p/", "", "ros2s://h:7400/p"},
        {"ros2s+dpu:///p?dir=/x", "", "ros2s+dpu:///p?dir=/x"},
        {"ros2s+local:///p/?dir=x", "", "ros2s+local:///p?dir=x"},
        {"ros2s+dpu://h/p/c", "c", "ros2s+dpu://h/p/c"},
    };
    for (const auto& c : cases) {
        Report report;
        const auto uri = Uri::parse_pool(c.text, report);
        ASSERT_TRUE(uri) << c.text << ": " << report.text();
        EXPECT_EQ(uri->pool, "p") << c.text;
        EXPECT_EQ(uri->container, c.container) << c.text;
        EXPECT_EQ(uri->to_string(), c.written);
        EXPECT_EQ(Uri::parse_pool(c.written, report), *uri) << report.text();
    }
    for (const char* text : {"ros2s://h/p//x", "ros2s://h//c", "ros2s://h/", "ros2s+local:///p"}) {
        Report report;
        EXPECT_FALSE(Uri::parse_pool(text, report)) << text;
        EXPECT_THAT(report.text(), testing::HasSubstr("bad URI")) << text;
    }
}

TEST(Uri, InvalidUriIsRefusedWithPosition) {
    struct Case {
        std::string text;
        std::string sentence;  // a part of it
    };
    const std::vector<Case> cases = {
        {"", "it is empty (at character 1)"},
        {"/srv/data", "no '://'"},
        {"http://x/y/z", "the scheme 'http' is not one of"},
        {"ROS2S://x/y/z", "the scheme 'ROS2S' is not one of"},
        {"ros2s+local://", "no pool is named"},
        {"ros2s+local:///", "no pool is named"},
        {"ros2s+local:///?dir=x", "no pool is named"},
        {"ros2s+local:///p", "no container is named"},
        {"ros2s+local:///p/?dir=x", "no container is named (at character 18)"},
        {"ros2s+local:///p q/c?dir=x", "the pool name 'p q' is not 1 to 127"},
        {"ros2s+local:///p/c%2F?dir=x", "the container name 'c/'"},
        {"ros2s+local:///p/c", "add ?dir=DIRECTORY"},
        {"ros2s+local:///p/c?dir=", "'dir' has no value"},
        {"ros2s+local:///p/c?dir", "'dir' has no value"},
        {"ros2s+local:///p/c?dir=a&dir=b", "'dir' is given twice"},
        {"ros2s+local:///p/c?directory=a", "'directory' is not one of provider, socket, dir"},
        {"ros2s+local:///p/c?", "no parameter follows '?'"},
        {"ros2s+local:///p/c?dir=a#b", "'#' has no meaning"},
        {"ros2s+local:///p/c/../x?dir=a", "a component '..' (at character 20)"},
        {"ros2s+local:///p/c/%2e?dir=a", "a component '.'"},
        {"ros2s+local:///p/c/a%2Fb?dir=a", "contains '/'"},
        {"ros2s+local:///p/c/%00?dir=a", "a NUL byte"},
        {"ros2s+local:///p/c/%4?dir=a", "two hexadecimal digits"},
        {"ros2s+local:///p/c/%zz?dir=a", "two hexadecimal digits"},
        {"ros2s+local:///p/c?dir=%", "two hexadecimal digits"},
        {"ros2s+local://host/p/c?dir=a", "takes no host"},
        {"ros2s+local:///p/c?dir=a&provider=ucx+tcp", "'provider' selects one: leave it out"},
        {"ros2s+local:///p/c?socket=/run/x&dir=a", "'socket' selects one: leave it out"},
        {"ros2s+local:///p/c?dir=a&timeout=5", "'timeout' is for requests to a server"},
        {"ros2s+local:///p/c?rados=a&timeout=5", "rados_osd_op_timeout"},
        {"ros2s://h/p/c?timeout=0", "the timeout '0' is not a number of seconds from 1 to 86400"},
        {"ros2s://h/p/c?timeout=86401", "the timeout '86401' is not"},
        {"ros2s://h/p/c?timeout=5s", "the timeout '5s' is not"},
        {"ros2s://h/p/c?timeout=-1", "the timeout '-1' is not"},
        {"ros2s://h/p/c?timeout=", "'timeout' has no value"},
        {"ros2s+local:///p/c?dir=a&durability=fsync", "the durability 'fsync' is not 'durable'"},
        {"ros2s://h/p/c?timeout=1&timeout=1", "'timeout' is given twice"},
        {"ros2s+local:///p/c?dir=a&rados=b", "(dir) or in a Ceph cluster (rados), not both"},
        {"ros2s+local:///p/c?dir=a&user=client.x", "'user' is of a Ceph cluster"},
        {"ros2s+local:///p/c?metadata=m", "add rados=/etc/ceph/ceph.conf"},
        {"ros2s://h/p/c?rados=b", "only ros2s+local://"},
        {"ros2s+local://h/p/c?rados=b", "takes no host"},
        {"ros2s+local:///p/c?rados=b&provider=shm", "'provider' selects one: leave it out"},
        {"ros2s+local:///p/c?rados=", "'rados' has no value"},
        {"ros2s://h:/p/c", "the port '' is not a number"},
        {"ros2s://h:99999/p/c", "the port '99999' is not a number"},
        {"ros2s://h:7x/p/c", "the port '7x' is not a number"},
        {"ros2s://:70/p/c", "the host before ':' is empty"},
        {"ros2s://[::1/p/c", "'[' has no ']'"},
        {"ros2s://[::1]x/p/c", "':' must follow ']'"},
        {"ros2s://::1/p/c", "in brackets"},
        {"ros2s://me@h/p/c", "names a user"},
        {"ros2s+local:///p/c/" + std::string(256, 'x') + "?dir=a", "longer than 255 bytes"},
        {"ros2s+local:///p/c/" + std::string(9000, 'x') + "?dir=a", "8192 is the limit"},
        {"ros2s+local:///p/c?dir=" + std::string(3000, '\x91'), "it has 9023 bytes, and 8192"},
    };
    for (const auto& c : cases) {
        Report report;
        const auto uri = Uri::parse(c.text, report);
        ASSERT_FALSE(uri) << c.text;
        EXPECT_EQ(uri.error().code, Code::invalid);
        EXPECT_THAT(report.text(), testing::HasSubstr(c.sentence)) << c.text;
        EXPECT_THAT(report.text(), testing::HasSubstr("; it is written like ros2s")) << c.text;
        EXPECT_LT(report.text().size(), 700U) << c.text;
    }
}

}  // namespace
}  // namespace ros2s::api
