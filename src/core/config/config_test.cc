#include "ros2s/config/config.h"

#include <gtest/gtest.h>

#include "ros2s/config/units.h"

namespace ros2s::config {
namespace {

using namespace std::chrono_literals;

TEST(SizeText, TextIsParsedAndPrinted) {
    struct Case {
        std::string_view text;
        uint64_t bytes;
    };
    for (const auto& [text, bytes] :
         std::initializer_list<Case>{{"0", 0},
                                     {"4096", 4096},
                                     {"7B", 7},
                                     {"1KiB", 1024},
                                     {"512MiB", 512 << 20},
                                     {"3 GiB", 3ull << 30},
                                     {"2TiB", 2ull << 40},
                                     {"4G", 4ull << 30},
                                     {"1k", 1024},
                                     {"1kB", 1000},
                                     {"5MB", 5'000'000},
                                     {"18446744073709551615", UINT64_MAX}}) {
        EXPECT_EQ(parse_size(text), bytes) << text;
    }
    for (const char* text :
         {"", " ", "MiB", "-1", "1.5GiB", "1MiBs", "1  MiB", "0x10", "1Mib", "1 "})
        EXPECT_EQ(parse_size(text).error().code, Code::invalid) << text;
    for (const char* text : {"18446744073709551616", "16777216TiB", "18446744073709552kB"})
        EXPECT_EQ(parse_size(text).error().code, Code::too_large) << text;
    EXPECT_EQ(format_size(0), "0");
    EXPECT_EQ(format_size(4097), "4097B");
    EXPECT_EQ(format_size(512 << 20), "512MiB");
    EXPECT_EQ(format_size(1536), "1536B");
    EXPECT_EQ(format_size(3ull << 40), "3TiB");
}

TEST(DurationText, TextIsParsedAndPrinted) {
    EXPECT_EQ(parse_duration("0"), 0ns);
    EXPECT_EQ(parse_duration("100us"), 100us);
    EXPECT_EQ(parse_duration("100\u00b5s"), 100us);
    EXPECT_EQ(parse_duration("2 min"), 2min);
    EXPECT_EQ(parse_duration("3h"), 3h);
    for (const char* text : {"", "5", "s", "1.5s", "-1s", "1 sec", "1S"})
        EXPECT_EQ(parse_duration(text).error().code, Code::invalid) << text;
    EXPECT_EQ(parse_duration("2562048h").error().code, Code::too_large);
    EXPECT_EQ(format_duration(0ns), "0");
    EXPECT_EQ(format_duration(1500us), "1500us");
    EXPECT_EQ(format_duration(90s), "90s");
    EXPECT_EQ(format_duration(120s), "2min");
}

struct Settings {
    std::string pool = "pool";
    uint64_t memory_bytes = 512 << 20;
    uint32_t groups = 1;
    std::chrono::nanoseconds idle = 100us;
    bool verify = true;
    std::string level = "info";
    friend bool operator==(const Settings&, const Settings&) = default;
};
Table describe(Settings& s) {
    return {
        {"", "The pool.", {text("pool", s.pool, "The pool's name in URIs.").required()}},
        {"engine",
         "The storage engine.",
         {size("memory", s.memory_bytes, 16 << 20, 1ull << 40, "Memory for caches."),
          count("groups_in_flight", s.groups, 1, 16, "Groups committed at once."),
          duration("idle", s.idle, 0s, 1s, "How long it polls before it sleeps."),
          flag("verify", s.verify, "Checks every block that is read.")}},
        {"log",
         "What is told.",
         {choice("level", s.level, {"debug", "info", "warning"}, "The least that is said.")}},
    };
}

TEST(Config, EveryKindIsRead) {
    Settings s;
    Report report;
    const auto read = parse(R"(
pool: tank          # a comment
engine:
  memory: 1GiB
  groups_in_flight: 3
  idle: 2ms
  verify: false
log: {level: "debug"}
)",
                            "c", describe(s), report);
    ASSERT_TRUE(read) << report.text();
    EXPECT_EQ(s, (Settings{"tank", 1 << 30, 3, 2ms, false, "debug"}));
    EXPECT_TRUE(report.empty());
}

TEST(Config, OmittedSettingKeepsItsDefault) {
    Settings s;
    Report report;
    ASSERT_TRUE(parse("pool: p\nengine:\n", "c", describe(s), report)) << report.text();
    EXPECT_EQ(s, (Settings{.pool = "p"}));
}

TEST(Config, SettingsReportTheirLines) {
    std::string pool, people;
    KeyLines top, group;
    const Table table{{"", "", {text("pool", pool, "A pool.")}, nullptr, {}, &top},
                      {"who", "Who.", {text("people", people, "People.")}, nullptr, {}, &group}};
    Report report;
    ASSERT_TRUE(parse("\nwho:\n  people: x\npool: p\n", "c", table, report)) << report.text();
    EXPECT_EQ(top, (KeyLines{{"who", 2}, {"pool", 4}}));
    EXPECT_EQ(group, (KeyLines{{"people", 3}}));
}

TEST(Config, RecordsWithChosenNamesAreRead) {
    std::map<std::string, Entries> people;
    RecordLines lines;
    const Table table{{"people",
                       "Who may do what.",
                       {},
                       nullptr,
                       {{.keys = {{"read", "what they may read."}, {"write", "and write."}},
                         .into = &people,
                         .example = "ann: {read: x}",
                         .lines = &lines}}}};
    EXPECT_EQ(document(table),
              "# Who may do what.\n# read: what they may read.\n# write: and write.\n"
              "# people:\n#   ann: {read: x}\n");
    Report report;
    ASSERT_TRUE(parse("people:\n  \"CN=ann\": {write: 'a, b', read: c/*}\n  bob:\n    read: d\n",
                      "c", table, report))
        << report.text();
    const std::map<std::string, Entries> read{{"CN=ann", {{"write", "a, b"}, {"read", "c/*"}}},
                                              {"bob", {{"read", "d"}}}};
    EXPECT_EQ(people, read);
    EXPECT_EQ(lines, (RecordLines{{"CN=ann", {{"", 2}, {"write", 2}, {"read", 2}}},
                                  {"bob", {{"", 3}, {"read", 4}}}}));
    const std::string written = document(table);
    people.clear();
    ASSERT_TRUE(parse(written, "c", table, report)) << written;
    EXPECT_EQ(people, read);
    for (const auto& [yaml, sentence] : std::initializer_list<std::pair<const char*, const char*>>{
             {"people:\n  ann:\n    reed: x\n",
              "c:3: there is no setting \"reed\" in \"people.ann\"; did you mean \"read\"?"},
             {"people:\n  ann: {read: x}\n  ann: {read: y}\n",
              "c:3: \"ann\" is given twice, first in line 2; remove one of them"},
             {"people: {ann: x}",
              "c:1: people.ann: it has settings of its own; for example ann: {read: x}"},
             {"people: {ann: {read: [x]}}",
              "c:1: people.ann.read: one text is needed here; Who may do what."},
             {"people: x", "c:1: \"people\" is a group, not a setting"}}) {
        Report why;
        EXPECT_FALSE(parse(yaml, "c", table, why)) << yaml;
        EXPECT_NE(why.text().find(sentence), std::string::npos) << why.text();
    }
    EXPECT_EQ(people, read) << "all or nothing";
}

TEST(Config, RecordsBesideSettingOfSameNameAreRead) {
    std::string list;
    std::map<std::string, Entries> engines, pools;
    const Table table{{"", "A file.", {text("pools", list, "A list.")}},
                      {"pools",
                       "Or one by one.",
                       {},
                       nullptr,
                       {{.into = &engines, .example = "a: engine", .kind = "engine"},
                        {.keys = {{"conf", "the file."}, {"user", "who."}},
                         .into = &pools,
                         .example = "big: {rados: {conf: x}}",
                         .kind = "rados"}}}};
    Report report;
    ASSERT_TRUE(parse("pools: a, b", "c", table, report)) << report.text();
    EXPECT_EQ(list, "a, b");
    EXPECT_TRUE(pools.empty());
    list.clear();
    ASSERT_TRUE(
        parse("pools:\n  a: engine\n  big: {rados: {conf: x, user: y}}\n", "c", table, report))
        << report.text();
    const std::map<std::string, Entries> read{{"big", {{"conf", "x"}, {"user", "y"}}}};
    EXPECT_EQ(pools, read);
    EXPECT_EQ(engines, (std::map<std::string, Entries>{{"a", {}}}));
    EXPECT_EQ(list, "");
    const std::string written = document(table);
    pools.clear();
    ASSERT_TRUE(parse(written, "c", table, report)) << written;
    EXPECT_EQ(pools, read);
    for (const auto& [yaml, sentence] : std::initializer_list<std::pair<const char*, const char*>>{
             {"pools: {big: {ceph: {conf: x}}}",
              "for example a: engine, or big: {rados: {conf: x}}"},
             {"pools: {big: {rados: x}}", "for example a: engine, or big: {rados: {conf: x}}"},
             {"pools: {big: motor}", "for example a: engine, or big: {rados: {conf: x}}"},
             {"pools: {big: {rados: {conf: x}, engine: y}}", "c:1: pools.big: it has"},
             {"pools: {big: {rados: {config: x}}}",
              "c:1: there is no setting \"config\" in \"pools.big.rados\"; did you mean \"conf\"?"},
             {"pools: [a]", "c:1: pools: a list or a group is given where one value is needed"}}) {
        Report why;
        EXPECT_FALSE(parse(yaml, "c", table, why)) << yaml;
        EXPECT_NE(why.text().find(sentence), std::string::npos) << why.text();
    }
    EXPECT_EQ(pools, read) << "all or nothing";
}

TEST(Config, ChosenNamesRoundTrip) {
    std::map<std::string, std::string> places;
    const Table table{{"places", "Where things are.", {}, &places}};
    EXPECT_EQ(document(table), "# Where things are.\n# places:\n");
    Report report;
    ASSERT_TRUE(parse("places:\n  a/b: /x, y\n  \"c d\": ''\n", "c", table, report))
        << report.text();
    const std::map<std::string, std::string> read{{"a/b", "/x, y"}, {"c d", ""}};
    EXPECT_EQ(places, read);
    places.clear();
    ASSERT_TRUE(parse("places: {\"c d\": \"\", \"a/b\": \"/x, y\"}", "c", table, report));
    const std::string written = document(table);
    places.clear();
    ASSERT_TRUE(parse(written, "c", table, report)) << written;
    EXPECT_EQ(places, read);
    for (const auto& [yaml, sentence] : std::initializer_list<std::pair<const char*, const char*>>{
             {"places:\n  a: 1\n  a: 2\n",
              "c:3: \"a\" is given twice, first in line 2; remove one of them"},
             {"places: {a: [1]}", "c:1: places.a: one text is needed here; Where things are."},
             {"places: {a: }", "c:1: places.a: one text is needed here; Where things are."},
             {"places: x", "c:1: \"places\" is a group, not a setting"}}) {
        Report why;
        EXPECT_FALSE(parse(yaml, "c", table, why)) << yaml;
        EXPECT_NE(why.text().find(sentence), std::string::npos) << why.text();
        EXPECT_EQ(places, read);
    }
}

// Every message that a person can get.
struct Refusal {
    std::string_view yaml, sentence;
};
TEST(Config, ErrorNamesPlaceProblemAndRemedy) {
    for (
        const auto& [yaml, sentence] : std::initializer_list<Refusal>{
            {"pool: p\nengine:\n  memroy: 1GiB\n",
             "c.yaml:3: there is no setting \"memroy\" in \"engine\"; did you mean \"memory\"?"},
            {"pool: p\nengin: {}\n",
             "c.yaml:2: there is no setting \"engin\"; did you mean \"engine\"?"},
            {"pool: p\ncolour: blue\n",
             "c.yaml:2: there is no setting \"colour\"; remove it, or use one of: pool, engine, "
             "log"},
            {"pool: p\nmemory: 1GiB\n",
             "c.yaml:2: there is no setting \"memory\"; it belongs in the group \"engine\""},
            {"engine:\n  pool: p\n",
             "c.yaml:2: there is no setting \"pool\" in \"engine\"; it belongs at the top of the "
             "file, not indented"},
            {"engine:\n  memory: lots\n",
             "c.yaml:2: engine.memory: \"lots\" is not a size; write a whole number and a unit, "
             "such as 1TiB or 512MiB"},
            {"engine: {memory: 1MiB}\n",
             "c.yaml:1: engine.memory: \"1MiB\" is out of range; write 16MiB to 1TiB"},
            {"engine: {memory: 99999999999999999999}\n",
             "c.yaml:1: engine.memory: \"99999999999999999999\" is out of range; write 16MiB to "
             "1TiB"},
            {"engine: {idle: 5}\n",
             "c.yaml:1: engine.idle: \"5\" is not a duration; write a whole number and a unit "
             "(ns, us, ms, s, min, h), such as 100us"},
            {"engine: {idle: 2s}\n",
             "c.yaml:1: engine.idle: \"2s\" is out of range; write 0 to 1s"},
            {"engine: {groups_in_flight: many}\n",
             "c.yaml:1: engine.groups_in_flight: \"many\" is not a whole number; write 1 to 16"},
            {"engine: {groups_in_flight: 0}\n",
             "c.yaml:1: engine.groups_in_flight: \"0\" is out of range; write 1 to 16"},
            {"engine: {groups_in_flight: -1}\n",
             "c.yaml:1: engine.groups_in_flight: \"-1\" is not a whole number; write 1 to 16"},
            {"engine: {verify: maybe}\n",
             "c.yaml:1: engine.verify: \"maybe\" is not true or false; write one of these"},
            {"log: {level: loud}\n",
             "c.yaml:1: log.level: \"loud\" is not one of the choices; write debug, info or "
             "warning"},
            {"engine: {memory: }\n",
             "c.yaml:1: engine.memory: no value is given; write one, or remove the line"},
            {"engine: {memory: [1GiB, 2GiB]}\n",
             "c.yaml:1: engine.memory: a list or a group is given where one value is needed; Size, "
             "16MiB to 1TiB."},
            {"pool: p\nengine: fast\n",
             "c.yaml:2: \"engine\" is a group, not a setting; write its settings indented below "
             "it, one a line"},
            {"pool: a\npool: b\n",
             "c.yaml:2: \"pool\" is given twice, first in line 1; remove one of them"},
            {"- a\n- b\n",
             "c.yaml:1: the file is not a list of settings; write lines of the form `key: value`"},
            {"[a, b]: c\n",
             "c.yaml:1: a list or a group is given where a name is needed; write lines of the form "
             "`key: value`"},
            {"pool: a\n---\npool: b\n",
             "c.yaml:2: the settings end before this line; remove what follows, or a line of --- "
             "between them"},
            {"pool: a\n]\n",
             "c.yaml:2: not YAML: illegal flow end; settings are lines of the form `key: value`, "
             "indented with spaces"},
            {"", "c.yaml: the setting pool is missing; add it. The pool's name in URIs."},
            {"pool: \"a",
             "c.yaml:1: not YAML: illegal EOF in scalar; settings are lines of the form `key: "
             "value`, indented with spaces"},
            {"\tpool: a\n",
             "c.yaml:1: not YAML: illegal map value; settings are lines of the form `key: value`, "
             "indented with spaces"},
            {"engine: {memory: 1GiB\npool: a\n",
             "c.yaml:2: not YAML: end of map flow not found; settings are lines of the form `key: "
             "value`, indented with spaces"},
            {"engine: {memory: \"\x01\x02 and much more text than would fit into one line of a "
             "terminal\"}\n",
             "c.yaml:1: engine.memory: \"?? and much more text than would fit into one line of a "
             "term…\" is not a size; write a whole number and a unit, such as 1TiB or 512MiB"},
        }) {
        Settings s;
        Report report;
        const auto result = parse(yaml, "c.yaml", describe(s), report);
        ASSERT_FALSE(result) << yaml;
        EXPECT_EQ(result.error().code, Code::invalid);
        EXPECT_EQ(report.text(), sentence);
        EXPECT_EQ(s, Settings()) << "a refused file changes nothing";
    }
}

TEST(Config, AllErrorsAreReportedAtOnce) {
    Settings s;
    Report report;
    ASSERT_FALSE(parse("pool: p\nengine:\n  memory: x\n  idle: y\n", "c", describe(s), report));
    EXPECT_NE(report.text().find("c:3: engine.memory"), std::string::npos);
    EXPECT_NE(report.text().find("c:4: engine.idle"), std::string::npos);
    EXPECT_EQ(s, Settings());
}

TEST(Config, TooLargeFileIsRefused) {
    Settings s;
    Report report;
    const auto result = parse(std::string(2 << 20, '#'), "c", describe(s), report);
    EXPECT_EQ(result.error().code, Code::too_large);
    EXPECT_NE(report.text().find("larger than 1 MiB"), std::string::npos);
}

TEST(Config, DeepNestingIsRefused) {
    Settings s;
    Report report;
    EXPECT_FALSE(parse(std::string(500'000, '['), "c", describe(s), report));
    EXPECT_FALSE(parse("pool: &a [*a, *a]\n", "c", describe(s), report));
}

// yaml-cpp finds documents without end in some of these.
TEST(Config, ParsingOfAnyShortFileEnds) {
    for (int first = 0; first < 256; ++first) {
        for (int second = 0; second < 128; ++second) {
            const char text[] = {static_cast<char>(first), static_cast<char>(second)};
            Settings s;
            Report report;
            ASSERT_FALSE(parse({text, 2}, "c", describe(s), report));
            ASSERT_FALSE(report.empty());
        }
    }
}

TEST(Config, DocumentDescribesEverySetting) {
    Settings s;
    const auto table = describe(s);
    s.pool = "a \"quoted\" name";
    s.idle = 5ms;
    const std::string file = document(table);
    EXPECT_EQ(file, R"(# The pool.
# The pool's name in URIs. Text.
pool: "a \"quoted\" name"

# The storage engine.
engine:
  # Memory for caches. Size, 16MiB to 1TiB. Default: 512MiB.
#   memory: 512MiB
  # Groups committed at once. Number, 1 to 16. Default: 1.
#   groups_in_flight: 1
  # How long it polls before it sleeps. Duration, 0 to 1s. Default: 100us.
  idle: 5ms
  # Checks every block that is read. True or false. Default: true.
#   verify: true

# What is told.
# log:
  # The least that is said. One of debug, info or warning. Default: "info".
#   level: "info"
)");
    Settings back;
    Report report;
    ASSERT_TRUE(parse(file, "c", describe(back), report)) << report.text();
    EXPECT_EQ(back, s);
}

TEST(Config, UncommentedDocumentIsReadBack) {
    Settings s;
    std::string file = document(describe(s));
    for (size_t at = 0; (at = file.find("\n# log:", at)) != std::string::npos;)
        file.erase(at + 1, 2);
    for (const std::string key : {"memory", "groups", "idle", "verify", "level"}) {
        const auto at = file.find("#   " + key);
        ASSERT_NE(at, std::string::npos) << key;
        file.erase(at, 2);
    }
    const auto at = file.find("# engine:");
    ASSERT_NE(at, std::string::npos);
    file.erase(at, 2);
    Settings back;
    Report report;
    ASSERT_TRUE(parse(file, "c", describe(back), report)) << report.text() << file;
    EXPECT_EQ(back, s);
}

TEST(Config, AnyTextRoundTrips) {
    for (const std::string& text :
         {std::string(""), std::string("a\nb\t\\ \"'#: {}[]"), std::string("true"),
          std::string("ünïcode"), std::string("\x7f\x01", 2)}) {
        Settings s, back;
        const auto table = describe(s);
        s.pool = text;
        Report report;
        ASSERT_TRUE(parse(document(table), "c", describe(back), report)) << report.text();
        EXPECT_EQ(back.pool, text);
    }
}

}  // namespace
}  // namespace ros2s::config
