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
    this.size = this.columns.row.length;
    this.readPatterns(data.patterns);
    this.ofRow = grouped(this.columns.row, graph.size);
    this.keptOfRow = grouped(this.kept.row, graph.size);
  }

  // Patterns, each with the number of its changes, or of nodes that stayed float32, and the row of the first of them.
  readPatterns(rows) {
    this.patterns = rows.map(([text, category, part, before, after, kind, reason]) => {
      const texts = { text: this.text(text), part: this.text(part), before: this.text(before), after: this.text(after) };
      return { ...texts, category, kind, reason, count: 0, row: NONE };
    });
    for (const { pattern: numbers, row } of [this.columns, this.kept]) {
      numbers.forEach((number, index) => {
        const pattern = this.patterns[number];
        if (!pattern.count++) pattern.row = row[index];
      });
    }
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

  // The patterns of a row's changes and of what kept it in float32.
  patternsOf(row) {
    return [...Array.from(this.ofRow.of(row), (index) => this.columns.pattern[index]), ...Array.from(this.keptOfRow.of(row), (index) => this.kept.pattern[index])];
  }

  // Whether a pattern is one of changes that the report doesn't explain.
  isAlarm(pattern) {
    return this.hasReport && pattern.category !== NONE && pattern.reason === 0;
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
