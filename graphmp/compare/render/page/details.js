// The right column: the selected node on both sides, its changes and their reasons. Without a selection, what to ask the page.

const MOST_LINKS = 100; // inputs or outputs listed
const SIDES = ['before', 'after'];

class Details {
  constructor(page) {
    this.page = page;
    this.element = byId('details');
  }

  show() {
    const { graph, selected } = this.page;
    const content = selected === NONE ? overview(this.page) : [this.title(), ...this.why(), ...(graph.isNode(selected) ? this.node() : this.scope())];
    this.element.replaceChildren(...content.filter(Boolean));
    this.element.scrollTop = 0;
  }

  title() {
    const { graph, selected, changes } = this.page;
    const renamed = graph.renamed.get(selected);
    const marks = marksOf(changes, selected);
    return make('header', { class: 'node-title' },
      make('h2', {}, ...broken(graph.path(selected))),
      renamed && make('p', { class: 'old-name' }, 'was ', make('code', {}, ...broken(renamed))),
      marks.length > 0 && make('p', { class: 'tags' }, ...marks.map((mark) => make('span', {}, markElement(mark), ` ${MARKS[mark][1]}`))));
  }

  // The changes with their reasons, or why there are none.
  why() {
    const { changes, selected, graph } = this.page;
    const found = Array.from(changes.ofRow.of(selected), (index) => this.change(changes.change(index)));
    const kept = Array.from(changes.keptOfRow.of(selected), (index) => keptItem(changes.keptReason(index)));
    const items = [...kept, ...found];
    return [
      items.length > 0 && make('ul', {}, ...items),
      items.length === 0 && graph.isNode(selected) && make('p', { class: 'unchanged' }, 'Nothing changed here.'),
      ...this.claims(),
    ];
  }

  // The claims that name the selected row.
  claims() {
    const { claims, selected } = this.page;
    return claims.filter(({ rows }) => rows.includes(selected)).map(({ name, verdict, text }) => make('p', { class: `named-by ${verdict.replace(' ', '-')}` },
      make('b', {}, `${CLAIM_SIGNS[verdict]} ${name}`), ` ${text}`));
  }

  change(change) {
    const { page } = this;
    const alike = page.changes.patterns[change.pattern];
    const values = [change.before, change.after].map((text, side) => text !== null && make('code', { class: SIDES[side] }, ...broken(text)));
    return make('li', { class: change.unexplained ? 'why-item unexplained' : 'why-item' },
      make('p', { class: 'what' }, make('span', {}, change.category), change.part && make('code', {}, change.part)),
      make('p', { class: 'values' }, values[0], values[0] && values[1] && make('span', { class: 'arrow' }, '\u2192'), values[1]),
      change.unexplained ? make('p', { class: 'reason' }, make('b', {}, '! unexplained'), ' the report gives no reason')
        : (change.kind || change.reason) && reasonLine(change),
      alike && alike.count > 1 && make('p', { class: 'alike' },
        make('button', { type: 'button', class: 'link', onclick: () => page.ask('pattern', [change.pattern]) }, `${number(alike.count)} alike`),
        make('code', {}, ...broken(alike.text))));
  }

  node() {
    const { graph, selected } = this.page;
    const sides = [BEFORE, AFTER].filter((side) => graph.at[side][selected] !== NONE);
    if (!sides.some((side) => graph.opText(selected, side))) return [];
    return [this.table('Node', 'facts', this.facts(sides)), this.table('Inputs', 'ports', this.inputs(sides), 'reads nothing'),
      this.table('Outputs', 'ports', this.outputs(sides), 'nothing reads it'), ...(graph.hasChildren(selected) ? this.scope() : [])];
  }

  // Rows of op, device and attributes: [name, text of each side].
  facts(sides) {
    const { graph, selected } = this.page;
    const columns = [BEFORE, AFTER].map((side) => {
      if (!sides.includes(side)) return new Map();
      const record = graph.at[side][selected];
      const device = graph.strings[graph.device[record]];
      return new Map([['op', graph.opText(selected, side)], ['device', device], ...graph.attributePairs(selected, side)]);
    });
    const names = [...new Set([...columns[BEFORE].keys(), ...columns[AFTER].keys()])];
    const ordered = [...names.filter((name) => !name.startsWith('_')), ...names.filter((name) => name.startsWith('_'))];
    return ordered.map((name) => [name, ...columns.map((column) => column.get(name) ?? null)])
      .filter(([, before, after]) => before || after)
      .map(([name, before, after]) => this.pair(name, before, after, (text) => broken(text)));
  }

  inputs(sides) {
    const { graph, selected } = this.page;
    const [before, after] = [BEFORE, AFTER].map((side) => (sides.includes(side) ? graph.inputs(selected, side) : []));
    const split = (inputs, control) => inputs.filter(([, output]) => (output === CONTROL) === control);
    const data = Array.from({ length: Math.max(split(before, false).length, split(after, false).length) }, (_, slot) =>
      [String(slot), split(before, false)[slot], split(after, false)[slot]]);
    const controls = [...new Set([...split(before, true), ...split(after, true)].map(([row]) => row))].map((row) =>
      ['^', ...[before, after].map((inputs) => split(inputs, true).find(([other]) => other === row))]);
    const key = (port) => (port ? port.join(' ') : null);
    return [...data, ...controls].slice(0, MOST_LINKS).map(([name, left, right]) => this.pair(name, key(left), key(right), (_, side) => {
      const [row, output] = side === BEFORE ? left : right;
      return [this.page.link(row, portText(graph.path(row, side), output))];
    }));
  }

  outputs(sides) {
    const { graph, selected } = this.page;
    const readers = [BEFORE, AFTER].map((side) => new Set(sides.includes(side) ? graph.consumers(selected, side) : []));
    const all = [...new Set([...readers[BEFORE], ...readers[AFTER]])];
    const rows = all.slice(0, MOST_LINKS).map((row) => this.pair('', ...readers.map((reader) => (reader.has(row) ? String(row) : null)),
      (_, side) => [this.page.link(row, graph.path(row, side))]));
    const more = all.length - rows.length;
    if (more) rows.push(make('tr', {}, make('th'), make('td', { colspan: 2, class: 'more' }, `and ${number(more)} more`)));
    return rows;
  }

  // A row of a table: one cell where both sides are the same, or where the node is on one side only.
  pair(name, before, after, content) {
    const { graph, selected } = this.page;
    const heading = make('th', { scope: 'row' }, name);
    const alone = [BEFORE, AFTER].find((side) => graph.at[1 - side][selected] === NONE);
    if (alone !== undefined) return make('tr', {}, heading, make('td', { colspan: 2 }, ...content([before, after][alone], alone)));
    if (before === after) return make('tr', {}, heading, make('td', { colspan: 2 }, ...content(before, AFTER)));
    const cells = [before, after].map((text, side) => (
      text === null ? make('td', { class: 'none' }, '\u2013') : make('td', { class: SIDES[side] }, ...content(text, side))));
    return make('tr', { class: 'differs' }, heading, ...cells);
  }

  table(title, shape, rows, otherwise) {
    if (!rows.length) return make('p', { class: 'no-rows' }, make('b', {}, title), ` ${otherwise}`);
    const [before, after] = this.page.names;
    return make('table', { class: `pairs ${shape}` }, make('caption', {}, title), make('colgroup', {}, make('col'), make('col'), make('col')),
      make('thead', { class: 'spoken' }, make('tr', {}, make('td'), make('th', { scope: 'col' }, before), make('th', { scope: 'col' }, after))),
      make('tbody', {}, ...rows));
  }

  // What is inside a scope: nodes on both sides, and its changes by category and by kind.
  scope() {
    const { graph, changes, counts, selected } = this.page;
    const stop = graph.end[selected];
    const [before, after] = counts.nodes.map((sums) => sums[stop] - sums[selected]);
    const tallies = [new Map(), new Map()];
    const add = (tally, value) => value !== NONE && tally.set(value, (tally.get(value) || 0) + 1);
    for (let row = selected; row < stop; row++) {
      for (const change of changes.ofRow.of(row)) {
        add(tallies[0], changes.columns.category[change]);
        add(tallies[1], changes.columns.kind[change]);
      }
      for (const kept of changes.keptOfRow.of(row)) add(tallies[1], changes.kept.kind[kept]);
    }
    const rows = (tally, names) => [...tally].sort(([a], [b]) => a - b).map(([value, count]) => make('tr', {},
      make('th', { scope: 'row' }, names[value]), make('td', { class: 'amount' }, number(count))));
    const inside = make('tr', {}, make('th', { scope: 'row' }, 'count'), make('td', {}, number(before)), make('td', {}, number(after)));
    return [before + after > 0 && this.table('Nodes inside', 'facts', [inside]),
      tallies[0].size && this.table('Changes inside', 'amounts', rows(tallies[0], changes.categories)),
      tallies[1].size && this.table('Reasons inside', 'amounts', rows(tallies[1], changes.kinds))];
  }
}

function keptItem({ kind, reason }) {
  return make('li', { class: 'why-item kept' }, make('p', { class: 'what' }, 'stayed float32'), reasonLine({ kind, reason }));
}

// The kind, then the reason; a reason that begins with its kind isn't said twice.
function reasonLine({ kind, reason }) {
  const rest = kind && reason.startsWith(kind) ? reason.slice(kind.length).replace(/^[:,]?\s*/, '') : reason;
  return make('p', { class: 'reason' }, kind && make('b', {}, kind), kind && rest && ' ', rest);
}

// A text that may break behind slashes.
function broken(text) {
  return text.split(/(?<=\/)/).flatMap((part, index) => (index ? [make('wbr'), part] : [part]));
}
