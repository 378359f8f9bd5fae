#!/usr/bin/env python3
"""usage: bans_test.py SOURCE_DIRECTORY

Tests that the lint finds violations of its rules on READMEs of modules, decision records and names."""
import sys
import unittest

ROOT = sys.argv.pop(1)
sys.path.insert(0, f"{ROOT}/tools/dev")
import bans  # noqa: E402
import prose  # noqa: E402

MODULES = ["ros2_group(core)", "ros2_module(base", "  HEADERS bytes.h)", "ros2_module(api/c PUBLIC api)", "# ros2_module(no)"]


class ModulesWithoutReadme(unittest.TestCase):
    def complaints(self, **readmes):
        texts = {"CMakeLists.txt": MODULES, "tests/layers/CMakeLists.txt": ["ros2_module(low)"]}
        texts |= {f"src/core/{name.replace('_', '/')}/README.md": lines for name, lines in readmes.items()}
        return bans.modules_without_readme(texts)

    def test_each_module_has_one(self):
        self.assertEqual(self.complaints(base=["# base: values"], api_c=["# api/c", "", "text"]), [])

    def test_a_missing_one(self):
        found = self.complaints(base=["# base: values"])
        self.assertEqual(len(found), 1, found)
        self.assertIn("src/core/api/c/README.md", found[0])

    def test_readme_without_a_title_is_found(self):
        for first in (["#base : values"], [], ["", "# base"], ["## base"]):
            with self.subTest(first=first):
                found = self.complaints(base=first, api_c=["# api/c"])
                self.assertEqual(len(found), 1, found)
                self.assertIn("src/core/base/README.md", found[0])


class Decisions(unittest.TestCase):
    RECORD = ["# 0001: A core has one thread", "Date: 2026-11-20", "", "Why."]
    INDEX = ["- [0001](0001-cores.md): A core has one thread."]

    def complaints(self, records, index=None):
        texts = {f"docs/decisions/{name}": lines for name, lines in records.items()}
        return bans.decisions(texts | {"docs/decisions/README.md": index or self.INDEX, "README.md": []})

    def test_a_whole_record(self):
        self.assertEqual(self.complaints({"0001-cores.md": self.RECORD}), [])

    def test_incomplete_records_are_found(self):
        for records, index, words in (
                ({"0001-cores.md": ["# Cores", *self.RECORD[1:]]}, None, "A statement"),
                ({"0001-cores.md": ["# 0002: Cores", *self.RECORD[1:]]}, None, "A statement"),
                ({"0001-cores.md": [self.RECORD[0], "", "2026-11-20"]}, None, "the second line"),
                ({"0001-cores.md": self.RECORD[:1]}, None, "the second line"),
                ({"0001-cores.md": self.RECORD}, ["# Decisions"], "add the line"),
                ({"0001-cores.md": [*self.RECORD, "word " * 441]}, None, "at most 450 words"),
                ({"cores.md": self.RECORD}, self.INDEX + ["- [core](cores.md): "], "NNNN-words.md"),
                ({"0001-cores.md": self.RECORD, "0001-two.md": self.RECORD},
                 self.INDEX + ["- [0001](0001-two.md): Two."], "the same number"),
                ({"0001-cores.md": self.RECORD}, ["- [0002](0002-two.md): Two.", *self.INDEX],
                 "sort its lines")):
            with self.subTest(words=words, records=records):
                found = self.complaints(records, index)
                self.assertEqual(len(found), 1, found)
                self.assertIn(words, found[0])


class RefusedNames(unittest.TestCase):
    GLOSSARY = ["| door | where one enters |", "## Words that we do not use", "| word | use instead |",
                "|---|---|", "| door | listener |", "| lent | borrowed |", "| Place, Kept | where |", "| let_go, fail_to_know | release |"]

    def complaints(self, line, path="src/a.h", glossary=None):
        return bans.refused_names({"docs/glossary.md": glossary or self.GLOSSARY, path: [line]})

    def test_names_that_are_refused(self):
        for line in ("struct Door {", "class Doors;", "class [[nodiscard]] LentMemory {", "struct Doorkeeper final",
                     "class Domains::TheDoor final : public Gate {", "struct closed_door {",
                     "Door open();", "struct Place {", "using Places = int;", "    void open_doors();", "    Page lent_;", "TEST(Server, OpensNoDoor) {",
                     "enum class Kept : int {", "void let_go();", "visit.let_go(fail);"):
            with self.subTest(line=line):
                found = self.complaints(line)
                self.assertEqual(len(found), 1, found)
                self.assertIn("say ", found[0])

    def test_other_names(self):
        for line in ("class SilentWorker;", "struct Indoors {", "// struct Door", "class Talent {", "struct ServerPlace {", "int place;", "    Nursery background_;",
                     'say("the door");', "let_gone();", "void Kept();"):
            with self.subTest(line=line):
                self.assertEqual(self.complaints(line), [])
        self.assertEqual(self.complaints("class Door:", "tools/a.py"), [])

    def test_words_of_documents(self):
        for line in ("The door is open.", "Doors", "| a | what it lent |"):
            self.assertEqual(len(self.complaints(line, "docs/a.md")), 1, line)
        for line in ("The text `one door`.", "indoors", "A Place, Kept.", "`let_go`"):
            self.assertEqual(self.complaints(line, "docs/a.md"), [], line)

    def test_the_table_must_be_there(self):
        self.assertIn("is missing", self.complaints("struct A {", glossary=["# Glossary"])[0])


class NamesOfTests(unittest.TestCase):
    def complaints(self, *lines, path="src/a_test.cc"):
        return bans.names_of_tests({path: list(lines)})

    def test_names_of_condition_and_outcome_are_accepted(self):
        for line in ("TEST(Unlink, RetriedAfterRestartSucceeds) {", "TEST_P(StoreWire, KeyExpires) {", "// TEST(a, b)",
                     "TEST_F(Utf8Names, AbsentNameIsRefused)", "INSTANTIATE_TEST_SUITE_P(of, DfsSteps,", "    TEST_CALL(a, b);"):
            with self.subTest(line=line):
                self.assertEqual(self.complaints(line), [])

    def test_other_names_are_refused(self):
        for lines in (["TEST(Unlink, Works) {"], ["TEST(unlink, RetriedUnlinkSucceeds) {"], ["TEST_F(Unlink, retried_unlink_succeeds)"],
                      ["TEST_P(UnlinkTest, Retried_Succeeds) {"], ["TEST(Unlink_, RetriedUnlinkSucceeds)"], ["TEST(Unlink,", "     Works) {"],
                      ["TEST(Unlink, ANameIsGone) {"], ["TEST(Unlink, WhatIsGoneIsStale)"]):
            with self.subTest(lines=lines):
                self.assertEqual(len(self.complaints("int x;", *lines)), 1)
        self.assertIn("src/a_test.cc:2: Unlink.Works", self.complaints("int x;", "TEST(Unlink, Works) {")[0])

    def test_riddles_in_python_are_refused(self):
        for name in ("test_what_is_gone", "test_its_space", "test_and_nothing_else"):
            self.assertEqual(len(self.complaints(f"    def {name}(self):", path="tests/a_test.py")), 1)
        self.assertEqual(self.complaints("    def test_iterations_end(self):", "def what_is(x):", path="tests/a_test.py"), [])

    def test_cases_of_contracts_are_checked(self):
        cases = "src/files/fs/contract/name_cases.cc"
        for line in ('    {"TheLongestName",', '    return {{"odd_names", odd_names},', '    {"Odd", [](Fixture& f) -> Task<> {',
                     '    {"Odd", odd_client, odd_server},'):
            with self.subTest(line=line):
                self.assertEqual(len(self.complaints(line, path=cases)), 1)
                self.assertEqual(self.complaints(line), [])
        self.assertEqual(self.complaints('    {"LongestNameIsStored",', '    {"file", success},', '    {"a", "b"},', path=cases), [])


class Links(unittest.TestCase):
    def broken(self, link, path="a.md"):
        return bans.broken_links({path: ["# A `page` of two", link], f"{ROOT}/README.md": ["# Other"]})

    def test_a_heading_that_is_missing_is_found(self):
        self.assertEqual(self.broken("[x](#a-page-of-two)"), [])
        self.assertEqual(self.broken("[x](#a-page)"), ["a.md:2: a.md has no heading for #a-page"])
        self.assertEqual(self.broken(f"[x]({ROOT}/README.md#other)"), [])
        self.assertIn("has no heading for #another", self.broken(f"[x]({ROOT}/README.md#another)")[0])

    def test_a_path_that_is_missing_is_found(self):
        self.assertEqual(self.broken("[x](no/such.md#a)"), ["a.md:2: no/such.md does not exist"])
        self.assertEqual(self.broken("[x](https://a.b/c#d), [y](mailto:a@b)"), [])


class Prose(unittest.TestCase):
    LONG = "word " * 29 + "end."

    def broken(self, *lines, path="docs/a.md"):
        return [name for name, complaints in prose.look({path: list(lines)}) if complaints]

    def test_a_long_line_is_found_in_paragraphs_and_items_only(self):
        for lines in ((self.LONG,), ("- " + self.LONG,), ("- one", "  " + self.LONG)):
            self.assertEqual(self.broken(*lines), ["lines of documents have at most 120 characters"])
        for lines in (("    " + self.LONG,), ("| " + self.LONG + " |",), ("```", self.LONG, "```"), ("[" + "x" * 130 + "](y.md)",),
                      ("- one", "", "      " + self.LONG)):
            self.assertEqual(self.broken(*lines), [])

    def test_a_long_cell_is_found_except_in_rows_of_formats(self):
        row = f"| a | {self.LONG} {self.LONG} |"
        self.assertEqual(self.broken(row), ["cells of documents have at most 200 characters"])
        self.assertEqual(self.broken(row, path="docs/formats/a.md"), [])

    def test_more_words_than_the_bound_are_found(self):
        rows = ["| a | b |"] * (prose.WORDS_MAX // 2)
        self.assertEqual(self.broken(*rows), [])
        self.assertEqual(self.broken(*rows, "| c |"), [f"documents have at most {prose.WORDS_MAX:,} words, without decisions"])
        self.assertEqual(self.broken(*rows, "| c |", path="docs/decisions/0001-a.md"), [])

    def test_wrapping_changes_long_paragraphs_and_nothing_else(self):
        kept = "# " + self.LONG + "\n\nshort\nlines\n\n    " + self.LONG + "\n| " + self.LONG + " |\n\nspan: a\n"
        self.assertEqual(prose.wrapped(kept), kept)
        items = prose.wrapped(f"1. {self.LONG}\n   {self.LONG}\n2. short")
        self.assertEqual(items.split("\n")[1][:7], "   word")
        self.assertEqual(items.split("\n")[-1], "2. short")
        self.assertEqual(items.split(), f"1. {self.LONG} {self.LONG} 2. short".split())
        self.assertEqual(self.broken(*items.split("\n")), [])
        self.assertEqual(prose.wrapped(items), items)


if __name__ == "__main__":
    unittest.main()
