#!/usr/bin/env python3
"""Counts the test cases of one `bazel test` run and prints "N passed, N failed[, N skipped]" as its last line.

usage: count_tests.py EVENTS EXIT_CODE
  EVENTS      the file that --build_event_json_file wrote
  EXIT_CODE   bazel's own; anything but 0 without a failed case counts as one failure, so that nothing gets lost

A googletest program counts case by case, from its test.xml. So does any other test whose log has googletest's lines
("[       OK ] NAME", "[  FAILED  ] NAME", "[  SKIPPED ] NAME"), a name once; every further one is a single case.
A target that did not build, crashed or ran out of time is at least one failure. Exit code: 0 when nothing failed.
"""

import collections
import json
import os
import re
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

# Not the summary that googletest ends with: "[  SKIPPED ] 2 tests, listed below:". It repeats names, which count once.
LOG_LINE = re.compile(r"\[ *(OK|FAILED|SKIPPED) *\] (?!\d+ test)([^\s,;]+)")

Counts = collections.namedtuple("Counts", "passed failed skipped")


def cases_in_xml(text):
    """Counts of a test.xml that googletest wrote, or None where it was Bazel that wrote it."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return None
    cases = [case for case in root.iter("testcase") if case.get("classname")]
    if not cases:
        return None
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    skipped = sum(case.find("skipped") is not None for case in cases)
    return Counts(len(cases) - failed - skipped, failed, skipped)


def cases_in_log(text):
    """Counts of the googletest lines in a log; all zero without any."""
    words = collections.Counter({name: word for word, name in LOG_LINE.findall(text)}.values())
    return Counts(words["OK"], words["FAILED"], words["SKIPPED"])


def cases_of_target(status, xml, log):
    """Counts of one run of one target."""
    counts = cases_in_xml(xml) or cases_in_log(log)
    if status != "PASSED" and status != "FLAKY":
        return counts if counts.failed else counts._replace(failed=1)
    return counts if sum(counts) else Counts(1, 0, 0)


def read(uri):
    path = urllib.parse.unquote(urllib.parse.urlparse(uri).path)
    if not path or not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def outcomes(events):
    """Yields (label, status, counts, log path) of every test target in the event stream, once each."""
    runs = collections.OrderedDict()
    broken = collections.OrderedDict()
    for event in events:
        identity = event.get("id", {})
        if "testResult" in event:
            # Attempts and shards arrive one by one; the last attempt of a shard decides.
            key = identity["testResult"]
            runs[(key["label"], key.get("run", 0), key.get("shard", 0))] = event["testResult"]
        elif "targetCompleted" in identity and not event.get("completed", {}).get("success"):
            broken[identity["targetCompleted"]["label"]] = "did not build"
        elif "aborted" in event and "testSummary" not in identity:
            name = next((value.get("label") for value in identity.values() if isinstance(value, dict)), None)
            broken.setdefault(name or "the build", event["aborted"].get("description") or "was not run")
    for (label, _, _), result in runs.items():
        outputs = {output["name"]: output.get("uri", "") for output in result.get("testActionOutput", [])}
        log = outputs.get("test.log", "")
        yield label, result["status"], cases_of_target(result["status"], read(outputs.get("test.xml", "")), read(log)), log
    tested = {label for label, _, _ in runs}
    for label, reason in broken.items():
        if label not in tested:
            yield label, reason, Counts(0, 1, 0), ""


def events_in(text):
    """The events of a file, and whether it ends in the middle of one, as on a full disk."""
    events = []
    for line in filter(str.strip, text.split("\n")):  # a line of JSON may have what splitlines takes for an end
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            return events, True
    return events, False


def main(events_path, bazel_code):
    with open(events_path, encoding="utf-8", errors="replace") as file:
        events, is_cut = events_in(file.read())
    total = Counts(0, 0, 0)
    if is_cut:
        print("failed: bazel's list of events in %s is cut (is the disk full?)" % events_path)
        total = total._replace(failed=1)
    for label, status, counts, log in outcomes(events):
        total = Counts(*(a + b for a, b in zip(total, counts)))
        if counts.failed:
            print("failed: %s: %d of %d cases (%s) %s" % (label, counts.failed, sum(counts), status, urllib.parse.urlparse(log).path))
        if counts.skipped:
            print("skipped: %s: %d of %d cases" % (label, counts.skipped, sum(counts)))
    if bazel_code != 0 and total.failed == 0:
        print("failed: bazel ended with exit code %d" % bazel_code)
        total = total._replace(failed=1)
    print("%d passed, %d failed%s" % (total.passed, total.failed, ", %d skipped" % total.skipped if total.skipped else ""))
    return 1 if total.failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
