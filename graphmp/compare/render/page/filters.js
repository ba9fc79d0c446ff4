// Which changes and which rows are asked for. Choices of one group are alternatives; what different groups ask for must all hold.

const GROUPS = ['status', 'category', 'kind', 'pattern', 'claim'];

class Filters {
  constructor(graph, changes, claims) {
    this.graph = graph;
    this.changes = changes;
    this.claims = claims;
    this.clear();
  }

  clear() {
    this.chosen = Object.fromEntries(GROUPS.map((group) => [group, new Set()]));
    this.query = '';
    this.onlyChanged = false;
  }

  toggle(group, value) {
    const chosen = this.chosen[group];
    if (!chosen.delete(value)) chosen.add(value);
  }

  // One choice and nothing else.
  choose(group, values) {
    this.clear();
    for (const value of values) this.chosen[group].add(value);
  }

  get active() {
    return this.narrow || this.onlyChanged;
  }

  // Whether more is asked for than what changed: then few rows are left, and their scopes are opened.
  get narrow() {
    return this.query !== '' || GROUPS.some((group) => this.chosen[group].size > 0);
  }

  // The patterns whose changes have the status, category and kind that are asked for.
  fittingPatterns() {
    const { status, category, kind } = this.chosen;
    const claimed = this.claimedPatterns();
    const fits = (pattern, index) =>
      (!status.size || (pattern.category !== NONE && status.has(this.changes.isAlarm(pattern) ? 'unexplained' : 'explained'))) &&
      (!category.size || category.has(pattern.category)) &&
      (!kind.size || kind.has(pattern.kind)) &&
      (!claimed || claimed.has(index));
    return this.changes.patterns.map((_, index) => index).filter((index) => fits(this.changes.patterns[index], index));
  }

  // The patterns of the rows that the chosen claims name; null where no claim is chosen.
  claimedPatterns() {
    const rows = this.claimedRows();
    return rows && new Set([...rows].flatMap((row) => this.changes.patternsOf(row)));
  }

  // What is left:
  //   rows: 1 for each row that is asked for
  //   changes, unexplained: how many of the changes that are asked for stand above each row, so that a scope's are a difference
  evaluate() {
    const size = this.graph.size;
    const changeWanted = this.wantedChanges();
    const keptWanted = this.wantedKept();
    const asksForChanges = changeWanted !== null;
    const text = this.textTest();
    const claimed = this.claimedRows();
    const result = { rows: new Uint8Array(size), changes: new Int32Array(size + 1), unexplained: new Int32Array(size + 1), matches: 0 };
    for (let row = 0; row < size; row++) {
      let found = 0;
      let unexplained = 0;
      for (const change of this.changes.ofRow.of(row)) {
        if (asksForChanges && !changeWanted[change]) continue;
        found++;
        unexplained += this.changes.isUnexplained(change) ? 1 : 0;
      }
      const kept = !asksForChanges || (!found && this.changes.keptOfRow.of(row).some((index) => keptWanted[index]));
      const wanted = (found || (kept && !this.onlyChanged)) && (!claimed || claimed.has(row)) && text(row);
      result.rows[row] = wanted ? 1 : 0;
      result.matches += result.rows[row];
      result.changes[row + 1] = result.changes[row] + (wanted ? found : 0);
      result.unexplained[row + 1] = result.unexplained[row] + (wanted ? unexplained : 0);
    }
    return result;
  }

  // 1 for each change that is asked for; null where nothing is asked of changes.
  wantedChanges() {
    const { status, category, kind, pattern } = this.chosen;
    if (!status.size && !category.size && !kind.size && !pattern.size) return null;
    const columns = this.changes.columns;
    return Uint8Array.from({ length: this.changes.size }, (_, change) =>
      (!status.size || status.has(this.changes.isUnexplained(change) ? 'unexplained' : 'explained')) &&
      (!category.size || category.has(columns.category[change])) &&
      (!kind.size || kind.has(columns.kind[change])) &&
      (!pattern.size || pattern.has(columns.pattern[change])) ? 1 : 0);
  }

  // What stayed float32 has a kind and a pattern, and nothing else that one could ask for.
  wantedKept() {
    const { status, category, kind, pattern } = this.chosen;
    const none = status.size || category.size || !(kind.size || pattern.size);
    const { kept } = this.changes;
    return Uint8Array.from(kept.kind, (found, index) =>
      (!none && (!kind.size || kind.has(found)) && (!pattern.size || pattern.has(kept.pattern[index])) ? 1 : 0));
  }

  claimedRows() {
    return this.chosen.claim.size ? new Set([...this.chosen.claim].flatMap((claim) => this.claims[claim].rows)) : null;
  }

  // Whether a row has all words of the search in its names and ops.
  textTest() {
    const words = this.query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return () => true;
    const texts = this.searchTexts;
    return (row) => texts[row] !== '' && words.every((word) => texts[row].includes(word));
  }

  // Names and ops of each row in small letters; nothing for a scope that is no node.
  get searchTexts() {
    if (!this.madeTexts) {
      const graph = this.graph;
      this.madeTexts = graph.paths.map((path, row) => {
        if (!graph.isNode(row) && this.changes.ofRow.count(row) === 0) return '';
        const [before, after] = [graph.opText(row, BEFORE), graph.opText(row, AFTER)];
        return [path, graph.renamed.get(row) || '', before, after === before ? '' : after].join('\n').toLowerCase();
      });
    }
    return this.madeTexts;
  }
}
