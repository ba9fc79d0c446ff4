// The keyboard: one table for the keys and for the help that lists them.

const KEYS = [
  ['j', 'k', 'next, previous row', (page) => page.step(1), (page) => page.step(-1)],
  ['n', 'p', 'next, previous change', (page) => page.nextChange(1), (page) => page.nextChange(-1)],
  ['N', 'P', 'next, previous pattern', (page) => page.nextPattern(1), (page) => page.nextPattern(-1)],
  ['o', null, 'only what changed, or all', (page) => page.toggleOnlyChanged()],
  ['/', null, 'search names and ops', (page) => byId('search').select()],
  ['a', 'm', 'ask a question, go to the map', () => focusQuestion(), (page) => page.map.focus()],
  ['s', null, 'the summary: hide, show', (page) => page.toggleReview()],
  ['g', null, 'drawing: larger, off, small', (page) => page.drawing.cycle()],
  ['e', 'c', 'expand all, collapse all', (page) => page.openAll(true), (page) => page.openAll(false)],
  ['Escape', null, 'step by step: large drawing, filters, selection', (page) => page.leave()],
  ['?', null, 'this help', () => byId('help').showModal()],
];

// Keys of the tree itself, as of any tree.
const TREE_KEYS = {
  ArrowDown: (page) => page.step(1),
  ArrowUp: (page) => page.step(-1),
  ArrowRight: (page) => page.inward(),
  ArrowLeft: (page) => page.outward(),
  PageDown: (page) => page.step(page.tree.list.pageSize),
  PageUp: (page) => page.step(-page.tree.list.pageSize),
  Home: (page) => page.step(-Infinity),
  End: (page) => page.step(Infinity),
  Enter: (page) => page.toggle(page.selected),
  ' ': (page) => page.toggle(page.selected),
};

const TREE_HELP = [['\u2191 \u2193 \u2190 \u2192', 'rows; close, open'], ['Enter Space', 'open or close a scope'], ['Home End', 'first, last row']];

function listenToKeys(page) {
  const actions = new Map();
  for (const [first, second, , onFirst, onSecond] of KEYS) {
    actions.set(first, onFirst);
    if (second) actions.set(second, onSecond);
  }
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || byId('help').open) return;
    if (event.target === byId('search')) return searchKey(page, event);
    const inTree = event.target === document.body || event.target === byId('tree');
    const action = (inTree && TREE_KEYS[event.key]) || actions.get(event.key);
    if (!action) return;
    event.preventDefault();
    action(page);
  });
  byId('help').addEventListener('keydown', (event) => event.key === '?' && byId('help').close());
}

// The first question, or the one that is asked.
function focusQuestion() {
  byId('ask').open = true;
  const button = byId('ask').querySelector('[aria-pressed=true]') || byId('ask').querySelector('button');
  if (button) button.focus();
}

// In the search box: back to the tree with Enter and the arrow, without the search by Escape.
function searchKey(page, event) {
  if (event.key === 'Escape') page.search('');
  else if (event.key !== 'Enter' && event.key !== 'ArrowDown') return;
  event.preventDefault();
  byId('tree').focus();
  if (event.key !== 'Escape' && page.selected === NONE) page.nextChange(1);
}

function fillHelp() {
  const line = (keys, text) => make('div', {}, make('dt', {}, ...keys.map((key) => make('kbd', {}, key))), make('dd', {}, text));
  byId('keys').append(
    ...KEYS.map(([first, second, text]) => line([first === 'Escape' ? 'Esc' : first, second].filter(Boolean), text)),
    ...TREE_HELP.map(([keys, text]) => line(keys.split(' '), text)));
}
