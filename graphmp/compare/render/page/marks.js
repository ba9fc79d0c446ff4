// How a row's difference is marked: by a sign as well as by a colour.

const MARKS = {
  unexplained: ['!', 'unexplained'],
  added: ['+', 'added'],
  removed: ['\u2212', 'removed'],
  renamed: ['\u2192', 'renamed'],
  changed: ['~', 'changed'],
};

const MARK_OF_CATEGORY = { 'node added': 'added', 'node removed': 'removed', 'node renamed': 'renamed' };

// The kinds of marks of a row itself, the one that counts most first.
function marksOf(changes, row) {
  const found = new Set();
  for (const index of changes.ofRow.of(row)) {
    if (changes.isUnexplained(index)) found.add('unexplained');
    found.add(MARK_OF_CATEGORY[changes.categories[changes.columns.category[index]]] || 'changed');
  }
  return Object.keys(MARKS).filter((mark) => found.has(mark));
}

function markElement(mark) {
  return make('span', { class: `mark ${mark}`, title: MARKS[mark][1] }, MARKS[mark][0]);
}

// Why a row is as it is, in a word or two: the kind of its first change, or of what kept it in float32.
function whyOf(changes, row) {
  const [change] = changes.ofRow.of(row);
  if (change !== undefined) {
    const found = changes.change(change);
    return { text: found.unexplained ? 'unexplained' : found.kind || found.category, kept: false };
  }
  const [kept] = changes.keptOfRow.of(row);
  return kept === undefined ? null : { text: changes.keptReason(kept).kind, kept: true };
}
