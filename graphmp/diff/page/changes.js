// What differs and why: changes and reasons for what stayed float32, in columns and by row.

class Changes {
  constructor(data, graph) {
    this.strings = data.strings;
    this.hasReport = data.report;
    this.categories = data.categories;
    this.kinds = data.kinds;
    this.stayedFrom = data.kinds.length - data.stayed; // the kinds from here on say why something stayed float32
    this.columns = data.changes;
    this.kept = data.kept;
    this.patterns = data.patterns.map(([text, category, part, before, after, kind, reason]) => ({
      text: this.strings[text], category, part: this.strings[part], before: this.text(before), after: this.text(after), kind, reason, count: 0, first: NONE,
    }));
    this.size = this.columns.row.length;
    this.columns.pattern.forEach((pattern, change) => {
      const found = this.patterns[pattern];
      if (!found.count++) found.first = change;
    });
    this.ofRow = grouped(this.columns.row, graph.size);
    this.keptOfRow = grouped(this.kept.row, graph.size);
  }

  text(number) {
    return number === NONE ? null : this.strings[number];
  }

  // A pattern in full: where, and what was changed into what.
  patternText({ text, part, before, after }) {
    return [text, [part, [before, after].filter(Boolean).join(' → ')].filter(Boolean).join(': ')].filter(Boolean).join('\n');
  }

  // A change as texts; null for a side that has nothing.
  change(index) {
    const { category, part, before, after, kind, reason, pattern } = this.columns;
    return {
      category: this.categories[category[index]],
      part: this.strings[part[index]],
      before: this.text(before[index]),
      after: this.text(after[index]),
      kind: kind[index] === NONE ? '' : this.kinds[kind[index]],
      reason: this.strings[reason[index]],
      unexplained: this.isUnexplained(index),
      pattern: pattern[index],
    };
  }

  kindNumbers(...names) {
    return names.map((name) => this.kinds.indexOf(name)).filter((kind) => kind !== NONE);
  }

  keptReason(index) {
    const kind = this.kept.kind[index];
    return { kind: kind === NONE ? '' : this.kinds[kind], reason: this.strings[this.kept.reason[index]] };
  }

  isUnexplained(index) {
    return this.hasReport && this.columns.reason[index] === 0;
  }
}

// The indices of a column by the row that stands there: `of(row)` lists them.
function grouped(column, rows) {
  const first = new Int32Array(rows + 1);
  for (const row of column) first[row + 1]++;
  for (let row = 0; row < rows; row++) first[row + 1] += first[row];
  const next = first.slice();
  const index = new Int32Array(column.length);
  column.forEach((row, position) => (index[next[row]++] = position));
  return { of: (row) => index.subarray(first[row], first[row + 1]), count: (row) => first[row + 1] - first[row] };
}
