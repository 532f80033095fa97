#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the texts of `ndctl explain` as C++, from the comments and tables that document the project.

usage: explain_generate.py ROOT OUTPUT

Sources: messages, fields and requests of proto/; the codes and details of nd/status.h; docs/status.md
(statuses, states), docs/configuration.md (settings), and in every page of docs/ the rows of tables that begin
with a metric (`ndbroker_...`), a field (`Message.field`, or `*.field` for every message) or a detail. What is
explained nowhere is left out.
"""
import pathlib
import re
import sys


def comment_of(pending, rest):
    trailing = re.search(r'//\s*(.*)$', rest)
    words = pending + ([trailing.group(1)] if trailing else [])
    return ' '.join(word.strip() for word in words).strip()


def read_proto(path, add):
    pending, scope = [], []
    for line in path.read_text().splitlines():
        text = line.strip()
        if text.startswith('//'):
            pending.append(text[2:])
            continue
        opened = re.match(r'(message|service|enum)\s+(\w+)\s*\{', text)
        if opened:
            scope.append(opened.group(2))
            add('message' if opened.group(1) == 'message' else opened.group(1), '.'.join(scope), '',
                comment_of(pending, text))
            if text.endswith('}'):
                scope.pop()
        elif text.startswith('oneof'):
            scope.append('')  # Its fields belong to the message.
        elif text == '}' and scope:
            scope.pop()
        elif scope:
            owner = '.'.join(name for name in scope if name)
            request = re.match(r'rpc\s+(\w+)\((\w+)\)\s*returns\s*\((.*?)\)', text)
            field = re.match(r'((?:optional |repeated )?[\w.<>, ]+?)\s+(\w+)\s*=\s*\d+', text)
            if request:
                add('request', owner + '.' + request.group(1), '', comment_of(pending, text))
            elif field:
                add('field', owner + '.' + field.group(2), field.group(1), comment_of(pending, text))
        pending = []


def read_details(path, add):
    inside, pending = False, []
    for line in path.read_text().splitlines():
        if 'enum class Detail' in line:
            inside = True
        elif inside and line.startswith('};'):
            return
        elif inside:
            entry = re.match(r'\s+k(\w+)\s*=\s*(\d+),', line)
            if line.strip().startswith('//'):
                pending.append(line.strip()[2:])
            elif entry and entry.group(1) != 'None':
                name = re.sub(r'(?<!^)([A-Z])', r' \1', entry.group(1)).lower()
                add('detail', name, 'number ' + entry.group(2), comment_of(pending, line))
                pending = []


def codes(path):
    """NAME to number of StatusCode, in the names that Name() gives."""
    out = {}
    for name, number in re.findall(r'k(\w+)\s*=\s*(0x[0-9A-F]{8})', path.read_text()):
        out[re.sub(r'(?<!^)(?=[A-Z]|(?<=[a-z])\d)', '_', name).upper()] = number
    return out


def rows(text):
    for line in text.splitlines():
        if line.startswith('|') and not re.match(r'\|[\s:|-]+\|$', line):
            cells = [cell.strip() for cell in line.strip().strip('|').split('|')]
            yield [re.sub(r'`([^`]*)`', r'\1', cell) for cell in cells], cells


def sections(text):
    heading, lines = '', []
    for line in text.splitlines():
        if line.startswith('## '):
            yield heading, '\n'.join(lines)
            heading, lines = line[3:].strip(), []
        else:
            lines.append(line)
    yield heading, '\n'.join(lines)


def plain(text):
    return re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', text)


def read_status_page(path, numbers, add):
    for heading, body in sections(path.read_text()):
        for cells, _ in rows(body):
            if heading == 'Every status' and cells[0] in numbers:
                text = cells[1] + ('\nwhat to do: ' + cells[2] if len(cells) > 2 and cells[2] else '')
                add('status', cells[0], numbers[cells[0]], text)
            elif heading == 'States of a connector' and cells[0] != 'state':
                add('state', cells[0], 'of a connector', cells[1])


def read_settings(path, add):
    for heading, body in sections(path.read_text()):
        table = re.match(r'\[+([\w-]+)\]+$', heading)
        if not table:
            continue
        header = None
        for cells, raw in rows(body):
            if cells[0].startswith('key'):
                header = cells
                continue
            if header is None or len(cells) != len(header):
                continue
            facts = ', '.join(f'{name} {cell}' for name, cell in list(zip(header, cells))[1:-1] if cell)
            for key in re.findall(r'`([\w-]+)`', raw[0]):
                add('setting', f'{table.group(1)}.{key}', facts, plain(cells[-1]))


def read_tables(path, add):
    for cells, raw in rows(path.read_text()):
        if len(cells) < 2:
            continue
        for name in re.findall(r'`(ndbroker_\w+)', raw[0]):
            add('metric', name, ', '.join(cell for cell in cells[1:-1] if cell), plain(cells[-1]))
        for name in re.findall(r'`([A-Z*]\w*\.[\w.]+)`', raw[0]):
            add('field', name, '', plain(cells[-1]))
        add('detail', cells[0], None, plain(cells[-1]))


def main():
    root, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    topics = {}

    def add(kind, name, what, text):
        old = topics.get((kind, name))
        if old is None and what is not None:
            topics[(kind, name)] = [what, text]
        elif old is not None and not old[1]:  # The protocol's own words come first.
            old[1] = text

    for path in sorted((root / 'proto/ndbroker/v1').glob('*.proto')):
        read_proto(path, add)
    status = root / 'base/include/nd/status.h'
    read_details(status, add)
    read_status_page(root / 'docs/status.md', codes(status), add)
    read_settings(root / 'docs/configuration.md', add)
    for path in sorted((root / 'docs').glob('*.md')):
        read_tables(path, add)

    for (kind, name), topic in list(topics.items()):
        if kind == 'field' and not topic[1]:
            topic[1] = topics.get((kind, '*.' + name.split('.')[-1]), ['', ''])[1]
    topics = {key: topic for key, topic in topics.items() if topic[1] and not key[1].startswith('*')}

    def quote(text):
        escaped = text.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n')
        return '"' + escaped.replace('??', '?""?') + '"'

    lines = ['// Generated by cli/explain_generate.py.', '#include "cli/explain.h"', '', 'namespace nd::cli {', '',
             'const Topic kTopics[] = {']
    for (kind, name), (what, text) in sorted(topics.items()):
        lines.append(f'    {{{quote(kind)}, {quote(name)}, {quote(what)}, {quote(text)}}},')
    lines += ['};', 'const std::size_t kTopicCount = sizeof(kTopics) / sizeof(kTopics[0]);', '',
              '}  // namespace nd::cli', '']
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text('\n'.join(lines))


main()
