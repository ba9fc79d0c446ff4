// What is shown, in the part of the address behind #, so that a link leads others to the same place.

const SAVE_AFTER = 200; // ms; browsers refuse to change the address too often
const MOST_TOGGLED = 200; // scopes

class State {
  constructor(page) {
    this.page = page;
    this.timer = 0;
  }

  save() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), SAVE_AFTER);
  }

  write() {
    try {
      history.replaceState(null, '', `#${this.text()}`);
    } catch (error) {
      // A frame without an address of its own, as in a notebook: nothing to link to.
    }
  }

  text() {
    const { filters, graph, selected, drawing, rows } = this.page;
    const values = new URLSearchParams();
    if (selected !== NONE) values.set('node', graph.path(selected));
    if (filters.query) values.set('q', filters.query);
    if (filters.onlyChanged) values.set('only', 'changed');
    for (const group of GROUPS) {
      const names = [...filters.chosen[group]].map((value) => this.nameOf(group, value));
      if (names.length) values.set(group, names.join(','));
    }
    if (drawing.mode !== 'small') values.set('drawing', drawing.mode);
    const open = scopesText(rows.usual, this.page.startOpen);
    if (open) values.set('open', open);
    return values.toString();
  }

  // Puts the page in the state that the address names; what it doesn't name is as at the start.
  restore() {
    const { page } = this;
    const values = new URLSearchParams(location.hash.slice(1));
    page.filters.clear();
    page.filters.query = values.get('q') || '';
    page.filters.onlyChanged = values.has('only');
    for (const group of GROUPS) {
      for (const name of (values.get(group) || '').split(',').filter(Boolean)) {
        const value = this.valueOf(group, name);
        if (value !== undefined) page.filters.chosen[group].add(value);
      }
    }
    page.drawing.mode = MODES.includes(values.get('drawing')) ? values.get('drawing') : 'small';
    readScopes(page.rows.usual, page.startOpen, values.get('open') || '');
    const row = values.has('node') ? page.graph.find(values.get('node')) : NONE;
    page.selected = NONE;
    page.pinned = NONE;
    page.refilter();
    page.select(row);
  }

  names(group) {
    const { changes, claims } = this.page;
    return { category: changes.categories, kind: changes.kinds, claim: claims.map((claim) => claim.name) }[group];
  }

  nameOf(group, value) {
    const names = this.names(group);
    return names ? names[value].replace(/ /g, '_') : String(value);
  }

  valueOf(group, name) {
    if (group === 'status') return ['unexplained', 'explained'].find((status) => status === name);
    const names = this.names(group);
    const index = names ? names.findIndex((other) => other.replace(/ /g, '_') === name) : Number(name);
    return index >= 0 && index < (names || this.page.changes.patterns).length ? index : undefined;
  }
}

// Which scopes are open: how most are (`start`, `all` or `none`), then those that aren't like that. Nothing if all are as at the start.
function scopesText(open, start) {
  const forms = { start, all: new Uint8Array(open.length).fill(1), none: new Uint8Array(open.length) };
  let best = null;
  for (const [name, usual] of Object.entries(forms)) {
    const toggled = [];
    for (let row = 0; row < open.length && toggled.length <= MOST_TOGGLED; row++) if (open[row] !== usual[row]) toggled.push(row.toString(36));
    if (toggled.length <= MOST_TOGGLED && (best === null || toggled.length < best.toggled.length)) best = { name, toggled };
  }
  if (best === null || (best.name === 'start' && !best.toggled.length)) return '';
  return [best.name, ...best.toggled].join('.');
}

function readScopes(open, start, text) {
  const [name, ...toggled] = text.split('.');
  if (name === 'all' || name === 'none') open.fill(name === 'all' ? 1 : 0);
  else open.set(start);
  for (const row of toggled.map((digits) => parseInt(digits, 36))) if (row < open.length) open[row] = 1 - open[row];
}
