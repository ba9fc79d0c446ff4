// The left column: what can be asked for, with counts, and the patterns.

const PATTERN_HEIGHT = 44;
const LONGEST_TAIL = 16; // letters of a pattern's end that always show

class Panel {
  constructor(page) {
    this.page = page;
    this.buttons = [];
    const { changes } = page;
    this.fillStatus();
    this.group('categories', 'category', changes.categories.map((name, value) => [value, name]), page.totals.category);
    const kinds = changes.kinds.map((name, value) => [value, name]);
    this.group('changed', 'kind', kinds.slice(0, changes.stayedFrom), page.totals.kind);
    this.group('stayed', 'kind', kinds.slice(changes.stayedFrom), page.totals.kind);
    this.patterns = new List(byId('patterns'), PATTERN_HEIGHT, (index) => this.pattern(index));
    byId('pattern-section').hidden = !changes.patterns.length;
  }

  fillStatus() {
    const { changes, totals } = this.page;
    if (!changes.hasReport) return;
    const counts = { unexplained: totals.unexplained, explained: changes.size - totals.unexplained };
    this.group('status', 'status', [['unexplained', 'unexplained'], ['explained', 'explained']], counts);
  }

  // One group of buttons; those that stand for nothing are left out, and so is a group of none.
  group(id, group, choices, counts) {
    const used = choices.filter(([value]) => counts[value] > 0);
    byId(id).hidden = !used.length;
    byId(id).append(...used.map(([value, name]) => this.button(group, value, name, counts[value])));
  }

  button(group, value, name, count) {
    const button = make('button', {
      type: 'button', class: `choice ${group} ${name === 'unexplained' ? 'alarm' : ''}`.trim(), 'data-group': group, 'data-value': value,
      onclick: () => this.page.toggleFilter(group, value),
    }, make('span', { class: 'choice-name' }, name), make('span', { class: 'choice-count' }, number(count)));
    this.buttons.push([button, group, value]);
    return button;
  }

  // The pattern in that place of the list.
  pattern(place) {
    const { changes, filters } = this.page;
    const index = this.fitting[place];
    const pattern = changes.patterns[index];
    const tail = tailOf(pattern.text);
    const kind = pattern.kind === NONE ? '' : changes.kinds[pattern.kind];
    const what = pattern.category === NONE ? 'stayed float32' : changes.categories[pattern.category];
    return make('button', {
      type: 'button', class: changes.isAlarm(pattern) ? 'pattern alarm' : 'pattern', title: changes.patternText(pattern),
      'aria-pressed': String(filters.chosen.pattern.has(index)),
      onclick: () => this.page.toggleFilter('pattern', index),
    },
    make('span', { class: 'pattern-text' }, make('span', {}, pattern.text.slice(0, tail)), make('span', {}, pattern.text.slice(tail))),
    make('span', { class: 'choice-count' }, `\u00d7 ${number(pattern.count)}`),
    make('span', { class: 'pattern-what' }, `${what}${kind ? ` \u00b7 ${kind}` : ''}`));
  }

  show() {
    const { filters } = this.page;
    for (const [button, group, value] of this.buttons) button.setAttribute('aria-pressed', String(filters.chosen[group].has(value)));
    this.fitting = filters.fittingPatterns();
    const all = this.page.changes.patterns.length;
    byId('pattern-count').textContent = this.fitting.length === all ? number(all) : `${number(this.fitting.length)} of ${number(all)}`;
    byId('pattern-title').textContent = filters.narrow ? 'Answers' : 'Patterns';
    byId('patterns').scrollTop = 0;
    this.patterns.reset(this.fitting.length);
  }

  scrollToPattern(index) {
    this.patterns.scrollTo(this.fitting.indexOf(index));
  }
}

// Where the end of a name begins that shows however little room there is: at its last part, if that isn't long.
function tailOf(text) {
  const last = text.lastIndexOf('/');
  return last !== NONE && text.length - last <= LONGEST_TAIL ? last : Math.max(0, text.length - Math.min(LONGEST_TAIL, Math.ceil(text.length / 2)));
}
