"""Reads the sources as text and finds what they must not contain."""

import os
import re
import subprocess
from pathlib import Path

import prose

# Threads, locks and atomics belong in the runtime. Other places need them only if a foreign interface calls
# from its own threads, or if an application's threads use the reactor. Each file gives its reason.
THREADED = (
    "src/core/runtime/",
    "src/net/fabric/shm/",
    "src/net/fabric/lanes/plain_environment.",  # libraries read the process's environment: one at a time
    "src/net/fabric/lanes/forked_use.",  # domains are opened on any thread's reactor, and counted for the process
    "src/service/control/process/control_helper.",  # forks and openings of any thread
    "src/core/base/log.",        # lines of several threads on one standard error
    "src/core/base/metrics.h",   # read by another thread than the one that counts
    "src/store/device/nvme/namespace.h",  # one controller's, on whatever cores its commands are
    "src/store/engine/index/",    # RocksDB's background threads
    "src/store/engine/allocation_test.cc",  # counts in operator new, which any thread calls
    "src/net/admission/accounts.",  # names of accounts, which gRPC's threads read
    "src/trust/session/sessions_test.cc",  # of a process that is watched
    "src/service/control/audit.cc",     # gRPC's threads log
    "src/service/control/arrivals.",  # requests begin on gRPC's threads
    "src/service/control/answers.",     # and end there
    "src/service/control/client_call.h",  # calls end on gRPC's threads, or are left to them
    "src/service/control/reflection_service.cc",  # the same
    "src/service/control/connections.",  # accepts for gRPC, whose handshakes begin on the accepting thread
    "src/service/control/test_support/test_rig",     # and so do its tests' servers
    "src/program/api/",             # the application's threads
    "src/service/daemon/log_writer",  # writes the lines of all threads, because what reads them may be slow
    "src/program/pool/owner_test.cc",  # an owner whose first thread ends before it
    "plugins/",             # the same
    "apps/fuse/",           # libfuse's signal thread
    "apps/cli/",            # the progress line's and Ctrl-C's flag
    "tests/",
    "bench/name_bench.c",  # an application with several threads
    "examples/",
)

CODE = (".cc", ".h", ".hpp", ".c")

# name, pattern, suffixes, allowed path prefixes, what to do instead
RULES = (
    ("no #include \"../\"", r'#\s*include\s*["<]\.\./', CODE, (),
     "include a public header as \"ros2s/<module>/<header>.h\""),
    ("threads, locks and atomics only in the runtime",
     r"#\s*include\s*<(thread|mutex|shared_mutex|condition_variable|atomic|semaphore|latch|barrier|"
     r"stop_token|future|pthread\.h)>|\bstd::(thread|jthread|mutex|atomic)\b", CODE, THREADED,
     "cross cores with `co_await on(reactor, …)`; block on BlockingPool"),
    ("no sleeping", r"\b(u|nano)?sleep\s*\(|\bsleep_for\s*<|this_thread::sleep", CODE,
     ("src/core/runtime/", "src/program/api/c/queue_test.cc",
      "src/program/api/queue/queue_race_test.cc", "tests/", "examples/"),
     "co_await sleep_for(reactor, …)"),
    ("no unseeded randomness",
     r"\b(rand|srand|random_device|drand48|lrand48)\s*\(|std::random_device|std::mt19937|"
     r"std::(shuffle|hash)\b|_distribution<", CODE, ("src/core/base/random.",),
     "use ros2s::Random from the reactor"),
    ("no names from a predictable generator", r"random\(\)\.next\(",
     CODE, ("src/sim/", "src/store/device/uring/create.cc", "src/trust/session/test_support/session.h",
            "src/trust/session/sessions_test.cc",
            "src/trust/session/tickets_test.cc", "src/net/fabric/ucx/test_support/attack.cc",
            "src/net/fabric/ofi/attack_test.cc", "tests/"),
     "what a peer sees and what names something comes from Reactor::secrets()"),
    ("no fixes put off", r"\bFIXME\b|\bXXX\b", CODE + (".py", ".cmake"), ("tools/dev/bans.py",),
     "fix it now, or state what does not work"),
    ("no paths of one machine", r"(?<![\w.$}/])/(home|work|root|Users)/\w", None,
     ("tools/dev/bans.py",), "use a path relative to the checkout"),
    ("no plain ros2 program", r"add_executable\(\s*ros2\s|add_library\(\s*ros2\s|PYTHON_MODULE.*\bros2\b",
     ("CMakeLists.txt", ".cmake"), (), "programs are called ros2store…"),
)


def look():
    """Yields each rule's name and the lines that break it."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True,
                            text=True, check=True)
    texts = {}
    for name in listed.stdout.split("\n"):
        if name and Path(name).is_file():
            texts[name] = Path(name).read_text(encoding="utf-8", errors="replace").splitlines()
    for name, pattern, suffixes, allowed, instead in RULES:
        banned = re.compile(pattern)
        complaints = [f"{path}:{number}: {line.strip()}\n    {instead}"
                      for path, lines in texts.items()
                      if (suffixes is None or path.endswith(suffixes))
                      and not path.startswith(allowed or ("\0",))
                      for number, line in enumerate(lines, 1)
                      if banned.search(without_comment(line, path))]
        yield name, complaints
    yield "links in documents", broken_links(texts)
    yield "a README in each module", modules_without_readme(texts)
    yield "decisions have a number, a date and a line in the index", decisions(texts)
    yield "no name has a word that the glossary refuses", refused_names(texts)
    yield "tests are named Suite.ConditionOutcome", names_of_tests(texts)
    yield from prose.look(texts)


def without_comment(line, path):
    """Returns the line without a C++ comment, which may name what the code may not use."""
    return re.sub(r"//.*", "", line) if path.endswith(CODE) else line


def broken_links(texts):
    """Returns relative links of Markdown files to paths, or to headings of Markdown files, that do not exist."""
    complaints = []
    for path, lines in texts.items():
        if not path.endswith(".md"):
            continue
        for number, line in enumerate(lines, 1):
            for target, heading in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", line):
                if "://" in target or target.startswith("mailto:"):
                    continue
                page = os.path.normpath(Path(path).parent / target) if target else path
                if page not in texts and not Path(page).exists():
                    complaints.append(f"{path}:{number}: {target} does not exist")
                elif heading and page in texts and not path.startswith(prose.RECORDS) and heading not in headings(texts[page]):
                    complaints.append(f"{path}:{number}: {page} has no heading for #{heading}")
    return complaints


def headings(lines):
    """Returns the names under which links find the headings of a page."""
    texts = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip().lower()) for line in lines if re.match("#{1,6} ", line))
    return {re.sub(r"[^\w -]", "", text).replace(" ", "-") for text in texts}


def modules_without_readme(texts):
    """Returns the modules of ros2_module() whose README.md is missing or does not begin with a title."""
    complaints = []
    for number, line in enumerate(texts["CMakeLists.txt"], 1):
        for name in re.findall(r"^ros2_group\((\w+)", line):
            group = name
        for module in re.findall(r"^ros2_module\(\s*([\w/]+)", line):
            readme = f"src/{module if module.split('/')[0] == group else f'{group}/{module}'}/README.md"
            if not "".join(texts.get(readme, [])[:1]).startswith("# "):
                complaints.append(f"CMakeLists.txt:{number}: {readme} does not begin with a line "
                                  f"'# {module}: …'\n    say what the module is, what is not in "
                                  "it, where to start reading, its invariants and tests")
    return complaints


RECORD_WORDS_MAX = 450


def decisions(texts):
    """Returns records in docs/decisions that lack a unique number, a date, or a line in the index, or are too long,
    and an index that is not sorted."""
    folder, index = "docs/decisions/", "docs/decisions/README.md"
    listed = "\n".join(texts.get(index, []))
    complaints = []
    by_number = {}
    for path, lines in sorted(texts.items()):
        name = path.removeprefix(folder)
        if name == path or path == index:
            continue
        number = name[:4]
        title, date = (lines + ["", ""])[:2]
        if not re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", name):
            complaints.append(f"{path}: name it NNNN-words.md")
        elif not title.startswith(f"# {number}: "):
            complaints.append(f"{path}:1: the first line must be '# {number}: A statement'")
        if not re.fullmatch(r"Date: 20\d\d-[01]\d-[0-3]\d", date):
            complaints.append(f"{path}:2: the second line must be 'Date: YYYY-MM-DD'")
        elif f"- [{number}]({name}): " not in listed:
            complaints.append(f"{index}: add the line '- [{number}]({name}): its decision in one short sentence'")
        words = sum(len(line.split()) for line in lines)
        if words > RECORD_WORDS_MAX:
            complaints.append(f"{path}: {words} words. A record has at most {RECORD_WORDS_MAX} words")
        if by_number.setdefault(number, path) != path:
            complaints.append(f"{path}: {by_number[number]} has the same number. Choose another one")
    numbers = re.findall(r"^- \[(\d{4})\]", listed, re.MULTILINE)
    if numbers != sorted(numbers):
        complaints.append(f"{index}: sort its lines by number")
    return complaints


def refused_names(texts):
    """Returns lines with a C++ name, or a word of a document, that the glossary's table "Words that we do not use" has.
    A capitalised word is refused as the whole name of a type only, one with '_' as a whole name."""
    page = "docs/glossary.md"
    glossary = "\n".join(texts.get(page, []))
    rows = re.findall(r"^\| ([\w, ]+) \| (.+) \|$", glossary.partition("## Words that we do not use")[2], re.MULTILINE)
    refused = {word: instead for words, instead in rows for word in words.split(", ") if word != "word"}
    complaints = []
    if not refused:
        complaints.append(f"{page}: the table \"Words that we do not use\" is missing")
    for path, lines in texts.items():
        if not path.endswith(CODE + (".md",)) or path == page:
            continue
        for number, line in enumerate(lines, 1):
            if path.endswith(".md"):
                words, names, types = re.findall(r"[a-z]+", re.sub(r"`[^`]*`", "", line).lower()), [], []
            else:
                code = re.sub(r'"(?:[^"\\]|\\.)*"', "", without_comment(line, path))
                words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+", code)]  # of MyDoors, closed_door, Doorkeeper
                names = re.findall(r"[a-z]\w*", code)
                types = re.findall(r"(?:struct|class|using)\s+(?:\[\[\w+\]\]\s+)?(\w+)", code)
            complaints += [f"{path}:{number}: {line.strip()}\n    the glossary refuses '{one}': say {instead}"
                           for one, instead in refused.items()
                           if (one in names if "_" in one else {one, one + "s"} & set(types) if one[0].isupper()
                               else any(word.startswith(one) for word in words))]
    return complaints


def names_of_tests(texts):
    """Returns tests, and cases of contract suites, whose names are not two or more words in CamelCase, and those,
    in Python, too, that begin with a word that says nothing."""
    test = re.compile(r"^(?:CO_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)[,)]", re.MULTILINE)
    case = re.compile(r'^ *(?:return \{)?\{()"(\w+)",(?: \[\]| \w+_\w+[,}]|$)', re.MULTILINE)
    riddle = re.compile(r"^    def ()(test_(?:and|its?|th(?:at|ere|ese|ey|ose)|wh(?:at|ere|o|ose))_\w+)\(self", re.MULTILINE)
    named = r"(?!(?:An?|The|Its?|That|This|They|Wh(?:at|en|ere|o|ose))[A-Z])(?:[A-Z]+[a-z0-9]*){2,}"
    complaints = []
    for path, lines in texts.items():
        rule = riddle if path.endswith(".py") else case if re.search(r"/contract/\w+_cases\.cc$", path) else test
        for found in rule.finditer("\n".join(lines) if path.endswith((*CODE, ".py")) else ""):
            if not re.fullmatch(named, found[2]) or not re.fullmatch("([A-Z][A-Za-z0-9]*)?", found[1]):
                number = found.string.count("\n", 0, found.start()) + 1
                complaints.append(f"{path}:{number}: {found[1]}.{found[2]}\n    name the class or feature, the condition "
                                  "and the outcome: Unlink.RetriedAfterRestartSucceeds")
    return complaints
