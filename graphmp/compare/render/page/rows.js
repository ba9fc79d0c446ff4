// Which rows of the tree show: those that the filters leave, with the scopes around them, as far as scopes are open.

const FIRST_ROWS = 500; // rows up to which scopes that hold changes are opened at the start
const FEW_MATCHES = 2000; // rows up to which the scopes around matches are opened

class Rows {
  constructor(graph) {
    this.graph = graph;
    this.usual = new Uint8Array(graph.size); // which scopes are open
    this.narrowed = new Uint8Array(graph.size); // the same while a filter is on
    this.open = this.usual; // the one of them that counts
    this.included = new Uint8Array(graph.size);
    this.positions = new Int32Array(graph.size); // where a row shows; NONE where it doesn't
  }

  // With a filter scopes open and close without any effect on how they are without one.
  narrow(on) {
    this.open = on ? this.narrowed : this.usual;
  }

  // Takes over what the filters leave; `pinned` shows although it isn't asked for.
  filter(result, active, pinned) {
    const { parent, size } = this.graph;
    if (active) this.included.set(result.rows);
    else this.included.fill(1);
    if (pinned !== NONE) this.included[pinned] = 1;
    for (let row = size - 1; row >= 0; row--) if (this.included[row] && parent[row] !== NONE) this.included[parent[row]] = 1;
    this.lay();
  }

  // Closes all, then opens scopes level by level as long as no more than `most` rows show: those for which `worth` holds.
  openSome(most, worth) {
    this.open.fill(0);
    let level = this.children(NONE);
    let shown = level.length;
    while (level.length) {
      const next = [];
      for (const row of level) {
        if (!this.graph.hasChildren(row) || !worth(row)) continue;
        const children = this.children(row);
        if (shown + children.length > most && level.length > 1) continue; // one scope around all shows nothing by itself
        shown += children.length;
        this.open[row] = 1;
        next.push(...children);
      }
      level = next;
    }
    this.lay();
  }

  openAll(open) {
    this.open.fill(open ? 1 : 0);
    this.lay();
  }

  toggle(row, open = !this.open[row]) {
    this.open[row] = open ? 1 : 0;
    this.lay();
  }

  // Opens the scopes around a row.
  reveal(row) {
    if (this.positions[row] !== NONE) return;
    for (let scope = this.graph.parent[row]; scope !== NONE; scope = this.graph.parent[scope]) this.open[scope] = 1;
    this.lay();
  }

  // The rows right inside a scope that the filters leave.
  children(scope) {
    const { end, size } = this.graph;
    const found = [];
    const stop = scope === NONE ? size : end[scope];
    for (let row = scope === NONE ? 0 : scope + 1; row < stop; row = end[row]) if (this.included[row]) found.push(row);
    return found;
  }

  // Lists the rows that show, and for each its place among those of its scope.
  lay() {
    const { end, parent, size } = this.graph;
    this.visible = [];
    this.place = [];
    this.siblings = new Map(); // scope: how many rows show right inside
    this.positions.fill(NONE);
    for (let row = 0; row < size; row = this.open[row] && this.included[row] ? row + 1 : end[row]) {
      if (!this.included[row]) continue;
      const place = (this.siblings.get(parent[row]) || 0) + 1;
      this.siblings.set(parent[row], place);
      this.positions[row] = this.visible.length;
      this.visible.push(row);
      this.place.push(place);
    }
  }

  // Whether an open or closed mark belongs to a row: whether the filters leave anything inside.
  hasInside(row) {
    const { end } = this.graph;
    for (let inside = row + 1; inside < end[row]; inside = end[inside]) if (this.included[inside]) return true;
    return false;
  }
}
