#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a page of docs/ into a manual page in scdoc's language, so that each text exists once.

usage: from_markdown.py FILE NAME SECTION "SUMMARY" "SEE ALSO"
Knows what docs/ uses: headings, paragraphs, lists, tables, fenced blocks, `code`, **bold**, [links](target).
"""
import re
import sys


def plain(text):
    return re.sub(r"([*_\\#\[\]<>])", r"\\\1", text)


def inline(text):
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text.strip())
    out = []
    for i, part in enumerate(re.split(r"`([^`]*)`", text)):
        out.append("*" + plain(part) + "*" if i % 2 and part else plain(part.replace("**", "")))
    return "".join(out)


def cells(row):
    return [c.replace("\0", "|").strip() for c in row.replace("\\|", "\0").strip().strip("|").split("|")]


def main(path, name, section, summary, see_also):
    out = [f"{name}({section})", "", "# NAME", "", f"{name} - {summary}", "", "# DESCRIPTION", ""]
    lines = open(path, encoding="utf-8").read().split("\n")
    i = 0
    while i < len(lines):
        line = lines[i]
        if line.startswith("```"):
            end = next(j for j in range(i + 1, len(lines)) if lines[j].startswith("```"))
            out += ["```", *[l.replace("\t", "    ") for l in lines[i + 1:end]], "```", ""]
            i = end
        elif line.startswith("# "):
            pass
        elif line.startswith("## "):
            out += ["# " + line[3:].replace("`", "").upper(), ""]
        elif line.startswith("### "):
            out += ["## " + line[4:].replace("`", ""), ""]
        elif line.startswith("|"):
            head, rows = cells(line), []
            i += 2
            while i < len(lines) and lines[i].startswith("|"):
                rows.append(cells(lines[i]))
                i += 1
            for row in rows:
                between = "; ".join(f"{plain(h)}: {inline(c)}" for h, c in zip(head[1:-1], row[1:-1]) if c)
                out += [inline(row[0]), "\t" + inline(row[-1]) + (f" ({between})" if between else ""), ""]
            continue
        elif re.match(r"[-*] ", line):
            out.append("- " + inline(line[2:]))
            while i + 1 < len(lines) and lines[i + 1].startswith("  "):
                i += 1
                out[-1] += " " + inline(lines[i])
            if i + 1 >= len(lines) or not re.match(r"[-*] ", lines[i + 1]):
                out.append("")
        elif line.strip():
            text = [line]
            while i + 1 < len(lines) and lines[i + 1].strip() and not re.match(r"[-*] |#|\||```", lines[i + 1]):
                i += 1
                text.append(lines[i])
            out += [inline(" ".join(text)), ""]
        i += 1
    out += ["# SEE ALSO", "", see_also]
    print("\n".join(out))


main(*sys.argv[1:])
