# SPDX-License-Identifier: Apache-2.0
"""Writes all mutants of a source into one text, of which mutant.h switches at most one on.

A mutant is (offset, length, new text, number). A comparison or a logical operator needs the whole expression around
it: `a && b || c` becomes `(Is(1) ? bool(a || b || c) : bool(a && b || c))`, so that the mutant is parsed as its text
would be. The expression is found by brackets and separators. Where that guess is wrong the text does not compile, and
run.py compiles this mutant by itself.
"""
import re

OPEN, CLOSE = "([{", ")]}"
IS = "nd::mutation::Is(%d)"
POINTS = [  # (pattern of the old text, form of the new)
    (r"true$", "(true != " + IS + ")"), (r"false$", "(false != " + IS + ")"),
    (r" \+ 1$", " + nd::mutation::Unless(%d, 1)"), (r" - 1$", " - nd::mutation::Unless(%d, 1)"),
    (r"\+\+$", "nd::mutation::Forth<%d>{} ->* "), (r"--$", "nd::mutation::Back<%d>{} ->* "),
    (r"std::min$", "nd::mutation::Extreme<%d>::Min"), (r"std::max$", "nd::mutation::Extreme<%d>::Max"),
]


def blanked(text):
    """The text with blanks for comments, strings and characters; every other byte keeps its place."""
    pattern = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'')
    return pattern.sub(lambda m: " " * len(m.group()), text)


def without_comments(text):
    pattern = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')
    return pattern.sub(lambda m: m.group() if m.group()[0] == '"' else " " * len(m.group()), text)


def separates(code, at, left):
    """Whether the expression ends at this character of bracket depth 0."""
    c = code[at]
    if c in ";,?":
        return True
    if c == ":":
        return code[at - 1] != ":" and code[at + 1] != ":"
    if c == "=":
        return code[at - 1] not in "=<>!" and code[at + 1] != "="
    return left and c == "n" and re.search(r"\breturn$", code[at - 5:at + 1]) is not None


def expression(code, begin, end):
    """The bounds of the expression around [begin, end)."""
    depth, left = 0, begin
    while left > 0:
        c = code[left - 1]
        if c in CLOSE:
            depth += 1
        elif c in OPEN:
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and separates(code, left - 1, True):
            break
        left -= 1
    depth, right = 0, end
    while right < len(code):
        c = code[right]
        if c in OPEN:
            depth += 1
        elif c in CLOSE:
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and separates(code, right, False):
            break
        right += 1
    while code[left].isspace():
        left += 1
    return left, right


def compose(text, mutants):
    """The text with all mutants, and for each number the first and last line that it concerns."""
    code, plain = blanked(text), without_comments(text)
    spans, regions, lines = [], {}, {}  # A span is (begin, end, form of the text, mutants of an expression).
    for mutant in mutants:
        offset, length, new, number = mutant
        end = offset + length
        old = plain[offset:end]
        form = next((form % number for pattern, form in POINTS if re.match(pattern, old)), None)
        if new == ";":
            spans.append((offset, end, IS % number + " ? void() : void({});", ()))
        elif form:
            spans.append((offset, end, form.replace("{}", "{{}}"), ()))
        else:
            offset, end = expression(code, offset, end)
            regions.setdefault((offset, end), []).append(mutant)
        lines[number] = (text.count("\n", 0, offset), text.count("\n", 0, end))
    spans += [(left, right, "({}bool({}))", inside) for (left, right), inside in regions.items()]
    spans.sort(key=lambda s: (s[0], -s[1]))

    def render(begin, end, inner):
        out, at, index = [], begin, 0
        while index < len(inner):
            left, right, form, inside = inner[index]
            index += 1
            nested = []
            while index < len(inner) and inner[index][0] < right:
                nested.append(inner[index])
                index += 1
            body = render(left, right, nested)
            if inside:
                cases = ""
                for offset, length, new, number in inside:
                    changed = (plain[left:offset] + new + plain[offset + length:right]).replace("\n", " ")
                    cases += f"{IS % number} ? bool({changed}) : "
                out += text[at:left], form.format(cases, body)
            else:
                out += text[at:left], form.format(body.rstrip().rstrip(";"))
            at = right
        out.append(text[at:end])
        return "".join(out)

    return render(0, len(text), spans), lines
