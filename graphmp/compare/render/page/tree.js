// The tree of name scopes: the original's half of each row at left, the converted graph's at right.

const ROW_HEIGHT = 24;
const INDENT = 14;
const DEEPEST = 12; // levels that are indented

class Tree {
  constructor(page) {
    this.page = page;
    this.element = byId('tree');
    this.list = new List(this.element, ROW_HEIGHT, (index) => this.row(index));
    this.element.addEventListener('click', (event) => this.click(event));
  }

  show() {
    const { rows } = this.page;
    this.list.reset(rows.visible.length);
    byId('nothing').hidden = rows.visible.length > 0 || this.page.graph.size === 0;
    this.showActive();
  }

  // Tells where the selection is: the tree keeps the focus, since rows come and go as it scrolls.
  showActive() {
    const index = this.page.rows.positions[this.page.selected] ?? NONE;
    if (this.list.shown.has(index)) this.element.setAttribute('aria-activedescendant', `row-${this.page.selected}`);
    else this.element.removeAttribute('aria-activedescendant');
  }

  scrollToSelected() {
    const index = this.page.rows.positions[this.page.selected] ?? NONE;
    if (index !== NONE) this.list.scrollTo(index);
    this.showActive();
  }

  // Scrolls the page, where it is larger than its window, until the selected row is in sight.
  bringIntoWindow() {
    const row = this.list.shown.get(this.page.rows.positions[this.page.selected]);
    if (!row) return;
    const { top, bottom } = row.getBoundingClientRect();
    const covered = window.matchMedia('(max-width: 760px)').matches ? byId('ask').offsetHeight : 0; // by the questions, which stay
    if (top < covered) window.scrollBy(0, top - covered);
    else if (bottom > window.innerHeight) window.scrollBy(0, bottom - window.innerHeight + 3 * ROW_HEIGHT);
  }

  click(event) {
    const element = event.target.closest('.row');
    if (!element) return;
    const row = Number(element.dataset.row);
    if (event.target.closest('.twisty')) this.page.toggle(row);
    else this.page.select(row);
  }

  row(index) {
    const { graph, rows, changes, selected } = this.page;
    const row = rows.visible[index];
    const inside = rows.hasInside(row);
    const marks = marksOf(changes, row);
    const [mark] = marks;
    const shape = ['added', 'removed', 'renamed', 'changed'].find((name) => marks.includes(name));
    return make('div', {
      class: ['row', shape, mark === 'unexplained' && mark, row === selected && 'selected'].filter(Boolean).join(' '),
      id: `row-${row}`,
      'data-row': row,
      role: 'treeitem',
      'aria-level': graph.depth[row] + 1,
      'aria-posinset': rows.place[index],
      'aria-setsize': rows.siblings.get(graph.parent[row]),
      'aria-selected': String(row === selected),
      'aria-expanded': inside ? String(Boolean(rows.open[row])) : null,
      'aria-label': this.spoken(row, marks),
    },
    make('span', { class: 'marks' }, ...marks.slice(0, 2).map(markElement)),
    this.cell(row, BEFORE, inside),
    this.cell(row, AFTER, inside),
    this.summary(row, inside));
  }

  cell(row, side, inside) {
    const { graph } = this.page;
    const here = this.isHere(row, side);
    const cell = make('span', { class: side === BEFORE ? 'cell before' : 'cell after' });
    if (!here) {
      cell.classList.add('none');
      return cell;
    }
    const renamed = side === BEFORE && graph.renamed.has(row);
    cell.style.paddingLeft = `${INDENT * Math.min(graph.depth[row], DEEPEST)}px`;
    const name = renamed ? graph.renamed.get(row) : graph.label(row);
    cell.append(
      inside ? make('span', { class: this.page.rows.open[row] ? 'twisty open' : 'twisty' }) : make('span', { class: 'leaf' }),
      make('span', { class: graph.isNode(row) || graph.what[row] & FIELD ? 'name' : 'name scope', title: graph.path(row, side) }, name),
      make('span', { class: 'info' },
        make('span', { class: graph.isHalf(row, side) && 'half' }, this.was(row, side), graph.dtypeText(row, side).replace(/^.*→/, '→')), // of a cast what it casts to
        make('span', {}, graph.opText(row, side))),
    );
    return cell;
  }

  // The dtype on the other side, where it is another: shown where there is room for one side only.
  was(row, side) {
    const { graph } = this.page;
    const [before, after] = [BEFORE, AFTER].map((other) => graph.dtypeText(row, other));
    return side === AFTER && before && before !== after ? make('span', { class: 'was' }, `${before}\u2192`) : '';
  }

  // Whether a side has the row's node, or any node inside.
  isHere(row, side) {
    const { graph, counts } = this.page;
    return counts.nodes[side][graph.end[row]] > counts.nodes[side][row] || Boolean(graph.what[row] & (FIELD | SECTION | IN_FUNCTION));
  }

  // The last column: why a node is as it is, and how much changed inside a scope.
  summary(row, inside) {
    const { graph, changes, result } = this.page;
    const why = whyOf(changes, row);
    const count = result.changes[graph.end[row]] - result.changes[row];
    const alarms = result.unexplained[graph.end[row]] - result.unexplained[row];
    return make('span', { class: 'summary' },
      make('span', { class: why ? (why.kept ? 'why kept' : 'why') : 'why' }, why ? why.text : ''),
      inside && alarms > 0 && make('span', { class: 'alarms', title: `${number(alarms)} unexplained` }, `!${number(alarms)}`),
      inside && count > 0 && make('span', { class: 'count', title: plural(count, 'change') }, number(count)));
  }

  spoken(row, marks) {
    const { graph, result } = this.page;
    const count = result.changes[graph.end[row]] - result.changes[row];
    const [before, after] = [BEFORE, AFTER].map((side) => `${graph.opText(row, side)} ${graph.dtypeText(row, side)}`.trim());
    const op = before && after && before !== after ? `${before}, now ${after}` : after || before;
    const words = [graph.label(row), op, ...marks.map((mark) => MARKS[mark][1]), count ? plural(count, 'change') : ''];
    return words.filter(Boolean).join(', ');
  }
}
