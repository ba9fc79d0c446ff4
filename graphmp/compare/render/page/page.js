// The page: what is selected and asked for, and the parts that show it.

class Page {
  constructor(data) {
    const text = (number) => data.strings[number];
    this.names = data.names.map(text);
    this.graph = new Graph(data);
    this.changes = new Changes(data, this.graph);
    this.claims = data.claims.map(([name, verdict, found, rows]) => ({ name: text(name), verdict, text: text(found), rows }));
    this.stale = data.stale.map(([line, row]) => ({ text: text(line), row }));
    this.filters = new Filters(this.graph, this.changes, this.claims);
    this.rows = new Rows(this.graph);
    this.halfWord = halfWord(this.graph);
    this.selected = NONE;
    this.pinned = NONE; // shows whatever the filters say: something led to it
    this.counts = { nodes: [BEFORE, AFTER].map((side) => sums(this.graph, side)) };
    this.totals = totals(this.changes);
    this.result = this.filters.evaluate();
    this.rows.filter(this.result, false, NONE);
    this.rows.openSome(FIRST_ROWS, (row) => this.isChangedInside(row));
    this.startOpen = this.rows.open.slice();
    this.tree = new Tree(this);
    this.panel = new Panel(this);
    this.header = new Header(this);
    this.questions = new Ask(this);
    this.map = new ScopeMap(this, new Set(data.work.map(text)));
    this.flow = new Flow(this, data.flow.map((stages) => stages.map((stage) => this.stage(stage, text))));
    this.details = new Details(this);
    this.drawing = new Drawing(this);
    this.state = new State(this);
  }

  // A box of the way of the loss scale.
  stage([title, words, shape, rows], text) {
    const named = rows.filter((row) => row !== NONE);
    return { title: text(title), text: text(words), shape, rows: named, names: named.slice(0, MOST_NAMED).map((row) => this.graph.path(row)) };
  }

  // Whether a scope of both graphs holds a change: one that was added whole says enough by its count.
  isChangedInside(row) {
    const end = this.graph.end[row];
    const isOnBoth = this.counts.nodes.every((sum) => sum[end] > sum[row]);
    return isOnBoth && this.result.changes[end] > this.result.changes[row + 1];
  }

  save() {
    this.state.save();
  }

  // Shows what the filters leave.
  refilter() {
    const { filters, rows } = this;
    this.result = filters.evaluate();
    rows.narrow(filters.narrow);
    rows.filter(this.result, filters.active, this.pinned);
    if (filters.narrow && this.result.matches <= FEW_MATCHES) rows.openAll(true);
    else if (filters.narrow) rows.openSome(FEW_MATCHES, () => true);
    this.panel.show();
    this.header.show();
    this.questions.show();
    this.showCounts();
    this.tree.show();
    this.tree.scrollToSelected();
    this.save();
  }

  showCounts() {
    const { filters, result, graph } = this;
    const changes = result.changes[graph.size];
    const nodes = result.matches === graph.size || !filters.active ? '' : `${number(result.matches)} found, `;
    byId('found').textContent = `${nodes}${plural(changes, 'change')}`;
    byId('clear').hidden = !filters.active;
    byId('only-changed').setAttribute('aria-pressed', String(filters.onlyChanged));
    if (byId('search').value !== filters.query) byId('search').value = filters.query;
    byId('tree').scrollTop = 0;
  }

  // The filters changed by a choice of the reader.
  changeFilters(change) {
    change(this.filters);
    this.pinned = NONE;
    this.refilter();
  }

  toggleFilter(group, value) {
    this.changeFilters((filters) => filters.toggle(group, value));
  }

  toggleOnlyChanged() {
    this.changeFilters((filters) => (filters.onlyChanged = !filters.onlyChanged));
  }

  // Hides or shows all that stands above the map.
  toggleReview() {
    const hidden = !byId('review').hidden;
    byId('review').hidden = hidden;
    byId('toggle-review').setAttribute('aria-expanded', String(!hidden));
    byId('toggle-review').textContent = hidden ? 'show summary' : 'hide summary';
  }

  search(query) {
    this.changeFilters((filters) => (filters.query = query));
  }

  clear() {
    this.changeFilters((filters) => filters.clear());
  }

  // Asks for one thing and goes to the answer that matters most.
  ask(group, values) {
    this.changeFilters((filters) => filters.choose(group, values));
    const [best] = this.filters.fittingPatterns().map((index) => this.changes.patterns[index].row).filter((row) => this.result.rows[row]);
    const first = best ?? this.result.rows.indexOf(1);
    if (first !== NONE) this.select(first);
    byId('tree').focus();
  }

  chooseClaim(index) {
    if (this.filters.chosen.claim.has(index)) this.clear();
    else this.ask('claim', [index]);
  }

  select(row) {
    this.selected = row;
    if (row !== NONE && !this.rows.included[row]) {
      this.pinned = row;
      this.rows.filter(this.result, this.filters.active, row);
    }
    if (row !== NONE) this.rows.reveal(row);
    this.details.show();
    this.drawing.show();
    this.map.showSelected();
    this.tree.show();
    this.tree.scrollToSelected();
    this.tree.bringIntoWindow();
    this.save();
  }

  // Goes to a row from elsewhere on the page, which is drawn anew: the focus goes along.
  follow(row) {
    this.select(row);
    byId('tree').focus({ preventScroll: true });
  }

  toggle(row) {
    if (row === NONE || !this.graph.hasChildren(row)) return;
    this.rows.toggle(row);
    this.tree.show();
    this.save();
  }

  openAll(open) {
    this.rows.openAll(open);
    this.tree.show();
    this.tree.scrollToSelected();
    this.save();
  }

  // Moves the selection by so many rows, at most to the first or last.
  step(distance) {
    const { visible, positions } = this.rows;
    if (!visible.length) return;
    const now = this.selected === NONE ? NONE : positions[this.selected];
    const from = now === NONE && distance < 0 ? visible.length : now;
    this.select(visible[Math.max(0, Math.min(visible.length - 1, from + distance))]);
  }

  // Into a scope: opens it, or goes to what is first in it.
  inward() {
    if (this.selected === NONE) this.step(1);
    else if (!this.rows.hasInside(this.selected)) return;
    else if (this.rows.open[this.selected]) this.step(1);
    else this.toggle(this.selected);
  }

  // Out of a scope: closes it, or goes to the one around.
  outward() {
    if (this.selected === NONE) return;
    if (this.rows.open[this.selected] && this.rows.hasInside(this.selected)) this.toggle(this.selected);
    else if (this.graph.parent[this.selected] !== NONE) this.select(this.graph.parent[this.selected]);
  }

  // The next row that changed, or with filters the next that matches; from the last on to the first.
  nextChange(step) {
    const { graph, filters, result, changes } = this;
    const hit = (row) => (filters.narrow ? result.rows[row] === 1 : changes.ofRow.count(row) > 0);
    const start = this.selected === NONE ? (step > 0 ? NONE : graph.size) : this.selected;
    for (let count = 1; count <= graph.size; count++) {
      const row = (start + count * step + 2 * graph.size) % graph.size;
      if (hit(row)) return this.select(row);
    }
  }

  nextPattern(step) {
    const { patterns } = this.changes;
    const fitting = this.filters.fittingPatterns();
    if (!fitting.length) return;
    const now = fitting.indexOf([...this.filters.chosen.pattern][0]);
    const next = fitting[now === NONE ? (step > 0 ? 0 : fitting.length - 1) : (now + step + fitting.length) % fitting.length];
    this.changeFilters((filters) => (filters.chosen.pattern = new Set([next])));
    this.panel.scrollToPattern(next);
    this.select(patterns[next].row);
  }

  // Leaves what is innermost.
  leave() {
    if (this.drawing.mode === 'large' && this.drawing.drawable) this.drawing.setMode('small');
    else if (this.filters.active) this.clear();
    else this.select(NONE);
  }

  // A text that leads to a row.
  link(row, text) {
    return make('button', { type: 'button', class: 'link', onclick: () => this.follow(row) }, ...broken(text));
  }
}

// The dtype that the converted graph has in place of float32, in a word.
function halfWord(graph) {
  const used = new Set(graph.sets.map(([dtype]) => graph.strings[dtype]));
  return [...HALF].filter((dtype) => used.has(dtype)).join(', ') || 'float16';
}

// How many nodes of a side stand above each row.
function sums(graph, side) {
  const found = new Int32Array(graph.size + 1);
  for (let row = 0; row < graph.size; row++) found[row + 1] = found[row] + (graph.at[side][row] === NONE ? 0 : 1);
  return found;
}

// How many changes each category and each kind has, what stayed float32 included, and how many are unexplained.
function totals(changes) {
  const category = changes.categories.map(() => 0);
  const kind = changes.kinds.map(() => 0);
  let unexplained = 0;
  for (let index = 0; index < changes.size; index++) {
    category[changes.columns.category[index]]++;
    if (changes.columns.kind[index] !== NONE) kind[changes.columns.kind[index]]++;
    unexplained += changes.isUnexplained(index) ? 1 : 0;
  }
  for (const found of changes.kept.kind) if (found !== NONE) kind[found]++;
  return { category, kind, unexplained };
}
