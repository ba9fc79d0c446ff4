// What the right column has as long as nothing is selected: the questions of a review, and what the marks mean.

const QUESTIONS = [
  ['What does the report not explain?', () => ['status', ['unexplained']]],
  ['Which variables stayed float32?', (page) => checkedOr(page, 'variables', 'variable kept')],
  ['What stayed float32, and why?', ({ changes }) => ['kind', changes.kinds.map((_, kind) => kind).slice(changes.stayedFrom)]],
  ['Where does the loss scale enter, leave?', (page) => checkedOr(page, 'loss scale cancels', 'scale', 'unscale')],
  ['What happens on an overflow?', ({ changes }) => ['kind', changes.kindNumbers('finite check', 'skip gate')]],
  ['Where do float32 and half meet?', ({ changes }) => ['kind', changes.kindNumbers('cast down', 'cast up')]],
];

// A check names the variables or scales themselves; the reasons also what reads and writes them.
function checkedOr({ checks, changes }, title, ...kinds) {
  const check = checks.findIndex(({ name, rows }) => name === title && rows.length > 0);
  return check === NONE ? ['kind', changes.kindNumbers(...kinds)] : ['check', [check]];
}

function overview(page) {
  if (!page.changes.size) {
    return [make('h2', {}, 'No changes'), make('p', { class: 'hint' }, 'The two graphs are the same, but perhaps for the order of their nodes.')];
  }
  const questions = [...QUESTIONS.map((question) => questionItem(page, ...question)), layersItem(page)].filter(Boolean);
  return [
    questions.length > 0 && make('h2', {}, 'Ask'),
    questions.length > 0 && make('ul', { class: 'questions' }, ...questions),
    make('h2', {}, 'Marks'),
    make('ul', { class: 'legend' }, ...Object.keys(MARKS).filter((mark) => mark !== 'unexplained' || page.changes.hasReport)
      .map((mark) => make('li', {}, markElement(mark), ` ${MARKS[mark][1]}`)),
    make('li', {}, make('span', { class: 'half' }, 'float16'), ' half precision')),
    make('p', { class: 'hint' }, 'Select a row for its details. ', make('kbd', {}, '?'), ' lists the keys.'),
  ];
}

// A question with the number of its answers; null where there are none.
function questionItem(page, text, asks) {
  const { totals, checks } = page;
  const [group, values] = asks(page);
  const counts = { status: () => totals.unexplained, check: (value) => checks[value].rows.length, kind: (value) => totals.kind[value] };
  const count = values.map(counts[group]).reduce((sum, found) => sum + found, 0);
  return count ? question(text, count, () => page.ask(group, values)) : null;
}

// The patterns of what changed dtype: the layers, without what was added around them.
function layersItem(page) {
  const { changes } = page;
  const dtype = changes.categories.indexOf('dtype');
  const shared = changes.patterns.filter((pattern) => pattern.category === dtype && pattern.count > 1).length;
  const answer = () => {
    page.ask('category', [dtype]);
    page.nextPattern(1);
  };
  return shared ? question('Which layers changed alike?', shared, answer) : null;
}

function question(text, count, answer) {
  return make('li', {}, make('button', { type: 'button', class: 'question', onclick: answer },
    make('span', {}, text), make('span', { class: 'choice-count' }, number(count))));
}
