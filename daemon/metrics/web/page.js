// SPDX-License-Identifier: Apache-2.0
// The broker's page: asks /api every two seconds and shows what it says. Whatever comes from there is put in
// as text, never as markup.
'use strict';

const kEvery = 2000, kSamples = 150, kPage = 50, kSvg = 'http://www.w3.org/2000/svg';
const at = (id) => document.getElementById(id);
const view = {paused: false, offset: 0, found: 0, filter: '', sort: 'tx', order: 'desc', next: 0};
const history = [];               // One sample of /api/status for each round.
const before = {adapters: new Map(), applications: new Map(), connections: new Map()};
const events = [];

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}
function scaled(value, step, units) {
  let unit = 0;
  while (value >= step && unit + 1 < units.length) { value /= step; ++unit; }
  return (value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toPrecision(3)) + units[unit];
}
const count = (n) => scaled(n, 1000, ['', ' k', ' M', ' G', ' T', ' P']);
const bytes = (n) => scaled(n, 1024, [' B', ' KiB', ' MiB', ' GiB', ' TiB', ' PiB', ' EiB']);
const rate = (n) => (n === null ? '–' : bytes(n) + '/s');
function time(seconds) {
  if (seconds === null) return '–';
  if (seconds < 0.001) return (seconds * 1e6).toFixed(0) + ' µs';
  if (seconds < 1) return (seconds * 1e3).toPrecision(3) + ' ms';
  if (seconds < 90) return seconds.toFixed(seconds < 10 ? 1 : 0) + ' s';
  if (seconds < 5400) return (seconds / 60).toFixed(0) + ' min';
  if (seconds < 172800) return (seconds / 3600).toFixed(1) + ' h';
  return (seconds / 86400).toFixed(1) + ' d';
}

// Rates since the last round, by key; null in the first.
function withRates(seen, items, keyOf, now) {
  const fresh = new Map();
  for (const item of items) {
    const key = keyOf(item), last = seen.get(key);
    const seconds = last ? now - last.now : 0;
    item.tx_rate = seconds > 0 ? Math.max(0, item.tx_bytes - last.tx) / seconds : (last ? last.tx_rate : null);
    item.rx_rate = seconds > 0 ? Math.max(0, item.rx_bytes - last.rx) / seconds : (last ? last.rx_rate : null);
    fresh.set(key, {now, tx: item.tx_bytes, rx: item.rx_bytes, tx_rate: item.tx_rate, rx_rate: item.rx_rate});
  }
  seen.clear();
  for (const [key, value] of fresh) seen.set(key, value);
  return items;
}

// columns: [title, class, cell(item) -> text or element, sort name or undefined]
function fill(table, columns, items, empty) {
  const head = make('thead'), row = head.insertRow();
  for (const [title, className, , sort] of columns) {
    const cell = make('th', undefined, className);
    cell.scope = 'col';
    if (sort) {
      const button = make('button', title);
      button.type = 'button';
      button.dataset.sort = sort;
      cell.append(button);
      if (view.sort === sort) cell.setAttribute('aria-sort', view.order === 'asc' ? 'ascending' : 'descending');
    } else {
      cell.textContent = title;
    }
    row.append(cell);
  }
  const body = make('tbody');
  for (const item of items) {
    const line = body.insertRow();
    for (const [, className, cellOf] of columns) {
      const cell = line.insertCell(), content = cellOf(item);
      if (className) cell.className = className;
      if (content instanceof Node) cell.append(content); else cell.textContent = content;
      if (className && className.includes('t')) cell.title = cell.textContent;
    }
  }
  if (items.length === 0) {
    const cell = body.insertRow().insertCell();
    cell.colSpan = columns.length;
    cell.className = 'empty';
    cell.textContent = empty;
  }
  const focused = document.activeElement && table.contains(document.activeElement) && document.activeElement.dataset.sort;
  table.replaceChildren(head, body);
  if (focused) for (const button of head.querySelectorAll('button')) if (button.dataset.sort === focused) button.focus();
}

function quantile(bounds, counts, q) {
  const all = counts.reduce((a, b) => a + b, 0);
  if (all === 0) return null;
  let sum = 0;
  for (let i = 0; i < counts.length; ++i) {
    if (sum + counts[i] >= q * all) {
      if (i >= bounds.length) return bounds[bounds.length - 1];
      const low = i === 0 ? 0 : bounds[i - 1];
      return low + (bounds[i] - low) * ((q * all - sum) / counts[i]);
    }
    sum += counts[i];
  }
  return null;
}

function draw(svg, series, low) {
  const width = 300, height = 100;
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  const most = Math.max(low, ...series.flatMap((line) => line.values.filter((v) => v !== null)));
  const parts = [];
  for (const y of [0, 50, 100]) {
    const line = document.createElementNS(kSvg, 'line');
    for (const [name, value] of [['x1', 0], ['x2', width], ['y1', y], ['y2', y]]) line.setAttribute(name, value);
    parts.push(line);
  }
  for (const {className, values} of series) {
    const points = [];
    values.forEach((value, i) => {
      if (value !== null) points.push(`${width - (values.length - 1 - i) * width / (kSamples - 1)},${height - value / most * (height - 4)}`);
    });
    if (points.length === 1) points.push(points[0].replace(/^[^,]*/, (x) => Number(x) - 1));
    const line = document.createElementNS(kSvg, 'polyline');
    line.setAttribute('class', className);
    line.setAttribute('points', points.join(' '));
    parts.push(line);
  }
  svg.replaceChildren(...parts);
  return most;  // What the upper edge means.
}

function showStatus(status) {
  const last = history[history.length - 1];
  const seconds = last ? status.at_seconds - last.at : 0;
  if (!last || seconds > 0) {
    const counts = status.handshakes_done.active.counts.map((n, i) => n + status.handshakes_done.passive.counts[i]);
    const recent = counts.map((n, i) => (last ? Math.max(0, n - last.counts[i]) : n));
    history.push({
      at: status.at_seconds, tx: status.traffic.tx_bytes, rx: status.traffic.rx_bytes, counts,
      tx_rate: last ? Math.max(0, status.traffic.tx_bytes - last.tx) / seconds : null,
      rx_rate: last ? Math.max(0, status.traffic.rx_bytes - last.rx) / seconds : null,
      median: quantile(status.bounds, recent, 0.5), worst: quantile(status.bounds, recent, 0.99),
    });
    if (history.length > kSamples) history.shift();
  }
  const now = history[history.length - 1];
  at('version').textContent = status.version;
  const state = at('state');
  state.className = status.ready ? 'good' : 'bad';
  at('state-text').textContent = status.ready ? 'Ready' : status.not_ready;
  at('age').textContent = 'up ' + time(status.uptime_seconds);
  const trouble = [status.journal_problem && 'Leases are not journaled: ' + status.journal_problem,
                   status.history_problem && 'History is not written: ' + status.history_problem].filter(Boolean);
  at('notice').hidden = trouble.length === 0;
  at('notice').textContent = trouble.join(' ');
  const tiles = [
    ['Connections', count(status.connections)], ['Clients', count(status.sessions)],
    ['Connects', count(status.connects + status.accepts)],
    ['Failed attempts', count(status.connect_failures), status.connect_failures > 0],
    ['Broken connections', count(status.connection_errors), status.connection_errors > 0],
    ['Handshakes now', count(status.handshakes)], ['Waiting operations', count(status.pending_operations)],
    ['Descriptors', `${count(status.open_fds)} / ${count(status.fd_limit)}`, status.open_fds > 0.8 * status.fd_limit],
    ['Memory', bytes(status.resident_bytes)],
  ];
  at('tiles').replaceChildren(...tiles.map(([name, value, bad]) => {
    const tile = make('div', undefined, bad ? 'bad' : '');
    tile.append(make('dt', name), make('dd', value));
    return tile;
  }));
  at('throughput-now').textContent = `${rate(now.tx_rate)} sent, ${rate(now.rx_rate)} received`;
  at('latency-now').textContent = now.median === null ? 'no handshake just now' : `${time(now.median)}, 99 %: ${time(now.worst)}`;
  const rates = draw(at('throughput'), [{className: 'tx', values: history.map((s) => s.tx_rate)},
                                        {className: 'rx', values: history.map((s) => s.rx_rate)}], 1);
  const times = draw(at('latency'), [{className: 'tx', values: history.map((s) => s.median)},
                                     {className: 'rx', values: history.map((s) => s.worst)}], 1e-4);
  at('throughput-top').textContent = 'top: ' + rate(rates) + ', five minutes wide';
  at('latency-top').textContent = 'top: ' + time(times) + ', five minutes wide';

  fill(at('adapters'), [
    ['Name', '', (a) => a.name],
    ['State', '', (a) => {
      const usable = a.enabled && a.addresses.length > 0;
      return make('span', usable ? 'up' : a.enabled ? 'no address' : 'disabled', 'tag ' + (usable ? 'good' : 'bad'));
    }],
    ['Provider', '', (a) => a.provider + (a.mode ? ', ' + a.mode : '')],
    ['Addresses', 't m', (a) => a.addresses.join(' ')],
    ['Listeners', 'n', (a) => count(a.listeners)], ['Connections', 'n', (a) => count(a.connections)],
    ['Sent', 'n', (a) => rate(a.tx_rate)], ['Received', 'n', (a) => rate(a.rx_rate)],
    ['Errors', 'n', (a) => count(a.errors)], ['Stalls', 'n', (a) => count(a.stalls)],
  ], withRates(before.adapters, status.adapters, (a) => a.name, status.at_seconds), 'No adapter is configured.');

  const rows = status.refusals.map((r) => ({what: 'Refused here', why: r.reason, count: r.count}))
      .concat(status.failures.map((f) => ({
        what: (f.role === 'active' ? 'Connect' : 'Accept') + ' failed in ' + f.stage,
        why: f.status + (f.detail && f.detail !== 'none' ? ' (' + f.detail + ')' : ''), count: f.count})))
      .sort((a, b) => b.count - a.count);
  fill(at('trouble'), [['What', '', (r) => r.what], ['Why', 't', (r) => r.why], ['Times', 'n', (r) => count(r.count)]],
       rows, 'None since the broker started.');
}

function showApplications(reply) {
  const items = withRates(before.applications, reply.items,
                          (a) => [a.application, a.uid, a.unit, a.container].join('\n'), reply.at_seconds)
      .filter((a) => a.sessions + a.connections + a.connects + a.accepts + a.connect_failures > 0)
      .sort((a, b) => (b.tx_rate + b.rx_rate) - (a.tx_rate + a.rx_rate) || b.connections - a.connections ||
                      a.application.localeCompare(b.application));
  fill(at('applications'), [
    ['Application', 't', (a) => a.application], ['User', 'n', (a) => String(a.uid)],
    ['Unit or container', 't', (a) => a.container || a.unit || '–'],
    ['Clients', 'n', (a) => count(a.sessions)], ['Connections', 'n', (a) => count(a.connections)],
    ['Sent', 'n', (a) => rate(a.tx_rate)], ['Received', 'n', (a) => rate(a.rx_rate)],
    ['Total sent', 'n', (a) => bytes(a.tx_bytes)], ['Total received', 'n', (a) => bytes(a.rx_bytes)],
    ['Failed', 'n', (a) => count(a.connect_failures)], ['Broken', 'n', (a) => count(a.connection_errors)],
  ], items.slice(0, 100), 'No application has connected yet.');
}

function showConnections(reply) {
  view.found = reply.found;
  if (view.offset >= reply.found && view.offset > 0) {
    view.offset = Math.floor(Math.max(0, reply.found - 1) / kPage) * kPage;
    return refresh();
  }
  const items = withRates(before.connections, reply.items, (c) => c.id, reply.at_seconds);
  fill(at('rows'), [
    ['Connection', 'm', (c) => c.id, 'id'], ['Application', 't', (c) => c.application, 'application'],
    ['User', 'n', (c) => String(c.uid)], ['Local', 'm', (c) => c.local],
    ['Peer', 'm', (c) => (c.passive ? '← ' : '→ ') + c.peer, 'peer'],
    ['Over', '', (c) => c.adapter + ', ' + (c.transport || '?')], ['Age', 'n', (c) => time(c.age_seconds), 'age'],
    ['Sent', 'n', (c) => rate(c.tx_rate)], ['Received', 'n', (c) => rate(c.rx_rate)],
    ['Total sent', 'n', (c) => bytes(c.tx_bytes), 'tx'], ['Total received', 'n', (c) => bytes(c.rx_bytes), 'rx'],
    ['Errors', 'n', (c) => count(c.errors)],
  ], items, view.filter ? 'No connection matches the filter.' : 'There is no connection now.');
  const last = view.offset + reply.items.length;
  at('place').textContent = reply.found === 0 ? '0' :
      `${view.offset + 1}–${last} of ${reply.found}` + (reply.found < reply.total ? ` (${reply.total} in all)` : '');
  at('previous').disabled = view.offset === 0;
  at('next').disabled = last >= reply.found;
}

function showEvents(reply) {
  if (reply.next < view.next) events.length = 0;  // Another broker.
  view.next = reply.next;
  if (reply.items.length === 0 && at('events').children.length > 0) return;
  events.unshift(...reply.items.reverse());
  events.length = Math.min(events.length, 200);
  at('events').replaceChildren(...events.map((e) => {
    const item = make('li'), when = make('time', e.time.slice(11, 19));
    when.dateTime = e.time;
    when.title = e.time;
    item.append(when, make('b', e.type), make('span', [e.object, e.message].filter(Boolean).join(' ')));
    return item;
  }));
  if (events.length === 0) at('events').replaceChildren(make('li', 'Nothing has happened yet.', 'empty'));
}

async function ask(path) {
  const answer = await fetch(path, {signal: AbortSignal.timeout(5000)});
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

let round = 0, timer = 0;
async function refresh() {
  clearTimeout(timer);
  const mine = ++round;
  const query = new URLSearchParams({offset: view.offset, limit: kPage, filter: view.filter, sort: view.sort, order: view.order});
  try {
    const replies = await Promise.all([ask('api/status'), ask('api/applications'), ask('api/connections?' + query),
                                       ask('api/events?after=' + view.next)]);
    if (mine !== round) return;
    showStatus(replies[0]);
    showApplications(replies[1]);
    showConnections(replies[2]);
    showEvents(replies[3]);
  } catch (error) {
    if (mine !== round) return;
    at('state').className = 'bad';
    at('state-text').textContent = 'No answer from the broker; trying again';
    at('age').textContent = String(error.message).slice(0, 200);
    view.next = 0;
    events.length = 0;
  }
  if (!view.paused && mine === round) timer = setTimeout(refresh, document.hidden ? 5 * kEvery : kEvery);
}

function turn(pages) {
  const offset = view.offset + pages * kPage;
  if (offset < 0 || offset >= view.found) return;
  view.offset = offset;
  refresh();
}
function pause() {
  view.paused = !view.paused;
  at('pause').setAttribute('aria-pressed', String(view.paused));
  at('pause').textContent = view.paused ? 'Resume' : 'Pause';
  if (view.paused) clearTimeout(timer); else refresh();
}
at('previous').addEventListener('click', () => turn(-1));
at('next').addEventListener('click', () => turn(1));
at('pause').addEventListener('click', pause);
at('filter').addEventListener('input', () => {
  view.filter = at('filter').value.trim();
  view.offset = 0;
  refresh();
});
at('rows').addEventListener('click', (event) => {
  const sort = event.target.dataset && event.target.dataset.sort;
  if (!sort) return;
  view.order = view.sort === sort && view.order === 'desc' ? 'asc' : 'desc';
  view.sort = sort;
  view.offset = 0;
  refresh();
});
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === at('filter')) {
    if (event.key === 'Escape') at('filter').blur();
    return;
  }
  if (event.key === '/') { event.preventDefault(); at('filter').focus(); }
  if (event.key === 'n') turn(1);
  if (event.key === 'b') turn(-1);
  if (event.key === 'p') pause();
});
document.addEventListener('visibilitychange', () => { if (!document.hidden && !view.paused) refresh(); });
refresh();
