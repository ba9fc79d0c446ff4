// The map: the converted graph by name scope. A box is as wide as there are nodes inside, or matmuls and convolutions; its colours are their dtypes.

const MAP_CLASSES = ['half', 'cast', 'scale', 'float32', 'other'];
const SCALE_KINDS = ['scale', 'unscale', 'finite check', 'clip', 'skip gate', 'loss scale state'];
const NO_CLASS = 255; // of a row that is no node of the converted graph
const MAP_LEVELS = 4;
const NARROWEST = 7; // px; what is narrower goes into one box with the others
const LEGIBLE = 26; // px a box needs for letters

class ScopeMap {
  constructor(page, work) {
    this.page = page;
    this.root = NONE; // the scope that fills the map
    this.classes = classesOf(page.graph, page.changes);
    this.sizes = [['nodes', this.summed(() => true)], ['matmuls and convolutions', this.summed((row) => work.has(page.graph.opText(row, AFTER)))]];
    this.size = 0;
    this.element = byId('map-boxes');
    this.element.addEventListener('keydown', (event) => this.key(event));
    byId('map').hidden = !this.weight(NONE);
    this.fillBar();
    new ResizeObserver(() => this.element.clientWidth !== this.width && this.show()).observe(this.element);
    this.show(); // at once: it takes room from the tree
  }

  // For each class how many of the rows that count stand above each row.
  summed(counts) {
    const { size } = this.page.graph;
    const sums = MAP_CLASSES.map(() => new Int32Array(size + 1));
    for (let row = 0; row < size; row++) {
      const counted = this.classes[row] !== NO_CLASS && counts(row) ? this.classes[row] : NO_CLASS;
      sums.forEach((sum, index) => (sum[row + 1] = sum[row] + (index === counted ? 1 : 0)));
    }
    return sums;
  }

  // How much of each class a scope holds; NONE is the whole graph.
  parts(row, sums = this.sizes[this.size][1]) {
    const [from, to] = row === NONE ? [0, this.page.graph.size] : [row, this.page.graph.end[row]];
    return sums.map((sum) => sum[to] - sum[from]);
  }

  weight(row) {
    return total(this.parts(row));
  }

  fillBar() {
    const all = this.parts(NONE, this.sizes[0][1]);
    const shown = MAP_CLASSES.map((_, index) => index).filter((index) => all[index]);
    byId('map-legend').append(...shown.map((index) => make('li', {},
      make('span', { class: `swatch map-${MAP_CLASSES[index]}` }), ` ${this.word(index)} `, make('span', { class: 'choice-count' }, number(all[index])))));
    const choose = (size) => () => {
      this.size = size;
      this.root = NONE;
      this.show();
    };
    const some = total(this.parts(NONE, this.sizes[1][1])) > 0;
    this.sizeButtons = some ? this.sizes.map(([name], size) => make('button', { type: 'button', onclick: choose(size) }, name)) : [];
    byId('map-sizes').append(...(some ? ['by ', ...this.sizeButtons] : []));
    byId('map-whole').addEventListener('click', () => this.zoom(NONE));
  }

  word(index) {
    return { half: this.page.halfWord, cast: 'cast', scale: 'loss scale', float32: 'float32', other: 'other' }[MAP_CLASSES[index]];
  }

  show() {
    this.width = this.element.clientWidth;
    this.boxes = mapBoxes(this, this.width);
    this.elements = this.boxes.map((box) => this.boxElement(box));
    this.element.replaceChildren(...this.elements);
    this.element.style.height = `${(Math.max(0, ...this.boxes.map(({ level }) => level)) + 1) * 21}px`;
    this.sizeButtons.forEach((button, size) => button.setAttribute('aria-pressed', String(size === this.size)));
    byId('map-whole').hidden = this.root === NONE;
    this.showSelected();
  }

  boxElement(box) {
    const { row, level, x, width, parts, rest } = box;
    const { graph } = this.page;
    const mixed = parts.map((part, index) => part && `${number(part)} ${this.word(index)}`).filter(Boolean).join(', ');
    const name = rest ? `${plural(rest, 'more scope')} of ${row === NONE ? 'the graph' : graph.path(row)}` : graph.path(row);
    const text = `${name}: ${plural(total(parts), this.size ? 'matmul or convolution' : 'node').replace('matmul or convolutions', 'matmuls and convolutions')} (${mixed})`;
    const element = make('button', {
      type: 'button', class: rest ? 'map-box rest' : 'map-box', title: text, 'aria-label': text, tabindex: -1, 'data-row': row,
      onclick: () => this.choose(box),
    }, width >= LEGIBLE && (rest ? `+${number(rest)}` : graph.label(row)));
    element.style.left = `${x}px`;
    element.style.width = `${Math.max(1, width - 1)}px`;
    element.style.top = `${level * 21}px`;
    element.style.backgroundImage = bands(parts);
    return element;
  }

  // Selects a scope in the tree; once it is selected, fills the map with it.
  choose({ row, rest }) {
    if (row === NONE) return;
    if (this.page.selected === row || rest) this.zoom(row === this.root ? this.page.graph.parent[row] : row);
    else this.page.select(row);
  }

  zoom(row) {
    this.root = row !== NONE && !this.page.graph.hasChildren(row) ? this.root : row;
    this.show();
    this.focus();
  }

  // The box of the selected row, or of the innermost scope around it that has one.
  showSelected() {
    if (!this.boxes) return;
    const { graph, selected } = this.page;
    const place = new Map(this.boxes.map((box, index) => [box.rest ? NONE : box.row, index]));
    let row = selected;
    while (row !== NONE && !place.has(row)) row = graph.parent[row];
    this.current = row === NONE ? 0 : place.get(row);
    this.elements.forEach((element, index) => {
      element.tabIndex = index === this.current ? 0 : -1;
      if (row !== NONE && index === this.current) element.setAttribute('aria-current', 'true');
      else element.removeAttribute('aria-current');
    });
  }

  focus() {
    if (this.elements[this.current]) this.elements[this.current].focus();
  }

  key(event) {
    const from = this.elements.indexOf(event.target);
    const next = from === NONE ? undefined : this.neighbour(from, event.key);
    if (event.key === 'Escape' && this.root !== NONE) this.zoom(NONE);
    else if (next === undefined) return;
    else if (next !== NONE) {
      this.elements[from].tabIndex = -1;
      this.elements[next].tabIndex = 0;
      this.elements[next].focus();
    }
    event.preventDefault();
  }

  // The box at left or right on the same level, the first one below, the one above; undefined for a key that moves nothing.
  neighbour(from, key) {
    const { level, x, width } = this.boxes[from];
    const find = (wanted) => this.boxes.findIndex(wanted);
    if (key === 'ArrowRight') return find((box) => box.level === level && box.x > x);
    if (key === 'ArrowLeft') return this.boxes.reduce((best, box, index) => (box.level === level && box.x < x ? index : best), NONE);
    if (key === 'ArrowDown') return find((box) => box.level === level + 1 && box.x >= x - 1 && box.x < x + width);
    if (key === 'ArrowUp') return find((box) => box.level === level - 1 && box.x <= x + 1 && box.x + box.width > x);
    return undefined;
  }
}

function total(parts) {
  return parts.reduce((sum, part) => sum + part, 0);
}

// The boxes from the top level on, each scope before those inside it: row, level, x and width in px, its parts. With `rest`, that many scopes of
// `row` that are too narrow for boxes of their own.
function mapBoxes(map, width) {
  const { graph } = map.page;
  const boxes = [];
  const lay = (scope, level, x, scale) => {
    const [from, stop] = scope === NONE ? [0, graph.size] : [scope + 1, graph.end[scope]];
    const rest = { row: scope, level, rest: 0, parts: MAP_CLASSES.map(() => 0) };
    for (let row = from; row < stop; row = graph.end[row]) {
      const parts = map.parts(row);
      const wide = total(parts) * scale;
      if (wide >= NARROWEST) {
        boxes.push({ row, level, x, width: wide, parts, rest: 0 });
        if (level + 1 < MAP_LEVELS) lay(row, level + 1, x, scale);
        x += wide;
      } else if (wide) {
        rest.rest++;
        rest.parts.forEach((_, index) => (rest.parts[index] += parts[index]));
      }
    }
    const wide = total(rest.parts) * scale;
    if (wide >= 2) boxes.push({ ...rest, x, width: wide });
  };
  const scale = width / Math.max(1, map.weight(map.root));
  if (map.root === NONE) lay(NONE, 0, 0, scale);
  else {
    boxes.push({ row: map.root, level: 0, x: 0, width, parts: map.parts(map.root), rest: 0 });
    lay(map.root, 1, 0, scale);
  }
  return boxes;
}

// Bands of colour, each as wide as its part.
function bands(parts) {
  const sum = total(parts);
  let from = 0;
  const stops = parts.map((part, index) => {
    const to = from + (100 * part) / sum;
    const stop = part && `var(--map-${MAP_CLASSES[index]}) ${from.toFixed(2)}% ${to.toFixed(2)}%`;
    from = to;
    return stop;
  });
  return `linear-gradient(90deg, ${stops.filter(Boolean).join(', ')})`;
}

// What each row's node counts as: the number in MAP_CLASSES.
function classesOf(graph, changes) {
  const number = Object.fromEntries(MAP_CLASSES.map((name, index) => [name, index]));
  const scaling = new Set(changes.kindNumbers(...SCALE_KINDS));
  const added = changes.categories.indexOf('node added');
  const found = new Uint8Array(graph.size).fill(NO_CLASS);
  const cast = graph.strings.indexOf('Cast');
  const ours = topScope(graph, 'graphmp');
  for (let row = 0; row < graph.size; row++) {
    const record = graph.at[AFTER][row];
    if (record === NONE) continue;
    const dtypes = graph.dtypeText(row, AFTER).split('\u2192');
    if (ours !== NONE && row >= ours && row < graph.end[ours]) found[row] = number.scale;
    else if (dtypes.some((dtype) => HALF.has(dtype))) found[row] = graph.op[record] === cast ? number.cast : number.half;
    else found[row] = dtypes[0] === 'float32' ? number.float32 : number.other;
  }
  changes.columns.row.forEach((row, change) => {
    const isScale = changes.columns.category[change] === added && scaling.has(changes.columns.kind[change]);
    if (isScale && found[row] !== NO_CLASS) found[row] = number.scale;
  });
  return found;
}

// The row of a scope at the top; NONE where there is none.
function topScope(graph, label) {
  for (let row = 0; row < graph.size; row = graph.end[row]) if (graph.label(row) === label) return row;
  return NONE;
}
