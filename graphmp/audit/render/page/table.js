// The table of tensors: what is asked for, in which order, and the few rows of it that can be seen.

const ROW_HEIGHT = 30;
const LONGEST_END = 24; // characters of a name's end that stay
const COLUMNS = [
  { name: 'tensor', key: (tensor) => tensor.name, text: (tensor) => tensor.name, words: true },
  { name: 'role', key: (tensor) => tensor.role, text: (tensor) => tensor.role, words: true },
  { name: 'error', key: (tensor) => tensor.relative_error, text: (tensor) => percent(tensor.relative_error) },
  { name: 'overflow', key: (tensor) => tensor.overflow_share, text: (tensor) => percent(tensor.overflow_share) },
  { name: 'to zero', key: (tensor) => tensor.flushed_share, text: (tensor) => percent(tensor.flushed_share) },
  { name: 'subnormal', key: (tensor) => tensor.subnormal_share, text: (tensor) => percent(tensor.subnormal_share) },
  { name: 'largest', key: (tensor) => tensor.largest ?? Infinity, text: (tensor) => (tensor.largest === null ? '\u221e' : magnitude(tensor.largest)) },
];

// Shares as the other forms of an audit write them.
function percent(share) {
  if (share === null) return '-';
  const found = 100 * share;
  if (found === 0) return '0';
  if (found >= 10) return `${Math.round(found).toLocaleString('en-US')}%`;
  return found >= 0.95e-4 ? `${+found.toPrecision(2)}%` : '<0.0001%';
}

function magnitude(value) {
  if (value === null) return 'not finite';
  return value && (value < 1e-3 || value >= 1e6) ? value.toExponential(1) : String(+value.toPrecision(3));
}

// A name in two parts: the first one gives way where there is no room, so that what is left out lies in the middle.
function halves(name) {
  const last = name.lastIndexOf('/');
  const end = name.length - last <= LONGEST_END ? last : name.length - LONGEST_END;
  return end > 0 ? [name.slice(0, end), name.slice(end)] : [name, ''];
}

class Table {
  constructor(tensors, figures) {
    this.tensors = tensors.map((tensor, rank) => ({ ...tensor, rank, text: `${tensor.name} ${tensor.op} ${tensor.reason}`.toLowerCase() }));
    this.figures = figures;
    this.order = null; // a column; null: worst first
    this.descending = true;
    this.selected = null;
    this.shown = [];
    this.makeHeads();
    this.makeRoles();
    this.listen();
    byId('rows').style.setProperty('--rows', this.tensors.length);
    this.refresh();
  }

  makeHeads() {
    const heads = COLUMNS.map((column) => {
      const button = make('button', { type: 'button', onclick: () => this.sortBy(column) }, column.name);
      return make('div', { role: 'columnheader', class: column.words ? 'words' : 'number', 'aria-sort': 'none' }, button);
    });
    const exponents = make('button', { type: 'button', title: 'worst first again', onclick: () => this.sortBy(null) }, 'exponents');
    byId('heads').append(...heads, make('div', { role: 'columnheader', class: 'words' }, exponents));
  }

  makeRoles() {
    const roles = [...new Set(this.tensors.map((tensor) => tensor.role))];
    byId('role').append(make('option', { value: '' }, 'all roles'), ...roles.map((role) => make('option', { value: role }, role)));
  }

  listen() {
    for (const id of ['search', 'role', 'half']) byId(id).addEventListener('input', () => this.refresh());
    byId('rows').addEventListener('scroll', () => this.draw());
    byId('rows').addEventListener('keydown', (event) => this.onKey(event));
    addEventListener('resize', () => this.draw());
    addEventListener('keydown', (event) => {
      if (event.key !== '/' || ['INPUT', 'SELECT'].includes(event.target.tagName) || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      byId('search').focus();
    });
    byId('search').addEventListener('keydown', (event) => {
      if (event.key === 'Enter' || event.key === 'ArrowDown') this.enter(event);
    });
  }

  // From the search into the rows.
  enter(event) {
    event.preventDefault();
    byId('rows').focus();
    if (this.shown.length) this.select(this.shown[0]);
  }

  // Numbers begin with the largest, words with the first; the same column again turns them round.
  sortBy(column) {
    this.descending = column === this.order ? !this.descending : column !== null && !column.words;
    this.order = column;
    [...byId('heads').children].forEach((head, index) => {
      if (index === COLUMNS.length) return;
      head.setAttribute('aria-sort', COLUMNS[index] !== column ? 'none' : this.descending ? 'descending' : 'ascending');
    });
    this.refresh();
  }

  refresh() {
    const words = byId('search').value.toLowerCase().split(/\s+/).filter(Boolean);
    const role = byId('role').value;
    const half = byId('half').checked;
    const wanted = (tensor) => (!role || tensor.role === role) && (!half || tensor.half) && words.every((word) => tensor.text.includes(word));
    this.shown = this.tensors.filter(wanted);
    if (this.order) this.shown.sort((a, b) => this.compare(a, b));
    byId('found').textContent = `${number(this.shown.length)} of ${plural(this.tensors.length, 'tensor')}`;
    byId('rows').scrollTop = 0;
    this.draw();
  }

  // What has no number comes last, whichever way; equals stay worst first.
  compare(a, b) {
    const [x, y] = [this.order.key(a), this.order.key(b)];
    if (x === null || y === null) return (x === null) - (y === null) || a.rank - b.rank;
    return (x < y ? -1 : x > y ? 1 : 0) * (this.descending ? -1 : 1) || a.rank - b.rank;
  }

  // The rows in sight and a few around them.
  draw() {
    const rows = byId('rows');
    const first = Math.max(0, Math.floor(rows.scrollTop / ROW_HEIGHT) - 4);
    const last = Math.min(this.shown.length, Math.ceil((rows.scrollTop + rows.clientHeight) / ROW_HEIGHT) + 4);
    const spacer = make('div', { class: 'spacer', role: 'presentation' });
    spacer.style.height = `${this.shown.length * ROW_HEIGHT}px`;
    for (let index = first; index < last; index++) spacer.append(this.row(this.shown[index], index));
    rows.replaceChildren(this.shown.length ? spacer : make('p', { class: 'nothing' }, 'Nothing matches.'));
    const chosen = spacer.querySelector('[aria-selected=true]');
    if (chosen) rows.setAttribute('aria-activedescendant', chosen.id);
    else rows.removeAttribute('aria-activedescendant');
  }

  row(tensor, index) {
    const cells = COLUMNS.map((column) => {
      const alarm = (column.name === 'overflow' && tensor.half && tensor.overflow > 0) || (column.name === 'largest' && tensor.largest === null);
      const kind = `${column.words ? 'words' : 'number'}${alarm ? ' alarm' : ''}`;
      if (column.name !== 'tensor') return make('div', { role: 'gridcell', class: kind }, column.text(tensor));
      const [start, end] = halves(tensor.name);
      const name = make('bdi', { class: 'name' }, make('span', {}, start), make('span', {}, end));
      name.style.setProperty('--end', end.length);
      return make('div', { role: 'gridcell', class: `${kind} tensor`, title: tensor.name }, name, make('span', { class: 'op' }, tensor.op));
    });
    const row = make('div', {
      role: 'row',
      id: `tensor-${tensor.rank}`,
      class: tensor.half ? 'row half' : 'row',
      'aria-rowindex': index + 2,
      'aria-selected': String(tensor === this.selected),
      onclick: () => this.select(tensor),
    }, ...cells, make('div', { role: 'gridcell' }, this.figures.small(tensor)));
    row.style.top = `${index * ROW_HEIGHT}px`;
    return row;
  }

  onKey(event) {
    const page = Math.max(1, Math.floor(byId('rows').clientHeight / ROW_HEIGHT) - 1);
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey || !this.shown.length) return;
    event.preventDefault();
    const now = this.shown.indexOf(this.selected);
    this.select(this.shown[Math.max(0, Math.min(this.shown.length - 1, now + steps[event.key]))]);
  }

  select(tensor) {
    this.selected = tensor;
    const rows = byId('rows');
    const top = this.shown.indexOf(tensor) * ROW_HEIGHT;
    if (top < rows.scrollTop) rows.scrollTop = top;
    else if (top + ROW_HEIGHT > rows.scrollTop + rows.clientHeight) rows.scrollTop = top + ROW_HEIGHT - rows.clientHeight;
    this.draw();
    this.showDetails(tensor);
  }

  showDetails(tensor) {
    const facts = [
      [tensor.half ? 'why half' : 'why float32', tensor.reason || 'no reason given'],
      ['values', `${number(tensor.elements)} seen, ${number(tensor.counted)} of them counted`],
      ['largest', magnitude(tensor.largest)],
      ['subnormal', `${number(tensor.subnormal)} (${percent(tensor.subnormal_share)})`],
    ];
    const list = make('dl', {}, ...facts.flatMap(([name, text]) => [make('dt', {}, name), make('dd', {}, text)]));
    byId('details').replaceChildren(
      make('h3', {}, make('code', {}, tensor.name)),
      make('p', {}, `${tensor.op}, ${tensor.role}, ${tensor.half ? 'in half precision' : 'float32'}: `, make('b', {}, tensor.wrong)),
      this.figures.large(tensor),
      list,
      ...(tensor.flag ? [this.flag(tensor.flag)] : []),
    );
  }

  // The flag, and a button that copies it.
  flag(text) {
    const code = make('code', {}, text);
    return make('div', { class: 'flag' }, make('p', {}, 'To keep its node in float32'), code, copyButton(text, code));
  }
}
