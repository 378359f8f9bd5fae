"""Checks the Markdown, and wraps its prose: lines of at most 120 characters, cells of at most 200, and a bound on
all words. A mark without a letter or a digit is no word."""

import re
import textwrap

LINE_MAX, CELL_MAX, WORDS_MAX = 120, 200, 54_000
RECORDS = "docs/decisions/"  # bans.decisions() checks their form
# The rows of bodies are the declared fields, which tests/formats compares.
LONG_CELLS = ("docs/formats/",)
WORD = re.compile(r"[^\W_]")
ITEM = re.compile(r"(\s{0,5})([-*]|\d+\.)\s+(.*)")
# Lines of the tours and of a module's README that begin a paragraph of their own.
BEGINS = ("Read:", "Tests:")
ALONE = ("span:", "Invariants")


def look(texts):
    """Yields each rule's name and the lines that break it."""
    pages = {path: lines for path, lines in texts.items() if path.endswith(".md") and not path.startswith(RECORDS)}
    yield f"lines of documents have at most {LINE_MAX} characters", [
        f"{path}:{number}: {len(line)} characters\n    `./dev fmt` wraps it"
        for path, lines in pages.items() for number, line in prose(lines) if len(line) > LINE_MAX]
    yield f"cells of documents have at most {CELL_MAX} characters", [
        f"{path}:{number}: a cell of {len(cell)} characters: {cell.strip()[:60]} …\n    say it in a sentence below the table"
        for path, lines in pages.items() if not path.startswith(LONG_CELLS)
        for number, line in enumerate(lines, 1) if line.startswith("|")
        for cell in line.split("|") if len(cell) > CELL_MAX]
    words = sum(bool(WORD.search(word)) for lines in pages.values() for line in lines for word in line.split())
    yield f"documents have at most {WORDS_MAX:,} words, without decisions", [] if words <= WORDS_MAX else [
        f"they have {words:,}\n    say it in fewer words, or drop what nobody needs"]


def prose(lines):
    """Yields the lines that are neither code, tables nor headings, with their numbers. A line that cannot be wrapped
    (a link) is none."""
    fenced = False
    item = blank = False  # in an item of a list; after an empty line
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not line.strip():
            blank = True
            continue
        elif not fenced and not line.startswith(("|", "#")):
            deep = len(line) - len(line.lstrip())
            if ITEM.match(line) and deep < 4:
                item = True
            elif deep == 0:
                item = False
            if (deep < 4 or item and not blank) and " " in line.strip():
                yield number, line
        blank = False


def wrapped(text):
    """Returns the text with those paragraphs and items wrapped that have a line that is too long."""
    out, own, first, rest = [], [], "", ""
    fenced = False

    def end():
        if any(len(line) > LINE_MAX for line in own):
            words = " ".join(line.strip() for line in own)
            words = words[len(first.strip()):].lstrip() if first.strip() else words
            out.extend(textwrap.wrap(words, LINE_MAX - 1, initial_indent=first, subsequent_indent=rest,
                                     break_long_words=False, break_on_hyphens=False))
        else:
            out.extend(own)
        own.clear()

    for line in text.split("\n"):
        deep = len(line) - len(line.lstrip())
        item = ITEM.match(line)
        code = not own and deep >= 4 and not item
        if fenced or line.startswith(("```", "|", "#")) or not line.strip() or code:
            end()
            fenced ^= line.startswith("```")
            out.append(line)
        elif item and (own or deep < 4):
            end()
            first = line[:item.start(3)]
            rest = " " * len(first)
            own.append(line)
        elif line.startswith((*BEGINS, *ALONE)) or not own:
            end()
            first = rest = " " * deep
            own.append(line)
            if line.startswith(ALONE):
                end()
        else:
            own.append(line)
    end()
    return "\n".join(out)


def wrap(files):
    for file in files:
        text = file.read_text(encoding="utf-8")
        if wrapped(text) != text:
            file.write_text(wrapped(text), encoding="utf-8")

