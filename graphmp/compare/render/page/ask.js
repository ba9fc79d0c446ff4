// The questions of a review: always in sight, each a button with the number of its answers.

const QUESTIONS = [
  ['What does the report not explain?', () => ['status', ['unexplained']]],
  ['What stayed float32, and why?', ({ changes }) => ['kind', changes.kinds.map((_, kind) => kind).slice(changes.stayedFrom)]],
  ['Where does the loss scale enter, leave?', (page) => claimedOr(page, 'scale cancels', 'scale', 'unscale')],
  ['What happens on an overflow?', ({ changes }) => ['kind', changes.kindNumbers('finite check', 'skip gate')]],
  ['Where do float32 and half meet?', ({ changes }) => ['kind', changes.kindNumbers('cast down', 'cast up')]],
  ['Which variables stayed float32?', (page) => claimedOr(page, 'variables', 'variable kept')],
];

class Ask {
  constructor(page) {
    this.page = page;
    this.buttons = [];
    const items = page.changes.size ? [...QUESTIONS.map((question) => this.item(...question)), this.layers()].filter(Boolean) : [];
    byId('ask').hidden = !items.length;
    byId('questions').append(...items);
    if (window.matchMedia('(max-width: 760px)').matches) byId('ask').removeAttribute('open');
  }

  // A question with the number of its answers; null where there are none.
  item(text, asks) {
    const { totals, claims } = this.page;
    const [group, values] = asks(this.page);
    const counts = { status: () => totals.unexplained, claim: (value) => claims[value].rows.length, kind: (value) => totals.kind[value] };
    const count = values.map(counts[group]).reduce((sum, found) => sum + found, 0);
    return count ? this.question(text, count, group, values, () => this.page.ask(group, values)) : null;
  }

  // The patterns of what changed dtype: the layers, without what was added around them.
  layers() {
    const { changes } = this.page;
    const dtype = changes.categories.indexOf('dtype');
    const shared = changes.patterns.map((_, index) => index).filter((index) => changes.patterns[index].category === dtype && changes.patterns[index].count > 1);
    return shared.length ? this.question('Which layers changed alike?', shared.length, 'pattern', shared, () => this.page.ask('pattern', shared)) : null;
  }

  question(text, count, group, values, answer) {
    const ask = () => (this.isAsked(group, values) ? this.page.clear() : answer());
    const button = make('button', { type: 'button', class: 'question', onclick: ask }, make('span', {}, text), make('span', { class: 'choice-count' }, number(count)));
    this.buttons.push([button, group, values]);
    return make('li', {}, button);
  }

  isAsked(group, values) {
    const { chosen } = this.page.filters;
    return GROUPS.every((other) => chosen[other].size === (other === group ? values.length : 0)) && values.every((value) => chosen[group].has(value));
  }

  show() {
    for (const [button, group, values] of this.buttons) button.setAttribute('aria-pressed', String(this.isAsked(group, values)));
  }
}

// A claim names the variables or scales themselves; the reasons also what reads and writes them.
function claimedOr({ claims, changes }, title, ...kinds) {
  const claim = claims.findIndex(({ name, rows }) => name === title && rows.length > 0);
  return claim === NONE ? ['kind', changes.kindNumbers(...kinds)] : ['claim', [claim]];
}
